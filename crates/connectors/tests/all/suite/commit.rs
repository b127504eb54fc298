//! What a sink that writes exactly once must do: a result is visible when its checkpoint is complete, once,
//! whichever task commits it and however often; and never without.

use std::sync::Arc;

use anabranch_dataflow::ConnectorSpec;
use anabranch_model::Epoch;
use anabranch_operators::testing::TestHost;
use anabranch_operators::{Committable, Connector, Sink, TaskContext};
use arrow::array::RecordBatch;

use super::{exact_context, row_texts, sink_spec};

/// A table that is written exactly once, and how to see what is visible of it.
pub(crate) struct CommitCase<'a> {
    pub(crate) connector: &'a dyn Connector,
    pub(crate) spec: ConnectorSpec,
    pub(crate) scope: &'a str,
    /// At least five.
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) read: &'a dyn Fn() -> Vec<String>,
}

impl CommitCase<'_> {
    pub(crate) fn open(&self, index: u32, parallelism: u32) -> Box<dyn Sink> {
        let spec = sink_spec(&self.spec, &self.batches[0].schema());
        self.connector.sink(&spec, &exact_context(index, parallelism, self.scope)).unwrap()
    }

    /// A task of this incarnation of the job.
    pub(crate) fn open_in(&self, life: &Arc<TestHost>, index: u32, parallelism: u32) -> Box<dyn Sink> {
        let spec = sink_spec(&self.spec, &self.batches[0].schema());
        let context = TaskContext { host: life.clone(), ..exact_context(index, parallelism, self.scope) };
        self.connector.sink(&spec, &context).unwrap()
    }

    /// Fails unless exactly these batches are visible.
    pub(crate) fn assert_visible(&self, batches: &[usize], when: &str) {
        let mut expected: Vec<_> = batches.iter().flat_map(|batch| row_texts(&self.batches[*batch])).collect();
        let mut visible = (self.read)();
        expected.sort();
        visible.sort();
        let missing = expected.iter().filter(|row| !visible.contains(row)).count();
        let counts = (visible.len(), expected.len(), missing);
        assert!(visible == expected, "visible {when}, rows are, should be and are missing: {counts:?}");
    }

    /// Writes batches in an epoch and prepares it.
    pub(crate) fn prepare(&self, sink: &mut dyn Sink, batches: &[usize], epoch: u64) -> Committable {
        batches.iter().for_each(|batch| sink.write(&self.batches[*batch]).unwrap());
        let committable = sink.prepare_commit(Epoch(epoch)).unwrap().unwrap();
        assert_eq!(committable.epoch, Epoch(epoch));
        committable
    }
}

/// Checks a sink that can hold rows back.
pub(crate) fn check_commits(case: &CommitCase<'_>) {
    let mut first = case.open(0, 1);
    assert_eq!(first.prepare_commit(Epoch(1)).unwrap(), None, "nothing was written");
    first.write(&case.batches[0]).unwrap();
    first.flush().unwrap();
    first.epoch_end(Epoch(2)).unwrap();
    let two = case.prepare(first.as_mut(), &[1], 3);
    assert_eq!(first.prepare_commit(Epoch(4)).unwrap(), None, "nothing was written since");
    case.assert_visible(&[], "before the checkpoint is complete");
    first.commit(&two).unwrap();
    case.assert_visible(&[0, 1], "after the commit");
    first.commit(&two).unwrap();
    case.assert_visible(&[0, 1], "after another commit of the same");

    // A crash between prepare and commit: a task of another run, with another parallelism, commits.
    let three = case.prepare(first.as_mut(), &[2], 5);
    first.write(&case.batches[3]).unwrap();
    drop(first);
    case.assert_visible(&[0, 1], "after the crash");
    let mut second = case.open(1, 2);
    second.commit(&three).unwrap();
    case.assert_visible(&[0, 1, 2], "after the commit by another task");
    let mut third = case.open(0, 2);
    third.commit(&three).unwrap();
    third.commit(&two).unwrap();
    case.assert_visible(&[0, 1, 2], "after late commits by yet another task");

    // Never committed, prepared or not: never visible, also when the same epoch is written again and
    // committed.
    let lost = case.prepare(third.as_mut(), &[3], 6);
    assert_eq!((lost.epoch, lost.task), (Epoch(6), 0));
    third.write(&case.batches[4]).unwrap();
    third.epoch_end(Epoch(7)).unwrap();
    drop(third);
    second.write(&case.batches[4]).unwrap();
    second.finish().unwrap();
    let mut fourth = case.open(0, 2);
    let again = case.prepare(fourth.as_mut(), &[4], 6);
    case.assert_visible(&[0, 1, 2], "while nothing new has been committed");
    fourth.commit(&again).unwrap();
    case.assert_visible(&[0, 1, 2, 4], "after the commit of what was written again");
    fourth.finish().unwrap();
    drop(fourth);
    case.assert_visible(&[0, 1, 2, 4], "in the end");
}

/// Checks a sink whose commits come later than the next rows: what is prepared or written meanwhile is not
/// lost.
pub(crate) fn check_late_commits(case: &CommitCase<'_>) {
    let mut sink = case.open_in(&TestHost::of_incarnation(3), 0, 1);
    let first = case.prepare(sink.as_mut(), &[0], 1);
    let second = case.prepare(sink.as_mut(), &[1], 2);
    sink.write(&case.batches[2]).unwrap();
    sink.epoch_end(Epoch(3)).unwrap();
    sink.write(&case.batches[3]).unwrap();
    sink.commit(&first).unwrap();
    case.assert_visible(&[0], "after the first commit");
    sink.commit(&second).unwrap();
    case.assert_visible(&[0, 1], "after the second commit");
    let third = sink.prepare_commit(Epoch(4)).unwrap().unwrap();
    sink.commit(&third).unwrap();
    case.assert_visible(&[0, 1, 2, 3], "after the third commit");
}

/// Checks a sink that cannot hold rows back: it has handed them over when an epoch is prepared.
pub(crate) fn check_writes_through(
    connector: &dyn Connector,
    spec: &ConnectorSpec,
    batch: &RecordBatch,
    rows: &dyn Fn() -> usize,
) {
    let before = rows();
    let mut sink = connector.sink(&sink_spec(spec, &batch.schema()), &exact_context(0, 1, "job")).unwrap();
    sink.write(batch).unwrap();
    assert_eq!(sink.prepare_commit(Epoch(1)).unwrap(), None);
    assert_eq!(rows() - before, batch.num_rows());
    sink.finish().unwrap();
}
