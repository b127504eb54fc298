//! Connections over sockets: what arrives, what waits, and how connections end.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anabranch_model::{
    Envelope, Epoch, ErrorKind, EventTime, Incarnation, ManualClock, Marker, MarkerKind, Nanos, PlanVersion, Result,
    Stamped,
};
use arrow::array::{ArrayRef, AsArray as _, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Int64Type, SchemaRef};

use super::super::frame::{FRAME_BYTES_MAX, Frame, FrameKind, HEADER_BYTES, encode};
use super::super::hello::{Greeting, Hello};
use super::super::{Deliver, Incoming, IncomingChannel, Outgoing, Patience, Permit, Question, Wire};
use super::greetings::{TOKEN, WAIT, in_thread, sockets};
use super::{INCARNATION, bytes_of_frame, rows};
use crate::network::WorkerId;

/// Receives what a connection delivers.
pub(super) type Deliveries = Receiver<(usize, Envelope, Permit)>;

/// Long enough for a busy machine.
const PATIENCE: Patience = Patience {
    beat: Duration::from_millis(20),
    silence_max: Duration::from_secs(60),
    connect_max: Duration::from_secs(60),
};

/// Passes on what a connection delivers.
struct Receivers(Sender<(usize, Envelope, Permit)>);

impl Deliver for Receivers {
    fn envelope(&self, channel: usize, envelope: Envelope, permit: Permit) {
        drop(self.0.send((channel, envelope, permit)));
    }

    fn question(&self, _: usize, question: Question) {
        question.answer(EventTime(77));
    }

    fn ended(&self, _: &dyn Fn() -> Result<()>) {}
}

/// Sends as a task does: it waits while there is no room.
pub(super) fn send(outgoing: &Outgoing, channel: u32, envelope: &Envelope) -> Result<()> {
    let mut channel = outgoing.channel(channel, 1);
    let mut next = channel.offer(envelope.clone())?;
    while let Some(envelope) = next {
        channel.wait_for_room();
        next = channel.offer(envelope)?;
    }
    Ok(())
}

pub(super) fn hello(channels: u32) -> Hello {
    Hello { job: 9, incarnation: INCARNATION, from: WorkerId(1), to: WorkerId(2), channels }
}

pub(super) fn numbers(first: i64, rows: usize) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + rows as i64));
    RecordBatch::try_from_iter([("n", numbers)]).unwrap()
}

pub(super) fn accept(stream: impl Into<Wire>, limits: &[u64]) -> Result<(Incoming, Deliveries)> {
    accept_of(stream, &numbers(0, 0).schema(), limits)
}

fn accept_of(stream: impl Into<Wire>, schema: &SchemaRef, limits: &[u64]) -> Result<(Incoming, Deliveries)> {
    let channels = limits.iter().map(|limit| IncomingChannel { schema: Arc::clone(schema), limit: *limit });
    let (sender, deliveries) = channel();
    let (greeting, clock) = (Greeting::receive(stream)?, Arc::new(ManualClock::default()));
    Ok((Incoming::open(greeting, channels.collect(), PATIENCE, clock, Arc::new(Receivers(sender)))?, deliveries))
}

pub(super) fn connect(stream: impl Into<Wire>, channels: u32) -> Result<Outgoing> {
    Outgoing::open(stream, &hello(channels), TOKEN, (PATIENCE, WAIT), Arc::new(ManualClock::default()))
}

fn connection(limits: &[u64]) -> (Outgoing, Incoming, Deliveries) {
    connection_of(&numbers(0, 0).schema(), limits)
}

fn connection_of(schema: &SchemaRef, limits: &[u64]) -> (Outgoing, Incoming, Deliveries) {
    let (connected, accepted) = sockets();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| accept_of(accepted, schema, limits).unwrap());
        let outgoing = connect(connected, limits.len() as u32).unwrap();
        let (incoming, deliveries) = receiver.join().unwrap();
        (outgoing, incoming, deliveries)
    })
}

fn watermark(ms: i64) -> Envelope {
    Envelope::Watermark(Stamped { value: EventTime(ms), born: Nanos(0) })
}

