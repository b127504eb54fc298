//! What the server remembers of its jobs: a sample of each one every second, for five minutes by seconds, an
//! hour by ten seconds, and a day by minutes. A sample has its stages in sums, and the tasks of the last
//! minutes. All samples of a process take a bounded number of bytes: if there are many stages or tasks, the
//! past is shorter.

mod frame;
mod marks;
mod plans;
mod ring;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_model::{Clock as _, SystemClock};
use hyper::body::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::jobs::ServedJob;
use super::rates::History;
use crate::why::{Look, Why, why};
pub(super) use frame::Frame;
use frame::HistoryFrame;
pub(super) use marks::CheckpointMark;
use marks::{Checkpoints, Mark, Marks};
use plans::Plans;
use ring::Rings;

/// Bytes of all samples of a process.
const BYTES_MAX: usize = 16 << 20;
/// Bytes of all plans of a process. The newest plan of each job stays even beyond that.
const PLAN_BYTES_MAX: usize = 8 << 20;
/// Marks of all jobs together that the overview has, and for how long.
const MARKS_MAX: usize = 12;
const MARKS_MS: i64 = 3_600_000;

/// The jobs of a process over time.
#[derive(Default)]
pub(super) struct Samples {
    /// Number of the newest sample.
    number: u64,
    jobs: BTreeMap<String, JobSamples>,
    /// All jobs and workers as a document, made when somebody asks for it.
    all: Option<(u64, Arc<Value>)>,
}

/// A job over time.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "History")]
pub(super) struct HistoryDocument {
    frames: Vec<HistoryFrame>,
    marks: Vec<Mark>,
}

/// One job over time.
#[derive(Default)]
struct JobSamples {
    started_ms: i64,
    history: History,
    rings: Rings,
    plans: Plans,
    marks: Marks,
    checkpoints: Checkpoints,
    /// The newest sample as a document, made when somebody asks for it.
    document: Option<(u64, Arc<Value>)>,
}

impl Samples {
    /// Takes a sample of each job.
    pub(super) fn record(&mut self, jobs: &[Arc<dyn ServedJob>]) {
        // Not the numbers of an earlier process.
        self.number =
            if self.number == 0 { SystemClock::new().wall_ms().max(1).unsigned_abs() } else { self.number + 1 };
        let [bytes, plan_bytes] = [BYTES_MAX, PLAN_BYTES_MAX].map(|all| all / jobs.len().max(1));
        let names: BTreeSet<&str> = jobs.iter().map(|job| job.name()).collect();
        self.jobs.retain(|name, _| names.contains(name.as_str()));
        for job in jobs {
            let (reading, notices) = (job.reading(), job.notices());
            let kept = self.jobs.entry(job.name().to_owned()).or_default();
            if kept.started_ms != reading.started_ms {
                // Another job of this name, or a new run of it.
                *kept = JobSamples { started_ms: reading.started_ms, ..JobSamples::default() };
            }
            kept.history.push(&reading);
            let (plan, rates) = (job.plan(), kept.history.rates(&reading));
            let why = kept.why(&Look { plan: &plan, reading: &reading, rates: &rates, notices: &notices });
            let frame = Frame::of(self.number, &plan, &reading, &rates, why);
            kept.marks.note(kept.rings.newest(), &frame, &reading, &notices);
            kept.checkpoints.note(kept.rings.newest(), &frame, &reading, |process| job.worker_name(process));
            kept.rings.push(frame, bytes);
            kept.plans.note(&plan, || kept.rings.versions(), plan_bytes);
        }
    }

    /// The number of the newest sample.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The rates of a job.
    pub(super) fn history(&self, job: &str) -> Option<&History> {
        self.jobs.get(job).map(|kept| &kept.history)
    }

    /// Why a job gives no results now.
    pub(super) fn why(&self, job: &dyn ServedJob) -> Why {
        let (reading, notices, plan, none) = (job.reading(), job.notices(), job.plan(), JobSamples::default());
        let kept = self.jobs.get(job.name()).unwrap_or(&none);
        let rates = kept.history.rates(&reading);
        kept.why(&Look { plan: &plan, reading: &reading, rates: &rates, notices: &notices })
    }

