//! Readings of recorded reporters.

use super::*;

fn read(recorded: &Recorded) -> (Graph, Flink, BTreeMap<(usize, Metric), f64>) {
    let server = serve(recorded, as_recorded);
    let (mut flink, _) = driver(recorded, &server);
    let graph = flink.look().expect("a cluster");
    let readings = flink.read(Nanos(5)).expect("readings");
    assert_eq!(readings.at, Nanos(5));
    let values: BTreeMap<(usize, Metric), f64> =
        readings.values.iter().map(|r| ((r.task.0, r.metric), r.value)).collect();
    assert_eq!(values.len(), readings.values.len(), "each pair once");
    assert!(!flink.is_stale());
    (graph, flink, values)
}

/// Sum over the tasks of a vertex.
fn sum(graph: &Graph, values: &BTreeMap<(usize, Metric), f64>, vertex: &str, metric: Metric) -> f64 {
    let of = |index: &usize| graph.full_name(TaskIndex(*index)).starts_with(&format!("alpha/{vertex} ("));
    (0..graph.tasks.len()).filter(of).map(|index| values.get(&(index, metric)).copied().unwrap_or(f64::NAN)).sum()
}

/// What a vertex emits is what is received behind it, but for the rows that are on their way.
#[test]
fn rows_out_are_counted_as_often_as_they_are_received() {
    for recorded in [V1_20, V2_3] {
        let (graph, _, values) = read(&recorded);
        let sum = |vertex, metric| sum(&graph, &values, vertex, metric);
        for (from, to) in [
            ("Source: numbers", vec!["slow"]),
            ("slow", vec!["left", "right"]),
            ("everywhere", vec!["out: Writer"]),
            ("Timestamps/Watermarks", vec!["TumblingEventTimeWindows"]),
            ("TumblingEventTimeWindows", vec!["sums: Writer"]),
        ] {
            let out = sum(from, Metric::RowsOut);
            let received: f64 = to.iter().map(|to| sum(to, Metric::RowsIn)).sum();
            let limit = if from == "Source: numbers" { 0.5 } else { 0.02 };
            assert!((out - received).abs() <= limit * out, "{}: {from} {out} {to:?} {received}", recorded.folder);
        }
        // One of two outputs is distributed to both tasks: one row out is received three times.
        let (rows, out) = (sum("left", Metric::RowsIn), sum("left", Metric::RowsOut));
        assert!((out / rows - 3.0).abs() < 0.02, "{rows} {out}");
        let watermarks_in = sum("Timestamps/Watermarks", Metric::RowsIn);
        let merged = rows + sum("right", Metric::RowsOut);
        assert!((watermarks_in / merged - 1.0).abs() < 0.02);
    }
}

#[test]
fn queues_and_windows_are_read() {
    for recorded in [V1_20, V2_3] {
        let (graph, flink, values) = read(&recorded);
        let value = |name: &str, metric| values.get(&(task(&graph, name).0, metric)).copied();
        assert!(value("alpha/slow (1/2)", Metric::QueueBatches).expect("buffers") >= 1.0);
        assert!((0.0..=1.0).contains(&value("alpha/slow (1/2)", Metric::QueueShare).expect("a share")));
        let until = value("alpha/TumblingEventTimeWindows (1/2)", Metric::UntilWindowMs).expect("a window");
        assert!(until > 0.0 && until <= 2_000.0, "{until}");
        // A vertex without windows, and a source, which receives nothing.
        assert_eq!(value("alpha/slow (1/2)", Metric::UntilWindowMs), None);
        assert_eq!(value("alpha/Source: numbers (1/2)", Metric::RowsIn), None);
        assert_eq!(value("alpha/Source: numbers (1/2)", Metric::QueueBatches), None);
        let mut offers = flink.offers();
        offers.sort_unstable();
        let expected =
            [Metric::RowsIn, Metric::RowsOut, Metric::QueueBatches, Metric::QueueShare, Metric::UntilWindowMs];
        assert_eq!(offers, expected);
    }
}

/// A chain whose operators have outputs of their own is told from one whose last operator has all.
#[test]
fn the_outputs_of_a_chain_become_clear_from_what_is_received() {
    for (received, expected) in [(5_000.0, 1.0), (9_990.0, 2.0), (10.0, 1.0)] {
        let mut reporters = Reporters::default();
        let place = |vertex: &str, task, outputs, only_input: Option<&str>| graph::VertexPlace {
            job: "j".to_owned(),
            vertex: vertex.to_owned(),
            name: vertex.to_owned(),
            tasks: vec![TaskIndex(task)],
            outputs,
            window_step_ms: None,
            receives: only_input.is_some(),
            only_input: only_input.map(str::to_owned),
            receivers: if task == 0 { 2 } else { 0 },
        };
        let vertices = [
            place("a", 0, graph::Outputs::Between { low: 1.0, high: 2.0 }, None),
            place("b", 1, graph::Outputs::Factor(1.0), Some("a")),
            place("c", 2, graph::Outputs::Factor(1.0), Some("a")),
        ];
        let places = (0..3).map(|task| (("j".to_owned(), vertices[task].vertex.clone(), 0), TaskIndex(task))).collect();
        let emitted = Mutex::new(900.0);
        let server = Server::start(move |_, _| {
            let mut emitted = emitted.lock().expect("no panic");
            let line = |vertex: &str, name: &str, rows: f64| {
                format!(
                    "flink_taskmanager_job_task_{name}\
                     {{job_id=\"j\",task_id=\"{vertex}\",subtask_index=\"0\"}} {rows}\n"
                )
            };
            let half = received / 2.0;
            let page = line("a", "numRecordsOut", *emitted)
                + &line("b", "numRecordsIn", half)
                + &line("c", "numRecordsIn", half);
            *emitted = 5_000.0;
            Answer::Ok(page.into_bytes())
        });
        reporters.set(&BTreeSet::from([server.url.clone()]));
        let http =
            Http::new(HttpOptions { deadline: Duration::from_secs(60), ..HttpOptions::default() }).expect("a client");
        let mut rows_out = || {
            let mut readings = Readings::default();
            reporters.read(&http, &vertices, &places, &mut readings).expect("read");
            readings.values.iter().find(|reading| reading.metric == Metric::RowsOut).map(|reading| reading.value)
        };
        assert_eq!(rows_out(), None, "not clear yet");
        assert_eq!(rows_out(), Some(5_000.0 * expected));
    }
}
