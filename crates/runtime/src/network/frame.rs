//! The format of what travels on a connection: frames, each a header of [`HEADER_BYTES`] and, for rows, a
//! body.
//!
//! ```text
//!  0  kind: u8, of marker: u8, 0: u16, channel: u32     32  value: u64 (watermark, epoch, bytes of credit or question)
//!  8  incarnation: u64                                  40  age: u64, in nanoseconds; of an answer: the question
//! 16  rows: u32, numbers: u32                           48  0: u64
//! 24  bytes of the body: u32, plan version: u32         56  checksum of the header: u64
//! ```
//!
//! Numbers are little-endian. Fields that a kind does not use are 0. The body begins with the numbers of its
//! arrays, four bytes each, and continues with their buffers (`arrays`). The checksum is XXH3 (64 bits): it
//! detects that two ends disagree on where a frame begins. A body has none: TLS authenticates frames between
//! machines, and frames to a loopback address do not leave the machine's memory.
//!
//! The time at which a record was read is local. It is sent as an age, taken when the frame is written, so a
//! latency does not include the time on the wire.

use std::io::IoSlice;

use anabranch_model::{Clock, Envelope, Epoch, Error, EventTime, Incarnation, Marker, MarkerKind, Nanos, PlanVersion};
use anabranch_model::{Result, Stamped};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use twox_hash::XxHash3_64;

use super::arrays::{ALIGN, Parts, Reader, malformed, padded};

/// Bytes of a header. A frame without rows has no more.
pub const HEADER_BYTES: usize = 64;
/// The largest body. A batch that needs more is divided by its rows.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
/// Limit of the rows of a frame.
const ROWS_MAX: usize = 1 << 16;
/// Limit of the numbers of a frame: each can make the receiver create a buffer.
const NUMBERS_MAX: usize = 1 << 18;

const ZEROS: [u8; ALIGN] = [0; ALIGN];

/// The content of a frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The channel, as numbered for the connection.
    pub channel: u32,
    /// The life of the job that the frame belongs to.
    pub incarnation: Incarnation,
    pub(super) content: FrameKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Rows {
        rows: u32,
        numbers: u32,
        bytes: u32,
        age_ns: u64,
    },
    Watermark {
        time: EventTime,
        age_ns: u64,
    },
    Idle,
    Marker(Marker),
    /// From the receiver: this number of bytes may be in flight on the channel.
    Limit {
        bytes: u64,
    },
    /// From the receiver: this number of bytes is no longer in flight.
    Credit {
        bytes: u64,
    },
    /// From either end: nothing follows. The receiver sends its own after the sender's, when everything has
    /// arrived.
    End,
    /// From the sender: asks for the watermark of the receiving task after the first `sent` envelopes of the
    /// channel.
    Question {
        sent: u64,
    },
    /// From the receiver: the answer to the question with this number of envelopes.
    Answer {
        sent: u64,
        reached: EventTime,
    },
    /// From either end: this process lives, and has nothing to send.
    Beat,
}

impl Frame {
    pub(super) fn header(&self) -> [u8; HEADER_BYTES] {
        let mut fields =
            HeaderFields { channel: self.channel, incarnation: self.incarnation.0, ..HeaderFields::default() };
        match self.content {
            FrameKind::Rows { rows, numbers, bytes, age_ns } => {
                fields = HeaderFields { kind: 1, rows, numbers, bytes, age_ns, ..fields };
            }
            FrameKind::Watermark { time, age_ns } => {
                fields = HeaderFields { kind: 2, value: time.0.cast_unsigned(), age_ns, ..fields };
            }
            FrameKind::Idle => fields.kind = 3,
            FrameKind::Marker(Marker { epoch, version, snapshot, kind }) => {
                let marker = match kind {
                    MarkerKind::Cut => 0,
                    MarkerKind::Stop => 2,
                    MarkerKind::End => 4,
                };
                let marker = marker + u8::from(snapshot);
                fields = HeaderFields { kind: 4, marker, value: epoch.0, version: version.0, ..fields };
            }
            FrameKind::Limit { bytes } => fields = HeaderFields { kind: 5, value: bytes, ..fields },
            FrameKind::Credit { bytes } => fields = HeaderFields { kind: 6, value: bytes, ..fields },
            FrameKind::End => fields.kind = 7,
            FrameKind::Question { sent } => fields = HeaderFields { kind: 8, value: sent, ..fields },
            FrameKind::Answer { sent, reached } => {
                fields = HeaderFields { kind: 9, value: reached.0.cast_unsigned(), age_ns: sent, ..fields };
            }
            FrameKind::Beat => fields.kind = 10,
        }
        fields.write()
    }

