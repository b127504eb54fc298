//! Where tasks and the writer of a connection meet: frames with credit wait here to be written, other frames
//! wait for credit.
//!
//! A channel accepts frames only when none of its own wait for credit. So this holds at most the sum of the
//! limits that the receiver has set, and the frames of one envelope per channel.

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_model::EventTime;

use crate::task::credit::SendCredit;
use crate::task::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The frames of all channels, in the order in which they are written.
#[derive(Debug)]
pub(crate) struct Outbox<T> {
    state: Mutex<OutboxState<T>>,
    /// A task waits for room.
    room: Condvar,
    /// The writer waits for frames.
    readable: Condvar,
}

#[derive(Debug)]
struct OutboxState<T> {
    channels: Vec<Channel<T>>,
    queue: VecDeque<T>,
    /// Frames that wait for credit, of all channels.
    waiting: usize,
    /// Channels that have not sent their last frame.
    open: usize,
    tasks_wait: usize,
    writer_waits: bool,
    phase: Phase,
}

#[derive(Debug)]
struct Channel<T> {
    credit: SendCredit,
    /// Frames that wait for credit, each with its bytes.
    waiting: VecDeque<(u64, T)>,
    /// The question that was sent last, as the number of envelopes before it.
    asked: Option<u64>,
    /// The newest answer: the question, and the receiver's watermark.
    answer: Option<(u64, EventTime)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Nothing more is added. Added frames are still written.
    Finished,
    Closed,
}

/// The connection accepts nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

/// What the writer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextFrames {
    /// Write the frames that it was given.
    Write,
    /// Send a beat: there was no frame in time.
    Beat,
    /// Nothing more.
    End,
}

impl<T> Outbox<T> {
    pub(crate) fn new(channels: usize) -> Self {
        let channel =
            |_| Channel { credit: SendCredit::default(), waiting: VecDeque::new(), asked: None, answer: None };
        let state = OutboxState {
            channels: (0..channels).map(channel).collect(),
            queue: VecDeque::new(),
            waiting: 0,
            open: channels,
            tasks_wait: 0,
            writer_waits: false,
            phase: Phase::Open,
        };
        Outbox { state: Mutex::new(state), room: Condvar::new(), readable: Condvar::new() }
    }

    /// The state is consistent after each statement, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, OutboxState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit of a channel that accepts frames now. `None` if it has no room.
    pub(crate) fn room(&self, channel: usize) -> Result<Option<u64>, Closed> {
        let state = self.lock();
        match state.phase {
            Phase::Open => Ok(state.channels[channel].room()),
            _ => Err(Closed),
        }
    }

    /// Waits until a channel accepts frames, or until the connection is closed.
    pub(crate) fn wait_for_room(&self, channel: usize) {
        let mut state = self.lock();
        while state.phase == Phase::Open && state.channels[channel].room().is_none() {
            state.tasks_wait += 1;
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.tasks_wait -= 1;
        }
    }

    /// Adds the frames of an envelope, each with its bytes. Frames without credit wait for it. After the
    /// `last` frames of all channels the connection is finished.
    pub(crate) fn push(
        &self,
        channel: usize,
        frames: impl IntoIterator<Item = (u64, T)>,
        last: bool,
    ) -> Result<(), Closed> {
        let mut state = self.lock();
        if state.phase != Phase::Open {
            return Err(Closed);
        }
        for frame in frames {
            state.channels[channel].waiting.push_back(frame);
            state.waiting += 1;
        }
        state.charge(channel);
        if last {
            state.open -= 1;
            if state.open == 0 {
                state.phase = Phase::Finished;
            }
        }
        self.notify_writer(&mut state);
        Ok(())
    }

    /// The receiver's watermark after the first `sent` envelopes of a channel, if it has answered.
    pub(crate) fn reached(&self, channel: usize, sent: u64) -> Option<EventTime> {
        self.lock().channels[channel].answer.filter(|(asked, _)| *asked >= sent).map(|(_, time)| time)
    }

    /// Asks for the receiver's watermark after the `asked` envelopes sent so far, unless a pending question
    /// will answer for the first `sent`.
    pub(crate) fn ask(&self, channel: usize, sent: u64, asked: u64, question: impl FnOnce() -> (u64, T)) {
        let mut state = self.lock();
        let newest = &mut state.channels[channel].asked;
        if newest.is_none_or(|newest| newest < sent) {
            *newest = Some(asked);
            drop(state);
            // A closed connection does not answer.
            let _ = self.push(channel, [question()], false);
        }
    }

