mod against_naive;
mod queues;

use super::*;
use crate::tests::graph;
use crate::{Level, Readings, TaskIndex};

pub(super) fn readings(values: &[(usize, Metric, f64)]) -> Readings {
    let mut readings = Readings::default();
    values.iter().for_each(|(task, metric, value)| readings.add(TaskIndex(*task), *metric, *value));
    readings
}

/// What rates of tasks say, where the engine reports rows and the kernel processor time.
const COUNTERS: [Metric; 3] = [Metric::RowsIn, Metric::RowsOut, Metric::CpuNs];

fn rates(values: &[(f64, f64, f64)]) -> Vec<(usize, Metric, f64)> {
    let of_task = |(task, (taken, emitted, share)): (usize, &(f64, f64, f64))| {
        [(task, Metric::InRate, *taken), (task, Metric::OutRate, *emitted), (task, Metric::CpuShare, *share)]
    };
    values.iter().enumerate().flat_map(of_task).collect()
}

fn close(found: &[f64], expected: &[f64]) {
    let equal = |(a, b): (&f64, &f64)| (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * b.abs().max(1.0);
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(equal), "{found:?} is not {expected:?}");
}

#[test]
fn what_is_offered_is_fetched_and_the_rest_derived_by_the_first_alternative_that_can_be_had() {
    let way = |offered: &[Metric], wanted: Metric| -> Vec<(Metric, bool)> {
        let provider = Provider::new(offered.iter().copied(), [wanted]).expect("it can be had");
        provider.steps.iter().map(|step| (step.metric, step.derived.is_some())).collect()
    };
    use Metric::*;
    assert_eq!(way(&[QueueRows, RowsIn, RowsOut], QueueRows), [(QueueRows, false)]);
    assert_eq!(way(&[QueueShare, QueueBytes], QueueRows), [(QueueShare, false), (QueueRows, true)]);
    assert_eq!(way(&[RowsIn, QueueBatches], QueueRows), [(QueueBatches, false), (QueueRows, true)]);
    assert_eq!(
        way(&[RowsIn, RowsOut, QueueBatches], QueueRows),
        [(RowsIn, false), (RowsOut, false), (QueueBatches, false), (QueueRows, true)]
    );
    assert_eq!(way(&[], DistanceToSink), [(DistanceToSink, true)]);
    // Figure 4 of the paper: one engine offers the leaves, another one what is between.
    let steps = way(&COUNTERS, PathRate);
    assert_eq!(steps.last(), Some(&(PathRate, true)));
    for needed in [RowsIn, InRate, OutRate, CpuShare, Selectivity, CostNs, PathSelectivity, PathCostNs] {
        assert_eq!(steps.iter().filter(|step| step.0 == needed).count(), 1, "{needed:?} once");
    }
    let fetched = way(&[Selectivity, CostNs], PathRate);
    assert!(fetched.contains(&(CostNs, false)) && !fetched.iter().any(|step| step.0 == RowsIn), "{fetched:?}");
}

#[test]
fn a_missing_leaf_is_named_with_its_remedy() {
    let missing = Provider::new([Metric::RowsIn, Metric::RowsOut], [Metric::PathRate]).expect_err("no processor time");
    assert_eq!((missing.wanted, &missing.leaves[..]), (Metric::PathRate, &[Metric::CpuNs][..]));
    let error = anabranch_model::Error::from(missing).to_string();
    let expected =
        "nothing reports cpu_ns, from which 'path_rate' is derived\n  help: run osched on the machine of the engine";
    assert!(error.starts_with(expected), "{error}");
    let missing = Provider::new([], [Metric::EpochsBehind]).expect_err("nothing is offered");
    assert_eq!(missing.to_string(), "nothing reports 'epochs_behind'");
    let missing = Provider::new([], [Metric::Selectivity]).expect_err("nothing is offered");
    assert_eq!(missing.leaves, [Metric::RowsIn, Metric::RowsOut]);
    assert!(!missing.remedy().is_empty() && missing.remedy().matches("reporter").count() == 1, "one remedy for both");
}

