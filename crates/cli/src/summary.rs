//! The summary of a run, in a few lines.

use std::time::Duration;

use anabranch_model::LookupReading;
use anabranch_server::Coordination;

use crate::view::model::JobView;
use crate::view::text::{bytes, count, grouped, micros};

/// The figures of a finished run.
#[derive(Debug)]
pub(crate) struct Summary<'a> {
    /// The job at its end.
    pub(crate) view: &'a JobView,
    pub(crate) elapsed: Duration,
    /// Processor time used in the meantime.
    pub(crate) cpu: Option<Duration>,
    /// Peak resident memory of the process.
    pub(crate) peak_bytes: Option<u64>,
}

/// In a shorter run, a rate describes the start rather than the run.
const RATE_AFTER: Duration = Duration::from_secs(1);
/// Fewer events cost little beside the start of the process.
const COST_EVENTS_MIN: u64 = 100_000;
/// A percentile of fewer rows is one of them.
const PERCENTILE_ROWS_MIN: u64 = 1_000;

/// The lines of a summary. Meaningless figures are omitted.
pub(crate) fn lines(summary: &Summary<'_>) -> Vec<String> {
    let Summary { view, elapsed, cpu, peak_bytes } = summary;
    let seconds = elapsed.as_secs_f64();
    let (events, results) = (grouped(view.events), grouped(view.results));
    let rate = match *elapsed >= RATE_AFTER {
        true => format!(", {} events/s", count(view.events as f64 / seconds)),
        false => String::new(),
    };
    let mut lines = vec![format!("{events} events in {seconds:.1} s{rate}, {results} results")];
    for (what, latency) in [("rows processed", &view.row_latency), ("results written", &view.result_latency)] {
        let [p50, p99, p999, max] = [latency.p50_us, latency.p99_us, latency.p999_us, latency.max_us].map(micros);
        match latency.rows {
            0 => {}
            1..PERCENTILE_ROWS_MIN => lines.push(format!("{what} after at most {max}")),
            _ => lines.push(format!("{what} after p50 {p50}, p99 {p99}, p99.9 {p999}")),
        }
    }
    let mut cost = Vec::new();
    if let Some(cpu) = cpu {
        let cpu = cpu.as_secs_f64();
        cost.push(match view.events {
            COST_EVENTS_MIN.. => format!("{:.2} CPU-seconds per million events", cpu * 1e6 / view.events as f64),
            _ => format!("{cpu:.2} CPU-seconds"),
        });
    }
    cost.extend(peak_bytes.map(|peak| format!("peak memory {}", bytes(peak))));
    if !cost.is_empty() {
        lines.push(cost.join(", "));
    }
    let mut left_out = format!("{} late, {} malformed", grouped(view.late), grouped(view.malformed));
    if view.without_event_time > 0 {
        left_out.push_str(&format!(", {} without event time", grouped(view.without_event_time)));
    }
    if view.with_null > 0 {
        left_out.push_str(&format!(", {} with NULL for a NOT NULL column", grouped(view.with_null)));
    }
    lines.push(left_out);
    if view.lookups.keys > 0 {
        let LookupReading { keys, hits, calls, failures, call_ns } = view.lookups;
        let each = micros(call_ns.checked_div(calls).unwrap_or(0) / 1000);
        lines.push(format!(
            "lookups of {} keys, {} from a cache, {} calls of {each}, {} failed",
            grouped(keys),
            grouped(hits),
            grouped(calls),
            grouped(failures)
        ));
    }
    if let Some(why) = view.stall.as_ref().filter(|_| view.results == 0) {
        lines.push(format!("no results: {why}"));
    }
    lines
}

/// The cost of the job's coordination, in a line. `None` if the job was too short to measure it.
pub(crate) fn coordination(coordination: &Coordination, elapsed: Duration) -> Option<String> {
    let share = coordination.overhead.filter(|_| elapsed >= RATE_AFTER)? * 100.0;
    Some(format!("coordination took {share:.2} % of the time, in {} groups of epochs", grouped(coordination.groups)))
}

