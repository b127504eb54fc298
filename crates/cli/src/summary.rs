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
    /// How long it ran.
    pub(crate) elapsed: Duration,
    /// Processor time used in the meantime.
    pub(crate) cpu: Option<Duration>,
    /// Peak resident memory of the process.
    pub(crate) peak_bytes: Option<u64>,
}

/// The lines of a summary.
pub(crate) fn lines(summary: &Summary<'_>) -> Vec<String> {
    let Summary { view, elapsed, cpu, peak_bytes } = summary;
    let seconds = elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { view.events as f64 / seconds } else { 0.0 };
    let mut lines = vec![format!(
        "{} events in {seconds:.1} s, {} events/s, {} results",
        grouped(view.events),
        count(rate),
        grouped(view.results)
    )];
    for (what, latency) in [("rows processed", &view.row_latency), ("results written", &view.result_latency)] {
        if latency.rows > 0 {
            let [p50, p99, p999] = [latency.p50_us, latency.p99_us, latency.p999_us].map(micros);
            lines.push(format!("{what} after p50 {p50}, p99 {p99}, p99.9 {p999}"));
        }
    }
    let per_million = cpu.filter(|_| view.events > 0).map(|cpu| cpu.as_secs_f64() * 1e6 / view.events as f64);
    let cpu = per_million.map_or_else(|| "-".to_owned(), |cost| format!("{cost:.2}"));
    let memory = peak_bytes.map_or_else(|| "-".to_owned(), bytes);
    lines.push(format!("{cpu} CPU-seconds per million events, peak memory {memory}"));
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

/// The cost of the job's coordination, in a line.
pub(crate) fn coordination(coordination: &Coordination) -> String {
    let Coordination { groups, group_epochs, overhead } = coordination;
    let share = overhead.map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", share * 100.0));
    let epochs = if *group_epochs == 1 { "epoch" } else { "epochs" };
    format!(
        "{} groups granted, {group_epochs} {epochs} each at the end, coordination {share} of the time",
        grouped(*groups)
    )
}

#[cfg(test)]
mod tests {
    use anabranch_model::LatencySummary;

    use super::*;

    #[test]
    fn a_run_is_summed_up() {
        let latency = LatencySummary { rows: 9, p50_us: 1200, p99_us: 8400, p999_us: 12_000, max_us: 13_000 };
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
        let line = |groups, group_epochs, overhead| coordination(&Coordination { groups, group_epochs, overhead });
        assert_eq!(
            line(1200, 1, Some(0.00123)),
            "1,200 groups granted, 1 epoch each at the end, coordination 0.12 % of the time"
        );
        assert_eq!(line(0, 7, None), "0 groups granted, 7 epochs each at the end, coordination - of the time");
    }

    #[test]
    fn nothing_divides_by_zero() {
        let view = JobView::default();
        let summary = Summary { view: &view, elapsed: Duration::ZERO, cpu: Some(Duration::ZERO), peak_bytes: None };
        assert_eq!(lines(&summary)[0], "0 events in 0.0 s, 0 events/s, 0 results");
        assert_eq!(lines(&summary)[1], "- CPU-seconds per million events, peak memory -");
    }
}
