//! The role of a coordinator, which leads or stands by, and its changes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_model::Result;
use anabranch_runtime::random_seed;
use tracing::{info, warn};

use super::coordinator::Shared;
use super::leader::{Entry, Leaders, Watched, answers, watch};
use super::messages::Leader;
use super::record::State;
use crate::control::Security;
use crate::threads::lock;

/// How often a leader checks whether another coordinator leads.
const LOOK: Duration = Duration::from_millis(500);
/// Pause after a failure.
const AGAIN: Duration = Duration::from_secs(1);
/// Time for jobs to end after another coordinator has taken them over.
const STEP_DOWN: Duration = Duration::from_secs(10);

/// The role of a coordinator, and what it needs to change it.
pub(super) struct Role {
    leaders: Leaders,
    /// Where others reach it, and where commands do.
    own: Entry,
    /// How it connects to other coordinators.
    security: Security,
    state: Mutex<Present>,
}

#[derive(Clone)]
enum Present {
    Undecided,
    /// It leads, and reads the list of jobs.
    Begins(Leader),
    Leads(Leader),
    StandsBy(Leader, Entry),
}

/// How a coordinator connects to others: with the secret of the cluster. `authority` checks their
/// certificates, else its own does.
pub(super) fn of_peers(security: &Security, authority: Option<Vec<u8>>) -> Security {
    match security.clone() {
        Security::TlsServer { token, certificate, .. } => {
            Security::TlsClient { token, authority: authority.unwrap_or(certificate), name: None }
        }
        other => other,
    }
}

impl Role {
    pub(super) fn new(leaders: Leaders, (address, url): (SocketAddr, String), security: Security) -> Role {
        let own = Entry::new(address, url, random_seed());
        Role { leaders, own, security, state: Mutex::new(Present::Undecided) }
    }

    /// This coordinator, if it leads as far as it knows.
    pub(super) fn leader(&self) -> Option<Leader> {
        match *lock(&self.state) {
            Present::Begins(leader) | Present::Leads(leader) => Some(leader),
            _ => None,
        }
    }

    /// Where commands reach the leader, if this is another one.
    pub(super) fn elsewhere(&self) -> Option<String> {
        match &*lock(&self.state) {
            Present::Leads(_) => None,
            Present::StandsBy(_, entry) => Some(entry.url.clone()),
            Present::Begins(_) | Present::Undecided => Some("it again in a moment".to_owned()),
        }
    }

    /// Whether it leads, and no other does. If the list cannot be read, the last known role counts.
    pub(super) fn is_last(&self) -> bool {
        self.may_write().unwrap_or_else(|_| self.leader().is_some())
    }

    /// Whether it certainly leads, and no other does.
    pub(super) fn may_write(&self) -> Result<bool> {
        self.leader().map_or(Ok(false), |leader| self.leaders.is_last(leader))
    }
}

impl Shared {
    /// Stands by if another coordinator answers, and leads otherwise.
    pub(super) fn decide(self: &Arc<Self>) -> Result<()> {
        // At its own address there was a former process of its own, unless many may have this address.
        let Entry { address, owner, .. } = self.role.own;
        let is_other = |entry: &Entry| match entry.address.ip().is_unspecified() {
            true => entry.owner != owner,
            false => entry.address != address,
        };
        let last = self.role.leaders.last()?;
        if let Some((leader, entry)) = last.as_ref().filter(|(_, entry)| is_other(entry))
            && answers((*leader, entry), &self.role.security, &self.cluster.members())?
        {
            info!(leader = %entry.address, "stands by");
            *lock(&self.role.state) = Present::StandsBy(*leader, entry.clone());
            return Ok(());
        }
        // The entry follows `last`, so a coordinator that has begun to lead since is not replaced.
        self.lead(last.map(|(leader, _)| leader))
    }

    /// Leads after this one, unless another coordinator is faster.
    fn lead(self: &Arc<Self>, after: Option<Leader>) -> Result<()> {
        let Entry { address, url, .. } = &self.role.own;
        let Some(own) = self.role.leaders.claim(after, &self.role.own)? else { return Ok(()) };
        info!(address = %address, url, "leads");
        *lock(&self.role.state) = Present::Begins(own);
        self.cluster.lead(Some(own));
        match self.records.read() {
            Ok(mut records) => {
                // Their tasks do not run on for long.
                records.sort_by_key(|record| record.state != State::Running);
                records.into_iter().for_each(|record| self.resume(record));
                *lock(&self.role.state) = Present::Leads(own);
                Ok(())
            }
            Err(error) => {
                self.step_down();
                Err(error)
            }
        }
    }

    /// Keeps the role, and changes it when it must, until the coordinator closes.
    pub(super) fn keep_role(self: &Arc<Self>) {
        let closing = || self.closing.is_set();
        while !closing() {
            let present = lock(&self.role.state).clone();
            let changed = match present {
                Present::Begins(own) | Present::Leads(own) => {
                    self.keep_leading(own);
                    Ok(())
                }
                Present::StandsBy(leader, entry) => {
                    let members = self.cluster.members();
                    let seen = watch((leader, &entry), &self.role.security, &members, &|| !closing());
                    match seen {
                        Ok(Watched::Gone) => self.take_over(leader),
                        Ok(Watched::Ended) => Ok(()),
                        Err(error) => Err(error),
                    }
                }
                Present::Undecided => self.decide(),
            };
            if let Err(error) = changed {
                warn!(error = %error, "neither leads nor stands by");
                *lock(&self.role.state) = Present::Undecided;
                self.closing.wait(AGAIN);
            }
        }
    }

    /// The former leader is gone: this coordinator leads instead, unless another one is faster.
    fn take_over(self: &Arc<Self>, former: Leader) -> Result<()> {
        *lock(&self.role.state) = Present::Undecided;
        if self.role.leaders.is_last(former)? {
            warn!("leader does not answer");
            self.lead(Some(former))?;
        }
        Ok(())
    }

    /// Until another coordinator leads, or this one closes.
    fn keep_leading(&self, own: Leader) {
        let is_later = |leader| leader > own;
        while !self.closing.is_set() {
            self.closing.wait(LOOK);
            if self.cluster.members().leader().is_some_and(is_later) || !self.role.is_last() {
                warn!("another coordinator leads");
                return self.step_down();
            }
        }
    }

    /// Another coordinator has the jobs.
    fn step_down(&self) {
        let jobs = {
            // From here on no job is accepted.
            let _taking = lock(&self.taking);
            *lock(&self.role.state) = Present::Undecided;
            self.cluster.lead(None);
            std::mem::take(&mut *self.jobs())
        };
        jobs.values().filter(|job| job.state() == State::Running).for_each(|job| job.leave());
        let clock = self.engine.clock();
        let end = clock.now().plus(STEP_DOWN);
        for ended in jobs.values().filter_map(|job| job.take_end()) {
            // Nothing is ever sent: the channel closes with the job's thread.
            let _ = ended.recv_timeout(end.after(clock.now()));
        }
    }
}
