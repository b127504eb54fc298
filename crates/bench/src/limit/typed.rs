//! The main job over columns: its work without parsing.

use anabranch_model::{Error, Result};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;

use super::ad_table::AdTable;
use super::window_counts::WindowCounts;
use crate::contestant::RunResult;
use crate::workload::{AdEvents, VIEW};

/// Filters, joins and counts a batch at a time.
pub(crate) fn main_job(events: &AdEvents) -> Result<RunResult> {
    let table = AdTable::new(&events.ads);
    let mut counts = WindowCounts::new(events.campaigns.len());
    let wanted = inline_view(VIEW)?;
    let mut rows = 0;
    for batch in &events.typed {
        let ads = batch.column(0).as_string_view();
        let types = batch.column(1).as_string_view();
        let times = batch.column(2).as_primitive::<Int64Type>().values();
        for (row, (view, time_ms)) in types.views().iter().zip(times).enumerate() {
            if *view == wanted
                && let Some(campaign) = table.campaign(ads.value(row).as_bytes())
            {
                counts.add(campaign, WindowCounts::window_of(*time_ms));
            }
        }
        rows += batch.num_rows() as u64;
    }
    Ok(RunResult { events: rows, result_hash: Some(counts.answer(&events.campaigns).hash()) })
}

/// A short string as Arrow's view of it: equal strings have equal views, so comparing integers is enough.
fn inline_view(text: &str) -> Result<u128> {
    let array = arrow::array::StringViewArray::from_iter_values([text]);
    match array.views().as_ref() {
        [view] if array.data_buffers().is_empty() => Ok(*view),
        _ => Err(Error::internal(format!("'{text}' is too long to be held in its view"))),
    }
}
