//! `anabranch submit`: sends a file's inserts to a coordinator, as one job.

use anabranch_server::TableOption;
use anabranch_server::http::{JobOrder, new_submission};

use crate::arguments::{Client, Settings, Submit};
use crate::client;
use crate::console::Console;
use crate::engine::read;
use crate::failure::Failure;

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
    let (settings, submission) = (settings.options().collect(), Some(new_submission()));
    let order = JobOrder { name: name.to_owned(), sql: sql.to_owned(), settings, options, submission };
    client::send(&client::client(given)?, "/api/v1/jobs", &order, sql)?;
    Ok(Console::output().line(&format!("job {name} was submitted; anabranch show {name} shows it"))?)
}
