//! The sending side of an exchange: distributes rows over the receiving tasks and gathers small batches.
//!
//! Rows wait in a buffer per target until there are enough of them or until the buffer timeout (the Flink
//! article of 2015 shows the trade-off). A watermark waits behind the rows that it followed; a marker flushes
//! everything first. So the order is the same on every channel.
//!
//! Sending never waits. Elements that a full channel does not accept wait here, in order, and the chain stops
//! until they are gone: at most the output of one batch, watermark or marker, and the rows whose timeout has
//! passed.

mod division;

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_dataflow::{ExchangeKind, JobOptions};
use anabranch_model::{
    Clock, Envelope, EventTime, KeyGroupRange, KeyGroupRows, KeyGroups, Marker, Nanos, Result, Sampler, Stamped,
};
use anabranch_operators::hash_keys;
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::concat_batches;

use self::division::{compact, rows_of, sort_rows, take_rows};
use crate::task::inbox::Inbox;

/// Up to this number of targets, a separate scan finds the rows of each target; it is cheaper than sorting.
const SCANNED_TARGETS: u32 = 4;

/// The sending end of a channel, to a task of this process or of another one. Only
/// [`ChannelSender::wait_for_room`] waits.
pub(crate) trait ChannelSender: Send {
    /// Adds an envelope to the end of the channel, or returns it if there is no room. If the connection to
    /// the receiver is broken, the error names the peer.
    fn offer(&mut self, envelope: Envelope, clock: &dyn Clock) -> Result<Option<Envelope>>;

    /// Waits until there may be room for an envelope that was returned, or until the channel is closed.
    fn wait_for_room(&self, next: &Envelope);

    /// Number of envelopes that were ever added.
    fn sent(&self) -> u64;

    /// The receiver's watermark, which includes the effect of the first `sent` envelopes of this channel.
    /// `None` if it has not taken all of these, or if that is not known yet.
    fn reached(&mut self, sent: u64) -> Option<EventTime>;

    /// Limit of the bytes in the channel, which only a single larger batch may exceed.
    fn capacity(&self) -> usize;
}

/// A channel to a task of this process.
pub(crate) struct LocalChannel {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) channel: usize,
}

impl ChannelSender for LocalChannel {
    fn offer(&mut self, envelope: Envelope, clock: &dyn Clock) -> Result<Option<Envelope>> {
        Ok(self.inbox.offer(self.channel, envelope, clock))
    }

    fn wait_for_room(&self, next: &Envelope) {
        self.inbox.wait_for_room(self.channel, next);
    }

    fn sent(&self) -> u64 {
        self.inbox.sent(self.channel)
    }

    fn reached(&mut self, sent: u64) -> Option<EventTime> {
        self.inbox.reached(self.channel, sent)
    }

    fn capacity(&self) -> usize {
        self.inbox.capacity()
    }
}

/// Sends one task's rows into one exchange.
pub(crate) struct ExchangeWriter {
    kind: ExchangeKind,
    targets: Vec<Target>,
    /// For a hash exchange: the target of each key group.
    owners: Vec<u32>,
    key_groups: KeyGroups,
    /// Where rows are counted by their key groups, and which batches are counted.
    counted: Option<(Arc<KeyGroupRows>, Sampler)>,
    turn: usize,
    rows_wanted: usize,
    /// Rows of a target are sent when they take this number of bytes, however few they are.
    bytes_wanted: usize,
    buffer_timeout: std::time::Duration,
    clock: Arc<dyn Clock>,
    hashes: Vec<u64>,
    /// Targets of the rows of the current batch.
    row_targets: Vec<u32>,
    /// Whether a channel had no room.
    is_full: bool,
}

struct Target {
    sender: Box<dyn ChannelSender>,
    /// Envelopes that the channel had no room for.
    unsent: VecDeque<Envelope>,
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: usize,
    /// Birth of the oldest pending row.
    born: Nanos,
    /// When the pending rows must be sent.
    deadline: Nanos,
    /// A watermark to send after the pending rows.
    watermark: Option<Stamped<EventTime>>,
    /// Number of envelopes after which the receiver no longer advances as if this task were idle.
    announced: u64,
}

