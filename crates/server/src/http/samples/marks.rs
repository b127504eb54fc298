//! What happened to a job, and when: restarts, changes, checkpoints that failed, notices.

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_model::Notice;
use anabranch_protocol::membership::Process;
use anabranch_runtime::{Phases, Slowest, TaskPhase};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::jobs::Reading;
use super::frame::Frame;

/// Marks of a job that are kept.
const KEPT: usize = 500;

/// Something that happened at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "HistoryMark")]
pub(super) struct Mark {
    pub(super) at_ms: i64,
    kind: MarkKind,
    text: String,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum MarkKind {
    State,
    Restart,
    Change,
    CheckpointFailed,
    Notice,
}

impl Mark {
    /// For the list of all jobs.
    pub(super) fn of_job(&self, job: &str) -> Value {
        json!({ "job": job, "at_ms": self.at_ms, "kind": self.kind, "text": self.text })
    }
}

/// Longest text of a mark, in characters.
const TEXT_MAX: usize = 1000;
/// Checkpoints of a job that are kept.
const CHECKPOINTS_KEPT: usize = 100;

/// A checkpoint that was completed or abandoned.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(in crate::http) struct CheckpointMark {
    at_ms: i64,
    outcome: CheckpointOutcome,
    epoch: Option<u64>,
    /// From its request to its commit, by the coordinator's clock.
    took_ms: Option<f64>,
    /// Null: it was abandoned, or this coordinator did not request it, as the last one of a job that ends by
    /// itself.
    phases: Option<CheckpointPhases>,
    /// Size of the files that it refers to.
    bytes: Option<u64>,
}

/// The end of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum CheckpointOutcome {
    Completed,
    Abandoned,
}

/// The time of a checkpoint, divided: the four parts add up to `took_ms`. The boundary is the end of the
/// epoch, which follows the rows through all tasks. Each task measures by the clock of its own process, from
/// the moment at which that process has taken the request; the coordinator measures `took_ms`, `commit_ms`
/// and the time until the last acknowledgement by its own clock, and `write_ms` is what remains of that.
/// Clocks of different processes are never compared. The way of the request to a worker and that of an
/// acknowledgement back are part of `write_ms`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct CheckpointPhases {
    /// From the request until the last source has put the boundary into its stream, behind its rows. A
    /// checkpoint is requested with the group of epochs that it ends, so the rest of that group is included.
    request_ms: f64,
    /// Until the last task has taken its snapshot: it has processed all rows before the boundary at all of
    /// its inputs, and a sink has prepared its results.
    alignment_ms: f64,
    /// Until the coordinator has the last acknowledgement that the files of a snapshot are written.
    write_ms: f64,
    /// Until the manifest and the entry in the job's log are durable. Then sinks are told to make their
    /// results visible.
    commit_ms: f64,
    slowest: SlowestTask,
}

/// The task that took the longest for a phase of its own. What it waited for other tasks is not included.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct SlowestTask {
    stage: u32,
    /// Null: the tasks have started again before the checkpoint was shown, and the stage may be another one.
    stage_name: Option<String>,
    task: u32,
    worker: String,
    phase: SlowestPhase,
    took_ms: f64,
}

/// A phase of a checkpoint that depends on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum SlowestPhase {
    /// A source put the boundary into its stream this long after it was to do so.
    Request,
    /// The task took its snapshot this long after that, or after the boundary had arrived at the last of its
    /// inputs; rows that waited there before the boundary are included.
    Alignment,
    /// The files of its snapshot were written in this time, without the wait for those of others.
    Write,
}

impl CheckpointPhases {
    fn of(phases: &Phases, stages: &[String], worker: impl FnOnce(Process) -> String) -> CheckpointPhases {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let Phases { request, alignment, write, commit, slowest } = phases;
        let Slowest { task, process, phase, took } = *slowest;
        let slowest = SlowestTask {
            stage: task.stage.0,
            stage_name: stages.get(task.stage.0 as usize).cloned(),
            task: task.index,
            worker: worker(process),
            phase: match phase {
                TaskPhase::Request => SlowestPhase::Request,
                TaskPhase::Alignment => SlowestPhase::Alignment,
                TaskPhase::Write => SlowestPhase::Write,
            },
            took_ms: ms(took),
        };
        let [request_ms, alignment_ms, write_ms, commit_ms] = [request, alignment, write, commit].map(|of| ms(*of));
        CheckpointPhases { request_ms, alignment_ms, write_ms, commit_ms, slowest }
    }
}

