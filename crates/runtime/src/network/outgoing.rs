//! The sending end of a connection: tasks offer envelopes, a thread writes them, another one reads credits
//! and answers. [`Sending`] decides what they do.

use std::collections::VecDeque;
use std::io::{BufReader, IoSlice};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use anabranch_model::{Clock, Envelope, Error, EventTime, Incarnation, Result};

use super::arrays::malformed;
use super::connection::{Link, Patience, Threads, read_header};
use super::frame::{Encoded, Frame, FrameKind, HEADER_BYTES, encode};
use super::hello::{Hello, broken, place_of};
use super::outbox::{Closed, NextFrames, Outbox};
use super::wire::Wire;
use crate::task::exchange::ChannelSender;

/// Batches of more bytes, or of more than half of a channel's limit, are divided.
const FRAME_BYTES_WANTED: u64 = 2 << 20;
/// Smaller batches are never divided.
const FRAME_BYTES_SMALL: u64 = 4 << 10;
/// Frames are written together up to this number of bytes, to stay within the processor's cache.
const WRITE_BYTES: u64 = 256 << 10;
/// Bytes of credit frames that are read at once.
const CREDITS_READ: usize = 4 << 10;

/// The channels to the tasks of another worker.
pub struct Outgoing {
    sending: Arc<Sending>,
    /// Empty if a simulator carries the bytes.
    threads: Threads,
}

/// The sending end without its socket: what tasks and threads share.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) link: Arc<Link>,
    outbox: Outbox<Encoded>,
    incarnation: Incarnation,
}

/// The sending end of one channel.
#[derive(Debug)]
pub struct OutgoingChannel {
    connection: Arc<Sending>,
    channel: u32,
    /// The limit that the receiver sets.
    capacity: usize,
    /// Number of envelopes sent.
    sent: u64,
}

impl Outgoing {
    /// Introduces this worker on a new connection, with the secret that all workers share. Waits until the
    /// peer has accepted it, at most for `wait`.
    pub fn open(
        wire: impl Into<Wire>,
        hello: &Hello,
        token: &[u8],
        (patience, wait): (Patience, Duration),
        clock: Arc<dyn Clock>,
    ) -> Result<Outgoing> {
        let wire = wire.into();
        let place = format!("{} at {}", hello.to, place_of(&wire.stream));
        hello.introduce(&wire, token, wait).map_err(|error| error.at(place))?;
        let wire = Arc::new(wire);
        let outgoing = Outgoing::over(Link::new(&wire, hello.to, patience)?, hello);
        let rows = Arc::clone(&wire);
        outgoing.start("rows to", move |sending| write(sending, &rows, clock.as_ref(), patience.beat))?;
        outgoing.start("credit from", move |sending| read(sending, &wire))?;
        Ok(outgoing)
    }

    /// An accepted connection whose bytes the caller carries.
    pub(super) fn over(link: Arc<Link>, hello: &Hello) -> Outgoing {
        let outbox = Outbox::new(hello.channels as usize);
        let sending = Arc::new(Sending { link, outbox, incarnation: hello.incarnation });
        Outgoing { sending, threads: Threads::default() }
    }

    pub(super) fn sending(&self) -> Arc<Sending> {
        Arc::clone(&self.sending)
    }

    fn start(&self, name: &str, body: impl FnOnce(&Sending) -> Result<()> + Send + 'static) -> Result<()> {
        let (sending, ended) = (Arc::clone(&self.sending), Arc::clone(&self.sending));
        self.threads.add(self.sending.link.spawn(name, move |_| body(&sending), move || ended.ended())?);
        Ok(())
    }

    /// The sending end of a channel. It has one owner. The receiver will set the limit `capacity`.
    #[must_use]
    pub fn channel(&self, channel: u32, capacity: usize) -> OutgoingChannel {
        OutgoingChannel { connection: Arc::clone(&self.sending), channel, capacity, sent: 0 }
    }

    /// Bytes of a channel that are queued here, in flight, or not yet taken by the receiving task.
    #[must_use]
    pub fn outstanding(&self, channel: u32) -> u64 {
        self.sending.outbox.outstanding(channel as usize)
    }

    /// Writes everything that was added, and waits until the peer has received it. Tasks that still send get
    /// an error.
    pub fn finish(&self) -> Result<()> {
        self.sending.outbox.finish();
        self.threads.join();
        self.sending.link.outcome()
    }

    /// Ends the connection now. Threads that wait in other methods get an error.
    pub fn close(&self) {
        self.sending.link.close();
        self.sending.outbox.close();
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.close();
        self.threads.join();
    }
}

impl OutgoingChannel {
    /// Adds an envelope to the end of the channel, or returns it if there is no room. After the last
    /// envelopes of all channels the connection ends in order.
    pub fn offer(&mut self, envelope: Envelope) -> Result<Option<Envelope>> {
        let Sending { outbox, incarnation, .. } = &*self.connection;
        let index = self.channel as usize;
        let Some(limit) = outbox.room(index).map_err(|Closed| self.connection.refusal())? else {
            return Ok(Some(envelope));
        };
        // With its header, a frame takes at most half of the limit. Together with the bytes in flight it
        // takes at most the limit.
        let bytes_wanted = (limit / 2).saturating_sub(HEADER_BYTES as u64).clamp(FRAME_BYTES_SMALL, FRAME_BYTES_WANTED);
        let frames = encode(&envelope, self.channel, *incarnation, bytes_wanted as usize)?;
        let frames = frames.into_iter().map(|encoded| (encoded.frame().bytes(), encoded));
        let last = matches!(&envelope, Envelope::Marker(marker) if marker.kind.closes());
        outbox.push(index, frames, last).map_err(|Closed| self.connection.refusal())?;
        self.sent += 1;
        Ok(None)
    }