    pub(super) fn read(header: &[u8; HEADER_BYTES]) -> Result<Frame> {
        let fields = HeaderFields::read(header)?;
        let content = match fields.kind {
            1 => FrameKind::Rows {
                rows: fields.rows,
                numbers: fields.numbers,
                bytes: fields.bytes,
                age_ns: fields.age_ns,
            },
            2 => FrameKind::Watermark { time: EventTime(fields.value.cast_signed()), age_ns: fields.age_ns },
            3 => FrameKind::Idle,
            4 => FrameKind::Marker(Marker {
                epoch: Epoch(fields.value),
                version: PlanVersion(fields.version),
                snapshot: fields.marker & 1 == 1,
                kind: match fields.marker >> 1 {
                    0 => MarkerKind::Cut,
                    1 => MarkerKind::Stop,
                    2 => MarkerKind::End,
                    other => return Err(malformed(format!("it has a marker of kind {other}"))),
                },
            }),
            5 => FrameKind::Limit { bytes: fields.value },
            6 => FrameKind::Credit { bytes: fields.value },
            7 => FrameKind::End,
            8 => FrameKind::Question { sent: fields.value },
            9 => FrameKind::Answer { sent: fields.age_ns, reached: EventTime(fields.value.cast_signed()) },
            10 => FrameKind::Beat,
            other => return Err(malformed(format!("its kind is {other}"))),
        };
        let frame = Frame { channel: fields.channel, incarnation: Incarnation(fields.incarnation), content };
        // A field that its kind does not use would be lost.
        if frame.header() != *header {
            return Err(malformed("fields that its kind does not use are not 0"));
        }
        if let FrameKind::Rows { rows, numbers, bytes, .. } = content {
            let (rows, numbers, bytes) = (rows as usize, numbers as usize, bytes as usize);
            if rows > ROWS_MAX || numbers > NUMBERS_MAX || bytes > FRAME_BYTES_MAX || bytes != padded(bytes) {
                return Err(malformed(format!("it has {rows} rows, {numbers} numbers and {bytes} bytes")));
            }
        }
        Ok(frame)
    }

    /// Bytes of the body.
    pub fn body_bytes(&self) -> usize {
        match self.content {
            FrameKind::Rows { bytes, .. } => bytes as usize,
            _ => 0,
        }
    }

    /// Bytes that the frame takes on its channel.
    pub fn bytes(&self) -> u64 {
        (HEADER_BYTES + self.body_bytes()) as u64
    }
}

/// The fields of a header, at the offsets that the head of this file shows.
#[derive(Default)]
struct HeaderFields {
    kind: u8,
    marker: u8,
    zero: u16,
    channel: u32,
    incarnation: u64,
    rows: u32,
    numbers: u32,
    bytes: u32,
    version: u32,
    value: u64,
    age_ns: u64,
    zeros: u64,
}

impl HeaderFields {
    fn write(&self) -> [u8; HEADER_BYTES] {
        let words = [
            u64::from(self.kind)
                | u64::from(self.marker) << 8
                | u64::from(self.zero) << 16
                | u64::from(self.channel) << 32,
            self.incarnation,
            u64::from(self.rows) | u64::from(self.numbers) << 32,
            u64::from(self.bytes) | u64::from(self.version) << 32,
            self.value,
            self.age_ns,
            self.zeros,
        ];
        let mut header = [0; HEADER_BYTES];
        let (places, _) = header.as_chunks_mut::<8>();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        seal(&mut header);
        header
    }

    fn read(header: &[u8; HEADER_BYTES]) -> Result<HeaderFields> {
        if !is_sealed(header) {
            return Err(Error::outside("the checksum of a frame's header is wrong"));
        }
        let (words, _) = header.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        Ok(HeaderFields {
            kind: word(0) as u8,
            marker: (word(0) >> 8) as u8,
            zero: (word(0) >> 16) as u16,
            channel: (word(0) >> 32) as u32,
            incarnation: word(1),
            rows: word(2) as u32,
            numbers: (word(2) >> 32) as u32,
            bytes: word(3) as u32,
            version: (word(3) >> 32) as u32,
            value: word(4),
            age_ns: word(5),
            zeros: word(6),
        })
    }
}

/// Writes the checksum of all other bytes into the last eight.
pub(super) fn seal(header: &mut [u8; HEADER_BYTES]) {
    let checksum = XxHash3_64::oneshot(&header[..HEADER_BYTES - 8]);
    header[HEADER_BYTES - 8..].copy_from_slice(&checksum.to_le_bytes());
}

/// Whether the last eight bytes are the checksum of all others.
pub(super) fn is_sealed(header: &[u8; HEADER_BYTES]) -> bool {
    let mut sealed = *header;
    seal(&mut sealed);
    sealed == *header
}

/// A frame to be written: its buffers are those of the arrays.
#[derive(Debug)]
pub struct Encoded {
    frame: Frame,
    header: [u8; HEADER_BYTES],
    numbers: Vec<u8>,
    buffers: Vec<Buffer>,
    born: Option<Nanos>,
}

impl Encoded {
    /// A frame without rows.
    pub(super) fn without_rows(frame: Frame, born: Option<Nanos>) -> Self {
        Encoded { frame, header: [0; HEADER_BYTES], numbers: Vec::new(), buffers: Vec::new(), born }
    }