fn marker(epoch: u64) -> Envelope {
    let kind = MarkerKind::Cut;
    Envelope::Marker(Marker { epoch: Epoch(epoch), version: PlanVersion(1), snapshot: false, kind })
}

/// One line for each envelope; a batch is the range of its numbers.
fn line(envelope: &Envelope) -> String {
    match envelope {
        Envelope::Batch(batch) => {
            let numbers = batch.value.column(0).as_primitive::<Int64Type>().values();
            assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
            format!("rows from {} to {}", numbers[0], numbers[numbers.len() - 1])
        }
        Envelope::Watermark(watermark) => format!("watermark {}", watermark.value),
        Envelope::Idle => "idle".into(),
        Envelope::Marker(marker) => format!("marker of {}", marker.epoch),
    }
}

#[test]
fn every_channel_keeps_its_order() {
    let (outgoing, incoming, deliveries) = connection(&[1, 1000, 10_000, 1 << 20]);
    let envelopes = |channel: i64| {
        (0..200).map(move |turn| match turn % 5 {
            0 => watermark(channel * 1000 + turn),
            1 => Envelope::Idle,
            2 => marker(turn.unsigned_abs()),
            _ => rows(&numbers(channel * 1_000_000 + turn * 1000, 1 + (turn as usize * 37) % 480)),
        })
    };
    thread::scope(|scope| {
        for channel in 0..4 {
            let outgoing = &outgoing;
            scope.spawn(move || {
                for envelope in envelopes(channel) {
                    send(outgoing, channel as u32, &envelope).unwrap();
                }
            });
        }
        let mut received: [Vec<String>; 4] = std::array::from_fn(|_| Vec::new());
        for (channel, envelope, _permit) in deliveries.iter().take(800) {
            received[channel].push(line(&envelope));
        }
        for (channel, received) in received.iter().enumerate() {
            assert!(
                envelopes(channel as i64).map(|envelope| line(&envelope)).eq(received.iter().cloned()),
                "{channel}"
            );
        }
    });
    outgoing.finish().unwrap();
    incoming.join().unwrap();
    assert!(deliveries.recv().is_err(), "nothing else came");
}

/// What is sent before the end arrives, though its receiver takes nothing until then.
#[test]
fn the_end_comes_after_everything_else() {
    let (outgoing, incoming, deliveries) = connection(&[1 << 30]);
    for turn in 0..100 {
        send(&outgoing, 0, &rows(&numbers(turn, 10_000))).unwrap();
    }
    outgoing.finish().unwrap();
    incoming.join().unwrap();
    assert_eq!(deliveries.iter().count(), 100);
}

#[test]
fn a_receiver_that_stands_still_bounds_what_the_sender_holds() {
    let limit = 45_000;
    let (outgoing, incoming, deliveries) = connection(&[limit, 1000]);
    thread::scope(|scope| {
        let sender = scope.spawn(|| (0..100).try_for_each(|turn| send(&outgoing, 0, &rows(&numbers(turn, 1000)))));
        // Five frames of 8 KB and their headers fit. None of them is taken.
        let mut held: Vec<_> = deliveries.iter().take(5).collect();
        assert!(outgoing.outstanding(0) <= limit);
        // The other channel passes, and nothing of the first one came in between.
        send(&outgoing, 1, &watermark(1)).unwrap();
        assert_eq!(deliveries.recv().unwrap().0, 1);
        assert!(outgoing.outstanding(0) <= limit && !sender.is_finished());
        held.clear();
        assert_eq!(deliveries.iter().take(95).map(|(channel, ..)| channel).sum::<usize>(), 0);
        sender.join().unwrap().unwrap();
    });
    outgoing.finish().unwrap();
    incoming.join().unwrap();
}

