//! Partitions with a time to live, against the first rows of those that are not forgotten.

use super::*;
use crate::keyed_state::TimeToLive;

const TTL_MS: i64 = 800;

fn operator(way: Way, disk_bytes: Option<usize>, wall_ms: i64) -> Box<dyn Operator> {
    let spec = OperatorSpec::Rank(RankSpec { time_to_live_ms: Some(TTL_MS), ..spec(way) });
    let built = build_operator(&spec, &Arc::new(Schema::empty()), &options(disk_bytes), &Functions::default());
    let mut operator = built.expect("an operator").0;
    operator.processing_time(wall_ms).expect("a time");
    operator
}

/// The present rows, and the results of forgotten partitions.
#[derive(Clone, Default)]
struct Expected {
    rows: Vec<Row>,
    written: BTreeMap<Option<i64>, i64>,
    left: BTreeMap<String, i64>,
}

impl Expected {
    fn forget(&mut self, way: Way, times: &TimeToLive) {
        let over: Vec<Option<i64>> =
            self.written.iter().filter(|(_, time)| times.is_over(**time)).map(|(key, _)| *key).collect();
        for key in over {
            let rows: Vec<Row> = self.rows.iter().filter(|row| row.0 == key).copied().collect();
            for (row, weight) in results(way, &rows) {
                *self.left.entry(row).or_default() += weight;
            }
            self.rows.retain(|row| row.0 != key);
            self.written.remove(&key);
        }
    }

    fn integral(&self, way: Way) -> BTreeMap<String, i64> {
        let mut all = self.left.clone();
        for (row, weight) in results(way, &self.rows) {
            *all.entry(row).or_default() += weight;
        }
        all
    }

    /// Without retractions, a row changes a partition if it is among the first ones.
    fn add(&mut self, way: Way, row: Row, time: i64) {
        let before = results(way, &self.rows);
        self.rows.push(row);
        // A row that takes the place of an equal one does too.
        let of_key: Vec<Row> = self.rows.iter().filter(|other| other.0 == row.0).copied().collect();
        let takes_over = way.latest && results(way, &of_key) == results(way, &[row]);
        if way.updating || takes_over || results(way, &self.rows) != before {
            self.written.insert(row.0, time);
        }
    }
}

/// Returns how many rows of forgotten partitions stay.
fn run(seed: u64, disk_bytes: Option<usize>) -> usize {
    let mut rng = Rng::new(seed);
    let mut below = |end: usize| rng.below(end as u64) as usize;
    let way = Way::any(&mut below);
    let (mut wall_ms, mut times) = (10_000, TimeToLive::new(TTL_MS, &options(None)));
    times.advance(wall_ms);
    let (mut now, mut integral) = (operator(way, disk_bytes, wall_ms), BTreeMap::new());
    let (mut expected, mut files) = (Expected::default(), Files::default());
    let mut then = (expected.clone(), BTreeMap::new());
    for _ in 0..80 {
        match below(10) {
            0 => {
                files.take(&mut *now, below(2) == 0);
                then = (expected.clone(), integral.clone());
            }
            1 if !files.is_empty() => {
                now = operator(way, disk_bytes, wall_ms);
                let goes_on = below(2) == 0;
                files.restore(&mut *now, goes_on, &mut below);
                (expected, integral) = then.clone();
                expected.forget(way, &times);
            }
            2 | 3 => {
                wall_ms += below(900) as i64;
                now.processing_time(wall_ms).expect("a time");
                if times.advance(wall_ms) {
                    expected.forget(way, &times);
                }
            }
            _ => {
                let mut of_batch: Vec<(Row, i64)> = Vec::new();
                for _ in 0..below(6) {
                    if way.updating && !expected.rows.is_empty() && below(5) < 2 {
                        let gone = expected.rows.swap_remove(below(expected.rows.len()));
                        expected.written.insert(gone.0, times.current());
                        of_batch.push((gone, -1));
                        continue;
                    }
                    let mut some = |end: usize| Some(below(end) as i64).filter(|_| below(9) > 0);
                    let row = (some(4), some(6), TEXTS[below(3)]);
                    expected.add(way, row, times.current());
                    of_batch.push((row, 1));
                }
                let mut out = Output::default();
                now.batch(batch(&of_batch, way.updating), &mut out).expect("a batch");
                while now.more(&mut out).expect("more") {}
                add(&mut integral, &mut out);
            }
        }
        assert_eq!(integral, expected.integral(way), "seed {seed}, {way:?}, {disk_bytes:?}");
    }
    expected.left.len()
}

#[test]
fn partitions_are_forgotten_and_begin_anew() {
    let forgotten: usize = (1..=120).map(|seed| run(seed, None)).sum();
    assert!(forgotten > 240, "{forgotten}");
}

#[test]
fn partitions_on_disk_are_forgotten_too() {
    (1..=60).for_each(|seed| _ = run(seed, Some([1_000, 8_000, 1 << 30][seed as usize % 3])));
}
