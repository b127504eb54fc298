//! Advertising events of the Yahoo Streaming Benchmark: 100 campaigns of 10 ads, JSON of about 241 bytes. The
//! main job keeps the views, joins them with the ads' campaigns and counts per campaign and window of 10 s.

use std::io::Write as _;
use std::sync::Arc;

use anabranch_model::{Result, Rng};
use arrow::array::{Int64Array, RecordBatch, StringViewBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::{BLOCK_ROWS, Lines};

/// Length of a window of the main job.
pub(crate) const WINDOW_MS: i64 = 10_000;
/// The event type that the main job keeps.
pub(crate) const VIEW: &str = "view";

const CAMPAIGNS: u32 = 100;
const ADS_PER_CAMPAIGN: u32 = 10;
const EVENT_TYPES: &[&str] = &[VIEW, "click", "purchase"];
const AD_TYPES: &[&str] = &["banner", "modal", "sponsored-search", "mail", "mobile"];
/// A multiple of [`WINDOW_MS`] would hide mistakes in the alignment of windows.
const START_MS: i64 = 1_760_000_003_217;
const EVENTS_PER_MS: u64 = 10;
/// Events are out of order by less than this.
const DISORDER_MS: u64 = 50;

/// An ad and its campaign.
#[derive(Clone, Debug)]
pub(crate) struct Ad {
    /// Identifier, a UUID.
    pub(crate) id: String,
    /// Index of the campaign.
    pub(crate) campaign: u32,
}

/// The events, as text and as columns, and the static table that they are joined with.
#[derive(Debug)]
pub(crate) struct AdEvents {
    /// Names of the campaigns, UUIDs.
    pub(crate) campaigns: Vec<String>,
    /// The static table.
    pub(crate) ads: Vec<Ad>,
    /// JSON, an event per line.
    pub(crate) json: Lines,
    /// The same events: `ad_id`, `event_type` (`Utf8View`), `event_time` (`Int64`, milliseconds).
    pub(crate) typed: Vec<RecordBatch>,
}

struct Event<'a> {
    user: &'a str,
    page: &'a str,
    ad: &'a str,
    ad_type: &'a str,
    event_type: &'a str,
    time_ms: i64,
}

impl AdEvents {
    /// Generates `count` events.
    pub(crate) fn generate(count: u64, seed: u64) -> Result<Self> {
        let mut rng = Rng::new(seed);
        let campaigns: Vec<String> = (0..CAMPAIGNS).map(|_| uuid(&mut rng)).collect();
        let ads: Vec<Ad> = (0..CAMPAIGNS * ADS_PER_CAMPAIGN)
            .map(|i| Ad { id: uuid(&mut rng), campaign: i / ADS_PER_CAMPAIGN })
            .collect();
        let users: Vec<String> = (0..100).map(|_| uuid(&mut rng)).collect();
        let pages: Vec<String> = (0..100).map(|_| uuid(&mut rng)).collect();
        let mut json = Vec::with_capacity(usize::try_from(count).unwrap_or(0) * 245);
        let mut typed = Columns::default();
        for i in 0..count {
            let event = Event {
                user: pick(&users, &mut rng),
                page: pick(&pages, &mut rng),
                ad: &ads[rng.below(ads.len() as u64) as usize].id,
                ad_type: pick(AD_TYPES, &mut rng),
                event_type: pick(EVENT_TYPES, &mut rng),
                time_ms: START_MS + (i / EVENTS_PER_MS + DISORDER_MS - rng.below(DISORDER_MS)).cast_signed(),
            };
            event.write_json(&mut json);
            typed.push(&event)?;
        }
        typed.cut()?;
        Ok(AdEvents { campaigns, ads, json: Lines::new(json, count), typed: typed.batches })
    }

    /// Number of events.
    pub(crate) fn count(&self) -> u64 {
        self.json.count()
    }
}

impl Event<'_> {
    fn write_json(&self, out: &mut Vec<u8>) {
        let Event { user, page, ad, ad_type, event_type, time_ms } = self;
        out.extend_from_slice(b"{\"user_id\":\"");
        out.extend_from_slice(user.as_bytes());
        out.extend_from_slice(b"\",\"page_id\":\"");
        out.extend_from_slice(page.as_bytes());
        out.extend_from_slice(b"\",\"ad_id\":\"");
        out.extend_from_slice(ad.as_bytes());
        // Writing to a vector cannot fail.
        let _ = write!(out, "\",\"ad_type\":\"{ad_type}\",\"event_type\":\"{event_type}\",\"event_time\":{time_ms}");
        out.extend_from_slice(b",\"ip_address\":\"1.2.3.4\"}\n");
    }
}

#[derive(Default)]
struct Columns {
    ad: StringViewBuilder,
    event_type: StringViewBuilder,
    time_ms: Vec<i64>,
    batches: Vec<RecordBatch>,
}

impl Columns {
    fn push(&mut self, event: &Event<'_>) -> Result<()> {
        self.ad.append_value(event.ad);
        self.event_type.append_value(event.event_type);
        self.time_ms.push(event.time_ms);
        if self.time_ms.len() == BLOCK_ROWS { self.cut() } else { Ok(()) }
    }

    fn cut(&mut self) -> Result<()> {
        if !self.time_ms.is_empty() {
            let time_ms = Int64Array::from(std::mem::take(&mut self.time_ms));
            self.batches.push(RecordBatch::try_new(
                typed_schema(),
                vec![Arc::new(self.ad.finish()), Arc::new(self.event_type.finish()), Arc::new(time_ms)],
            )?);
        }
        Ok(())
    }
}

/// Schema of [`AdEvents::typed`].
fn typed_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("ad_id", DataType::Utf8View, false),
        Field::new("event_type", DataType::Utf8View, false),
        Field::new("event_time", DataType::Int64, false),
    ]))
}

fn pick<'a, T: AsRef<str>>(from: &'a [T], rng: &mut Rng) -> &'a str {
    from[rng.below(from.len() as u64) as usize].as_ref()
}

fn uuid(rng: &mut Rng) -> String {
    let (high, low) = (rng.next_u64(), rng.next_u64());
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_events_and_another_seed_others() {
        let make = |seed| AdEvents::generate(1000, seed).unwrap();
        assert_eq!(make(1).json.bytes(), make(1).json.bytes());
        assert_ne!(make(1).json.bytes(), make(2).json.bytes());
    }

    #[test]
    fn events_have_the_size_of_the_benchmark_and_text_agrees_with_columns() {
        let events = AdEvents::generate(BLOCK_ROWS as u64 + 100, 7).unwrap();
        let mean = events.json.bytes().len() as u64 / events.count();
        assert!((235..=247).contains(&mean), "{mean} bytes");
        let mut lines = events.json.bytes().split_inclusive(|b| *b == b'\n');
        for batch in &events.typed {
            for row in 0..batch.num_rows() {
                let event: serde_json::Value = serde_json::from_slice(lines.next().unwrap()).unwrap();
                assert_eq!(event["ad_id"], batch.column(0).as_string_view().value(row));
                assert_eq!(event["event_type"], batch.column(1).as_string_view().value(row));
                assert_eq!(event["event_time"], batch.column(2).as_primitive::<Int64Type>().value(row));
            }
        }
        assert!(lines.next().is_none());
    }
}
