//! Lookup joins: joins with external tables that are looked up when a row arrives. The join begins a stage of
//! its own with the same number of tasks as the stage before, so that rows keep their order while they wait
//! for answers.

use anabranch_dataflow::{
    ExchangeKind, JoinKind, LookupJoinSpec, LookupKey, OnLate, OnMalformed, OperatorSpec, add_places,
};
use anabranch_model::{Error, Result};
use datafusion_expr::Expr as Logical;
use datafusion_expr::utils::conjunction;

use super::join::{Sides, fuse, needed_of_sides};
use super::stream::Stream;
use super::temporal_join::equal_columns;
use super::{Lowering, Needed, Want, same_values};
use crate::rel::{Columns, Rel};
use crate::table::Table;
use crate::temporal_join::{TemporalJoin, lookup_table};

impl Lowering<'_> {
    pub(super) fn lookup_join(&mut self, join: &TemporalJoin, needed: &Needed) -> Result<Stream> {
        let (left, right) = (join.left.as_ref(), join.right.as_ref());
        let table = lookup_table(right).ok_or_else(|| Error::internal("a lookup of something that is no table"))?;
        let here = |error: Error| error.at(format!("table {}", table.name));
        let indexes = [left.columns(), right.columns()];
        let (pairs, rest) = equal_columns(join, indexes).map_err(|_| here(no_keys(table)))?;
        let filter = conjunction(rest);
        let sides = Sides {
            kind: if join.outer { JoinKind::Left } else { JoinKind::Inner },
            probe: left,
            build: right,
            keys: pairs,
            build_first: false,
            with_build: true,
        };
        let output = needed_of_sides(needed, left);
        let wanted = sides.needed(&output, filter.as_ref())?;
        let build = self.lookup_side(right, &wanted[1]).map_err(here)?;
        let mut probe = self.plan(left, &wanted[0])?;
        if probe.weight.is_some() {
            return Err(here(updating_rows()));
        }
        // Before the exchange, because the join is the first operator of its stage.
        let read: Vec<&Logical> = sides.keys.iter().map(|(key, _)| *key).chain(filter.as_ref()).collect();
        probe.assign_windows_for(&read, indexes[0])?;
        let (tasks, tasks_max) = (probe.parallelism, probe.tasks_max);
        let mut probe = self.exchange(probe, ExchangeKind::Forward, tasks, format!("lookup {}", table.name));
        probe.tasks_max = tasks_max;
        let (mut joined, spec) = fuse(filter.as_ref(), &sides, probe, &build, &output)?;
        add_places(&mut self.origins.present, &build.source_places);
        let Some((mut source, operators)) = build.into_plain_table() else {
            return Err(here(
                Error::user("its rows are not only filtered and computed, so it cannot be looked up")
                    .remedy("name the table itself after JOIN"),
            ));
        };
        (source.watermark, source.on_late) = (None, OnLate::Drop);
        let keys = lookup_keys(&source.projection, right, &sides.keys, indexes[1]);
        if keys.is_empty() {
            return Err(here(no_keys(table)));
        }
        if matches!(source.on_malformed, OnMalformed::DeadLetter(_)) {
            return Err(here(
                Error::user("records of a lookup table cannot go to a dead-letter table")
                    .remedy("use 'on-malformed' = 'skip' or 'fail'"),
            ));
        }
        let (cache, max_retries) = (table.options.lookup.cache.clone(), table.options.lookup.max_retries);
        let lookup = LookupJoinSpec { join: spec, table: source, operators, keys, cache, max_retries };
        joined.operators.push(OperatorSpec::LookupJoin(Box::new(lookup)));
        Ok(joined)
    }

    /// Lowers the lookup table.
    fn lookup_side(&mut self, plan: &Rel, needed: &Needed) -> Result<Stream> {
        let (reads, by_clock) = (std::mem::take(&mut self.reads), self.by_clock.take());
        let build = self.build_side(plan, &Want { is_lookup: true, ..Want::columns(needed.clone()) });
        (self.reads, self.by_clock) = (reads, by_clock);
        build
    }
}

/// The columns by which a table is looked up, as indexes among the decoded columns.
fn lookup_keys(decoded: &[usize], table: &Rel, pairs: &[(&Logical, &Logical)], index: &Columns) -> Vec<LookupKey> {
    let mut keys: Vec<LookupKey> = Vec::new();
    for (key, (_, theirs)) in pairs.iter().enumerate() {
        let column = same_values(theirs, index).and_then(|column| physical_column(table, column));
        let column = column.and_then(|column| decoded.iter().position(|own| *own == column));
        // A column that is compared twice is looked up by the first value. The join compares both.
        if let Some(column) = column.filter(|column| keys.iter().all(|known| known.column != *column)) {
            keys.push(LookupKey { column, key });
        }
    }
    keys
}

/// The column of a table's records that a column of the plan passes on.
fn physical_column(plan: &Rel, index: usize) -> Option<usize> {
    match plan {
        Rel::Project(projection) => {
            let below = projection.input.columns();
            let column = match projection.exprs.get(index)? {
                Logical::Column(column) => below.find(column)?,
                _ => return None,
            };
            physical_column(&projection.input, column)
        }
        Rel::Filter(filter) => physical_column(&filter.input, index),
        Rel::Get(scan) => match &scan.projection {
            Some(columns) => columns.get(index).copied(),
            None => Some(index),
        },
        _ => None,
    }
}

fn no_keys(table: &Table) -> Error {
    Error::user(format!("the condition of the join has no column for the lookup of table '{}'", table.name))
        .remedy("compare a column of it with = in ON, as it is declared: convert the other side if the types differ, CAST(o.id AS INT) = t.id")
}

fn updating_rows() -> Error {
    Error::user("a lookup join cannot read updated rows: the table may have changed when a row is retracted")
        .remedy("join before you aggregate; or join a table that is read once: leave out FOR SYSTEM_TIME AS OF")
}
