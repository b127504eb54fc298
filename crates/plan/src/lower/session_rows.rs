//! Rows of sessions that are not aggregated by the session's keys: they wait for the end of the session in a
//! list beside the session's bounds, and leave with these.

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
    /// The sessions of the rows, if their bounds are not known yet.
    pub(super) fn open_sessions(&self) -> Option<&Windowed> {
        self.window.as_ref().filter(|of| !of.has_columns && matches!(of.window, Window::Session { .. }))
    }

    /// Whether an aggregation groups by session and by the session's keys, and reads nothing else of the
    /// sessions.
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
        let is_divided = |key: &Expr| partition.iter().any(|of| of.expr == *key);
        Ok(partition.iter().all(|of| keys.contains(&of.expr)) && keys.iter().all(is_divided))
    }
}

impl Lowering<'_> {
    /// Holds rows until their sessions end, unless they are append-only and aggregated by session.
    pub(super) fn sessions_for(&mut self, aggregate: &Aggregate, below: &Columns, stream: Stream) -> Result<Stream> {
        let mut stream = stream;
        let are_open = stream.weight.is_some() && stream.open_sessions().is_some();
        if stream.groups_sessions(aggregate, below)? && !are_open { Ok(stream) } else { self.session_rows(stream) }
    }

    /// Holds rows until their sessions end.
    pub(super) fn session_rows(&mut self, mut stream: Stream) -> Result<Stream> {
        self.check_sessions(&stream)?;
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
        for (place, column) in next.columns.iter_mut().enumerate() {
            column.value = match (&column.value, column.window) {
                (Some(Expr::Column(of)), _) => Some(Expr::Column(of + WINDOW_COLUMNS.len())),
                (_, Some(of)) => Some(windowed.value(of, Expr::Column(of as usize), &column.data_type)),
                _ => None,
            };
            next.times.extend(column.window.and_then(|of| Some((place, windowed.lag_ms(of)?))));
            column.window = column.window.and_then(|of| of.with_values(windowed.window));
        }
        let time = Expr::Column(WindowColumn::Time as usize);
        next.window = Some(windowed.with_columns(time));
        next.weight = next.weight.map(|weight| weight + WINDOW_COLUMNS.len());
        next.unique = None;
        Ok(next)
    }

    /// Refuses options without effect.
    fn check_sessions(&self, stream: &Stream) -> Result<()> {
        let ends = stream.bounded && self.mode != RuntimeMode::Streaming;
        if self.table.emission.is_none() || ends { Ok(()) } else { Err(emitted_once()) }
    }
}

pub(super) fn emitted_once() -> Error {
    Error::user("results of a session are emitted once, at its end")
        .remedy("leave out 'table.exec.emit.allow-lateness' and 'table.exec.emit.early-fire.enabled' for this job")
}

/// The columns as nullable fields of a row, with unique names.
fn row_fields(columns: &[Field]) -> Fields {
    let mut names = BTreeSet::new();
    let field = |(place, field): (usize, &Field)| match names.insert(field.name().clone()) {
        true => field.clone().with_nullable(true),
        false => field.clone().with_nullable(true).with_name(format!("{} {place}", field.name())),
    };
    columns.iter().enumerate().map(field).collect()
}

/// The row constructor for these fields. Each has the value of a column.
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

/// Collects the rows of a session in a list.
fn all_rows(rows: &Fields, list: DataType) -> AggregateSpec {
    AggregateSpec {
        name: "rows".to_owned(),
        function: "array_agg".to_owned(),
        args: vec![row_of(rows.iter().enumerate().map(|(place, field)| (field.as_ref(), place)))],
        distinct: false,
        filter: None,
        data_type: list,
        nullable: true,
    }
}

fn column_of(key: &NamedExpr) -> Option<usize> {
    if let Expr::Column(column) = key.expr { Some(column) } else { None }
}
