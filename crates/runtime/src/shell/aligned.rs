//! Which sources of a worker are aligned with others.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::{AlignmentSpec, Plan};
use anabranch_model::TaskId;
use anabranch_protocol::alignment::Aligned;

use crate::task::stages::reaches_sink;
use crate::task::view::TaskView;

/// The groups of a plan, with the tasks of this worker that belong to them. `alone`: there is no other
/// worker.
///
/// A static side of a join is read to its end before its stream begins. So it is never too far ahead, and no
/// other source must wait for it.
pub(crate) fn aligned(plan: &Plan, tasks: &[TaskView], alone: bool) -> BTreeMap<String, Aligned> {
    let mut members: BTreeMap<&str, (BTreeSet<TaskId>, u64)> = BTreeMap::new();
    for stage in &plan.stages {
        let watermark = stage.source.as_ref().and_then(|source| source.watermark.as_ref());
        let Some(AlignmentSpec { group, update_interval_ms, .. }) = watermark.and_then(|spec| spec.alignment.as_ref())
        else {
            continue;
        };
        if reaches_sink(plan, stage.id) {
            let (all, interval_ms) = members.entry(group).or_insert((BTreeSet::new(), u64::MAX));
            all.extend(tasks.iter().map(|task| task.id).filter(|task| task.stage == stage.id));
            *interval_ms = (*interval_ms).min(*update_interval_ms);
        }
    }
    let group = |(name, (tasks, interval_ms)): (&str, (BTreeSet<TaskId>, u64))| {
        (name.to_owned(), Aligned::new(tasks, alone, interval_ms.saturating_mul(1_000_000)))
    };
    members.into_iter().map(group).collect()
}
