//! Aggregations that can take rows back, or change a result after they emit it. They have no window, or one
//! with an [`Emission`](super::emission::Emission).

use anabranch_dataflow::{
    AggregateSpec, EmissionSpec, ExchangeKind, Expr, GroupAggregateSpec, NamedExpr, OperatorSpec, sql_name,
    weight_field,
};
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field};

use super::aggregate::{Grouping, finish};
use super::stream::Stream;
use super::{AGGREGATE, Lowering, Needed};
use crate::maps::{has_map, not_comparable};
use crate::rel::Aggregate;

/// Functions whose accumulators can update their results.
const UPDATING: [&str; 14] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "var",
    "var_sample",
    "var_pop",
    "stddev",
    "stddev_pop",
    "first_value",
    "last_value",
    "array_agg",
    "string_agg",
];

impl Lowering<'_> {
    pub(super) fn group_aggregate(
        &mut self,
        aggregate: &Aggregate,
        needed: &Needed,
        stream: Stream,
        mut grouping: Grouping<'_>,
        emission: Option<EmissionSpec>,
    ) -> Result<Stream> {
        let place = match emission {
            Some(emission) if emission.is_once() => "in a window of rows that are updated",
            Some(_) => "in a window that is emitted early or changed late",
            None => "without a window",
        };
        for aggregate in &grouping.aggregates {
            check_function(aggregate, &stream, place)?;
        }
        let stage = self.keyed_stage(AGGREGATE, grouping.keys.is_empty());
        let mut stream = self.exchange_rows(stage, stream, &mut grouping);
        let spec = GroupAggregateSpec {
            keys: grouping.keys.clone(),
            aggregates: grouping.aggregates.clone(),
            weight: stream.weight,
            input_schema: stream.physical_schema(),
            time_to_live_ms: self.time_to_live_of(&aggregate.input).filter(|_| emission.is_none()),
            zone: emission.and_then(|_| stream.zone.clone()),
            emission,
            mini_batch_rows: self.table.mini_batch_rows,
        };
        let weight = spec.is_updating().then(|| spec.keys.len() + spec.aggregates.len());
        stream.operators.push(OperatorSpec::GroupAggregate(spec));
        finish(&mut stream, &grouping, aggregate, needed);
        stream.physical.extend(weight.map(|_| weight_field()));
        stream.weight = weight;
        // All keys count, also those without a value: the other keys alone are not unique.
        stream.unique = Some((0..aggregate.group_expr.len()).collect());
        Ok(stream)
    }
}

/// Checks that the function's accumulator can update its result. `place` names the context for errors.
pub(super) fn check_function(spec: &AggregateSpec, stream: &Stream, place: &str) -> Result<()> {
    let name = spec.function.to_uppercase();
    if !UPDATING.contains(&spec.function.as_str()) {
        let known = UPDATING.map(|name| if name == "string_agg" { "LISTAGG".to_owned() } else { name.to_uppercase() });
        let known = known.join(", ");
        return Err(Error::user(format!("{name} {place} is not supported yet"))
            .remedy(format!("aggregate append-only rows in a window, or use one of {known}")));
    }
    if spec.function == "string_agg" && !matches!(spec.args.get(1), Some(Expr::Literal(_))) {
        return Err(
            Error::user("the separator of LISTAGG is not a constant").remedy("write a text: LISTAGG(name, '; ')")
        );
    }
    let physical = |index: usize| stream.physical.get(index).map(|field: &Field| field.data_type().clone());
    let argument = spec.args.first().and_then(|arg| arg.data_type(&physical));
    let is_summed = |kind: &DataType| matches!(kind, DataType::Int64 | DataType::Float64 | DataType::Decimal128(..));
    match argument {
        Some(argument) if matches!(spec.function.as_str(), "sum" | "avg") && !is_summed(&argument) => {
            Err(Error::user(format!("{name} of {} {place} is not supported yet", sql_name(&argument)))
                .remedy("cast the argument to BIGINT, DECIMAL or DOUBLE"))
        }
        // The accumulator finds values by their bytes.
        Some(argument)
            if matches!(spec.function.as_str(), "array_agg" | "first_value" | "last_value") && has_map(&argument) =>
        {
            Err(not_comparable(&format!("the argument of {name}"), &argument))
        }
        _ => Ok(()),
    }
}

impl Stream {
    /// Distributes materialized rows among any number of tasks. A row and its retraction go to the same task,
    /// so that they keep their order.
    pub(super) fn divided(&self) -> ExchangeKind {
        let Some(weight) = self.weight else { return ExchangeKind::Rebalance };
        let columns = self.physical.iter().enumerate().filter(|(column, _)| *column != weight);
        let keys = columns.filter(|(_, field)| !has_map(field.data_type())).map(|(column, _)| column).collect();
        ExchangeKind::Hash { keys }
    }

    /// Distributes rows, which have a sink's columns, among the sink's tasks. All versions of a row go to the
    /// same task.
    pub(super) fn divided_for_sink(&self, key: &[usize]) -> ExchangeKind {
        match &self.unique {
            _ if self.weight.is_some() && !key.is_empty() => ExchangeKind::Hash { keys: key.to_vec() },
            Some(unique) if self.weight.is_some() => ExchangeKind::Hash { keys: unique.clone() },
            _ => self.divided(),
        }
    }

    /// Whether rows with the same key are versions of one row.
    pub(super) fn is_unique_by(&self, key: &[usize]) -> bool {
        self.unique.as_ref().is_some_and(|unique| unique.iter().all(|column| key.contains(column)))
    }

    /// The weight as a column of a projection at this index.
    pub(super) fn carried_weight(&mut self, at: usize) -> Option<NamedExpr> {
        let weight = self.weight?;
        self.weight = Some(at);
        Some(weight_of(Expr::Column(weight)))
    }

    /// Adds a weight, computed from the physical columns, to an append-only stream.
    pub(super) fn materialize_with(&mut self, weight: NamedExpr) {
        let index = self.physical.len();
        let columns = unchanged(&self.physical).chain([weight]).collect();
        self.physical.push(weight_field());
        self.operators.push(OperatorSpec::Project { columns });
        self.weight = Some(index);
    }

    /// Adds the weight 1 to a materialized append-only stream.
    pub(super) fn count_once(&mut self) {
        self.weight = Some(self.physical.len());
        self.project(unchanged(&self.physical).chain([weight_of(Expr::number(1))]).collect(), true);
    }
}

/// These physical columns as they are.
pub(super) fn unchanged(physical: &[Field]) -> impl Iterator<Item = NamedExpr> {
    physical.iter().enumerate().map(|(index, field)| NamedExpr::with_field(Expr::Column(index), field))
}

pub(super) fn weight_of(expr: Expr) -> NamedExpr {
    NamedExpr::with_field(expr, &weight_field())
}
