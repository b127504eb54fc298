//! What is lost when a process of a cluster is: results that come late.

use std::time::{Duration, Instant};

use anabranch_model::Result;
use anabranch_server::http::Client;

use super::Scale;
use super::changes::median_and_worst;
use crate::arrivals::Arrivals;
use crate::comparison::kafka::{broker, sink};
use crate::processes::{Cluster, running, submit, until};
use crate::report::{Bounded, Section, Table};
use crate::trace::millis;

const TITLE: &str = "Killed processes of a cluster";
/// Time until a result after a worker was killed, at most.
const KILLED_BOUND_MS: f64 = 1000.0;
/// The same after a worker stands still: 2 s without a heartbeat, and one more.
const FROZEN_BOUND_MS: f64 = 3000.0;
/// Windows with late results for each fault.
const LATE_BOUND: f64 = 1.0;
/// How much longer no result may come when the coordinator is killed than in the same time before.
const GAP_BOUND_MS: f64 = 100.0;
/// Time until a checkpoint after the coordinator was killed, at most.
const CHECKPOINT_BOUND_MS: f64 = 3000.0;
/// Length of a window.
const WINDOW_MS: i64 = 5000;
/// Time that a window may be late without being counted.
const LATE: Duration = Duration::from_millis(500);
/// Time that is observed before and after a coordinator is killed.
const OBSERVED: Duration = Duration::from_secs(4);
/// Topics: events as they come, and windows. Short ones need rows of all tasks all the time.
const TOPICS: [&str; 3] = ["bench-plain", "bench-short", "bench-windows"];
const PLAIN: usize = 0;
const SHORT: usize = 1;
const WINDOWS: usize = 2;

fn sql(servers: &str) -> String {
    let kafka = |topic: &str| sink(servers, topic);
    format!(
        "CREATE TABLE events (ad_id STRING, event_type STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3),
           WATERMARK FOR ts AS ts) WITH ('connector' = 'ad_events', 'rows-per-second' = '3000', 'seed' = '1');
         CREATE TABLE ads (ad_id STRING, campaign_id STRING) WITH ('connector' = 'ad_campaigns');
         CREATE TABLE plain (newest BIGINT) WITH ({});
         CREATE TABLE short (newest BIGINT, views BIGINT) WITH ({});
         CREATE TABLE windows (campaign_id STRING, newest BIGINT, views BIGINT) WITH ({});
         INSERT INTO plain SELECT event_time FROM events WHERE event_type = 'view';
         INSERT INTO short SELECT MAX(event_time), COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '0.1' SECOND))
           WHERE event_type = 'view' GROUP BY window_start, window_end;
         INSERT INTO windows SELECT a.campaign_id, MAX(e.event_time), COUNT(*)
           FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{}' SECOND)) e JOIN ads a ON e.ad_id = a.ad_id
           WHERE e.event_type = 'view' GROUP BY a.campaign_id, window_start, window_end;",
        kafka(TOPICS[PLAIN]),
        kafka(TOPICS[SHORT]),
        kafka(TOPICS[WINDOWS]),
        WINDOW_MS / 1000
    )
}

/// The job, and what is observed of it.
struct Observed {
    cluster: Cluster,
    arrivals: Arrivals,
    values: Vec<Bounded>,
}

/// Workers and the coordinator that leads are killed, and a worker stands still.
pub(crate) fn kills(scale: Scale) -> Result<Section> {
    let rounds = scale.repetitions.min(3);
    let note = format!(
        "The main job without JSON with windows of {} s, views per 0.1 s, and the views as they come, into Kafka at least once, with a checkpoint every second: \
         3000 events per second, two coordinators, and three workers with one slot, of which two have tasks. {rounds} rounds of each fault: \
         median and worst. Results are seen by a consumer.",
        WINDOW_MS / 1000
    );
    let broker = match broker() {
        Ok(broker) => broker,
        Err(reason) => {
            let table = Table::Bounds(vec![Bounded::plain("not measured", reason)]);
            return Ok(Section { title: TITLE.into(), note, table });
        }
    };
    let folder = crate::folder()?;
    let cluster = Cluster::start(folder.path().join("store"), 2, 3, 1)?;
    let client = cluster.client(None);
    submit(&client, "job", &sql(broker.servers()), &[("parallelism", "2"), ("checkpoint-interval", "1 s")])?;
    until("the job", || Ok((running(&client)? == 1).then_some(())))?;
    let arrivals = Arrivals::consume(broker.servers(), &TOPICS, "newest")?;
    // A consumer that is slow to begin counts for nothing.
    for topic in [WINDOWS, SHORT, PLAIN] {
        until("the first results", || Ok(arrivals.largest(topic)))?;
    }
    let mut observed = Observed { cluster, arrivals, values: Vec::new() };
    observed.workers("worker killed", rounds, false, KILLED_BOUND_MS)?;
    observed.workers("worker stands still", rounds, true, FROZEN_BOUND_MS)?;
    observed.coordinators(rounds)?;
    Ok(Section { title: TITLE.into(), note, table: Table::Bounds(observed.values) })
}

