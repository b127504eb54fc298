use super::*;
use crate::tests::{each_seed, unit};

const STEP: u64 = 100;
const CYCLE: u64 = 1000;

#[test]
fn above_the_bound_it_closes_by_halves_and_below_half_of_it_opens_by_steps() {
    let mut valve = Valve::new(100.0, STEP, CYCLE, Nanos(0));
    let steps = [
        (1, 100.0, 1.0),
        (2, 101.0, 0.5), // The first step is taken at once.
        (50, 500.0, 0.5),
        (102, 500.0, 0.25),
        (202, 80.0, 0.25), // Between the marks it stays.
        (302, 49.0, 0.35),
        (350, 0.0, 0.35),
        (402, 0.0, 0.45),
    ];
    for (now, queue, opening) in steps {
        assert!((valve.update(Nanos(now), queue) - opening).abs() < 1e-9, "at {now}: {}", valve.opening());
    }
    assert_eq!(valve.update(Nanos(403), f64::NAN), 1.0, "not held back without a reason");
}

#[test]
fn it_never_closes_wholly_and_opens_again() {
    let mut valve = Valve::new(100.0, STEP, CYCLE, Nanos(0));
    let now = |step: u64| Nanos(step * STEP);
    for step in 1..50 {
        valve.update(now(step), 1e9);
    }
    assert_eq!(valve.opening(), OPENING_MIN);
    for step in 50..70 {
        valve.update(now(step), 0.0);
    }
    assert_eq!(valve.opening(), 1.0);
}

#[test]
fn sources_run_for_the_opening_part_of_each_cycle() {
    let mut valve = Valve::new(100.0, STEP, CYCLE, Nanos(0));
    assert!((0..CYCLE).all(|now| valve.lets_in(Nanos(now))) && valve.next_change(Nanos(5)).is_none());
    for (step, opening) in [(1, 0.5), (2, 0.25), (3, 0.125)] {
        assert_eq!(valve.update(Nanos(step * STEP), 101.0), opening);
        let open = (0..CYCLE).filter(|now| valve.lets_in(Nanos(7 * CYCLE + now))).count() as f64;
        assert_eq!(open, opening * CYCLE as f64);
    }
    for now in 0..2 * CYCLE {
        let change = valve.next_change(Nanos(now)).expect("it is not fully open");
        assert!(change > Nanos(now) && valve.lets_in(change) != valve.lets_in(Nanos(now)), "{now}");
        assert!((now..change.0).all(|before| valve.lets_in(Nanos(before)) == valve.lets_in(Nanos(now))), "{now}");
    }
}

/// A queue that fills at ten times the rate at which it is emptied stays near the bound, and the valve lets
/// in what is emptied.
#[test]
fn the_queue_settles_near_the_bound_without_starving_its_operator() {
    each_seed(20, |rng| {
        let mut valve = Valve::new(1000.0, STEP, CYCLE, Nanos(0));
        let (mut queue, mut idle, mut greatest) = (0.0_f64, 0_u32, 0.0_f64);
        for now in 0..100_000 {
            queue += if valve.lets_in(Nanos(now)) { 10.0 * (0.5 + unit(rng)) } else { 0.0 };
            idle += u32::from(queue < 1.0 && now > 10_000);
            queue = (queue - 1.0).max(0.0);
            if now % 20 == 0 {
                valve.update(Nanos(now), queue);
            }
            if now > 10_000 {
                greatest = greatest.max(queue);
            }
        }
        assert!(greatest < 6000.0, "{greatest}");
        assert!(idle < 9000, "the operator was idle for {idle} of 90000 steps");
    });
}
