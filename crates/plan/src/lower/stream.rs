//! The open end of a chain of operators, see [`super`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_dataflow::{
    BinaryOp, Exchange, ExchangeKind, Expr, NamedExpr, OperatorSpec, Place, Port, SourceSpec, Stage, StageOrigin,
    WindowAssignSpec,
};
use anabranch_model::{Error, Result, StageId};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_expr::{self as logical, ExprSchemable};

use super::chain::Chain;
use super::exchange::KeyedStage;
use super::expr::{convert, unknown};
use super::join_times::Times;
use super::share::is_field;
use super::windowed::{WindowColumn, Windowed};
use crate::maps::check_comparable;
use crate::place::planning_error;
use crate::rel::Columns;
use crate::stamps::{Stamp, with_placeholders};
use crate::varying::check_repeatable;
use crate::walk::Walk;
use crate::window_assign::{WINDOW_COLUMNS, WindowAssign};

/// See the module of [`super`].
#[derive(Default)]
pub(super) struct Stream {
    name: String,
    source: Option<SourceSpec>,
    pub(super) operators: Chain,
    /// Where the text names the source.
    pub(super) source_places: Vec<Place>,
    inputs: Vec<Input>,
    pub(super) parallelism: u32,
    /// See [`Stage::label`].
    pub(super) label: Option<String>,
    /// See [`Stage::tasks_max`].
    pub(super) tasks_max: Option<u32>,
    /// Whether the source can provide fields of rows as columns: see [`super::row_fields`].
    pub(super) row_fields: bool,
    /// The columns of the rows that leave the last operator.
    pub(super) physical: Vec<Field>,
    /// The columns of the logical plan.
    pub(super) columns: Vec<LogicalColumn>,
    /// How rows belong to windows, if they do.
    pub(super) window: Option<Windowed>,
    /// The physical column with the weight of the rows, if they are updating.
    pub(super) weight: Option<usize>,
    /// The physical columns with the stamps of the source, if the query reads them and the rows come directly
    /// from a source.
    pub(super) stamps: Vec<(Stamp, usize)>,
    /// Logical columns that identify a row, if they are known.
    pub(super) unique: Option<Vec<usize>>,
    /// Whether every source below is bounded.
    pub(super) bounded: bool,
    /// Whether every source below has a watermark.
    pub(super) has_event_time: bool,
    /// The lags of event times, by logical column: how far later rows may be behind the watermark. In an
    /// updating stream a retraction may be older.
    pub(super) times: Times,
    /// Whether rows wait for watermarks somewhere below.
    pub(super) waits: bool,
    /// The time zone of the window bounds among `times`, which are local times.
    pub(super) zone: Option<String>,
    /// An expression whose value may differ in a retraction, in columns where that does not matter.
    pub(super) varies: Option<String>,
}

/// An exchange into the chain.
struct Input {
    from: StageId,
    port: Port,
    kind: ExchangeKind,
}

/// A column of the logical plan.
#[derive(Clone, Debug)]
pub(super) struct LogicalColumn {
    pub(super) name: String,
    pub(super) data_type: DataType,
    pub(super) nullable: bool,
    /// Over the physical columns. `None`: it is not needed, or it is a window column that is not computed
    /// yet.
    pub(super) value: Option<Expr>,
    /// Which column of the window it is, if it is one.
    pub(super) window: Option<WindowColumn>,
    /// Where the text computes it.
    pub(super) place: Option<Place>,
}

impl LogicalColumn {
    /// A column without a value.
    pub(super) fn absent(field: &Field) -> Self {
        LogicalColumn {
            name: field.name().clone(),
            data_type: field.data_type().clone(),
            nullable: field.is_nullable(),
            value: None,
            window: None,
            place: None,
        }
    }

    /// Whether computing it twice would be costly.
    pub(super) fn is_costly(&self) -> bool {
        self.value.as_ref().is_some_and(is_costly)
    }

    fn may_fail(&self, physical: &[Field]) -> bool {
        let column = |index: usize| physical.get(index).map(|field| field.data_type().clone());
        self.value.as_ref().is_some_and(|value| value.may_fail(&column))
    }

    /// A needed column with its value.
    pub(super) fn needed(&self) -> Result<NamedExpr> {
        let value = self.value.as_ref();
        value
            .map(|value| self.named(value))
            .ok_or_else(|| Error::internal(format!("column {} was not needed", self.name)))
    }

