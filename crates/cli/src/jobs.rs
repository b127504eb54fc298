//! `anabranch jobs`: the jobs and workers of a coordinator.

use anabranch_model::{Clock, Error, Result, SystemClock};
use serde_json::Value;

use crate::arguments::Jobs;
use crate::client::client;
use crate::console::Console;
use crate::failure::Failure;

/// Lists jobs and workers.
pub(crate) fn jobs(arguments: &Jobs) -> Result<(), Failure> {
    let client = client(&arguments.client)?;
    let (jobs, workers) = (client.get("/api/v1/jobs")?, client.get("/api/v1/workers")?);
    let now = SystemClock::new().wall_ms();
    let mut rows = vec![["JOB", "STATE", "SINCE", ""].map(str::to_owned).to_vec()];
    for job in items(&jobs["jobs"]) {
        let why = text(&job["waits_for"]).map(|what| format!("waits for workers: {what}"));
        let why = why.or_else(|| text(&job["failure"])).unwrap_or_default();
        let since = since(now, job["started_at_ms"].as_i64());
        rows.push(vec![string(&job["name"]), string(&job["state"]), since, first_line(&why)]);
    }
    let mut output = Console::output();
    print(&mut output, &rows, "no jobs: submit one with anabranch submit FILE.sql")?;
    output.line("")?;
    let mut rows =
        vec![["WORKER", "ADDRESS", "PROCESS", "SLOTS", "TASKS", "HEARD", "LABELS"].map(str::to_owned).to_vec()];
    for worker in items(&workers["workers"]) {
        let mut labels: Vec<String> = items(&worker["labels"]).map(string).collect();
        if worker["drained"].as_bool() == Some(true) {
            labels.insert(0, "(drained)".to_owned());
        }
        let number = |field: &str| worker[field].to_string();
        rows.push(vec![
            string(&worker["name"]),
            string(&worker["address"]),
            number("pid"),
            number("slots"),
            number("tasks"),
            since(now, worker["last_heard_at_ms"].as_i64()),
            labels.join(" "),
        ]);
    }
    Ok(print(&mut output, &rows, "no workers: start some with anabranch worker --coordinator HOST:PORT")?)
}

/// Prints a table whose first row is its heading, or `none` if it has no other rows.
pub(crate) fn print(output: &mut Console, rows: &[Vec<String>], none: &str) -> Result<()> {
    match rows.len() {
        1 => output.line(none),
        _ => table(rows).iter().try_for_each(|line| output.line(line)),
    }
}

/// The names of a coordinator's jobs; none if it does not answer.
pub(crate) fn names(client: &anabranch_server::http::Client) -> Vec<String> {
    let answer = client.get("/api/v1/jobs").unwrap_or_default();
    items(&answer["jobs"]).map(|job| string(&job["name"])).collect()
}

/// Whether a job in this state is over.
pub(crate) fn is_over(state: &str) -> bool {
    matches!(state, "ended" | "stopped" | "failed" | "cancelled")
}

/// The elements of an array.
pub(crate) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

/// A text, unless there is none.
pub(crate) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// A text, or nothing.
pub(crate) fn string(value: &Value) -> String {
    text(value).unwrap_or_default()
}

pub(crate) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// How long ago something was.
pub(crate) fn since(now_ms: i64, at_ms: Option<i64>) -> String {
    let Some(at_ms) = at_ms else { return "-".to_owned() };
    let seconds = now_ms.saturating_sub(at_ms).max(0) / 1000;
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// Rows with their columns under each other.
pub(crate) fn table(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The error of a document without a required field.
pub(crate) fn incomplete(what: &str) -> Error {
    let error = Error::outside(format!("the coordinator's answer has no {what}"));
    error.remedy("use the same release for commands and coordinator")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [["a", "bb", ""], ["ääää", "c", "d"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), ["a     bb", "ääää  c   d"]);
    }

    #[test]
    fn ages_have_one_unit() {
        let ages = [(0, "0 s ago"), (119, "119 s ago"), (120, "2 min ago"), (7200, "2 h ago"), (172_800, "2 days ago")];
        for (seconds, expected) in ages {
            assert_eq!(since(seconds * 1000, Some(0)), expected);
        }
        assert_eq!((since(0, Some(5)), since(5, None)), ("0 s ago".to_owned(), "-".to_owned()));
    }
}
