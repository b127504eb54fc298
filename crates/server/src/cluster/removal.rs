//! A job that is over leaves the list of a coordinator.

use anabranch_model::{Error, ErrorKind, Result};
use anabranch_state::Store;
use tracing::{info, warn};

use super::coordinator::{Shared, leads_no_more};
use super::record::{Record, State};
use crate::http::Refusal;
use crate::threads::lock;

impl Shared {
    /// Removes a job that is over, and its checkpoints at the coordinator's place. The state of a job that
    /// could resume is discarded only if `discards_state`.
    pub(super) fn remove(&self, name: &str, discards_state: bool) -> Result<(), Refusal> {
        // No job of this name is accepted until this is done.
        let _taking = lock(&self.taking);
        let job = self.find(name)?;
        let conflict = |why: String, remedy: String| Err(Refusal::Conflict(Error::user(why).remedy(remedy)));
        match job.state() {
            State::Running => {
                return conflict(format!("the job '{name}' runs"), format!("stop it first: anabranch stop {name}"));
            }
            State::Stopped | State::Failed | State::Cancelled if !discards_state => {
                return conflict(
                    format!("the job '{name}' could resume from its newest checkpoint, which is removed with it"),
                    format!(
                        "discard its state: anabranch remove {name} --discard-state; or submit it again, and it resumes"
                    ),
                );
            }
            _ => {}
        }
        let store = self.own_store(name).map_err(Refusal::Wrong)?;
        if let Some(store) = &store {
            self.check_removal(name, store.place())?;
        }
        // The record is removed first: a job without checkpoints would start over.
        match job.write(Record::remove) {
            Ok(true) => {}
            Ok(false) => return Err(Refusal::Conflict(leads_no_more())),
            Err(error) => return Err(Refusal::Wrong(error)),
        }
        self.jobs().remove(name);
        info!(job = name, "job removed");
        store.as_ref().map_or(Ok(()), remove_checkpoints).map_err(|error| {
            warn!(job = name, error = %error, "checkpoints of a removed job are left");
            Refusal::Wrong(error.remedy("remove what is left there: a job that gets this name would resume from it"))
        })
    }

    /// Where a coordinator keeps checkpoints of a job that has no place of its own, if something is there.
    fn own_store(&self, name: &str) -> Result<Option<Store>> {
        match Store::open_existing(&self.records.checkpoints(name), self.engine.access()) {
            Err(error) if error.kind() == ErrorKind::User => Ok(None),
            store => store.map(Some),
        }
    }
}

fn remove_checkpoints(store: &Store) -> Result<()> {
    let names = store.top()?;
    // The log is removed last: without it, other objects could not be recognized as checkpoints.
    let (log, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|folder| folder == "log");
    for folder in others.into_iter().chain(log) {
        let objects = store.list(&folder)?;
        store.delete_all(objects.iter().map(String::as_str))?;
    }
    Ok(())
}
