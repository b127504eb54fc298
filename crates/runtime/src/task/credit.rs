//! Limits the bytes in flight on a channel. The receiver sets a limit; the sender charges every frame to it,
//! and the receiver returns the bytes that its task has taken.
//!
//! Both ends apply the same rule: a frame may be sent if it fits into the limit, or if less than half of the
//! limit is in flight. So a frame of any size passes, and a sender that violates the rule is detected. A
//! sender that must wait has at least half of the limit in flight: so the receiver may wait until half of it
//! has been taken before it returns credit, in few messages.

/// The sender's side of a channel.
#[derive(Debug, Default)]
pub(crate) struct SendCredit {
    /// Bytes that may be outstanding; 0 until the receiver has set the limit.
    limit: u64,
    /// Bytes sent and not yet returned.
    outstanding: u64,
}

impl SendCredit {
    /// The receiver sets the limit: once, before anything is sent.
    pub(crate) fn open(&mut self, bytes: u64) -> Result<(), &'static str> {
        if self.limit > 0 || bytes == 0 {
            return Err("it sets the limit of a channel twice, or to no bytes");
        }
        self.limit = bytes;
        Ok(())
    }

    /// Bytes that may be outstanding, once the receiver has set the limit.
    pub(crate) fn limit(&self) -> Option<u64> {
        (self.limit > 0).then_some(self.limit)
    }

    /// Charges a frame, if it may be sent now.
    pub(crate) fn charge(&mut self, bytes: u64) -> bool {
        let may = self.limit > 0 && fits(self.outstanding, bytes, self.limit);
        self.outstanding += if may { bytes } else { 0 };
        may
    }

    /// The receiver returns bytes.
    pub(crate) fn returned(&mut self, bytes: u64) -> Result<(), &'static str> {
        let rest = self.outstanding.checked_sub(bytes);
        self.outstanding = rest.ok_or("it returns more credit than it was charged")?;
        Ok(())
    }

    /// Bytes sent and not yet returned.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }
}

/// The receiver's side of a channel.
#[derive(Debug)]
pub(crate) struct ReceiveCredit {
    limit: u64,
    /// Bytes received that the task has not taken.
    held: u64,
    /// Bytes taken that have not been returned to the sender.
    due: u64,
}

impl ReceiveCredit {
    pub(crate) fn new(limit: u64) -> Self {
        ReceiveCredit { limit: limit.max(1), held: 0, due: 0 }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// A frame has arrived. An honest sender's count of outstanding bytes is never below ours.
    pub(crate) fn received(&mut self, bytes: u64) -> Result<(), &'static str> {
        if !fits(self.held + self.due, bytes, self.limit) {
            return Err("it sends more than its limit allows");
        }
        self.held += bytes;
        Ok(())
    }

    /// The task has taken bytes. Returns true if the sender may be waiting for them.
    pub(crate) fn taken(&mut self, bytes: u64) -> bool {
        self.held -= bytes.min(self.held);
        self.due += bytes;
        self.due >= self.limit.div_ceil(2)
    }

    /// The bytes to return now.
    pub(crate) fn take_due(&mut self) -> u64 {
        std::mem::take(&mut self.due)
    }
}

fn fits(outstanding: u64, bytes: u64, limit: u64) -> bool {
    outstanding < limit.div_ceil(2) || outstanding.saturating_add(bytes) <= limit
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use anabranch_model::Rng;

    use super::*;

    #[test]
    fn a_sender_waits_for_its_limit_and_then_for_room() {
        let mut limit = SendCredit::default();
        assert!(!limit.charge(1));
        limit.open(100).unwrap();
        assert!(limit.charge(60) && limit.charge(40) && !limit.charge(1));
        limit.returned(60).unwrap();
        assert!(limit.charge(60) && !limit.charge(1));
        assert_eq!(limit.outstanding(), 100);
    }

    #[test]
    fn a_frame_larger_than_the_limit_passes_while_half_of_it_is_free() {
        let mut limit = SendCredit::default();
        limit.open(100).unwrap();
        assert!(limit.charge(60) && !limit.charge(1000));
        limit.returned(20).unwrap();
        assert!(limit.charge(1000) && !limit.charge(1));
    }

    #[test]
    fn peers_that_break_the_rules_are_noticed() {
        let mut limit = SendCredit::default();
        assert!(limit.open(0).is_err());
        limit.open(100).unwrap();
        assert!(limit.open(100).is_err());
        assert!(limit.charge(10) && limit.returned(11).is_err());
        let mut receiver = ReceiveCredit::new(100);
        receiver.received(1000).unwrap();
        assert!(receiver.received(1).is_err());
        assert!(receiver.taken(1000));
        assert!(receiver.received(1).is_err(), "the sender cannot know of bytes that are not returned");
        assert_eq!(receiver.take_due(), 1000);
        receiver.received(60).unwrap();
        assert!(receiver.received(41).is_err());
    }

    /// Whatever the order of sending, taking and the arrival of credit: the receiver never refuses an honest
    /// sender, holds at most the limit, or half of it and a frame, and everything passes.
    #[test]
    fn honest_ends_never_refuse_and_never_wait_forever() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut sender, mut receiver) = (SendCredit::default(), ReceiveCredit::new(1 + rng.below(500)));
            sender.open(receiver.limit()).unwrap();
            let mut frames: VecDeque<u64> = (0..100).map(|_| 1 + rng.below(300)).collect();
            let (mut wire, mut queue, mut credits) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
            let mut steps_without_progress = 0;
            while !frames.is_empty() || !wire.is_empty() || !queue.is_empty() {
                let mut progress = true;
                match rng.below(4) {
                    0 if frames.front().is_some_and(|bytes| sender.charge(*bytes)) => {
                        wire.extend(frames.pop_front());
                    }
                    1 if !wire.is_empty() => {
                        let bytes = wire.pop_front().unwrap();
                        receiver.received(bytes).unwrap();
                        let held = queue.iter().sum::<u64>();
                        queue.push_back(bytes);
                        assert!(held < receiver.limit().div_ceil(2) || held + bytes <= receiver.limit());
                    }
                    2 if !queue.is_empty() => {
                        if receiver.taken(queue.pop_front().unwrap()) {
                            credits.push_back(receiver.take_due());
                        }
                    }
                    3 if !credits.is_empty() => sender.returned(credits.pop_front().unwrap()).unwrap(),
                    _ => progress = false,
                }
                steps_without_progress = if progress { 0 } else { steps_without_progress + 1 };
                assert!(steps_without_progress < 1000, "seed {seed}: nothing can go on");
            }
        }
    }
}
