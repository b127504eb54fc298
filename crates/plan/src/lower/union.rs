//! Lowers `UNION ALL`: each branch is a separate chain, and all feed the same next chain.

use anabranch_dataflow::{ExchangeKind, Expr, Port};
use anabranch_model::{Error, Result};

use super::stream::{LogicalColumn, Stream};
use super::{Lowering, Needed};
use crate::rel::Union;
use crate::zones::is_instant;

impl Lowering<'_> {
    pub(super) fn union(&mut self, union: &Union, needed: &Needed) -> Result<Stream> {
        let mut branches = Vec::new();
        for input in &union.inputs {
            let mut branch = self.plan(input, needed)?;
            branch.leave_window()?;
            branch.stamps.clear();
            branches.push(branch);
        }
        let columns = union.columns.fields().iter().enumerate().map(|(index, field)| LogicalColumn {
            nullable: field.is_nullable() || branches.iter().any(|branch| branch.columns[index].nullable),
            ..LogicalColumn::absent(field)
        });
        let columns: Vec<LogicalColumn> = columns.collect();
        for branch in &mut branches {
            let own = std::mem::take(&mut branch.columns).into_iter();
            let valued = columns.iter().zip(own).enumerate().map(|(index, (column, own))| LogicalColumn {
                value: own.value.filter(|_| needed.contains(&index)),
                place: own.place,
                ..column.clone()
            });
            branch.columns = valued.collect();
            // All branches need the same physical columns.
            branch.materialize_as(true);
        }
        let updating = branches.iter().any(|branch| branch.weight.is_some());
        branches.iter_mut().filter(|branch| updating && branch.weight.is_none()).for_each(Stream::count_once);
        let parallelism = branches.iter().map(|b| b.parallelism).max().unwrap_or(1);
        let Some(first) = branches.first() else { return Err(Error::internal("a union of nothing")) };
        let mut merged = first.continued("union".into(), parallelism);
        for (index, column) in merged.columns.iter_mut().filter(|c| c.value.is_some()).enumerate() {
            column.value = Some(Expr::Column(index));
        }
        let bounds: Option<Vec<u32>> = branches.iter().map(|branch| branch.tasks_max).collect();
        merged.tasks_max = bounds.and_then(|bounds| bounds.into_iter().max());
        merged.unique = None;
        merged.bounded = branches.iter().all(|b| b.bounded);
        merged.has_event_time = branches.iter().all(|b| b.has_event_time);
        let largest_lag = |(column, ms): (&usize, &i64)| {
            let all: Option<Vec<i64>> = branches.iter().map(|branch| branch.times.get(column).copied()).collect();
            all.and_then(|all| all.into_iter().max()).map(|most| (*column, most.max(*ms)))
        };
        merged.times = branches[0].times.iter().filter_map(largest_lag).collect();
        if branches.iter().any(|branch| branch.zone != merged.zone) {
            merged.times.retain(|column, _| is_instant(&columns[*column].data_type));
            merged.zone = None;
        }
        merged.waits = branches.iter().any(|b| b.waits);
        for branch in branches {
            let kind = if branch.parallelism == parallelism { ExchangeKind::Forward } else { branch.divided() };
            let from = self.close(branch);
            merged = merged.fed_by(from, Port::Main, kind);
        }
        Ok(merged)
    }
}
