//! `JOIN t FOR SYSTEM_TIME AS OF o.ts` joins each row with the version of a row of `t` that is valid at its
//! event time. A bounded table without event time does not change, so that join is an ordinary one. `AS OF`
//! the processing time of a row, an external table is looked up when the row arrives.

use std::sync::Arc;

use anabranch_dataflow::{LookupCache, Lookups, sql_name};
use anabranch_model::Error;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{JoinType, Result};
use datafusion_expr::{Expr, ExprSchemable};
use datafusion_sql::sqlparser::ast::{self as ast, Join, JoinConstraint, JoinOperator, TableFactor, TableVersion};

use crate::bind::{Binder, Env, Names, Rows};
use crate::event_time::{TimeAttribute, time_attribute_of};
use crate::lower::version_key;
use crate::maps::shown;
use crate::place::through;
use crate::processing_time::is_call;
use crate::rel::{Col, Columns, Rel, joined_columns};
use crate::table::{Table, is_bounded};
use crate::window_assign::EVENT_TIME;

/// The operator; see the module.
#[derive(Clone, Debug)]
pub(crate) struct TemporalJoin {
    pub(crate) left: Arc<Rel>,
    pub(crate) right: Arc<Rel>,
    /// Over the columns of both sides.
    pub(crate) condition: Expr,
    /// `None`: the table is looked up when a row arrives.
    pub(crate) times: Option<VersionTimes>,
    /// The columns of the right side that identify a row. Empty: they are unknown.
    pub(crate) key: Vec<Expr>,
    /// Rows without a version have NULL for its columns.
    pub(crate) outer: bool,
    pub(crate) columns: Arc<Columns>,
}

/// The times that determine the version.
#[derive(Clone, Debug)]
pub(crate) struct VersionTimes {
    /// Event time, a column of the left side.
    pub(crate) time: Expr,
    /// The time from which a version is valid, a column of the right side.
    pub(crate) valid_from: Expr,
}

impl TemporalJoin {
    fn new(
        [left, right]: [Arc<Rel>; 2],
        (condition, times): (Expr, Option<VersionTimes>),
        key: Vec<Expr>,
        outer: bool,
    ) -> Result<Self> {
        TemporalJoin { left, right, condition, times, key, outer, columns: Arc::default() }.with_columns()
    }

    /// Derives the columns: those of both sides.
    pub(crate) fn with_columns(mut self) -> Result<Self> {
        let kind = if self.outer { JoinType::Left } else { JoinType::Inner };
        self.columns = joined_columns(self.left.columns(), self.right.columns(), kind)?;
        Ok(self)
    }
}

/// The columns of a plan that are event times.
fn event_times(plan: &Rel) -> Vec<Expr> {
    plan.columns().iter().filter(|col| col.field.metadata().contains_key(EVENT_TIME)).map(Col::expr).collect()
}

/// Whether it is an outer join, and its condition.
fn kind_and_condition(operator: &JoinOperator) -> anabranch_model::Result<(bool, &ast::Expr)> {
    use JoinConstraint::On;
    match operator {
        JoinOperator::Inner(On(condition)) | JoinOperator::Join(On(condition)) => Ok((false, condition)),
        JoinOperator::Left(On(condition)) | JoinOperator::LeftOuter(On(condition)) => Ok((true, condition)),
        _ => Err(Error::user("FOR SYSTEM_TIME AS OF does not support this kind of join")
            .remedy("use JOIN ... ON or LEFT JOIN ... ON")),
    }
}

/// The lookup table of a plan that only filters and computes.
pub(crate) fn lookup_table(plan: &Rel) -> Option<&Table> {
    match plan {
        Rel::Project(projection) => lookup_table(&projection.input),
        Rel::Filter(filter) => lookup_table(&filter.input),
        Rel::Get(scan) => {
            // A scan without a declared table is no lookup.
            Table::of_scan(scan).ok().filter(|table| match table.traits.lookups {
                Lookups::None => false,
                Lookups::Whole => matches!(table.options.lookup.cache, LookupCache::Full { .. }),
                Lookups::ByKey => true,
            })
        }
        _ => None,
    }
}

/// Whether a time is the processing time of a row.
fn is_processing_time(time: &Expr, plan: &Rel) -> bool {
    match time {
        Expr::Column(column) => {
            let index = plan.columns().find(column);
            index.is_some_and(|index| time_attribute_of(plan, index) == Some(TimeAttribute::Processing))
        }
        other => is_call(other),
    }
}

