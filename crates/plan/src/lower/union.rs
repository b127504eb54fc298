//! `UNION ALL`: each branch is a chain of its own, and all feed one next chain.

use anabranch_dataflow::{ExchangeKind, Expr, Port};
use anabranch_model::{Error, Result};
use datafusion_expr::Union;

use super::stream::{LogicalColumn, Stream};
use super::{Lowering, Needed};

impl Lowering<'_> {
    pub(super) fn union(&mut self, union: &Union, needed: &Needed) -> Result<Stream> {
        let mut branches = Vec::new();
        for input in &union.inputs {
            let mut branch = self.plan(input, needed)?;
            branch.settle_window()?;
            branch.window = None;
            let fields = union.schema.fields().iter().enumerate();
            let columns: Vec<LogicalColumn> = fields
                .map(|(index, field)| LogicalColumn {
                    value: branch.columns[index].value.clone().filter(|_| needed.contains(&index)),
                    ..LogicalColumn::absent(field)
                })
                .collect();
            branch.columns = columns;
            // Branches meet in rows of the same shape.
            branch.materialize();
            branches.push(branch);
        }
        let parallelism = branches.iter().map(|b| b.parallelism).max().unwrap_or(1);
        let Some(first) = branches.first() else { return Err(Error::internal("a union of nothing")) };
        let mut merged = first.continued("union".into(), parallelism);
        for (index, column) in merged.columns.iter_mut().filter(|c| c.value.is_some()).enumerate() {
            column.value = Some(Expr::Column(index));
        }
        merged.bounded = branches.iter().all(|b| b.bounded);
        merged.has_event_time = branches.iter().all(|b| b.has_event_time);
        merged.waits = branches.iter().any(|b| b.waits);
        for branch in branches {
            let kind = if branch.parallelism == parallelism { ExchangeKind::Forward } else { ExchangeKind::Rebalance };
            let from = self.close(branch);
            merged = merged.fed_by(from, Port::Main, kind);
        }
        Ok(merged)
    }
}
