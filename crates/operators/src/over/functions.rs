//! The functions of one operator: aggregates with their accumulators, and `LAG`.

use anabranch_dataflow::{AggregateSpec, Expr, LAG, Literal, OverSpec, Scalar};
use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};

use super::{fifo, finite};
use crate::Functions as Registry;
use crate::group_aggregate::accumulator::{Call, Conditions, accumulator};
use crate::group_aggregate::readings::Readings;

pub(super) struct Functions {
    /// The columns that they read.
    pub(super) schema: SchemaRef,
    pub(super) calls: Vec<Call>,
    conditions: Conditions,
    pub(super) lags: Vec<Lag>,
}

/// The value of the row that is `rows` rows before.
pub(super) struct Lag {
    pub(super) rows: u64,
    /// Its column among those that the functions read.
    pub(super) column: usize,
    /// The column of the input with the default value, for rows without such a row.
    pub(super) otherwise: Option<usize>,
    /// Its index among the functions.
    pub(super) place: usize,
}

/// The columns of the input that functions read of earlier rows, in order.
pub(super) fn columns_read(spec: &OverSpec) -> Vec<usize> {
    let mut read = Vec::new();
    for aggregate in &spec.functions {
        let args =
            if aggregate.function == LAG { &aggregate.args[..aggregate.args.len().min(1)] } else { &aggregate.args };
        args.iter().chain(&aggregate.filter).for_each(|expr| expr.for_each_column(&mut |column| read.push(column)));
    }
    read.sort_unstable();
    read.dedup();
    read
}

impl Functions {
    pub(super) fn new(spec: &OverSpec, read: &[usize], registry: &Registry) -> Result<Functions> {
        let field = |column: &usize| {
            let field = spec.schema.field(*column);
            Field::new(field.name(), field.data_type().clone(), true)
        };
        let schema: SchemaRef = Schema::new(read.iter().map(field).collect::<Vec<_>>()).into();
        let (mut calls, mut conditions, mut lags) = (Vec::new(), Conditions::default(), Vec::new());
        for (place, aggregate) in spec.functions.iter().enumerate() {
            if aggregate.function == LAG {
                lags.push(lag(aggregate, place, read)?);
                continue;
            }
            let aggregate = renumbered(aggregate, read);
            let bounded = !spec.frame.is_unbounded();
            let call = Call::new(&aggregate, &schema, registry, &mut conditions, |args| {
                let argument = args.first().map(|arg| arg.data_type()).filter(|_| bounded);
                match argument.map(|argument| fifo::accumulator(&aggregate.function, argument)).transpose()? {
                    Some(Some(fifo)) => Ok(fifo),
                    _ => Ok(finite::counted(&aggregate.function, argument, accumulator(&aggregate, args, bounded)?)),
                }
            })?;
            calls.push(call);
        }
        Ok(Functions { schema, calls, conditions, lags })
    }

    /// Adds rows, and reads the results of aggregates between them.
    pub(super) fn run(
        &mut self,
        rows: &RecordBatch,
        (groups, weights): (&[usize], Option<&[i64]>),
        readings: &Readings,
    ) -> Result<Vec<ArrayRef>> {
        let Functions { calls, conditions, .. } = self;
        conditions.evaluate(rows, weights)?;
        calls.iter_mut().map(|call| call.running(rows, (groups, weights), conditions, readings)).collect()
    }

    pub(super) fn resize(&mut self, groups: usize) {
        self.calls.iter_mut().for_each(|call| call.accumulator.resize(groups));
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.calls.iter().map(|call| call.accumulator.size_bytes()).sum()
    }
}

/// The call with its columns renumbered for the columns that are read.
fn renumbered(aggregate: &AggregateSpec, read: &[usize]) -> AggregateSpec {
    fn renumber(expr: &mut Expr, read: &[usize]) {
        if let Expr::Column(column) = expr {
            *column = read.partition_point(|other| *other < *column);
        }
        expr.children_mut().into_iter().for_each(|child| renumber(child, read));
    }
    let mut aggregate = aggregate.clone();
    aggregate.args.iter_mut().chain(&mut aggregate.filter).for_each(|expr| renumber(expr, read));
    aggregate
}

fn lag(aggregate: &AggregateSpec, place: usize, read: &[usize]) -> Result<Lag> {
    let wrong = || Error::internal(format!("{aggregate} is no LAG of a column"));
    let (column, rows) = match aggregate.args.as_slice() {
        [Expr::Column(column), Expr::Literal(Literal { value: Some(Scalar::Integer(rows)), .. }), ..] => {
            (*column, *rows)
        }
        _ => return Err(wrong()),
    };
    let otherwise = match aggregate.args.get(2) {
        Some(Expr::Column(column)) => Some(*column),
        Some(_) => return Err(wrong()),
        None => None,
    };
    let rows = rows.try_into().map_err(|_| wrong())?;
    Ok(Lag { rows, column: read.partition_point(|other| *other < column), otherwise, place })
}
