//! What a job waits for, and when the user is notified of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anabranch_model::{Epoch, Nanos};

/// The user is notified of waits that take longer.
pub(crate) const SLOW: Duration = Duration::from_secs(10);

/// The same for workers, which may have to be started by hand.
const SLOW_WORKERS: Duration = Duration::from_secs(2);

/// Something that the job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Awaited {
    /// An answer of the store of the job's log.
    Log,
    Checkpoint(Epoch),
    /// Tasks that restore their state.
    Restore,
    /// The end of tasks that were cancelled.
    Tasks,
    /// Workers with enough slots.
    Workers,
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Awaited::Log => write!(f, "a request to the job's log"),
            Awaited::Checkpoint(epoch) => write!(f, "the checkpoint of epoch {}", epoch.0),
            Awaited::Restore => write!(f, "restoring the state of the job"),
            Awaited::Tasks => write!(f, "the end of the job's tasks"),
            Awaited::Workers => write!(f, "waiting for workers"),
        }
    }
}

/// What is awaited, and when to notify the user; `None` once the user was notified.
#[derive(Debug, Default)]
pub(crate) struct Watch(BTreeMap<Awaited, Option<Nanos>>);

impl Watch {
    /// Something is awaited from this time on, unless it already was.
    pub(crate) fn begin(&mut self, what: Awaited, from: Nanos) {
        let slow = if what == Awaited::Workers { SLOW_WORKERS } else { SLOW };
        self.0.entry(what).or_insert(Some(from.plus(slow)));
    }

    /// The wait is over; for a checkpoint, so are the waits for all earlier ones. Returns whether the user
    /// was notified of it.
    pub(crate) fn done(&mut self, what: Awaited) -> bool {
        if let Awaited::Checkpoint(last) = what {
            self.0.retain(|earlier, _| !matches!(earlier, Awaited::Checkpoint(epoch) if *epoch < last));
        }
        self.0.remove(&what) == Some(None)
    }

    /// When to check again.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.0.values().flatten().min().copied()
    }

    /// The waits to notify the user of now. Each is returned once.
    pub(crate) fn due(&mut self, now: Nanos) -> Vec<Awaited> {
        let due = |(what, at): (&Awaited, &mut Option<Nanos>)| at.take_if(|at| *at <= now).map(|_| *what);
        self.0.iter_mut().filter_map(due).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_due_once_and_its_end_is_known() {
        let (mut watch, at) = (Watch::default(), |seconds: u64| Nanos(seconds * 1_000_000_000));
        watch.begin(Awaited::Log, at(1));
        watch.begin(Awaited::Log, at(5));
        watch.begin(Awaited::Checkpoint(Epoch(3)), at(2));
        assert_eq!(watch.deadline(), Some(at(11)));
        assert_eq!(watch.due(at(10)), []);
        assert_eq!(watch.due(at(12)), [Awaited::Log, Awaited::Checkpoint(Epoch(3))]);
        assert_eq!((watch.due(at(99)), watch.deadline()), (Vec::new(), None));
        assert!(watch.done(Awaited::Log) && !watch.done(Awaited::Log));
        watch.begin(Awaited::Checkpoint(Epoch(4)), at(20));
        assert!(!watch.done(Awaited::Checkpoint(Epoch(5))), "a later one covers both");
        assert_eq!(watch.deadline(), None);
    }
}
