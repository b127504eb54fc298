//! When sources cut epochs. A task with several inputs waits for the slowest source, so sources should cut at
//! the same time.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Tables, plan};
use anabranch_dataflow::{ExchangeKind, GroupOptions, JobOptions, OnMalformed};
use anabranch_model::{Clock, ManualClock};
use anabranch_operators::Connectors;
use anabranch_runtime::stepped::{Parts, SteppedJob};

const EPOCH: Duration = Duration::from_millis(10);

#[test]
fn a_source_that_was_held_up_cuts_its_epochs_with_the_others_again() {
    let options = JobOptions {
        epoch_interval: EPOCH,
        channel_bytes: usize::MAX,
        group: GroupOptions { epochs: Some(50), ..GroupOptions::default() },
        ..JobOptions::default()
    };
    let plan = plan(2, ExchangeKind::Hash { keys: vec![1] }, 1, options, OnMalformed::Fail);
    let mut connectors = Connectors::default();
    connectors.register("log", Arc::new(Tables::new(1, None)));
    let clock = Arc::new(ManualClock::default());
    let shared: Arc<dyn Clock> = clock.clone();
    let parts = Parts {
        plan: &plan,
        connectors: &connectors,
        clock: &shared,
        checkpointing: None,
        origin: None,
        workers: None,
    };
    let mut job = SteppedJob::start(parts).expect("starts").expect("not ended");
    let mut turns = |sources: &[usize], count: u32, each: Duration| {
        for _ in 0..count {
            clock.advance(each);
            sources.iter().for_each(|source| assert!(job.tasks().step(*source, 0)));
            while job.coordinate() {}
        }
        job.handle().metrics().iter().filter(|task| task.is_source).map(|task| task.epoch).collect::<Vec<_>>()
    };
    let together = turns(&[0, 1], 10, EPOCH);
    assert!(together[0] > 5 && together[0] == together[1], "{together:?}");
    // One waits for room, or for its broker, for the time of twenty epochs.
    let apart = turns(&[0], 20, EPOCH);
    assert_eq!(apart[0] - apart[1], 20, "{apart:?}");
    let again = turns(&[0, 1], 1, EPOCH);
    assert_eq!((again[0], again[1]), (apart[0] + 1, apart[0] + 1));
    // It reads the clock at other times than the other one.
    turns(&[0], 1, EPOCH / 2);
    for _ in 0..4 {
        turns(&[1], 1, EPOCH / 4);
        let close = turns(&[0], 1, EPOCH / 4 * 3);
        assert!(close[0] - close[1] <= 1, "{close:?}");
    }
}
