//! Changes of a job over worker processes, whose state moves between them: gaps, latency, time and memory.

mod copy;
mod workload;

use std::path::Path;
use std::time::{Duration, Instant};

use anabranch_model::{Error, Result};
use anabranch_server::http::Client;
use serde_json::{Value, json};

use super::changes::median_and_worst;
use super::{PARALLELISM, Scale};
use crate::arrivals::Arrivals;
use crate::broker::Broker;
use crate::comparison::kafka::{broker, sink};
use crate::processes::{Cluster, items, running, submit, until, until_within};
use crate::report::{Bounded, Section, Table};
use crate::trace::{Seen, millis, wall_ms};
use copy::copy;
use workload::{FILL, Query, STEADY_EVENTS_PER_S};

/// Longest time without a row.
const GAP_BOUND_MS: f64 = 100.0;
/// The 99th percentile of latency in the worst second, over that in the second before.
const P99_BOUND: f64 = 10.0;
/// Time of a migration over that of copying as many bytes.
const COPY_BOUND: f64 = 2.0;
/// Memory of a job that was rescaled, over that of one that was not.
const MEMORY_BOUND: f64 = 1.1;
/// Bytes of a key where state is to be large: 2.7 GB of a million keys, and 1 GB.
const LONG_KEY_BYTES: u64 = 2700;
const MEMORY_KEY_BYTES: u64 = 1000;
/// Bytes of a key of the stateful map.
const MAP_KEY_BYTES: u64 = 100;
/// Longest time for a change, and for state to come to be.
const LIMIT: Duration = Duration::from_secs(600);
/// Time that is observed after a change, and in which memory is given back.
const OBSERVED: Duration = Duration::from_secs(2);
/// The job of each cluster.
const JOB: &str = "/api/v1/jobs/job";

/// Changes that are measured.
const MIGRATED: &str = "migrated";
const RESCALED: &str = "rescaled 2, 4, 3";

/// A job over worker processes.
struct Subject {
    cluster: Cluster,
    client: Client,
}

/// A change of it.
struct Moved {
    seen: Seen,
    bytes: u64,
}

impl Subject {
    /// A job whose state has come to be. Steady rows go to a table with these options.
    fn start(folder: &Path, workers: u32, query: Query, parallelism: u32, steady_table: &str) -> Result<Subject> {
        let cluster = Cluster::start(folder.join("store"), 1, workers, 4)?;
        let client = Client { wait: LIMIT, ..cluster.client(Some(0)) };
        let settings = [("parallelism", parallelism.to_string()), ("checkpoint-interval", "1 s".to_owned())];
        let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
        submit(&client, "job", &query.sql(steady_table, wall_ms() as u64), &settings)?;
        until("the job", || Ok((running(&client)? == 1).then_some(())))?;
        let subject = Subject { cluster, client };
        if let Some(rows) = query.filling_rows() {
            until_within(LIMIT, "the state", || {
                subject.check()?;
                Ok((subject.rows_read(FILL)? >= rows).then_some(()))
            })?;
            // The first checkpoint with all of the state is no part of what is measured.
            let epoch = subject.client.get(JOB)?["epoch"].as_u64();
            until_within(LIMIT, "a checkpoint of the state", || {
                subject.check()?;
                let document = subject.client.get(&format!("{JOB}/checkpoints"))?;
                Ok((document["last"]["epoch"].as_u64() > epoch).then_some(()))
            })?;
        }
        Ok(subject)
    }

    /// Fails if the job has failed.
    fn check(&self) -> Result<()> {
        match self.client.get(JOB)?["failure"].as_str() {
            Some(failure) => Err(Error::outside(format!("the job has failed: {failure}"))),
            None => Ok(()),
        }
    }

    fn tasks(&self) -> Result<Value> {
        Ok(self.client.get(&format!("{JOB}/tasks"))?)
    }

    fn rows_read(&self, stage: &str) -> Result<u64> {
        let document = self.tasks()?;
        let tasks = items(&document["tasks"]).filter(|task| task["stage_name"] == stage);
        Ok(tasks.filter_map(|task| task["rows_in"].as_u64()).sum())
    }

    /// The change by which each task with state by key goes to the other worker.
    fn migration(&self) -> Result<Value> {
        let (plan, tasks) = (self.client.get(&format!("{JOB}/plan"))?, self.tasks()?);
        let workers = self.client.get("/api/v1/workers")?;
        let is_keyed = |operator: &Value| {
            operator.as_str().is_some_and(|operator| {
                operator.starts_with("Final aggregate") || operator.starts_with("Complete aggregate")
            })
        };
        let keyed = items(&plan["stages"]).filter(|stage| items(&stage["operators"]).any(is_keyed));
        let keyed: Vec<&Value> = keyed.map(|stage| &stage["stage"]).collect();
        let moves = items(&tasks["tasks"]).filter(|task| keyed.contains(&&task["stage"])).filter_map(|task| {
            let to = items(&workers["workers"]).map(|worker| &worker["name"]).find(|name| **name != task["worker"])?;
            Some(json!({"stage": task["stage"], "task": task["task"], "to": to}))
        });
        Ok(json!({"moves": moves.collect::<Vec<_>>()}))
    }

