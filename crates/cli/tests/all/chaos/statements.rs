//! One job of several statements over one topic: first rows, functions over the rows before, rows in order,
//! and counts of distinct values that are updated. Each is computed here again, by its definition.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use anabranch_model::Rng;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use serde_json::{Value, json};

use super::processes::{LIFE_MS_MAX, PATIENT, finish, kill_often, kills_and_seed, options, start, with_checkpoints};
use crate::broker::Broker;
use crate::topics::{create, in_order, records};

const SQL: &str = "
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE events (id BIGINT, k STRING, v BIGINT, event_time BIGINT,
  ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'events', 'format' = 'json');
CREATE TABLE firsts (k STRING, id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'firsts', 'format' = 'json');
CREATE TABLE numbered (id BIGINT, former BIGINT, latest BIGINT, n BIGINT)
  WITH ('connector' = 'kafka', 'topic' = 'numbered', 'format' = 'json');
CREATE TABLE ordered (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'ordered', 'format' = 'json');
CREATE TABLE counts (k STRING, n BIGINT, different BIGINT, odd BIGINT, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'upsert-kafka', 'topic' = 'counts', 'key.format' = 'raw', 'value.format' = 'json');

INSERT INTO firsts SELECT k, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM events) WHERE n = 1;
INSERT INTO numbered SELECT id, LAG(v) OVER w, SUM(v) OVER (w ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), COUNT(*) OVER w
  FROM events WINDOW w AS (PARTITION BY k ORDER BY ts);
INSERT INTO ordered SELECT id FROM events ORDER BY ts;
INSERT INTO counts SELECT k, COUNT(*), COUNT(DISTINCT v), COUNT(DISTINCT v) FILTER (WHERE MOD(v, 2) = 1) FROM events GROUP BY k;
";
const RESULTS: [&str; 4] = ["firsts", "numbered", "ordered", "counts"];

/// Events of a second of event time, which passes twenty times as fast as the clock.
const EVENTS: i64 = 200;
const PAUSE_MS: u64 = 50;
/// 2026-01-01T00:00:00Z.
const START_MS: i64 = 1_767_225_600_000;

struct Event {
    id: i64,
    key: String,
    value: i64,
    /// Each event has a time of its own.
    time_ms: i64,
}

/// The events of these seconds: out of order by less than a second, with new keys all the time.
fn events(seconds: i64, rng: &mut Rng) -> Vec<Event> {
    let mut events = Vec::new();
    for second in 0..seconds {
        let mut times: Vec<i64> = (0..EVENTS).map(|at| START_MS + second * 1000 + at * 5).collect();
        (1..times.len()).for_each(|at| times.swap(at, rng.below(at as u64 + 1) as usize));
        for time_ms in times {
            let (id, key) = (events.len() as i64, format!("key {}", rng.below(40 + 20 * second as u64)));
            events.push(Event { id, key, value: rng.below(30) as i64, time_ms });
        }
    }
    events
}

/// Writes the events as time passes.
fn produce(servers: &str, events: &[Event]) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("enable.idempotence", "true");
    let producer: ThreadedProducer<DefaultProducerContext> = config.create().expect("a producer");
    for second in events.chunks(EVENTS as usize) {
        for Event { id, key, value, time_ms } in second {
            let event = json!({"id": id, "k": key, "v": value, "event_time": time_ms}).to_string();
            producer.send(BaseRecord::to("events").key(key).payload(&event)).expect("queued");
        }
        anabranch_model::pause(Duration::from_millis(PAUSE_MS));
    }
    producer.flush(Duration::from_secs(120)).expect("written");
}

/// The rows of each topic, as lines: what must be there.
fn expected(events: &[Event]) -> [Vec<String>; 4] {
    let mut by_time: Vec<&Event> = events.iter().collect();
    by_time.sort_by_key(|event| event.time_ms);
    let mut values: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let [mut firsts, mut numbered, mut ordered, mut counts] = [const { Vec::new() }; 4];
    for Event { id, key, value, .. } in by_time {
        let before = values.entry(key).or_default();
        if before.is_empty() {
            firsts.push(json!([key, id]).to_string());
        }
        let former = before.last().copied();
        before.push(*value);
        let latest: i64 = before.iter().rev().take(3).sum();
        numbered.push(json!([id, former, latest, before.len()]).to_string());
        ordered.push(json!([id]).to_string());
    }
    for (key, values) in values {
        let different: BTreeSet<i64> = values.iter().copied().collect();
        let odd = different.iter().filter(|value| **value % 2 == 1).count();
        counts.push(json!([key, values.len(), different.len(), odd]).to_string());
    }
    [firsts, numbered, ordered, counts]
}

