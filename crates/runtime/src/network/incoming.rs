//! The receiving end of a connection: a thread reads frames and delivers them, another one returns credits
//! and answers. [`Receiving`] and [`Credits`] decide what they do.

use std::io::{BufReader, IoSlice, Read as _};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Envelope, Error, Incarnation, Result};
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;

use super::arrays::{check_type, malformed};
use super::connection::{Link, Patience, Threads, read_header};
use super::frame::{Frame, FrameKind, HEADER_BYTES, decode};
use super::hello::{Greeting, Hello, broken};
use super::pool::Pool;
use super::wire::Wire;
use crate::task::returns::{NextCredits, Permit, Question, Return, Returns};

/// Headers are read together up to this number of bytes. Larger bodies are read directly into their buffers.
const HEADERS_READ: usize = 8 << 10;

/// What the receiver knows of a channel.
#[derive(Clone, Debug)]
pub struct IncomingChannel {
    /// Schema of the rows, from the plan.
    pub schema: SchemaRef,
    /// Limit of the bytes in flight.
    pub limit: u64,
}

/// The receiver of a connection's envelopes. No method may wait.
pub trait Deliver: Send + Sync {
    /// An envelope has arrived. Credit bounds the bytes that are held.
    fn envelope(&self, channel: usize, envelope: Envelope, permit: Permit);

    /// The sender asks for the watermark of the receiving task. A newer question replaces an older one.
    fn question(&self, channel: usize, question: Question);

    /// Nothing follows. Each call of `outcome` returns how the connection has ended.
    fn ended(&self, outcome: &dyn Fn() -> Result<()>);
}

/// The channels from the tasks of another worker.
#[derive(Debug)]
pub struct Incoming {
    link: Arc<Link>,
    /// Empty if a simulator carries the bytes.
    threads: Threads,
}

/// Checks that a sender announces the expected channels.
pub(super) fn check_channels(hello: &Hello, channels: &[IncomingChannel]) -> Result<()> {
    let fields = channels.iter().flat_map(|channel| channel.schema.fields());
    if let Some(error) = fields.map(|field| check_type(field.data_type())).find_map(Result::err) {
        return Err(error);
    }
    match hello.channels as usize == channels.len() {
        true => Ok(()),
        false => Err(Error::outside(format!("{} channels are wanted, not {}", channels.len(), hello.channels))),
    }
}

impl Incoming {
    /// Accepts a connection, or refuses it if it does not have these channels. Everything is delivered with
    /// the number of its channel.
    pub fn open(
        greeting: Greeting,
        channels: Vec<IncomingChannel>,
        patience: Patience,
        clock: Arc<dyn Clock>,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Incoming> {
        let hello = greeting.hello;
        if let Err(error) = check_channels(&hello, &channels) {
            greeting.refuse(error.message())?;
            return Err(error.at(hello.from.to_string()));
        }
        greeting.accept().map_err(|error| error.at(hello.from.to_string()))?;
        let wire = Arc::new(greeting.wire);
        let link = Link::new(&wire, hello.from, patience)?;
        let (incoming, mut receiving, mut credits) = Incoming::over(link, &hello, channels, clock, deliver);
        let (input, ends) = (Arc::clone(&wire), receiving.ending(&incoming.link));
        let write = move |link: &Link| write(link, &mut credits, &wire, patience.beat);
        let ended = Arc::clone(&receiving.returns);
        incoming.threads.add(incoming.link.spawn("credit to", write, move || ended.end())?);
        incoming.threads.add(incoming.link.spawn("rows from", move |_| read(&mut receiving, &input), ends)?);
        Ok(incoming)
    }

    /// An accepted connection whose bytes the caller carries.
    pub(super) fn over(
        link: Arc<Link>,
        hello: &Hello,
        channels: Vec<IncomingChannel>,
        clock: Arc<dyn Clock>,
        deliver: Arc<dyn Deliver>,
    ) -> (Incoming, Receiving, Credits) {
        let returns = Returns::new(channels.iter().map(|channel| channel.limit));
        let incarnation = hello.incarnation;
        let schemas = channels.into_iter().map(|channel| channel.schema).collect();
        let credits = Credits { returns: Arc::clone(&returns), incarnation, due: Vec::new() };
        let receiving = Receiving { returns, schemas, incarnation, clock, deliver, awaited: None };
        (Incoming { link, threads: Threads::default() }, receiving, credits)
    }

    /// Waits until the sender has ended the connection.
    pub fn join(&self) -> Result<()> {
        self.threads.join();
        self.link.outcome()
    }

    /// Ends the connection now. A thread that waits in [`Incoming::join`] gets an error.
    pub fn close(&self) {
        self.link.close();
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.close();
        self.threads.join();
    }
}

/// What the receiving end reads next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextRead {
    Header,
    /// The body of the frame, of this number of bytes.
    Body(usize),
    /// The peer has sent everything.
    Nothing,
}

/// The reading side of the receiving end, without its socket.
pub(super) struct Receiving {
    returns: Arc<Returns>,
    schemas: Vec<SchemaRef>,
    incarnation: Incarnation,
    clock: Arc<dyn Clock>,
    deliver: Arc<dyn Deliver>,
    /// The frame whose body is read next.
    awaited: Option<(Frame, Permit)>,
}

