//! The input of a task: one queue per sending task, each bounded in bytes.
//!
//! The bound is per channel, so that a channel that waits for alignment cannot starve the others. A single
//! batch larger than the bound passes when its queue is empty. Locks are taken per batch, never per record.
//!
//! A channel from a task of another process is fed by the thread that reads the connection. Credit bounds it:
//! an envelope holds its permit until the task takes it.

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_model::{Clock, Envelope, Error, EventTime, Nanos, batch_bytes};

use crate::task::returns::{Permit, Question};
use crate::task::sync::atomic::{AtomicI64, Ordering::SeqCst};
use crate::task::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Size of a watermark or marker for the limit, so that a queue of these is bounded too.
const CONTROL_BYTES: usize = 64;

/// Queues from every sender to one task.
pub(crate) struct Inbox {
    state: Mutex<InboxState>,
    readable: Condvar,
    writable: Condvar,
    /// Bytes per channel.
    capacity: usize,
    /// The watermark of the reader, in milliseconds.
    reached: AtomicI64,
}

struct InboxState {
    channels: Vec<Channel>,
    /// Where the search for the next envelope starts, so that no channel starves.
    turn: usize,
    reader_waits: bool,
    /// The channels that the waiting reader must not read.
    blocked: Vec<bool>,
    /// Wakes the reader once, whether or not there is anything to receive.
    woken: bool,
    writers_wait: usize,
    /// When the newest marker arrived that the reader has taken.
    marked_at: Nanos,
    /// Number of channels with a question or a failure.
    notable: usize,
    /// The job is torn down, or the reader needs nothing more: envelopes are neither received nor kept.
    closed: bool,
}

#[derive(Default)]
struct Channel {
    queue: VecDeque<Queued>,
    bytes: usize,
    /// Number of envelopes ever sent, and number of those that the reader has taken.
    sent: u64,
    taken: u64,
    /// The sender is in another process and asks for the reader's watermark after this number of envelopes.
    question: Option<(u64, Question)>,
    /// The connection to the sender is broken: the reader gets this error after the queued envelopes.
    failure: Option<Error>,
    /// The last marker was sent.
    is_complete: bool,
}

struct Queued {
    envelope: Envelope,
    bytes: usize,
    at: Nanos,
    /// For an envelope from another process: returns the credit when it is dropped.
    _permit: Option<Permit>,
}

/// Outcome of [`Inbox::receive`].
pub(crate) enum Received {
    /// An envelope of this channel.
    Envelope(usize, Envelope),
    /// Nothing arrived in time, or the reader was woken.
    Timeout,
    /// The inbox was closed.
    Closed,
    /// The connection to a sender is broken, and everything that it sent before was taken.
    Failed(Error),
}

/// Contents of an inbox.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueStats {
    pub(crate) batches: u64,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Bytes of the fullest channel, as a share of its limit.
    pub(crate) share: f64,
    /// Time since the oldest batch was queued.
    pub(crate) oldest_ns: u64,
    /// Time since a source read the oldest row.
    pub(crate) oldest_read_ns: u64,
}

impl Inbox {
    pub(crate) fn new(channels: usize, capacity: usize) -> Self {
        let state = InboxState {
            channels: (0..channels).map(|_| Channel::default()).collect(),
            turn: 0,
            reader_waits: false,
            blocked: vec![false; channels],
            woken: false,
            writers_wait: 0,
            marked_at: Nanos(0),
            notable: 0,
            closed: false,
        };
        Inbox {
            state: Mutex::new(state),
            readable: Condvar::new(),
            writable: Condvar::new(),
            capacity,
            reached: AtomicI64::new(i64::MIN),
        }
    }

    /// Limit of the bytes in a channel, which only a single larger batch may exceed.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The state is consistent after each statement, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an envelope to the end of a channel, or returns it if there is no room. An envelope for a closed
    /// inbox is dropped: its reader needs nothing more.
    pub(crate) fn offer(&self, channel: usize, envelope: Envelope, clock: &dyn Clock) -> Option<Envelope> {
        let bytes = bytes_of(&envelope);
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        let queue = &mut state.channels[channel];
        if queue.is_full(bytes, self.capacity) {
            return Some(envelope);
        }
        let is_marker = matches!(envelope, Envelope::Marker(_));
        queue.push(Queued { envelope, bytes, at: clock.now(), _permit: None });
        self.notify_of(channel, is_marker, &mut state);
        None
    }

