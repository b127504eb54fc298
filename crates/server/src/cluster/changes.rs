//! Changes of a coordinator's running jobs, so that a coordinator that ends at any step leaves a job with exactly one text.
//!
//! The record of a job gets the new text beside the present one, with the version that the plan will have. Then the job changes.
//! The new text becomes the present one when the change is settled: the job's log has a checkpoint of that version. A coordinator that
//! resumes the job with a record that has two texts decides by the log.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use anabranch_model::{Error, Result};
use anabranch_protocol::membership::WorkerId;
use anabranch_runtime::{Reconfigure, Reconfigured, settled_version};
use tracing::{info, warn};

use super::coordinator::{Shared, leads_no_more};
use super::record::{Next, Record, State};
use super::submitted::Submitted;
use crate::http::{ReconfigureOrder, Refusal, ServedJob as _};

/// Pause before another attempt to write a record.
const AGAIN: Duration = Duration::from_millis(200);

impl Shared {
    /// Changes a running job. Waits until that is settled.
    pub(super) fn change(&self, name: &str, order: &ReconfigureOrder) -> Result<Reconfigured, Refusal> {
        let job = self.jobs().get(name).cloned();
        let job = job.ok_or_else(|| Refusal::Unknown(Error::user(format!("there is no job '{name}'"))))?;
        let _changing = job.changing();
        let idle = |what: &str, remedy: &str| {
            Refusal::Conflict(Error::user(format!("the job '{name}' {what}")).remedy(remedy.to_owned()))
        };
        if job.state() != State::Running {
            return Err(idle("has ended", "submit it again with the new text"));
        }
        let live = job.live().ok_or_else(|| idle("does not run yet", "wait until it does"))?;
        let mut changed = job.record();
        let next = order.applied(&changed.order);
        changed.order = next.clone();
        let planned = self.prepare(&changed).map_err(Refusal::Wrong)?;
        let moves = order.moves(|worker| self.worker(worker))?;
        let request = |dry_run| {
            let (plan, moves) = ((*planned.plan).clone(), moves.clone());
            Reconfigure { plan, moves, allow_lost_state: order.allow_lost_state, dry_run }
        };
        let rehearsed = live.change(request(true))?;
        if order.dry_run {
            return Ok(rehearsed);
        }
        let noted = Next { order: next.clone(), version: rehearsed.next };
        match job.write(|record| record.next = Some(noted)) {
            Ok(true) => {}
            Ok(false) => return Err(Refusal::Conflict(leads_no_more())),
            Err(error) => return Err(Refusal::Wrong(error)),
        }
        let done = live.change(request(false));
        match &done {
            Ok(done) => {
                job.set_running(planned);
                self.settled(&job, |record| (record.order, record.next) = (next.clone(), None));
                info!(job = name, version = done.version.0, "job changed");
            }
            // Another coordinator has the job, and reads what is noted.
            Err(_) if job.was_left() => {}
            Err(why) => {
                warn!(job = name, error = %why.error(), "job not changed");
                self.settled(&job, |record| record.next = None);
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
            if self.role.leader().is_none() || self.closing.load(SeqCst) || job.was_left() {
                return;
            }
            std::thread::park_timeout(AGAIN);
        }
    }

    /// The job is about to resume with the record that this coordinator has written last: by the text that its log is of.
    pub(super) fn decide_text(&self, job: &Submitted) -> Result<()> {
        let record = job.record();
        if let Some(next) = record.next {
            let running = job.running();
            let settled = running.store.as_ref().map(settled_version).transpose()?.flatten();
            let is_new = settled == Some(next.version);
            info!(job = job.name(), settled = is_new, "change of the job decided by its log");
            let written = job.write(|record| {
                record.next = None;
                if is_new {
                    record.order = next.order;
                }
            })?;
            if !written {
                return Err(leads_no_more());
            }
        } else if !job.is_outdated() {
            return Ok(());
        }
        job.set_running(self.prepare(&job.record())?);
        Ok(())
    }

    /// A worker gets no tasks of jobs that start.
    pub(super) fn drain(&self, name: &str) -> Result<(), Refusal> {
        self.worker(name)?;
        self.cluster.members().drain(name);
        info!(worker = name, "worker drained");
        Ok(())
    }

    fn worker(&self, name: &str) -> Result<WorkerId, Refusal> {
        let members = self.cluster.members();
        members.worker(name).ok_or_else(|| Refusal::Unknown(members.unknown(name)))
    }
}
