//! Where tasks and the writer of credits meet at the receiver: returned bytes and answers wait here to be
//! sent.

use std::time::Duration;

use anabranch_model::EventTime;

use crate::task::credit::ReceiveCredit;
use crate::task::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The receiver's side of all channels of a connection: their credit, and what must be sent to the sender.
#[derive(Debug)]
pub(crate) struct Returns {
    state: Mutex<ReturnsState>,
    due: Condvar,
}

#[derive(Debug)]
struct ReturnsState {
    channels: Vec<Channel>,
    /// Channels with something to send, each once.
    due: Vec<usize>,
    writer_waits: bool,
    ended: bool,
}

#[derive(Debug)]
struct Channel {
    credit: ReceiveCredit,
    /// Whether enough bytes were taken to be returned.
    has_credit: bool,
    /// The answer to the newest question.
    answer: Option<(u64, EventTime)>,
    is_due: bool,
}

/// A message to the sender of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    /// Bytes that the task has taken.
    Credit(u64),
    /// The watermark of the task after this number of envelopes.
    Reached(u64, EventTime),
}

/// What the writer of credits does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextCredits {
    /// Send what it was given.
    Send,
    /// Send a beat: there was nothing to send in time.
    Beat,
    /// Nothing more.
    End,
}

/// Holds the bytes of a received frame. Dropped when the task has taken the envelope: the sender gets the
/// bytes back.
#[derive(Debug)]
pub struct Permit {
    returns: Arc<Returns>,
    channel: usize,
    bytes: u64,
}

/// The sender asks for the watermark of the receiving task.
#[derive(Debug)]
pub struct Question {
    pub(crate) permit: Permit,
    /// Number of envelopes before the question.
    pub(crate) sent: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.returns.taken(self.channel, self.bytes);
    }
}

impl Question {
    /// The task has taken everything before the question.
    pub fn answer(self, reached: EventTime) {
        self.permit.returns.answer(self.permit.channel, self.sent, reached);
    }
}

impl Returns {
    pub(crate) fn new(limits: impl Iterator<Item = u64>) -> Arc<Self> {
        let channel =
            |limit| Channel { credit: ReceiveCredit::new(limit), has_credit: false, answer: None, is_due: false };
        let channels = limits.map(channel).collect();
        let state = ReturnsState { channels, due: Vec::new(), writer_waits: false, ended: false };
        Arc::new(Returns { state: Mutex::new(state), due: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, ReturnsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit of each channel.
    pub(crate) fn limits(&self) -> Vec<u64> {
        self.lock().channels.iter().map(|channel| channel.credit.limit()).collect()
    }

    /// A frame has arrived.
    pub(crate) fn received(self: &Arc<Self>, channel: usize, bytes: u64) -> Result<Permit, &'static str> {
        let mut state = self.lock();
        let target = state.channels.get_mut(channel).ok_or("it names a channel that does not exist")?;
        target.credit.received(bytes)?;
        drop(state);
        Ok(Permit { returns: Arc::clone(self), channel, bytes })
    }

    fn taken(&self, channel: usize, bytes: u64) {
        let mut state = self.lock();
        if state.channels[channel].credit.taken(bytes) {
            state.channels[channel].has_credit = true;
            self.due(&mut state, channel);
        }
    }

    fn answer(&self, channel: usize, asked: u64, reached: EventTime) {
        let mut state = self.lock();
        state.channels[channel].answer = Some((asked, reached));
        self.due(&mut state, channel);
    }

    fn due(&self, state: &mut ReturnsState, channel: usize) {
        if state.ended {
            return;
        }
        if !std::mem::replace(&mut state.channels[channel].is_due, true) {
            state.due.push(channel);
        }
        if std::mem::take(&mut state.writer_waits) {
            self.due.notify_one();
        }
    }

    /// Waits for something to send, at most for `beat`, and adds it with its channel.
    pub(crate) fn take(&self, returns: &mut Vec<(usize, Return)>, beat: Duration) -> NextCredits {
        let mut state = self.lock();
        loop {
            if let Some(next) = state.next(returns) {
                return next;
            }
            state.writer_waits = true;
            let waited = self.due.wait_timeout(state, beat).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if std::mem::take(&mut state.writer_waits) && waited.1.timed_out() {
                return NextCredits::Beat;
            }
        }
    }

    /// Like [`Returns::take`], without waiting. `None`: there is nothing.
    pub(crate) fn poll(&self, returns: &mut Vec<(usize, Return)>) -> Option<NextCredits> {
        self.lock().next(returns)
    }

    /// The sender needs nothing more.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.due.notify_all();
    }
}

impl ReturnsState {
    fn next(&mut self, returns: &mut Vec<(usize, Return)>) -> Option<NextCredits> {
        if self.ended {
            return Some(NextCredits::End);
        }
        let due = std::mem::take(&mut self.due);
        due.iter().for_each(|channel| self.channels[*channel].take(*channel, returns));
        (!due.is_empty()).then_some(NextCredits::Send)
    }
}

impl Channel {
    fn take(&mut self, index: usize, returns: &mut Vec<(usize, Return)>) {
        self.is_due = false;
        if std::mem::take(&mut self.has_credit) {
            returns.push((index, Return::Credit(self.credit.take_due())));
        }
        returns.extend(self.answer.take().map(|(asked, reached)| (index, Return::Reached(asked, reached))));
    }
}
