//! The sending end of a connection: tasks offer envelopes, a thread writes them, another one reads credits and answers.

use std::collections::VecDeque;
use std::io::{BufReader, IoSlice};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use anabranch_model::{Clock, Envelope, Error, EventTime, Incarnation, Result};

use super::arrays::malformed;
use super::connection::{Link, Patience, Threads, read_header};
use super::frame::{Content, Encoded, Frame, HEADER_BYTES, encode};
use super::hello::{Hello, broken, place_of};
use super::outbox::{Closed, Next, Outbox};
use super::wire::Wire;
use crate::exchange::ChannelSender;

/// Batches of more bytes, or of more than half of a channel's limit, are divided.
const FRAME_BYTES_WANTED: u64 = 2 << 20;
/// No batch is divided below this number of bytes.
const FRAME_BYTES_SMALL: u64 = 4 << 10;
/// Frames are written together up to this number of bytes, while they are in the processor's cache.
const WRITE_BYTES: u64 = 256 << 10;
/// Bytes of credits that are read at once.
const CREDITS_READ: usize = 4 << 10;

/// The channels to the tasks of another worker.
pub struct Outgoing {
    shared: Arc<Shared>,
    threads: Threads,
}

/// What tasks and threads share.
#[derive(Debug)]
struct Shared {
    link: Arc<Link>,
    outbox: Outbox<Encoded>,
    incarnation: Incarnation,
}

/// The sending end of one channel.
#[derive(Debug)]
pub struct OutgoingChannel {
    connection: Arc<Shared>,
    channel: u32,
    /// The limit that the receiver sets.
    capacity: usize,
    /// Number of envelopes that were added.
    sent: u64,
}

impl Outgoing {
    /// Introduces this worker on a new connection, with the secret that all workers share. Returns when the peer has
    /// accepted it; waits for that at most for `wait`.
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
        let link = Link::new(wire, hello.to, patience)?;
        let outbox = Outbox::new(hello.channels as usize);
        let shared = Arc::new(Shared { link, outbox, incarnation: hello.incarnation });
        let outgoing = Outgoing { shared, threads: Threads::default() };
        outgoing.start("rows to", move |shared| shared.write(clock.as_ref(), patience.beat))?;
        outgoing.start("credit from", Shared::read)?;
        Ok(outgoing)
    }

    fn start(&self, name: &str, body: impl FnOnce(&Shared) -> Result<()> + Send + 'static) -> Result<()> {
        let (shared, ended) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let end = move || {
            if ended.link.outcome().is_err() {
                ended.outbox.close();
            }
        };
        self.threads.add(self.shared.link.spawn(name, move |_| body(&shared), end)?);
        Ok(())
    }

    /// The sending end of a channel. It has one owner. The receiver sets the limit `capacity`.
    #[must_use]
    pub fn channel(&self, channel: u32, capacity: usize) -> OutgoingChannel {
        OutgoingChannel { connection: Arc::clone(&self.shared), channel, capacity, sent: 0 }
    }

    /// Bytes of a channel that are queued here, on their way, or not yet taken by the receiving task.
    #[must_use]
    pub fn outstanding(&self, channel: u32) -> u64 {
        self.shared.outbox.outstanding(channel as usize)
    }

    /// Writes what was added, and waits until the peer has received everything. Tasks that still send get an error.
    pub fn finish(&self) -> Result<()> {
        self.shared.outbox.finish();
        self.threads.join();
        self.shared.link.outcome()
    }

    /// Ends the connection now. Threads that wait in other methods get an error.
    pub fn close(&self) {
        self.shared.link.close();
        self.shared.outbox.close();
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.close();
        self.threads.join();
    }
}

impl OutgoingChannel {
    /// Adds an envelope to the end of the channel, or returns it if there is no room. The connection ends in order when the
    /// streams of all its channels have.
    pub fn offer(&mut self, envelope: Envelope) -> Result<Option<Envelope>> {
        let Shared { outbox, incarnation, .. } = &*self.connection;
        let index = self.channel as usize;
        let Some(limit) = outbox.room(index).map_err(|Closed| self.connection.ended())? else {
            return Ok(Some(envelope));
        };
        // With its header, a frame takes at most half of the limit: with what is on its way before it, at most the limit.
        let bytes_wanted = (limit / 2).saturating_sub(HEADER_BYTES as u64).clamp(FRAME_BYTES_SMALL, FRAME_BYTES_WANTED);
        let frames = encode(&envelope, self.channel, *incarnation, bytes_wanted as usize)?;
        let frames = frames.into_iter().map(|encoded| (encoded.frame().bytes(), encoded));
        let last = matches!(&envelope, Envelope::Marker(marker) if marker.kind.closes());
        outbox.push(index, frames, last).map_err(|Closed| self.connection.ended())?;
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

    /// The receiver is asked, and answers once. That is enough: from then on the sender's own watermark holds event time back
    /// at the receiver.
    fn reached(&mut self, sent: u64) -> Option<EventTime> {
        let Shared { outbox, incarnation, .. } = &*self.connection;
        let reached = outbox.reached(self.channel as usize, sent);
        if reached.is_none() && self.sent >= sent {
            let content = Content::Question { sent: self.sent };
            let frame = Frame { channel: self.channel, incarnation: *incarnation, content };
            outbox.ask(self.channel as usize, sent, self.sent, || (frame.bytes(), Encoded::of(frame, None)));
        }
        reached
    }

    fn capacity(&self) -> usize {
        self.capacity
    }
}

impl Shared {
    /// What a task gets that sends when the connection has ended.
    fn ended(&self) -> Error {
        self.link.outcome().err().unwrap_or_else(Error::cancelled)
    }

    fn header(&self, content: Content) -> [u8; HEADER_BYTES] {
        Frame { channel: 0, incarnation: self.incarnation, content }.header()
    }

    fn write(&self, clock: &dyn Clock, beat: Duration) -> Result<()> {
        let wire = &self.link.wire;
        let mut frames = VecDeque::new();
        loop {
            match self.outbox.take(&mut frames, beat) {
                Next::Write => write_frames(wire, &mut frames, clock)?,
                Next::Beat => wire.write_all(&mut [IoSlice::new(&self.header(Content::Beat))])?,
                Next::End => break,
            }
        }
        if self.link.outcome().is_ok() {
            self.link.has_finished.store(true, SeqCst);
            wire.write_all(&mut [IoSlice::new(&self.header(Content::End))])?;
            wire.stream.shutdown(Shutdown::Write).map_err(|error| broken(&error))?;
        }
        Ok(())
    }

    fn read(&self) -> Result<()> {
        let mut input = BufReader::with_capacity(CREDITS_READ, &self.link.wire);
        let outbox = &self.outbox;
        loop {
            let frame = Frame::read(&read_header(&mut input)?)?;
            if frame.incarnation != self.incarnation {
                return Err(malformed("it belongs to another incarnation of the job"));
            }
            let channel = frame.channel as usize;
            match frame.content {
                Content::Limit { bytes } => outbox.open(channel, bytes).map_err(malformed)?,
                Content::Credit { bytes } => outbox.returned(channel, bytes).map_err(malformed)?,
                Content::Answer { sent, reached } => outbox.answered(channel, sent, reached).map_err(malformed)?,
                Content::Beat => {}
                Content::End if self.link.has_finished.load(SeqCst) => return Ok(()),
                Content::End => return Err(Error::outside("the peer has ended the connection too early")),
                _ => return Err(malformed("the receiver of rows sends what only their sender does")),
            }
        }
    }
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
        // Their buffers are free when they are written, not when all frames are.
        frames.drain(..count);
    }
    Ok(())
}
