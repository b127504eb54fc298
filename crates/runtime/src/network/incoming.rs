//! The receiving end of a connection: a thread reads frames and delivers them, another one returns credits.

use std::io::{BufReader, IoSlice};
use std::net::Shutdown;
use std::sync::Arc;

use anabranch_model::{Clock, Envelope, Error, Incarnation, Result};
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;

use super::arrays::{check_type, malformed};
use super::connection::{Link, Threads, read_header, write_all};
use super::frame::{Content, Frame, HEADER_BYTES, decode};
use super::hello::{Greeting, broken};
use super::pool::Pool;
use super::returns::{Permit, Returns};

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

/// The channels from the tasks of another worker.
#[derive(Debug)]
pub struct Incoming {
    link: Arc<Link>,
    threads: Threads,
}

impl Incoming {
    /// Accepts a connection, or refuses it if it does not have these channels. Every envelope is given to `deliver` with
    /// the number of its channel. `deliver` must not wait: the limits bound what it has to hold.
    pub fn open(
        greeting: Greeting,
        channels: Vec<IncomingChannel>,
        clock: Arc<dyn Clock>,
        deliver: impl FnMut(usize, Envelope, Permit) + Send + 'static,
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
        let link = Link::new(greeting.stream, hello.from)?;
        let returns = Returns::new(channels.iter().map(|channel| channel.limit));
        let incarnation = hello.incarnation;
        let incoming = Incoming { link: Arc::clone(&link), threads: Threads::default() };
        let (credits, ended) = (Arc::clone(&returns), Arc::clone(&returns));
        let write = move |link: &Link| write(link, &credits, incarnation);
        incoming.threads.add(link.spawn("credit to", write, move || ended.end())?);
        let (input, ended) = (Arc::clone(&returns), Arc::clone(&returns));
        let schemas = channels.into_iter().map(|channel| channel.schema).collect();
        let mut rows = Rows { returns: input, schemas, incarnation, clock, pool: Pool::default(), deliver };
        incoming.threads.add(link.spawn("rows from", move |link| rows.read(link), move || ended.end())?);
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
struct Rows<F> {
    returns: Arc<Returns>,
    schemas: Vec<SchemaRef>,
    incarnation: Incarnation,
    clock: Arc<dyn Clock>,
    pool: Pool,
    deliver: F,
}

impl<F: FnMut(usize, Envelope, Permit)> Rows<F> {
    fn read(&mut self, link: &Link) -> Result<()> {
        let mut input = BufReader::with_capacity(HEADERS_READ, &link.stream);
        loop {
            let frame = Frame::read(&read_header(&mut input)?)?;
            if frame.incarnation != self.incarnation {
                return Err(malformed("it belongs to another incarnation of the job"));
            }
            if frame.content == Content::End {
                return Ok(());
            }
            let channel = frame.channel as usize;
            // Before memory is allocated: the sender must have credit for it.
            let permit = self.returns.received(channel, frame.bytes()).map_err(malformed)?;
            let body = self.body(frame.body_bytes(), &mut input)?;
            let place = |error: Error| error.at(format!("channel {channel}"));
            let envelope = decode(&frame, &body, &self.schemas[channel], self.clock.as_ref()).map_err(place)?;
            let envelope =
                envelope.ok_or_else(|| malformed("the sender of rows sends what only their receiver does"))?;
            (self.deliver)(channel, envelope, permit);
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

fn write(link: &Link, returns: &Returns, incarnation: Incarnation) -> Result<()> {
    let header = |channel: usize, content| Frame { channel: channel as u32, incarnation, content }.header();
    let send = |headers: &[[u8; HEADER_BYTES]]| write_all(&link.stream, &mut [IoSlice::new(headers.as_flattened())]);
    let limits = returns.limits().into_iter().enumerate();
    let limits = limits.map(|(channel, bytes)| header(channel, Content::Limit { bytes }));
    send(&limits.collect::<Vec<_>>())?;
    let mut credits = Vec::new();
    while returns.take(&mut credits) {
        let credits = credits.drain(..).map(|(channel, bytes)| header(channel, Content::Credit { bytes }));
        send(&credits.collect::<Vec<_>>())?;
    }
    if link.outcome().is_ok() {
        send(&[header(0, Content::End)])?;
        link.stream.shutdown(Shutdown::Write).map_err(|error| broken(&error))?;
    }
    Ok(())
}
