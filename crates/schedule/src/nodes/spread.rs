//! Fusion: what one reading of a task says about each of the operators that it runs.

use std::collections::BTreeMap;

use crate::Metric;
use crate::metric::Side;

/// The values of the `operators` that a task runs, in their order, from the task's. NaN where the reading
/// says nothing.
///
/// Engines do not count rows inside a chain. The chain's selectivity is ascribed to its last operator: each
/// one before it emits what it receives, and all receive what the chain does. So the cost of a path through
/// the chain is what the thread spends per row of the chain. `source`: the chain begins with a source, which
/// may not count what it reads; its operators then receive what the chain emits.
pub(super) fn over_chain(
    metric: Metric,
    of_tasks: &BTreeMap<Metric, Vec<f64>>,
    task: usize,
    operators: usize,
    source: bool,
) -> Vec<f64> {
    let value = |metric: Metric| of_tasks.get(&metric).map_or(f64::NAN, |column| column[task]);
    let own = value(metric);
    let last = operators.saturating_sub(1);
    let inside = |taken: Metric, emitted: Metric| match value(taken) {
        rows if rows > 0.0 || !source => rows,
        _ => value(emitted),
    };
    (0..operators)
        .map(|place| match (metric, metric.side()) {
            (Metric::RowsIn, _) if place > 0 => inside(Metric::RowsIn, Metric::RowsOut),
            (Metric::InRate, _) if place > 0 => inside(Metric::InRate, Metric::OutRate),
            (Metric::RowsOut, _) if place < last => inside(Metric::RowsIn, Metric::RowsOut),
            (Metric::OutRate, _) if place < last => inside(Metric::InRate, Metric::OutRate),
            (Metric::Selectivity, _) if place < last => 1.0,
            (_, Side::Input) if place > 0 => f64::NAN,
            (_, Side::Output) if place < last => f64::NAN,
            (_, Side::Processor) => own / operators as f64,
            _ => own,
        })
        .collect()
}
