//! Functions of running jobs: what clients send and get.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{Answered, Api, REQUEST, json, on_thread, parsed, wrong_order};
use super::histories::{ChangeDocument, documents};
use super::reconfigure::not_made;
use crate::functions::{FunctionOutcome, FunctionUse};

/// The order to replace functions in all running jobs that use them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionOrder {
    /// Statements `CREATE OR REPLACE FUNCTION`.
    pub sql: String,
    /// The names of the jobs that use the functions, in alphabetical order: if they are others, no job is
    /// changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<String>>,
    /// Drops state that the new statements do not use. Without it such a function is refused.
    #[serde(default)]
    pub allow_lost_state: bool,
    /// Only reports which jobs use the functions, and the outcome for each part.
    #[serde(default)]
    pub dry_run: bool,
}

/// The outcomes for all jobs that use the functions.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FunctionsReplaced {
    jobs: Vec<FunctionJob>,
}

/// The outcome for a job that uses the functions.
#[derive(Debug, Serialize, JsonSchema)]
struct FunctionJob {
    job: String,
    /// Those of the functions that it uses.
    functions: Vec<String>,
    /// Whether its statements declared them in the same way before.
    was_same: bool,
    outcome: FunctionJobOutcome,
    /// The version of the plan by which the job runs.
    version: Option<u32>,
    took_ms: Option<f64>,
    changes: Vec<ChangeDocument>,
    /// Why the change has failed.
    error: Option<String>,
    remedy: Option<String>,
}

/// What was done with a job.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum FunctionJobOutcome {
    /// This was a dry run.
    Checked,
    /// The job has the new functions.
    Changed,
    /// The job runs as before.
    Failed,
    /// The job was not changed, because the change of a job before it has failed.
    Skipped,
}

impl From<FunctionUse> for FunctionJob {
    fn from(of: FunctionUse) -> Self {
        let FunctionUse { job, functions, was_same, outcome } = of;
        let (outcome, done, took_ms, error) = match outcome {
            FunctionOutcome::Checked(done) => (FunctionJobOutcome::Checked, Some(done), None, None),
            FunctionOutcome::Changed(done, took_ms) => (FunctionJobOutcome::Changed, Some(done), Some(took_ms), None),
            FunctionOutcome::Failed(error) => (FunctionJobOutcome::Failed, None, None, Some(error)),
            FunctionOutcome::Skipped => (FunctionJobOutcome::Skipped, None, None, None),
        };
        FunctionJob {
            job,
            functions,
            was_same,
            outcome,
            version: done.as_ref().map(|done| done.version.0),
            took_ms,
            changes: done.map(|done| documents(&done.changes)).unwrap_or_default(),
            remedy: error.as_ref().and_then(|error| error.help().map(str::to_owned)),
            error: error.map(|error| error.message().to_owned()),
        }
    }
}

/// Answers the request for other functions.
pub(super) async fn functions(api: Arc<Api>, body: Bytes) -> Answered {
    let form = "{\"sql\": \"CREATE OR REPLACE FUNCTION ...\"}; see /api/v1/openapi.json";
    let order: FunctionOrder = parsed(&body, "a change of functions", form).map_err(|error| wrong_order(&error, ""))?;
    on_thread("change", REQUEST, move || {
        api.refuses_changes().map_err(|why| not_made(&why, ""))?;
        let jobs = api.jobs.replace_functions(&order).map_err(|refusal| not_made(&refusal.why, &refusal.sql))?;
        let jobs = jobs.into_iter().map(FunctionJob::from).collect();
        Ok(json(StatusCode::OK, &FunctionsReplaced { jobs }))
    })
    .await?
}