    pub(super) fn named(&self, value: &Expr) -> NamedExpr {
        NamedExpr {
            name: self.name.clone(),
            expr: value.clone(),
            data_type: self.data_type.clone(),
            nullable: self.nullable,
        }
    }
}

/// Columns, their fields, constants, and casts of these to timestamps are free.
fn is_costly(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(_) => false,
        Expr::Cast { expr, to: DataType::Timestamp(..), .. } => is_costly(expr),
        expr if is_field(expr) => false,
        _ => true,
    }
}

impl Stream {
    /// A chain that begins with a source.
    pub(super) fn of_source(source: SourceSpec, physical: Vec<Field>, columns: Vec<LogicalColumn>) -> Self {
        Stream {
            name: format!("source {}", source.table),
            has_event_time: source.watermark.is_some(),
            source: Some(source),
            parallelism: 1,
            tasks_max: Some(1),
            physical,
            columns,
            ..Stream::default()
        }
    }

    /// The chain after an exchange: the same rows, no operators yet.
    pub(super) fn continued(&self, name: String, parallelism: u32) -> Self {
        Stream {
            name,
            parallelism,
            physical: self.physical.clone(),
            columns: self.columns.clone(),
            window: self.window.clone(),
            weight: self.weight,
            unique: self.unique.clone(),
            bounded: self.bounded,
            has_event_time: self.has_event_time,
            times: self.times.clone(),
            waits: self.waits,
            zone: self.zone.clone(),
            ..Stream::default()
        }
    }

    /// The chain after an exchange to this stage.
    pub(super) fn in_stage(&self, stage: KeyedStage) -> Self {
        let KeyedStage { name, label, tasks, tasks_max } = stage;
        Stream { label, tasks_max, ..self.continued(name.to_owned(), tasks) }
    }

    /// Adds an exchange into the chain.
    pub(super) fn fed_by(mut self, from: StageId, port: Port, kind: ExchangeKind) -> Self {
        self.inputs.push(Input { from, port, kind });
        self
    }

    /// Makes a single task read a source. Returns the source's label.
    pub(super) fn narrow(&mut self) -> Option<String> {
        self.source.as_ref()?;
        (self.parallelism, self.tasks_max) = (1, Some(1));
        self.label.take()
    }

    /// The source and the operators, if these only filter and compute.
    pub(super) fn into_plain_table(self) -> Option<(SourceSpec, Vec<OperatorSpec>)> {
        let is_plain = |spec: &OperatorSpec| matches!(spec, OperatorSpec::Filter { .. } | OperatorSpec::Project { .. });
        let is_alone = self.inputs.is_empty() && self.operators.iter().all(is_plain);
        self.source.filter(|_| is_alone).map(|source| (source, self.operators.into_parts().0))
    }

    /// The stage, and the exchanges that enter it.
    pub(super) fn into_stage(self, id: StageId) -> (Stage, Vec<Exchange>) {
        let (specs, operators) = self.operators.into_parts();
        let stage = Stage {
            id,
            name: self.name,
            parallelism: self.parallelism,
            label: self.label,
            tasks_max: self.tasks_max,
            source: self.source,
            operators: specs,
            sink: None,
            query: None,
            schema: Arc::new(Schema::new(self.physical)),
            origin: StageOrigin { source: self.source_places, operators, sink: Vec::new() },
        };
        let inputs = self.inputs.into_iter().map(|Input { from, port, kind }| Exchange { from, to: id, port, kind });
        (stage, inputs.collect())
    }

