//! Requests for the past of a job.

use std::collections::BTreeSet;

use anabranch_model::Error;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::answers::{Answered, Api, json, json_text, refused};
use super::description::OpenObject;
use super::documents::PlanDocument;
use super::jobs::ServedJob;
use super::query::Parameters;
use super::samples::HistoryDocument;

/// The past of a job.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(super) enum Past {
    Span(HistoryDocument),
    /// The document of the job's stream as it was at the moment that the request names.
    Moment(#[schemars(with = "OpenObject")] Value),
}

/// A job over time, or at a moment.
pub(super) fn history(api: &Api, name: &str, parameters: &Parameters) -> Answered {
    let samples = api.samples();
    if let Some(at_ms) = parameters.number("at")? {
        let Some(document) = samples.at(name, at_ms, parameters.number("stage")?) else {
            let error = Error::outside(format!("there are no samples of the job '{name}' yet"));
            return Err(refused(StatusCode::NOT_FOUND, &error.remedy("ask again in a second")));
        };
        return Ok(json(StatusCode::OK, &Past::Moment(document)));
    }
    let (from, to) = (parameters.number("from")?.unwrap_or(i64::MIN), parameters.number("to")?.unwrap_or(i64::MAX));
    let span = samples.between(name, (from, to), parameters.number("stage")?);
    Ok(json(StatusCode::OK, &Past::Span(span)))
}

/// The present plan of a job. With `version`, the plan of that version, if the history still has samples of
/// it.
pub(super) fn plan(api: &Api, job: &dyn ServedJob, parameters: &Parameters) -> Answered {
    let present = job.plan();
    let wanted = parameters.number("version")?.unwrap_or(present.version.0);
    if wanted == present.version.0 {
        return Ok(json(StatusCode::OK, &PlanDocument::of_job(present.as_ref())));
    }
    let samples = api.samples();
    if let Some(document) = samples.plan(job.name(), wanted) {
        return Ok(json_text(StatusCode::OK, document));
    }
    let mut versions: BTreeSet<u32> = samples.plan_versions(job.name());
    versions.insert(present.version.0);
    let versions: Vec<String> = versions.iter().map(u32::to_string).collect();
    let error = Error::user(format!("version {wanted} of the plan of job '{}' is not kept", job.name()));
    let remedy = format!("ask for a version that the history has: {}", versions.join(", "));
    Err(refused(StatusCode::NOT_FOUND, &error.remedy(remedy)))
}
