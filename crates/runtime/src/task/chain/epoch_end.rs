//! What operators do at the end of an epoch.

use anabranch_model::{Nanos, Result, TaskCounters};
use anabranch_operators::Dropped;

use super::Chain;
use crate::task::snapshot::OperatorSnapshot;

impl Chain {
    /// Passes the processing time to the operators.
    pub(super) fn tell_time(&mut self) -> Result<()> {
        let wall_ms = self.clock.wall_ms();
        let mut states = self.links.iter_mut().filter_map(|link| link.operator.state());
        states.try_for_each(|state| state.processing_time(wall_ms))
    }

    /// The state of the operators that have some.
    pub(super) fn snapshot_operators(&mut self) -> Result<Vec<OperatorSnapshot>> {
        let mut operators = Vec::new();
        self.put_off = true;
        let adds = self.control.adds();
        for (place, link) in self.links.iter_mut().enumerate() {
            if let Some(state) = link.operator.state() {
                let tables = state.tables().into_iter().zip(state.snapshot(adds)?).collect();
                operators.push(OperatorSnapshot { place, tables, watermark: link.reached });
            }
        }
        Ok(operators)
    }

    /// When the last marker had passed the operators and the sink.
    pub(crate) fn marked_at(&self) -> Nanos {
        self.marked_at
    }

    /// Adds what operators have dropped to the counters of the task.
    pub(super) fn count_dropped(&mut self) {
        for link in &mut self.links {
            let Dropped { late_rows, rows_without_event_time, rows_with_null } = link.operator.take_dropped();
            TaskCounters::add(&self.counters.late_rows, late_rows);
            TaskCounters::add(&self.counters.rows_without_event_time, rows_without_event_time);
            TaskCounters::add(&self.counters.rows_with_null, rows_with_null);
        }
    }
}
