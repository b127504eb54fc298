//! Each policy against fair sharing on the simulated machine: from readings to nice values, by all parts of
//! this crate.

use anabranch_model::Rng;

use super::Machine;
use super::workload::syn;
use crate::{
    Aggregate, Grouping, Nodes, POLICY_NAMES, Policy, Provider, Range, Transform, Window, by_name, normalize, to_tasks,
};

/// Seeds of workloads. What is asserted holds for the mean over them.
const SEEDS: u64 = 3;

/// How a run is scheduled.
#[derive(Clone, Copy)]
struct Plan {
    range: Range,
    period_ns: u64,
    /// Whether the engine reports queues and ages.
    rich: bool,
    seconds: u64,
}

const PLAN: Plan = Plan { range: Range { worst: 10, best: -10 }, period_ns: 50_000_000, rich: true, seconds: 8 };

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// Variance of the queues inside, mean over time.
    variance: f64,
    /// The greatest age of a row, mean over time.
    age_ms: f64,
    /// Results.
    goodput: f64,
    /// From arrival to result.
    latency_ms: f64,
    /// From reading by a source to result.
    inside_ms: f64,
}

/// What osched does once per period: read, evaluate, decide, transform, normalize, write.
struct Scheduler {
    policy: Box<dyn Policy>,
    provider: Provider,
    window: Window,
    plan: Plan,
}

impl Scheduler {
    fn new(policy: Box<dyn Policy>, plan: Plan) -> Scheduler {
        let provider = Provider::new(Machine::offers(plan.rich), policy.needs()).expect("counters suffice");
        Scheduler { policy, provider, window: Window::new(), plan }
    }

    fn schedule(&mut self, machine: &mut Machine) {
        let readings = self.window.update(&machine.graph, &machine.readings(self.plan.rich));
        let nodes = Nodes::new(&machine.graph, &readings, self.policy.level());
        let metrics = self.provider.evaluate(&nodes);
        let priorities = self.policy.priorities(&nodes, &metrics).expect("priorities");
        let of_tasks = to_tasks(&machine.graph, &nodes, &priorities);
        let transform = Transform { grouping: Grouping::None, aggregate: Aggregate::Max, engine_first: false };
        let schedule = transform.to_schedule(&machine.graph, &of_tasks);
        let values: Vec<f64> = schedule.threads.values().copied().collect();
        let nices = normalize(&values, self.plan.range, self.policy.scale());
        let threads = machine.graph.threads_of_tasks();
        for (thread, nice) in schedule.threads.keys().zip(nices) {
            let task = threads.iter().position(|of_task| of_task.contains(thread)).expect("a task of the graph");
            machine.tasks[task].nice = nice;
        }
    }
}

fn run(mut machine: Machine, policy: Option<Box<dyn Policy>>, plan: Plan) -> Outcome {
    let mut scheduler = policy.map(|policy| Scheduler::new(policy, plan));
    let (mut outcome, mut samples) = (Outcome::default(), 0.0);
    let sources: Vec<usize> = machine.arrivals.iter().map(|(source, _)| *source).collect();
    while machine.now_ns < plan.seconds * 1_000_000_000 {
        if machine.now_ns.is_multiple_of(plan.period_ns) {
            if let Some(scheduler) = &mut scheduler {
                scheduler.schedule(&mut machine);
            }
            let queues = machine.queues().into_iter().enumerate();
            let inner: Vec<f64> = queues.filter(|(task, _)| !sources.contains(task)).map(|(_, rows)| rows).collect();
            let mean = inner.iter().sum::<f64>() / inner.len() as f64;
            outcome.variance += inner.iter().map(|rows| (rows - mean).powi(2)).sum::<f64>() / inner.len() as f64;
            outcome.age_ms += machine.age_ms_max();
            samples += 1.0;
        }
        machine.step();
    }
    outcome.variance /= samples;
    outcome.age_ms /= samples;
    outcome.goodput = machine.results.rows as f64;
    outcome.latency_ms = machine.results.total_ms / outcome.goodput;
    outcome.inside_ms = machine.results.inside_ms / outcome.goodput;
    outcome
}

