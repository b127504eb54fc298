//! Frames: their content, and the errors of malformed ones.

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Envelope, Epoch, EventTime, ManualClock, Marker, MarkerKind, Nanos, PlanVersion, Rng, Stamped};
use arrow::array::{Array as _, ArrayRef, Int64Array, RecordBatch, StringArray, StringViewArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use twox_hash::XxHash3_64;

use super::super::frame::{FRAME_BYTES_MAX, Frame, FrameKind, HEADER_BYTES, encode, seal};
use super::arrays::{any_batch, random_batch};
use super::{INCARNATION, bytes_of, bytes_of_frame, read, rows, sent};

fn marker(epoch: u64, snapshot: bool, kind: MarkerKind) -> Envelope {
    Envelope::Marker(Marker { epoch: Epoch(epoch), version: PlanVersion(5), snapshot, kind })
}

fn watermark(ms: i64, born: Nanos) -> Envelope {
    Envelope::Watermark(Stamped { value: EventTime(ms), born })
}

fn batch() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter([Some(1), None, Some(-3)]));
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(["short", "longer than twelve bytes", "größer"]));
    RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap()
}

fn samples() -> Vec<Envelope> {
    vec![
        rows(&batch()),
        watermark(-1, Nanos(0)),
        Envelope::Idle,
        marker(9, true, MarkerKind::Cut),
        marker(u64::MAX, false, MarkerKind::End),
    ]
}

#[test]
fn what_is_not_rows_arrives_as_it_was() {
    let schema: SchemaRef = Arc::new(Schema::empty());
    for kind in [MarkerKind::Cut, MarkerKind::Stop, MarkerKind::End] {
        for snapshot in [false, true] {
            let envelope = marker(u64::MAX, snapshot, kind);
            let received = read(&bytes_of(&envelope, Nanos(0)), &schema, &ManualClock::default()).unwrap();
            let (Some(Envelope::Marker(received)), Envelope::Marker(sent)) = (received, envelope) else { panic!() };
            assert_eq!(received, sent);
        }
    }
    for ms in [i64::MIN, -1, 0, i64::MAX] {
        let received = read(&bytes_of(&watermark(ms, Nanos(0)), Nanos(0)), &schema, &ManualClock::default());
        assert!(matches!(received, Ok(Some(Envelope::Watermark(w))) if w.value == EventTime(ms)));
    }
    let idle = read(&bytes_of(&Envelope::Idle, Nanos(0)), &schema, &ManualClock::default());
    assert!(matches!(idle, Ok(Some(Envelope::Idle))));
}

/// The clocks of two processes have nothing in common.
#[test]
fn the_birth_of_a_record_travels_as_an_age() {
    let clock = ManualClock::default();
    clock.advance(Duration::from_nanos(1000));
    let rows = Envelope::Batch(Stamped { value: batch(), born: Nanos(900_000) });
    let born = |envelope, now| match read(&bytes_of(&envelope, now), &batch().schema(), &clock).unwrap() {
        Some(Envelope::Batch(rows)) => rows.born,
        Some(Envelope::Watermark(watermark)) => watermark.born,
        other => panic!("{other:?}"),
    };
    assert_eq!(born(rows, Nanos(900_300)), Nanos(700));
    assert_eq!(born(watermark(5, Nanos(10)), Nanos(11)), Nanos(999));
    assert_eq!(born(watermark(5, Nanos(10)), Nanos(1_000_000)), Nanos(0), "older than the receiver's clock");
    assert_eq!(born(watermark(5, Nanos(10)), Nanos(3)), Nanos(1000), "born later than it is sent");
}

