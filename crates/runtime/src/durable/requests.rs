//! Requests for savepoints in the job's checkpoint storage. The job polls for them slowly and answers with
//! the next checkpoint, which it keeps until the requesting process has copied it.
//!
//! A store that does not answer is not a failure here: the checkpoints find that out, and the requesting
//! process repeats its request.

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_model::{Epoch, ErrorKind, Nanos, Result};
use anabranch_state::{Answer, Blob, REQUEST_FORGOTTEN_MS, Request, Store, decode_manifest};

/// Time between two polls, on a disk and over a network, where each request costs money.
const PACE_LOCAL_NS: u64 = 1_000_000_000;
const PACE_REMOTE_NS: u64 = 2_000_000_000;

/// The job's side of requests.
pub(crate) struct Requests {
    store: Store,
    pace_ns: u64,
    looked: Option<Nanos>,
    current: Option<Current>,
}

struct Current {
    request: Request,
    /// When it was found or renewed.
    renewed: Nanos,
    /// Names of the objects of the checkpoint that answered it.
    answered: Option<BTreeSet<String>>,
}

impl Requests {
    pub(crate) fn new(store: Store) -> Requests {
        let pace_ns = if store.is_remote() { PACE_REMOTE_NS } else { PACE_LOCAL_NS };
        Requests { store, pace_ns, looked: None, current: None }
    }

