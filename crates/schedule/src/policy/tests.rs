use std::collections::BTreeMap;

use super::given::LAST_GOOD_PERIODS;
use super::*;
use crate::tests::graph;
use crate::{Nodes, Provider, Readings};

fn line() -> Nodes {
    let graph = graph(&[("s", 1), ("a", 1), ("b", 1), ("x", 1)], &[("s", "a"), ("a", "b"), ("b", "x")]);
    Nodes::new(&graph, &Readings::default(), Level::Task)
}

fn metrics(metric: Metric, values: [f64; 4]) -> Metrics {
    Metrics::from_iter([(metric, values.to_vec())])
}

/// The nodes, the most important first; those of equal priority by their number.
fn order(priorities: &[f64]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..priorities.len()).collect();
    places.sort_by(|a, b| priorities[*b].total_cmp(&priorities[*a]));
    places
}

#[test]
fn each_policy_puts_first_what_it_is_named_for() {
    for (name, metric, values, first) in [
        ("queue-size", Metric::QueueRows, [0.0, 5.0, 9.0, 1.0], [2, 1, 3, 0]),
        ("highest-rate", Metric::PathRate, [1.0, 2.0, 3.0, 4.0], [3, 2, 1, 0]),
        ("first-come", Metric::AgeMs, [4.0, 1.0, 2.0, 3.0], [0, 3, 2, 1]),
        ("drain", Metric::DistanceToSink, [3.0, 2.0, 1.0, 0.0], [3, 2, 1, 0]),
        ("max-weight", Metric::Relief, [-5.0, 1.0, 0.0, 7.0], [3, 1, 2, 0]),
        ("marker", Metric::EpochsBehind, [0.0, f64::NAN, 2.0, 1.0], [2, 3, 0, 1]),
    ] {
        let mut policy = by_name(name, 0).expect("a known name");
        assert_eq!((policy.name(), policy.needs()), (name, vec![metric]));
        let priorities = policy.priorities(&line(), &metrics(metric, values)).expect("priorities");
        assert_eq!(order(&priorities), first, "{name}");
    }
}

#[test]
fn the_way_to_the_most_urgent_window_goes_first() {
    let until = metrics(Metric::UntilWindowMs, [f64::NAN, 500.0, 100.0, f64::NAN]);
    let mut deadline = by_name("deadline", 0).expect("a known name");
    let priorities = deadline.priorities(&line(), &until).expect("priorities");
    assert_eq!(priorities[..3], [-100.0; 3], "the watermark comes through the nodes before");
    assert!(priorities[3].is_nan(), "behind the windows nothing is due: in the middle");
}

#[test]
fn each_name_has_its_policy_and_an_unknown_one_the_nearest() {
    for name in POLICY_NAMES {
        let mut policy = by_name(name, 1).expect("a known name");
        assert_eq!(policy.name(), name);
        let all = Metrics::from_iter(policy.needs().into_iter().map(|metric| (metric, vec![1.0; 4])));
        assert_eq!(policy.priorities(&line(), &all).expect("priorities").len(), 4, "{name}");
        if !policy.needs().is_empty() {
            let error = policy.priorities(&line(), &Metrics::default()).expect_err("nothing was computed").to_string();
            assert!(error.contains("was not computed") && error.contains(name), "{error}");
        }
    }
    let error = by_name("queue-sice", 0).err().expect("no such policy").to_string();
    assert_eq!(error, "unknown policy 'queue-sice'\n  help: did you mean 'queue-size'?");
    let error = by_name("x", 0).err().expect("no such policy").to_string();
    assert!(error.contains("use one of: constant, deadline"), "{error}");
}

#[test]
fn chance_is_new_in_each_period_and_the_same_for_the_same_seed() {
    let draw = |policy: &mut Random| policy.priorities(&line(), &Metrics::default()).expect("priorities");
    let (mut a, mut b, mut other) = (Random::new(5), Random::new(5), Random::new(6));
    let first = draw(&mut a);
    assert_eq!(first, draw(&mut b));
    assert!(first != draw(&mut a) && first != draw(&mut other));
}

