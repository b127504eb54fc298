//! Rows in queues from counters.

use super::{close, readings};
use crate::tests::{each_seed, graph};
use crate::{Graph, Level, Metric, Nodes, Provider};

/// A provider over counters, and over batches if there are some.
struct Counted {
    graph: Graph,
    provider: Provider,
}

impl Counted {
    fn new(graph: Graph, offered: &[Metric]) -> Counted {
        let provider = Provider::new(offered.iter().copied(), [Metric::QueueRows]).expect("it can be had");
        Counted { graph, provider }
    }

    fn of_counters(graph: Graph) -> Counted {
        Counted::new(graph, &[Metric::RowsIn, Metric::RowsOut])
    }

    /// The queues after these counters: received and emitted of each task.
    fn rows(&mut self, counters: &[(f64, f64)]) -> Vec<f64> {
        let of_task = |(task, (taken, emitted)): (usize, &(f64, f64))| {
            [(task, Metric::RowsIn, *taken), (task, Metric::RowsOut, *emitted)]
        };
        self.look(&counters.iter().enumerate().flat_map(of_task).collect::<Vec<_>>(), Level::Task)
    }

    fn look(&mut self, values: &[(usize, Metric, f64)], level: Level) -> Vec<f64> {
        let nodes = Nodes::new(&self.graph, &readings(values), level);
        self.provider.evaluate(&nodes).column(Metric::QueueRows).expect("it was wanted").to_vec()
    }
}

fn line() -> Graph {
    graph(&[("s", 1), ("a", 1), ("x", 1)], &[("s", "a"), ("a", "x")])
}

#[test]
fn what_was_emitted_and_not_received_waits() {
    let mut counted = Counted::of_counters(line());
    close(&counted.rows(&[(0.0, 100.0), (90.0, 45.0), (45.0, 0.0)]), &[0.0, 10.0, 0.0]);
    close(&counted.rows(&[(0.0, 200.0), (120.0, 60.0), (55.0, 0.0)]), &[0.0, 80.0, 5.0]);
    close(&counted.rows(&[(0.0, 200.0), (f64::NAN, 80.0), (80.0, 0.0)]), &[0.0, f64::NAN, 0.0]);
    close(&counted.rows(&[(0.0, 300.0), (200.0, 100.0), (80.0, 0.0)]), &[0.0, 100.0, 20.0]);
}

#[test]
fn constants_from_before_the_first_look_do_not_count() {
    let mut counted = Counted::of_counters(line());
    // The operator a was restarted long ago, x was not.
    close(&counted.rows(&[(0.0, 1e9), (0.0, 0.0), (5e8, 0.0)]), &[0.0, 0.0, 0.0]);
    close(&counted.rows(&[(0.0, 1e9 + 70.0), (20.0, 10.0), (5e8 + 3.0, 0.0)]), &[0.0, 50.0, 7.0]);
    // More is received than was emitted: rows waited at the first look.
    close(&counted.rows(&[(0.0, 1e9 + 70.0), (90.0, 10.0), (5e8 + 10.0, 0.0)]), &[0.0, 0.0, 0.0]);
    close(&counted.rows(&[(0.0, 1e9 + 80.0), (90.0, 10.0), (5e8 + 10.0, 0.0)]), &[0.0, 10.0, 0.0]);
}

#[test]
fn counters_that_begin_anew_are_measured_anew() {
    let mut counted = Counted::of_counters(line());
    counted.rows(&[(0.0, 1000.0), (400.0, 400.0), (400.0, 0.0)]);
    close(&counted.rows(&[(0.0, 50.0), (20.0, 20.0), (20.0, 0.0)]), &[0.0, 30.0, 0.0]);
    // Only the operator behind: its former rows are no queue if they are too many for one.
    counted.rows(&[(0.0, 1e6), (1e6, 1e6), (1e6, 0.0)]);
    close(&counted.rows(&[(0.0, 1e6 + 10.0), (1e6 + 10.0, 1e6 + 10.0), (0.0, 0.0)]), &[0.0, 0.0, 0.0]);
    close(&counted.rows(&[(0.0, 1e6 + 10.0), (1e6 + 10.0, 1e6 + 40.0), (10.0, 0.0)]), &[0.0, 0.0, 20.0]);
}

#[test]
fn a_queue_without_a_batch_is_empty() {
    let mut counted = Counted::new(line(), &[Metric::RowsIn, Metric::RowsOut, Metric::QueueBatches]);
    let mut look = |emitted: f64, received: f64, batches: f64| {
        let values = [(0, Metric::RowsOut, emitted), (1, Metric::RowsIn, received), (1, Metric::QueueBatches, batches)];
        counted.look(&values, Level::Task)[1]
    };
    assert_eq!(look(1000.0, 400.0, 1.0), 600.0, "taken as a queue");
    assert_eq!(look(1000.0, 500.0, 0.0), 0.0, "but 500 rows were lost before");
    assert_eq!(look(1100.0, 500.0, 1.0), 100.0);
}

#[test]
fn parallel_tasks_share_a_queue_evenly_and_more_tasks_begin_anew() {
    let two = || graph(&[("s", 2), ("a", 2), ("x", 1)], &[("s", "a"), ("a", "x")]);
    let mut counted = Counted::of_counters(two());
    let rows = counted.rows(&[(0.0, 60.0), (0.0, 40.0), (70.0, 70.0), (10.0, 10.0), (80.0, 0.0)]);
    close(&rows, &[0.0, 0.0, 10.0, 10.0, 0.0]);
    let mut by_operator = Counted::of_counters(two());
    let values =
        [(0, Metric::RowsOut, 60.0), (1, Metric::RowsOut, 40.0), (2, Metric::RowsIn, 70.0), (3, Metric::RowsIn, 10.0)];
    close(&by_operator.look(&values, Level::Operator)[..2], &[0.0, 20.0]);
    counted.graph = graph(&[("s", 1), ("a", 1), ("x", 1)], &[("s", "a"), ("a", "x")]);
    close(&counted.rows(&[(0.0, 1e7), (70.0, 70.0), (80.0, 0.0)]), &[0.0, 0.0, 0.0]);
}

#[test]
fn rows_are_taken_as_copied_until_one_output_has_more_than_its_part() {
    let fan = graph(&[("s", 1), ("a", 1), ("b", 1)], &[("s", "a"), ("s", "b")]);
    let mut counted = Counted::of_counters(fan);
    close(&counted.rows(&[(0.0, 1000.0), (400.0, 0.0), (500.0, 0.0)]), &[0.0, 100.0, 0.0]);
    // 1900 of 2000 rows went to a: they are not copied. 40 rows wait, as it received.
    let rows = counted.rows(&[(0.0, 2000.0), (1862.0, 0.0), (98.0, 0.0)]);
    close(&rows, &[0.0, 38.0, 2.0]);
}

/// A simple line with batches of random sizes: the estimate is exact.
#[test]
fn the_rows_of_a_line_are_exact() {
    each_seed(100, |rng| {
        let mut counted = Counted::of_counters(line());
        let (mut emitted, mut received, mut passed, mut written) = (0.0, 0.0, 0.0, 0.0);
        for _ in 0..50 {
            emitted += rng.below(100) as f64;
            let taken = rng.below((emitted - received) as u64 + 1) as f64;
            received += taken;
            passed += (taken / 2.0).floor();
            written += rng.below((passed - written) as u64 + 1) as f64;
            let rows = counted.rows(&[(0.0, emitted), (received, passed), (written, 0.0)]);
            close(&rows, &[0.0, emitted - received, passed - written]);
        }
    });
}
