//! Functions of running jobs: what clients send and get.

use std::sync::Arc;

use anabranch_model::Error;
use anabranch_runtime::Reconfigured;
use hyper::StatusCode;
use hyper::body::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{Answered, Api, REQUEST, json, on_thread, parsed, wrong_order};
use super::documents::ErrorDocument;
use super::histories::{ChangeDocument, documents};
use super::reconfigure::not_made;

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
pub struct FunctionJob {
    job: String,
    /// Those of the functions that it uses.
    pub(crate) functions: Vec<String>,
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

impl FunctionJob {
    /// A job that is not changed, because the change of a job before it has failed.
    pub(crate) fn new(job: &str, functions: Vec<String>, was_same: bool) -> FunctionJob {
        let (version, took_ms, changes, error, remedy) = (None, None, Vec::new(), None, None);
        let (job, outcome) = (job.to_owned(), FunctionJobOutcome::Skipped);
        FunctionJob { job, functions, was_same, outcome, version, took_ms, changes, error, remedy }
    }

    pub(crate) fn checked(self, done: &Reconfigured) -> FunctionJob {
        let (version, changes) = (Some(done.version.0), documents(&done.changes));
        FunctionJob { outcome: FunctionJobOutcome::Checked, version, changes, ..self }
    }

    pub(crate) fn changed(self, done: &Reconfigured, took_ms: f64) -> FunctionJob {
        FunctionJob { outcome: FunctionJobOutcome::Changed, took_ms: Some(took_ms), ..self.checked(done) }
    }

    pub(crate) fn failed(self, why: &Error) -> FunctionJob {
        let ErrorDocument { error, remedy, .. } = ErrorDocument::from(why);
        FunctionJob { outcome: FunctionJobOutcome::Failed, error: Some(error), remedy, ..self }
    }
}

/// Answers the request for other functions.
pub(super) async fn functions(api: Arc<Api>, body: Bytes) -> Answered {
    let form = "{\"sql\": \"CREATE OR REPLACE FUNCTION ...\"}; see /api/v1/openapi.json";
    let order: FunctionOrder = parsed(&body, "a change of functions", form).map_err(|error| wrong_order(&error, ""))?;
    on_thread("change", REQUEST, move || {
        api.refuses_changes().map_err(|why| not_made(&why, ""))?;
        let jobs = api.jobs.replace_functions(&order).map_err(|refusal| not_made(&refusal.why, &refusal.sql))?;
        Ok(json(StatusCode::OK, &FunctionsReplaced { jobs }))
    })
    .await?
}
