//! Holds rows until their sessions end, because the bounds of a session are known only then. An aggregate
//! collects the rows of each session in a list. At the end of the session the rows leave, with its bounds as
//! columns.
//!
//! An aggregation of append-only rows by session and by exactly the session's keys needs none of this: its
//! operator finds the sessions itself.

use std::collections::BTreeSet;

use anabranch_dataflow::{
    AggregatePhase, AggregateSpec, Expr, NamedExpr, OperatorSpec, UnnestSpec, Window, WindowAggregateSpec,
};
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion_expr::Expr as Logical;

use super::Lowering;
use super::stream::Stream;
use super::windowed::{WindowColumn, Windowed};
use crate::rel::{Aggregate, Columns};
use crate::settings::RuntimeMode;
use crate::window_assign::WINDOW_COLUMNS;

const SESSIONS: &str = "sessions";

impl Stream {
    /// The sessions of the rows, if there are any and their bounds are not known yet.
    pub(super) fn open_sessions(&self) -> Option<&Windowed> {
        let is_open = |windowed: &&Windowed| !windowed.has_columns && matches!(windowed.window, Window::Session { .. });
        self.window.as_ref().filter(is_open)
    }

    /// Whether an aggregation can be computed without the bounds of sessions: it groups by session and by
    /// exactly the session's keys, and reads window columns nowhere else. Also true if all bounds are known.
    fn groups_sessions(&mut self, aggregate: &Aggregate, below: &Columns) -> Result<bool> {
        let Some(Windowed { partition, .. }) = self.open_sessions().cloned() else { return Ok(true) };
        let is_of_window =
            |key: &&Logical| self.plain_column(key, below).is_some_and(|column| self.window_column(column).is_some());
        let (of_window, keys): (Vec<&Logical>, Vec<&Logical>) = aggregate.group_expr.iter().partition(is_of_window);
        let read: Vec<&Logical> = keys.iter().copied().chain(&aggregate.aggr_expr).collect();
        if of_window.is_empty() || self.reads_window(&read, below) {
            return Ok(false);
        }
        let keys = keys.into_iter().map(|key| self.expr(key, below)).collect::<Result<Vec<_>>>()?;
        let is_of_session = |key: &Expr| partition.iter().any(|own| own.expr == *key);
        Ok(partition.iter().all(|own| keys.contains(&own.expr)) && keys.iter().all(is_of_session))
    }
}

