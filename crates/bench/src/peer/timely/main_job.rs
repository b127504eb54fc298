//! The main job: parse and filter, join, exchange by campaign, count. Parser, join table and counts are those
//! of the limit program, so the difference is timely's cost.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use anabranch_model::Result;
use timely::dataflow::ProbeHandle;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::vec::Map;
use timely::dataflow::operators::{Operator, Probe};

use super::{FirstError, Input, Span, check, feed_lines, run};
use crate::contestant::RunResult;
use crate::limit::ad_table::AdTable;
use crate::limit::json;
use crate::limit::window_counts::WindowCounts;
use crate::workload::{AdEvents, VIEW};

/// Counts views per campaign and window on `workers` workers.
pub(crate) fn main_job(events: &Arc<AdEvents>, workers: usize) -> Result<RunResult> {
    let events = Arc::clone(events);
    run(workers, move |worker| {
        let counts = Rc::new(RefCell::new(WindowCounts::new(events.campaigns.len())));
        let error = FirstError::default();
        let mut input = Input::<Span>::new();
        let probe = ProbeHandle::new();
        worker.dataflow(|scope| {
            let (counted, failed) = (Rc::clone(&counts), Rc::clone(&error));
            let (parsed, joined) = (Arc::clone(&events), Arc::clone(&events));
            let table = AdTable::new(&events.ads);
            let by_campaign = Exchange::new(|row: &(u32, i64)| u64::from(row.0));
            input
                .to_stream(scope)
                .flat_map(move |span| view(&parsed, span, &failed))
                .flat_map(move |(ad, time_ms): (Span, i64)| {
                    let campaign = table.campaign(&joined.json.bytes()[ad.0..ad.1])?;
                    Some((campaign, WindowCounts::window_of(time_ms)))
                })
                .unary::<timely::container::CapacityContainerBuilder<Vec<()>>, _, _, _>(by_campaign, "Count", |_, _| {
                    move |input, _output| {
                        input.for_each(|_time, batch| {
                            let mut counts = counted.borrow_mut();
                            batch.drain(..).for_each(|(campaign, window)| counts.add(campaign, window));
                        });
                    }
                })
                .probe_with(&probe);
        });
        let rows = feed_lines(worker, input, &probe, &events.json);
        check(&error)?;
        let answer = counts.borrow().answer(&events.campaigns);
        Ok((rows, answer))
    })
}

/// Range of the ad's identifier and time of the event, if it is a view.
fn view(events: &AdEvents, span: Span, failed: &FirstError) -> Option<(Span, i64)> {
    let text = events.json.bytes();
    match json::serde_json(&text[span.0..span.1]) {
        Ok(event) if event.event_type == VIEW => {
            let at = event.ad_id.as_ptr().addr() - text.as_ptr().addr();
            Some(((at, at + event.ad_id.len()), event.event_time))
        }
        Ok(_) => None,
        Err(error) => {
            failed.set(Some(failed.take().unwrap_or(error)));
            None
        }
    }
}
