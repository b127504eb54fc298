//! A worker gets no tasks any more, or gets some again.
//!
//! Every job is asked first whether it can do without the worker. If one cannot, nothing is changed. A job that fails to move its tasks
//! afterwards, though it could, also ends the drain: the worker gets tasks again, as it keeps some.

use std::sync::Arc;

use anabranch_model::Error;
use hyper::StatusCode;
use serde::Serialize;

use super::answers::{Answer, Api, json};
use super::jobs::{Refusal, ServedJob};
use super::reconfigure::{ReconfigureOrder, carry_out, on_thread, refused};

/// What a drain has done.
#[derive(Debug, Serialize)]
struct DrainedDocument {
    worker: String,
    /// Whether it gets no further tasks.
    drained: bool,
    jobs: Vec<DrainedJob>,
}

/// What a drain has done to a job.
#[derive(Debug, Serialize)]
struct DrainedJob {
    job: String,
    moved: bool,
    error: Option<String>,
    remedy: Option<String>,
}

impl DrainedJob {
    fn of(job: &str, moved: bool, outcome: &Result<(), Refusal>) -> DrainedJob {
        let error = outcome.as_ref().err().map(Refusal::error);
        DrainedJob {
            job: job.to_owned(),
            moved,
            error: error.map(|error| error.message().to_owned()),
            remedy: error.and_then(|error| error.help().map(str::to_owned)),
        }
    }
}

/// Refuses a job that waits for slots: it would take those of the worker.
fn waits(job: &dyn ServedJob) -> Result<(), Refusal> {
    let Some(what) = job.reading().status.waits_for else { return Ok(()) };
    let error = Error::user(format!("the job waits for workers ({what})"));
    Err(Refusal::Conflict(error.remedy("start other workers first, or stop the job")))
}

/// Answers the request that a worker gets no tasks any more.
pub(super) async fn drain(api: Arc<Api>, worker: String) -> Answer {
    on_thread(api, "drain", move |api| {
        let jobs = api.jobs.jobs();
        let jobs: Vec<_> = jobs.iter().filter(|job| !job.reading().status.ended).collect();
        let away = |job: &str, dry_run| {
            let order = ReconfigureOrder { away_from: vec![worker.clone()], dry_run, ..ReconfigureOrder::default() };
            carry_out(api, job, &order).0.map(drop)
        };
        let rehearsed = jobs.iter().map(|job| {
            let outcome = waits(job.as_ref()).and_then(|()| away(job.name(), true));
            DrainedJob::of(job.name(), false, &outcome)
        });
        let rehearsed: Vec<_> = rehearsed.collect();
        let refused_by_job = rehearsed.iter().any(|job| job.error.is_some());
        // An unknown worker is an error of all jobs.
        if let Err(why) = api.jobs.drain(&worker, !refused_by_job) {
            return refused(&why, "");
        }
        if refused_by_job {
            return json(StatusCode::OK, &DrainedDocument { worker, drained: false, jobs: rehearsed });
        }
        let moved = jobs.iter().map(|job| {
            let outcome = away(job.name(), false);
            DrainedJob::of(job.name(), outcome.is_ok(), &outcome)
        });
        let moved: Vec<_> = moved.collect();
        let drained = moved.iter().all(|job| job.moved);
        if !drained && let Err(why) = api.jobs.drain(&worker, false) {
            return refused(&why, "");
        }
        json(StatusCode::OK, &DrainedDocument { worker, drained, jobs: moved })
    })
    .await
}

/// Answers the request that a worker gets tasks again.
pub(super) async fn undrain(api: Arc<Api>, worker: String) -> Answer {
    on_thread(api, "undrain", move |api| match api.jobs.drain(&worker, false) {
        Ok(()) => json(StatusCode::OK, &DrainedDocument { worker, drained: false, jobs: Vec::new() }),
        Err(why) => refused(&why, ""),
    })
    .await
}