impl Receiving {
    /// Handles a header. Nothing is allocated for a frame that exceeds the sender's credit.
    pub(super) fn header(&mut self, header: &[u8; HEADER_BYTES]) -> Result<NextRead> {
        let frame = Frame::read(header)?;
        if frame.incarnation != self.incarnation {
            return Err(malformed("it belongs to another incarnation of the job"));
        }
        match frame.content {
            FrameKind::End => return Ok(NextRead::Nothing),
            FrameKind::Beat => return Ok(NextRead::Header),
            _ => {}
        }
        let channel = frame.channel as usize;
        let permit = self.returns.received(channel, frame.bytes()).map_err(malformed)?;
        if let FrameKind::Question { sent } = frame.content {
            self.deliver.question(channel, Question { permit, sent });
            return Ok(NextRead::Header);
        }
        match frame.body_bytes() {
            0 => {
                self.envelope(&frame, permit, &Buffer::default())?;
                Ok(NextRead::Header)
            }
            bytes => {
                self.awaited = Some((frame, permit));
                Ok(NextRead::Body(bytes))
            }
        }
    }

    /// Handles the body of the last frame.
    pub(super) fn body(&mut self, body: &Buffer) -> Result<()> {
        match self.awaited.take() {
            Some((frame, permit)) => self.envelope(&frame, permit, body),
            None => Err(Error::internal("a body without a frame")),
        }
    }

    fn envelope(&self, frame: &Frame, permit: Permit, body: &Buffer) -> Result<()> {
        let channel = frame.channel as usize;
        let place = |error: Error| error.at(format!("channel {channel}"));
        let envelope = decode(frame, body, &self.schemas[channel], self.clock.as_ref()).map_err(place)?;
        let envelope = envelope.ok_or_else(|| malformed("the sender of rows sends what only their receiver does"))?;
        self.deliver.envelope(channel, envelope, permit);
        Ok(())
    }

    /// Called when nothing more is read: tasks learn how the connection has ended.
    pub(super) fn ending(&self, link: &Arc<Link>) -> impl FnOnce() + Send + 'static {
        let (link, deliver, returns) = (Arc::clone(link), Arc::clone(&self.deliver), Arc::clone(&self.returns));
        move || {
            deliver.ended(&|| link.outcome());
            returns.end();
        }
    }
}

/// The writing side of the receiving end, without its socket.
pub(super) struct Credits {
    returns: Arc<Returns>,
    incarnation: Incarnation,
    due: Vec<(usize, Return)>,
}

impl Credits {
    fn header(&self, channel: usize, content: FrameKind) -> [u8; HEADER_BYTES] {
        Frame { channel: channel as u32, incarnation: self.incarnation, content }.header()
    }

    /// The first frames: the limit of each channel.
    pub(super) fn limits(&self) -> Vec<[u8; HEADER_BYTES]> {
        let limits = self.returns.limits().into_iter().enumerate();
        limits.map(|(channel, bytes)| self.header(channel, FrameKind::Limit { bytes })).collect()
    }

    /// What to write next. `None`: nothing now.
    pub(super) fn poll(&mut self) -> Option<NextCredits> {
        self.returns.poll(&mut self.due)
    }

    /// The frames that [`NextCredits::Send`] announced.
    pub(super) fn due(&mut self) -> Vec<[u8; HEADER_BYTES]> {
        let content = |sent| match sent {
            Return::Credit(bytes) => FrameKind::Credit { bytes },
            Return::Reached(sent, reached) => FrameKind::Answer { sent, reached },
        };
        let due = std::mem::take(&mut self.due);
        due.into_iter().map(|(channel, sent)| self.header(channel, content(sent))).collect()
    }

    /// The beat: this process lives.
    pub(super) fn beat(&self) -> [u8; HEADER_BYTES] {
        self.header(0, FrameKind::Beat)
    }

    /// The last frame, unless the connection has failed.
    pub(super) fn finish(&self, link: &Link) -> Option<[u8; HEADER_BYTES]> {
        link.outcome().ok().map(|()| self.header(0, FrameKind::End))
    }
}

/// The reading thread.
fn read(receiving: &mut Receiving, wire: &Wire) -> Result<()> {
    let (mut input, mut pool) = (BufReader::with_capacity(HEADERS_READ, wire), Pool::default());
    loop {
        match receiving.header(&read_header(&mut input)?)? {
            NextRead::Header => {}
            NextRead::Nothing => return Ok(()),
            NextRead::Body(bytes) => {
                let mut memory = pool.take(bytes);
                input.read_exact(&mut memory.as_slice_mut()[..bytes]).map_err(|error| broken(&error))?;
                receiving.body(&pool.share(memory, bytes))?;
            }
        }
    }
}

/// The writing thread.
fn write(link: &Link, credits: &mut Credits, wire: &Wire, beat: Duration) -> Result<()> {
    let send = |headers: &[[u8; HEADER_BYTES]]| wire.write_all(&mut [IoSlice::new(headers.as_flattened())]);
    send(&credits.limits())?;
    loop {
        match credits.returns.take(&mut credits.due, beat) {
            NextCredits::Send => send(&credits.due())?,
            NextCredits::Beat => send(&[credits.beat()])?,
            NextCredits::End => break,
        }
    }
    if let Some(end) = credits.finish(link) {
        send(&[end])?;
        wire.stream.shutdown(Shutdown::Write).map_err(|error| broken(&error))?;
    }
    Ok(())
}
