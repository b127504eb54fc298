//! Why a job gives no results, or where it waits: one answer, read from its plan and from what its tasks
//! report. The live view, the command `why`, the REST interface and the page all show this one.

mod events;
mod load;
mod times;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, Plan, Stage};
use anabranch_model::{Notice, StageId, TaskMetrics};
use schemars::JsonSchema;
use serde::Serialize;

use crate::TableOption;
use crate::http::{Rate, Rates, Reading, ReconfigureOrder};

/// Older notices explain nothing.
const LATELY: Duration = Duration::from_secs(60);
/// A younger job has not had the time for rows and calls.
const YOUNG_MS: i64 = 3000;

/// How a job is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Results come, and nothing holds them up.
    Well,
    /// Its tasks restore state, or begin.
    Starting,
    /// It waits for slots of workers.
    Waiting,
    /// It has ended, or was stopped.
    Over,
    /// It has failed.
    Failed,
    /// All rows have been read, and none come.
    Idle,
    /// A source reads no rows, though there should be some.
    NoInput,
    /// A table that is written takes no rows.
    NoOutput,
    /// A source has more rows to read than it can read.
    SourceBehind,
    /// A partition without rows holds event time back.
    SilentPartition,
    /// No row meets the conditions of a stage.
    AllDropped,
    /// Most records cannot be decoded.
    Malformed,
    /// Most rows are late.
    Late,
    /// Most rows have no event time.
    WithoutEventTime,
    /// The open windows have not ended yet.
    WindowOpen,
    /// A source waits until others have caught up in event time.
    HeldBackByAlignment,
    /// A stage has more to do than it can do.
    Busy,
    /// One task of a stage has far more to do than the others.
    Skewed,
    /// Results are written, and can be seen after the next checkpoint.
    SinkWaitsForCheckpoint,
    /// No checkpoint completes.
    CheckpointWaits,
    /// A table outside answers slowly, or not at all.
    LookupSlow,
}

/// Why a job gives no results, or where it waits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Why {
    /// In a word.
    pub verdict: Verdict,
    /// In a sentence for people; empty if all is well.
    pub text: String,
    /// Since when, in milliseconds since 1970, as far as it was observed.
    pub since_ms: Option<i64>,
    /// The stage of the cause.
    pub stage: Option<u32>,
    /// From the table that is written to the cause.
    pub chain: Vec<Link>,
    /// When the next results can come.
    pub next: Option<Next>,
    /// What to do.
    pub remedies: Vec<Remedy>,
}

/// A stage between the table that is written and the cause, or what is behind a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "WhyLink")]
pub struct Link {
    /// The stage. Null: a partition, or something outside.
    pub stage: Option<u32>,
    /// Its name.
    pub name: String,
    /// What it does or lacks.
    pub text: String,
    /// It is the cause.
    pub cause: bool,
}

/// When results can come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "WhyNext")]
pub struct Next {
    /// In milliseconds since 1970, of event time: when a window ends.
    pub at_ms: i64,
    /// In a sentence.
    pub text: String,
}

/// What to do.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "WhyRemedy")]
pub struct Remedy {
    /// In a sentence.
    pub text: String,
    /// The change of the job that does it, if it can be done by one.
    pub change: Option<ReconfigureOrder>,
}

/// What is found: the other fields of [`Why`] follow from it.
struct Finding {
    verdict: Verdict,
    text: String,
    stage: Option<StageId>,
    /// A partition, or something outside, behind the stage.
    behind: Option<(String, String)>,
    next: Option<Next>,
    remedies: Vec<Remedy>,
}

impl Finding {
    fn new(verdict: Verdict, text: impl Into<String>) -> Finding {
        let (next, remedies) = (None, Vec::new());
        Finding { verdict, text: text.into(), stage: None, behind: None, next, remedies }
    }

    fn at(self, stage: StageId) -> Finding {
        Finding { stage: Some(stage), ..self }
    }

