//! `anabranch savepoint`: requests a checkpoint of a running job, and copies it to a separate place.

use std::path::Path;
use std::time::Duration;

use anabranch_model::{Error, Result, SystemClock};
use anabranch_server::SavepointRequest;
use anabranch_state::{Access, Contents, Savepoint, Store, check_empty};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments;
use crate::client::{client, path};
use crate::console::Console;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::state::size;
use crate::view::text::{bytes, grouped};

pub(crate) fn savepoint(arguments: &arguments::Savepoint) -> Result<(), Failure> {
    if is_name(&arguments.job) && !arguments.last {
        return of_job(arguments);
    }
    let access = Access::from_environment();
    let from = Store::open_existing(&arguments.job, &access).map_err(Failure::request)?;
    if Savepoint::is_at(&from)? {
        let error = Error::user("this is a savepoint already").at(arguments.job.clone());
        return Err(Failure::request(error.remedy("copy its files, or give the place of a job's checkpoints")));
    }
    if from.list("log")?.is_empty() {
        Contents::read(&from).map_err(Failure::request)?;
    }
    let to = Store::open(&arguments.path, &access).map_err(Failure::request)?;
    check_empty(&to).map_err(Failure::request)?;
    let signals = Signals::catch(&[SIGINT, SIGTERM])?;
    let clock = SystemClock::new();
    let mut pause = |time: Duration| {
        check(&signals)?;
        if !time.is_zero() {
            signals.wait(time);
        }
        Ok(())
    };
    let (limit, pause) = (arguments.timeout, &mut pause);
    let taken = SavepointRequest { from: &from, to: &to, clock: &clock, limit, pause }.take()?;
    let (savepoint, skipped) = match taken {
        Some(savepoint) => (savepoint, None),
        None if arguments.last => {
            newest(&from, &to, &signals).map(|(savepoint, damaged)| (savepoint, Some(damaged)))?
        }
        None => Err(Error::outside("no job runs there that could make a savepoint").at(arguments.job.clone()).remedy(
            "start the job, or copy its newest checkpoint with --last; ask again if it runs and writes much at once",
        ))?,
    };
    report(&savepoint, &to, skipped.as_deref())
}

/// Whether this is the name of a coordinator's job: any other place has a slash, or exists.
fn is_name(job: &str) -> bool {
    !job.contains(['/', ':']) && !Path::new(job).exists()
}

/// The savepoint of a coordinator's job, which the coordinator takes.
fn of_job(arguments: &arguments::Savepoint) -> Result<(), Failure> {
    let mut client = client(&arguments.client)?;
    client.wait = arguments.timeout;
    let place = match arguments.path.contains("://") {
        true => arguments.path.clone(),
        // A relative path is relative to this process.
        false => {
            std::path::absolute(&arguments.path).map_or_else(|_| arguments.path.clone(), |p| p.display().to_string())
        }
    };
    let path = format!("{}/savepoint", path(&arguments.job));
    let taken = client.post(&path, &serde_json::json!({ "place": place })).map_err(|why| {
        let other = format!("a name without a slash is a job of the coordinator at {}", client.urls.join(","));
        Failure::planning(&Error::from(why).remedy(format!("{other}; give a checkpoint directory as ./NAME")), "")
    })?;
    let number = |field: &str| taken[field].as_u64().unwrap_or(0);
    let mut output = Console::output();
    output.line(&format!("savepoint of job {} at the end of epoch {}: {place}", arguments.job, number("epoch")))?;
    let (rows, files) = (grouped(number("rows")), number("files"));
    Ok(output.line(&format!("{rows} rows of state in {files} files, {}", bytes(number("bytes"))))?)
}

fn check(signals: &Signals) -> Result<()> {
    match signals.stop_asked() {
        true => Err(Error::user("interrupted: there is no savepoint")),
        false => Ok(()),
    }
}

/// Copies the newest undamaged checkpoint of a job that does not run. Also returns the errors of later ones.
fn newest(from: &Store, to: &Store, signals: &Signals) -> Result<(Savepoint, Vec<String>)> {
    let contents = Contents::read(from)?;
    let savepoint = Savepoint::copy(from, &contents.newest()?.blob, to, &mut || check(signals))?;
    Ok((savepoint, contents.damaged_since().map(ToString::to_string).collect()))
}

/// `skipped`: unless a running job has answered, the errors of the checkpoints after the one that was copied.
fn report(savepoint: &Savepoint, to: &Store, skipped: Option<&[String]>) -> Result<(), Failure> {
    let mut output = Console::output();
    let manifest = &savepoint.manifest;
    let size = size(manifest);
    let epoch = manifest.epoch.0;
    output.line(&format!("savepoint of job {} at the end of epoch {epoch}: {}", manifest.job, to.place()))?;
    output.line(&format!("{} rows of state in {} files, {}", grouped(size.rows), size.files, bytes(size.bytes)))?;
    for part in &manifest.parts {
        output.line(&format!("  {}: {}", part.id, part.key))?;
    }
    for error in skipped.into_iter().flatten() {
        output.line(&format!("skipped, damaged: {error}"))?;
        Console::error().line(&format!(
            "warning: this is not the newest checkpoint, whose state cannot be read; what the job has made visible since \
             epoch {epoch} comes a second time from a job that begins with this savepoint: {error}"
        ))?;
    }
    if skipped.is_some() && savepoint.left_out > 0 {
        Console::error().line(
            "note: results that the job had ready at this checkpoint are left to it. If it was killed, some may not be \
             visible yet. Then, before another job begins with this savepoint: start the job where its checkpoints lie, \
             stop it with Ctrl-C, and take the savepoint again. A job that is started only goes on, and writes what the \
             other one writes",
        )?;
    }
    Ok(())
}
