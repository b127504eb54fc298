//! Changes of a coordinator's running jobs, so that a coordinator that ends at any step leaves a job with
//! exactly one text.
//!
//! The record of a job gets the new text beside the present one, with the version that the plan will have.
//! Then the job changes. The new text becomes the present one when the change is settled: the job's log has a
//! checkpoint of that version. A coordinator that resumes the job with a record that has two texts decides by
//! the log. It decides before it takes the job over, because a plan is needed for that, and looks again
//! afterwards: the coordinator before it may have settled the change in between.

use std::time::Duration;

use anabranch_model::{Error, Result};
use anabranch_protocol::membership::WorkerId;
use anabranch_runtime::{Reconfigured, settled_version};
use tracing::{info, warn};

use super::coordinator::{Shared, leads_no_more};
use super::record::{Next, Record, State};
use super::submitted::Submitted;
use crate::http::{ReconfigureOrder, Refusal, ServedJob as _};
use crate::threads::lock;

/// Pause before another attempt to write a record.
const AGAIN: Duration = Duration::from_millis(200);

/// The text with which a job resumes while its record has two.
#[derive(Clone)]
pub(super) struct Decided {
    next: Next,
    is_new: bool,
}

impl Decided {
    /// The record has one text from now on.
    pub(super) fn apply(&self, record: &mut Record) {
        record.next = None;
        if self.is_new {
            record.order = self.next.order.clone();
        }
    }
}

fn is_settled(job: &Submitted, next: &Next) -> Result<bool> {
    let running = job.running();
    let settled = running.store.as_ref().map(settled_version).transpose()?.flatten();
    Ok(settled == Some(next.version))
}

/// This coordinator has taken the job over: no other one writes to its log any more. Returns an error if one
/// has settled the change since this one decided.
pub(super) fn confirm_text(job: &Submitted) -> Result<()> {
    let Some(decided) = job.decided() else { return Ok(()) };
    loop {
        let confirmed = is_settled(job, &decided.next).and_then(|is_new| match is_new == decided.is_new {
            true => job.write(|record| decided.apply(record)).map(Some),
            false => Ok(None),
        });
        match confirmed {
            Ok(Some(_)) => {
                job.set_decided(None);
                return Ok(());
            }
            Ok(None) => return Err(Error::outside("the coordinator that led before has settled a change since")),
            Err(error) if job.was_left() || job.end_was_requested() => return Err(error),
            Err(error) => {
                warn!(job = job.name(), error = %error, "record of the job cannot be written yet");
                anabranch_model::pause(AGAIN);
            }
        }
    }
}

/// Why a job that has not taken over its checkpoints is not changed.
pub(super) fn not_running(name: &str) -> Refusal {
    Refusal::Conflict(Error::user(format!("the job '{name}' does not run yet")).remedy("wait until it does"))
}

impl Shared {
    /// Changes a running job. Waits until that is settled.
    pub(super) fn change(&self, name: &str, order: &ReconfigureOrder) -> Result<Reconfigured, Refusal> {
        let job = self.find(name)?;
        let _changing = lock(&job.changing);
        self.change_held(&job, order)
    }

    /// The same while nobody else changes the job.
    pub(super) fn change_held(&self, job: &Submitted, order: &ReconfigureOrder) -> Result<Reconfigured, Refusal> {
        let name = job.name();
        if job.state() != State::Running {
            let error = Error::user(format!("the job '{name}' has ended"));
            return Err(Refusal::Conflict(error.remedy("submit it again with the new text")));
        }
        let live = job.live().ok_or_else(|| not_running(name))?;
        let mut changed = job.record();
        let next = order.applied(&changed.order, &live.plan())?;
        changed.order = next.clone();
        let planned = self.prepare(&changed).map_err(Refusal::Wrong)?;
        let moves = order.moves(|worker| self.worker(worker))?;
        let mut is_noted = false;
        let mut note = |version| {
            let noted = Next { order: next.clone(), version };
            is_noted = job.write(|record| record.next = Some(noted)).map_err(Refusal::Wrong)?;
            if is_noted { Ok(()) } else { Err(Refusal::Conflict(leads_no_more())) }
        };
        let done = live.alter(order, &planned.plan, &moves, Some(&mut note));
        if !is_noted {
            return done;
        }
        match &done {
            Ok(done) => {
                job.set_running(planned);
                self.settled(job, |record| (record.order, record.next) = (next.clone(), None));
                info!(job = name, version = done.version.0, "job changed");
            }
            // Another coordinator has the job, and reads what is noted.
            Err(_) if job.was_left() => {}
            Err(why) => {
                warn!(job = name, error = %why.error(), "job not changed");
                self.settled(job, |record| record.next = None);
            }
        }
        done.map_err(|why| match job.was_left() {
            true => Refusal::Conflict(
                Error::outside("another coordinator has taken the job while it was changed")
                    .remedy("see with anabranch show which version of the plan it runs by"),
            ),
            false => why,
        })
    }

    /// Writes the outcome of a change, as long as this coordinator has the job.
    fn settled(&self, job: &Submitted, change: impl Fn(&mut Record)) {
        while let Err(error) = job.write(&change) {
            warn!(job = job.name(), error = %error, "record of the job cannot be written yet");
            if self.role.leader().is_none() || self.closing.is_set() || job.was_left() {
                return;
            }
            self.closing.wait(AGAIN);
        }
    }

    /// The job is about to resume with the record that this coordinator has written last: by the text that
    /// its log is of now.
    pub(super) fn decide_text(&self, job: &Submitted) -> Result<()> {
        let mut record = job.record();
        let decided = match record.next.take() {
            Some(next) => {
                let is_new = is_settled(job, &next)?;
                info!(job = job.name(), settled = is_new, "change of the job decided by its log");
                if is_new {
                    record.order = next.order.clone();
                }
                Some(Decided { next, is_new })
            }
            None if job.is_outdated() => None,
            None => return Ok(()),
        };
        job.set_running(self.prepare(&record)?);
        job.set_decided(decided);
        Ok(())
    }

    /// Decides again for a job that could not resume. Returns whether its text is another one now.
    pub(super) fn decides_anew(&self, job: &Submitted) -> bool {
        let Some(before) = job.decided() else { return false };
        self.decide_text(job).is_ok() && job.decided().is_some_and(|now| now.is_new != before.is_new)
    }

    pub(super) fn worker(&self, name: &str) -> Result<WorkerId, Refusal> {
        let members = self.cluster.members();
        members.worker(name).ok_or_else(|| Refusal::Unknown(members.unknown(name)))
    }
}