#[test]
fn batches_larger_than_the_limit_are_divided() {
    let limit = 10_000;
    let (outgoing, incoming, deliveries) = connection(&[limit]);
    thread::scope(|scope| {
        let sender = scope.spawn(|| (0..20).try_for_each(|turn| send(&outgoing, 0, &rows(&numbers(turn, 5000)))));
        let mut received = Vec::new();
        while received.len() < 20 * 5000 {
            let (_, envelope, _permit) = deliveries.recv().unwrap();
            assert!(outgoing.outstanding(0) <= limit);
            let Envelope::Batch(batch) = envelope else { panic!() };
            received.extend_from_slice(batch.value.column(0).as_primitive::<Int64Type>().values());
        }
        assert!(received.into_iter().eq((0..20).flat_map(|turn| turn..turn + 5000)));
        sender.join().unwrap().unwrap();
    });
    outgoing.finish().unwrap();
    incoming.join().unwrap();
}

/// A row cannot be divided.
#[test]
fn a_row_larger_than_the_limit_passes() {
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(["x".repeat(100_000)]));
    let batch = RecordBatch::try_from_iter([("t", text)]).unwrap();
    let (outgoing, incoming, deliveries) = connection_of(&batch.schema(), &[100]);
    thread::scope(|scope| {
        let sender = scope.spawn(|| (0..20).try_for_each(|_| send(&outgoing, 0, &rows(&batch))));
        for (_, envelope, _permit) in deliveries.iter().take(20) {
            assert!(matches!(envelope, Envelope::Batch(received) if received.value == batch));
            assert!(outgoing.outstanding(0) < 100_000 + 1000);
        }
        sender.join().unwrap().unwrap();
    });
    outgoing.finish().unwrap();
    incoming.join().unwrap();
}

#[test]
fn a_cut_connection_ends_both_ends_with_an_error_that_names_the_peer() {
    let (connected, accepted) = sockets();
    let (address, cut) = (connected.peer_addr().unwrap(), connected.try_clone().unwrap());
    let receiver = in_thread(|| accept(accepted, &[100]).unwrap());
    let outgoing = connect(connected, 1).unwrap();
    let (incoming, deliveries) = receiver.join().unwrap();
    // Until both ends have failed: credit would be written to a closed connection.
    let _held = thread::scope(|scope| {
        // Waits for credit when the connection is cut.
        let sender = scope.spawn(|| (0..10).try_for_each(|turn| send(&outgoing, 0, &rows(&numbers(turn, 1000)))));
        let held = deliveries.recv().unwrap();
        cut.shutdown(Shutdown::Both).unwrap();
        let error = sender.join().unwrap().unwrap_err().to_string();
        assert!(error.starts_with(&format!("worker 2 at {address}: ")), "{error}");
        held
    });
    let error = outgoing.finish().unwrap_err().to_string();
    assert!(error.starts_with(&format!("worker 2 at {address}: the peer has closed the connection")), "{error}");
    let error = incoming.join().unwrap_err().to_string();
    assert!(error.starts_with("worker 1 at 127.0.0.1:") && error.contains("closed"), "{error}");
    assert!(deliveries.recv().is_err());
}

