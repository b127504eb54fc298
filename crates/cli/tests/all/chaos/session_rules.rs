//! Sessions of many entities, validated by rules: not one false alert, none that is missing, and every count
//! is right.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::Rng;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use serde_json::{Value, json};

use super::processes::{
    LIFE_MS_MAX, PATIENT, example, finish, kill_often, kills_and_seed, options, start, with_checkpoints,
};
use crate::broker::Broker;
use crate::topics::{create, records};

const ENTITIES: u64 = 40;
/// The job's window, which holds one session of each entity.
const WINDOW_MS: i64 = 1000;
/// 2026-01-01T00:00:00Z.
const START_MS: i64 = 1_767_225_600_000;
/// Pause between the sessions of two windows: event time goes twenty times as fast as the clock.
const PAUSE_MS: u64 = 50;

/// An event of a session: its number, its kind, and when in the window it is.
type Event = (i64, &'static str, i64);

/// The events of a session, and the rule that it breaks.
fn session(rng: &mut Rng) -> (Vec<Event>, Option<&'static str>) {
    let uses = 2 + rng.below(6) as i64;
    let kinds = std::iter::once("login").chain((0..uses).map(|_| "use")).chain(["logout"]);
    let mut events: Vec<Event> = (0_i64..).zip(kinds).map(|(at, kind)| (at + 1, kind, 100 + at * 50)).collect();
    let (first_use, last_use) = (1, uses as usize);
    let violation = match rng.below(40) {
        0 => {
            (events[0].1, events[first_use].1) = ("use", "login");
            "use before login"
        }
        1 => {
            (events[last_use].1, events[last_use + 1].1) = ("logout", "use");
            "use after logout"
        }
        2 => {
            events.remove(first_use);
            "a step is missing"
        }
        3 => {
            events.insert(first_use, events[first_use]);
            "a step counts twice"
        }
        _ => return (events, None),
    };
    (events, Some(violation))
}

/// What must be in the topics at the end.
#[derive(Default)]
struct Expected {
    alerts: BTreeMap<String, u32>,
    counts: BTreeMap<String, u32>,
}

/// Writes the sessions of this number of windows as time passes.
fn produce(servers: &str, windows: i64, seed: u64) -> Expected {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("enable.idempotence", "true");
    let producer: ThreadedProducer<DefaultProducerContext> = config.create().expect("a producer");
    let (mut rng, mut expected) = (Rng::new(seed), Expected::default());
    for window in 0..windows {
        let start_ms = START_MS + window * WINDOW_MS;
        let sessions: Vec<_> = (0..ENTITIES).map(|entity| (format!("entity {entity}"), session(&mut rng))).collect();
        let longest = sessions.iter().map(|(_, (events, _))| events.len()).max().unwrap_or(0);
        for at in 0..longest {
            for (entity, (events, _)) in &sessions {
                let Some((step, kind, after_ms)) = events.get(at) else { continue };
                let event = json!({"entity": entity, "step": step, "kind": kind, "event_time": start_ms + after_ms})
                    .to_string();
                producer.send(BaseRecord::to("session-events").key(entity).payload(&event)).expect("queued");
            }
        }
        for (entity, (events, violation)) in sessions {
            let uses = events.iter().filter(|(_, kind, _)| *kind == "use").count();
            *expected.counts.entry(line(&entity, window, &json!([events.len(), uses]))).or_default() += 1;
            if let Some(violation) = violation {
                *expected.alerts.entry(line(&entity, window, &json!(violation))).or_default() += 1;
            }
        }
        anabranch_model::pause(Duration::from_millis(PAUSE_MS));
    }
    producer.flush(Duration::from_secs(120)).expect("written");
    expected
}

fn line(entity: &str, window: i64, result: &Value) -> String {
    format!("{entity}, window {window}: {result}")
}

/// The records of a topic as lines of the same form, with how often each is there.
fn lines(servers: &str, topic: &str, result: impl Fn(&Value) -> Value) -> BTreeMap<String, u32> {
    let mut lines = BTreeMap::new();
    for (record, count) in records(servers, topic) {
        let record: Value = serde_json::from_str(&record).expect("JSON");
        let start = record["window_start"].as_str().expect("a time");
        let entity = record["entity"].as_str().expect("a name");
        *lines.entry(line(entity, seconds_since_start(start), &result(&record))).or_default() += count;
    }
    lines
}

/// `2026-01-01 00:01:02...` as seconds since the first window.
fn seconds_since_start(time: &str) -> i64 {
    let clock = time.get(11..19).unwrap_or_else(|| panic!("no time: {time}"));
    assert!(time.starts_with("2026-01-01"), "{time}");
    clock.split(':').fold(0, |seconds, part| seconds * 60 + part.parse::<i64>().expect("a number"))
}

#[test]
fn there_is_no_false_alert_and_no_lost_or_doubled_count_however_often_the_process_is_killed() {
    let (kills, seed) = kills_and_seed();
    let broker = Broker::start();
    let folder = tempfile::tempdir().expect("folder");
    create(broker.servers(), "session-events", 3);
    let servers = format!("properties.bootstrap.servers={}", broker.servers());
    let job = |bounded: bool, parallelism: u64| {
        let tables = ["events", "alerts", "counts"];
        let mut arguments: Vec<String> =
            tables.iter().flat_map(|table| options(table, &[servers.clone(), PATIENT.into()])).collect();
        if bounded {
            arguments.extend(options("events", &["scan.bounded.mode=latest-offset".to_owned()]));
        }
        arguments.extend(with_checkpoints(folder.path(), parallelism));
        if parallelism > 1 {
            // So that hardly anything stays in memory: each backend continues with what the other has
            // written.
            arguments.extend(["--set", "state-backend=disk", "--set", "state-bytes=20 kb"].map(str::to_owned));
        }
        start(&example("session_rules_kafka.sql"), &arguments)
    };
    let windows = (kills * LIFE_MS_MAX / 2 + 3000) / PAUSE_MS;
    let expected = std::thread::scope(|scope| {
        let produced = scope.spawn(|| produce(broker.servers(), windows as i64, seed));
        kill_often(kills, &mut Rng::new(seed), folder.path(), |rng| job(false, 1 + rng.below(3)));
        produced.join().expect("produced")
    });
    assert!(!records(broker.servers(), "session-counts").is_empty(), "nothing was visible before the last run");
    finish(job(true, 2));

    assert!(expected.alerts.len() > 100, "{} alerts", expected.alerts.len());
    let alerts = lines(broker.servers(), "session-alerts", |record| record["violation"].clone());
    assert_eq!(alerts, expected.alerts, "seed {seed}");
    let counts = lines(broker.servers(), "session-counts", |record| json!([record["events"], record["uses"]]));
    assert!(counts == expected.counts, "seed {seed}: {}", difference(&counts, &expected.counts));
}

fn difference(is: &BTreeMap<String, u32>, should: &BTreeMap<String, u32>) -> String {
    let wrong = |a: &BTreeMap<String, u32>, b: &BTreeMap<String, u32>| {
        a.iter()
            .filter(|(line, count)| b.get(*line) != Some(count))
            .take(5)
            .map(|l| format!("{l:?}"))
            .collect::<Vec<_>>()
    };
    format!("there is {:?}, there should be {:?}", wrong(is, should), wrong(should, is))
}