#[cfg(test)]
mod tests {
    use anabranch_model::LatencySummary;

    use super::*;

    #[test]
    fn a_run_is_summed_up() {
        let latency =
            LatencySummary { rows: 9000, p50_us: 1200, p99_us: 8400, p999_us: 12_000, max_us: 13_000, sum_us: 0 };
        let view = JobView {
            events: 3_000_000,
            results: 300,
            row_latency: latency,
            late: 2,
            malformed: 1,
            ..JobView::default()
        };
        let (elapsed, cpu) = (Duration::from_secs(30), Some(Duration::from_millis(1260)));
        let summary = Summary { view: &view, elapsed, cpu, peak_bytes: Some(61 << 20) };
        assert_eq!(
            lines(&summary),
            [
                "3,000,000 events in 30.0 s, 100 k events/s, 300 results",
                "rows processed after p50 1.20 ms, p99 8.40 ms, p99.9 12.0 ms",
                "0.42 CPU-seconds per million events, peak memory 61.0 MB",
                "2 late, 1 malformed",
            ]
        );
    }

    #[test]
    fn calls_to_tables_outside_are_summed_up() {
        let lookups = LookupReading { keys: 4000, hits: 3900, calls: 20, failures: 1, call_ns: 20_000_000_000 / 5 };
        let view = JobView { lookups, ..JobView::default() };
        let summary = Summary { view: &view, elapsed: Duration::ZERO, cpu: None, peak_bytes: None };
        let last = lines(&summary).pop().expect("lines");
        assert_eq!(last, "lookups of 4,000 keys, 3,900 from a cache, 20 calls of 200 ms, 1 failed");
    }

    #[test]
    fn a_run_without_results_is_explained() {
        let view = JobView { events: 9, stall: Some("event time stands".into()), ..JobView::default() };
        let last = |view: &JobView| {
            lines(&Summary { view, elapsed: Duration::ZERO, cpu: None, peak_bytes: None }).pop().expect("lines")
        };
        assert_eq!(last(&view), "no results: event time stands");
        assert!(!last(&JobView { results: 1, ..view }).contains("no results"));
    }

    #[test]
    fn coordination_is_told_in_a_line() {
        let line = |groups, group_epochs, overhead, seconds| {
            coordination(&Coordination { groups, group_epochs, overhead }, Duration::from_secs(seconds))
        };
        assert_eq!(
            line(1200, 1, Some(0.00123), 5).as_deref(),
            Some("coordination took 0.12 % of the time, in 1,200 groups of epochs")
        );
        assert_eq!(line(1, 7, None, 5), None);
        assert_eq!(line(3, 7, Some(0.2), 0), None);
    }

    #[test]
    fn a_short_run_has_no_figures_that_mean_nothing() {
        let latency = LatencySummary { rows: 10, p50_us: 1200, p99_us: 1300, p999_us: 1300, max_us: 1400, sum_us: 0 };
        let view = JobView { events: 10, results: 10, row_latency: latency, ..JobView::default() };
        let (elapsed, cpu) = (Duration::from_millis(30), Some(Duration::from_millis(34)));
        let summary = Summary { view: &view, elapsed, cpu, peak_bytes: Some(61 << 20) };
        assert_eq!(
            lines(&summary),
            [
                "10 events in 0.0 s, 10 results",
                "rows processed after at most 1.40 ms",
                "0.03 CPU-seconds, peak memory 61.0 MB",
                "0 late, 0 malformed",
            ]
        );
    }

    #[test]
    fn nothing_divides_by_zero() {
        let view = JobView::default();
        let summary = Summary { view: &view, elapsed: Duration::ZERO, cpu: None, peak_bytes: None };
        assert_eq!(lines(&summary), ["0 events in 0.0 s, 0 results", "0 late, 0 malformed"]);
    }
}