/// Workers of one version of the protocol understand each other: another format needs another version.
#[test]
fn the_format_is_frozen() {
    let mut bytes: Vec<u8> = samples().iter().flat_map(|sample| bytes_of(sample, Nanos(1))).collect();
    let contents = [
        FrameKind::Limit { bytes: 3 },
        FrameKind::Credit { bytes: 4 },
        FrameKind::End,
        FrameKind::Question { sent: 5 },
        FrameKind::Answer { sent: 6, reached: EventTime(-7) },
        FrameKind::Beat,
    ];
    for content in contents {
        let frame = Frame { channel: 2, incarnation: INCARNATION, content };
        assert_eq!(Frame::read(&frame.header()).unwrap(), frame);
        bytes.extend(frame.header());
    }
    assert_eq!((bytes.len(), XxHash3_64::oneshot(&bytes)), FROZEN, "raise VERSION in hello.rs");
}

const FROZEN: (usize, u64) = (1024, 3_256_402_765_901_487_987);

#[test]
fn every_truncated_frame_is_an_error() {
    for sample in samples() {
        let bytes = bytes_of(&sample, Nanos(0));
        for length in 0..bytes.len() {
            let error = read(&bytes[..length], &batch().schema(), &ManualClock::default()).unwrap_err();
            assert_eq!(error.to_string(), "the peer has closed the connection", "{length}");
        }
    }
}

#[test]
fn every_changed_byte_of_a_header_is_noticed() {
    for sample in samples() {
        let bytes = bytes_of(&sample, Nanos(0));
        for at in 0..HEADER_BYTES {
            for change in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                let error = read(&changed, &batch().schema(), &ManualClock::default()).unwrap_err().to_string();
                assert!(error.contains("checksum"), "byte {at}: {error}");
            }
        }
    }
}

