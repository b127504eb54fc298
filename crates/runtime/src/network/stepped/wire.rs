//! One end of a connection whose bytes a simulator carries.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_model::{Clock, Error, Nanos, Result};
use arrow::buffer::{Buffer, MutableBuffer};
use subtle::ConstantTimeEq as _;

use crate::network::connection::{Link, Patience, Socket};
use crate::network::frame::{Encoded, HEADER_BYTES};
use crate::network::hello::{Hello, answer_message, check, reason_bytes, refused};
use crate::network::incoming::{Credits, Deliver, Incoming, IncomingChannel, NextRead, Receiving, check_channels};
use crate::network::links::Links;
use crate::network::outbox::NextFrames;
use crate::network::outgoing::{Outgoing, Sending};
use crate::network::registry::{Arrival, Registry};
use crate::task::returns::NextCredits;

/// One end of a connection.
#[derive(Clone)]
pub struct SteppedWire {
    state: Arc<Mutex<State>>,
    shut: Arc<Shut>,
}

/// This end has closed the connection.
#[derive(Debug, Default)]
struct Shut(AtomicBool);

impl Socket for Shut {
    fn shutdown(&self) {
        self.0.store(true, SeqCst);
    }
}

struct State {
    phase: Phase,
    dialed: Dialed,
    clock: Arc<dyn Clock>,
    patience: Patience,
    /// Bytes that have arrived and were not handled yet.
    input: Vec<u8>,
    /// Bytes to be written.
    output: VecDeque<u8>,
    /// When bytes last arrived, and when bytes were last written.
    heard: Nanos,
    wrote: Nanos,
    /// This end writes nothing more.
    finished: bool,
    /// Everything that this end expects has arrived.
    complete: bool,
    /// The tasks know that nothing follows.
    has_ended: bool,
}

pub(super) enum Phase {
    /// Waits for the answer to its hello.
    Dialing(Hello, Arc<Links>, SocketAddr),
    /// Waits for the hello.
    Greeting(Arc<Registry>),
    /// The peer waits for an answer.
    Waiting,
    Sending(Arc<Sending>),
    Receiving(Box<ReceivingEnd>),
    Closed,
}

/// The receiving end of an accepted connection.
pub(super) struct ReceivingEnd {
    link: Arc<Link>,
    receiving: Receiving,
    credits: Credits,
    wanted: NextRead,
}

pub(super) enum Dialed {
    Waits,
    Accepted,
    Unreachable,
    Refused(Error),
}

impl SteppedWire {
    pub(super) fn new(clock: Arc<dyn Clock>, patience: Patience, phase: Phase) -> SteppedWire {
        let now = clock.now();
        let state = State {
            phase,
            dialed: Dialed::Waits,
            clock,
            patience,
            input: Vec::new(),
            output: VecDeque::new(),
            heard: now,
            wrote: now,
            finished: false,
            complete: false,
            has_ended: false,
        };
        SteppedWire { state: Arc::new(Mutex::new(state)), shut: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcome of a connection that this end has begun. It is returned once.
    pub(super) fn dialed(&self) -> Dialed {
        std::mem::replace(&mut self.lock().dialed, Dialed::Waits)
    }

    /// This end closes the connection.
    pub(super) fn close(&self) {
        self.shut.shutdown();
    }

    /// Adds bytes to write.
    pub(super) fn write(&self, bytes: &[u8]) {
        self.lock().output.extend(bytes);
    }

    /// The destination cannot be reached.
    pub fn unreachable(&self) {
        let mut state = self.lock();
        state.dialed = Dialed::Unreachable;
        state.phase = Phase::Closed;
        self.shut.shutdown();
    }

    /// Takes at most `bytes_max` bytes that this end writes.
    #[must_use]
    pub fn take(&self, bytes_max: usize) -> Vec<u8> {
        let mut state = self.lock();
        if state.output.is_empty() {
            state.fill();
        }
        let bytes = bytes_max.min(state.output.len());
        if bytes > 0 {
            state.wrote = state.clock.now();
        }
        state.output.drain(..bytes).collect()
    }

    /// Whether this end writes nothing more, and everything was taken.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        let state = self.lock();
        state.finished && state.output.is_empty()
    }

    /// Whether this end has closed the connection, or no longer needs it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shut.0.load(SeqCst) || (self.has_finished() && self.lock().complete)
    }