    /// Keeps the checkpoint with which an earlier process of the job has answered a request.
    pub(crate) fn take_up(&mut self, now: Nanos) -> Result<()> {
        let request = match Request::waiting(&self.store) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Outside => return Err(error),
            // An unreadable request has no valid requester.
            Err(_) => return Ok(()),
        };
        if let Some(names) = self.answered(&request)? {
            self.current = Some(Current { request, renewed: now, answered: Some(names) });
        }
        Ok(())
    }

    /// Names of the objects of the checkpoint with which any process answered a request.
    fn answered(&self, request: &Request) -> Result<Option<BTreeSet<String>>> {
        let names = || -> Result<Option<BTreeSet<String>>> {
            let Some(Answer::Checkpoint { manifest, .. }) = request.answered(&self.store)? else { return Ok(None) };
            let decoded = decode_manifest(&self.store.get_blob(&manifest)?)?;
            Ok(Some(decoded.names().chain([manifest.name]).collect()))
        };
        match names() {
            // Objects that are missing or cannot be decoded: the requesting process will notice and request
            // again.
            Err(error) if error.kind() != ErrorKind::Outside => Ok(Some(BTreeSet::new())),
            names => names,
        }
    }

    /// Time until the next poll.
    pub(crate) fn until_look(&self, now: Nanos) -> Duration {
        let waits_ns = self.looked.map_or(0, |looked| self.pace_ns.saturating_sub(now.since(looked)));
        Duration::from_nanos(waits_ns)
    }

    /// Polls for a request if it is time to. Returns whether there is a new one, and the objects that the
    /// previous one no longer needs.
    pub(crate) fn poll(&mut self, now: Nanos) -> (bool, BTreeSet<String>) {
        if self.looked.is_some_and(|looked| now.since(looked) < self.pace_ns) {
            return (false, BTreeSet::new());
        }
        self.looked = Some(now);
        let Ok(waiting) = Request::waiting(&self.store) else { return (false, BTreeSet::new()) };
        match (&mut self.current, waiting) {
            (Some(current), Some(waiting)) if waiting.id == current.request.id => {
                if waiting.renewed != current.request.renewed {
                    (current.request, current.renewed) = (waiting, now);
                } else if now.since(current.renewed) / 1_000_000 > REQUEST_FORGOTTEN_MS as u64 {
                    let _ = current.request.remove(&self.store);
                }
                (false, BTreeSet::new())
            }
            (_, waiting) => {
                let released = self.current.take().and_then(|current| current.answered).unwrap_or_default();
                // The requesting process waits for this acknowledgement. Without it, the request does not
                // count as found, and is found again.
                let found = waiting.filter(|request| request.acknowledge(&self.store).is_ok());
                // The former process of the job may have answered just now.
                let found = found.and_then(|request| Some((self.answered(&request).ok()?, request)));
                self.current = found.map(|(answered, request)| Current { request, renewed: now, answered });
                (self.current.as_ref().is_some_and(|current| current.answered.is_none()), released)
            }
        }
    }

    /// A checkpoint is complete: answers a waiting request.
    pub(crate) fn committed(&mut self, epoch: Epoch, manifest: &Blob, names: &BTreeSet<String>) {
        let Some(current) = self.current.take_if(|current| current.answered.is_none()) else { return };
        let answer = Answer::Checkpoint { epoch, manifest: manifest.clone() };
        let answered = match current.request.answer(&self.store, &answer) {
            Ok(true) => Some(names.clone()),
            // Another process was faster, or this process has answered and the store's response was lost.
            Ok(false) => self.answered(&current.request).unwrap_or(None),
            Err(_) => None,
        };
        self.current = Some(Current { answered, ..current });
    }

    /// The objects that are kept for a request.
    pub(crate) fn held(&self) -> impl Iterator<Item = &String> {
        self.current.iter().flat_map(|current| &current.answered).flatten()
    }

    /// The job has ended, and there will be no further checkpoint.
    pub(crate) fn ended(&self) {
        if let Some(current) = self.current.as_ref().filter(|current| current.answered.is_none()) {
            let _ = current.request.answer(&self.store, &Answer::Ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_state::{Access, Asked};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_checkpoint_is_held_from_the_answer_to_the_end_of_the_request() {
        let folder = tempfile::tempdir().expect("folder");
        let store = Store::open(folder.path().to_str().expect("text"), &Access::default()).expect("store");
        let manifest = store.put("manifests/1", vec![1].into()).expect("put");
        let names = BTreeSet::from(["manifests/1".to_owned(), "state/1".to_owned()]);
        let mut requests = Requests::new(store.clone());
        assert_eq!(requests.poll(Nanos(SECOND)), (false, BTreeSet::new()));
        requests.committed(Epoch(1), &manifest, &names);

        let mut asked = Asked::ask(&store, "a".into(), 0).expect("asked");
        assert!(!requests.poll(Nanos(SECOND + 1)).0, "not yet time to look again");
        assert!(requests.poll(Nanos(2 * SECOND)).0 && asked.is_found().expect("read"));
        assert_eq!(asked.answer().expect("read"), None);
        let now_ms = store.written_ms("requests/savepoint.json").expect("head").expect("there");
        let error = Asked::ask(&store, "b".into(), now_ms + 5000).expect_err("one at a time").to_string();
        assert!(error.contains("requested 5 s ago"), "{error}");
        requests.committed(Epoch(2), &manifest, &names);
        requests.committed(Epoch(3), &manifest, &BTreeSet::new());
        assert_eq!(asked.answer().expect("read"), Some(Answer::Checkpoint { epoch: Epoch(2), manifest }));
        assert_eq!(requests.held().cloned().collect::<BTreeSet<_>>(), names);
        // Longer than a request is remembered, but renewed in between.
        asked.renew().expect("renewed");
        assert!(!requests.poll(Nanos(500 * SECOND)).0);
        assert!(!requests.poll(Nanos(1000 * SECOND)).0);
        assert_eq!(requests.held().count(), 2);
        asked.withdraw().expect("done");
        assert_eq!(requests.poll(Nanos(1001 * SECOND)), (false, names));
        assert_eq!(requests.held().count(), 0);
        assert!(store.list("requests").expect("list").is_empty());
    }

    #[test]
    fn an_expired_request_is_removed_and_an_unanswered_one_learns_of_the_end() {
        let folder = tempfile::tempdir().expect("folder");
        let store = Store::open(folder.path().to_str().expect("text"), &Access::default()).expect("store");
        let asked = Asked::ask(&store, "a".into(), 0).expect("asked");
        let mut requests = Requests::new(store.clone());
        assert!(requests.poll(Nanos(0)).0);
        requests.ended();
        assert_eq!(asked.answer().expect("read"), Some(Answer::Ended));
        assert!(!requests.poll(Nanos(601 * SECOND)).0);
        assert!(store.list("requests").expect("list").is_empty(), "forgotten");
        let mut late = asked;
        assert!(late.renew().expect_err("gone").to_string().contains("no longer keeps"));
    }
}
