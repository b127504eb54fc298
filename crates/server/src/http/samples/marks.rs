//! What happened to a job, and when: restarts, changes, checkpoints that failed, notices.

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_model::Notice;
use anabranch_protocol::membership::Process;
use anabranch_runtime::{Phases, Slowest, TaskPhase};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::jobs::Reading;
use super::frame::Frame;

/// Marks of a job that are kept.
const KEPT: usize = 500;

/// Something that happened at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Mark {
    pub(super) at_ms: i64,
    kind: &'static str,
    text: String,
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

/// A checkpoint, as it was observed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::http) struct CheckpointMark {
    at_ms: i64,
    outcome: &'static str,
    epoch: Option<u64>,
    took_ms: Option<f64>,
    phases: Option<PhasesMark>,
    bytes: Option<u64>,
}

/// How the time of a checkpoint is divided.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct PhasesMark {
    request_ms: f64,
    alignment_ms: f64,
    write_ms: f64,
    commit_ms: f64,
    slowest: SlowestMark,
}

/// The task that held a checkpoint up.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct SlowestMark {
    stage: u32,
    /// `None`: the tasks have started again since, and the stage may be another one.
    stage_name: Option<String>,
    task: u32,
    worker: String,
    phase: &'static str,
    took_ms: f64,
}

impl PhasesMark {
    fn of(phases: &Phases, stages: &[String], worker: impl FnOnce(Process) -> String) -> PhasesMark {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let Phases { request, alignment, write, commit, slowest } = phases;
        let Slowest { task, process, phase, took } = *slowest;
        let slowest = SlowestMark {
            stage: task.stage.0,
            stage_name: stages.get(task.stage.0 as usize).cloned(),
            task: task.index,
            worker: worker(process),
            phase: match phase {
                TaskPhase::Request => "request",
                TaskPhase::Alignment => "alignment",
                TaskPhase::Write => "write",
            },
            took_ms: ms(took),
        };
        let [request_ms, alignment_ms, write_ms, commit_ms] = [request, alignment, write, commit].map(|of| ms(*of));
        PhasesMark { request_ms, alignment_ms, write_ms, commit_ms, slowest }
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
            self.push(CheckpointMark {
                at_ms: now.at_ms,
                outcome: "abandoned",
                epoch: None,
                took_ms: None,
                phases: None,
                bytes: None,
            });
        }
        let last = before.and_then(|before| before.job.checkpoint);
        if let Some(new) = now.job.checkpoint.filter(|new| last.is_none_or(|last| last.epoch != new.epoch)) {
            let (took_ms, bytes) = (Some(f64::from(new.took_ms)), Some(new.bytes));
            let phases = reading.status.last_checkpoint.and_then(|last| {
                let goes_on = last.committed.incarnation == reading.status.incarnation;
                Some(PhasesMark::of(&last.phases?, if goes_on { &now.names[..] } else { &[] }, worker))
            });
            self.push(CheckpointMark {
                at_ms: new.at_ms,
                outcome: "completed",
                epoch: Some(new.epoch),
                took_ms,
                phases,
                bytes,
            });
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
            None => mark("state", format!("the job is {}", now.job.state)),
            Some(before) => {
                if before.state != now.job.state {
                    mark("state", format!("the job was {}, and is {}", before.state, now.job.state));
                }
                if before.restarts < now.job.restarts {
                    let why =
                        reading.failures.last().map_or("for an unknown reason", |restart| restart.failure.as_str());
                    mark("restart", format!("the tasks were started again: {why}"));
                }
                if before.plan_version != now.job.plan_version {
                    mark("change", format!("version {} of the plan runs", now.job.plan_version));
                }
                if before.abandoned < now.job.abandoned {
                    mark("checkpoint-failed", "a checkpoint was abandoned".to_owned());
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
            let is_marked = self.marks.iter().rev().find(|mark| mark.kind == "notice");
            if is_marked.is_none_or(|mark| mark.text != cut(&notice.text)) {
                self.push(Mark { at_ms: reading.wall_ms_of(notice.at), kind: "notice", text: cut(&notice.text) });
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
    pub(super) fn between(&self, from_ms: i64, to_ms: i64) -> Vec<&Mark> {
        self.marks.iter().filter(|mark| (from_ms..=to_ms).contains(&mark.at_ms)).collect()
    }
}

/// The begin of a text.
fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