    /// The requests of a change, one after the other.
    fn requests(&self, change: &str) -> Result<Vec<Value>> {
        Ok(match change {
            RESCALED => [4, 3, 2].map(|tasks| json!({"parallelism": tasks})).into(),
            _ => vec![self.migration()?],
        })
    }

    fn change(&self, request: &Value) -> Result<(Instant, Duration, u64)> {
        let begun = Instant::now();
        let answer = self.client.post(&format!("{JOB}/reconfigure"), request)?;
        let bytes = answer["copied_bytes"].as_u64();
        Ok((begun, begun.elapsed(), bytes.ok_or_else(|| Error::internal(format!("no bytes: {answer}")))?))
    }

    /// Changes the job, and observes the steady rows, which arrive in the first topic.
    fn observe(&self, request: &Value, arrivals: &Arrivals) -> Result<Moved> {
        std::thread::sleep(OBSERVED);
        let (begun, time, bytes) = self.change(request)?;
        std::thread::sleep(OBSERVED);
        Ok(Moved { seen: arrivals.trace(0).seen(begun, time, Instant::now()), bytes })
    }
}

/// A section of changes over two worker processes.
struct Plan {
    title: &'static str,
    note: String,
    topic: &'static str,
    query: Query,
    changes: &'static [&'static str],
    /// Time before the first change, for state that comes to be all the time.
    wait: Duration,
    /// Whether the time is compared with that of copying as many bytes.
    copies: bool,
}

/// Much state goes to another worker process; two other workloads change in the same ways.
pub(crate) fn moves(scale: Scale) -> impl Iterator<Item = Result<Section>> {
    let broker = broker();
    plans(scale).into_iter().map(move |plan| match &broker {
        Ok(broker) => plan.measure(broker),
        Err(reason) => Ok(plan.section(vec![Bounded::plain("not measured", reason)])),
    })
}

/// Keys per second at which state comes to be within some seconds, if the job can take as many.
fn per_s(scale: Scale, keys: u64) -> u64 {
    (keys as f64 / (scale.latency_duration * 4).as_secs_f64()).ceil() as u64
}

fn plans(scale: Scale) -> [Plan; 3] {
    let keys = scale.events / 2;
    let steady = format!("beside {STEADY_EVENTS_PER_S} events per second");
    let seen = "The steady rows go to Kafka at least once, with a checkpoint every second, and are seen by a consumer. Latency is from the \
                time at which a row is due. One coordinator and two workers as processes.";
    let map_keys = keys / 2;
    let events_per_s = keys / 2;
    [
        Plan {
            title: "State that moves to another worker process",
            note: format!(
                "{keys} keys of {LONG_KEY_BYTES} bytes are counted in a window that stays open, by two tasks, each of which goes to the other \
                 worker, {steady}. {seen} Copying: as many bytes through a socket of this machine to the same disk, synced at the end."
            ),
            topic: "bench-moved",
            query: Query::Count { keys, key_bytes: LONG_KEY_BYTES, keys_per_s: per_s(scale, keys) },
            changes: &[MIGRATED],
            wait: Duration::ZERO,
            copies: true,
        },
        Plan {
            title: "Changes over worker processes: a stateful map (SMQ)",
            note: format!(
                "A source, tasks by key, a sink, {steady}. The nearest to a map with state by key that SQL has: {map_keys} keys of \
                 {MAP_KEY_BYTES} bytes are counted in a window that stays open, and the rows that are observed are those of each key in \
                 10 ms, by tasks that move with the former. {seen}"
            ),
            topic: "bench-map",
            query: Query::StatefulMap { keys: map_keys, key_bytes: MAP_KEY_BYTES, keys_per_s: per_s(scale, keys) },
            changes: &[MIGRATED, RESCALED],
            wait: Duration::ZERO,
            copies: false,
        },
        Plan {
            title: "Changes over worker processes: Nexmark query 8 (NBQ8)",
            note: format!(
                "Persons who open an auction in the same 20 minutes, of {events_per_s} events per second: an aggregate over both tables \
                 by person, with the state that a join of both would have, {steady} that pass beside it. {seen}"
            ),
            topic: "bench-query8",
            query: Query::Nexmark8 { events_per_s },
            changes: &[MIGRATED, RESCALED],
            wait: scale.latency_duration * 2,
            copies: false,
        },
    ]
}

impl Plan {
    fn section(&self, values: Vec<Bounded>) -> Section {
        Section { title: self.title.into(), note: self.note.clone(), table: Table::Bounds(values) }
    }

