//! Changes of running jobs: `anabranch alter`, `rescale`, `migrate`, `drain` and `changes`.

use std::num::NonZeroU32;
use std::time::Duration;

use anabranch_model::{Clock, Error, SystemClock};
use anabranch_server::http::{Client, MoveOrder, ReconfigureOrder};
use serde_json::Value;

use crate::arguments::{Alter, Changes, Drain, Job, Migrate, Rescale};
use crate::client::{client, path, send, worker_path};
use crate::console::Console;
use crate::engine::read;
use crate::failure::Failure;
use crate::functions;
use crate::jobs::{first_line, incomplete, is_over, items, print, since, string, text};
use crate::view::text::bytes;

/// Longest time to wait for a change: its checkpoint may have much to write.
const WAIT: Duration = Duration::from_secs(600);

/// Characters of a request in the list of changes.
const REQUEST_CHARS: usize = 60;

/// The last line of a dry run.
pub(crate) const DRY_RUN: &str = "nothing was changed: this was a dry run";

/// `anabranch alter`: shows what becomes of each part, and changes the job.
pub(crate) fn alter(arguments: &Alter) -> Result<(), Failure> {
    if let Some(file) = &arguments.function {
        return functions::replace(file, arguments);
    }
    // The command line has both, or functions.
    let missing = |what: &str| Failure::request(Error::user(format!("the {what} is missing")));
    let name = arguments.job.as_ref().ok_or_else(|| missing("name of the job"))?;
    let sql = read(arguments.file.as_ref().ok_or_else(|| missing("file"))?).map_err(Failure::request)?;
    let order = ReconfigureOrder {
        sql: Some(sql),
        settings: arguments.settings.options().map(|(name, value)| (name, Some(value))).collect(),
        options: arguments.tables.options.clone(),
        allow_lost_state: arguments.allow_lost_state,
        allow_late: arguments.allow_late,
        ..ReconfigureOrder::default()
    };
    Target { name, client: client_of(&arguments.client)? }.alter(&order, arguments.dry_run)
}

/// `anabranch rescale`: another number of tasks.
pub(crate) fn rescale(arguments: &Rescale) -> Result<(), Failure> {
    let parallelism = NonZeroU32::new(arguments.tasks);
    let (stage, dry_run) = (arguments.stage, arguments.dry_run);
    let order = ReconfigureOrder { parallelism, stage, dry_run, ..ReconfigureOrder::default() };
    Target { name: &arguments.job, client: client_of(&arguments.client)? }.carry_out(&order)
}

/// `anabranch migrate`: tasks go to another worker.
pub(crate) fn migrate(arguments: &Migrate) -> Result<(), Failure> {
    let to = |(stage, task): &(u32, u32)| MoveOrder { stage: *stage, task: *task, to: arguments.to.clone() };
    let moves = arguments.tasks.iter().map(to).collect();
    let order = ReconfigureOrder { moves, dry_run: arguments.dry_run, ..ReconfigureOrder::default() };
    Target::new(&arguments.target)?.carry_out(&order)
}

/// Shows what a drain would do to each job.
pub(crate) fn rehearse_drain(worker: &str, given: &crate::arguments::Client) -> Result<(), Failure> {
    let mut output = Console::output();
    let listed = client_of(given)?.get("/api/v1/jobs")?;
    let runs = |job: &&Value| !is_over(&string(&job["state"]));
    for name in items(&listed["jobs"]).filter(runs).map(|job| string(&job["name"])) {
        let away_from = vec![worker.to_owned()];
        let order = ReconfigureOrder { away_from, dry_run: true, ..ReconfigureOrder::default() };
        Target { name: &name, client: client_of(given)? }.send(&order)?;
        output.line(&format!("job {name} would have no tasks at {worker}"))?;
    }
    Ok(output.line(DRY_RUN)?)
}

/// `anabranch drain`: no tasks at a worker any more, or some again.
pub(crate) fn drain(arguments: &Drain) -> Result<(), Failure> {
    let Drain { worker, undo, client } = arguments;
    let verb = if *undo { "undrain" } else { "drain" };
    let drained = client_of(client)?.post(&format!("{}/{verb}", worker_path(worker)), &Value::Null)?;
    let mut output = Console::output();
    if *undo {
        return Ok(output.line(&format!("worker {worker} gets tasks again: those of jobs that start or change"))?);
    }
    let mut refused = Vec::new();
    for job in items(&drained["jobs"]) {
        let name = string(&job["job"]);
        if job["moved"].as_bool() == Some(true) {
            output.line(&format!("job {name} has no tasks at {worker}"))?;
        }
        if let Some(why) = text(&job["error"]) {
            output.line(&format!("job {name} stays: {why}{}", help(job)))?;
            refused.push(name);
        }
    }
    if refused.is_empty() {
        return Ok(output.line(&format!("worker {worker} has no tasks, and gets no further ones"))?);
    }
    let error = Error::outside(format!("worker {worker} was not drained: {} needs it", refused.join(", ")));
    let stays =
        if drained["drained"].as_bool() == Some(true) { "gets none, as before" } else { "gets tasks as before" };
    Err(error.remedy(format!("mend that, and drain it again; it {stays}")).into())
}

