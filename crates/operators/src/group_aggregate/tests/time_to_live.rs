//! Groups with a time to live, against the results of rows that are then forgotten.

use super::*;
use crate::keyed_state::TimeToLive;

const TTL_MS: i64 = 800;

fn operator(weighted: bool, disk_bytes: Option<usize>, wall_ms: i64) -> GroupAggregate {
    let spec = GroupAggregateSpec { time_to_live_ms: Some(TTL_MS), ..spec(weighted) };
    let mut operator = GroupAggregate::new(&spec, &Functions::default(), &options(disk_bytes)).expect("an operator");
    operator.processing_time(wall_ms).expect("a time");
    operator
}

/// The present rows, and the results of forgotten groups.
#[derive(Clone, Default)]
struct Expected {
    rows: Vec<Row>,
    events: Vec<(Row, i64)>,
    written: BTreeMap<Option<i64>, i64>,
    left: BTreeMap<String, i64>,
}

impl Expected {
    fn forget(&mut self, times: &TimeToLive) {
        let over: Vec<Option<i64>> =
            self.written.iter().filter(|(_, time)| times.is_over(**time)).map(|(key, _)| *key).collect();
        for key in over {
            let of = |row: &Row| row.0 == key;
            let rows: Vec<Row> = self.rows.iter().filter(|row| of(row)).copied().collect();
            for (result, weight) in results(&rows, &self.events) {
                *self.left.entry(result).or_default() += weight;
            }
            self.rows.retain(|row| !of(row));
            self.events.retain(|(row, _)| !of(row));
            self.written.remove(&key);
        }
    }

    fn integral(&self) -> BTreeMap<String, i64> {
        let mut all = self.left.clone();
        for (result, weight) in results(&self.rows, &self.events) {
            *all.entry(result).or_default() += weight;
        }
        all
    }
}

/// Returns how many groups were forgotten.
fn run(seed: u64, weighted: bool, disk_bytes: Option<usize>) -> usize {
    let mut numbers = Numbers(Rng::new(seed));
    let (mut wall_ms, mut times) = (10_000, TimeToLive::new(TTL_MS, &options(None)));
    times.advance(wall_ms);
    let (mut now, mut integral) = (operator(weighted, disk_bytes, wall_ms), Integral::default());
    let (mut expected, mut files) = (Expected::default(), Files::default());
    let mut then = (expected.clone(), BTreeMap::new());
    for _ in 0..90 {
        match numbers.below(10) {
            0 => {
                files.take(&mut now, numbers.below(2) == 0);
                then = (expected.clone(), integral.0.clone());
            }
            1 if !files.is_empty() => {
                // The last time that state is restored, it may have left the disk.
                now = operator(weighted, disk_bytes, wall_ms);
                let goes_on = numbers.below(2) == 0;
                files.restore(&mut now, goes_on, &mut |end| numbers.below(end));
                (expected, integral.0) = then.clone();
                expected.forget(&times);
            }
            2 | 3 => {
                wall_ms += numbers.below(900) as i64;
                now.processing_time(wall_ms).expect("a time");
                if times.advance(wall_ms) {
                    expected.forget(&times);
                }
            }
            _ => {
                let mut of_batch: Vec<(Row, i64)> = Vec::new();
                for _ in 0..numbers.below(6) {
                    if weighted && !expected.rows.is_empty() && numbers.below(5) < 2 {
                        let gone = expected.rows.swap_remove(numbers.below(expected.rows.len()));
                        of_batch.push((gone, -1));
                        continue;
                    }
                    let key = Some(numbers.below(12) as i64).filter(|key| *key > 0);
                    let row = (key, Some(numbers.below(7) as i64 - 3), Some(TEXTS[numbers.below(4)]));
                    expected.rows.push(row);
                    of_batch.push((row, 1));
                }
                let mut out = Output::default();
                now.batch(batch(&of_batch, weighted), &mut out).expect("a batch");
                while now.more(&mut out).expect("more") {}
                integral.add(&mut out);
                expected.written.extend(of_batch.iter().map(|((key, ..), _)| (*key, times.current())));
                expected.events.extend(of_batch);
            }
        }
        assert_eq!(integral.0, expected.integral(), "seed {seed}, weighted {weighted}, {disk_bytes:?}");
    }
    expected.left.len()
}

#[test]
fn groups_are_forgotten_with_their_values_and_begin_anew() {
    let forgotten: usize = (1..=60).map(|seed| run(seed, true, None) + run(seed, false, None)).sum();
    assert!(forgotten > 500, "{forgotten}");
}

#[test]
fn groups_on_disk_are_forgotten_too() {
    let bytes = |seed: u64| Some([1_000, 60_000, 1 << 30][seed as usize % 3]);
    (1..=18).for_each(|seed| _ = run(seed, seed % 2 == 0, bytes(seed)));
}

#[test]
fn a_row_that_takes_back_what_is_forgotten_does_not_count() {
    let mut now = operator(true, None, 10_000);
    let row = |number| (Some(1), Some(number), Some("a"));
    let mut integral = Integral::default();
    let mut add = |now: &mut GroupAggregate, rows: &[(Row, i64)]| {
        let mut out = Output::default();
        now.batch(batch(rows, true), &mut out).expect("a batch");
        while now.more(&mut out).expect("more") {}
        integral.add(&mut out);
        integral.0.clone()
    };
    let before = add(&mut now, &[(row(1), 1), (row(2), 1)]);
    now.processing_time(20_000).expect("a time");
    assert_eq!(add(&mut now, &[(row(1), -1)]), before, "the group is forgotten");
    let after = add(&mut now, &[(row(3), 1), (row(2), -1), (row(2), -1)]);
    assert_eq!(after, before, "a group of one row that is taken back, and another one that is not known");
    assert_eq!(add(&mut now, &[(row(3), 1)]).len(), 2);
}

/// The files of a job that had no time to live, and of one that has none any more.
#[test]
fn a_time_to_live_may_come_and_go() {
    let (rows, mut files) = ([((Some(1), Some(2), Some("a")), 1)], Files::default());
    let mut now = super::operator(true, None);
    now.batch(batch(&rows, true), &mut Output::default()).expect("a batch");
    files.take(&mut now, false);
    let mut now = operator(true, None, 10_000);
    files.restore(&mut now, false, &mut |_| 0);
    now.processing_time(10_700).expect("a time");
    let mut files = Files::default();
    files.take(&mut now, false);
    assert_eq!(now.state.rows.live, 1);
    now.processing_time(15_000).expect("a time");
    assert_eq!(now.state.rows.live, 0);
    let mut now = super::operator(true, None);
    files.restore(&mut now, false, &mut |_| 0);
    assert_eq!(now.state.rows.live, 1);
}
