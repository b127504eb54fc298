//! The wire form of messages is frozen: `tests/fixtures/messages-VERSION.jsonl` has a line of each kind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anabranch_dataflow::JobOptions;
use anabranch_model::{Group, KeyGroupReading, KeyGroups, Nanos, PlanVersion, StageId};
use anabranch_protocol::coordinator::{Checkpoint, Granted, Pace, Tasks, Then};
use anabranch_protocol::worker::{
    self, Fence, FromCoordinator, LastSnapshot, Order, Orders, Snapshots, Term, ToCoordinator,
};
use serde::de::DeserializeOwned;

use super::*;

/// The fixture of this version. It is written once, and never again.
fn fixture() -> PathBuf {
    format!("tests/fixtures/messages-{MESSAGES_VERSION}.jsonl").into()
}

const ONE: Incarnation = Incarnation(1);

fn task(index: u32) -> TaskId {
    TaskId { stage: StageId(0), index }
}

fn state(index: u32) -> TaskState {
    TaskState { task: task(index), finished: false, source: None, operators: Vec::new(), sink: None }
}

pub(crate) fn to_worker() -> Vec<ToWorker> {
    let fence = Fence { term: Term(1000), incarnation: ONE, version: PlanVersion(1) };
    let order = |order| {
        let message = FromCoordinator { fence, heard: Nanos(5), received: 2, order };
        ToWorker::Protocol(Box::new(Downward::Order(message)))
    };
    let protocol = |message| ToWorker::Protocol(Box::new(message));
    let all = BTreeSet::from([task(0), task(1)]);
    let tasks = Tasks { version: PlanVersion(1), all: all.clone(), sources: all, sinks: BTreeSet::new() };
    let tasks_then = BTreeMap::from([(task(0), state(0))]);
    let from = Checkpoint { epoch: Epoch(8), incarnation: ONE, version: PlanVersion(1), tasks: tasks_then };
    let group = Group { first: Epoch(9), last: Epoch(12) };
    let plan = Plan::new(KeyGroups(128), JobOptions::default(), Vec::new(), Vec::new());
    let peers = BTreeMap::from([(WorkerId(1), "127.0.0.1:7070".parse().expect("an address"))]);
    let deploy = Deploy {
        incarnation: ONE,
        prepares: false,
        plan,
        origin: Some("/savepoints/a".into()),
        checkpoints: Some(DeployCheckpoints {
            job: "ads-1".into(),
            former: serde_json::from_str(r#"{"since":1,"names":["ads"]}"#).expect("names"),
            progress_interval: Duration::from_secs(1),
        }),
        retries_opening: true,
        placement: vec![(task(0), WorkerId(1))],
        peers,
        keys: BTreeMap::new(),
    };
    let key = serde_json::from_value(serde_json::Value::String("0123456789abcdef".repeat(4))).expect("a key");
    let encrypted = Deploy { keys: BTreeMap::from([(WorkerId(1), key)]), ..deploy.clone() };
    let prepared = Deploy { prepares: true, ..deploy.clone() };
    vec![
        ToWorker::Deploy(Box::new(deploy)),
        ToWorker::Deploy(Box::new(encrypted)),
        order(None),
        order(Some(Order::Start { tasks, from: Some(from.clone()) })),
        order(Some(Order::Grant { group, checkpoint: true, then: Then::Switch, pace: Pace::Steady })),
        order(Some(Order::Grant { group, checkpoint: true, then: Then::Next, pace: Pace::AtOnce })),
        order(Some(Order::EpochDone(Epoch(3)))),
        order(Some(Order::CheckpointDone(Epoch(4)))),
        order(Some(Order::AbortCheckpoint(Epoch(5)))),
        order(Some(Order::NoneDone)),
        order(Some(Order::Cancel)),
        ToWorker::Deploy(Box::new(prepared)),
        protocol(Downward::Load { version: PlanVersion(2), from }),
        protocol(Downward::AddOnly),
        protocol(Downward::GiveUp),
        protocol(Downward::Hold { incarnation: ONE, held: true }),
        ToWorker::Observed(Reached { incarnation: ONE, group: "clicks and ads".into(), time: EventTime(1000) }),
        protocol(Downward::Agreed { incarnation: ONE, key: "files of /a".into(), list: vec!["b".into()] }),
    ]
}

fn from_worker() -> Vec<FromWorker> {
    let fence = Fence { term: Term(1000), incarnation: ONE, version: PlanVersion(1) };
    let taken = Orders { granted: Epoch(4), epoch_done: Epoch(2), checkpoint_done: Epoch(1), none_done: false };
    let group = Group { first: Epoch(2), last: Epoch(3) };
    let granted = Granted { group, checkpoint: true, then: Then::Next, pace: Pace::Steady, aborted: true };
    let summary = worker::Summary {
        number: 3,
        taken,
        restoring: 1,
        started: true,
        cut: Epoch(3),
        active: Epoch(0),
        sources_finished: false,
        ended: Epoch(2),
        sinks_finished: false,
        checkpoints: vec![Snapshots { epoch: Epoch(2), tasks: Some(vec![(task(0), state(0))]) }],
        last: vec![LastSnapshot { task: task(1), epoch: Epoch(1), snapshot: state(1) }],
        groups: vec![granted],
        dropped: false,
        cancelled: true,
        failed: Some((task(1), true)),
        gone: false,
    };
    let active = worker::Summary { active: Epoch(4), ..summary.clone() };
    let active = ToCoordinator { fence, summary: active };
    let protocol = |message| FromWorker::Protocol(Box::new(message));
    let since = |grant_wait_ns, dropped, passages| {
        FromWorker::Observed(Observed::Since(Since { incarnation: ONE, grant_wait_ns, dropped, passages }))
    };
    let passage = |index, due_ns| {
        let [entered_ns, taken_ns, begun_ns, written_ns] = [20, 30, 40, 50];
        Passage { task: task(index), epoch: Epoch(2), due_ns, entered_ns, taken_ns, begun_ns, written_ns }
    };
    let passages = vec![passage(0, Some(10)), passage(1, None)];
    let message = ToCoordinator { fence, summary };
    let dropped = vec![(Epoch(2), "state/1-1-0.0-0.arrow".into())];
    let reached = Reached { incarnation: ONE, group: "clicks and ads".into(), time: EventTime::MAX };
    let error = Error::outside("no answer").at("table clicks").remedy("look at it");
    vec![
        protocol(Upward::Summary(message)),
        protocol(Upward::Summary(active)),
        since(7, dropped, Vec::new()),
        since(0, Vec::new(), passages),
        FromWorker::Observed(Observed::Failed { incarnation: ONE, task: task(0), error }),
        FromWorker::Deployed { incarnation: ONE, restoring: vec!["stage 0 task 1 (count)".into()] },
        protocol(Upward::Checkpoint),
        protocol(Upward::Full { incarnation: ONE, full: true }),
        FromWorker::Observed(Observed::Reached(reached)),
        protocol(Upward::Agree { incarnation: ONE, key: "files of /a".into(), list: vec!["b".into()] }),
        protocol(Upward::Loaded { version: PlanVersion(2), error: None }),
        FromWorker::Observed(Observed::Notices(vec!["a notice".into()])),
        FromWorker::Observed(Observed::Metrics(Vec::new())),
        FromWorker::Observed(Observed::KeyGroups {
            incarnation: ONE,
            rows: vec![KeyGroupReading { from: task(0), to: StageId(1), rows: vec![3, 0] }],
        }),
    ]
}

/// Reads a line and writes it again.
fn again<T: Serialize + DeserializeOwned>(line: &str) -> String {
    let message: T = serde_json::from_str(line).expect("it can be read");
    serde_json::to_string(&message).expect("it can be written")
}

#[test]
fn messages_have_the_form_that_other_processes_read() {
    let lines = |line: serde_json::Result<String>| line.expect("it can be written");
    let down: Vec<String> = to_worker().iter().map(serde_json::to_string).map(lines).collect();
    let up: Vec<String> = from_worker().iter().map(serde_json::to_string).map(lines).collect();
    let written = format!("{}\n{}\n", down.join("\n"), up.join("\n"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() && !fixture().exists() {
        std::fs::write(fixture(), &written).expect("written");
    }
    let frozen = std::fs::read_to_string(fixture()).expect("a fixture: UPDATE_GOLDEN=1 writes it");
    assert_eq!(
        written, frozen,
        "the form has changed: raise MESSAGES_VERSION, then UPDATE_GOLDEN=1 writes its fixture"
    );
    for (number, line) in frozen.lines().enumerate() {
        let read = if number < down.len() { again::<ToWorker>(line) } else { again::<FromWorker>(line) };
        assert_eq!(read, line);
    }
}

/// The names of an enum's variants, as its error of an unknown one lists them.
fn kinds<T: DeserializeOwned>() -> BTreeSet<String> {
    let Err(error) = serde_json::from_str::<T>(r#"{"?":null}"#) else { panic!("it takes any kind") };
    let kinds: BTreeSet<String> = error.to_string().split('`').skip(3).step_by(2).map(ToOwned::to_owned).collect();
    assert!(kinds.len() > 1, "{error}");
    kinds
}

#[test]
fn there_is_a_message_of_each_kind() {
    fn has<T: Serialize>(messages: &[T], within: &str, kinds: BTreeSet<String>) {
        let lines: Vec<String> =
            messages.iter().map(|message| serde_json::to_string(message).expect("it can be written")).collect();
        for kind in kinds {
            let [with_content, alone] = [format!("{within}{{\"{kind}\":"), format!("{within}\"{kind}\"")];
            let found = lines.iter().any(|line| line.contains(&with_content) || line.contains(&alone));
            assert!(found, "there is no line with {within}{kind}");
        }
    }
    let (down, up) = (to_worker(), from_worker());
    has(&down, "", kinds::<ToWorker>());
    has(&down, "\"Protocol\":", kinds::<Downward<TaskState>>());
    has(&down, "\"order\":", kinds::<Order<TaskState>>());
    has(&up, "", kinds::<FromWorker>());
    has(&up, "\"Protocol\":", kinds::<Upward<TaskState>>());
    has(&up, "\"Observed\":", kinds::<Observed>());
}
