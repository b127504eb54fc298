//! Narrows filters: a filter passes on only the columns that the next operator reads.

use std::collections::BTreeSet;

use anabranch_dataflow::{AggregatePhase, Expr, OperatorSpec, Stage};
use anabranch_model::{Error, Result};

/// Narrows the filters of all chains, except chains that begin with a join of streams: such a join may become
/// part of a multi-way join. Stateful operators keep their columns.
pub(super) fn narrow_filters(stages: &mut [Stage]) -> Result<()> {
    let is_join = |stage: &Stage| {
        matches!(stage.operators.first(), Some(OperatorSpec::StreamJoin(_) | OperatorSpec::MultiJoin(_)))
    };
    for stage in stages.iter_mut().filter(|stage| !is_join(stage)) {
        for at in 1..stage.operators.len() {
            let (before, after) = stage.operators.split_at_mut(at);
            let (Some(OperatorSpec::Filter { predicate, keep }), [next, ..]) = (before.last_mut(), after) else {
                continue;
            };
            let read = columns_read(next);
            let mut is_wider = false;
            predicate.for_each_column(&mut |column| is_wider |= !read.contains(&column));
            if is_wider && !read.is_empty() {
                let read: Vec<usize> = read.into_iter().collect();
                take_columns(next, &read)?;
                *keep = Some(read);
            }
        }
    }
    Ok(())
}

/// The columns that an operator reads of its input. Empty: it may read all.
fn columns_read(operator: &OperatorSpec) -> BTreeSet<usize> {
    let mut read = BTreeSet::new();
    let mut visit = |expr: &Expr| expr.for_each_column(&mut |column| _ = read.insert(column));
    match operator {
        OperatorSpec::Project { columns } => columns.iter().for_each(|column| visit(&column.expr)),
        OperatorSpec::WindowAggregate(spec) if spec.phase == AggregatePhase::Partial => {
            spec.time.iter().for_each(&mut visit);
            spec.keys.iter().for_each(|key| visit(&key.expr));
            spec.aggregates.iter().flat_map(|call| call.args.iter().chain(&call.filter)).for_each(visit);
        }
        OperatorSpec::StaticJoin(spec) => {
            spec.probe_keys.iter().chain(&spec.filter).for_each(visit);
            read.extend(&spec.output);
            read.split_off(&spec.probe_schema.fields().len());
        }
        _ => {}
    }
    read
}

/// Changes an operator to an input with only these columns.
fn take_columns(operator: &mut OperatorSpec, kept: &[usize]) -> Result<()> {
    let position = |column: usize| kept.binary_search(&column).unwrap_or_default();
    let move_to = |expr: &mut Expr| *expr = expr.with_columns_at(&position);
    let broken = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    match operator {
        OperatorSpec::Project { columns } => columns.iter_mut().for_each(|column| move_to(&mut column.expr)),
        OperatorSpec::WindowAggregate(spec) => {
            spec.time.iter_mut().for_each(move_to);
            spec.keys.iter_mut().for_each(|key| move_to(&mut key.expr));
            spec.aggregates.iter_mut().flat_map(|call| call.args.iter_mut().chain(&mut call.filter)).for_each(move_to);
            spec.input_schema = spec.input_schema.project(kept).map_err(broken)?.into();
        }
        OperatorSpec::StaticJoin(spec) => {
            let width = spec.probe_schema.fields().len();
            // The columns of the build side follow.
            let joined = |column: usize| column.checked_sub(width).map_or(position(column), |built| kept.len() + built);
            spec.probe_keys.iter_mut().for_each(move_to);
            spec.filter.iter_mut().for_each(|filter| *filter = filter.with_columns_at(&joined));
            spec.output.iter_mut().for_each(|column| *column = joined(*column));
            spec.probe_schema = spec.probe_schema.project(kept).map_err(broken)?.into();
        }
        _ => {}
    }
    Ok(())
}
