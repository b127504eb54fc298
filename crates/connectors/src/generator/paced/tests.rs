use anabranch_model::{ManualClock, Result};
use anabranch_operators::{Rows, testing};
use arrow::datatypes::Schema;

use super::*;
use crate::format::batch;

/// Remembers what it was asked for.
struct Numbers;

impl Generate for Numbers {
    fn generate(&mut self, request: &Request) -> Result<Rows> {
        let batch = batch(&Arc::new(Schema::empty()), Vec::new(), request.count)?;
        Ok(Rows { partition: PartitionId(request.partition), batch, malformed: Vec::new() })
    }
}

fn open(rate: u64, events: Option<u64>, clock: &Arc<ManualClock>) -> PacedSource<Numbers> {
    let load = Load { rate: Some(rate), events, seed: 1, partitions: 2, ..load(None) };
    PacedSource::open(Numbers, load, "numbers", &context(0, 1, clock), None).unwrap()
}

fn context(index: u32, parallelism: u32, clock: &Arc<ManualClock>) -> TaskContext {
    TaskContext { clock: clock.clone(), ..testing::context(index, parallelism, 100) }
}

/// Rows of the batches that are due now.
fn due(source: &mut PacedSource<Numbers>) -> Vec<(u32, usize)> {
    let mut batches = Vec::new();
    loop {
        match source.poll(Duration::ZERO).unwrap() {
            Polled::Rows(rows) => batches.push((rows.partition.0, rows.batch.num_rows())),
            Polled::Opened { .. } => {}
            Polled::Pending => return batches,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_low_rate_returns_each_row_when_it_is_due() {
    let clock = Arc::new(ManualClock::default());
    let mut source = open(10, None, &clock);
    assert_eq!(due(&mut source), [(0, 1)]);
    clock.advance(Duration::from_millis(99));
    assert_eq!(due(&mut source), []);
    clock.advance(Duration::from_millis(1));
    assert_eq!(due(&mut source), [(1, 1)]);
    clock.advance(Duration::from_millis(500));
    assert_eq!(due(&mut source).iter().map(|(_, rows)| rows).sum::<usize>(), 5);
}

#[test]
fn a_high_rate_gathers_rows_and_catches_up_in_whole_batches() {
    let clock = Arc::new(ManualClock::default());
    let mut source = open(20_000, Some(10_000), &clock);
    assert_eq!(due(&mut source), []);
    clock.advance(Duration::from_millis(2));
    // 20 rows of each partition are gathered in 2 ms; the last of partition 0 is row 38.
    assert_eq!(due(&mut source), [(0, 21), (1, 20)]);
    clock.advance(Duration::from_millis(100));
    let batches = due(&mut source);
    assert!(batches.iter().all(|(_, rows)| *rows <= 100), "{batches:?}");
    assert_eq!(batches.iter().map(|(_, rows)| rows).sum::<usize>(), 2000);
}

#[test]
fn rows_that_are_due_and_were_not_polled_are_the_lag() {
    let clock = Arc::new(ManualClock::default());
    let mut source = open(20_000, Some(10_000), &clock);
    clock.advance(Duration::from_millis(100));
    let due_rows = due(&mut source).iter().map(|(_, rows)| rows).sum::<usize>();
    assert!(due_rows > 1900 && source.lag_rows() < Some(50), "{due_rows}: {:?}", source.lag_rows());
    clock.advance(Duration::from_millis(100));
    assert!((1990..2050).contains(&source.lag_rows().unwrap()), "{:?}", source.lag_rows());
    clock.advance(Duration::from_secs(10));
    assert_eq!(source.lag_rows(), Some(10_000 - due_rows as u64), "a table that ends");
    let load = Load { rate: None, events: None, seed: 1, partitions: 2, ..load(None) };
    let unlimited = PacedSource::open(Numbers, load, "numbers", &context(0, 1, &clock), None).unwrap();
    assert_eq!(unlimited.lag_rows(), None);
}

#[test]
fn a_task_without_partitions_ends_with_a_bounded_table() {
    let clock = Arc::new(ManualClock::default());
    let load = Load { rate: None, events: Some(1), seed: 1, partitions: 2, ..load(None) };
    let mut source = PacedSource::open(Numbers, load, "numbers", &context(2, 3, &clock), None).unwrap();
    assert!(matches!(source.poll(Duration::ZERO).unwrap(), Polled::End));
}

/// Opens a table of one partition that resumes at a position.
fn go_on(load: Load, position: &str, clock: &Arc<ManualClock>) -> Result<PacedSource<Numbers>> {
    let from = [("partition 0 of 1".to_owned(), position.to_owned())].into();
    PacedSource::open(Numbers, load, "numbers", &context(0, 1, clock), Some(&from))
}

fn load(start_ms: Option<i64>) -> Load {
    let (time_rate, variant) = (10, String::new());
    Load { rate: Some(10), events: Some(1000), seed: 1, partitions: 1, start_ms, time_rate, variant }
}

fn position(source: &PacedSource<Numbers>) -> String {
    source.positions().unwrap()["partition 0 of 1"].clone()
}

#[test]
fn a_table_that_follows_the_clock_catches_up_with_it() {
    let clock = Arc::new(ManualClock::default());
    let since_ms = clock.wall_ms();
    let mut source = PacedSource::open(Numbers, load(None), "numbers", &context(0, 1, &clock), None).unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(due(&mut source).len(), 1);
    assert_eq!(position(&source), format!("11 since {since_ms} seed 1 rows-per-second 10"));
    // Three seconds later, in another process: 30 rows have come due, at the times that follow from the first
    // start.
    clock.advance(Duration::from_secs(3));
    let mut source = go_on(load(None), &format!("11 since {since_ms} seed 1 rows-per-second 10"), &clock).unwrap();
    assert_eq!(source.partitions[0].since_ms, since_ms);
    assert_eq!(due(&mut source), [(0, 30)]);
    assert_eq!(position(&source), format!("41 since {since_ms} seed 1 rows-per-second 10"));
}

#[test]
fn a_table_with_a_start_time_continues_at_its_rate() {
    let clock = Arc::new(ManualClock::default());
    clock.advance(Duration::from_secs(100));
    let mut source = go_on(load(Some(0)), "500 seed 1 rows-per-second 10 start-time 0", &clock).unwrap();
    assert_eq!(due(&mut source), [(0, 1)]);
    clock.advance(Duration::from_millis(300));
    assert_eq!(due(&mut source), [(0, 3)]);
    assert_eq!(position(&source), "504 seed 1 rows-per-second 10 start-time 0");
    assert!(go_on(load(Some(0)), &position(&source), &clock).is_ok());
}

/// Row 504 of another seed, rate or start is another row, at another time.
#[test]
fn a_table_with_other_rows_is_refused_with_both_options() {
    let clock = Arc::new(ManualClock::default());
    let changed = [
        (Load { seed: 2, ..load(Some(0)) }, "seed 2 rows-per-second 10 start-time 0"),
        (Load { rate: Some(20), ..load(Some(0)) }, "seed 1 rows-per-second 20 start-time 0"),
        (Load { rate: None, ..load(Some(0)) }, "seed 1 rows-per-second unlimited start-time 0"),
        (load(Some(1000)), "seed 1 rows-per-second 10 start-time 1000"),
        (load(None), "seed 1 rows-per-second 10"),
    ];
    for (load, now) in changed {
        let then = "seed 1 rows-per-second 10 start-time 0";
        let error = go_on(load, &format!("504 {then}"), &clock).err().unwrap().to_string();
        assert!(error.contains(&format!("with {then}, the table now has {now}\n")), "{error}");
        assert!(error.contains("table numbers") && error.contains("partition 0 of 1"), "{error}");
    }
    let longer = Load { events: Some(5000), ..load(Some(0)) };
    assert!(go_on(longer, "504 seed 1 rows-per-second 10 start-time 0", &clock).is_ok(), "more rows follow");
}

#[test]
fn positions_that_do_not_fit_are_refused() {
    let clock = Arc::new(ManualClock::default());
    let own = "seed 1 rows-per-second 10";
    for (load, wrong) in [
        (load(None), format!("17 {own}")),
        (load(None), format!("17 since {own}")),
        (load(None), "17 since 5".to_owned()),
        (load(Some(0)), format!("17 since 5 {own} start-time 0")),
        (load(Some(0)), "17".to_owned()),
        (load(Some(0)), format!("many {own} start-time 0")),
    ] {
        let error = go_on(load, &wrong, &clock).err().unwrap().to_string();
        assert!(error.contains(&format!("the position '{wrong}' cannot be read")), "{error}");
        assert!(error.contains("table numbers") && error.contains("partition 0 of 1"), "{error}");
    }
    let foreign = [("partition 0 of 2".to_owned(), "1".to_owned())].into();
    let opened = PacedSource::open(Numbers, load(Some(0)), "numbers", &context(0, 1, &clock), Some(&foreign));
    assert!(opened.err().unwrap().to_string().contains("it has 1 partitions"));
}