    fn behind(self, name: impl Into<String>, text: impl Into<String>) -> Finding {
        Finding { behind: Some((name.into(), text.into())), ..self }
    }

    fn advice(mut self, text: impl Into<String>) -> Finding {
        self.remedies.push(Remedy { text: text.into(), change: None });
        self
    }

    fn change(mut self, text: impl Into<String>, change: ReconfigureOrder) -> Finding {
        self.remedies.push(Remedy { text: text.into(), change: Some(change) });
        self
    }
}

/// What the answer is read from.
pub(crate) struct Look<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) reading: &'a Reading,
    pub(crate) rates: &'a Rates,
    pub(crate) notices: &'a [Notice],
}

impl<'a> Look<'a> {
    fn tasks(&self) -> impl Iterator<Item = &'a TaskMetrics> + use<'a> {
        self.reading.tasks.iter().map(|task| &task.metrics)
    }

    fn tasks_of(&self, stage: StageId) -> impl Iterator<Item = &'a TaskMetrics> + use<'a> {
        self.tasks().filter(move |task| task.task.stage == stage)
    }

    fn rate(&self, task: &TaskMetrics) -> Rate {
        self.rates.of(task)
    }

    fn stage(&self, id: StageId) -> Option<&'a Stage> {
        self.plan.stages.get(id.0 as usize)
    }

    fn name(&self, id: StageId) -> &'a str {
        self.stage(id).map_or("", |stage| stage.name.as_str())
    }

    fn results(&self) -> u64 {
        self.tasks().filter(|task| task.is_sink).map(|task| task.rows_out).sum()
    }

    /// Whether results came within the last seconds.
    fn gives_results(&self) -> bool {
        self.tasks().any(|task| task.is_sink && self.rate(task).rows_out > 0.0)
    }

    /// The newest notice of the last minute that speaks of a table of this name, or of what one of these
    /// options names.
    fn notice_of(&self, table: &str, connector: &ConnectorSpec, options: &[&str]) -> Option<&'a Notice> {
        let named = options.iter().filter_map(|option| connector.options.get(*option));
        let names: Vec<&str> = named.map(String::as_str).chain([table]).collect();
        self.notice(|text| names.iter().any(|name| has_word(text, name)))
    }

    /// The newest notice of the last minute with such a text. None, if it says that something is over.
    fn notice(&self, has: impl Fn(&str) -> bool) -> Option<&'a Notice> {
        let lately = |notice: &&Notice| self.reading.at.after(notice.at) <= LATELY;
        let newest = self.notices.iter().rev().take_while(lately).find(|notice| has(&notice.text))?;
        let is_over = ["answer again", "answers again"].iter().any(|words| newest.text.contains(words));
        (!is_over).then_some(newest)
    }

    /// Its tasks have just begun.
    fn is_young(&self) -> bool {
        self.reading.wall_ms - self.reading.started_ms < YOUNG_MS
    }

    /// The stages from which rows come to a stage, and the stage itself.
    fn before(&self, stage: StageId) -> BTreeSet<StageId> {
        let mut found = BTreeSet::from([stage]);
        // Exchanges lead from an earlier stage to a later one.
        let mut exchanges: Vec<_> = self.plan.exchanges.iter().collect();
        exchanges.sort_by_key(|exchange| std::cmp::Reverse(exchange.to));
        for exchange in exchanges {
            if found.contains(&exchange.to) {
                found.insert(exchange.from);
            }
        }
        found
    }

    fn table_option(&self, table: &str, name: &str, value: &str) -> ReconfigureOrder {
        let option = TableOption { table: table.to_owned(), name: name.to_owned(), value: value.to_owned() };
        ReconfigureOrder { options: vec![option], ..ReconfigureOrder::default() }
    }
}

/// Whether a text has this name as a word of its own.
fn has_word(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let is_apart =
        |(at, _): (usize, &str)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part);
    !name.is_empty() && text.match_indices(name).any(is_apart)
}

