//! `anabranch autoscale`: the decisions on a job's number of tasks, and rehearsed ones.

use std::path::Path;

use anabranch_model::{Clock as _, Error, Result, SystemClock};
use anabranch_server::{Observation, autoscale_options, rehearse};
use serde_json::Value;

use crate::arguments::Autoscale;
use crate::client::{client, path};
use crate::console::Console;
use crate::engine::read;
use crate::failure::Failure;
use crate::jobs::{items, since, string};

/// Number of decisions that are shown.
const SHOWN: usize = 20;
/// Largest number of key groups of a job: no stage has more tasks.
const KEY_GROUPS: u16 = 32_768;

pub(crate) fn autoscale(arguments: &Autoscale) -> Result<(), Failure> {
    if let Some(file) = &arguments.file {
        let record = read_record(file).map_err(Failure::request)?;
        return print(&arguments.set, &record).map_err(Failure::request);
    }
    // The command line has a job or a file.
    let job = arguments.job.as_deref().unwrap_or_default();
    let client = client(&arguments.client)?;
    if !arguments.record && !arguments.rehearse {
        return decisions(&client.get(&format!("{}/autoscale", path(job)))?);
    }
    let observed = client.get(&format!("{}/observations", path(job)))?;
    if arguments.record {
        let mut output = Console::output();
        return Ok(items(&observed["observations"]).try_for_each(|line| output.line(&line.to_string()))?);
    }
    let of_job = observed["settings"].as_object().into_iter().flatten();
    let mut set: Vec<(String, String)> = of_job.map(|(name, value)| (name.clone(), string(value))).collect();
    set.extend(arguments.set.iter().cloned());
    print(&set, &items(&observed["observations"]).cloned().collect::<Vec<_>>()).map_err(Failure::request)
}

/// The lines of a file that `--record` has printed.
fn read_record(file: &Path) -> Result<Vec<Value>> {
    let text = read(file)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parsed = lines.map(|(number, line)| {
        serde_json::from_str(line)
            .map_err(|error| damaged(&error).at(format!("{} line {}", file.display(), number + 1)))
    });
    parsed.collect()
}

fn damaged(error: &serde_json::Error) -> Error {
    let error = Error::user(format!("this is not an observation of a job: {error}"));
    error.remedy("give the output of anabranch autoscale JOB --record")
}

fn decisions(document: &Value) -> Result<(), Failure> {
    let mut output = Console::output();
    output.line(&mode(document))?;
    let all: Vec<&Value> = items(&document["decisions"]).collect();
    let now = SystemClock::new().wall_ms();
    for decision in &all[all.len().saturating_sub(SHOWN)..] {
        output.line(&format!("{}: {}", since(now, decision["at_ms"].as_i64()), string(&decision["text"])))?;
    }
    Ok(())
}

/// Whether the number of tasks follows the load, in one line.
pub(crate) fn mode(document: &Value) -> String {
    let setting = |name: &str| string(&document["settings"][name]);
    let bounds = format!("{} to {} tasks", setting("autoscale-tasks-min"), setting("autoscale-tasks-max"));
    match document["mode"].as_str() {
        Some("on") => format!("the number of tasks follows the load: {bounds}"),
        Some("observe") => format!("the number of tasks would follow the load (observed only): {bounds}"),
        _ => "the number of tasks does not follow the load: SET 'autoscale' = 'on' changes that".to_owned(),
    }
}

/// Prints the decisions of a rehearsal.
fn print(set: &[(String, String)], record: &[Value]) -> Result<()> {
    let options = autoscale_options(set, KEY_GROUPS)?;
    let parse = |value: &Value| serde_json::from_value::<Observation>(value.clone()).map_err(|error| damaged(&error));
    let observations: Vec<Observation> = record.iter().map(parse).collect::<Result<_>>()?;
    let mut output = Console::output();
    if observations.is_empty() {
        return output.line("nothing was observed: SET 'autoscale' = 'observe', or 'on'");
    }
    let at = |value: &Value| value["at_ms"].as_i64().unwrap_or_default();
    let first = record.first().map(at).unwrap_or_default();
    for (value, text) in record.iter().zip(rehearse(&options, &observations)?) {
        output.line(&format!("+{:.1} s: {text}", (at(value) - first) as f64 / 1e3))?;
    }
    Ok(())
}
