//! A worker gets no tasks any more, or gets some again.
//!
//! First the worker is excluded from new placements, so that no job that is submitted since is placed there.
//! Then every job is asked whether it can do without the worker. If one cannot, or fails to move its tasks
//! afterwards though it could, the worker gets tasks as it did before.

use std::sync::Arc;

use anabranch_model::Error;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::answers::{Answered, Api, REQUEST, json, on_thread};
use super::documents::ErrorDocument;
use super::jobs::{Refusal, ServedJob};
use super::reconfigure::{ReconfigureOrder, carry_out, not_made};
use crate::threads::lock;

/// What a drain has done.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Drained {
    worker: String,
    /// Whether it gets no further tasks.
    drained: bool,
    jobs: Vec<DrainedJob>,
}

/// What a drain has done to a job.
#[derive(Debug, Serialize, JsonSchema)]
struct DrainedJob {
    job: String,
    /// Whether it has no task at the worker any more.
    moved: bool,
    /// Why it cannot do without the worker.
    error: Option<String>,
    remedy: Option<String>,
}

impl DrainedJob {
    fn of(job: &str, moved: bool, outcome: &Result<(), Refusal>) -> DrainedJob {
        let why = outcome.as_ref().err().map(|why| ErrorDocument::from(why.error()));
        let (error, remedy) = why.map(|ErrorDocument { error, remedy, .. }| (error, remedy)).unzip();
        DrainedJob { job: job.to_owned(), moved, error, remedy: remedy.flatten() }
    }
}

/// Refuses a job that waits for slots: it would take those of the worker.
fn waits(job: &dyn ServedJob) -> Result<(), Refusal> {
    let Some(what) = job.reading().status.waits_for else { return Ok(()) };
    let error = Error::user(format!("the job waits for workers ({what})"));
    Err(Refusal::Conflict(error.remedy("start other workers first, or stop the job")))
}

/// Answers the request that a worker gets no tasks any more.
pub(super) async fn drain(api: Arc<Api>, worker: String) -> Answered {
    on_thread("drain", REQUEST, move || {
        // Each of two workers may be dispensable while both together are not.
        let _one_at_a_time = lock(&api.draining);
        let was_drained = api.jobs.drain(&worker, true).map_err(|why| not_made(&why, ""))?;
        let jobs = api.jobs.jobs();
        let jobs: Vec<_> = jobs.iter().filter(|job| !job.reading().status.ended).collect();
        let away = |job: &str, dry_run| {
            let order = ReconfigureOrder { away_from: vec![worker.clone()], dry_run, ..ReconfigureOrder::default() };
            carry_out(&api, job, &order).0.map(drop)
        };
        let rehearsed = jobs.iter().map(|job| {
            let outcome = waits(job.as_ref()).and_then(|()| away(job.name(), true));
            DrainedJob::of(job.name(), false, &outcome)
        });
        let mut outcomes: Vec<_> = rehearsed.collect();
        if outcomes.iter().all(|job| job.error.is_none()) {
            let moved = jobs.iter().map(|job| {
                let outcome = away(job.name(), false);
                DrainedJob::of(job.name(), outcome.is_ok(), &outcome)
            });
            outcomes = moved.collect();
        }
        let drained = outcomes.iter().all(|job| job.error.is_none());
        if !drained {
            api.jobs.drain(&worker, was_drained).map_err(|why| not_made(&why, ""))?;
        }
        Ok(json(StatusCode::OK, &Drained { worker, drained: drained || was_drained, jobs: outcomes }))
    })
    .await?
}

/// Answers the request that a worker gets tasks again.
pub(super) async fn undrain(api: Arc<Api>, worker: String) -> Answered {
    on_thread("undrain", REQUEST, move || {
        api.jobs.drain(&worker, false).map_err(|why| not_made(&why, ""))?;
        Ok(json(StatusCode::OK, &Drained { worker, drained: false, jobs: Vec::new() }))
    })
    .await?
}