impl ExchangeWriter {
    pub(crate) fn new(
        kind: ExchangeKind,
        senders: Vec<Box<dyn ChannelSender>>,
        (key_groups, assignment): (KeyGroups, &[KeyGroupRange]),
        options: &JobOptions,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mut owners = vec![0; usize::from(key_groups.0)];
        for (task, range) in (0..).zip(assignment) {
            owners[usize::from(range.first)..usize::from(range.end)].fill(task);
        }
        // Rows gathered for a channel take at most half of the channel's limit.
        let bytes_wanted = senders.iter().map(|sender| sender.capacity() / 2).min().unwrap_or(usize::MAX);
        let target = |sender| Target {
            sender,
            unsent: VecDeque::new(),
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
            born: Nanos(u64::MAX),
            deadline: Nanos(u64::MAX),
            watermark: None,
            announced: 0,
        };
        ExchangeWriter {
            kind,
            targets: senders.into_iter().map(target).collect(),
            owners,
            key_groups,
            counted: None,
            turn: 0,
            // Half a batch is worth sending: a full batch divided between two tasks needs no gathering.
            rows_wanted: options.batch_rows.div_ceil(2),
            bytes_wanted,
            buffer_timeout: options.buffer_timeout,
            clock,
            hashes: Vec::new(),
            row_targets: Vec::new(),
            is_full: false,
        }
    }

    /// Counts the rows of each key group in these counters, if several tasks receive them.
    pub(crate) fn counting(mut self, rows: impl FnOnce() -> Arc<KeyGroupRows>) -> Self {
        let divides = matches!(&self.kind, ExchangeKind::Hash { keys } if !keys.is_empty()) && self.targets.len() > 1;
        self.counted = divides.then(|| (rows(), Sampler::default()));
        self
    }

    /// Distributes rows, which take `bytes` together.
    pub(crate) fn batch(&mut self, batch: &RecordBatch, bytes: usize, born: Nanos) -> Result<()> {
        let whole = || (batch.clone(), bytes);
        match &self.kind {
            ExchangeKind::Forward => self.put(0, whole(), born),
            ExchangeKind::Broadcast => (0..self.targets.len()).try_for_each(|target| self.put(target, whole(), born)),
            ExchangeKind::Rebalance => {
                self.turn = (self.turn + 1) % self.targets.len();
                self.put(self.turn, whole(), born)
            }
            ExchangeKind::Hash { keys } => {
                if keys.is_empty() || self.targets.len() == 1 {
                    return self.put(0, whole(), born);
                }
                let columns: Vec<ArrayRef> = keys.iter().map(|key| Arc::clone(batch.column(*key))).collect();
                for (target, rows) in self.partition(&columns, batch.num_rows())?.into_iter().enumerate() {
                    match rows.len() {
                        0 => {}
                        all if all == batch.num_rows() => self.put(target, whole(), born)?,
                        some => {
                            let share = bytes.saturating_mul(some) / batch.num_rows();
                            self.put(target, (take_rows(batch, &rows)?, share), born)?;
                        }
                    }
                }
                Ok(())
            }
        }
    }

