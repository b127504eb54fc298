//! Checkpoints by phase: the task that holds one up, and the times of restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, SinkSpec, TableTraits};
use anabranch_model::{Epoch, Error, Result};
use anabranch_operators::{Committable, Connector, Sink, TaskContext};
use anabranch_server::{Engine, Settings};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde_json::{Value, json};

use super::client::get;
use super::schema::Description;
use super::{JOB, events, serve, wait_for};

/// The time in which the second task prepares its results for a checkpoint.
const PREPARES: Duration = Duration::from_millis(300);

/// A table that refuses the first write, and of which the second task is slow.
#[derive(Default)]
struct Slow {
    has_failed: Arc<AtomicBool>,
}

struct SlowSink {
    task: u32,
    has_failed: Arc<AtomicBool>,
}

impl Connector for Slow {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        Ok(TableTraits {
            bounded: true,
            readable: false,
            writable: true,
            max_readers: None,
            schema: None,
            ..TableTraits::default()
        })
    }

    fn sink(&self, _: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        Ok(Box::new(SlowSink { task: context.index, has_failed: Arc::clone(&self.has_failed) }))
    }
}

impl Sink for SlowSink {
    fn write(&mut self, _: &RecordBatch) -> Result<()> {
        match self.has_failed.swap(true, SeqCst) {
            true => Ok(()),
            false => Err(Error::outside("the disk is full")),
        }
    }

    fn epoch_end(&mut self, _: Epoch) -> Result<()> {
        Ok(())
    }

    fn prepare_commit(&mut self, _: Epoch) -> Result<Option<Committable>> {
        if self.task == 1 {
            let (_never, pause) = channel::<()>();
            let _ = pause.recv_timeout(PREPARES);
        }
        Ok(None)
    }
}

fn ms(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// The newest checkpoint whose phase of alignment the slow task has made long.
fn held_up(checkpoints: &Value) -> Option<&Value> {
    let is_held_up = |mark: &&Value| {
        let (phases, slowest) = (&mark["phases"], &mark["phases"]["slowest"]);
        let task = (&slowest["stage"], &slowest["task"], &slowest["phase"]);
        task == (&json!(1), &json!(1), &json!("alignment"))
            && ms(&phases["alignment_ms"]) > PREPARES.as_secs_f64() * 500.0
    };
    checkpoints["history"].as_array().expect("marks").iter().rev().find(is_held_up)
}

#[test]
fn the_task_that_holds_a_checkpoint_up_is_named_and_restarts_have_their_times() {
    let folder = tempfile::tempdir().expect("folder");
    let mut engine = Engine::default();
    engine.register("slow", Arc::new(Slow::default()));
    let place = folder.path().to_str().expect("text");
    let set = [("checkpoint-directory", place), ("checkpoint-interval", "50 ms"), ("epoch-interval", "20 ms")];
    let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let settings = Settings { parallelism: Some(2), set, ..Settings::default() };
    let job = engine.run(&events(None).replace("blackhole", "slow"), &settings).expect("a job");
    let (_server, address) = serve(&job);
    let path = format!("{JOB}/checkpoints");
    wait_for(&job, "a restart, and a checkpoint that the slow task holds up", || {
        let checkpoints = get(address, &path).json();
        checkpoints["restarts"] == json!(1) && held_up(&checkpoints).is_some()
    });
    let checkpoints = get(address, &path).json();
    let slowest = &held_up(&checkpoints).expect("it is still kept")["phases"]["slowest"];
    let stage = &get(address, &format!("{JOB}/plan")).json()["stages"][1]["name"];
    assert_eq!((&slowest["worker"], &slowest["stage_name"]), (&json!("local"), stage));
    assert!(ms(&slowest["took_ms"]) >= PREPARES.as_secs_f64() * 1e3, "{slowest}");

    let divided = checkpoints["history"].as_array().expect("marks").iter().filter(|mark| mark["phases"].is_object());
    for mark in divided {
        let phases = ["request_ms", "alignment_ms", "write_ms", "commit_ms"].map(|phase| ms(&mark["phases"][phase]));
        assert!(phases.iter().all(|phase| *phase >= 0.0), "{mark}");
        assert!((phases.iter().sum::<f64>() - ms(&mark["took_ms"])).abs() < 0.01, "they add up: {mark}");
    }

    let failures = checkpoints["failures"].as_array().expect("failures");
    assert!(failures.len() == 1 && failures[0]["text"].to_string().contains("the disk is full"), "{failures:?}");
    let (began, now) = (&get(address, JOB).json()["started_at_ms"], &get(address, "/api/v1/server").json()["now_ms"]);
    let times = [began, &failures[0]["at_ms"], now].map(|time| time.as_i64().expect("milliseconds"));
    assert!(times.is_sorted(), "{times:?}");
    let description = Description(get(address, "/api/v1/openapi.json").json());
    let answer = ("/api/v1/jobs/{name}/checkpoints", "get", 200);
    assert_eq!(description.check(answer, &checkpoints), Vec::<String>::new());
}
