//! The main job over JSON text, by hand.

use anabranch_model::Result;

use super::ad_table::AdTable;
use super::json::Event;
use super::window_counts::WindowCounts;
use crate::contestant::RunResult;
use crate::workload::{AdEvents, VIEW};

/// Parses, filters, joins and counts event by event.
pub(crate) fn main_job<'a>(
    events: &'a AdEvents,
    mut parse: impl FnMut(&'a [u8]) -> Result<Event<'a>>,
) -> Result<RunResult> {
    let table = AdTable::new(&events.ads);
    let mut counts = WindowCounts::new(events.campaigns.len());
    let text = events.json.bytes();
    let (mut rows, mut start) = (0, 0);
    for end in memchr::memchr_iter(b'\n', text) {
        let event = parse(&text[start..end])?;
        if event.event_type == VIEW
            && let Some(campaign) = table.campaign(event.ad_id.as_bytes())
        {
            counts.add(campaign, WindowCounts::window_of(event.event_time));
        }
        start = end + 1;
        rows += 1;
    }
    Ok(RunResult { events: rows, result_hash: Some(counts.answer(&events.campaigns).hash()) })
}
