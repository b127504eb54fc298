//! The request for the past of a job.

use anabranch_model::Error;
use hyper::StatusCode;

use super::answers::{Answer, Api, json, refusal};
use super::query::Parameters;

/// A job over time, or at a moment.
pub(super) fn history(api: &Api, name: &str, parameters: &Parameters) -> Result<Answer, Box<Answer>> {
    let samples = api.samples();
    if let Some(at_ms) = parameters.number("at")? {
        let Some(document) = samples.at(name, at_ms, parameters.number("stage")?) else {
            let error = Error::outside(format!("there are no samples of the job '{name}' yet"));
            return Err(Box::new(refusal(StatusCode::NOT_FOUND, &error.remedy("ask again in a second"))));
        };
        return Ok(json(StatusCode::OK, &document));
    }
    let (from, to) = (parameters.number("from")?.unwrap_or(i64::MIN), parameters.number("to")?.unwrap_or(i64::MAX));
    Ok(json(StatusCode::OK, &samples.between(name, (from, to), parameters.number("stage")?)))
}
