//! The job as a line of text, for logs, pipes and users who prefer lines.

use std::time::Duration;

use super::model::JobView;
use super::text::{count, grouped, micros, millis, percent};

/// One line about the last second.
pub(crate) fn line(elapsed: Duration, view: &JobView) -> String {
    let mut parts = vec![
        format!("{:4} s", elapsed.as_secs()),
        format!("{} events/s", count(view.events_per_s)),
        format!("{} events", grouped(view.events)),
        format!("{} results", grouped(view.results)),
    ];
    if let Some(lag_ms) = view.lag_ms {
        parts.push(format!("lag {}", millis(lag_ms)));
    }
    for (what, latency) in [("rows", &view.row_latency), ("results", &view.result_latency)] {
        if latency.rows > 0 {
            parts.push(format!("{what} p50 {} p99 {}", micros(latency.p50_us), micros(latency.p99_us)));
        }
    }
    // The busiest stage is where the job's limit is, or will be.
    let busiest = view.stages.iter().filter_map(|s| Some((s, s.shares?)));
    if let Some((stage, shares)) = busiest.max_by(|a, b| a.1.busy.total_cmp(&b.1.busy)) {
        parts.push(format!("busiest {} {}", stage.name, percent(shares.busy).trim()));
    }
    let lost = [(view.late, "late"), (view.without_event_time, "without event time"), (view.malformed, "malformed")];
    let lost = lost.into_iter().filter(|(rows, _)| *rows > 0);
    parts.extend(lost.map(|(rows, what)| format!("{} {what}", grouped(rows))));
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use anabranch_model::{LatencySummary, StageId};

    use super::super::model::{Shares, StageView};
    use super::*;

    fn stage(id: u32, name: &str, busy: f64) -> StageView {
        StageView {
            id: StageId(id),
            name: name.into(),
            tasks: 1,
            is_sink: false,
            rows_out: 0,
            rows_in_per_s: 0.0,
            rows_out_per_s: 0.0,
            shares: Some(Shares { busy, backpressured: 0.0, idle: 1.0 - busy }),
            queue_bytes: 0,
            oldest_queued_ns: 0,
        }
    }

    #[test]
    fn a_quiet_start_is_a_short_line() {
        assert_eq!(line(Duration::from_secs(1), &JobView::default()), "   1 s  0 events/s  0 events  0 results");
    }

    #[test]
    fn everything_that_happened_is_in_the_line() {
        let view = JobView {
            events: 1_200_000,
            events_per_s: 99_870.0,
            results: 100,
            lag_ms: Some(1042),
            row_latency: LatencySummary { rows: 5, p50_us: 1200, p99_us: 8400, p999_us: 9000, max_us: 9000, sum_us: 0 },
            late: 3,
            malformed: 4,
            stages: vec![stage(0, "source events", 0.42), stage(1, "sink results", 0.04)],
            ..JobView::default()
        };
        assert_eq!(
            line(Duration::from_secs(12), &view),
            "  12 s  99.9 k events/s  1,200,000 events  100 results  lag 1.04 s  rows p50 1.20 ms p99 8.40 ms  \
             busiest source events 42 %  3 late  4 malformed"
        );
    }
}