    pub(super) fn physical_schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.physical.clone()))
    }

    /// Converts a logical expression to the physical columns. If it reads window columns, the windows are
    /// assigned, which moves the physical columns: expressions converted before are then invalid. For several
    /// expressions, first call [`Stream::assign_windows_for`] with all of them.
    pub(super) fn expr(&mut self, expr: &logical::Expr, schema: &Columns) -> Result<Expr> {
        let converted = self.varying_expr(expr, schema)?;
        if self.weight.is_some() {
            check_repeatable(expr)?;
        }
        Ok(converted)
    }

    /// [`Stream::expr`] for an expression whose value may differ in a retraction.
    pub(super) fn varying_expr(&mut self, expr: &logical::Expr, schema: &Columns) -> Result<Expr> {
        self.assign_windows_for(&[expr], schema)?;
        let replaced = with_placeholders(expr).map_err(planning_error)?;
        convert(&replaced, schema, &|index| {
            if let Some(stamp) = Stamp::at(index) {
                let column = self.stamps.iter().find(|(own, _)| *own == stamp);
                return column.map(|(_, column)| Expr::Column(*column)).ok_or_else(|| unknown(stamp));
            }
            self.columns[index].needed().map(|column| column.expr)
        })
    }

    /// [`Stream::expr`] as a nullable column.
    pub(super) fn column(&mut self, name: String, expr: &logical::Expr, schema: &Columns) -> Result<NamedExpr> {
        let data_type = expr.get_type(schema).map_err(planning_error)?;
        Ok(NamedExpr { name, expr: self.expr(expr, schema)?, data_type, nullable: true })
    }

    /// [`Stream::column`] for values that `what` compares.
    pub(super) fn compared(
        &mut self,
        name: String,
        expr: &logical::Expr,
        schema: &Columns,
        what: &str,
    ) -> Result<NamedExpr> {
        check_comparable(expr, schema, what)?;
        self.column(name, expr, schema)
    }

    /// Assigns the windows if one of the expressions reads a window column without a value.
    pub(super) fn assign_windows_for(&mut self, exprs: &[&logical::Expr], schema: &Columns) -> Result<()> {
        if self.reads_window(exprs, schema) { self.assign_windows() } else { Ok(()) }
    }

    /// Whether one of the expressions reads a window column without a value. They may also read columns of
    /// other streams.
    pub(super) fn reads_window(&self, exprs: &[&logical::Expr], schema: &Columns) -> bool {
        let is_lazy = |index: usize| self.columns[index].window.is_some() && self.columns[index].value.is_none();
        let mut read = exprs.iter().flat_map(|e| e.column_refs());
        read.any(|column| schema.find(column).is_some_and(is_lazy))
    }

    /// The logical column that an expression names, if it is only a name.
    pub(super) fn plain_column(&self, expr: &logical::Expr, schema: &Columns) -> Option<usize> {
        match expr {
            logical::Expr::Column(column) => schema.find(column),
            _ => None,
        }
    }

    /// Computes the columns now if the expressions read a costly one more than once. Does nothing if a column
    /// may fail and the expressions do not read it on each row.
    pub(super) fn share(&mut self, exprs: &[&logical::Expr], schema: &Columns) -> Result<()> {
        let mut uses: BTreeMap<usize, usize> = BTreeMap::new();
        for expr in exprs {
            for (column, count) in expr.column_refs_counts() {
                let index = schema.place(column)?;
                *uses.entry(index).or_default() += count;
            }
        }
        let mut certain = BTreeSet::new();
        for expr in exprs {
            certain_columns(expr, schema, &mut certain)?;
        }
        let is_certain =
            |(index, column): (usize, &LogicalColumn)| !column.may_fail(&self.physical) || certain.contains(&index);
        let costly = uses.into_iter().any(|(index, count)| count > 1 && self.columns[index].is_costly());
        if costly && self.columns.iter().enumerate().all(is_certain) {
            self.materialize();
        }
        Ok(())
    }

    /// Whether computing the columns may fail.
    pub(super) fn may_fail(&self) -> bool {
        self.columns.iter().any(|column| column.may_fail(&self.physical))
    }

    pub(super) fn filter(&mut self, predicate: &Expr) {
        let (mut conditions, mut places): (Vec<Expr>, _) = Default::default();
        if let Some((last, of_last)) = self.operators.pop_filter() {
            conditions.extend(last.chain(BinaryOp::And).into_iter().cloned());
            places = of_last;
        }
        conditions.extend(predicate.chain(BinaryOp::And).into_iter().cloned());
        if let Some(predicate) = Expr::all(conditions) {
            self.operators.push_as(OperatorSpec::Filter { predicate, keep: None }, places, true);
        }
    }

    /// Records the windows of the rows. The window columns follow the logical columns.
    pub(super) fn set_window(&mut self, windowed: Windowed, assign: &WindowAssign) {
        let fields = assign.columns.fields();
        let names = &fields[fields.len() - WINDOW_COLUMNS.len()..];
        let first = self.columns.len();
        let lags = WindowColumn::ALL.map(|column| windowed.lag_ms(column));
        self.times.extend((first..).zip(lags).filter_map(|(column, ms)| Some((column, ms?))));
        self.columns.extend(
            names
                .iter()
                .zip(WindowColumn::ALL)
                .map(|(field, window)| LogicalColumn { window: Some(window), ..LogicalColumn::absent(field) }),
        );
        self.zone = windowed.zone.clone().or(self.zone.take());
        self.window = Some(windowed);
        self.waits = true;
    }

    /// Which column of the present window a logical column is. `None`: it is an ordinary column, or a column
    /// of an earlier window.
    pub(super) fn window_column(&self, column: usize) -> Option<WindowColumn> {
        self.window.as_ref().and(self.columns[column].window)
    }

    /// Assigns the windows and makes their columns ordinary ones: the rows belong to no window from here on.
    pub(super) fn leave_window(&mut self) -> Result<()> {
        self.assign_windows()?;
        self.window = None;
        self.columns.iter_mut().for_each(|column| column.window = None);
        Ok(())
    }

    /// Assigns the windows: adds an operator that computes the window columns, unless they have values.
    pub(super) fn assign_windows(&mut self) -> Result<()> {
        let Some(windowed) = self.window.clone().filter(|w| !w.has_columns) else { return Ok(()) };
        if self.open_sessions().is_some() {
            return Err(Error::internal("the bounds of a session are not known before it ends"));
        }
        self.materialize();
        let time = match self.window.as_ref().map(|w| w.time.clone()) {
            Some(Expr::Column(index)) => index,
            _ => return Err(Error::internal("the event time of a window is not a column")),
        };
        let values = self.columns.iter().filter_map(|column| match column.value {
            Some(Expr::Column(index)) => Some(index),
            _ => None,
        });
        let keep: Vec<usize> = values.chain(self.weight).collect();
        let time_type = windowed.time_type.clone();
        let spec = WindowAssignSpec { window: windowed.window, time, keep: keep.clone() };
        self.operators.push_from(OperatorSpec::WindowAssign(spec), windowed.places.clone());
        self.stamps = Vec::new();
        let mut physical: Vec<Field> = keep.iter().map(|index| self.physical[*index].clone()).collect();
        let places: BTreeMap<usize, usize> = keep.iter().enumerate().map(|(place, index)| (*index, place)).collect();
        for column in &mut self.columns {
            column.value = match (&column.value, column.window) {
                (Some(Expr::Column(index)), _) => places.get(index).copied().map(Expr::Column),
                (_, Some(window)) => {
                    let value = Expr::Column(keep.len() + window as usize);
                    Some(windowed.value(window, value, &column.data_type))
                }
                _ => None,
            };
            column.window = column.window.and_then(|column| column.with_values(windowed.window));
        }
        physical.extend(WINDOW_COLUMNS.map(|name| Field::new(name, time_type.clone(), false)));
        self.physical = physical;
        self.weight = self.weight.and_then(|weight| places.get(&weight).copied());
        let window_time = Expr::Column(keep.len() + WindowColumn::Time as usize);
        self.window = Some(Windowed { assigned: true, ..windowed.with_columns(window_time) });
        Ok(())
    }
}

