//! The orders of a worker to the tasks of an incarnation, as one value that is published as a whole.
//!
//! The worker changes it on its own thread, and tasks read it on theirs, mostly several times per batch. So a
//! reader takes no lock: it reads the number of the version before and after the value (a sequence lock), and
//! only if the value has changed meanwhile, reads again under the lock that writers hold.

use anabranch_model::{Epoch, Group, Nanos};
use anabranch_protocol::coordinator::{Pace, Then, turn};

use crate::task::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The orders of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Orders {
    /// The last epoch that sources may cut.
    pub(crate) granted: Epoch,
    /// When all sources have cut this epoch, the coordinator grants the next group.
    pub(crate) turn: Epoch,
    /// Sources cut all epochs up to this one at once.
    pub(crate) at_once: Epoch,
    /// Sources end after this epoch. `None`: no stop was requested.
    pub(crate) stop_after: Option<Epoch>,
    /// The epoch of the last checkpoint that was granted.
    pub(crate) checkpoint: Epoch,
    /// When this process has received the request for that checkpoint.
    pub(crate) requested_at: Nanos,
    /// Number of requests of sinks here that this checkpoint fulfils.
    pub(crate) fulfilled: u64,
    /// The last epoch whose checkpoint was abandoned.
    pub(crate) aborted: Epoch,
    /// The last epoch that every sink has written; with checkpoints, the last one that a checkpoint covers.
    pub(crate) done: Epoch,
    /// Tasks leave their parts for the next plan version.
    pub(crate) leaves_parts: bool,
    /// Snapshots are incremental.
    pub(crate) adds: bool,
    /// A sink needs a checkpoint after the last one that was granted: that one was abandoned, or the sink is
    /// at another worker.
    pub(crate) wants_checkpoint: bool,
    /// No later epoch will be done.
    pub(crate) none_done: bool,
    /// All tasks end at once.
    pub(crate) cancelled: bool,
    /// Sinks at other workers are full.
    pub(crate) held_by_others: bool,
}

impl Orders {
    /// For tasks that resume after this epoch.
    fn after(epoch: Epoch) -> Orders {
        Orders {
            granted: epoch,
            turn: epoch,
            at_once: epoch,
            stop_after: None,
            checkpoint: Epoch(0),
            requested_at: Nanos(0),
            fulfilled: 0,
            aborted: Epoch(0),
            done: epoch,
            leaves_parts: false,
            adds: false,
            wants_checkpoint: false,
            none_done: false,
            cancelled: false,
            held_by_others: false,
        }
    }

    /// Sources may cut the epochs of this group. If the last one is a checkpoint: when its request was
    /// received, and the number of `requests` of sinks here by then.
    pub(crate) fn grant(&mut self, group: Group, pace: Pace, then: Then, checkpoint: Option<(Nanos, u64)>) {
        (self.granted, self.turn) = (group.last, turn(group));
        if let Some((at, requests)) = checkpoint {
            (self.checkpoint, self.requested_at, self.fulfilled) = (group.last, at, requests);
            self.wants_checkpoint = false;
        }
        if pace == Pace::AtOnce {
            self.at_once = group.last;
        }
        if then.ends() {
            self.stop_after = Some(group.last);
        }
        self.leaves_parts |= then == Then::Switch;
    }

    /// Whether sources end with this epoch or an earlier one.
    pub(crate) fn stops_after(&self, epoch: Epoch) -> bool {
        self.stop_after.is_some_and(|last| epoch >= last)
    }

    /// Whether `epoch` is done, or will certainly not be done.
    pub(crate) fn is_settled(&self, epoch: Epoch) -> bool {
        self.done >= epoch || self.none_done || self.cancelled
    }

    /// Whether an epoch ends before its time is over. It does if its group is to be cut at once. It also does
    /// if sources are `held` and a checkpoint will release them: at the end of this epoch, of a later one, or
    /// of the group that is granted next. `requests` is the number of requests of sinks here.
    pub(crate) fn cuts_early(&self, epoch: Epoch, held: bool, requests: u64) -> bool {
        let is_settled = self.checkpoint <= self.done.max(self.aborted);
        let is_requested = self.wants_checkpoint || requests > self.fulfilled;
        let leads_to_checkpoint = epoch <= self.checkpoint || (is_settled && is_requested);
        epoch <= self.at_once || (held && epoch <= self.granted && leads_to_checkpoint)
    }