/// The values of a record as a line of the same form.
fn line(record: &str, columns: &[&str]) -> String {
    let record: Value = serde_json::from_str(record).expect("JSON");
    Value::from(columns.iter().map(|column| record[column].clone()).collect::<Vec<_>>()).to_string()
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[test]
fn every_statement_of_a_job_is_exact_however_often_the_process_is_killed() {
    let (kills, seed) = kills_and_seed();
    let broker = Broker::start();
    let folder = tempfile::tempdir().expect("folder");
    create(broker.servers(), "events", 3);
    // Rows that are in order have a topic of one partition.
    create(broker.servers(), "ordered", 1);
    let mut script = tempfile::NamedTempFile::new().expect("file");
    script.write_all(SQL.as_bytes()).expect("written");
    let servers = format!("properties.bootstrap.servers={}", broker.servers());
    let job = |bounded: bool, parallelism: u64| {
        let tables = RESULTS.iter().chain(&["events"]);
        let mut arguments: Vec<String> =
            tables.flat_map(|table| options(table, &[servers.clone(), PATIENT.into()])).collect();
        if bounded {
            arguments.extend(options("events", &["scan.bounded.mode=latest-offset".to_owned()]));
        }
        arguments.extend(with_checkpoints(folder.path(), parallelism));
        if parallelism > 1 {
            // So that hardly anything stays in memory: each backend continues with what the other has
            // written.
            arguments.extend(["--set", "state-backend=disk", "--set", "state-bytes=200 kb"].map(str::to_owned));
        }
        start(script.path(), &arguments)
    };
    let seconds = (kills * LIFE_MS_MAX / 2 + 3000) / PAUSE_MS;
    let events = events(seconds as i64, &mut Rng::new(seed));
    std::thread::scope(|scope| {
        scope.spawn(|| produce(broker.servers(), &events));
        kill_often(kills, &mut Rng::new(seed), folder.path(), |rng| job(false, 1 + rng.below(3)));
    });
    assert!(!records(broker.servers(), "numbered").is_empty(), "nothing was visible before the last run");
    finish(job(true, 2));

    let [firsts, numbered, ordered, counts] = expected(&events);
    let read = |topic: &str, columns: &[&str]| -> Vec<String> {
        let records = in_order(broker.servers(), topic).into_iter();
        records.map(|record| line(&record.value.expect("a value"), columns)).collect()
    };
    let same = |topic: &str, is: &[String], should: &[String]| {
        let differs = is.iter().zip(should).position(|(is, should)| is != should).unwrap_or(is.len().min(should.len()));
        assert!(
            is == should,
            "seed {seed}, {topic}: {} rows instead of {}; at {differs} {:?} instead of {:?}",
            is.len(),
            should.len(),
            is.get(differs),
            should.get(differs)
        );
    };
    same("firsts", &sorted(read("firsts", &["k", "id"])), &sorted(firsts));
    same("numbered", &sorted(read("numbered", &["id", "former", "latest", "n"])), &sorted(numbered));
    same("ordered", &read("ordered", &["id"]), &ordered);
    let mut latest: BTreeMap<Option<String>, String> = BTreeMap::new();
    let rows_of = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")[1].as_u64().expect("a count");
    for record in in_order(broker.servers(), "counts") {
        let line = line(&record.value.expect("no group ends"), &["k", "n", "different", "odd"]);
        if let Some(former) = latest.get(&record.key) {
            assert!(rows_of(former) < rows_of(&line), "seed {seed}: {line} follows {former}");
        }
        latest.insert(record.key, line);
    }
    same("counts", &sorted(latest.into_values().collect()), &sorted(counts));
}
