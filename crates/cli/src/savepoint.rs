//! `anabranch savepoint`: requests a checkpoint of a running job, and copies it to a separate place.

use std::time::Duration;

use anabranch_model::{Clock, Error, HASH_SEED, Result, SystemClock, hash_u64};
use anabranch_state::{Access, Answer, Asked, Blob, Contents, Savepoint, Store, check_empty};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments;
use crate::console::Console;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::state::size;
use crate::view::text::{bytes, grouped};

/// Time in which a running job finds a request.
const FOUND: Duration = Duration::from_secs(10);
/// Time between two polls for the answer, on a disk and over a network.
const LOOK_LOCAL: Duration = Duration::from_millis(100);
const LOOK_REMOTE: Duration = Duration::from_secs(1);
/// Time between two renewals of the request, by which the job knows that its checkpoint is still needed.
const RENEW: Duration = Duration::from_secs(60);

/// Runs the command.
pub(crate) fn savepoint(arguments: &arguments::Savepoint) -> Result<(), Failure> {
    let access = Access::from_environment();
    let wrong = |error: Error| Failure::planning(&error, "");
    let from = Store::open_existing(&arguments.job, &access).map_err(wrong)?;
    if Savepoint::is_at(&from)? {
        let error = Error::user("this is a savepoint already").at(arguments.job.clone());
        return Err(wrong(error.remedy("copy its files, or give the place of a job's checkpoints")));
    }
    if from.list("log")?.is_empty() {
        Contents::read(&from).map_err(wrong)?;
    }
    let to = Store::open(&arguments.path, &access).map_err(wrong)?;
    check_empty(&to).map_err(wrong)?;
    let signals = Signals::catch(&[SIGINT, SIGTERM])?;
    let clock = SystemClock::new();
    let look = if from.is_remote() { LOOK_REMOTE } else { LOOK_LOCAL };
    let mut waiting = Waiting { from: &from, clock: &clock, signals: &signals, look, limit: arguments.timeout };
    let mut asked = Asked::ask(&from, id(&clock), clock.wall_ms())?;
    let answered = waiting.answer(&asked);
    let outcome = match answered {
        Ok(Some(blob)) => waiting.copy(&blob, &to, &mut asked).map(|savepoint| (savepoint, None)),
        Ok(None) if arguments.last => waiting.newest(&to).map(|(savepoint, damaged)| (savepoint, Some(damaged))),
        Ok(None) => Err(Error::outside("no job runs there that could make a savepoint")
            .at(arguments.job.clone())
            .remedy("start the job, or copy its newest checkpoint with --last; ask again if it runs and writes much at once")),
        Err(error) => Err(error),
    };
    // Withdrawn before the outcome is reported: a request that stays would keep the job's checkpoint from being removed.
    let withdrawn = asked.withdraw();
    let (savepoint, skipped) = outcome?;
    withdrawn?;
    report(&savepoint, &to, skipped.as_deref())
}

/// `skipped`: unless a running job has answered, the errors of the checkpoints after the one that was copied.
fn report(savepoint: &Savepoint, to: &Store, skipped: Option<&[String]>) -> Result<(), Failure> {
    let mut output = Console::output();
    let manifest = &savepoint.manifest;
    let size = size(manifest);
    let epoch = manifest.epoch.0;
    output.line(&format!("savepoint of job {} at the end of epoch {epoch}: {}", manifest.job, to.place()))?;
    output.line(&format!("{} rows of state in {} files, {}", grouped(size.rows), size.files, bytes(size.bytes)))?;
    for line in &manifest.outline {
        output.line(&format!("  {line}"))?;
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

fn id(clock: &SystemClock) -> String {
    let time = hash_u64(HASH_SEED, clock.wall_ms() as u64);
    format!("{:016x}", hash_u64(hash_u64(time, clock.now().0), u64::from(std::process::id())))
}

struct Waiting<'a> {
    from: &'a Store,
    clock: &'a SystemClock,
    signals: &'a Signals,
    look: Duration,
    limit: Duration,
}

impl Waiting<'_> {
    /// The manifest that the job answers with. `None`: no job runs, or it has ended before it could.
    fn answer(&self, asked: &Asked) -> Result<Option<Blob>> {
        let started = self.clock.now();
        let mut found = false;
        loop {
            match asked.answer()? {
                Some(Answer::Checkpoint { manifest, .. }) => return Ok(Some(manifest)),
                Some(Answer::Ended) => return Ok(None),
                None => {}
            }
            found = found || asked.is_found()?;
            let waited = self.clock.now().after(started);
            if !found && waited > FOUND {
                return Ok(None);
            }
            if waited > self.limit {
                return Err(Error::outside(format!("the job has made no checkpoint in {} s", self.limit.as_secs()))
                    .at(self.from.place().to_owned())
                    .remedy("find out what delays its checkpoints, or wait longer (--timeout)"));
            }
            self.check_signals()?;
            self.signals.wait(self.look);
        }
    }

    fn check_signals(&self) -> Result<()> {
        match self.signals.stop_asked() {
            true => Err(Error::user("interrupted: there is no savepoint")),
            false => Ok(()),
        }
    }

    /// Copies the checkpoint that the job keeps for this request.
    fn copy(&mut self, blob: &Blob, to: &Store, asked: &mut Asked) -> Result<Savepoint> {
        let mut renewed = self.clock.now();
        let mut step = || {
            self.check_signals()?;
            if self.clock.now().after(renewed) > RENEW {
                asked.renew()?;
                renewed = self.clock.now();
            }
            Ok(())
        };
        Savepoint::copy(self.from, blob, to, &mut step)
    }

    /// Copies the newest undamaged checkpoint of a job that does not run. Also returns the errors of later ones.
    fn newest(&self, to: &Store) -> Result<(Savepoint, Vec<String>)> {
        let contents = Contents::read(self.from)?;
        let savepoint = Savepoint::copy(self.from, &contents.newest()?.blob, to, &mut || self.check_signals())?;
        Ok((savepoint, contents.damaged_since().map(ToString::to_string).collect()))
    }
}
