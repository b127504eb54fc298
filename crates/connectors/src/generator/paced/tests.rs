use anabranch_model::{ManualClock, Result};
use anabranch_operators::Rows;
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
    let load = Load { rate: Some(rate), events, seed: 1, partitions: 2, start_ms: None };
    PacedSource::new(Numbers, load, &TaskContext { index: 0, parallelism: 1, batch_rows: 100, clock: clock.clone() })
}

/// Rows of the batches given out until none is due.
fn due(source: &mut PacedSource<Numbers>) -> Vec<(u32, usize)> {
    let mut batches = Vec::new();
    loop {
        match source.poll(Duration::ZERO).unwrap() {
            Polled::Rows(rows) => batches.push((rows.partition.0, rows.batch.num_rows())),
            Polled::Opened(_) => {}
            Polled::Pending => return batches,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_low_rate_gives_out_each_row_when_it_is_due() {
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
fn a_task_without_partitions_ends_with_a_bounded_table() {
    let clock = Arc::new(ManualClock::default());
    let load = Load { rate: None, events: Some(1), seed: 1, partitions: 2, start_ms: None };
    let context = TaskContext { index: 2, parallelism: 3, batch_rows: 100, clock };
    assert!(matches!(PacedSource::new(Numbers, load, &context).poll(Duration::ZERO).unwrap(), Polled::End));
}