    /// Waits until the channel has room, or until the connection has ended.
    pub fn wait_for_room(&self) {
        self.connection.outbox.wait_for_room(self.channel as usize);
    }
}

impl ChannelSender for OutgoingChannel {
    fn offer(&mut self, envelope: Envelope, _: &dyn Clock) -> Result<Option<Envelope>> {
        OutgoingChannel::offer(self, envelope)
    }

    fn wait_for_room(&self, _: &Envelope) {
        OutgoingChannel::wait_for_room(self);
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    /// The receiver is asked, and answers once. From then on the sender's own watermark holds event time back
    /// at the receiver.
    fn reached(&mut self, sent: u64) -> Option<EventTime> {
        let Sending { outbox, incarnation, .. } = &*self.connection;
        let reached = outbox.reached(self.channel as usize, sent);
        if reached.is_none() && self.sent >= sent {
            let content = FrameKind::Question { sent: self.sent };
            let frame = Frame { channel: self.channel, incarnation: *incarnation, content };
            outbox.ask(self.channel as usize, sent, self.sent, || (frame.bytes(), Encoded::without_rows(frame, None)));
        }
        reached
    }

    fn capacity(&self) -> usize {
        self.capacity
    }
}

impl Sending {
    /// The error for a task that sends on an ended connection.
    fn refusal(&self) -> Error {
        self.link.outcome().err().unwrap_or_else(Error::cancelled)
    }

    fn header(&self, content: FrameKind) -> [u8; HEADER_BYTES] {
        Frame { channel: 0, incarnation: self.incarnation, content }.header()
    }

    /// What to write next. `None`: nothing now.
    pub(super) fn poll(&self, frames: &mut VecDeque<Encoded>) -> Option<NextFrames> {
        self.outbox.poll(frames)
    }

    /// The beat: this process lives.
    pub(super) fn beat(&self) -> [u8; HEADER_BYTES] {
        self.header(FrameKind::Beat)
    }

    /// Everything was written: the last frame, unless the connection has failed.
    pub(super) fn finish(&self) -> Option<[u8; HEADER_BYTES]> {
        self.link.outcome().ok()?;
        self.link.has_finished.store(true, SeqCst);
        Some(self.header(FrameKind::End))
    }

    /// Handles a frame of the peer. Returns whether it was the last one.
    pub(super) fn received(&self, header: &[u8; HEADER_BYTES]) -> Result<bool> {
        let (frame, outbox) = (Frame::read(header)?, &self.outbox);
        if frame.incarnation != self.incarnation {
            return Err(malformed("it belongs to another incarnation of the job"));
        }
        let channel = frame.channel as usize;
        match frame.content {
            FrameKind::Limit { bytes } => outbox.open(channel, bytes).map_err(malformed)?,
            FrameKind::Credit { bytes } => outbox.returned(channel, bytes).map_err(malformed)?,
            FrameKind::Answer { sent, reached } => outbox.answered(channel, sent, reached).map_err(malformed)?,
            FrameKind::Beat => {}
            FrameKind::End if self.link.has_finished.load(SeqCst) => return Ok(true),
            FrameKind::End => return Err(Error::outside("the peer has ended the connection too early")),
            _ => return Err(malformed("the receiver of rows sends what only their sender does")),
        }
        Ok(false)
    }

    /// Reading or writing has ended: tasks learn of a failure.
    pub(super) fn ended(&self) {
        if self.link.outcome().is_err() {
            self.outbox.close();
        }
    }
}

/// The writing thread.
fn write(sending: &Sending, wire: &Wire, clock: &dyn Clock, beat: Duration) -> Result<()> {
    let mut frames = VecDeque::new();
    loop {
        match sending.outbox.take(&mut frames, beat) {
            NextFrames::Write => write_frames(wire, &mut frames, clock)?,
            NextFrames::Beat => wire.write_all(&mut [IoSlice::new(&sending.beat())])?,
            NextFrames::End => break,
        }
    }
    if let Some(end) = sending.finish() {
        wire.write_all(&mut [IoSlice::new(&end)])?;
        wire.stream.shutdown(Shutdown::Write).map_err(|error| broken(&error))?;
    }
    Ok(())
}

/// The reading thread.
fn read(sending: &Sending, wire: &Wire) -> Result<()> {
    let mut input = BufReader::with_capacity(CREDITS_READ, wire);
    while !sending.received(&read_header(&mut input)?)? {}
    Ok(())
}

fn write_frames(wire: &Wire, frames: &mut VecDeque<Encoded>, clock: &dyn Clock) -> Result<()> {
    while !frames.is_empty() {
        let mut bytes = 0;
        let mut count = 0;
        while count < frames.len() && bytes < WRITE_BYTES {
            bytes += frames[count].frame().bytes();
            frames[count].seal(clock.now());
            count += 1;
        }
        let mut slices: Vec<IoSlice<'_>> = Vec::new();
        frames.range(..count).for_each(|frame| frame.slices(&mut slices));
        wire.write_all(&mut slices)?;
        // Buffers are freed when their frame is written, not when all frames are.
        frames.drain(..count);
    }
    Ok(())
}