    /// For each target the rows whose key groups it owns, in their order.
    fn partition(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Vec<UInt32Array>> {
        hash_keys(keys, rows, &mut self.hashes)?;
        let owner = |hash: &u64| self.owners[usize::from(self.key_groups.of(*hash).0)];
        if let Some((counted, sampler)) = &mut self.counted {
            match sampler.weight(rows) {
                0 => {}
                weight => counted.add(&self.hashes, weight),
            }
        }
        self.row_targets.clear();
        self.row_targets.extend(self.hashes.iter().map(owner));
        let targets = self.targets.len() as u32;
        Ok(match targets {
            ..=SCANNED_TARGETS => (0..targets).map(|target| rows_of(&self.row_targets, target)).collect(),
            _ => sort_rows(&self.row_targets, targets as usize),
        })
    }

    fn put(&mut self, index: usize, (batch, bytes): (RecordBatch, usize), born: Nanos) -> Result<()> {
        let target = &mut self.targets[index];
        if target.pending.is_empty() {
            target.deadline = self.clock.now().plus(self.buffer_timeout);
        }
        target.pending_rows += batch.num_rows();
        target.pending_bytes += bytes;
        target.pending.push(batch);
        target.born = target.born.min(born);
        let enough = target.pending_rows >= self.rows_wanted || target.pending_bytes >= self.bytes_wanted;
        if enough || self.buffer_timeout.is_zero() {
            self.flush_target(index)?;
        }
        Ok(())
    }

    fn flush_target(&mut self, index: usize) -> Result<()> {
        let target = &mut self.targets[index];
        if let Some(first) = target.pending.first() {
            let batch = match target.pending.len() {
                1 => first.clone(),
                _ => concat_batches(&first.schema(), &target.pending)?,
            };
            target.pending.clear();
            (target.pending_rows, target.pending_bytes) = (0, 0);
            let born = std::mem::replace(&mut target.born, Nanos(u64::MAX));
            target.deadline = Nanos(u64::MAX);
            let envelope = Envelope::Batch(Stamped { value: compact(batch)?, born });
            self.is_full |= !target.send(envelope, self.clock.as_ref())?;
        }
        if let Some(watermark) = target.watermark.take() {
            self.is_full |= !target.send(Envelope::Watermark(watermark), self.clock.as_ref())?;
        }
        Ok(())
    }

    /// Passes a watermark on to every target, after the rows that wait there. Before the end of event time,
    /// all targets get the last watermark before it: each has other rows, and they must agree on the
    /// watermark in case the other tasks that send to them are idle.
    pub(crate) fn watermark(&mut self, watermark: Stamped<EventTime>) -> Result<()> {
        for index in 0..self.targets.len() {
            if watermark.value == EventTime::MAX {
                self.flush_target(index)?;
            }
            let target = &mut self.targets[index];
            let born = target.watermark.take().map_or(watermark.born, |waiting| waiting.born.min(watermark.born));
            target.watermark = Some(Stamped { value: watermark.value, born });
            if target.pending.is_empty() {
                self.flush_target(index)?;
            }
        }
        Ok(())
    }

    /// Flushes, then announces to every target that this task is idle.
    pub(crate) fn idle(&mut self) -> Result<()> {
        self.send_to_all(&Envelope::Idle)
    }

    /// Flushes, then sends the marker.
    pub(crate) fn marker(&mut self, marker: Marker) -> Result<()> {
        self.send_to_all(&Envelope::Marker(marker))
    }

    fn send_to_all(&mut self, envelope: &Envelope) -> Result<()> {
        for index in 0..self.targets.len() {
            self.flush_target(index)?;
            self.is_full |= !self.targets[index].send(envelope.clone(), self.clock.as_ref())?;
        }
        Ok(())
    }

    /// Sends the rows whose timeout has passed.
    pub(crate) fn flush_due(&mut self, now: Nanos) -> Result<()> {
        for index in 0..self.targets.len() {
            if self.targets[index].deadline <= now {
                self.flush_target(index)?;
            }
        }
        Ok(())
    }

    /// When rows must be sent next.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.targets.iter().map(|t| t.deadline).filter(|d| *d != Nanos(u64::MAX)).min()
    }

    /// The task has announced with its last watermark that it is no longer idle. With `with_marker`, the
    /// epoch has ended since, and its marker was sent last. A receiver with [all
    /// markers](crate::task::alignment) advances once more as if this task were idle. That is over when the
    /// receiver takes the envelope after the marker.
    pub(crate) fn announced(&mut self, with_marker: bool) {
        for target in &mut self.targets {
            target.announced = target.sender.sent() + target.unsent.len() as u64 + u64::from(with_marker);
        }
    }

    /// The furthest event time of the receivers; `None` while some may advance as if this task were idle.
    pub(crate) fn reached(&mut self) -> Option<EventTime> {
        furthest(self.targets.iter_mut().map(|target| target.sender.reached(target.announced)))
    }

    /// Sends the elements that wait for room, as far as there is room. Returns whether none waits any more.
    pub(crate) fn has_room(&mut self) -> Result<bool> {
        if self.is_full {
            self.is_full = false;
            for target in &mut self.targets {
                self.is_full |= !target.resend(self.clock.as_ref())?;
            }
        }
        Ok(!self.is_full)
    }

    /// Whether elements wait for room.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Waits for room in a channel that had none, or until it is closed.
    pub(crate) fn wait_for_room(&self) {
        let full = self.targets.iter().find_map(|target| Some((&target.sender, target.unsent.front()?)));
        if let Some((sender, next)) = full {
            sender.wait_for_room(next);
        }
    }
}

impl Target {
    /// Returns whether the channel has taken everything.
    fn send(&mut self, envelope: Envelope, clock: &dyn Clock) -> Result<bool> {
        self.unsent.push_back(envelope);
        self.resend(clock)
    }