    /// The channel has another envelope. A marker alone does not wake the reader before the markers of all
    /// channels are there: it could only block the channel.
    fn notify_of(&self, channel: usize, is_marker: bool, state: &mut InboxState) {
        if !is_marker || state.completes(channel) {
            self.notify_reader(state);
        }
    }

    fn notify_reader(&self, state: &mut InboxState) {
        if std::mem::take(&mut state.reader_waits) {
            self.readable.notify_one();
        }
    }

    /// Adds an envelope from another process. Its permit holds the credit.
    pub(crate) fn deliver(&self, channel: usize, envelope: Envelope, permit: Permit, clock: &dyn Clock) {
        let bytes = bytes_of(&envelope);
        let mut state = self.lock();
        if state.closed {
            // The sender gets the credit back: it must not wait for a reader that needs nothing more.
            return;
        }
        let target = &mut state.channels[channel];
        let is_marker = matches!(envelope, Envelope::Marker(_));
        target.is_complete |= matches!(&envelope, Envelope::Marker(marker) if marker.kind.closes());
        target.push(Queued { envelope, bytes, at: clock.now(), _permit: Some(permit) });
        self.notify_of(channel, is_marker, &mut state);
    }

    /// The sender in another process asks for the reader's watermark after everything that it has sent so
    /// far. Replaces an older question.
    pub(crate) fn ask(&self, channel: usize, question: Question) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let target = &mut state.channels[channel];
        let is_new = target.question.is_none();
        target.question = Some((target.sent, question));
        state.notable += usize::from(is_new);
        self.notify_reader(&mut state);
    }

    /// The connection to the sender is broken, or has ended without the last marker. Does nothing if that
    /// marker has arrived.
    pub(crate) fn fail(&self, channel: usize, error: Error) {
        let mut state = self.lock();
        let target = &mut state.channels[channel];
        if target.is_complete || target.failure.is_some() {
            return;
        }
        target.failure = Some(error);
        state.notable += 1;
        self.notify_reader(&mut state);
    }

    /// Waits until a channel has room for an envelope, or until the inbox is closed.
    pub(crate) fn wait_for_room(&self, channel: usize, envelope: &Envelope) {
        let bytes = bytes_of(envelope);
        let mut state = self.lock();
        state.writers_wait += 1;
        while state.channels[channel].is_full(bytes, self.capacity) && !state.closed {
            state = self.writable.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.writers_wait -= 1;
    }

    /// Takes the next envelope of the channels that are not `blocked`, fairly. Waits at most `timeout`, or
    /// without limit if it is `None`.
    pub(crate) fn receive(&self, blocked: &[bool], timeout: Option<Duration>, clock: &dyn Clock) -> Received {
        let mut state = self.lock();
        let mut deadline = None;
        loop {
            if state.closed {
                return Received::Closed;
            }
            if state.notable > 0
                && let Some(failure) = state.answer_questions(&self.reached)
            {
                return Received::Failed(failure);
            }
            if let Some((channel, queued)) = state.pop(blocked) {
                if state.writers_wait > 0 {
                    self.writable.notify_all();
                }
                // The permit's credit is returned without the lock.
                drop(state);
                return Received::Envelope(channel, queued.envelope);
            }
            if std::mem::take(&mut state.woken) {
                return Received::Timeout;
            }
            state.blocked.copy_from_slice(blocked);
            let Some(timeout) = timeout else {
                state.reader_waits = true;
                state = self.readable.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            // Time passes whatever woke the reader, even an envelope that it must not take yet.
            let now = clock.now();
            let deadline = *deadline.get_or_insert_with(|| now.plus(timeout));
            if now >= deadline {
                return Received::Timeout;
            }
            state.reader_waits = true;
            let waited = self.readable.wait_timeout(state, deadline.after(now));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.reader_waits = false;
        }
    }

    /// Whether the reader waits, and was not woken.
    #[cfg(test)]
    #[allow(dead_code, reason = "tests that compile this file with other primitives do not use it")]
    pub(crate) fn reader_waits(&self) -> bool {
        self.lock().reader_waits
    }

    /// Lets the reader return at once if it waits, or the next time it is about to wait.
    pub(crate) fn wake(&self) {
        self.lock().woken = true;
        self.readable.notify_all();
    }

    /// Drops what is queued, wakes all threads, and drops everything that is sent from now on.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.channels.iter_mut().for_each(|channel| *channel = Channel::default());
        state.notable = 0;
        self.readable.notify_all();
        self.writable.notify_all();
    }

    /// When the newest marker arrived that the reader has taken: the marker of the last channel, once the
    /// reader has the markers of all.
    pub(crate) fn marked_at(&self) -> Nanos {
        self.lock().marked_at
    }

    /// Sets the reader's watermark.
    pub(crate) fn set_reached(&self, time: EventTime) {
        self.reached.fetch_max(time.0, SeqCst);
    }

    /// Number of envelopes that were ever sent on a channel.
    pub(crate) fn sent(&self, channel: usize) -> u64 {
        self.lock().channels[channel].sent
    }

    /// The reader's watermark, which includes the effect of the first `sent` envelopes of this channel.
    /// `None` if it has not taken all of these.
    pub(crate) fn reached(&self, channel: usize, sent: u64) -> Option<EventTime> {
        let has_taken = self.lock().channels[channel].taken >= sent;
        has_taken.then(|| EventTime(self.reached.load(SeqCst)))
    }

    pub(crate) fn stats(&self, now: Nanos) -> QueueStats {
        let state = self.lock();
        let mut stats = QueueStats::default();
        for channel in &state.channels {
            stats.bytes += channel.bytes as u64;
            stats.share = stats.share.max(channel.bytes as f64 / self.capacity as f64);
            for queued in &channel.queue {
                let Envelope::Batch(batch) = &queued.envelope else { continue };
                stats.batches += 1;
                stats.rows += batch.value.num_rows() as u64;
                stats.oldest_ns = stats.oldest_ns.max(now.since(queued.at));
                stats.oldest_read_ns = stats.oldest_read_ns.max(now.since(batch.born));
            }
        }
        stats
    }
}

