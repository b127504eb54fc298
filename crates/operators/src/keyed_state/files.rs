//! For tests: the changes of snapshots, as a checkpoint keeps them.

use std::collections::BTreeSet;

use anabranch_dataflow::{JobOptions, StateBackendKind};
use anabranch_model::{EventTime, Result};
use anabranch_state::decode_rows;
use arrow::array::RecordBatch;

use crate::event_time::event_times;
use crate::{Operator, State, StateChange};

/// Calls of the state of an operator that has one.
pub(crate) trait Stated: Operator {
    fn own(&mut self) -> &mut dyn State {
        Operator::state(self).expect("an operator with state")
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        self.own().snapshot(adds)
    }

    fn restore(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        self.own().restore(table, rows)
    }

    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.own().restored(watermark)
    }

    fn goes_on(&mut self) {
        self.own().goes_on();
    }

    fn succeed(&mut self, former: &mut dyn Operator) -> Result<()> {
        self.own().succeed(former.own())
    }

    fn processing_time(&mut self, wall_ms: i64) -> Result<()> {
        self.own().processing_time(wall_ms)
    }
}

impl<O: Operator + ?Sized> Stated for O {}

/// Options of an operator with frequent complete snapshots and, optionally, this memory limit and a disk.
pub(crate) fn options(disk_bytes: Option<usize>) -> JobOptions {
    let mut options = JobOptions::default();
    options.thresholds.snapshot_changed_rows = 8;
    if let Some(bytes) = disk_bytes {
        options.state_backend = StateBackendKind::Disk;
        options.state_bytes = bytes;
        options.thresholds.run_file_bytes = 1 << 13;
    }
    options
}

/// The files of each table.
#[derive(Clone, Default)]
pub(crate) struct Files {
    tables: Vec<Table>,
    /// Whether the last snapshot was incremental (`adds`).
    adds: bool,
}

#[derive(Clone, Default)]
struct Table {
    runs: Vec<(u64, Vec<RecordBatch>)>,
    changes: Vec<RecordBatch>,
}

impl Files {
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The number of files of changes of the table that has the most.
    pub(crate) fn most_changes(&self) -> usize {
        self.tables.iter().map(|table| table.changes.len()).max().unwrap_or(0)
    }

    /// Takes a snapshot.
    pub(crate) fn take(&mut self, operator: &mut dyn Operator, adds: bool) {
        let panes: Vec<Option<usize>> = operator.own().tables().iter().map(|shape| shape.pane).collect();
        let changes = operator.snapshot(adds).expect("a snapshot");
        self.tables.resize_with(changes.len(), Table::default);
        for ((table, pane), change) in self.tables.iter_mut().zip(panes).zip(changes) {
            let StateChange { rows, complete, runs, first_pane } = change;
            let ids = |runs: &[(u64, Vec<RecordBatch>)]| runs.iter().map(|(id, _)| *id).collect::<BTreeSet<u64>>();
            let run = |id: u64, content: Vec<u8>| (id, decode_rows(content.into()).expect("rows"));
            let runs: Vec<_> = runs.iter().map(|stored| run(stored.id, stored.content().expect("content"))).collect();
            if adds && self.adds {
                assert!(!complete && ids(&table.runs).is_subset(&ids(&runs)), "a snapshot that should only add");
            }
            table.runs = runs;
            if complete {
                table.changes.clear();
            }
            if let Some(pane) = pane {
                let latest = |rows: &RecordBatch| event_times(rows.column(pane)).expect("times").iter().max().copied();
                table.changes.retain(|rows| latest(rows) >= Some(first_pane.0));
            }
            table.changes.extend(rows);
        }
        self.adds = adds;
    }

    /// The rows of all files of changes, with the numbers of their tables.
    pub(crate) fn each(&self, mut visit: impl FnMut(usize, &RecordBatch)) {
        for (number, table) in self.tables.iter().enumerate() {
            table.changes.iter().for_each(|rows| visit(number, rows));
        }
    }

    /// Restores another operator from all files, in any order.
    pub(crate) fn restore(
        &mut self,
        operator: &mut dyn Operator,
        goes_on: bool,
        below: &mut dyn FnMut(usize) -> usize,
    ) {
        self.adds = false;
        // Runs have no numbers any more.
        for table in &mut self.tables {
            table.changes.extend(std::mem::take(&mut table.runs).into_iter().flat_map(|(_, rows)| rows));
        }
        let of_table = |(number, table): (usize, &Table)| -> Vec<(usize, RecordBatch)> {
            table.changes.iter().map(|rows| (number, rows.clone())).collect()
        };
        let mut all: Vec<(usize, RecordBatch)> = self.tables.iter().enumerate().flat_map(of_table).collect();
        while !all.is_empty() {
            let (table, rows) = all.swap_remove(below(all.len()));
            operator.restore(table, rows).expect("restored");
        }
        if goes_on {
            operator.goes_on();
        }
    }
}
