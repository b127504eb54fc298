//! Options that affect the planning of statements. Their names are Flink's.

use std::time::Duration;

use anabranch_model::{Error, Result, duration_text};

use super::option::{
    Opt, SWITCH, parse_duration, parse_optional_duration, parse_whole_or, parse_word, put, text_or, word,
};
use crate::zones::parse_zone;

/// What operators with changing results emit: aggregations without a window, joins, and first rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RuntimeMode {
    /// Final results over bounded tables, updates elsewhere.
    #[default]
    Automatic,
    /// Updates.
    Streaming,
    /// Final results. Unbounded tables are refused.
    Batch,
}

/// The values of the options that begin with `table.`.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableSettings {
    /// `table.exec.sink.not-null-enforcer`: whether rows with NULL for a NOT NULL column of a sink are
    /// dropped instead of stopping the job.
    pub(crate) drop_nulls: bool,
    /// `table.exec.state.ttl`: the time for which unchanged state is kept. `None`: for ever.
    pub(crate) time_to_live: Option<Duration>,
    /// `table.exec.source.idle-timeout`: the time after which a partition without rows no longer holds event
    /// time back, unless its table sets one. `None`: never.
    pub(crate) idle_timeout: Option<Duration>,
    /// `table.exec.emit.allow-lateness`: the event time after the end of a window during which rows change
    /// its result.
    pub(crate) lateness: Duration,
    /// `table.exec.emit.early-fire.enabled`: whether windows emit their results on each change, before they
    /// end.
    pub(crate) early: bool,
    /// `table.exec.emit.early-fire.delay`: an upper bound. Changes are emitted at once.
    early_delay: Option<Duration>,
    /// `table.exec.emit.late-fire.delay`: the same after the end of the window.
    late_delay: Option<Duration>,
    /// `table.exec.emit.late-fire.enabled`: needs `allow-lateness`, and has no effect of its own.
    late: bool,
    /// `table.exec.mini-batch.enabled`: whether aggregates collect rows until the end of an epoch.
    gathers: bool,
    /// `table.exec.mini-batch.allow-latency`: an upper bound. Aggregates emit at the end of each epoch.
    latency: Duration,
    /// `table.exec.mini-batch.size`: the largest number of collected rows.
    rows: Option<u64>,
    /// `table.local-time-zone`: the time zone of the session. `None`: UTC.
    pub(crate) zone: Option<String>,
    /// `table.optimizer.multi-join.enabled`, negated: each join has two inputs.
    pub(crate) joins_two: bool,
}

const ENFORCERS: &[(&str, bool)] = &[("ERROR", false), ("DROP", true)];
const MODES: &[(&str, RuntimeMode)] =
    &[("automatic", RuntimeMode::Automatic), ("streaming", RuntimeMode::Streaming), ("batch", RuntimeMode::Batch)];
/// The text for no delay.
const NO_DELAY: &str = "none";