/// The answer for a job at one moment. The first of these that holds is the reason: what happens to the whole
/// job, what happens outside of it, what happens to its input, what holds event time back, and where work
/// piles up.
pub(crate) fn why(look: &Look<'_>) -> Why {
    let found = events::of_job(look)
        .or_else(|| load::lookups(look))
        .or_else(|| events::not_taken(look))
        .or_else(|| events::checkpoint_waits(look))
        .or_else(|| if look.results() == 0 { without_results(look) } else { with_results(look) });
    let found = found.unwrap_or_else(|| {
        let next = times::next_window(look).map(|(_, next)| next);
        Finding { next, ..Finding::new(Verdict::Well, "") }
    });
    let chain = chain(look, &found);
    let Finding { verdict, text, stage, next, remedies, .. } = found;
    Why { verdict, text, since_ms: None, stage: stage.map(|stage| stage.0), chain, next, remedies }
}

fn without_results(look: &Look<'_>) -> Option<Finding> {
    events::nothing_read(look, true)
        .or_else(|| events::dropped(look))
        .or_else(|| times::held_back(look))
        .or_else(|| load::bottleneck(look))
        .or_else(|| events::filtered(look))
        .or_else(|| times::aligned(look))
        .or_else(|| load::behind(look))
        .or_else(|| events::nothing_read(look, false))
        .or_else(|| times::waiting(look))
}

fn with_results(look: &Look<'_>) -> Option<Finding> {
    let quiet = || !look.gives_results();
    let standing = times::standing(look);
    standing
        .or_else(|| load::bottleneck(look))
        .or_else(|| events::invisible(look))
        .or_else(|| if quiet() { events::no_longer_read(look) } else { None })
        .or_else(|| events::dropped_now(look))
        .or_else(|| if quiet() { times::aligned(look) } else { None })
}

/// The stages from a table that is written to the one of the cause.
fn chain(look: &Look<'_>, found: &Finding) -> Vec<Link> {
    let Some(cause) = found.stage else { return Vec::new() };
    let mut path = vec![cause];
    // Exchanges lead from an earlier stage to a later one.
    while let Some(next) = path.last().and_then(|last| look.plan.exchanges.iter().find(|of| of.from == *last)) {
        path.push(next.to);
    }
    let link = |stage: &StageId| {
        let is_cause = *stage == cause && found.behind.is_none();
        let text = if is_cause { found.text.clone() } else { doing(look, *stage) };
        Link { stage: Some(stage.0), name: look.name(*stage).to_owned(), text, cause: is_cause }
    };
    let behind = found.behind.as_ref().map(|(name, text)| Link {
        stage: None,
        name: name.clone(),
        text: text.clone(),
        cause: true,
    });
    path.iter().rev().map(link).chain(behind).collect()
}

/// What a stage does just now.
fn doing(look: &Look<'_>, stage: StageId) -> String {
    let (mut rows_in, mut rows_out, mut backpressured, mut waits) = (0.0, 0.0, 0.0, 0);
    let mut tasks = 0.0_f64;
    for task in look.tasks_of(stage) {
        let rate = look.rate(task);
        (rows_in, rows_out) = (rows_in + rate.rows_in, rows_out + rate.rows_out);
        backpressured += rate.shares.map_or(0.0, |shares| shares.backpressured);
        waits += task.queue_rows;
        tasks += 1.0;
    }
    if backpressured >= tasks.max(1.0) / 2.0 {
        return "waits for room downstream".to_owned();
    }
    match (rows_in > 0.0, rows_out > 0.0) {
        (_, true) => format!("passes on {rows_out:.0} rows per second"),
        (true, false) => format!("takes {rows_in:.0} rows per second and passes none on"),
        (false, false) if waits > 0 => format!("{waits} rows wait in its input"),
        (false, false) => "waits for rows".to_owned(),
    }
}
