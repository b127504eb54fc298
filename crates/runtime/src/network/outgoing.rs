//! The sending end of a connection: tasks give envelopes, a thread writes them, another one reads credits.

use std::collections::VecDeque;
use std::io::{BufReader, IoSlice};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use anabranch_model::{Clock, Envelope, Error, Incarnation, Result};

use super::arrays::malformed;
use super::connection::{Link, Threads, read_header, write_all};
use super::frame::{Content, Encoded, Frame, HEADER_BYTES, encode};
use super::hello::{Hello, broken, place_of};
use super::outbox::{Closed, Outbox};

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
    link: Arc<Link>,
    outbox: Arc<Outbox<Encoded>>,
    incarnation: Incarnation,
    clock: Arc<dyn Clock>,
    threads: Threads,
}

impl Outgoing {
    /// Introduces this worker on a new connection. Returns when the peer has accepted it.
    pub fn open(stream: TcpStream, hello: &Hello, clock: Arc<dyn Clock>) -> Result<Outgoing> {
        let place = format!("{} at {}", hello.to, place_of(&stream));
        hello.introduce(&stream).map_err(|error| error.at(place))?;
        let link = Link::new(stream, hello.to)?;
        let outbox = Arc::new(Outbox::new(hello.channels as usize));
        let incarnation = hello.incarnation;
        let outgoing = Outgoing { link, outbox, incarnation, clock, threads: Threads::default() };
        outgoing.start("rows to", |link, outbox, clock, incarnation| write(link, outbox, clock, incarnation))?;
        outgoing.start("credit from", |link, outbox, _, incarnation| read(link, outbox, incarnation))?;
        Ok(outgoing)
    }

    fn start(
        &self,
        name: &str,
        body: fn(&Link, &Outbox<Encoded>, &dyn Clock, Incarnation) -> Result<()>,
    ) -> Result<()> {
        let (outbox, clock, incarnation) = (Arc::clone(&self.outbox), Arc::clone(&self.clock), self.incarnation);
        let (link, ended) = (Arc::clone(&self.link), Arc::clone(&self.outbox));
        let end = move || {
            if link.outcome().is_err() {
                ended.close();
            }
        };
        let thread = self.link.spawn(name, move |link| body(link, &outbox, clock.as_ref(), incarnation), end)?;
        self.threads.add(thread);
        Ok(())
    }

    /// Sends an envelope, after waiting for credit. Returns the nanoseconds waited. Each channel has one sender.
    pub fn send(&self, channel: u32, envelope: &Envelope) -> Result<u64> {
        let index = channel as usize;
        let limit = self.outbox.limit(index).map_err(|Closed| self.ended())?;
        // With its header, a frame takes at most half of the limit: with what is on its way before it, at most the limit.
        let bytes_wanted = (limit / 2).saturating_sub(HEADER_BYTES as u64).clamp(FRAME_BYTES_SMALL, FRAME_BYTES_WANTED);
        let mut waited_ns = 0;
        for encoded in encode(envelope, channel, self.incarnation, bytes_wanted as usize)? {
            let bytes = encoded.frame().bytes();
            let sent = self.outbox.send(index, bytes, encoded, self.clock.as_ref());
            waited_ns += sent.map_err(|Closed| self.ended())?;
        }
        Ok(waited_ns)
    }

    /// What a task gets that sends when the connection has ended.
    fn ended(&self) -> Error {
        self.link.outcome().err().unwrap_or_else(Error::cancelled)
    }

    /// Bytes of a channel that are queued here, on their way, or not yet taken by the receiving task.
    pub fn outstanding(&self, channel: u32) -> u64 {
        self.outbox.outstanding(channel as usize)
    }

    /// Writes what is queued, and waits until the peer has received everything. Tasks that still send get an error.
    pub fn finish(&self) -> Result<()> {
        self.outbox.finish();
        self.threads.join();
        self.link.outcome()
    }

    /// Ends the connection now. Threads that wait in other methods get an error.
    pub fn close(&self) {
        self.link.close();
        self.outbox.close();
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.close();
        self.threads.join();
    }
}

fn write(link: &Link, outbox: &Outbox<Encoded>, clock: &dyn Clock, incarnation: Incarnation) -> Result<()> {
    let mut frames = VecDeque::new();
    while outbox.take(&mut frames) {
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
            write_all(&link.stream, &mut slices)?;
            // Their buffers are free when they are written, not when all frames are.
            frames.drain(..count);
        }
    }
    if link.outcome().is_ok() {
        link.has_finished.store(true, SeqCst);
        let end = Frame { channel: 0, incarnation, content: Content::End };
        write_all(&link.stream, &mut [IoSlice::new(&end.header())])?;
        link.stream.shutdown(Shutdown::Write).map_err(|error| broken(&error))?;
    }
    Ok(())
}

fn read(link: &Link, outbox: &Outbox<Encoded>, incarnation: Incarnation) -> Result<()> {
    let mut input = BufReader::with_capacity(CREDITS_READ, &link.stream);
    loop {
        let frame = Frame::read(&read_header(&mut input)?)?;
        if frame.incarnation != incarnation {
            return Err(malformed("it belongs to another incarnation of the job"));
        }
        let channel = frame.channel as usize;
        match frame.content {
            Content::Limit { bytes } => outbox.open(channel, bytes).map_err(malformed)?,
            Content::Credit { bytes } => outbox.returned(channel, bytes).map_err(malformed)?,
            Content::End if link.has_finished.load(SeqCst) => return Ok(()),
            Content::End => return Err(Error::outside("the peer has ended the connection too early")),
            _ => return Err(malformed("the receiver of rows sends what only their sender does")),
        }
    }
}