#[test]
fn what_cannot_be_had_leaves_the_others_as_they_were() {
    let mut provider = Provider::new([Metric::QueueRows], [Metric::QueueRows]).expect("it is offered");
    assert!(provider.want(Metric::PathRate).is_err());
    assert!(provider.has(Metric::QueueRows) && provider.steps.len() == 1);
    provider.want(Metric::DistanceToSink).expect("it needs nothing");
    assert!(provider.has(Metric::DistanceToSink));
}

#[test]
fn a_cycle_is_refused_unless_another_alternative_avoids_it() {
    fn nothing(_: &mut Scene) -> Vec<f64> {
        Vec::new()
    }
    const fn from(needs: &'static [Metric]) -> Alternative {
        Alternative { needs, derive: nothing }
    }
    static CIRCLE: [Definition; 2] = [
        Definition { metric: Metric::QueueRows, alternatives: &[from(&[Metric::AgeMs])] },
        Definition { metric: Metric::AgeMs, alternatives: &[from(&[Metric::QueueRows]), from(&[Metric::QueuedMs])] },
    ];
    let cycle = Provider::of_definitions(&CIRCLE, [Metric::RowsIn], [Metric::QueueRows]).expect_err("a cycle");
    assert_eq!(cycle.leaves, [Metric::QueuedMs], "the way that an engine can open is told");
    static ALONE: [Definition; 1] =
        [Definition { metric: Metric::QueueRows, alternatives: &[from(&[Metric::QueueRows])] }];
    let alone = Provider::of_definitions(&ALONE, [], [Metric::QueueRows]).expect_err("a cycle");
    assert_eq!(alone.to_string(), "the metric 'queue_rows' would be derived from itself, by 'queue_rows'");
    let provider = Provider::of_definitions(&CIRCLE, [Metric::QueuedMs], [Metric::QueueRows]).expect("by queued_ms");
    assert_eq!(provider.steps.len(), 3);
}

#[test]
fn no_definition_depends_on_itself() {
    let all: Vec<Metric> = Metric::all().collect();
    for definition in &ALL {
        let others = all.iter().copied().filter(|metric| *metric != definition.metric);
        for alternative in definition.alternatives {
            assert!(!alternative.needs.contains(&definition.metric), "{:?}", definition.metric);
        }
        Provider::new(others, [definition.metric]).expect("all others are offered");
    }
}

#[test]
fn a_path_counts_what_each_output_takes() {
    // a gives 2 rows per row, 1.5 of them to b and 0.5 to c; b keeps a third.
    let graph = graph(
        &[("s", 1), ("a", 1), ("b", 1), ("c", 1), ("x", 1), ("y", 1)],
        &[("s", "a"), ("a", "b"), ("a", "c"), ("b", "x"), ("c", "y")],
    );
    let rates = rates(&[
        (0.0, 100.0, 0.001),
        (100.0, 200.0, 0.1),
        (150.0, 50.0, 0.03),
        (50.0, 50.0, 0.02),
        (50.0, 0.0, 0.005),
        (50.0, 0.0, 0.005),
    ]);
    let nodes = Nodes::new(&graph, &readings(&rates), Level::Task);
    let mut provider = Provider::new(COUNTERS, [Metric::PathRate, Metric::CostNs]).expect("counters suffice");
    let metrics = provider.evaluate(&nodes);
    let column = |metric| metrics.column(metric).expect("it was wanted");
    close(column(Metric::Selectivity), &[1.0, 2.0, 1.0 / 3.0, 1.0, 1.0, 1.0]);
    close(column(Metric::CostNs), &[1e4, 1e6, 2e5, 4e5, 1e5, 1e5]);
    close(column(Metric::PathSelectivity), &[1.0, 1.0, 1.0 / 3.0, 1.0, 1.0, 1.0]);
    let b = 2e5 + 1e5 / 3.0;
    let a = 1e6 + 2.0 * (0.75 * b + 0.25 * 5e5);
    close(column(Metric::PathCostNs), &[a + 1e4, a, b, 5e5, 1e5, 1e5]);
    assert!((metrics.value(Metric::PathRate, 3) - 2000.0).abs() < 1e-9);
}

