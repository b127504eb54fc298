//! Somebody who asks for savepoints of the running job, takes some time to copy what is answered, and asks again.

use std::sync::Arc;

use anabranch_state::{Answer, Asked, Savepoint, Store};
use object_store::memory::InMemory;

use super::Seen;
use super::outside::{ProcessId, Shared};
use super::truth::{Checked, Truth};

/// Whoever asks, with a way to the store on which nothing goes wrong.
#[derive(Default)]
pub(super) struct Asker {
    /// The request, and the process that had the job by then.
    asked: Option<(Asked, Option<ProcessId>)>,
}

impl Asker {
    /// Asks, or copies what was answered and is done. What is answered is a checkpoint of the log, and kept by the process that
    /// answered it as long as that has the job: another may just have removed it when it hears of the request.
    pub(super) fn act(&mut self, shared: &Shared, truth: &Truth, turn: u64, seen: &mut Seen) -> Checked {
        let job = Store::new(shared.lock().objects.clone(), "the place of the job");
        let wrong = |what: String| Err(("savepoint", what));
        let Some((asked, owner)) = &self.asked else {
            return match Asked::ask(&job, format!("turn-{turn}"), 0) {
                Ok(asked) => {
                    self.asked = Some((asked, truth.owner()));
                    Ok(())
                }
                Err(error) => wrong(error.to_string()),
            };
        };
        let manifest = match asked.answer() {
            Ok(Some(Answer::Checkpoint { manifest, .. })) => manifest,
            Ok(Some(Answer::Ended)) => return self.withdraw(),
            Ok(None) => return Ok(()),
            Err(error) => return wrong(error.to_string()),
        };
        let to = Store::new(Arc::new(InMemory::new()), "the place of the savepoint");
        match Savepoint::copy(&job, &manifest, &to, &mut || Ok(())) {
            Ok(copy) if !truth.has_committed(copy.manifest.incarnation, copy.manifest.epoch) => {
                return wrong(format!("the answer is {}, which is no checkpoint", copy.manifest.epoch));
            }
            Ok(_) => seen.savepoints += 1,
            Err(error) if *owner == truth.owner() => return wrong(error.to_string()),
            Err(_) => {}
        }
        self.withdraw()
    }

    fn withdraw(&mut self) -> Checked {
        match self.asked.take().map(|(asked, _)| asked.withdraw()) {
            Some(Err(error)) => Err(("savepoint", error.to_string())),
            _ => Ok(()),
        }
    }
}
