//! `anabranch submit`: sends a file's inserts to a coordinator, as one job.

use anabranch_model::Error;
use anabranch_server::http::{JobOrder, NoAnswer, new_submission};

use crate::arguments::Submit;
use crate::client::client;
use crate::console::Console;
use crate::engine::read;
use crate::failure::Failure;

/// Runs the command.
pub(crate) fn submit(arguments: &Submit) -> Result<(), Failure> {
    let wrong = |error: Error| Failure::planning(&error, "");
    let sql = read(&arguments.file).map_err(wrong)?;
    let stem = || arguments.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = arguments.name.clone().or_else(stem).unwrap_or_default();
    let mut settings: std::collections::BTreeMap<_, _> = arguments.settings.set.iter().cloned().collect();
    settings.extend(arguments.settings.parallelism.map(|tasks| ("parallelism".to_owned(), tasks.to_string())));
    let options = arguments.tables.options.clone();
    let order =
        JobOrder { name: name.clone(), sql: sql.clone(), settings, options, submission: Some(new_submission()) };
    let order = serde_json::to_value(&order).map_err(|error| wrong(Error::internal(error.to_string())))?;
    match client(&arguments.client).map_err(wrong)?.post("/api/v1/jobs", &order) {
        Ok(_) => Ok(Console::output().line(&format!("job {name} was submitted; anabranch show {name} shows it"))?),
        // The place in the error is one in this file.
        Err(NoAnswer::Refused(refused)) => Err(Failure::planning(&refused.error, &sql)),
        Err(other) => Err(other.into()),
    }
}