    /// The receiver has answered a question.
    pub(crate) fn answered(&self, channel: usize, asked: u64, time: EventTime) -> Result<(), &'static str> {
        self.change(channel, |channel| match channel.asked.is_some_and(|newest| asked <= newest) {
            true => {
                channel.answer = Some((asked, time));
                Ok(())
            }
            false => Err("it answers what it was not asked"),
        })
    }

    /// The receiver sets the limit of a channel.
    pub(crate) fn open(&self, channel: usize, bytes: u64) -> Result<(), &'static str> {
        self.change(channel, |channel| channel.credit.open(bytes))
    }

    /// The receiver returns credit of a channel.
    pub(crate) fn returned(&self, channel: usize, bytes: u64) -> Result<(), &'static str> {
        self.change(channel, |channel| channel.credit.returned(bytes))
    }

    fn change(
        &self,
        channel: usize,
        change: impl FnOnce(&mut Channel<T>) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        let mut state = self.lock();
        change(state.channels.get_mut(channel).ok_or("it names a channel that does not exist")?)?;
        state.charge(channel);
        self.notify_writer(&mut state);
        if state.tasks_wait > 0 {
            self.room.notify_all();
        }
        Ok(())
    }

    fn notify_writer(&self, state: &mut OutboxState<T>) {
        let has_work = !state.queue.is_empty() || state.phase == Phase::Finished;
        if has_work && std::mem::take(&mut state.writer_waits) {
            self.readable.notify_one();
        }
    }

    /// Waits for frames, at most for `beat`, and swaps them with the given empty queue.
    pub(crate) fn take(&self, frames: &mut VecDeque<T>, beat: Duration) -> NextFrames {
        let mut state = self.lock();
        loop {
            if let Some(next) = state.next(frames) {
                return next;
            }
            state.writer_waits = true;
            let waited = self.readable.wait_timeout(state, beat).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if std::mem::take(&mut state.writer_waits) && waited.1.timed_out() {
                return NextFrames::Beat;
            }
        }
    }

    /// Like [`Outbox::take`], without waiting. `None`: there is nothing.
    pub(crate) fn poll(&self, frames: &mut VecDeque<T>) -> Option<NextFrames> {
        self.lock().next(frames)
    }

    /// Bytes of a channel that are queued, in flight, or not yet taken by the receiving task.
    pub(crate) fn outstanding(&self, channel: usize) -> u64 {
        self.lock().channels[channel].credit.outstanding()
    }

    /// Nothing more is added. Added frames are still written.
    pub(crate) fn finish(&self) {
        self.end(Phase::Finished);
    }

    /// Drops all queued frames, and wakes all threads.
    pub(crate) fn close(&self) {
        self.end(Phase::Closed);
    }

    fn end(&self, phase: Phase) {
        let mut state = self.lock();
        if state.phase != Phase::Closed {
            state.phase = phase;
        }
        if phase == Phase::Closed {
            state.queue.clear();
            state.channels.iter_mut().for_each(|channel| channel.waiting.clear());
            state.waiting = 0;
        }
        self.room.notify_all();
        self.readable.notify_all();
    }
}

impl<T> OutboxState<T> {
    fn next(&mut self, frames: &mut VecDeque<T>) -> Option<NextFrames> {
        if self.phase == Phase::Closed {
            return Some(NextFrames::End);
        }
        if !self.queue.is_empty() {
            std::mem::swap(&mut self.queue, frames);
            return Some(NextFrames::Write);
        }
        (self.phase == Phase::Finished && self.waiting == 0).then_some(NextFrames::End)
    }

    /// Moves frames with credit to the writer.
    fn charge(&mut self, channel: usize) {
        let Channel { credit, waiting, .. } = &mut self.channels[channel];
        while let Some((_, frame)) = waiting.pop_front_if(|(bytes, _)| credit.charge(*bytes)) {
            self.queue.push_back(frame);
            self.waiting -= 1;
        }
    }
}

impl<T> Channel<T> {
    fn room(&self) -> Option<u64> {
        self.credit.limit().filter(|_| self.waiting.is_empty())
    }
}