pub(super) const OPTIONS: &[Opt] = &[
    Opt {
        name: "execution.runtime-mode",
        help: "what an aggregate without a window emits: `streaming`, changes of its result; `batch`, final results \
               only, also of joins and first rows, and only tables that end may be read; `automatic`, the final \
               result where all tables end and changes elsewhere ([Tables that end](updating.md#tables-that-end))",
        get: |s| word(&s.runtime_mode, MODES),
        set: |s, text, _| put(&mut s.runtime_mode, parse_word(text, MODES)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.exec.sink.not-null-enforcer",
        help: "what a row with NULL for a NOT NULL column of a written table does: `ERROR` stops the job, `DROP` \
               drops the row",
        get: |s| word(&s.table.drop_nulls, ENFORCERS),
        set: |s, text, _| put(&mut s.table.drop_nulls, parse_word(text, ENFORCERS)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.exec.state.ttl",
        help: "for how long unchanged state is kept, where event time does not end it \
               ([Time to live](updating.md#time-to-live)); `0` is for ever",
        get: |s| duration_text(s.table.time_to_live.unwrap_or_default()),
        set: |s, text, _| put(&mut s.table.time_to_live, parse_optional_duration(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.exec.source.idle-timeout",
        help: "after how long a partition without rows holds event time back no more, for tables without \
               `scan.idle-timeout`; `0` is never",
        get: |s| duration_text(s.table.idle_timeout.unwrap_or_default()),
        set: |s, text, _| put(&mut s.table.idle_timeout, parse_optional_duration(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.exec.emit.allow-lateness",
        help: "for how long after its end rows change the result of a window \
               ([Early and late results](updating.md#early-and-late-results))",
        get: |s| duration_text(s.table.lateness),
        set: |s, text, _| put(&mut s.table.lateness, parse_duration(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.exec.emit.early-fire.enabled",
        help: "whether results of windows come before their end, as they change. It needs the delay",
        get: |s| s.table.early.to_string(),
        set: |s, text, _| put(&mut s.table.early, parse_word(text, SWITCH)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.exec.emit.early-fire.delay",
        help: "the latest time at which a change is emitted before the end; changes come at once, and so not later",
        get: |s| delay_text(s.table.early_delay),
        set: |s, text, _| put(&mut s.table.early_delay, parse_delay(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.exec.emit.late-fire.enabled",
        help: "has no effect of its own: late rows change results where `allow-lateness` allows it",
        get: |s| s.table.late.to_string(),
        set: |s, text, _| put(&mut s.table.late, parse_word(text, SWITCH)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.exec.emit.late-fire.delay",
        help: "the latest time at which a change is emitted after the end; changes come at once",
        get: |s| delay_text(s.table.late_delay),
        set: |s, text, _| put(&mut s.table.late_delay, parse_delay(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.exec.mini-batch.enabled",
        help: "whether aggregates without a window gather rows until the end of an epoch \
               ([Updating aggregates](updating.md#updating-aggregates)). It needs the other two",
        get: |s| s.table.gathers.to_string(),
        set: |s, text, _| put(&mut s.table.gathers, parse_word(text, SWITCH)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.exec.mini-batch.allow-latency",
        help: "for how long they gather rows at most: an epoch or longer",
        get: |s| duration_text(s.table.latency),
        set: |s, text, _| put(&mut s.table.latency, parse_duration(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.exec.mini-batch.size",
        help: "how many rows they gather at most; `-1` is not set",
        get: |s| text_or("-1", s.table.rows),
        set: |s, text, _| put(&mut s.table.rows, parse_whole_or("-1", text, 1..=i64::MAX as u64)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.local-time-zone",
        help: "the [time zone](tables.md#time-zones) of the session: `'Europe/Berlin'`, `'GMT+03:00'`, `'UTC'`",
        get: |s| text_or("UTC", s.table.zone.as_ref()),
        set: |s, text, _| put(&mut s.table.zone, parse_zone(text)),
        ..Opt::PLAIN
    },
    Opt {
        name: "table.optimizer.multi-join.enabled",
        help: "whether joins of several streams by the same keys are [carried out at once](joins.md#several-streams)",
        get: |s| (!s.table.joins_two).to_string(),
        set: |s, text, _| put(&mut s.table.joins_two, parse_word(text, SWITCH).map(|at_once| !at_once)),
        ..Opt::PLAIN
    },
];

fn parse_delay(text: &str) -> Result<Option<Duration>> {
    if text.trim() == NO_DELAY { Ok(None) } else { parse_duration(text).map(Some) }
}

fn delay_text(delay: Option<Duration>) -> String {
    text_or(NO_DELAY, delay.map(duration_text))
}

impl TableSettings {
    /// Whether windows emit results early, or change them for late rows.
    ///
    /// # Errors
    /// A required option is missing, as in Flink.
    pub(crate) fn emits(&self) -> Result<bool> {
        let missing = |name: &str, other: &str, example: &str| {
            Error::user(format!("'table.exec.emit.{name}' needs 'table.exec.emit.{other}'"))
                .remedy(format!("SET 'table.exec.emit.{other}' = '{example}'"))
        };
        if self.late && self.lateness.is_zero() {
            return Err(missing("late-fire.enabled", "allow-lateness", "1 h"));
        }
        if self.early && self.early_delay.is_none() {
            return Err(missing("early-fire.enabled", "early-fire.delay", "1 s"));
        }
        Ok(self.early || !self.lateness.is_zero())
    }

    /// The number of rows that an aggregate collects until the end of an epoch. `None`: it processes each
    /// batch on arrival.
    ///
    /// # Errors
    /// Mini-batches are enabled, and an option is missing or shorter than an epoch.
    pub(crate) fn mini_batch(&self, epoch: Duration) -> Result<Option<u64>> {
        if !self.gathers {
            return Ok(None);
        }
        let missing = |what: &str, example: &str| {
            Error::user(format!("'table.exec.mini-batch.enabled' needs 'table.exec.mini-batch.{what}'"))
                .remedy(format!("SET 'table.exec.mini-batch.{what}' = '{example}'"))
        };
        if self.latency.is_zero() {
            return Err(missing("allow-latency", "2 s"));
        }
        if self.latency < epoch {
            let (latency, epoch) = (self.latency.as_millis(), epoch.as_millis());
            let error = Error::user(format!(
                "'table.exec.mini-batch.allow-latency' is {latency} ms, and rows are gathered until the end of an epoch, which has {epoch} ms"
            ));
            return Err(error.remedy("allow more, or SET 'epoch-interval' to less"));
        }
        self.rows.map(Some).ok_or_else(|| missing("size", "50000"))
    }
}