#[test]
fn a_node_without_rows_has_its_last_cost_or_the_median_of_the_others() {
    let graph = graph(&[("s", 1), ("a", 1), ("b", 1), ("x", 1)], &[("s", "a"), ("a", "b"), ("b", "x")]);
    let mut provider = Provider::new(COUNTERS, [Metric::CostNs, Metric::Selectivity]).expect("counters suffice");
    let mut evaluate = |rates: &[(f64, f64, f64)]| {
        let metrics = provider.evaluate(&Nodes::new(&graph, &readings(&self::rates(rates)), Level::Task));
        let column = |metric| metrics.column(metric).expect("it was wanted").to_vec();
        (column(Metric::CostNs), column(Metric::Selectivity))
    };
    let (cost, selectivity) = evaluate(&[(0.0, 0.0, 0.1), (0.0, 0.0, 0.0), (0.5, 0.0, 0.0), (0.0, 0.0, 0.0)]);
    assert!(cost.iter().all(|cost| cost.is_nan()), "nothing is known: {cost:?}");
    close(&selectivity, &[1.0; 4]);
    let busy = (0.0, 100.0, 0.01);
    let (cost, selectivity) = evaluate(&[busy, (100.0, 50.0, 0.03), (0.0, 0.0, 0.5), (100.0, 0.0, 0.02)]);
    close(&cost, &[1e5, 3e5, 2e5, 2e5]);
    close(&selectivity, &[1.0, 0.5, 1.0, 1.0]);
    let (cost, selectivity) = evaluate(&[busy, (0.0, 0.0, 0.5), (100.0, 0.0, 0.0), (100.0, 0.0, 0.04)]);
    close(&cost, &[1e5, 3e5, 1.0, 4e5]);
    close(&selectivity, &[1.0, 0.5, 0.0, 1.0]);
}

#[test]
fn age_is_fetched_or_follows_from_the_time_in_queues_or_from_littles_law() {
    let graph = graph(&[("s", 1), ("r", 1), ("j", 1), ("x", 1)], &[("s", "j"), ("r", "j"), ("j", "x")]);
    let values = [
        (1, Metric::QueuedMs, 7.0),
        (2, Metric::QueuedMs, 5.0),
        (0, Metric::QueueRows, 0.0),
        (1, Metric::QueueRows, 30.0),
        (2, Metric::QueueRows, 10.0),
        (3, Metric::QueueRows, 4.0),
        (0, Metric::InRate, 10.0),
        (1, Metric::InRate, 100.0),
        (2, Metric::InRate, 1000.0),
        (3, Metric::InRate, 0.0),
        (2, Metric::AgeMs, 99.0),
    ];
    let nodes = Nodes::new(&graph, &readings(&values), Level::Task);
    let age = |offered: &[Metric]| -> Vec<f64> {
        let mut provider = Provider::new(offered.iter().copied(), [Metric::AgeMs]).expect("it can be had");
        provider.evaluate(&nodes).column(Metric::AgeMs).expect("it was wanted").to_vec()
    };
    close(&age(&[Metric::AgeMs, Metric::QueuedMs]), &[f64::NAN, f64::NAN, 99.0, f64::NAN]);
    close(&age(&[Metric::QueuedMs]), &[f64::NAN, 7.0, 12.0, 12.0]);
    close(&age(&[Metric::QueueRows, Metric::InRate]), &[0.0, 300.0, 310.0, 4310.0]);
}

#[test]
fn relief_is_own_queue_less_what_is_added_behind_per_cost() {
    let graph = graph(&[("s", 1), ("a", 1), ("x", 2)], &[("s", "a"), ("a", "x")]);
    let mut values = rates(&[(0.0, 100.0, 0.001), (100.0, 50.0, 0.1), (25.0, 0.0, 0.05), (25.0, 0.0, 0.05)]);
    values.extend([(1, Metric::QueueRows, 80.0), (2, Metric::QueueRows, 20.0), (3, Metric::QueueRows, 40.0)]);
    let nodes = Nodes::new(&graph, &readings(&values), Level::Task);
    let offered = COUNTERS.into_iter().chain([Metric::QueueRows]);
    let mut provider = Provider::new(offered, [Metric::Relief]).expect("counters suffice");
    let relief = provider.evaluate(&nodes).column(Metric::Relief).expect("it was wanted").to_vec();
    close(&relief, &[f64::NAN, (80.0 - 0.5 * 30.0) * 1e3, 20.0 * 500.0, 40.0 * 500.0]);
}