    fn words(&self) -> [u64; WORDS] {
        let Orders { leaves_parts, adds, wants_checkpoint, none_done, cancelled, held_by_others, .. } = *self;
        let flags = [leaves_parts, adds, wants_checkpoint, none_done, cancelled, held_by_others];
        [
            self.granted.0,
            self.turn.0,
            self.at_once.0,
            self.stop_after.map_or(u64::MAX, |epoch| epoch.0),
            self.checkpoint.0,
            self.requested_at.0,
            self.fulfilled,
            self.aborted.0,
            self.done.0,
            flags.into_iter().rev().fold(0, |flags, flag| flags << 1 | u64::from(flag)),
        ]
    }

    fn from_words(words: [u64; WORDS]) -> Orders {
        let [granted, turn, at_once, stop_after, checkpoint, requested_at, fulfilled, aborted, done, flags] = words;
        let flag = |at: u32| flags >> at & 1 == 1;
        Orders {
            granted: Epoch(granted),
            turn: Epoch(turn),
            at_once: Epoch(at_once),
            stop_after: (stop_after != u64::MAX).then_some(Epoch(stop_after)),
            checkpoint: Epoch(checkpoint),
            requested_at: Nanos(requested_at),
            fulfilled,
            aborted: Epoch(aborted),
            done: Epoch(done),
            leaves_parts: flag(0),
            adds: flag(1),
            wants_checkpoint: flag(2),
            none_done: flag(3),
            cancelled: flag(4),
            held_by_others: flag(5),
        }
    }
}

const WORDS: usize = 10;

/// Orders that are published as a whole.
pub(crate) struct Published {
    /// Odd while a value is written.
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Published {
    /// For tasks that resume after this epoch.
    pub(crate) fn after(epoch: Epoch) -> Published {
        Published { version: AtomicU64::new(0), words: Orders::after(epoch).words().map(AtomicU64::new) }
    }

    /// The value, unless it is being replaced.
    pub(crate) fn read(&self) -> Option<Orders> {
        let version = self.version.load(SeqCst);
        let orders = self.read_locked();
        let is_whole = version.is_multiple_of(2) && self.version.load(SeqCst) == version;
        is_whole.then_some(orders)
    }

    /// Replaces the value. The caller holds the lock of writers.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Orders) -> T) -> T {
        let mut orders = self.read_locked();
        let result = change(&mut orders);
        self.version.fetch_add(1, SeqCst);
        self.words.iter().zip(orders.words()).for_each(|(word, value)| word.store(value, SeqCst));
        self.version.fetch_add(1, SeqCst);
        result
    }

    /// The value, for a caller that holds the lock of writers.
    pub(crate) fn read_locked(&self) -> Orders {
        Orders::from_words(std::array::from_fn(|at| self.words[at].load(SeqCst)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_is_read_as_it_was_written() {
        let first = Orders::after(Epoch(3));
        assert_eq!(Orders::from_words(first.words()), first);
        let group = Group { first: Epoch(4), last: Epoch(9) };
        let granted = |pace, then, checkpoint| move |orders: &mut Orders| orders.grant(group, pace, then, checkpoint);
        let changes: [&dyn Fn(&mut Orders); 12] = [
            &granted(Pace::Steady, Then::Next, None),
            &granted(Pace::AtOnce, Then::Next, None),
            &granted(Pace::Steady, Then::Stop, None),
            &granted(Pace::Steady, Then::Switch, None),
            &granted(Pace::Steady, Then::Next, Some((Nanos(7), 2))),
            &|orders| orders.aborted = Epoch(9),
            &|orders| orders.done = Epoch(9),
            &|orders| orders.adds = true,
            &|orders| orders.wants_checkpoint = true,
            &|orders| orders.none_done = true,
            &|orders| orders.cancelled = true,
            &|orders| orders.held_by_others = true,
        ];
        let mut seen = vec![first];
        for change in changes {
            let mut expected = first;
            change(&mut expected);
            assert_eq!(Orders::from_words(expected.words()), expected);
            assert!(!seen.contains(&expected), "two orders look alike: {expected:?}");
            seen.push(expected);
        }
    }
}