#[test]
fn an_end_that_is_closed_by_its_owner_is_cancelled_and_the_other_one_fails() {
    let (outgoing, incoming, deliveries) = connection(&[100]);
    outgoing.close();
    assert_eq!(send(&outgoing, 0, &Envelope::Idle).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(outgoing.finish().unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(incoming.join().unwrap_err().kind(), ErrorKind::Outside);
    assert!(deliveries.recv().is_err());

    let (outgoing, incoming, _deliveries) = connection(&[100]);
    drop(incoming);
    while send(&outgoing, 0, &Envelope::Idle).is_ok() {}
    assert!(outgoing.finish().unwrap_err().to_string().starts_with("worker 2 at 127.0.0.1:"));
}

#[test]
fn closing_ends_a_wait_for_a_peer_that_does_not_end() {
    let (connected, accepted) = sockets();
    let sender = in_thread(|| Arc::new(connect(connected, 1).unwrap()));
    let greeting = Greeting::receive(accepted).unwrap();
    greeting.accept().unwrap();
    let outgoing = sender.join().unwrap();
    let finishing = Arc::clone(&outgoing);
    let finishing = in_thread(move || finishing.finish());
    // The sender has ended, and waits for the end of the receiver.
    let mut end = [0; HEADER_BYTES];
    { &greeting.wire }.read_exact(&mut end).unwrap();
    assert_eq!(end, frame(0, FrameKind::End));
    outgoing.close();
    assert_eq!(finishing.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_wrong_number_of_channels_is_refused() {
    let (connected, accepted) = sockets();
    let receiver = in_thread(|| accept(accepted, &[100, 100]).map(drop));
    let error = connect(connected, 3).map(drop).unwrap_err().to_string();
    assert!(error.contains("the connection was refused: 2 channels are wanted, not 3"), "{error}");
    assert!(receiver.join().unwrap().unwrap_err().to_string().starts_with("worker 1: "));
}

/// Both ends send beats when they have nothing to send, and time out without the other's.
#[test]
fn an_end_with_nothing_to_send_says_that_it_lives() {
    let beat = frame(0, FrameKind::Beat);
    let mut header = [0; HEADER_BYTES];
    let (connected, mut accepted) = sockets();
    let sender = in_thread(|| connect(connected, 1).unwrap());
    Greeting::receive(accepted.try_clone().unwrap()).unwrap().accept().unwrap();
    let outgoing = sender.join().unwrap();
    accepted.write_all(&[beat, frame(0, FrameKind::Limit { bytes: 100 })].concat()).unwrap();
    for _ in 0..3 {
        accepted.read_exact(&mut header).unwrap();
        assert_eq!(header, beat);
    }
    send(&outgoing, 0, &Envelope::Idle).unwrap();
    accepted.read_exact(&mut header).unwrap();
    while header == beat {
        accepted.read_exact(&mut header).unwrap();
    }
    assert_eq!(header, frame(0, FrameKind::Idle));

    let (mut connected, accepted) = sockets();
    let receiver = in_thread(|| accept(accepted, &[100]).unwrap());
    hello(1).introduce(&connected.try_clone().unwrap().into(), TOKEN, WAIT).unwrap();
    let (_incoming, deliveries) = receiver.join().unwrap();
    connected.read_exact(&mut header).unwrap();
    assert_eq!(header, frame(0, FrameKind::Limit { bytes: 100 }));
    for _ in 0..3 {
        connected.read_exact(&mut header).unwrap();
        assert_eq!(header, beat);
    }
    connected.write_all(&[beat, frame(0, FrameKind::Idle)].concat()).unwrap();
    assert!(matches!(deliveries.recv(), Ok((0, Envelope::Idle, _))));
    // A question needs no task here: the receiver of these tests answers at once.
    connected.write_all(&frame(0, FrameKind::Question { sent: 5 })).unwrap();
    let answer = loop {
        connected.read_exact(&mut header).unwrap();
        match Frame::read(&header).unwrap().content {
            FrameKind::Beat | FrameKind::Credit { .. } => {}
            other => break other,
        }
    };
    assert_eq!(answer, FrameKind::Answer { sent: 5, reached: EventTime(77) });
}

/// The error of a receiver that gets these bytes after a right hello.
fn received(bytes: &[u8]) -> String {
    let (mut connected, accepted) = sockets();
    let receiver = in_thread(|| accept(accepted, &[10_000]).unwrap());
    hello(1).introduce(&connected.try_clone().unwrap().into(), TOKEN, WAIT).unwrap();
    let (incoming, _deliveries) = receiver.join().unwrap();
    // The receiver may close the connection before it has read everything.
    let _ = connected.write_all(bytes).and_then(|()| connected.shutdown(Shutdown::Write));
    let error = incoming.join().unwrap_err().to_string();
    assert!(error.starts_with("worker 1 at 127.0.0.1:"), "{error}");
    error
}

pub(super) fn frame(channel: u32, content: FrameKind) -> [u8; HEADER_BYTES] {
    Frame { channel, incarnation: INCARNATION, content }.header()
}

/// A frame of 4,928 bytes.
fn batch_of(channel: u32, first: i64) -> Vec<u8> {
    let mut frames = encode(&rows(&numbers(first, 600)), channel, INCARNATION, usize::MAX).unwrap();
    bytes_of_frame(&mut frames[0], Nanos(0))
}

#[test]
fn a_sender_that_is_wrong_or_hostile_ends_its_connection() {
    let mut flipped = frame(0, FrameKind::Idle);
    flipped[20] ^= 4;
    let too_large = FrameKind::Rows { rows: 1, numbers: 1, bytes: FRAME_BYTES_MAX as u32 + 64, age_ns: 0 };
    let other = Frame { channel: 0, incarnation: Incarnation(8), content: FrameKind::Idle };
    let mut malformed = batch_of(0, 0);
    malformed[HEADER_BYTES] ^= 1;
    let cases: [(&[u8], &str); 10] = [
        (
            &frame(0, FrameKind::Answer { sent: 1, reached: EventTime(1) }),
            "the sender of rows sends what only their receiver does",
        ),
        (&[], "the peer has closed the connection"),
        (&frame(0, FrameKind::Idle)[..63], "the peer has closed the connection"),
        (&batch_of(0, 0)[..1000], "the peer has closed the connection"),
        (&flipped, "the checksum of a frame's header is wrong"),
        (&malformed, "channel 0: a frame is malformed: a buffer has 4800 bytes instead of 4808"),
        (&other.header(), "it belongs to another incarnation of the job"),
        (&batch_of(1, 0), "it names a channel that does not exist"),
        (&frame(0, FrameKind::Credit { bytes: 1 }), "the sender of rows sends what only their receiver does"),
        (&frame(0, too_large), "it has 1 rows, 1 numbers and 67108928 bytes"),
    ];
    for (bytes, expected) in cases {
        let error = received(bytes);
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
}

#[test]
fn a_sender_that_ignores_its_limit_ends_its_connection() {
    let (mut connected, accepted) = sockets();
    let receiver = in_thread(|| accept(accepted, &[10_000]).unwrap());
    hello(1).introduce(&connected.try_clone().unwrap().into(), TOKEN, WAIT).unwrap();
    let (incoming, deliveries) = receiver.join().unwrap();
    connected.write_all(&[batch_of(0, 0), batch_of(0, 1), batch_of(0, 2)].concat()).unwrap();
    let held: Vec<_> = deliveries.iter().collect();
    assert_eq!(held.len(), 2, "the third one is not even read");
    let error = incoming.join().unwrap_err().to_string();
    assert!(error.contains("it sends more than its limit allows"), "{error}");
}

/// The error of a sender whose peer answers its first frame like this.
fn answered(bytes: &[u8]) -> String {
    let (connected, mut accepted) = sockets();
    let sender = in_thread(|| connect(connected, 1).unwrap());
    accepted.set_nodelay(true).unwrap();
    let greeting = Greeting::receive(accepted.try_clone().unwrap()).unwrap();
    greeting.accept().unwrap();
    let outgoing = sender.join().unwrap();
    accepted.write_all(bytes).unwrap();
    // It waits for credit until the connection ends.
    while send(&outgoing, 0, &Envelope::Idle).is_ok() {}
    let error = outgoing.finish().unwrap_err().to_string();
    let mut rest = Vec::new();
    let _ = accepted.read_to_end(&mut rest);
    assert!(error.starts_with("worker 2 at 127.0.0.1:"), "{error}");
    error
}

#[test]
fn a_receiver_that_is_wrong_or_hostile_ends_its_connection() {
    let limit = frame(0, FrameKind::Limit { bytes: 100 });
    let answer = FrameKind::Answer { sent: 0, reached: EventTime(0) };
    let cases: [(&[u8], &str); 7] = [
        (&frame(0, answer), "it answers what it was not asked"),
        (&frame(1, FrameKind::Limit { bytes: 1 }), "it names a channel that does not exist"),
        (&[limit, limit].concat(), "it sets the limit of a channel twice"),
        (
            &[limit, frame(0, FrameKind::Credit { bytes: 1 << 40 })].concat(),
            "it returns more credit than it was charged",
        ),
        (&frame(0, FrameKind::Idle), "the receiver of rows sends what only their sender does"),
        (&frame(0, FrameKind::End), "the peer has ended the connection too early"),
        (&[7; 64], "the checksum of a frame's header is wrong"),
    ];
    for (bytes, expected) in cases {
        let error = answered(bytes);
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
}
