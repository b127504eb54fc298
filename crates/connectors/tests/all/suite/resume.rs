//! A source that is stopped anywhere resumes exactly there, for any number of tasks and size of batches.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Clock, Rng, SystemClock};
use anabranch_operators::{Polled, Positions, Source, TaskContext};

use super::{Drained, SourceCase, context, row_texts, source_spec};

/// How often a table is read with random stops.
const READINGS: usize = 3;
/// Stops of one reading; after the last it is read to its end.
const STOPS: usize = 4;

/// A seed that differs from run to run, or the one to repeat. Printed before the run.
pub(crate) fn seed(what: &str) -> u64 {
    let given = std::env::var("ANABRANCH_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| SystemClock::new().wall_ms().unsigned_abs());
    println!("{what}: ANABRANCH_SEED={seed}");
    seed
}

/// Reads the table repeatedly: stops each time after some polls and resumes from the positions of all tasks.
pub(crate) fn check_resumes(case: &SourceCase<'_>, whole: &Drained) {
    let mut rng = Rng::new(seed("resumes anywhere"));
    for _ in 0..READINGS {
        let mut from = None;
        let mut seen = BTreeMap::new();
        for stop in 0..=STOPS {
            let polls_max = if stop == STOPS { u64::MAX } else { rng.below(whole.sorted().len() as u64 / 40 + 12) };
            let positions = read(case, &mut rng, from.as_ref(), polls_max, &mut seen);
            for (partition, position) in from.iter().flatten() {
                assert!(positions.contains_key(partition), "{partition} at {position} was lost");
            }
            from = Some(positions);
        }
        let expected: BTreeMap<u32, _> = whole
            .partitions
            .iter()
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(id, rows)| (*id, rows.clone()))
            .collect();
        assert_eq!(seen, expected, "read with stops, the table is another");
        check_ended(case, &from.unwrap());
    }
}

/// Reads with some number of tasks until each has been polled as often as it may. Returns where they stand.
fn read(
    case: &SourceCase<'_>,
    rng: &mut Rng,
    from: Option<&Positions>,
    polls_max: u64,
    seen: &mut BTreeMap<u32, Vec<String>>,
) -> Positions {
    let parallelism = 1 + rng.below(5) as u32;
    let mut union = Positions::new();
    for index in 0..parallelism {
        let batch_rows = 1 + rng.below(100) as usize;
        let mut source = open(case, &with_rows(context(index, parallelism), batch_rows), from);
        let polls = if polls_max == u64::MAX { polls_max } else { rng.below(polls_max + 1) };
        poll(source.as_mut(), polls, seen);
        for (partition, position) in source.positions().unwrap() {
            let other = union.insert(partition.clone(), position);
            assert_eq!(other, None, "two tasks tell the position of {partition}");
        }
    }
    union
}

fn open(case: &SourceCase<'_>, context: &TaskContext, from: Option<&Positions>) -> Box<dyn Source> {
    let all: Vec<_> = (0..case.columns.fields().len()).collect();
    let reader = source_spec(&case.spec, &case.columns, &all);
    case.connector.source(&reader, context, from).unwrap_or_else(|error| panic!("from {from:?}: {error}"))
}

fn poll(source: &mut dyn Source, polls: u64, seen: &mut BTreeMap<u32, Vec<String>>) {
    let clock = SystemClock::new();
    for _ in 0..polls {
        assert!(clock.now().0 < super::PATIENCE.as_nanos() as u64, "the table does not end");
        match source.poll(Duration::from_millis(20)).unwrap() {
            Polled::Rows(rows) if rows.batch.num_rows() > 0 => {
                seen.entry(rows.partition.0).or_default().extend(row_texts(&rows.batch));
            }
            Polled::End => return,
            _ => {}
        }
    }
}

/// From where everything has been read nothing follows, not even the news of a partition; and it stays so.
fn check_ended(case: &SourceCase<'_>, from: &Positions) {
    for parallelism in [1, 3] {
        let mut union = Positions::new();
        for index in 0..parallelism {
            let mut source = open(case, &context(index, parallelism), Some(from));
            let polled = source.poll(Duration::ZERO).unwrap();
            assert!(matches!(polled, Polled::End), "after the end: {polled:?}");
            union.extend(source.positions().unwrap());
        }
        assert_eq!(&union, from);
    }
    check_refusals(case, from);
}

/// Positions that are not of this table, or no positions at all, are refused with their names by every task.
fn check_refusals(case: &SourceCase<'_>, from: &Positions) {
    let reader = source_spec(&case.spec, &case.columns, &[]);
    let refused = |from: &Positions, expected: &[&str]| {
        let opened = case.connector.source(&reader, &context(0, 1), Some(from));
        let Err(error) = opened else { panic!("{from:?} was taken") };
        let error = error.to_string();
        assert!(expected.iter().all(|text| error.contains(text)) && error.contains("table conformance"), "{error}");
    };
    let foreign = BTreeMap::from([("no-such-partition".to_owned(), "17".to_owned())]);
    refused(&foreign, &["no-such-partition"]);
    for partition in from.keys() {
        let mut wrong = from.clone();
        wrong.insert(partition.clone(), "a bit further".to_owned());
        refused(&wrong, &["the position 'a bit further' cannot be read", partition]);
    }
}

/// Positions of a table as text, for tests of one connector.
pub(crate) fn positions(source: &dyn Source) -> Vec<(String, String)> {
    source.positions().unwrap().into_iter().collect()
}

/// The context with another size of batches.
pub(crate) fn with_rows(context: TaskContext, batch_rows: usize) -> TaskContext {
    TaskContext { batch_rows, ..context }
}