    /// Sends the waiting envelopes. Returns whether the channel has taken everything.
    fn resend(&mut self, clock: &dyn Clock) -> Result<bool> {
        while let Some(next) = self.unsent.pop_front() {
            if let Some(refused) = self.sender.offer(next, clock)? {
                self.unsent.push_front(refused);
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The maximum. `None` if one is not known; all are evaluated nevertheless.
pub(crate) fn furthest(all: impl Iterator<Item = Option<EventTime>>) -> Option<EventTime> {
    let mut furthest = Some(EventTime::MIN);
    for time in all {
        furthest = furthest.zip(time).map(|(furthest, time)| furthest.max(time));
    }
    furthest
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};

    use anabranch_model::batch_bytes;

    use super::*;
    use crate::task::inbox::Received;

    /// Rows may be large: the rows that a sender gathers are bounded in bytes, and so is a batch in a
    /// channel.
    #[test]
    fn large_rows_leave_before_there_are_many() {
        let clock: Arc<dyn Clock> = Arc::new(anabranch_model::ManualClock::default());
        let inboxes = [0, 1, 2].map(|_| Arc::new(Inbox::new(1, 64 << 10)));
        let channel = |inbox| Box::new(LocalChannel { inbox: Arc::clone(inbox), channel: 0 }) as Box<dyn ChannelSender>;
        let senders = inboxes.iter().map(channel).collect();
        let kind = ExchangeKind::Hash { keys: vec![0] };
        let options = JobOptions { buffer_timeout: std::time::Duration::from_secs(1), ..JobOptions::default() };
        let groups = KeyGroups(128);
        let owners = [0, 1, 2].map(|task| groups.share(task, 3));
        let mut writer = ExchangeWriter::new(kind, senders, (groups, &owners), &options, Arc::clone(&clock));
        let mut received = 0;
        for first in (0..600_i64).step_by(6) {
            let text = |n: i64| Some(format!("{n} {}", "x".repeat(1000)));
            let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 6));
            let texts: ArrayRef = Arc::new((first..first + 6).map(text).collect::<StringViewArray>());
            let batch = RecordBatch::try_from_iter([("key", keys), ("text", texts)]).expect("batch");
            writer.batch(&batch, batch_bytes(&batch), Nanos(0)).expect("sent");
            let gathered = writer.targets.iter().flat_map(|target| &target.pending).map(batch_bytes).sum::<usize>();
            assert!(gathered < 3 * (32 << 10) + batch_bytes(&batch), "{gathered} bytes wait to be sent");
            for inbox in &inboxes {
                if let Received::Envelope(_, envelope) =
                    inbox.receive(&[false], Some(std::time::Duration::ZERO), clock.as_ref())
                    && let Envelope::Batch(batch) = envelope
                {
                    assert!(batch_bytes(&batch.value) <= 64 << 10);
                    received += batch.value.num_rows();
                }
            }
        }
        assert!(received > 450, "{received} of 600 rows");
    }

    /// One receiver has rows that wait to be sent, the others have none.
    #[test]
    fn all_receivers_know_the_last_watermark_before_the_end() {
        let clock: Arc<dyn Clock> = Arc::new(anabranch_model::ManualClock::default());
        let inboxes = [0, 1].map(|_| Arc::new(Inbox::new(1, 64 << 10)));
        let channel = |inbox| Box::new(LocalChannel { inbox: Arc::clone(inbox), channel: 0 }) as Box<dyn ChannelSender>;
        let senders = inboxes.iter().map(channel).collect();
        let options = JobOptions { buffer_timeout: std::time::Duration::from_secs(1), ..JobOptions::default() };
        let groups = KeyGroups(128);
        let owners = [0, 1].map(|task| groups.share(task, 2));
        let kind = ExchangeKind::Hash { keys: vec![0] };
        let mut writer = ExchangeWriter::new(kind, senders, (groups, &owners), &options, Arc::clone(&clock));
        let key: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let batch = RecordBatch::try_from_iter([("key", key)]).expect("batch");
        writer.batch(&batch, batch_bytes(&batch), Nanos(0)).expect("gathered");
        for time in [EventTime(5), EventTime::MAX] {
            writer.watermark(Stamped { value: time, born: Nanos(0) }).expect("passed on");
        }
        for inbox in &inboxes {
            let mut times = Vec::new();
            while let Received::Envelope(_, envelope) =
                inbox.receive(&[false], Some(std::time::Duration::ZERO), clock.as_ref())
            {
                times.extend(if let Envelope::Watermark(watermark) = envelope { Some(watermark.value) } else { None });
            }
            assert_eq!(times, [EventTime(5), EventTime::MAX]);
        }
    }
}
