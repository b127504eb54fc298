//! Measures the JSON format: `cargo run --release -p anabranch-connectors --example json_speed [RECORDS
//! [NAME]]`.
//!
//! Events of the Yahoo Streaming Benchmark, three of seven columns, in blocks of 8192 records; then the same
//! from streams that are harder: columns of other types, several kinds of records, no order of keys. With
//! `NAME`, only the measurements whose name contains it.

use std::error::Error;
use std::hint::black_box;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use anabranch_connectors::format::json::{JsonDecoder, JsonEncoder, JsonOptions};
use anabranch_connectors::format::{Decode, Encode};
use anabranch_model::Rng;
use arrow::array::{Array, BinaryArray, RecordBatch};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

const BLOCK_ROWS: usize = 8_192;
const ROUNDS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let records: usize = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 1_000_000,
    };
    let text = DataType::Utf8View;
    let wanted = [("ad_id", text.clone()), ("event_type", text.clone()), ("event_time", DataType::Int64)];
    let all = [
        ("user_id", text.clone()),
        ("page_id", text.clone()),
        ("ad_id", text.clone()),
        ("ad_type", text.clone()),
        ("event_type", text.clone()),
        ("event_time", DataType::Timestamp(TimeUnit::Millisecond, None)),
        ("ip_address", text),
    ];
    let ads = blocks(records, |rng, out| ad_event(rng, &FIELDS, out));
    decode("3 of 7 columns", &ads, &wanted)?;
    decode("7 of 7 columns", &ads, &all)?;
    decode("none (only checked)", &ads, &[])?;
    let kinds = blocks(records, |rng, out| {
        let kind = rng.below(4) as usize;
        ad_event(rng, &FIELDS[kind..], out);
    });
    decode("four kinds mixed", &kinds, &wanted[1..])?;
    let shuffled = blocks(records, |rng, out| {
        let mut fields = FIELDS;
        for i in (1..fields.len()).rev() {
            fields.swap(i, rng.below(i as u64 + 1) as usize);
        }
        ad_event(rng, &fields, out);
    });
    decode("keys in any order", &shuffled, &wanted)?;
    let padded = blocks(records, |rng, out| {
        let start = out.len();
        ad_event(rng, &FIELDS, out);
        out.truncate(out.len() - 2);
        out.resize((start + 300).max(out.len()), b' ');
        out.extend_from_slice(b"}\n");
    });
    decode("padded with blanks", &padded, &wanted)?;
    let rich = blocks(records, |rng, out| {
        let text = r#"He said \"yes\": caf\u00e9 and na\u00efve, in Z\u00fcrich\n\tor \/path\/to\/file"#
            .repeat(1 + rng.below(4) as usize);
        out.extend_from_slice(format!("{{\"ad_id\":\"{text}\",\"other\":[1,2.5,{{\"text\":\"{text}\"}}],").as_bytes());
        out.extend_from_slice(
            format!("\"event_type\":\"日本語のテキスト\",\"event_time\":{}}}\n", rng.below(1 << 40)).as_bytes(),
        );
    });
    decode("escapes and nested values", &rich, &wanted)?;
    let wide = blocks(records, |rng, out| {
        let n = rng.next_u64() >> 1;
        let line = format!("{{\"n\":{n},\"x\":{:?},\"y\":{}.{:02}}}\n", n as f64 / 1e17, n % 100_000, n % 100);
        out.extend_from_slice(line.as_bytes());
    });
    decode("wide numbers", &wide, &[("n", DataType::Int64), ("x", DataType::Float64), ("y", DataType::Float64)])?;
    encode("4 columns", &ads, &all[2..6])
}

const FIELDS: [&str; 7] = ["user_id", "page_id", "ad_id", "ad_type", "event_type", "event_time", "ip_address"];

fn uuid(rng: &mut Rng) -> String {
    let (a, b) = (rng.next_u64(), rng.next_u64());
    format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", a >> 32, a >> 16 & 0xffff, a & 0xffff, b >> 48, b & 0xffff_ffff_ffff)
}

