//! A task whose rows come from channels: aligns them and drives its chain.

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Envelope, Epoch, Error, Marker, Nanos, Result};
use anabranch_operators::Lookup;

use crate::task::advance::{Advance, Input, SideEnd, TaskParts};
use crate::task::ahead::Ahead;
use crate::task::alignment::{Alignment, Event};
use crate::task::chain::Progress;
use crate::task::inbox::Inbox;
use crate::task::phases::Boundary;
use crate::task::snapshot::SourceSnapshot;

/// A task that is fed by channels.
pub(crate) struct InboxTask {
    task: TaskParts,
    inbox: Arc<Inbox>,
    alignment: Alignment,
    inputs: Vec<usize>,
    /// Events that wait for answers of an outside table, if the task looks one up.
    ahead: Option<Ahead>,
    /// What follows once the last watermark has passed.
    after_watermark: Option<AfterWatermark>,
    /// The last epoch, once it has ended.
    ended: Option<Epoch>,
}

/// See [`InboxTask::after_watermark`].
enum AfterWatermark {
    Idle,
    Marker(Marker),
}

impl InboxTask {
    /// `inputs`: for each channel, the number of the input that its rows belong to.
    pub(crate) fn new(task: TaskParts, inbox: Arc<Inbox>, inputs: Vec<usize>) -> Self {
        let alignment = Alignment::new(inputs.len(), task.after);
        // Operators continue with the watermark that they had.
        let operators = task.restore.iter().flat_map(|restore| restore.operators.values());
        operators.for_each(|operator| inbox.set_reached(operator.watermark));
        InboxTask { task, inbox, alignment, inputs, ahead: None, after_watermark: None, ended: None }
    }

    /// Sets the outside table that its first operator looks up, if there is one.
    pub(crate) fn with_lookup(mut self, lookup: Option<Box<dyn Lookup>>) -> Result<Self> {
        if let Some(lookup) = lookup {
            self.task.chain.take_lookup(lookup)?;
            self.ahead = Some(Ahead::default());
        }
        Ok(self)
    }

    /// Handles an envelope, and moves its output.
    pub(crate) fn advance(&mut self, now: Nanos, input: Option<Input>) -> Result<Advance> {
        if let Some(last) = self.ended {
            return self.task.finish(last);
        }
        match input {
            Some(Input::Closed) => return Ok(Advance::Ended),
            Some(Input::Envelope(channel, envelope)) => self.process(channel, envelope)?,
            Some(Input::Nothing) => self.pause()?,
            Some(Input::Polled(_)) => return Err(Error::internal("a task without source was given the input of one")),
            None => {}
        }
        match self.task.chain.advance()? {
            Progress::Full => return Ok(Advance::Room),
            Progress::Marked(marker, taken) => {
                self.task.marked(marker, taken, SourceSnapshot::default());
                if marker.kind.closes() {
                    self.ended = Some(marker.epoch);
                    return Ok(Advance::Continue);
                }
            }
            Progress::Ready => {
                if let Some(next) = self.after_watermark.take() {
                    match next {
                        AfterWatermark::Idle => self.task.chain.idle()?,
                        AfterWatermark::Marker(marker) => self.task.chain.marker(marker)?,
                    }
                    return Ok(Advance::Continue);
                }
            }
        }
        let answered = || self.task.chain.is_answered();
        if let Some(event) = self.ahead.as_mut().and_then(|ahead| ahead.pop(answered)) {
            self.pass(event, 0)?;
            return Ok(Advance::Continue);
        }
        self.task.checkpoints_done()?;
        match self.task.chain.flush_due(now)? {
            true => Ok(Advance::Input(self.task.chain.next_deadline())),
            false => Ok(Advance::Room),
        }
    }

    /// Takes an envelope of the channels that are not blocked.
    pub(crate) fn receive(&mut self, timeout: Option<Duration>, only: Option<usize>) -> Result<Input> {
        let (blocked, clock) = (self.alignment.blocked(), self.task.clock.as_ref());
        if let Some(ahead) = &self.ahead {
            // An answer that arrived since the last check has woken the inbox, perhaps before this wait
            // began.
            if ahead.is_ready(|| self.task.chain.is_answered()) {
                return Ok(Input::Nothing);
            }
            if ahead.is_full(self.task.chain.answers_bytes()) {
                return self.inbox.receive(&vec![true; blocked.len()], timeout, clock).try_into();
            }
        }
        let received = match only {
            None => self.inbox.receive(blocked, timeout, clock),
            Some(channel) => {
                let others = blocked.iter().enumerate().map(|(index, blocked)| *blocked || index != channel);
                self.inbox.receive(&others.collect::<Vec<_>>(), timeout, clock)
            }
        };
        received.try_into()
    }

    /// There is no input: a sink may send its buffered rows.
    pub(crate) fn pause(&mut self) -> Result<()> {
        if self.ahead.as_ref().is_some_and(|ahead| ahead.is_ready(|| self.task.chain.is_answered())) {
            return Ok(());
        }
        self.task.chain.pause()?;
        self.task.checkpoints_done()
    }

    pub(crate) fn parts(&self) -> &TaskParts {
        &self.task
    }

    pub(crate) fn parts_mut(&mut self) -> &mut TaskParts {
        &mut self.task
    }

    /// The parts that it leaves for the next plan version.
    pub(crate) fn leave(self) -> TaskParts {
        self.task
    }

    pub(crate) fn channels(&self) -> usize {
        self.alignment.blocked().len()
    }