#[test]
fn an_answer_counts_for_three_periods_and_then_all_are_equal() {
    let mut given = Given::default();
    let ask = |given: &mut Given| given.priorities(&line());
    assert_eq!((ask(&mut given), given.is_stale()), (vec![1.0; 4], true));
    let answer = [("q/a 0", 5.0), ("q/b 0", 2.0), ("q/x 0", f64::NAN), ("q/gone 0", 1.0)];
    given.set(answer.iter().map(|(name, priority)| (name.to_string(), *priority)).collect::<BTreeMap<_, _>>());
    for _ in 0..LAST_GOOD_PERIODS {
        assert!(!given.is_stale());
        let priorities = ask(&mut given);
        assert!(priorities[0].is_nan() && priorities[3].is_nan() && priorities[1..3] == [5.0, 2.0], "{priorities:?}");
    }
    assert_eq!((ask(&mut given), given.is_stale()), (vec![1.0; 4], true));
}

/// Twice the queue less the age: what a user would write in SQL.
fn twice(columns: &[Vec<f64>]) -> Result<Vec<f64>> {
    if columns[0].iter().any(|rows| *rows < 0.0) {
        return Err(Error::user("a queue is below zero"));
    }
    Ok(columns[0].iter().zip(&columns[1]).map(|(rows, age)| 2.0 * rows - age).collect())
}

#[test]
fn a_formula_gets_its_columns_in_order_and_its_errors_name_it() {
    let formula = Formula { metrics: vec![Metric::QueueRows, Metric::AgeMs], evaluate: Box::new(twice) };
    let mut policy = FormulaPolicy::new(formula, "2 * queue_rows - age_ms", Level::Operator);
    assert_eq!((policy.level(), policy.needs().len()), (Level::Operator, 2));
    let columns = |first: f64| {
        let (rows, ages) = (vec![first, 1.0, 2.0, 3.0], vec![5.0, 6.0, 7.0, 8.0]);
        Metrics::from_iter([(Metric::AgeMs, ages), (Metric::QueueRows, rows)])
    };
    assert_eq!(policy.priorities(&line(), &columns(0.0)).expect("values"), [-5.0, -4.0, -3.0, -2.0]);
    let error = policy.priorities(&line(), &columns(-1.0)).expect_err("it fails").to_string();
    assert_eq!(error, "priority = \"2 * queue_rows - age_ms\": a queue is below zero");
}

#[test]
fn goals_are_numbers_over_the_nodes_that_they_are_about() {
    let value = |goal: Goal, metrics: Metrics| goal.value(&line(), &metrics);
    assert_eq!(value(Goal::QueueVariance, metrics(Metric::QueueRows, [1e6, 1.0, 3.0, f64::NAN])), 1.0, "no sources");
    assert_eq!(value(Goal::AgeMax, metrics(Metric::AgeMs, [f64::NAN, 1.0, 3.0, 2.0])), 3.0);
    assert_eq!(value(Goal::LatencyMean, metrics(Metric::LatencyMs, [f64::NAN, f64::NAN, 4.0, 8.0])), 6.0);
    let weighted =
        [(Metric::LatencyMs, vec![f64::NAN, f64::NAN, 4.0, 8.0]), (Metric::InRate, vec![9.0, 9.0, 3.0, 1.0])];
    assert_eq!(value(Goal::LatencyMean, Metrics::from_iter(weighted)), 5.0);
    for goal in [Goal::QueueVariance, Goal::AgeMax, Goal::LatencyMean, Goal::None] {
        assert!(value(goal, Metrics::default()).is_nan(), "{goal:?}");
    }
}

#[test]
fn the_metrics_of_each_policy_can_be_had_from_what_flink_and_the_kernel_report() {
    use Metric::*;
    let flink = [RowsIn, RowsOut, QueueBatches, QueueShare, CpuNs, WaitNs];
    for name in POLICY_NAMES.into_iter().filter(|name| !["deadline", "marker"].contains(name)) {
        Provider::new(flink, by_name(name, 0).expect("a known name").needs()).expect(name);
    }
}