    /// The newest sample of a job as a document.
    pub(super) fn document(&mut self, job: &str) -> Option<Arc<Value>> {
        let kept = self.jobs.get_mut(job)?;
        let newest = kept.rings.newest()?;
        if let Some((_, document)) = kept.document.as_ref().filter(|(made, _)| *made == newest.number) {
            return Some(Arc::clone(document));
        }
        let document = Arc::new(newest.document());
        kept.document = Some((newest.number, Arc::clone(&document)));
        Some(document)
    }

    /// The tasks of a stage of the newest sample.
    pub(super) fn tasks(&self, job: &str, stage: u32) -> Option<Value> {
        Some(self.jobs.get(job)?.rings.newest()?.tasks_of(stage))
    }

    /// An earlier sample of a job by its number, if it is still kept by seconds.
    pub(super) fn numbered(&self, job: &str, number: u64) -> Option<Value> {
        Some(self.jobs.get(job)?.rings.numbered(number)?.document())
    }

    /// A job as it was at a moment, with the tasks of a stage.
    pub(super) fn at(&self, job: &str, at_ms: i64, stage: Option<u32>) -> Option<Value> {
        let frame = self.jobs.get(job)?.rings.at(at_ms)?;
        let mut document = frame.document();
        document["seconds"] = json!(frame.seconds);
        if let Some(stage) = stage {
            document["tasks"] = frame.tasks_of(stage);
        }
        Some(document)
    }

    /// A job's samples and marks in a span of time, with the numbers of one stage if that is asked for.
    pub(super) fn between(&self, job: &str, (from_ms, to_ms): (i64, i64), stage: Option<u32>) -> HistoryDocument {
        let Some(kept) = self.jobs.get(job) else { return HistoryDocument::default() };
        let point = |frame: &Frame| stage.map_or_else(|| frame.point(), |stage| frame.point_of(stage));
        let frames = kept.rings.between(from_ms, to_ms).map(point).collect();
        HistoryDocument { frames, marks: kept.marks.between(from_ms, to_ms) }
    }

    /// The document of a version of a job's plan, if there are samples of it.
    pub(super) fn plan(&self, job: &str, version: u32) -> Option<Bytes> {
        self.jobs.get(job)?.plans.get(version)
    }

    /// The versions of a job's plan that have documents.
    pub(super) fn plan_versions(&self, job: &str) -> BTreeSet<u32> {
        self.jobs.get(job).map(|kept| kept.plans.versions().collect()).unwrap_or_default()
    }

    /// The newest checkpoints of a job.
    pub(super) fn checkpoints(&self, job: &str) -> Vec<CheckpointMark> {
        self.jobs.get(job).map(|kept| kept.checkpoints.all()).unwrap_or_default()
    }

    /// What has happened to all jobs lately, the newest first.
    fn marks(&self, now_ms: i64) -> Value {
        let of_job = |(job, kept): (&String, &JobSamples)| {
            let newest = kept.marks.newest(now_ms - MARKS_MS).take(MARKS_MAX);
            newest.map(|mark| (job.clone(), mark.clone())).collect::<Vec<_>>()
        };
        let mut marks: Vec<(String, Mark)> = self.jobs.iter().flat_map(of_job).collect();
        marks.sort_by_key(|(_, mark)| std::cmp::Reverse(mark.at_ms));
        marks.truncate(MARKS_MAX);
        marks.into_iter().map(|(job, mark)| mark.of_job(&job)).collect()
    }

    /// All jobs in few words each, what has happened to them, and the workers.
    pub(super) fn all(&mut self, workers: impl FnOnce() -> Value) -> Arc<Value> {
        let number = self.number;
        if let Some((_, document)) = self.all.as_ref().filter(|(made, _)| *made == number) {
            return Arc::clone(document);
        }
        let overview = |(name, kept): (&String, &JobSamples)| Some((name.clone(), kept.rings.newest()?.overview()));
        let jobs = Value::Object(self.jobs.iter().filter_map(overview).collect::<Map<_, _>>());
        let at_ms = SystemClock::new().wall_ms();
        let (marks, workers) = (self.marks(at_ms), workers());
        let document = json!({ "number": number, "at_ms": at_ms, "jobs": jobs, "marks": marks, "workers": workers });
        let document = Arc::new(document);
        self.all = Some((number, Arc::clone(&document)));
        document
    }
}

impl JobSamples {
    fn why(&self, look: &Look<'_>) -> Why {
        let mut why = why(look);
        let now_ms = look.reading.wall_ms;
        why.since_ms = self.rings.newest().map_or(Some(now_ms), |newest| newest.since_of(&why, now_ms));
        why
    }
}