    fn process(&mut self, channel: usize, envelope: Envelope) -> Result<()> {
        self.task.count_in(&envelope);
        let event = self.alignment.receive(channel, envelope)?;
        if let Event::Marker(marker, _) = &event
            && marker.snapshot
        {
            let (epoch, entered) = (marker.epoch, self.inbox.marked_at());
            self.task.boundary = Some(Boundary { epoch, due: None, entered });
        }
        // Without its static side the task must not join; it only passes the stop on.
        let is_cut = self.task.side_end == Some(SideEnd::Cut);
        if matches!(&event, Event::None)
            || is_cut && matches!(&event, Event::Batch(_) | Event::Watermark(_) | Event::Idle(_))
        {
            return Ok(());
        }
        if let Event::Watermark(watermark) | Event::Idle(Some(watermark)) | Event::Marker(_, Some(watermark)) = &event {
            self.inbox.set_reached(watermark.value);
        }
        let Some(ahead) = &mut self.ahead else { return self.pass(event, self.inputs[channel]) };
        if let Event::Batch(batch) = &event {
            self.task.chain.request_lookups(&batch.value)?;
        }
        ahead.push(event);
        Ok(())
    }

    /// Passes an event to the chain, which must be ready.
    fn pass(&mut self, event: Event, input: usize) -> Result<()> {
        match event {
            Event::Batch(batch) => self.task.chain.batch(batch, input)?,
            Event::Watermark(watermark) => self.task.chain.watermark(watermark)?,
            Event::Idle(watermark) => {
                watermark.map_or(Ok(()), |watermark| self.task.chain.watermark(watermark))?;
                self.after_watermark = Some(AfterWatermark::Idle);
            }
            Event::Marker(marker, Some(watermark)) if self.task.side_end != Some(SideEnd::Cut) => {
                self.task.chain.watermark(watermark)?;
                self.after_watermark = Some(AfterWatermark::Marker(marker));
            }
            Event::Marker(marker, _) => self.task.chain.marker(marker)?,
            Event::None => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::JoinHandle;

    use anabranch_model::{ManualClock, MarkerKind, PlanVersion};

    use super::*;
    use crate::task::inbox::Received;

    /// Nothing that works takes this long.
    const LIMIT: Duration = Duration::from_secs(120);

    fn marker(kind: MarkerKind) -> Envelope {
        Envelope::Marker(Marker { epoch: Epoch(1), version: PlanVersion(1), snapshot: false, kind })
    }

    /// A thread that receives from this many channels, of which some are blocked. It waits for its first
    /// envelope.
    fn reader(blocked: Vec<bool>) -> (Arc<Inbox>, JoinHandle<()>, Receiver<usize>) {
        let inbox = Arc::new(Inbox::new(blocked.len(), 10_000));
        let (blocked_inbox, (received, channels)) = (Arc::clone(&inbox), channel());
        let clock = ManualClock::default();
        let read = move || {
            while let Received::Envelope(channel, _) = blocked_inbox.receive(&blocked, None, &clock) {
                received.send(channel).expect("the test receives");
            }
        };
        let thread = std::thread::Builder::new().name("reader".into()).spawn(read).expect("a thread");
        while !inbox.reader_waits() {
            std::thread::yield_now();
        }
        (inbox, thread, channels)
    }

    #[test]
    fn a_marker_wakes_the_reader_when_every_channel_that_it_reads_has_one() {
        for kind in [MarkerKind::Cut, MarkerKind::Stop, MarkerKind::End] {
            let (inbox, thread, channels) = reader(vec![false, true, false]);
            let clock = ManualClock::default();
            assert!(inbox.offer(0, marker(kind), &clock).is_none());
            assert!(inbox.reader_waits(), "channel 2 has none");
            assert!(inbox.offer(2, marker(kind), &clock).is_none());
            let taken = [channels.recv_timeout(LIMIT), channels.recv_timeout(LIMIT)];
            assert!(taken.contains(&Ok(0)) && taken.contains(&Ok(2)), "{taken:?}");
            inbox.close();
            thread.join().expect("the reader ends");
        }
    }

    /// At this point the task waits for no other one, though a channel may have the next marker already.
    #[test]
    fn a_boundary_has_entered_when_its_marker_has_come_in_the_last_channel() {
        let (inbox, clock) = (Inbox::new(2, 10_000), ManualClock::default());
        for (channel, epoch) in [(0, 1), (0, 2), (1, 1)] {
            clock.advance(Duration::from_nanos(10));
            let marker = Marker { epoch: Epoch(epoch), version: PlanVersion(1), snapshot: true, kind: MarkerKind::Cut };
            assert!(inbox.offer(channel, Envelope::Marker(marker), &clock).is_none());
        }
        let mut entered = Vec::new();
        for blocked in [[false, true], [true, false], [false, true]] {
            assert!(matches!(inbox.receive(&blocked, None, &clock), Received::Envelope(..)));
            entered.push(inbox.marked_at());
        }
        assert_eq!(entered, [Nanos(10), Nanos(30), Nanos(30)]);
    }

    #[test]
    fn anything_but_a_marker_wakes_the_reader() {
        let (inbox, thread, channels) = reader(vec![false, false]);
        let clock = ManualClock::default();
        assert!(inbox.offer(0, marker(MarkerKind::Cut), &clock).is_none());
        assert!(inbox.reader_waits());
        assert!(inbox.offer(0, Envelope::Idle, &clock).is_none());
        assert_eq!((channels.recv_timeout(LIMIT), channels.recv_timeout(LIMIT)), (Ok(0), Ok(0)));
        inbox.close();
        thread.join().expect("the reader ends");
    }
}
