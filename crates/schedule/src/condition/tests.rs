use super::*;
use crate::tests::graph;
use crate::{Level, Readings};

fn of_pressure(pressure: f64) -> Target {
    Target { pressure, ..Target::default() }
}

#[test]
fn a_comparison_holds_until_the_value_has_gone_back_by_a_fifth() {
    let mut condition = Condition::parse("pressure > 0.05").expect("a condition");
    assert!(!condition.update(&Target::default()), "unknown at first");
    let steps =
        [(0.04, false), (0.05, false), (0.06, true), (0.05, true), (0.041, true), (0.03, false), (0.045, false)];
    for (pressure, holds) in steps {
        assert_eq!(condition.update(&of_pressure(pressure)), holds, "{pressure}");
    }
    condition.update(&of_pressure(1.0));
    assert!(condition.update(&Target::default()), "unknown leaves it as it was");

    let mut below = Condition::parse("cpu_share <= 50%").expect("a condition");
    for (share, holds) in [(0.51, false), (0.5, true), (0.59, true), (0.61, false), (0.55, false)] {
        assert_eq!(below.update(&Target { cpu_share: share, ..Target::default() }), holds, "{share}");
    }
}

#[test]
fn a_threshold_of_zero_has_no_margin() {
    let mut condition = Condition::parse("queue_rows > 0").expect("a condition");
    for (queue_rows, holds) in [(0.0, false), (1.0, true), (0.0, false)] {
        assert_eq!(condition.update(&Target { queue_rows, ..Target::default() }), holds, "{queue_rows}");
    }
}

#[test]
fn and_binds_closer_than_or() {
    let mut condition =
        Condition::parse("pressure > 5% and queue_rows_max>1000 or age_ms_max >= 2 s").expect("a condition");
    let target = |pressure: f64, queue_rows_max: f64, age_ms_max: f64| Target {
        pressure,
        queue_rows_max,
        age_ms_max,
        ..Target::default()
    };
    assert!(!condition.update(&target(0.1, 0.0, 0.0)));
    assert!(condition.update(&target(0.1, 1001.0, 0.0)));
    assert!(!condition.update(&target(0.0, 1001.0, 1999.0)));
    assert!(condition.update(&target(0.0, 0.0, 2000.0)));
    assert_eq!(condition.text(), "pressure > 5% and queue_rows_max>1000 or age_ms_max >= 2 s");
}

#[test]
fn a_target_is_what_its_nodes_are_and_a_condition_names_what_it_needs() {
    let graph = graph(&[("s", 1), ("a", 1), ("x", 1)], &[("s", "a"), ("a", "x")]);
    let nodes = Nodes::new(&graph, &Readings::default(), Level::Task);
    let metrics = Metrics::from_iter([
        (Metric::QueueRows, vec![1e6, 3.0, 4.0]),
        (Metric::WaitShare, vec![0.5, f64::NAN, 0.25]),
        (Metric::AgeMs, vec![1.0, 9.0, 2.0]),
    ]);
    let target = Target::of(&nodes, &metrics);
    assert_eq!((target.queue_rows, target.queue_rows_max), (7.0, 4.0), "without what waits outside");
    assert_eq!((target.wait_share, target.age_ms_max), (0.5, 9.0));
    assert!(target.pressure.is_nan() && target.latency_ms.is_nan());
    assert!(Target::of(&nodes, &Metrics::default()).queue_rows.is_nan());
    let condition = Condition::parse("pressure > 5% or queue_rows > 1 and queue_rows_max > 1 or age_ms_max < 1");
    assert_eq!(condition.expect("a condition").needs(), [Metric::QueueRows, Metric::AgeMs]);
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    for (text, message) in [
        ("", "column 1: a quantity is missing\n  help: write a condition as: pressure > 0.05"),
        ("presure > 1", "column 1: unknown quantity 'presure'\n  help: did you mean 'pressure'?"),
        ("pressure", "column 9: a comparison is missing\n  help: write a condition as: pressure > 0.05"),
        ("pressure = 1", "column 10: unknown comparison '='\n  help: use one of: >, >=, <, <="),
        ("pressure >", "column 11: a number is missing\n  help: write a condition as: pressure > 0.05"),
        ("pressure > much", "column 12: 'much' is no number\n  help: write a number of zero or more, as 0.05"),
        ("pressure > 5", "column 12: 5 is no share\n  help: a share is a number from 0 to 1: write 5% or 0.05"),
        (
            "pressure > 1s",
            "column 12: unexpected 's' after a number\n  help: a share is a number from 0 to 1, or has the unit %",
        ),
        ("queue_rows > 5 ms", "column 14: unexpected 'ms' after a number\n  help: a number of rows has no unit"),
        ("latency_ms > 5 h", "column 14: unexpected 'h' after a number\n  help: a time has the unit ms, s or min"),
        ("pressure > 5% but queue_rows > 1", "column 15: unexpected 'but'\n  help: join comparisons by 'and' or 'or'"),
        ("pressure > 5% and", "column 18: a quantity is missing\n  help: write a condition as: pressure > 0.05"),
    ] {
        let error = Condition::parse(text).expect_err(text).to_string();
        assert_eq!(error, format!("condition \"{text}\": {message}"), "{text}");
    }
}