/// The ratios plain to scheduled (scheduled to plain for goodput), so that more is better: geometric means
/// over seeds.
fn gains(name: &str, load: f64, plan: Plan) -> Outcome {
    let mut logarithms = [0.0; 5];
    for seed in 0..SEEDS {
        let machine = syn(6, 1.0, load, &mut Rng::new(seed));
        let plain = run(machine.clone(), None, plan);
        let scheduled = run(machine, Some(by_name(name, seed).expect("a policy")), plan);
        println!("{name} at {load}, seed {seed}: {plain:?} -> {scheduled:?}");
        let ratios = [
            plain.variance / scheduled.variance,
            plain.age_ms / scheduled.age_ms,
            scheduled.goodput / plain.goodput,
            plain.latency_ms / scheduled.latency_ms,
            plain.inside_ms / scheduled.inside_ms,
        ];
        logarithms.iter_mut().zip(ratios).for_each(|(sum, ratio)| *sum += ratio.ln() / SEEDS as f64);
    }
    let [variance, age_ms, goodput, latency_ms, inside_ms] = logarithms.map(f64::exp);
    let gains = Outcome { variance, age_ms, goodput, latency_ms, inside_ms };
    println!("{name} at {load}: gains {gains:?}");
    gains
}

/// Work that needs this many times the cores: queues grow all the time.
const OVERLOAD: f64 = 1.2;

#[test]
fn queue_size_makes_queues_equal() {
    for rich in [true, false] {
        let gains = gains("queue-size", OVERLOAD, Plan { rich, ..PLAN });
        assert!(gains.variance > 5.0, "{gains:?}");
    }
}

#[test]
fn first_come_makes_the_oldest_row_younger() {
    for (rich, least) in [(true, 1.5), (false, 1.1)] {
        let gains = gains("first-come", OVERLOAD, Plan { rich, ..PLAN });
        assert!(gains.age_ms > least && gains.goodput > 1.0, "{gains:?}");
    }
}

#[test]
fn highest_rate_makes_results_come_sooner() {
    for load in [1.05, OVERLOAD] {
        let gains = gains("highest-rate", load, PLAN);
        assert!(gains.latency_ms > 1.7 && gains.goodput > 1.0, "{gains:?}");
    }
}

#[test]
fn drain_makes_results_more_and_come_sooner() {
    let gains = gains("drain", OVERLOAD, PLAN);
    assert!(gains.latency_ms > 1.2 && gains.inside_ms > 1.2 && gains.goodput > 1.03, "{gains:?}");
}

#[test]
fn max_weight_makes_queues_equal_without_the_loss_of_results_that_queue_size_has() {
    for rich in [true, false] {
        let plan = Plan { rich, ..PLAN };
        let (relief, rows) = (gains("max-weight", OVERLOAD, plan), gains("queue-size", OVERLOAD, plan));
        assert!(relief.goodput > 1.0 && relief.goodput > rows.goodput, "{relief:?} {rows:?}");
        assert!(relief.latency_ms > 1.0 && relief.variance > 2.0, "{relief:?}");
    }
}

#[test]
fn chance_gains_nothing_and_loses_little() {
    let gains = gains("random", OVERLOAD, PLAN);
    assert!((0.95..1.05).contains(&gains.goodput), "{gains:?}");
    assert!((0.7..1.1).contains(&gains.latency_ms) && (0.7..1.3).contains(&gains.age_ms), "{gains:?}");
}

#[test]
fn no_policy_makes_anything_worse_while_the_cores_suffice() {
    for name in ["drain", "first-come", "highest-rate", "max-weight", "queue-size", "random"] {
        let gains = gains(name, 0.6, PLAN);
        assert!(gains.goodput > 0.999 && gains.latency_ms > 0.97, "{name}: {gains:?}");
    }
}

/// Equal priorities are the middle of the range, which is nice 0: what the machine does is exactly the same.
#[test]
fn the_constant_policy_changes_nothing() {
    let gains = gains("constant", OVERLOAD, PLAN);
    let all = [gains.variance, gains.age_ms, gains.goodput, gains.latency_ms, gains.inside_ms];
    assert!(all.iter().all(|gain| (gain - 1.0).abs() < 1e-12), "{gains:?}");
}

#[test]
#[ignore = "a table of all policies, for people: run it with --nocapture"]
fn table() {
    for load in [0.8, 0.95, 1.05, 1.2, 1.5] {
        for name in POLICY_NAMES.into_iter().filter(|name| !["deadline", "marker"].contains(name)) {
            gains(name, load, PLAN);
        }
    }
}
