use arrow::array::Array;

use super::events::{AdEvents, Damage};
use super::*;
use crate::format::Decode;
use crate::generator::load::Timeline;

/// Keeps the records that it receives.
struct Keep(Arc<std::sync::Mutex<Vec<String>>>);

impl Decode for Keep {
    fn decode(&mut self, records: &arrow::array::BinaryArray) -> Result<crate::format::Decoded> {
        let texts = records.iter().flatten().map(|r| String::from_utf8_lossy(r).into_owned());
        self.0.lock().unwrap().extend(texts);
        let batch = batch(&Arc::new(Schema::empty()), Vec::new(), records.len())?;
        Ok(crate::format::Decoded { batch, malformed: Vec::new() })
    }
}

fn records(seed: u64, out_of_orderness_ms: u64) -> Vec<String> {
    let kept = Arc::default();
    let catalog = Catalog::new(seed);
    let mut events = AdEvents {
        texts: catalog.texts(),
        catalog,
        seed,
        out_of_orderness_ms,
        damage: Damage { every: None },
        table: "ads".into(),
        schema: Arc::new(Schema::empty()),
        columns: Vec::new(),
        decoder: Some(Box::new(Keep(Arc::clone(&kept)))),
    };
    let timeline = Timeline::Scheduled { start_ms: 1_700_000_000_000, rate: 1000 };
    let request = Request { partition: 1, partitions: 4, first: 0, count: 2000, timeline };
    events.generate(&request).unwrap();
    std::mem::take(&mut *kept.lock().unwrap())
}

fn time(record: &str) -> i64 {
    serde_json::from_str::<serde_json::Value>(record).unwrap()["event_time"].as_i64().unwrap()
}

#[test]
fn records_look_like_those_of_the_benchmark() {
    let records = records(7, 0);
    let mean = records.iter().map(String::len).sum::<usize>() / records.len();
    assert!((235..250).contains(&mean), "{mean} bytes");
    for (index, record) in records.iter().enumerate() {
        let value: serde_json::Value = serde_json::from_str(record).unwrap();
        assert_eq!(value.as_object().unwrap().len(), 7);
        assert_eq!(value["ad_id"].as_str().unwrap().len(), 36);
        assert_eq!(time(record), 1_700_000_000_000 + 4 * index as i64 + 1);
    }
    let views = records.iter().filter(|r| r.contains("\"event_type\":\"view\"")).count();
    assert!((550..780).contains(&views), "{views} of 2000 are views");
}

#[test]
fn the_seed_decides() {
    assert_eq!(records(7, 0), records(7, 0));
    assert_ne!(records(7, 0), records(8, 0));
}

#[test]
fn events_jitter_back_by_a_bound() {
    let late: Vec<i64> = records(7, 500).iter().zip(records(7, 0)).map(|(a, b)| time(&b) - time(a)).collect();
    assert!(late.iter().all(|ms| (0..=500).contains(ms)), "{late:?}");
    assert!(late.iter().any(|ms| *ms > 450) && late.iter().any(|ms| *ms < 50));
}