    /// The header's content.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Completes the header: the age and the checksum.
    pub fn seal(&mut self, now: Nanos) {
        let age = self.born.map_or(0, |born| now.since(born));
        match &mut self.frame.content {
            FrameKind::Rows { age_ns, .. } | FrameKind::Watermark { age_ns, .. } => *age_ns = age,
            _ => {}
        }
        self.header = self.frame.header();
    }

    /// Adds the slices to be written: header, numbers and buffers.
    pub fn slices<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        slices.push(IoSlice::new(&self.header));
        slices.extend(parts(&self.numbers, &self.buffers).map(IoSlice::new));
    }
}

/// The body: each buffer with its padding.
fn parts<'a>(numbers: &'a [u8], buffers: &'a [Buffer]) -> impl Iterator<Item = &'a [u8]> {
    let parts = std::iter::once(numbers).chain(buffers.iter().map(Buffer::as_slice));
    let with_zeros = |part: &'a [u8]| [part, &ZEROS[..padded(part.len()) - part.len()]];
    parts.flat_map(with_zeros).filter(|bytes| !bytes.is_empty())
}

/// Encodes an envelope. A batch of more than `bytes_wanted` becomes several frames, as long as it has several
/// rows.
pub fn encode(
    envelope: &Envelope,
    channel: u32,
    incarnation: Incarnation,
    bytes_wanted: usize,
) -> Result<Vec<Encoded>> {
    let frame = |content| Frame { channel, incarnation, content };
    Ok(vec![match envelope {
        Envelope::Batch(batch) => {
            let mut frames = Vec::new();
            rows(batch, &frame, bytes_wanted.min(FRAME_BYTES_MAX), &mut frames)?;
            return Ok(frames);
        }
        Envelope::Watermark(Stamped { value, born }) => {
            Encoded::without_rows(frame(FrameKind::Watermark { time: *value, age_ns: 0 }), Some(*born))
        }
        Envelope::Idle => Encoded::without_rows(frame(FrameKind::Idle), None),
        Envelope::Marker(marker) => Encoded::without_rows(frame(FrameKind::Marker(*marker)), None),
    }])
}

fn rows(
    Stamped { value: batch, born }: &Stamped<RecordBatch>,
    frame: &impl Fn(FrameKind) -> Frame,
    bytes_wanted: usize,
    frames: &mut Vec<Encoded>,
) -> Result<()> {
    let mut parts = Parts::default();
    batch.columns().iter().try_for_each(|column| parts.array(column))?;
    let (count, numbers) = (batch.num_rows(), parts.numbers.len() / 4);
    let bytes = padded(parts.numbers.len()) + parts.bytes;
    let is_larger = |bytes_max| bytes > bytes_max || count > ROWS_MAX || numbers > NUMBERS_MAX;
    if count > 1 && is_larger(bytes_wanted) {
        for (start, rows_of_half) in [(0, count / 2), (count / 2, count - count / 2)] {
            let half = Stamped { value: batch.slice(start, rows_of_half), born: *born };
            rows(&half, frame, bytes_wanted, frames)?;
        }
        return Ok(());
    }
    if is_larger(FRAME_BYTES_MAX) {
        return Err(Error::user(format!(
            "a row of {bytes} bytes is too large for the exchange between workers, which takes {FRAME_BYTES_MAX}"
        )));
    }
    let content = FrameKind::Rows { rows: count as u32, numbers: numbers as u32, bytes: bytes as u32, age_ns: 0 };
    let Parts { numbers, buffers, .. } = parts;
    frames.push(Encoded { numbers, buffers, ..Encoded::without_rows(frame(content), Some(*born)) });
    Ok(())
}

/// The envelope of a frame, and for rows its body. `None` if the frame is no envelope.
pub fn decode(frame: &Frame, body: &Buffer, schema: &SchemaRef, clock: &dyn Clock) -> Result<Option<Envelope>> {
    let born = |age_ns: u64| Nanos(clock.now().0.saturating_sub(age_ns));
    Ok(Some(match frame.content {
        FrameKind::Rows { rows, numbers, age_ns, .. } => {
            let mut reader = Reader::new(body, numbers as usize)?;
            let columns =
                schema.fields().iter().map(|field| reader.column(field.data_type())).collect::<Result<_>>()?;
            reader.end()?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
            let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options);
            let value = batch.map_err(|error| malformed(error.to_string()))?;
            Envelope::Batch(Stamped { value, born: born(age_ns) })
        }
        FrameKind::Watermark { time, age_ns } => Envelope::Watermark(Stamped { value: time, born: born(age_ns) }),
        FrameKind::Idle => Envelope::Idle,
        FrameKind::Marker(marker) => Envelope::Marker(marker),
        FrameKind::Limit { .. } | FrameKind::Credit { .. } | FrameKind::End => return Ok(None),
        FrameKind::Question { .. } | FrameKind::Answer { .. } | FrameKind::Beat => return Ok(None),
    }))
}