impl Observed {
    /// A worker is lost in each round, and another one takes its place.
    fn workers(&mut self, fault: &str, rounds: u32, freezes: bool, bound_ms: f64) -> Result<()> {
        let (mut until_ms, mut late) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            self.checkpoint_after(&self.cluster.client(None), None)?;
            let lost = self.cluster.take_busy_worker()?;
            let window = self.arrivals.largest(WINDOWS).unwrap_or(0);
            let begun = Instant::now();
            // A worker that is not frozen is killed here.
            let frozen = freezes.then_some(lost).map(|lost| lost.freeze().map(|()| lost)).transpose()?;
            until("two windows", || Ok(self.arrivals.first_above(WINDOWS, window + WINDOW_MS * 3 / 2)))?;
            // What was on its way still comes: the results after the longest gap are those of the next
            // incarnation.
            let (_, result) = self.arrivals.longest_gap(SHORT, begun, Instant::now());
            until_ms.push(millis(result - begun));
            drop(frozen);
            self.cluster.start_worker(1)?;
            late.push(self.arrivals.late_windows(WINDOWS, (begun, Instant::now()), WINDOW_MS, LATE) as f64);
        }
        self.both(&format!("{fault}: time until a new result"), until_ms, bound_ms, "ms");
        self.both(&format!("{fault}: windows with late results"), late, LATE_BOUND, "");
        Ok(())
    }

    /// The coordinator that leads is killed in each round, and starts again to stand by.
    fn coordinators(&mut self, rounds: u32) -> Result<()> {
        let (mut gaps, mut checkpoints, mut restarts) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds as usize {
            let (leads, stands_by) = (round % 2, (round + 1) % 2);
            std::thread::sleep(OBSERVED);
            let (epoch, incarnation) = self.checkpoint_after(&self.cluster.client(Some(leads)), None)?;
            let killed = Instant::now();
            self.cluster.kill_coordinator(leads);
            let next = self.checkpoint_after(&self.cluster.client(Some(stands_by)), Some(epoch))?;
            checkpoints.push(millis(killed.elapsed()));
            restarts.push((next.1 - incarnation) as f64);
            std::thread::sleep(OBSERVED.saturating_sub(killed.elapsed()));
            let (after, _) = self.arrivals.longest_gap(PLAIN, killed, killed + OBSERVED);
            let (before, _) = self.arrivals.longest_gap(PLAIN, killed - OBSERVED, killed);
            gaps.push(millis(after) - millis(before));
            self.cluster.start_coordinator(leads)?;
        }
        self.both("coordinator killed: longest gap of results, beyond that before", gaps, GAP_BOUND_MS, "ms");
        self.both("coordinator killed: time until a checkpoint", checkpoints, CHECKPOINT_BOUND_MS, "ms");
        self.both("coordinator killed: restarts of tasks", restarts, 0.0, "");
        Ok(())
    }

    /// Epoch and incarnation of the newest checkpoint, which is of an epoch after `epoch`.
    fn checkpoint_after(&self, client: &Client, epoch: Option<u64>) -> Result<(u64, u64)> {
        until("a checkpoint", || {
            // The one that stands by refuses until it leads.
            let document = client.get("/api/v1/jobs/job/checkpoints").unwrap_or_default();
            let last = &document["last"];
            let found = last["epoch"].as_u64().zip(last["incarnation"].as_u64());
            Ok(found.filter(|(of, _)| epoch.is_none_or(|epoch| *of > epoch)))
        })
    }

    /// Median and worst of the rounds.
    fn both(&mut self, name: &str, values: Vec<f64>, bound: f64, unit: &str) {
        let (median, worst) = median_and_worst(values);
        self.values.push(Bounded::new(format!("{name}, median"), median, bound, unit));
        self.values.push(Bounded::new(format!("{name}, worst"), worst, bound, unit));
    }
}