/// The newest checkpoints of a job, oldest first. A checkpoint within a second of another one may be missing.
#[derive(Default)]
pub(super) struct Checkpoints(VecDeque<CheckpointMark>);

impl Checkpoints {
    /// Compares a sample with the one before it.
    pub(super) fn note(
        &mut self,
        before: Option<&Frame>,
        now: &Frame,
        reading: &Reading,
        worker: impl FnOnce(Process) -> String,
    ) {
        let abandoned = before.is_some_and(|before| before.job.abandoned < now.job.abandoned);
        if abandoned {
            let (at_ms, outcome) = (now.at_ms, CheckpointOutcome::Abandoned);
            self.push(CheckpointMark { at_ms, outcome, epoch: None, took_ms: None, phases: None, bytes: None });
        }
        let last = before.and_then(|before| before.job.checkpoint);
        if let Some(new) = now.job.checkpoint.filter(|new| last.is_none_or(|last| last.epoch != new.epoch)) {
            let (at_ms, outcome, epoch) = (new.at_ms, CheckpointOutcome::Completed, Some(new.epoch));
            let (took_ms, bytes) = (Some(f64::from(new.took_ms)), Some(new.bytes));
            let phases = reading.status.last_checkpoint.and_then(|last| {
                let goes_on = last.committed.incarnation == reading.status.incarnation;
                Some(CheckpointPhases::of(&last.phases?, if goes_on { &now.names[..] } else { &[] }, worker))
            });
            self.push(CheckpointMark { at_ms, outcome, epoch, took_ms, phases, bytes });
        }
    }

    fn push(&mut self, mark: CheckpointMark) {
        if self.0.len() == CHECKPOINTS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(mark);
    }

    pub(super) fn all(&self) -> Vec<CheckpointMark> {
        self.0.iter().cloned().collect()
    }
}

/// The marks of a job, oldest first.
#[derive(Default)]
pub(super) struct Marks {
    marks: VecDeque<Mark>,
    /// The last notice that has a mark.
    noticed: u64,
}

impl Marks {
    /// Compares a sample with the one before it.
    pub(super) fn note(&mut self, before: Option<&Frame>, now: &Frame, reading: &Reading, notices: &[Notice]) {
        let mut mark = |kind, text: String| self.push(Mark { at_ms: now.at_ms, kind, text });
        match before.map(|before| &before.job) {
            None => mark(MarkKind::State, format!("the job is {}", now.job.state)),
            Some(before) => {
                if before.state != now.job.state {
                    mark(MarkKind::State, format!("the job was {}, and is {}", before.state, now.job.state));
                }
                if before.restarts < now.job.restarts {
                    let why = reading.failures.last().map(|restart| format!(": {}", restart.failure));
                    mark(MarkKind::Restart, format!("the tasks were started again{}", why.unwrap_or_default()));
                }
                if before.plan_version != now.job.plan_version {
                    mark(MarkKind::Change, format!("version {} of the plan runs", now.job.plan_version));
                }
                if before.abandoned < now.job.abandoned {
                    mark(MarkKind::CheckpointFailed, "a checkpoint was abandoned".to_owned());
                }
            }
        }
        // Numbers begin again with the job.
        if notices.last().is_none_or(|newest| newest.number < self.noticed) {
            self.noticed = 0;
        }
        let last = self.noticed;
        for notice in notices.iter().filter(|notice| notice.number > last) {
            self.noticed = notice.number;
            // A notice that repeats itself has its mark.
            let is_marked = self.marks.iter().rev().find(|mark| mark.kind == MarkKind::Notice);
            if is_marked.is_none_or(|mark| mark.text != cut(&notice.text)) {
                let at_ms = reading.wall_ms_of(notice.at);
                self.push(Mark { at_ms, kind: MarkKind::Notice, text: notice.text.clone() });
            }
        }
    }

    fn push(&mut self, mut mark: Mark) {
        mark.text = cut(&mark.text);
        if self.marks.len() == KEPT {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
    }

    /// Those since a moment, the newest first.
    pub(super) fn newest(&self, from_ms: i64) -> impl Iterator<Item = &Mark> {
        self.marks.iter().rev().take_while(move |mark| mark.at_ms >= from_ms)
    }

    /// Those of a span of time.
    pub(super) fn between(&self, from_ms: i64, to_ms: i64) -> Vec<Mark> {
        self.marks.iter().filter(|mark| (from_ms..=to_ms).contains(&mark.at_ms)).cloned().collect()
    }
}

/// The begin of a text.
fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