/// A frame with a right checksum from a faulty or hostile peer.
fn forged(bytes: &mut [u8], word: usize, value: u64) {
    bytes[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
    reseal(bytes);
}

fn reseal(bytes: &mut [u8]) {
    seal(bytes.first_chunk_mut().unwrap());
}

#[test]
fn forged_headers_are_refused_before_memory_is_allocated() {
    for word in 0..7 {
        for value in [u64::MAX, 1 << 63, 8, 1 << 19 | 1 << 51, 0x0101_0101_0101_0101] {
            for sample in samples() {
                let mut bytes = bytes_of(&sample, Nanos(0));
                forged(&mut bytes, word, value);
                let header = bytes.first_chunk::<HEADER_BYTES>().unwrap();
                if let Ok(frame) = Frame::read(header) {
                    assert!(frame.body_bytes() <= FRAME_BYTES_MAX && frame.header() == *header);
                }
            }
        }
    }
    let mut bytes = bytes_of(&rows(&batch()), Nanos(0));
    forged(&mut bytes, 3, (FRAME_BYTES_MAX + 64) as u64);
    let error = read(&bytes, &batch().schema(), &ManualClock::default()).unwrap_err().to_string();
    assert!(error.starts_with("a frame is malformed: it has 3 rows"), "{error}");
    let mut bytes = bytes_of(&marker(1, false, MarkerKind::Cut), Nanos(0));
    forged(&mut bytes, 5, 1);
    let error = read(&bytes, &batch().schema(), &ManualClock::default()).unwrap_err().to_string();
    assert_eq!(error, "a frame is malformed: fields that its kind does not use are not 0");
}

/// Whatever the body contains: an error, or arrays that are valid.
#[test]
fn forged_bodies_give_an_error_or_valid_arrays() {
    let mut refused = 0;
    for seed in 0..4000 {
        let mut rng = Rng::new(seed);
        let batch = any_batch(&mut rng, 20);
        let mut bytes = bytes_of(&rows(&batch), Nanos(0));
        if bytes.len() == HEADER_BYTES {
            continue;
        }
        for _ in 0..=rng.below(3) {
            // Mostly among the numbers at the front.
            let end = if rng.below(2) == 0 { bytes.len() } else { bytes.len().min(HEADER_BYTES + 128) };
            let at = HEADER_BYTES + rng.below((end - HEADER_BYTES) as u64) as usize;
            bytes[at] = [rng.next_u64() as u8, 0xff, 0, bytes[at].wrapping_add(1)][rng.below(4) as usize];
        }
        reseal(&mut bytes);
        match read(&bytes, &batch.schema(), &ManualClock::default()) {
            Ok(Some(Envelope::Batch(read))) => {
                assert_eq!(read.value.num_rows(), batch.num_rows());
                read.value.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                refused += 1;
                assert!(error.to_string().starts_with("a frame is malformed: "), "{error}");
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn strings_that_are_not_utf8_are_refused() {
    let letters = ["x".repeat(11), "y".repeat(40), "é".repeat(20)];
    let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(&letters));
    for texts in [views, Arc::new(StringArray::from_iter_values(&letters))] {
        let data_type = texts.data_type().clone();
        let batch = RecordBatch::try_from_iter([("t", texts)]).unwrap();
        assert!(sent(&batch).unwrap() == batch);
        for (letter, wrong) in [(b'x', 0xff), (b'y', 0xff), (0xa9, 0xc3)] {
            let mut bytes = bytes_of(&rows(&batch), Nanos(0));
            // The last string is not in the prefix of a view, whose error would be another one.
            let at = HEADER_BYTES + bytes[HEADER_BYTES..].iter().rposition(|byte| *byte == letter).unwrap();
            bytes[at] = wrong;
            reseal(&mut bytes);
            let received = read(&bytes, &batch.schema(), &ManualClock::default());
            let error = received.unwrap_err().to_string().to_lowercase();
            assert!(error.contains("utf-8") || error.contains("utf8"), "{data_type}: {error}");
        }
    }
}

#[test]
fn a_schema_of_another_plan_is_refused() {
    let bytes = bytes_of(&rows(&batch()), Nanos(0));
    let schema = batch().schema();
    for columns in [vec![0], vec![1], vec![1, 0], vec![0, 1, 1], vec![]] {
        let other: SchemaRef = Arc::new(schema.project(&columns).unwrap());
        let error = read(&bytes, &other, &ManualClock::default()).unwrap_err().to_string();
        assert!(error.starts_with("a frame is malformed: "), "{columns:?}: {error}");
    }
    let not_null = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(false));
    let not_null: SchemaRef = Arc::new(Schema::new(not_null.collect::<Vec<_>>()));
    assert!(read(&bytes, &not_null, &ManualClock::default()).unwrap_err().to_string().contains("null"));
}

#[test]
fn large_batches_are_divided_by_rows() {
    let types = [DataType::Int64, DataType::Utf8View, DataType::new_list(DataType::Utf8, true)];
    let batch = random_batch(&types, 5000, &mut Rng::new(11));
    let mut parts = Vec::new();
    for frame in &mut encode(&rows(&batch), 3, INCARNATION, 10_000).unwrap() {
        let bytes = bytes_of_frame(frame, Nanos(0));
        assert!(bytes.len() <= 10_000 + HEADER_BYTES);
        match read(&bytes, &batch.schema(), &ManualClock::default()).unwrap() {
            Some(Envelope::Batch(part)) => parts.push(part.value),
            other => panic!("{other:?}"),
        }
    }
    assert!(parts.len() > 20 && concat_batches(&batch.schema(), &parts).unwrap() == batch);
    let rows_only = random_batch(&[], 100_000, &mut Rng::new(0));
    assert_eq!(encode(&rows(&rows_only), 0, INCARNATION, usize::MAX).unwrap().len(), 2);
}

#[test]
fn a_row_that_no_frame_can_hold_is_the_users_error() {
    let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(["x".repeat(FRAME_BYTES_MAX)]));
    let batch = RecordBatch::try_from_iter([("t", text)]).unwrap();
    let error = encode(&rows(&batch), 0, INCARNATION, 1000).unwrap_err().to_string();
    assert!(error.contains("a row of 67108992 bytes"), "{error}");
}

#[test]
fn limits_and_credits_have_frames() {
    for content in [FrameKind::Limit { bytes: 1 << 40 }, FrameKind::Credit { bytes: 3 }, FrameKind::End] {
        let frame = Frame { channel: u32::MAX, incarnation: INCARNATION, content };
        assert_eq!(Frame::read(&frame.header()).unwrap(), frame);
    }
}
