//! `anabranch submit`: sends a file's inserts to a coordinator, as one job.

use anabranch_model::Error;
use anabranch_server::TableOption;
use anabranch_server::http::{JobOrder, NoAnswer, new_submission};

use crate::arguments::{Client, Settings, Submit};
use crate::client::client;
use crate::console::Console;
use crate::engine::read;
use crate::failure::Failure;

/// Runs the command.
pub(crate) fn submit(arguments: &Submit) -> Result<(), Failure> {
    let sql = read(&arguments.file).map_err(Failure::request)?;
    let stem = || arguments.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = arguments.name.clone().or_else(stem).unwrap_or_default();
    send(&arguments.client, &name, &sql, &arguments.settings, arguments.tables.options.clone())
}

/// Sends the text of a job. An error has its place in this text.
pub(crate) fn send(
    given: &Client,
    name: &str,
    sql: &str,
    settings: &Settings,
    options: Vec<TableOption>,
) -> Result<(), Failure> {
    let parallelism = settings.parallelism.map(|tasks| ("parallelism".to_owned(), tasks.to_string()));
    let settings = settings.set.iter().cloned().chain(parallelism).collect();
    let (name, sql) = (name.to_owned(), sql.to_owned());
    let order =
        JobOrder { name: name.clone(), sql: sql.clone(), settings, options, submission: Some(new_submission()) };
    let order = serde_json::to_value(&order).map_err(|error| Failure::request(Error::internal(error.to_string())))?;
    match client(given)?.post("/api/v1/jobs", &order) {
        Ok(_) => Ok(Console::output().line(&format!("job {name} was submitted; anabranch show {name} shows it"))?),
        // The place in the error is one in this text.
        Err(NoAnswer::Refused(refused)) => Err(Failure::planning(&refused.error, &sql)),
        Err(other) => Err(other.into()),
    }
}
