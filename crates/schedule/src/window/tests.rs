use super::*;
use crate::tests::graph;

const SECOND: u64 = 1_000_000_000;

fn at(seconds: f64, values: &[(usize, Metric, f64)]) -> Readings {
    let mut readings = Readings { at: Nanos((seconds * SECOND as f64) as u64), values: Vec::new() };
    values.iter().for_each(|(task, metric, value)| readings.add(TaskIndex(*task), *metric, *value));
    readings
}

fn value(readings: &Readings, task: usize, metric: Metric) -> Option<f64> {
    let found = readings.values.iter().filter(|reading| reading.task.0 == task && reading.metric == metric);
    let found: Vec<f64> = found.map(|reading| reading.value).collect();
    assert!(found.len() <= 1, "{metric:?} of task {task} is there {} times", found.len());
    found.first().copied()
}

fn line() -> Graph {
    graph(&[("a", 1), ("b", 1)], &[("a", "b")])
}

#[test]
fn rates_follow_from_two_readings_and_a_jump_is_smoothed() {
    let (graph, mut window) = (line(), Window::new());
    let first = window.update(&graph, &at(0.0, &[(0, Metric::RowsOut, 500.0), (0, Metric::CpuNs, 0.0)]));
    assert_eq!(first.values.len(), 2, "a rate needs two readings");
    let second = window.update(&graph, &at(0.5, &[(0, Metric::RowsOut, 600.0), (0, Metric::CpuNs, 1e8)]));
    assert_eq!(value(&second, 0, Metric::OutRate), Some(200.0));
    assert_eq!(value(&second, 0, Metric::CpuShare), Some(0.2));
    assert_eq!(value(&second, 0, Metric::RowsOut), Some(600.0), "counters stay");
    let jump = window.update(&graph, &at(2.5, &[(0, Metric::RowsOut, 2600.0)]));
    let expected = 200.0 + (1.0 - (-1.0_f64).exp()) * 800.0;
    assert!((value(&jump, 0, Metric::OutRate).expect("a rate") - expected).abs() < 1e-9);
    assert_eq!(value(&jump, 0, Metric::CpuShare), Some(0.2), "the counter is missing, the rate stays");
}

#[test]
fn a_late_reading_changes_nothing_and_values_that_are_not_finite_are_left_out() {
    let (graph, mut window) = (line(), Window::new());
    window.update(&graph, &at(0.0, &[(0, Metric::RowsIn, 0.0)]));
    window.update(&graph, &at(1.0, &[(0, Metric::RowsIn, 10.0)]));
    for late in [1.0, 0.5] {
        let again = window.update(&graph, &at(late, &[(0, Metric::RowsIn, 11.0)]));
        assert_eq!(value(&again, 0, Metric::InRate), Some(10.0), "at {late}");
    }
    let broken = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(|broken| (0, Metric::RowsIn, broken));
    for reading in broken {
        let rates = window.update(&graph, &at(1.5, &[reading, (1, Metric::QueueRows, f64::NAN)]));
        assert_eq!((value(&rates, 0, Metric::RowsIn), value(&rates, 1, Metric::QueueRows)), (None, None));
        assert_eq!(value(&rates, 0, Metric::InRate), Some(10.0));
    }
    let next = window.update(&graph, &at(2.0, &[(0, Metric::RowsIn, 20.0)]));
    assert_eq!(value(&next, 0, Metric::InRate), Some(10.0), "measured from the last good reading");
}

#[test]
fn a_counter_that_begins_anew_has_no_rate_until_it_has_two_readings() {
    let (graph, mut window) = (line(), Window::new());
    window.update(&graph, &at(0.0, &[(0, Metric::RowsIn, 1e6)]));
    window.update(&graph, &at(1.0, &[(0, Metric::RowsIn, 2e6)]));
    let restarted = window.update(&graph, &at(2.0, &[(0, Metric::RowsIn, 5.0)]));
    assert_eq!(value(&restarted, 0, Metric::InRate), None);
    let next = window.update(&graph, &at(3.0, &[(0, Metric::RowsIn, 105.0)]));
    assert_eq!(value(&next, 0, Metric::InRate), Some(100.0), "the former run does not count");
}

#[test]
fn a_rate_that_nobody_confirms_becomes_unknown() {
    let (graph, mut window) = (line(), Window::new());
    window.update(&graph, &at(0.0, &[(0, Metric::RowsIn, 0.0)]));
    window.update(&graph, &at(1.0, &[(0, Metric::RowsIn, 10.0)]));
    assert_eq!(value(&window.update(&graph, &at(11.0, &[])), 0, Metric::InRate), Some(10.0));
    assert_eq!(value(&window.update(&graph, &at(11.1, &[])), 0, Metric::InRate), None);
}

#[test]
fn tasks_are_known_by_name_and_a_rate_that_the_driver_reports_stays() {
    let mut window = Window::new();
    window.update(&line(), &at(0.0, &[(1, Metric::RowsIn, 0.0)]));
    let renumbered = graph(&[("x", 1), ("a", 1), ("b", 1)], &[("a", "b")]);
    let reading = [(0, Metric::RowsIn, 7.0), (2, Metric::RowsIn, 50.0), (9, Metric::RowsIn, 1.0)];
    let second = window.update(&renumbered, &at(1.0, &reading));
    assert_eq!((value(&second, 0, Metric::InRate), value(&second, 2, Metric::InRate)), (None, Some(50.0)));
    assert_eq!(value(&second, 9, Metric::RowsIn), None, "the graph has no such task");
    let reported = [(2, Metric::RowsIn, 100.0), (2, Metric::InRate, 77.0)];
    assert_eq!(value(&window.update(&renumbered, &at(2.0, &reported)), 2, Metric::InRate), Some(77.0));
}
