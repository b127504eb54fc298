//! Latest rows of keys, for a sink whose primary key does not identify the query's rows: of the present rows
//! with a key, the latest one. As in Flink's `SinkUpsertMaterializer`, the retraction of a row restores the
//! one before.

use anabranch_dataflow::{AggregateSpec, Expr, GroupAggregateSpec, NamedExpr, OperatorSpec, weight_field};
use arrow::datatypes::{DataType, Field, Fields};

use super::Lowering;
use super::group_aggregate::weight_of;
use super::session_rows::row_of;
use super::stream::Stream;
use crate::maps::has_map;

const LATEST: &str = "latest";

impl Lowering<'_> {
    /// Keeps the latest row of each key. The rows are updating, and have a sink's columns and the weight.
    pub(super) fn latest_of_keys(&mut self, stream: Stream, weight: usize, key: &[usize]) -> Stream {
        let stage = self.keyed_stage(LATEST, false);
        let (label, tasks_max) = (stage.label.clone(), stage.tasks_max);
        let mut next = match stage.continues(&stream) {
            true => stream,
            false => self.exchange_to(stage, key.to_vec(), stream),
        };
        (next.label, next.tasks_max) = (label, tasks_max);
        let fields = next.physical.clone();
        let others: Vec<usize> =
            (0..fields.len()).filter(|column| *column != weight && !key.contains(column)).collect();
        let row: Fields = others.iter().map(|column| fields[*column].clone().with_nullable(true)).collect();
        let row_type = DataType::Struct(row.clone());
        let latest = AggregateSpec {
            name: "row".to_owned(),
            function: "last_value".to_owned(),
            args: vec![row_of(row.iter().map(AsRef::as_ref).zip(others.iter().copied()))],
            distinct: false,
            filter: None,
            data_type: row_type.clone(),
            nullable: true,
        };
        next.operators.push(OperatorSpec::GroupAggregate(GroupAggregateSpec {
            keys: key.iter().map(|column| NamedExpr::with_field(Expr::Column(*column), &fields[*column])).collect(),
            // If all columns are keys, counting is enough.
            aggregates: (!others.is_empty()).then_some(latest).into_iter().collect(),
            weight: Some(weight),
            input_schema: next.physical_schema(),
            time_to_live_ms: self.table.time_to_live_ms,
            mini_batch_rows: self.table.mini_batch_rows,
            emission: None,
            zone: None,
        }));
        let counted = key.len() + usize::from(!others.is_empty());
        next.physical = key.iter().map(|column| fields[*column].clone()).collect();
        next.physical.extend((!others.is_empty()).then(|| Field::new("row", row_type, true)));
        next.physical.push(weight_field());
        let value = |(column, field): (usize, &Field)| match key.iter().position(|key| *key == column) {
            Some(index) => NamedExpr::with_field(Expr::Column(index), field),
            None => {
                let args = vec![Expr::Column(key.len()), Expr::text(field.name())];
                let (function, returns) = ("get_field".to_owned(), field.data_type().clone());
                NamedExpr::with_field(Expr::Call { function, args, returns, fails: false, varies: false }, field)
            }
        };
        let columns = fields.iter().enumerate().filter(|(column, _)| *column != weight).map(value);
        next.project(columns.chain([weight_of(Expr::Column(counted))]).collect(), true);
        (next.weight, next.unique) = (Some(fields.len() - 1), Some(key.to_vec()));
        next
    }
}

impl Stream {
    /// The index of the weight, if several updating rows may have the same key. `None` also if a column has
    /// maps, which cannot be compared.
    pub(super) fn weight_of_conflicts(&self, key: &[usize]) -> Option<usize> {
        let has_no_map = !self.physical.iter().any(|field| has_map(field.data_type()));
        self.weight.filter(|_| has_no_map && !key.is_empty() && !self.is_unique_by(key))
    }
}