/// `anabranch changes`: the changes of a job.
pub(crate) fn changes(arguments: &Changes) -> Result<(), Failure> {
    if arguments.abort {
        let place = format!("{}/changes/abort", path(&arguments.target.job));
        client_of(&arguments.target.client)?.post(&place, &Value::Null)?;
        return Ok(Console::output().line("the change was aborted: the job continues unchanged")?);
    }
    let listed = client_of(&arguments.target.client)?.get(&format!("{}/changes", path(&arguments.target.job)))?;
    let now = SystemClock::new().wall_ms();
    let mut rows = vec![["WHEN", "REQUEST", "OUTCOME", "VERSION", "TOOK", ""].map(str::to_owned).to_vec()];
    for change in items(&listed["changes"]) {
        let why = text(&change["reason"]).unwrap_or_default();
        rows.push(vec![
            since(now, change["at_ms"].as_i64()),
            shortened(&string(&change["request"])),
            string(&change["outcome"]),
            change["version"].as_u64().map_or_else(|| "-".to_owned(), |version| version.to_string()),
            took(change).unwrap_or_else(|| "-".to_owned()),
            first_line(&why),
        ]);
    }
    let mut output = Console::output();
    if let Some(step) = text(&listed["step"]) {
        output.line(&format!("a change is being carried out: {step}"))?;
    }
    Ok(print(&mut output, &rows, "no changes since this process runs the job")?)
}

/// The beginning of a text that would make the table too wide, such as the reasons of a decision on the
/// number of tasks.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(REQUEST_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

pub(crate) fn client_of(given: &crate::arguments::Client) -> Result<Client, Failure> {
    let mut client = client(given)?;
    client.wait = WAIT;
    Ok(client)
}

/// A job to change.
pub(crate) struct Target<'a> {
    pub(crate) name: &'a str,
    pub(crate) client: Client,
}

impl<'a> Target<'a> {
    pub(crate) fn new(job: &'a Job) -> Result<Self, Failure> {
        Ok(Target { name: &job.job, client: client_of(&job.client)? })
    }

    pub(crate) fn send(&self, order: &ReconfigureOrder) -> Result<Value, Failure> {
        let path = format!("{}/reconfigure", path(self.name));
        send(&self.client, &path, order, order.sql.as_deref().unwrap_or_default())
    }

    /// Changes the job; in a dry run, shows what would become of each part.
    fn carry_out(&self, order: &ReconfigureOrder) -> Result<(), Failure> {
        let done = self.send(order)?;
        if order.dry_run {
            show(&done)?;
            return Ok(Console::output().line(DRY_RUN)?);
        }
        self.report(&done)
    }

    /// Shows what becomes of each part, and changes the job.
    pub(crate) fn alter(&self, order: &ReconfigureOrder, dry_run: bool) -> Result<(), Failure> {
        show(&self.send(&ReconfigureOrder { dry_run: true, ..order.clone() })?)?;
        match dry_run {
            true => Ok(Console::output().line(DRY_RUN)?),
            false => self.report(&self.send(order)?),
        }
    }

    pub(crate) fn report(&self, done: &Value) -> Result<(), Failure> {
        let (name, version) = (self.name, done["version"].as_u64().ok_or_else(|| incomplete("version"))?);
        let took = took(done).ok_or_else(|| incomplete("took_ms"))?;
        let line = match done["unchanged"].as_bool() {
            Some(true) => format!("job {name} is as it was: version {version} of its plan runs"),
            _ => {
                let copied = done["copied_bytes"].as_u64().filter(|copied| *copied > 0);
                let copied = copied.map(|copied| format!("; {} of state were copied ahead", bytes(copied)));
                let copied = copied.unwrap_or_default();
                format!("job {name}: version {version} of its plan runs; the change took {took}{copied}")
            }
        };
        Ok(Console::output().line(&line)?)
    }
}

/// What becomes of each part.
pub(crate) fn show(done: &Value) -> Result<(), Failure> {
    let mut output = Console::output();
    for change in items(&done["changes"]) {
        output.line(&format!("{:<6}{}{}", string(&change["fate"]), string(&change["what"]), passing(change)))?;
    }
    Ok(())
}

/// How a kept part gets to the tasks of the new plan, unless it stays in place.
fn passing(change: &Value) -> String {
    let of_worker = |load: &Value| {
        let (tasks, worker) = (load["tasks"].as_u64().unwrap_or_default(), string(&load["worker"]));
        format!("{tasks} task{} at {worker}", if tasks == 1 { "" } else { "s" })
    };
    let by = items(&change["loads"]).map(of_worker).collect::<Vec<_>>().join(", ");
    match change["how"].as_str() {
        Some("handed-over") => "; handed over in memory".to_owned(),
        Some("loaded") => {
            let size = change["loaded_bytes"].as_u64().map_or_else(|| "its state".to_owned(), bytes);
            format!("; {size} loaded by {by}")
        }
        Some("reopened") => format!("; opened again by {by}"),
        _ => String::new(),
    }
}

/// The remedy of an error, on a line of its own.
pub(crate) fn help(document: &Value) -> String {
    text(&document["remedy"]).map(|remedy| format!("\n  help: {remedy}")).unwrap_or_default()
}

pub(crate) fn took(change: &Value) -> Option<String> {
    let ms = change["took_ms"].as_f64()?;
    Some(if ms < 10_000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1e3) })
}
