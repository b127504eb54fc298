use std::sync::{Arc, Mutex};

use serde_json::json;

use super::*;

fn task(stage: u64, index: u64, thread: Option<u64>, epoch: u64) -> Value {
    json!({"stage": stage, "stage_name": "s", "task": index, "worker": "local", "thread": thread, "epoch": epoch, "rows_in": 10 * stage,
           "rows_out": 5, "queue_rows": 7, "queue_batches": 1, "queue_bytes": 90, "queue_share": 0.5, "oldest_read_ms": 12.5,
           "oldest_queued_ms": 2.0, "watermark_ms": 12_000})
}

fn answers(path: &str, tasks: &[Value]) -> Result<Value> {
    Ok(match path {
        "/api/v1/jobs" => json!({"jobs": [{"name": "ads", "state": "running"}, {"name": "old", "state": "ended"}]}),
        "/api/v1/workers" => json!({"workers": [{"name": "local", "pid": 42}]}),
        "/api/v1/jobs/ads/plan" => json!({
            "stages": [
                {"stage": 0, "name": "rows", "source": "kafka", "operators": ["filter"], "sink": null},
                {"stage": 1, "name": "count", "source": null, "operators": ["aggregate"], "sink": "print", "window_step_ms": 10_000,
                 "window_offset_ms": 0},
            ],
            "exchanges": [{"from": 0, "to": 1}],
        }),
        "/api/v1/jobs/ads/tasks" => json!({"tasks": tasks}),
        other => return Err(Error::outside(format!("no {other}"))),
    })
}

fn thread(tid: u32) -> (ThreadId, String) {
    (ThreadId { pid: 42, process_start: 1, tid, start: 2 }, format!("thread {tid}"))
}

fn driver(tasks: &Arc<Mutex<Vec<Value>>>) -> Anabranch {
    let tasks = Arc::clone(tasks);
    let get = move |path: &str| answers(path, &tasks.lock().expect("no panic"));
    Anabranch::new(Box::new(get), Box::new(|pid| if pid == 42 { [7, 8, 9].map(thread).to_vec() } else { Vec::new() }))
}

#[test]
fn a_job_has_fused_operators_parallel_tasks_and_threads() {
    let tasks = Arc::new(Mutex::new(vec![task(0, 0, Some(7), 5), task(1, 0, Some(8), 3), task(1, 1, None, 5)]));
    let mut driver = driver(&tasks);
    let graph = driver.look().expect("a graph");
    let names: Vec<_> = graph.operators.iter().map(|operator| (operator.name.as_str(), operator.role)).collect();
    let expected = [("0.0 kafka", Role::Source), ("0.1 filter", Role::Inner), ("1.0 aggregate", Role::Inner)];
    assert_eq!(names[..3], expected);
    assert_eq!(names[3], ("1.1 print", Role::Sink));
    let edges: Vec<_> = graph.edges.iter().map(|edge| (edge.from.0, edge.to.0)).collect();
    assert_eq!(edges, [(0, 1), (2, 3), (1, 2)]);
    assert_eq!(graph.tasks.len(), 3, "the job that has ended has none");
    let kinds: Vec<_> = graph.threads.iter().map(|thread| (thread.id.tid, thread.kind)).collect();
    let of = |task| ThreadKind::Task(TaskIndex(task));
    assert_eq!(kinds, [(7, of(0)), (8, of(1)), (9, ThreadKind::Engine)]);

    let readings = driver.read(Nanos(5)).expect("readings");
    let value = |task, metric| {
        let mut found = readings.values.iter().filter(|r| (r.task, r.metric) == (TaskIndex(task), metric));
        found.next().map(|reading| reading.value)
    };
    assert_eq!((value(1, Metric::RowsIn), value(1, Metric::AgeMs)), (Some(10.0), Some(12.5)));
    assert_eq!((value(0, Metric::EpochsBehind), value(1, Metric::EpochsBehind)), (Some(0.0), Some(2.0)));
    assert_eq!((value(0, Metric::UntilWindowMs), value(1, Metric::UntilWindowMs)), (None, Some(8_000.0)));
    assert!(!driver.is_stale());
}

/// The engine counts since the job's start. A task that starts anew has fewer results than before.
#[test]
fn the_latency_is_that_of_results_since_the_last_reading() {
    let with = |rows: u64, mean_ms: f64| {
        let mut task = task(0, 0, Some(7), 5);
        task["result_latency"] = json!({"rows": rows, "mean_ms": mean_ms});
        task
    };
    let tasks = Arc::new(Mutex::new(vec![with(10, 4.0)]));
    let mut driver = driver(&tasks);
    driver.look().expect("a graph");
    for (document, expected) in [
        (with(10, 4.0), None),
        (with(10, 4.0), None),
        (with(30, 8.0), Some(10.0)),
        (with(31, 8.0), Some(8.0)),
        (with(2, 1.0), None),
        (with(4, 2.0), Some(3.0)),
    ] {
        *tasks.lock().expect("no panic") = vec![document];
        let readings = driver.read(Nanos(5)).expect("readings");
        let found = readings.values.iter().find(|reading| reading.metric == Metric::LatencyMs);
        assert_eq!(found.map(|reading| reading.value), expected);
    }
    assert!(driver.offers().contains(&Metric::LatencyMs));
}

#[test]
fn a_task_that_is_new_or_has_another_thread_makes_the_graph_stale() {
    for changed in [task(0, 0, Some(9), 5), task(0, 1, Some(7), 5)] {
        let tasks = Arc::new(Mutex::new(vec![task(0, 0, Some(7), 5)]));
        let mut driver = driver(&tasks);
        driver.look().expect("a graph");
        *tasks.lock().expect("no panic") = vec![changed];
        driver.read(Nanos(5)).expect("readings");
        assert!(driver.is_stale());
        driver.look().expect("a graph");
        assert!(!driver.is_stale());
    }
}

#[test]
fn a_job_that_orders_its_own_threads_is_left_alone() {
    let tasks = [task(0, 0, Some(7), 5)];
    let get = move |path: &str| {
        let mut answer = answers(path, &tasks)?;
        if path.ends_with("/plan") {
            answer["scheduling"] = json!("drain");
        }
        Ok(answer)
    };
    let mut driver = Anabranch::new(Box::new(get), Box::new(|_| [7, 8].map(thread).to_vec()));
    let graph = driver.look().expect("a graph");
    let kinds: Vec<_> = graph.threads.iter().map(|thread| (thread.id.tid, thread.kind)).collect();
    assert_eq!((kinds, graph.tasks.len()), (Vec::new(), 1), "its process is not another job's either");
    assert!(driver.left_alone()[0].starts_with("the threads of job 'ads' are left alone"));
}

#[test]
fn an_answer_without_lists_is_refused() {
    let get = |_: &str| Ok(json!({"ok": true}));
    let error = Anabranch::new(Box::new(get), Box::new(|_| Vec::new())).look().expect_err("refused").to_string();
    assert!(error.contains("no list 'workers'") && error.contains("running anabranch"), "{error}");
}