fn bytes_of(envelope: &Envelope) -> usize {
    match envelope {
        // Rows without columns take no bytes, but a place in the queue.
        Envelope::Batch(batch) => batch_bytes(&batch.value).max(CONTROL_BYTES),
        _ => CONTROL_BYTES,
    }
}

impl Channel {
    fn push(&mut self, queued: Queued) {
        self.bytes += queued.bytes;
        self.sent += 1;
        self.queue.push_back(queued);
    }

    fn is_full(&self, bytes: usize, capacity: usize) -> bool {
        self.bytes > 0 && self.bytes + bytes > capacity
    }
}

impl InboxState {
    /// Answers the questions whose envelopes were taken. Returns a failure if everything before it was taken.
    fn answer_questions(&mut self, reached: &AtomicI64) -> Option<Error> {
        for channel in &mut self.channels {
            let taken = channel.taken;
            if let Some((_, question)) = channel.question.take_if(|(sent, _)| *sent <= taken) {
                question.answer(EventTime(reached.load(SeqCst)));
                self.notable -= 1;
            }
            if channel.queue.is_empty()
                && let Some(failure) = channel.failure.take()
            {
                self.notable -= 1;
                return Some(failure);
            }
        }
        None
    }

    /// Whether every channel that the reader reads has an envelope, now that this one has. Its first envelope
    /// is a marker: the reader was woken for anything else.
    fn completes(&self, channel: usize) -> bool {
        let others = self.channels.iter().zip(&self.blocked).enumerate().filter(|(other, _)| *other != channel);
        others.into_iter().all(|(_, (other, blocked))| *blocked || !other.queue.is_empty())
    }

    fn pop(&mut self, blocked: &[bool]) -> Option<(usize, Queued)> {
        let count = self.channels.len();
        for step in 0..count {
            let index = (self.turn + step) % count;
            if blocked[index] {
                continue;
            }
            let channel = &mut self.channels[index];
            if let Some(queued) = channel.queue.pop_front() {
                channel.bytes -= queued.bytes;
                channel.taken += 1;
                self.turn = (index + 1) % count;
                if matches!(queued.envelope, Envelope::Marker(_)) {
                    self.marked_at = self.marked_at.max(queued.at);
                }
                return Some((index, queued));
            }
        }
        None
    }
}
