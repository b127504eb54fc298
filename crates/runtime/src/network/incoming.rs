//! The receiving end of a connection: a thread reads frames and delivers them, another one returns credits and answers.

use std::io::{BufReader, IoSlice};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Envelope, Error, Incarnation, Result};
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;

use super::arrays::{check_type, malformed};
use super::connection::{Link, Patience, Threads, read_header};
use super::frame::{Content, Frame, HEADER_BYTES, decode};
use super::hello::{Greeting, broken};
use super::pool::Pool;
use super::returns::{Next, Permit, Question, Return, Returns};

/// Headers are read together up to this number of bytes. Larger bodies are read to where they stay.
const HEADERS_READ: usize = 8 << 10;

/// What the receiver knows of a channel.
#[derive(Clone, Debug)]
pub struct IncomingChannel {
    /// Of the rows, from the plan.
    pub schema: SchemaRef,
    /// Bytes that may be on their way.
    pub limit: u64,
}

/// Where a connection delivers. No method may wait.
pub trait Deliver: Send + Sync {
    /// An envelope has come. The limits bound what is held.
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
    threads: Threads,
}

impl Incoming {
    /// Accepts a connection, or refuses it if it does not have these channels. Everything is delivered with the number of its
    /// channel.
    pub fn open(
        greeting: Greeting,
        channels: Vec<IncomingChannel>,
        patience: Patience,
        clock: Arc<dyn Clock>,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Incoming> {
        let hello = greeting.hello;
        let fields = channels.iter().flat_map(|channel| channel.schema.fields());
        let refused = match fields.map(|field| check_type(field.data_type())).find_map(Result::err) {
            Some(error) => Some(error),
            None if hello.channels as usize == channels.len() => None,
            None => Some(Error::outside(format!("{} channels are wanted, not {}", channels.len(), hello.channels))),
        };
        if let Some(error) = refused {
            greeting.refuse(error.message())?;
            return Err(error.at(hello.from.to_string()));
        }
        greeting.accept().map_err(|error| error.at(hello.from.to_string()))?;
        let link = Link::new(greeting.wire, hello.from, patience)?;
        let returns = Returns::new(channels.iter().map(|channel| channel.limit));
        let incarnation = hello.incarnation;
        let incoming = Incoming { link: Arc::clone(&link), threads: Threads::default() };
        let (credits, ended) = (Arc::clone(&returns), Arc::clone(&returns));
        let write = move |link: &Link| write(link, &credits, incarnation, patience.beat);
        incoming.threads.add(link.spawn("credit to", write, move || ended.end())?);
        let (input, ended, delivered) = (Arc::clone(&returns), Arc::clone(&returns), Arc::clone(&deliver));
        let schemas = channels.into_iter().map(|channel| channel.schema).collect();
        let mut rows = Rows { returns: input, schemas, incarnation, clock, pool: Pool::default(), deliver };
        let outcome = Arc::clone(&link);
        let end = move || {
            delivered.ended(&|| outcome.outcome());
            ended.end();
        };
        incoming.threads.add(link.spawn("rows from", move |link| rows.read(link), end)?);
        Ok(incoming)
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

/// The reading thread.
struct Rows {
    returns: Arc<Returns>,
    schemas: Vec<SchemaRef>,
    incarnation: Incarnation,
    clock: Arc<dyn Clock>,
    pool: Pool,
    deliver: Arc<dyn Deliver>,
}

impl Rows {
    fn read(&mut self, link: &Link) -> Result<()> {
        let mut input = BufReader::with_capacity(HEADERS_READ, &link.wire);
        loop {
            let frame = Frame::read(&read_header(&mut input)?)?;
            if frame.incarnation != self.incarnation {
                return Err(malformed("it belongs to another incarnation of the job"));
            }
            match frame.content {
                Content::End => return Ok(()),
                Content::Beat => continue,
                _ => {}
            }
            let channel = frame.channel as usize;
            // Before memory is allocated: the sender must have credit for it.
            let permit = self.returns.received(channel, frame.bytes()).map_err(malformed)?;
            if let Content::Question { sent } = frame.content {
                self.deliver.question(channel, Question { permit, sent });
                continue;
            }
            let body = self.body(frame.body_bytes(), &mut input)?;
            let place = |error: Error| error.at(format!("channel {channel}"));
            let envelope = decode(&frame, &body, &self.schemas[channel], self.clock.as_ref()).map_err(place)?;
            let envelope =
                envelope.ok_or_else(|| malformed("the sender of rows sends what only their receiver does"))?;
            self.deliver.envelope(channel, envelope, permit);
        }
    }

    fn body(&mut self, bytes: usize, input: &mut impl std::io::Read) -> Result<Buffer> {
        if bytes == 0 {
            return Ok(Buffer::default());
        }
        let mut memory = self.pool.take(bytes);
        input.read_exact(&mut memory.as_slice_mut()[..bytes]).map_err(|error| broken(&error))?;
        Ok(self.pool.share(memory, bytes))
    }
}

fn write(link: &Link, returns: &Returns, incarnation: Incarnation, beat: Duration) -> Result<()> {
    let header = |channel: usize, content| Frame { channel: channel as u32, incarnation, content }.header();
    let send = |headers: &[[u8; HEADER_BYTES]]| link.wire.write_all(&mut [IoSlice::new(headers.as_flattened())]);
    let limits = returns.limits().into_iter().enumerate();
    let limits = limits.map(|(channel, bytes)| header(channel, Content::Limit { bytes }));
    send(&limits.collect::<Vec<_>>())?;
    let content = |of| match of {
        Return::Credit(bytes) => Content::Credit { bytes },
        Return::Reached(sent, reached) => Content::Answer { sent, reached },
    };
    let mut due = Vec::new();
    loop {
        match returns.take(&mut due, beat) {
            Next::Send => send(&due.drain(..).map(|(channel, of)| header(channel, content(of))).collect::<Vec<_>>())?,
            Next::Beat => send(&[header(0, Content::Beat)])?,
            Next::End => break,
        }
    }
    if link.outcome().is_ok() {
        send(&[header(0, Content::End)])?;
        link.wire.stream.shutdown(Shutdown::Write).map_err(|error| broken(&error))?;
    }
    Ok(())
}
