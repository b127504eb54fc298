//! `anabranch alter --function`: replaces functions in all running jobs that use them.

use std::io::{BufRead as _, IsTerminal as _, Write as _, stdin};
use std::path::Path;

use anabranch_model::Error;
use anabranch_server::http::{self, FunctionOrder, NoAnswer};
use serde_json::Value;

use crate::arguments::{Alter, Client};
use crate::console::Console;
use crate::engine::read;
use crate::failure::Failure;
use crate::jobs::{items, string, text};
use crate::reconfigure::{DRY_RUN, client_of, help, show, took};

/// Options of a replacement.
pub(crate) struct Asks {
    /// Without a question.
    pub(crate) yes: bool,
    /// Whether it only shows the outcome for the jobs.
    pub(crate) dry_run: bool,
    /// Whether it prints nothing if no job uses the functions, or if all jobs declare them alike already.
    pub(crate) is_quiet: bool,
}

/// Shows which jobs use the functions of a file, asks, and changes them.
pub(crate) fn replace(file: &Path, arguments: &Alter) -> Result<(), Failure> {
    let sql = read(file).map_err(Failure::request)?;
    let asks = Asks { yes: arguments.yes, dry_run: arguments.dry_run, is_quiet: false };
    replace_text(&arguments.client, sql, arguments.allow_lost_state, &asks)
}

/// Like [`replace`], for the text of statements.
pub(crate) fn replace_text(given: &Client, sql: String, allow_lost_state: bool, asks: &Asks) -> Result<(), Failure> {
    let client = client_of(given)?;
    let rehearsed = send(&client, &FunctionOrder { sql: sql.clone(), jobs: None, allow_lost_state, dry_run: true })?;
    let mut output = Console::output();
    let jobs: Vec<String> = items(&rehearsed["jobs"]).map(|job| string(&job["job"])).collect();
    let is_new = |job: &Value| job["was_same"].as_bool() != Some(true);
    if asks.is_quiet && !items(&rehearsed["jobs"]).any(is_new) {
        return Ok(());
    }
    for job in items(&rehearsed["jobs"]) {
        let functions: Vec<String> = items(&job["functions"]).map(string).collect();
        output.line(&format!("job {} uses {}", string(&job["job"]), functions.join(", ")))?;
        show(job)?;
    }
    if jobs.is_empty() {
        return Ok(output.line("nothing was changed: no running job uses these functions")?);
    }
    if asks.dry_run {
        return Ok(output.line(DRY_RUN)?);
    }
    if !asks.yes && !is_confirmed(jobs.len())? {
        return Ok(output.line("nothing was changed")?);
    }
    report(&send(&client, &FunctionOrder { sql, jobs: Some(jobs), allow_lost_state, dry_run: false })?)
}

fn send(client: &http::Client, order: &FunctionOrder) -> Result<Value, Failure> {
    let internal = |error: serde_json::Error| Failure::request(Error::internal(error.to_string()));
    let body = serde_json::to_value(order).map_err(internal)?;
    client.post("/api/v1/functions", &body).map_err(|why| match why {
        NoAnswer::Refused(refused) => {
            let failure = Failure::planning(&refused.error, "");
            // The place in the message is one in the statements of a job, which the server has.
            Failure { text: refused.text.unwrap_or(failure.text), ..failure }
        }
        NoAnswer::Absent(_) | NoAnswer::Unreachable(_) => why.into(),
    })
}

fn is_confirmed(jobs: usize) -> Result<bool, Failure> {
    if !stdin().is_terminal() {
        let error = Error::user("there is no terminal for the question whether to change these jobs");
        return Err(Failure::request(error.remedy("add --yes to change them without a question")));
    }
    let these = if jobs == 1 { "this job".to_owned() } else { format!("these {jobs} jobs") };
    let failed = |error: std::io::Error| Failure::from(Error::outside(format!("cannot ask: {error}")));
    let mut question = Console::error();
    write!(question, "change {these}? [y/N] ").and_then(|()| question.flush()).map_err(failed)?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn report(done: &Value) -> Result<(), Failure> {
    let mut output = Console::output();
    let mut unchanged = Vec::new();
    for job in items(&done["jobs"]) {
        let name = string(&job["job"]);
        if let Some(version) = job["version"].as_u64() {
            let took = took(job).map(|took| format!("; the change took {took}")).unwrap_or_default();
            output.line(&format!("job {name}: version {version} of its plan runs{took}"))?;
            continue;
        }
        let why = text(&job["error"]).unwrap_or_else(|| "it was not tried after that failure".to_owned());
        output.line(&format!("job {name} is as it was: {why}{}", help(job)))?;
        unchanged.push(name);
    }
    if unchanged.is_empty() {
        return Ok(());
    }
    let error = Error::outside(format!("these jobs are as they were: {}", unchanged.join(", ")));
    Err(error.remedy("fix the cause, and send the functions again; jobs that have them already do not change").into())
}