    /// How the connection has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        match &self.lock().phase {
            Phase::Sending(sending) => sending.link.outcome().err(),
            Phase::Receiving(end) => end.link.outcome().err(),
            _ => None,
        }
    }

    /// Gives it bytes that have arrived.
    pub fn give(&self, bytes: &[u8]) {
        let mut state = self.lock();
        state.heard = state.clock.now();
        state.input.extend_from_slice(bytes);
        loop {
            match state.understand(&self.shut) {
                Ok(Understood::All) => return,
                Ok(Understood::More) => {}
                Ok(Understood::Hello(registry, hello, token)) => {
                    state.phase = Phase::Waiting;
                    drop(state);
                    let arrival = Arrived { wire: self.clone(), hello, token, is_answered: false };
                    registry.note(registry.greet(Box::new(arrival)));
                    state = self.lock();
                }
                Err(error) => return self.failed(state, &error),
            }
        }
    }

    /// The peer sends nothing more, or the connection is broken.
    pub fn end(&self, why: &str) {
        let state = self.lock();
        if !state.complete {
            self.failed(state, &Error::outside(why.to_owned()));
        }
    }

    /// Time has passed.
    pub fn tick(&self) {
        let mut state = self.lock();
        let now = state.clock.now();
        if self.shut.0.load(SeqCst) {
            return self.failed(state, &Error::cancelled());
        }
        let is_open = !matches!(state.phase, Phase::Dialing(..) | Phase::Waiting | Phase::Closed) && !state.complete;
        if is_open && state.heard.plus(state.patience.silence_max) <= now {
            return self.failed(state, &Error::outside("the peer does not answer"));
        }
        if state.wrote.plus(state.patience.beat) <= now && state.output.is_empty() && !state.finished {
            let beat = match &state.phase {
                Phase::Sending(sending) => sending.beat(),
                Phase::Receiving(end) => end.credits.beat(),
                _ => return,
            };
            state.output.extend(beat);
        }
    }

    /// The end keeps its failure for [`SteppedWire::failure`], and does nothing more.
    fn failed(&self, mut state: MutexGuard<'_, State>, error: &Error) {
        if std::mem::replace(&mut state.has_ended, true) {
            return;
        }
        state.output.clear();
        (state.finished, state.complete) = (true, true);
        let ended: Box<dyn FnOnce()> = match &state.phase {
            Phase::Dialing(..) => {
                state.dialed = Dialed::Refused(Error::outside(error.message().to_owned()));
                Box::new(|| ())
            }
            Phase::Sending(sending) => {
                sending.link.fail(error);
                let sending = Arc::clone(sending);
                Box::new(move || sending.ended())
            }
            Phase::Receiving(end) => {
                end.link.fail(error);
                Box::new(end.receiving.ending(&end.link))
            }
            Phase::Greeting(_) | Phase::Waiting | Phase::Closed => Box::new(|| ()),
        };
        drop(state);
        self.shut.shutdown();
        ended();
    }
}

enum Understood {
    /// More bytes are needed.
    All,
    More,
    Hello(Arc<Registry>, Hello, Vec<u8>),
}

impl State {
    /// Moves the next bytes to the output.
    fn fill(&mut self) {
        let now = self.clock.now();
        match &mut self.phase {
            Phase::Sending(sending) if !self.finished => {
                let mut frames: VecDeque<Encoded> = VecDeque::new();
                match sending.poll(&mut frames) {
                    Some(NextFrames::End) => {
                        self.finished = true;
                        self.output.extend(sending.finish().into_iter().flatten());
                    }
                    Some(NextFrames::Beat) | None => {}
                    Some(NextFrames::Write) => frames.iter_mut().for_each(|frame| {
                        frame.seal(now);
                        let mut slices: Vec<IoSlice<'_>> = Vec::new();
                        frame.slices(&mut slices);
                        slices.iter().for_each(|slice| self.output.extend(slice.iter()));
                    }),
                }
            }
            Phase::Receiving(end) if !self.finished => {
                let ReceivingEnd { link, credits, .. } = &mut **end;
                match credits.poll() {
                    Some(NextCredits::End) => {
                        self.finished = true;
                        self.output.extend(credits.finish(link).into_iter().flatten());
                    }
                    Some(NextCredits::Beat) | None => {}
                    Some(NextCredits::Send) => self.output.extend(credits.due().as_flattened()),
                }
            }
            _ => {}
        }
    }

    /// Takes the first bytes, if there are enough.
    fn first(&mut self, bytes: usize) -> Option<Vec<u8>> {
        (self.input.len() >= bytes).then(|| self.input.drain(..bytes).collect())
    }

    /// The first bytes, without taking them.
    fn header(&self) -> Option<[u8; HEADER_BYTES]> {
        self.input.first_chunk().copied()
    }

