//! Takes a savepoint of a running job: requests a checkpoint through the job's place, and copies it to a
//! separate one.

use std::time::Duration;

use anabranch_model::{Clock, Error, HASH_SEED, Result, hash_u64};
use anabranch_state::{Answer, Asked, Blob, Savepoint, Store, check_empty};

/// Time in which a running job finds a request.
const FOUND: Duration = Duration::from_secs(10);
/// Time between two polls for the answer, on a disk and over a network.
const LOOK_LOCAL: Duration = Duration::from_millis(100);
const LOOK_REMOTE: Duration = Duration::from_secs(1);
/// Time between two renewals of the request, by which the job knows that its checkpoint is still needed.
const RENEW: Duration = Duration::from_secs(60);

/// A request for a savepoint.
pub struct SavepointRequest<'a> {
    /// The place of the job's checkpoints.
    pub from: &'a Store,
    /// The place of the savepoint, which must be empty.
    pub to: &'a Store,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Longest time to wait for the job's checkpoint.
    pub limit: Duration,
    /// Waits for this time, which may be zero, and returns an error if there shall be no savepoint after all.
    pub pause: &'a mut dyn FnMut(Duration) -> Result<()>,
}

impl SavepointRequest<'_> {
    /// Takes the savepoint. `None`: no job runs there, or it ended before it could answer.
    pub fn take(mut self) -> Result<Option<Savepoint>> {
        check_empty(self.to)?;
        let mut asked = Asked::ask(self.from, self.id(), self.clock.wall_ms())?;
        let found = self.answer(&asked);
        let taken = found.and_then(|found| found.map(|manifest| self.copy(&manifest, &mut asked)).transpose());
        // Withdrawn before the outcome is reported: a request that stays would keep the job's checkpoint from
        // being removed.
        let withdrawn = asked.withdraw();
        let taken = taken?;
        withdrawn?;
        Ok(taken)
    }

    fn id(&self) -> String {
        let time = hash_u64(HASH_SEED, self.clock.wall_ms() as u64);
        format!("{:016x}", hash_u64(hash_u64(time, self.clock.now().0), u64::from(std::process::id())))
    }

    /// The manifest that the job answers with. `None`: no job runs, or it has ended before it could.
    fn answer(&mut self, asked: &Asked) -> Result<Option<Blob>> {
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
            (self.pause)(if self.from.is_remote() { LOOK_REMOTE } else { LOOK_LOCAL })?;
        }
    }

    /// Copies the checkpoint that the job keeps for this request.
    fn copy(&mut self, manifest: &Blob, asked: &mut Asked) -> Result<Savepoint> {
        let mut renewed = self.clock.now();
        let (clock, pause) = (self.clock, &mut *self.pause);
        let mut step = || {
            pause(Duration::ZERO)?;
            if clock.now().after(renewed) > RENEW {
                asked.renew()?;
                renewed = clock.now();
            }
            Ok(())
        };
        Savepoint::copy(self.from, manifest, self.to, &mut step)
    }
}
