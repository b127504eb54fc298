//! A client that requests savepoints of the running job, takes some time to copy the answer, and requests
//! again.

use std::sync::Arc;

use anabranch_model::{Epoch, Incarnation};
use anabranch_state::{Answer, Asked, Blob, Savepoint, Store};
use object_store::memory::InMemory;

use super::outside::{ProcessId, Shared};
use super::truth::{Counts, Truth};
use crate::{Checked, Seen};

/// The client, with access to the store without failures.
#[derive(Default)]
pub(super) struct Asker {
    asked: Option<Asked>,
    answered: Option<Answered>,
    /// Since this request was made, the newest checkpoint was damaged: it may be the answer, and cannot be
    /// copied.
    damaged: bool,
    /// The last savepoint that was copied.
    pub(super) copied: Option<Copied>,
}

/// A savepoint, and the results of its job up to there.
pub(super) struct Copied {
    pub(super) store: Store,
    pub(super) results: Counts,
}

/// The answer, as it was when it was first seen.
struct Answered {
    manifest: Blob,
    /// The owner of the job answered: then this and all later owners keep the checkpoint. Another process may
    /// just have removed what a former owner answered, when it finds the request.
    by_owner: bool,
    /// The process that owned the job.
    owner: Option<ProcessId>,
}

impl Asker {
    /// Requests a savepoint, reads the answer, or copies it and is done.
    pub(super) fn act(&mut self, shared: &Shared, truth: &Truth, turn: u64, seen: &mut Seen) -> Checked {
        let job = Store::new(shared.lock().objects.clone(), "the place of the job");
        let wrong = |what: String| Err(("savepoint", what));
        let Some(asked) = &self.asked else {
            return match Asked::ask(&job, format!("turn-{turn}"), 0) {
                Ok(asked) => {
                    self.asked = Some(asked);
                    Ok(())
                }
                Err(error) => wrong(error.to_string()),
            };
        };
        let Some(Answered { manifest, by_owner, owner }) = &self.answered else {
            match asked.answer() {
                Ok(Some(Answer::Checkpoint { manifest, .. })) => {
                    self.answered = Some(Answered::of(manifest, truth));
                }
                Ok(Some(Answer::Ended)) => return self.withdraw(),
                Ok(None) => {}
                Err(error) => return wrong(error.to_string()),
            }
            return Ok(());
        };
        let to = Store::new(Arc::new(InMemory::new()), "the place of the savepoint");
        match Savepoint::copy(&job, manifest, &to, &mut || Ok(())) {
            Ok(copy) => {
                let Some(results) = truth.results_of(copy.manifest.incarnation, copy.manifest.epoch) else {
                    return wrong(format!("the answer is {}, which is no checkpoint", copy.manifest.epoch));
                };
                self.copied = Some(Copied { store: to, results });
                seen.add("savepoints", 1);
                seen.add("inherited savepoints", u64::from(*owner != truth.owner));
            }
            Err(error) if *by_owner && !self.damaged => return wrong(error.to_string()),
            Err(_) => {}
        }
        self.withdraw()
    }

    /// The newest checkpoint, which may be the answer, is damaged.
    pub(super) fn damaged(&mut self) {
        self.damaged = true;
    }

    fn withdraw(&mut self) -> Checked {
        self.answered = None;
        self.damaged = false;
        match self.asked.take().map(Asked::withdraw) {
            Some(Err(error)) => Err(("savepoint", error.to_string())),
            _ => Ok(()),
        }
    }
}

impl Answered {
    fn of(manifest: Blob, truth: &Truth) -> Answered {
        let id = |name: &str| {
            let (incarnation, rest) = name.rsplit('/').next()?.split_once('-')?;
            // Behind it is the number of the entry.
            let (epoch, _) = rest.split_once('-')?;
            Some((Incarnation(incarnation.parse().ok()?), Epoch(epoch.parse().ok()?)))
        };
        let by = id(&manifest.name).and_then(|(incarnation, epoch)| truth.committer_of(incarnation, epoch));
        let owner = truth.owner;
        Answered { manifest, by_owner: by.is_some() && by == owner, owner }
    }
}