    /// Handles the next complete frame.
    fn understand(&mut self, shut: &Arc<Shut>) -> Result<Understood> {
        if self.complete {
            return Ok(Understood::All);
        }
        let header = self.header();
        match &mut self.phase {
            Phase::Greeting(registry) => {
                let Some(header) = header else { return Ok(Understood::All) };
                let registry = Arc::clone(registry);
                check(&header)?;
                let (hello, token_bytes) = Hello::read(&header)?;
                let Some(message) = self.first(HEADER_BYTES + token_bytes) else { return Ok(Understood::All) };
                return Ok(Understood::Hello(registry, hello, message[HEADER_BYTES..].to_vec()));
            }
            Phase::Dialing(hello, links, address) => {
                let Some(header) = header else { return Ok(Understood::All) };
                check(&header)?;
                let (hello, links, address) = (*hello, Arc::clone(links), *address);
                let Some(answer) = self.first(HEADER_BYTES + reason_bytes(&header)) else {
                    return Ok(Understood::All);
                };
                let place = format!("{} at {address}", hello.to);
                if answer.len() > HEADER_BYTES {
                    return Err(refused(&answer[HEADER_BYTES..]).at(place));
                }
                let outgoing = Outgoing::over(Link::over(Arc::<Shut>::clone(shut), place), &hello);
                let sending = outgoing.sending();
                links.connected(hello.to, Ok(outgoing))?;
                (self.phase, self.dialed) = (Phase::Sending(sending), Dialed::Accepted);
            }
            Phase::Sending(sending) => {
                let (Some(header), sending) = (header, Arc::clone(sending)) else { return Ok(Understood::All) };
                self.input.drain(..HEADER_BYTES);
                if sending.received(&header)? {
                    self.complete = true;
                    sending.ended();
                }
            }
            Phase::Receiving(end) => {
                let ReceivingEnd { link, receiving, wanted, .. } = &mut **end;
                match *wanted {
                    NextRead::Header => {
                        let Some(header) = header else { return Ok(Understood::All) };
                        self.input.drain(..HEADER_BYTES);
                        *wanted = receiving.header(&header)?;
                        if *wanted == NextRead::Nothing {
                            let ending = receiving.ending(link);
                            self.complete = true;
                            ending();
                        }
                    }
                    NextRead::Body(bytes) if self.input.len() >= bytes => {
                        let mut memory = MutableBuffer::with_capacity(bytes);
                        memory.extend_from_slice(&self.input[..bytes]);
                        self.input.drain(..bytes);
                        *wanted = NextRead::Header;
                        receiving.body(&Buffer::from(memory))?;
                    }
                    NextRead::Body(_) | NextRead::Nothing => return Ok(Understood::All),
                }
            }
            Phase::Waiting | Phase::Closed => return Ok(Understood::All),
        }
        Ok(Understood::More)
    }
}

/// A connection that has introduced itself.
struct Arrived {
    wire: SteppedWire,
    hello: Hello,
    token: Vec<u8>,
    is_answered: bool,
}

impl Arrival for Arrived {
    fn hello(&self) -> Hello {
        self.hello
    }

    fn has_token(&self, token: &[u8]) -> bool {
        self.token.ct_eq(token).into()
    }

    fn place(&self) -> String {
        self.hello.from.to_string()
    }

    fn refuse(mut self: Box<Self>, reason: &str) -> Result<()> {
        self.is_answered = true;
        let mut state = self.wire.lock();
        state.output.extend(answer_message(reason));
        (state.phase, state.finished, state.complete) = (Phase::Closed, true, true);
        Ok(())
    }

    fn open(
        mut self: Box<Self>,
        channels: Vec<IncomingChannel>,
        _: Patience,
        clock: Arc<dyn Clock>,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Incoming> {
        let place = self.hello.from.to_string();
        if let Err(error) = check_channels(&self.hello, &channels) {
            self.refuse(error.message())?;
            return Err(error.at(place));
        }
        self.is_answered = true;
        let mut state = self.wire.lock();
        if state.complete || self.wire.shut.0.load(SeqCst) {
            return Err(Error::outside("the peer has closed the connection").at(place));
        }
        state.output.extend(answer_message(""));
        let link = Link::over(Arc::<Shut>::clone(&self.wire.shut), place);
        let (incoming, receiving, credits) = Incoming::over(Arc::clone(&link), &self.hello, channels, clock, deliver);
        state.output.extend(credits.limits().as_flattened());
        state.heard = state.clock.now();
        state.phase = Phase::Receiving(Box::new(ReceivingEnd { link, receiving, credits, wanted: NextRead::Header }));
        Ok(incoming)
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        if !self.is_answered {
            self.wire.shut.shutdown();
        }
    }
}