fn ad_event(rng: &mut Rng, fields: &[&str], out: &mut Vec<u8>) {
    const AD_TYPES: [&str; 5] = ["banner", "modal", "sponsored-search", "mail", "mobile"];
    const EVENT_TYPES: [&str; 3] = ["view", "click", "purchase"];
    for (i, field) in fields.iter().enumerate() {
        let value = match *field {
            "ad_type" => format!("\"{}\"", AD_TYPES[rng.below(5) as usize]),
            "event_type" => format!("\"{}\"", EVENT_TYPES[rng.below(3) as usize]),
            "event_time" => format!("{}", 1_700_000_000_000 + rng.below(1_000_000_000)),
            "ip_address" => {
                let mut part = || rng.below(256);
                format!("\"{}.{}.{}.{}\"", part(), part(), part(), part())
            }
            _ => format!("\"{}\"", uuid(rng)),
        };
        let open = if i == 0 { '{' } else { ',' };
        out.extend_from_slice(format!("{open}\"{field}\":{value}").as_bytes());
    }
    out.extend_from_slice(b"}\n");
}

fn blocks(records: usize, mut record: impl FnMut(&mut Rng, &mut Vec<u8>)) -> Vec<BinaryArray> {
    let mut rng = Rng::new(42);
    let block = |start: usize| {
        let (mut bytes, mut lengths) = (Vec::new(), Vec::new());
        for _ in start..records.min(start + BLOCK_ROWS) {
            let before = bytes.len();
            record(&mut rng, &mut bytes);
            lengths.push(bytes.len() - before);
        }
        BinaryArray::new(OffsetBuffer::from_lengths(lengths), Buffer::from_vec(bytes), None)
    };
    (0..records).step_by(BLOCK_ROWS).map(block).collect()
}

fn schema(columns: &[(&str, DataType)]) -> Arc<Schema> {
    let fields: Vec<Field> = columns.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect();
    Arc::new(Schema::new(fields))
}

fn decode(name: &str, blocks: &[BinaryArray], columns: &[(&str, DataType)]) -> Result<(), Box<dyn Error>> {
    let mut decoder = JsonDecoder::new(schema(columns), &JsonOptions::default())?;
    measure(&format!("decode, {name}"), blocks, |block| {
        let decoded = decoder.decode(block)?;
        if !decoded.malformed.is_empty() {
            return Err(format!("malformed: {:?}", decoded.malformed[0]).into());
        }
        Ok(black_box(decoded.batch).num_rows())
    })
}

fn encode(name: &str, blocks: &[BinaryArray], columns: &[(&str, DataType)]) -> Result<(), Box<dyn Error>> {
    let schema = schema(columns);
    let mut decoder = JsonDecoder::new(schema.clone(), &JsonOptions::default())?;
    let mut batches = Vec::<RecordBatch>::new();
    for block in blocks {
        batches.push(decoder.decode(block)?.batch);
    }
    let mut encoder = JsonEncoder::new(&schema)?;
    measure(&format!("encode, {name}"), &batches, |batch| Ok(black_box(encoder.encode(batch)?).len()))
}

fn measure<T>(
    name: &str,
    blocks: &[T],
    mut run: impl FnMut(&T) -> Result<usize, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(2).is_some_and(|part| !name.contains(&part)) {
        return Ok(());
    }
    // The system counts processor time in ticks of some milliseconds: only the whole of all rounds means
    // something.
    let start_ns = clock_ns();
    let mut rows = 0;
    for _ in 0..ROUNDS {
        for block in blocks {
            rows += run(block)?;
        }
    }
    let ns = clock_ns().saturating_sub(start_ns) as f64 / rows.max(1) as f64;
    println!("{name:32} {rows:>9} records {ns:7.1} ns/record {:6.1} M/s", 1_000.0 / ns);
    Ok(())
}

/// Processor time of this thread, so that other programs do not count; where the system does not tell, the
/// time.
#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn clock_ns() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let running_ns = statistics.and_then(|text| text.split_whitespace().next()?.parse().ok());
    running_ns.unwrap_or_else(|| START.elapsed().as_nanos() as u64)
}