/// Adds the columns that an expression reads on each row. Columns in a branch of CASE, after AND or OR, in an
/// argument that a function may skip, or in an aggregate with FILTER are not added.
fn certain_columns(expr: &logical::Expr, schema: &Columns, found: &mut BTreeSet<usize>) -> Result<()> {
    let walked = expr.see(&mut |expr| {
        Ok(match expr {
            logical::Expr::Case(_) | logical::Expr::ScalarFunction(_) => TreeNodeRecursion::Jump,
            logical::Expr::BinaryExpr(binary)
                if matches!(binary.op, logical::Operator::And | logical::Operator::Or) =>
            {
                TreeNodeRecursion::Jump
            }
            logical::Expr::AggregateFunction(call) if call.params.filter.is_some() => TreeNodeRecursion::Jump,
            logical::Expr::Column(column) => {
                found.insert(schema.place(column).map_err(crate::place::through)?);
                TreeNodeRecursion::Continue
            }
            _ => TreeNodeRecursion::Continue,
        })
    });
    walked.map(|_| ()).map_err(crate::place::planning_error)
}

/// The time this many milliseconds earlier.
pub(super) fn minus_ms(time: Expr, ms: i64) -> Expr {
    if ms == 0 {
        return time;
    }
    Expr::Binary { op: BinaryOp::Minus, left: Box::new(time), right: Box::new(Expr::interval_ms(ms)) }
}
