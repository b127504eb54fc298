//! Options of `SET` and hints for operators.

use std::time::Duration;

use anabranch_model::Result;

use super::Lowering;
use crate::hints::TimesToLive;
use crate::rel::Rel;
use crate::settings::{RuntimeMode, Settings, TableSettings};

/// The values of the options, in the units of the plan.
#[derive(Clone, Copy)]
pub(super) struct TableOptions<'a> {
    /// Whether a row with NULL for a NOT NULL column of a sink is dropped instead of stopping the job.
    pub(super) drop_nulls: bool,
    /// The number of rows that aggregates collect until the end of an epoch.
    pub(super) mini_batch_rows: Option<u64>,
    /// The time after which a partition without rows no longer holds event time back.
    pub(super) idle_timeout_ms: Option<u64>,
    /// Whether windows emit early results, and for how many milliseconds after their end they change. `None`:
    /// neither.
    pub(super) emission: Option<(bool, i64)>,
    /// The time for which unchanged state is kept.
    pub(super) time_to_live_ms: Option<i64>,
    /// The same for rows of some tables, by hints.
    hints: &'a TimesToLive,
    /// The time zone of the session. `None`: UTC.
    pub(super) zone: Option<&'a str>,
}

impl<'a> TableOptions<'a> {
    /// # Errors
    /// A required option is missing.
    pub(super) fn new(
        table: &'a TableSettings,
        settings: &Settings,
        hints: &'a TimesToLive,
    ) -> Result<TableOptions<'a>> {
        let mode = settings.runtime_mode;
        let ms_of = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let ms = |time: Duration| ms_of(time).max(1);
        Ok(TableOptions {
            hints,
            zone: table.zone.as_deref(),
            drop_nulls: table.drop_nulls,
            mini_batch_rows: table.mini_batch(settings.job.epoch_interval)?,
            idle_timeout_ms: table.idle_timeout.map(|time| ms(time).unsigned_abs()),
            emission: table.emits()?.then(|| (table.early, ms_of(table.lateness))),
            // Final results need all rows until the end.
            time_to_live_ms: table.time_to_live.filter(|_| mode != RuntimeMode::Batch).map(ms),
        })
    }
}

impl Lowering<'_> {
    /// The time to live of the state for a plan's rows, in milliseconds: by a hint for the table that the
    /// rows come from, or by the option.
    pub(super) fn time_to_live_of(&self, rows: &Rel) -> Option<i64> {
        match name_of(rows).and_then(|name| self.table.hints.get(&name)) {
            Some(hint) => hint.filter(|_| self.mode != RuntimeMode::Batch),
            None => self.table.time_to_live_ms,
        }
    }
}

/// The name or alias of the only table that a plan's rows come from.
fn name_of(plan: &Rel) -> Option<String> {
    match plan {
        _ if plan.columns().called().is_some() => plan.columns().called().map(|name| name.table().to_lowercase()),
        Rel::Get(scan) => Some(scan.name.to_lowercase()),
        Rel::Aggregate(_) => None,
        other => match other.inputs().as_slice() {
            [input] => name_of(input),
            _ => None,
        },
    }
}
