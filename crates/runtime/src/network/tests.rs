mod arrays;
mod connections;
mod frames;
mod greetings;
mod hostile;
mod tls;

use std::io::{IoSlice, Read as _};

use anabranch_model::{Clock, Envelope, Incarnation, ManualClock, Nanos, Result, Stamped};
use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::SchemaRef;

use super::connection::read_header;
use super::frame::{Encoded, Frame, decode, encode};

const INCARNATION: Incarnation = Incarnation(7);

fn rows(batch: &RecordBatch) -> Envelope {
    Envelope::Batch(Stamped { value: batch.clone(), born: Nanos(0) })
}

/// The bytes of an envelope's only frame.
fn bytes_of(envelope: &Envelope, now: Nanos) -> Vec<u8> {
    let mut frames = encode(envelope, 3, INCARNATION, usize::MAX).unwrap();
    assert_eq!(frames.len(), 1);
    bytes_of_frame(&mut frames[0], now)
}

fn bytes_of_frame(frame: &mut Encoded, now: Nanos) -> Vec<u8> {
    frame.seal(now);
    let mut slices: Vec<IoSlice<'_>> = Vec::new();
    frame.slices(&mut slices);
    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
    assert_eq!(bytes.len() as u64, frame.frame().bytes());
    bytes
}

/// Reads a frame as a connection does.
fn read(mut input: &[u8], schema: &SchemaRef, clock: &dyn Clock) -> Result<Option<Envelope>> {
    let frame = Frame::read(&read_header(&mut input)?)?;
    let mut body = MutableBuffer::from_len_zeroed(frame.body_bytes());
    input.read_exact(body.as_slice_mut()).map_err(|error| super::hello::broken(&error))?;
    decode(&frame, &Buffer::from(body), schema, clock)
}

/// A batch after its way over the wire.
fn sent(batch: &RecordBatch) -> Result<RecordBatch> {
    let bytes = bytes_of(&rows(batch), Nanos(0));
    match read(&bytes, &batch.schema(), &ManualClock::default())? {
        Some(Envelope::Batch(batch)) => Ok(batch.value),
        other => panic!("{other:?}"),
    }
}