/// Joins rows with a table `FOR SYSTEM_TIME AS OF` a time.
pub(crate) fn plan_temporal_join(rows: Rows, mut join: Join, binder: &Binder<'_>, env: &Env<'_>) -> Result<Rows> {
    let TableFactor::Table { name, version, .. } = &mut join.relation else {
        return Err(through(Error::internal("only tables have versions")));
    };
    let (name, Some(TableVersion::ForSystemTimeAsOf(time))) = (name.to_string(), version.take()) else {
        return Err(through(Error::internal("a table without a version")));
    };
    let right = binder.relation(join.relation.clone(), env)?;
    let times = event_times(&right.plan);
    let of_left = env.scope(rows.items.clone());
    let time = binder.plain(time, &Names::new(&of_left), env, "the time of FOR SYSTEM_TIME AS OF")?;
    let lookup = lookup_table(&right.plan);
    let is_lookup = lookup.is_some() && is_processing_time(&time, &rows.plan);
    if !is_lookup {
        if lookup.is_some_and(|table| !table.traits.readable) {
            let error = format!("'{name}' is a lookup table, but '{}' is not a processing time", shown(&time));
            return Err(through(
                Error::user(error)
                    .remedy("declare a column proctime AS PROCTIME() in the other table, and name it after AS OF"),
            ));
        }
        if times.is_empty() && is_bounded(&right.plan) {
            return binder.join_with(rows, right, &join, env);
        }
    }
    let (outer, condition) = kind_and_condition(&join.join_operator).map_err(through)?;
    let left = rows.plan;
    let items = binder.both_items(rows.items, right.items)?;
    let scope = env.scope(items.clone());
    let condition =
        binder.plain(condition.clone(), &Names::new(&scope), env, "the condition of FOR SYSTEM_TIME AS OF")?;
    let node = match is_lookup {
        true => TemporalJoin::new([left.into(), right.plan.into()], (condition, None), Vec::new(), outer)?,
        false => {
            let (times, key) = versions(&name, time, &left, &right.plan, times)?;
            TemporalJoin::new([left.into(), right.plan.into()], (condition, Some(times)), key, outer)?
        }
    };
    let mut rows = Rows { plan: Rel::Temporal(node), items };
    rows.refresh_fields();
    Ok(rows)
}

/// The times that determine the versions of a table, and the columns that identify its rows.
fn versions(
    name: &str,
    time: Expr,
    left: &Rel,
    right: &Rel,
    mut times: Vec<Expr>,
) -> Result<(VersionTimes, Vec<Expr>)> {
    let has_time = event_times(left).contains(&time);
    let valid_from = match (times.pop(), times.as_slice()) {
        (Some(column), []) => column,
        (None, _) => {
            let error = format!("FOR SYSTEM_TIME AS OF needs versions of rows, and '{name}' has no event time");
            return Err(through(
                Error::user(error)
                    .remedy("declare WATERMARK FOR the time from which a row is valid; or join a bounded table"),
            ));
        }
        (Some(_), _) => {
            let error = format!("'{name}' has several event times, and each may be the time from which a row is valid");
            return Err(through(Error::user(error).remedy("select one of them in a view")));
        }
    };
    if !has_time {
        let error = Error::user(format!("'{}' is not an event-time column", shown(&time)));
        return Err(through(error.remedy("name the column of the other table for which its WATERMARK is declared")));
    }
    for (plan, time) in [(left, &time), (right, &valid_from)] {
        let data_type = time.get_type(plan.columns())?;
        if !matches!(data_type, DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _)) {
            let (time, data_type) = (shown(time), sql_name(&data_type));
            let error =
                format!("event time '{time}' is {data_type}, but a version is found by its time in milliseconds");
            return Err(through(Error::user(error).remedy("declare it as TIMESTAMP(3) or TIMESTAMP_LTZ(3)")));
        }
    }
    let key = version_key(right).ok_or_else(|| {
        let error = Error::user(format!("the columns that identify a row of '{name}' are not selected"));
        through(error.remedy("select them in the view: the primary key, or the columns of PARTITION BY"))
    })?;
    let columns = right.columns();
    let key = key.unwrap_or_default().into_iter().map(|column| Expr::Column(columns.id(column))).collect();
    Ok((VersionTimes { time, valid_from }, key))
}