    fn measure(&self, broker: &Broker) -> Result<Section> {
        let folder = crate::folder()?;
        let (topic, servers) = (self.topic, broker.servers());
        let subject = Subject::start(folder.path(), 2, self.query, PARALLELISM, &sink(servers, topic))?;
        let arrivals = Arrivals::consume(servers, &[topic], "due_ms")?;
        until("the first row", || Ok(arrivals.largest(0)))?;
        std::thread::sleep(self.wait);
        let (mut values, mut largest) = (Vec::new(), None::<Moved>);
        for change in self.changes {
            let mut all = Vec::new();
            for request in subject.requests(change)? {
                all.push(subject.observe(&request, &arrivals)?);
            }
            values.extend(rows(change, &all));
            largest = all.into_iter().chain(largest).max_by_key(|moved| moved.bytes);
        }
        drop(subject);
        if let Some(largest) = largest.filter(|_| self.copies) {
            let copied_s = copy(largest.bytes, folder.path())?.as_secs_f64();
            let moved_s = largest.seen.time.as_secs_f64();
            values.push(Bounded::plain("copying as many bytes as the largest change", format!("{copied_s:.2} s")));
            values.push(Bounded::new("its time over that of copying", moved_s / copied_s, COPY_BOUND, ""));
        }
        Ok(self.section(values))
    }
}

/// What was seen of changes of one kind.
fn rows(change: &str, all: &[Moved]) -> Vec<Bounded> {
    let of = |value: fn(&Moved) -> f64| median_and_worst(all.iter().map(value).collect());
    let ms = |value: f64| format!("{value:.1} ms");
    let (gap_median, gap_worst) = of(|moved| millis(moved.seen.gap));
    let (gap_before_median, _) = of(|moved| millis(moved.seen.gap_before));
    let (before_median, _) = of(|moved| millis(moved.seen.p99_before));
    let (_, p99_worst) = of(|moved| millis(moved.seen.p99));
    let (_, ratio_worst) = of(|moved| millis(moved.seen.p99) / millis(moved.seen.p99_before));
    let (time_median, time_worst) = of(|moved| millis(moved.seen.time));
    let (_, bytes_most) = of(|moved| moved.bytes as f64);
    vec![
        Bounded::plain(format!("{change}: state that was copied ahead, most"), format!("{:.1} MB", bytes_most / 1e6)),
        Bounded::plain(format!("{change}: longest time without a row, the second before"), ms(gap_before_median)),
        Bounded::new(format!("{change}: longest time without a row, median"), gap_median, GAP_BOUND_MS, "ms"),
        Bounded::new(format!("{change}: longest time without a row, worst"), gap_worst, GAP_BOUND_MS, "ms"),
        Bounded::plain(format!("{change}: p99 latency in the second before, median"), ms(before_median)),
        Bounded::plain(format!("{change}: p99 latency in the worst second"), ms(p99_worst)),
        Bounded::new(format!("{change}: the latter over the former, worst"), ratio_worst, P99_BOUND, ""),
        Bounded::plain(format!("{change}: time until it is settled, median"), ms(time_median)),
        Bounded::plain(format!("{change}: time until it is settled, worst"), ms(time_worst)),
    ]
}

/// Memory of a worker's process after its job was rescaled, beside one whose job was not.
pub(crate) fn memory(scale: Scale) -> Result<Section> {
    let keys = scale.events / 2;
    let query = Query::Count { keys, key_bytes: MEMORY_KEY_BYTES, keys_per_s: 2 * per_s(scale, keys) };
    // Memory of the worker, and the time since its state is there: at least `lasts`.
    let resident = |parallelism, rescaled: &[u32], lasts: Duration| -> Result<(u64, Duration)> {
        let folder = crate::folder()?;
        let subject = Subject::start(folder.path(), 1, query, parallelism, "'connector' = 'blackhole'")?;
        let begun = Instant::now();
        for tasks in rescaled {
            subject.change(&json!({"parallelism": tasks}))?;
        }
        std::thread::sleep((OBSERVED * 2).max(lasts.saturating_sub(begun.elapsed())));
        Ok((subject.cluster.resident_bytes()?, begun.elapsed()))
    };
    let (rescaled, lasted) = resident(PARALLELISM, &[4, 3], Duration::ZERO)?;
    let (always, _) = resident(3, &[], lasted)?;
    let shown = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    Ok(Section {
        title: "Memory after changes".into(),
        note: format!(
            "Resident memory of a worker's process, {} s after the last change, and as long after the beginning of a job without changes: {keys} \
             keys of {MEMORY_KEY_BYTES} bytes are counted in a window that stays open, with a checkpoint every second.",
            (OBSERVED * 2).as_secs()
        ),
        table: Table::Bounds(vec![
            Bounded::plain("2 tasks, rescaled to 4 and then to 3", shown(rescaled)),
            Bounded::plain("3 tasks from the beginning", shown(always)),
            Bounded::new("ratio", rescaled as f64 / always as f64, MEMORY_BOUND, ""),
        ]),
    })
}