impl Lowering<'_> {
    /// Prepares rows for an aggregation: holds them until their sessions end, unless they are append-only and
    /// aggregated by session and by exactly the session's keys.
    pub(super) fn sessions_for(&mut self, aggregate: &Aggregate, below: &Columns, stream: Stream) -> Result<Stream> {
        let mut stream = stream;
        let updates_sessions = stream.weight.is_some() && stream.open_sessions().is_some();
        match stream.groups_sessions(aggregate, below)? && !updates_sessions {
            true => Ok(stream),
            false => self.session_rows(stream),
        }
    }

    /// Holds rows until their sessions end. The rows then have the bounds of their sessions as columns.
    pub(super) fn session_rows(&mut self, mut stream: Stream) -> Result<Stream> {
        self.check_emission(&stream)?;
        stream.stamps.clear();
        stream.materialize();
        let windowed = stream.window.take().ok_or_else(|| Error::internal("rows without sessions"))?;
        let rows = row_fields(&stream.physical);
        let columns = std::mem::take(&mut stream.columns);
        let mut next = self.exchange_by(windowed.partition.iter().filter_map(column_of).collect(), stream, SESSIONS);
        let (keys, list) = (windowed.partition.len(), DataType::new_list(DataType::Struct(rows.clone()), true));
        let waiting = WindowAggregateSpec {
            phase: AggregatePhase::Complete,
            window: windowed.window,
            time: Some(windowed.time.clone()),
            time_type: windowed.time_type.clone(),
            keys: windowed.partition.clone(),
            aggregates: vec![all_rows(&rows, list.clone())],
            input_schema: next.physical_schema(),
            zone: windowed.zone.clone(),
        };
        next.operators.push_from(OperatorSpec::WindowAggregate(waiting), windowed.places.clone());
        let first = keys + WINDOW_COLUMNS.len();
        let rows_of_list = UnnestSpec {
            value: Expr::Column(first),
            data_type: list,
            keep: (keys..first).collect(),
            element: Schema::new(rows.clone()).into(),
            ordinality: false,
            outer: false,
        };
        next.operators.push_from(OperatorSpec::Unnest(rows_of_list), windowed.places.clone());
        let bounds = WINDOW_COLUMNS.map(|name| Field::new(name, windowed.time_type.clone(), false));
        next.physical = bounds.into_iter().chain(rows.iter().map(|field| field.as_ref().clone())).collect();
        next.columns = columns;
        next.times.clear();
        for (index, column) in next.columns.iter_mut().enumerate() {
            column.value = match (&column.value, column.window) {
                (Some(Expr::Column(physical)), _) => Some(Expr::Column(physical + WINDOW_COLUMNS.len())),
                (_, Some(bound)) => Some(windowed.value(bound, Expr::Column(bound as usize), &column.data_type)),
                _ => None,
            };
            next.times.extend(column.window.and_then(|bound| Some((index, windowed.lag_ms(bound)?))));
            column.window = column.window.and_then(|bound| bound.with_values(windowed.window));
        }
        let time = Expr::Column(WindowColumn::Time as usize);
        next.window = Some(windowed.with_columns(time));
        next.weight = next.weight.map(|weight| weight + WINDOW_COLUMNS.len());
        next.unique = None;
        Ok(next)
    }

    /// Refuses the options that emit results before the end of a window or after it. On a bounded stream they
    /// have no effect, unless streaming mode is set.
    fn check_emission(&self, stream: &Stream) -> Result<()> {
        let is_final = stream.bounded && self.mode != RuntimeMode::Streaming;
        if self.table.emission.is_none() || is_final { Ok(()) } else { Err(emitted_once()) }
    }
}

/// The error of a session whose results are to be emitted early or again.
pub(super) fn emitted_once() -> Error {
    Error::user("results of a session are emitted once, at its end")
        .remedy("leave out 'table.exec.emit.allow-lateness' and 'table.exec.emit.early-fire.enabled' for this job")
}

/// The columns as nullable fields of a row, with unique names.
fn row_fields(columns: &[Field]) -> Fields {
    let mut names = BTreeSet::new();
    let field = |(index, field): (usize, &Field)| {
        let mut name = field.name().clone();
        while !names.insert(name.clone()) {
            name = format!("{name} {index}");
        }
        field.clone().with_nullable(true).with_name(name)
    };
    columns.iter().enumerate().map(field).collect()
}

/// An expression that builds a row. Each field comes with the index of the column that has its value.
pub(super) fn row_of<'a>(fields: impl Iterator<Item = (&'a Field, usize)>) -> Expr {
    let (fields, columns): (Vec<&Field>, Vec<usize>) = fields.unzip();
    let args = fields.iter().zip(columns).flat_map(|(field, column)| [Expr::text(field.name()), Expr::Column(column)]);
    Expr::Call {
        function: "named_struct".to_owned(),
        args: args.collect(),
        returns: DataType::Struct(fields.into_iter().cloned().collect()),
        fails: false,
        varies: false,
    }
}

/// The aggregate that collects the rows of a session in a list.
fn all_rows(rows: &Fields, list: DataType) -> AggregateSpec {
    AggregateSpec {
        name: "rows".to_owned(),
        function: "array_agg".to_owned(),
        args: vec![row_of(rows.iter().enumerate().map(|(index, field)| (field.as_ref(), index)))],
        distinct: false,
        filter: None,
        data_type: list,
        nullable: true,
    }
}

/// The index of a column that is a key. `None`: the key is computed.
fn column_of(key: &NamedExpr) -> Option<usize> {
    if let Expr::Column(column) = key.expr { Some(column) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_unique_names_whatever_the_columns_are_called() {
        let columns = ["a", "a", "a 1", "a 5", "b", "a"].map(|name| Field::new(name, DataType::Int64, false));
        let fields = row_fields(&columns);
        let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["a", "a 1", "a 1 2", "a 5", "b", "a 5 5"]);
    }
}
