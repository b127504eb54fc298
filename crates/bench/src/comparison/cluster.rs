//! A cluster as processes: many jobs, and what is lost when a process is.

use std::time::{Duration, Instant};

use anabranch_model::Result;

use super::Scale;
use crate::processes::{Cluster, running, submit, until};
use crate::report::{Bounded, Section, Table};

/// Time from the first submit until all jobs run.
const START_BOUND_S: f64 = 10.0;
/// Share of a core that all processes together use while the jobs have next to nothing to do, in percent.
const IDLE_BOUND: f64 = 10.0;
/// Threads that are listed.
const THREADS: usize = 4;
/// Time in which idle processes are observed.
const IDLE: Duration = Duration::from_secs(10);

/// A small job of two tasks that read and two that count.
const SMALL: &str = "
CREATE TABLE events (ad_id STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'ad_events', 'rows-per-second' = '1');
CREATE TABLE counts (ad_id STRING, events BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT ad_id, COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
  GROUP BY ad_id, window_start, window_end;";

/// Many small jobs at one coordinator and two workers.
pub(crate) fn jobs(scale: Scale) -> Result<Section> {
    let jobs = usize::try_from(scale.rounds / 500).unwrap_or(1).clamp(2, 100);
    let idle = IDLE.min(scale.latency_duration * 2);
    let folder = crate::folder()?;
    let cluster = Cluster::start(folder.path().join("store"), 1, 2, 4)?;
    let client = cluster.client(Some(0));
    let begun = Instant::now();
    for job in 0..jobs {
        submit(&client, &format!("job-{job}"), SMALL, &[("parallelism", "2")])?;
    }
    let submitted_s = begun.elapsed().as_secs_f64();
    until("the last job", || Ok((running(&client)? == jobs).then_some(())))?;
    let started_s = begun.elapsed().as_secs_f64();
    // What jobs do at their start is over then.
    std::thread::sleep(idle / 5);
    let (before, begun) = (cluster.cpu_ns(), Instant::now());
    std::thread::sleep(idle);
    let elapsed_ns = begun.elapsed().as_nanos() as f64;
    let share = |ns: u64| 100.0 * ns as f64 / elapsed_ns;
    let used = cluster.cpu_ns().into_iter().map(|(thread, ns)| {
        let before = before.get(&thread).copied().unwrap_or(0);
        (thread, ns.saturating_sub(before))
    });
    let mut used: Vec<(String, u64)> = used.collect();
    used.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let all_ns = used.iter().map(|(_, ns)| ns).sum();
    let mut values = vec![
        Bounded::new("from the first submit until all run", started_s, START_BOUND_S, "s"),
        Bounded::plain("of this, until all are submitted", format!("{submitted_s:.2} s")),
        Bounded::new("CPU of all processes, idle", share(all_ns), IDLE_BOUND, "% of a core"),
    ];
    let threads = used.into_iter().take(THREADS);
    values.extend(threads.map(|(thread, ns)| Bounded::plain(thread, format!("{:.2} % of a core", share(ns)))));
    Ok(Section {
        title: "Many jobs of a cluster".into(),
        note: format!(
            "{jobs} jobs of 4 tasks, each with a source of one row per second and a checkpoint every 10 s, at one coordinator and two workers. \
             Idle CPU is that of {:.0} s after all of them run; threads of one name count together.",
            idle.as_secs_f64()
        ),
        table: Table::Bounds(values),
    })
}
