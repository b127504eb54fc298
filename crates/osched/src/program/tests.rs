use std::time::Duration;

use anabranch_schedule::{Graph, Operator, OperatorIndex, Query, QueryIndex, Readings, Role, Task, TaskIndex};

use super::*;

fn nodes() -> (Nodes, Metrics) {
    let query = QueryIndex(0);
    let operator = |name: &str, role| Operator { query, name: name.to_owned(), role };
    let task = |name: &str, runs| Task { query, name: name.to_owned(), runs: vec![OperatorIndex(runs)] };
    let graph = Graph {
        queries: vec![Query { name: "q".to_owned() }],
        operators: vec![operator("a", Role::Source), operator("b", Role::Sink)],
        tasks: vec![task("a", 0), task("b", 1)],
        ..Graph::default()
    };
    let mut readings = Readings::default();
    readings.add(TaskIndex(0), Metric::QueueRows, 5.0);
    readings.add(TaskIndex(1), Metric::QueueRows, 8.0);
    let metrics = [(Metric::QueueRows, vec![5.0, 8.0])].into_iter().collect();
    (Nodes::new(&graph, &readings, Level::Task), metrics)
}

fn program(script: &str) -> Program {
    let command = ["sh", "-c", script].map(str::to_owned);
    Program::new(&command, Level::Task)
}

/// Asks until `done`, as the loop does.
fn until(program: &mut Program, done: impl Fn(&Result<Vec<f64>>) -> bool) -> Result<Vec<f64>> {
    let (nodes, metrics) = nodes();
    loop {
        let answer = program.priorities(&nodes, &metrics);
        if done(&answer) {
            return answer;
        }
        anabranch_model::pause(Duration::from_millis(10));
    }
}

#[test]
fn a_program_reads_metrics_and_writes_priorities() {
    // Its priorities are the queues that it was told.
    let script = r#"while read -r line; do
        a=$(printf '%s' "$line" | sed 's/.*"q\/a":{"queue_rows":\([0-9.]*\).*/\1/')
        b=$(printf '%s' "$line" | sed 's/.*"q\/b":{"queue_rows":\([0-9.]*\).*/\1/')
        printf '{"priorities": {"q/a": %s, "q/b": %s}}\n' "$a" "$b"
    done"#;
    let answer = until(&mut program(script), |answer| answer.as_ref().is_ok_and(|values| values[0] != 1.0));
    assert_eq!(answer.expect("priorities"), [5.0, 8.0]);
}

#[test]
fn rubbish_and_a_program_that_ends_are_told_and_nothing_is_preferred_meanwhile() {
    let mut rubbish = program("while read -r line; do echo rubbish; done");
    let error = until(&mut rubbish, Result::is_err).expect_err("refused").to_string();
    assert!(error.contains("no line of priorities") && error.contains("\"priorities\""), "{error}");
    let mut ends = program("exit 3");
    let error = until(&mut ends, Result::is_err).expect_err("ended").to_string();
    assert!(error.contains("has ended"), "{error}");
    let (nodes, metrics) = nodes();
    assert_eq!(ends.priorities(&nodes, &metrics).expect("all alike"), [1.0, 1.0]);
    let mut missing = Program::new(&["/does/not/exist".to_owned()], Level::Task);
    let error = until(&mut missing, Result::is_err).expect_err("refused").to_string();
    assert!(error.contains("cannot start the program"), "{error}");
}

#[test]
fn a_program_that_does_not_read_or_answer_holds_nothing_up() {
    let (nodes, metrics) = nodes();
    let mut hangs = program("sleep 1000");
    // More lines than fit into a pipe.
    for _ in 0..5_000 {
        assert_eq!(hangs.priorities(&nodes, &metrics).expect("all alike"), [1.0, 1.0]);
    }
}
