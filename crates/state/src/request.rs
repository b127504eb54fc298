//! Requests for savepoints of a running job, through the store alone: any process that can access the job's
//! checkpoints can send one, from any machine.
//!
//! The client writes a request. The job finds and acknowledges it, takes a checkpoint, answers with it, and
//! keeps that checkpoint until the request is removed. The job removes a request that was not renewed for
//! long.

use anabranch_model::{Epoch, Error, Result};
use serde::{Deserialize, Serialize};

use crate::{Blob, Store};

const REQUEST: &str = "requests/savepoint.json";
/// A request that has not been renewed for this time is removed.
pub const REQUEST_FORGOTTEN_MS: i64 = 10 * 60 * 1000;

/// A request for a savepoint, as the job sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Identifies the request: no other has this name.
    pub id: String,
    /// Counts the renewals.
    pub renewed: u64,
}

/// The job's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    /// The requested checkpoint.
    Checkpoint {
        /// Its epoch.
        epoch: Epoch,
        /// Its manifest.
        manifest: Blob,
    },
    /// The job has ended before it made one.
    Ended,
}

impl Request {
    /// The request at a job's place, if there is one.
    pub fn waiting(store: &Store) -> Result<Option<Request>> {
        let Some(content) = store.get(REQUEST)? else { return Ok(None) };
        serde_json::from_slice(&content).map(Some).map_err(|error| {
            Error::damaged(format!("the request for a savepoint cannot be read: {error}"))
                .at(format!("{}/{REQUEST}", store.place()))
                .remedy("remove it")
        })
    }

    fn put(&self, store: &Store, now_ms: i64) -> Result<()> {
        if self.put_if_none(store)? {
            return Ok(());
        }
        let age_ms = store.written_ms(REQUEST)?.map_or(0, |written| now_ms - written);
        if age_ms >= REQUEST_FORGOTTEN_MS {
            store.delete(REQUEST)?;
            if self.put_if_none(store)? {
                return Ok(());
            }
        }
        Err(Error::user(format!("another savepoint of the job was requested {} s ago", age_ms / 1000))
            .at(store.place().to_owned())
            .remedy("wait until it is done"))
    }

    /// Writes the request if there is none. Returns whether this request is the current one: if the first
    /// answer of the store was lost, the retry finds an existing request, which may be this one.
    fn put_if_none(&self, store: &Store) -> Result<bool> {
        Ok(store.put_new(REQUEST, encode(self)?.into())?
            || matches!(Request::waiting(store), Ok(Some(waiting)) if waiting.id == self.id))
    }

    /// Reports that the job has found the request.
    pub fn acknowledge(&self, store: &Store) -> Result<()> {
        store.put(&self.name("found"), b"{}".to_vec().into()).map(|_| ())
    }

    /// Answers the request. Only the first answer counts; returns whether it was this one.
    pub fn answer(&self, store: &Store, answer: &Answer) -> Result<bool> {
        store.put_new(&self.name("answer"), encode(answer)?.into())
    }

    /// The answer of any process of the job.
    pub fn answered(&self, store: &Store) -> Result<Option<Answer>> {
        let name = self.name("answer");
        let Some(content) = store.get(&name)? else { return Ok(None) };
        serde_json::from_slice(&content).map(Some).map_err(|error| {
            Error::damaged(format!("the job's answer cannot be read: {error}"))
                .at(format!("{}/{name}", store.place()))
                .remedy("use the version of Anabranch that runs the job")
        })
    }

    /// Removes the request and its answers.
    pub fn remove(&self, store: &Store) -> Result<()> {
        // The request is removed first: the job releases its checkpoint then.
        if Request::waiting(store)?.is_some_and(|waiting| waiting.id == self.id) {
            store.delete(REQUEST)?;
        }
        store.delete(&self.name("found"))?;
        store.delete(&self.name("answer"))
    }

    fn name(&self, what: &str) -> String {
        format!("requests/{}-{what}.json", self.id)
    }
}

/// A request as its client sees it.
#[derive(Debug)]
pub struct Asked {
    store: Store,
    request: Request,
}

impl Asked {
    /// Sends a request to the job at a place. `now_ms` is the time of day.
    pub fn ask(store: &Store, id: String, now_ms: i64) -> Result<Asked> {
        let request = Request { id, renewed: 0 };
        match request.put(store, now_ms) {
            Ok(()) => Ok(Asked { store: store.clone(), request }),
            Err(error) => {
                // It may exist nevertheless, and would keep a checkpoint and block other requests.
                let _ = request.remove(store);
                Err(error)
            }
        }
    }

    /// Whether a running job has found the request.
    pub fn is_found(&self) -> Result<bool> {
        Ok(self.store.get(&self.request.name("found"))?.is_some())
    }

    /// The job's answer, if there is one.
    pub fn answer(&self) -> Result<Option<Answer>> {
        self.request.answered(&self.store)
    }

    /// Tells the job that the checkpoint is still needed: to be called about every minute.
    pub fn renew(&mut self) -> Result<()> {
        if Request::waiting(&self.store)?.is_none_or(|waiting| waiting.id != self.request.id) {
            return Err(Error::outside("the job no longer keeps the checkpoint: the request was removed")
                .at(self.store.place().to_owned())
                .remedy("ask again"));
        }
        self.request.renewed += 1;
        self.store.put(REQUEST, encode(&self.request)?.into()).map(|_| ())
    }

    /// Ends the request, answered or not.
    pub fn withdraw(self) -> Result<()> {
        self.request.remove(&self.store)
    }
}

fn encode(what: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(what).map_err(|error| Error::internal(format!("a request cannot be encoded: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lossy::{Loss, Lossy};

    #[test]
    fn an_own_request_is_recognized_and_a_failed_one_leaves_nothing() {
        let lossy = Lossy::new(REQUEST, Loss::Retried);
        let asked = Asked::ask(&lossy.store(), "a".into(), 0).expect("its own");
        let error = Asked::ask(&lossy.store(), "b".into(), 0).expect_err("another").to_string();
        assert!(error.contains("another savepoint"), "{error}");
        assert_eq!(Request::waiting(&lossy.store()).expect("read").expect("stays").id, "a");
        asked.withdraw().expect("withdrawn");

        let lossy = Lossy::new(REQUEST, Loss::Answer);
        let error = Asked::ask(&lossy.store(), "a".into(), 0).expect_err("lost").to_string();
        assert!(error.contains("lost on purpose"), "{error}");
        assert_eq!(lossy.store().list("requests").expect("list"), [""; 0]);
    }
}
