//! Lowers aggregations: by window, or over the whole bounded input; in one phase or in two.

use std::collections::BTreeMap;

use anabranch_dataflow::{
    AggregatePhase, AggregateSpec, Expr, NamedExpr, OperatorSpec, Window, WindowAggregateSpec, add_places,
};
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion_expr::Expr as Logical;
use datafusion_expr::expr::AggregateFunction;
use datafusion_expr::utils::grouping_set_to_exprlist;

use super::AGGREGATE;
use super::emission::Emission;
use super::exchange::KeyedStage;
use super::share::Read;
use super::states::{is_mergeable, pane_start, state_fields};
use super::stream::{LogicalColumn, Stream, minus_ms};
use super::windowed::{WindowColumn, Windowed};
use super::{Lowering, Needed, Want, columns_of};
use crate::maps::check_comparable;
use crate::place::planning_error;
use crate::rel::{Aggregate, Columns};
use crate::settings::RuntimeMode;
use crate::window_assign::WINDOW_COLUMNS;

/// The kind of an output column of the aggregation.
#[derive(Clone, Copy)]
enum Output {
    Key(usize),
    Window(WindowColumn),
    Aggregate(usize),
}

/// An aggregation over the physical columns of its input.
pub(super) struct Grouping<'a> {
    pub(super) keys: Vec<NamedExpr>,
    pub(super) aggregates: Vec<AggregateSpec>,
    calls: Vec<&'a AggregateFunction>,
    outputs: Vec<Output>,
    windowed: Option<Windowed>,
}

impl Grouping<'_> {
    /// Adds the key of the emission, and computes shared subexpressions once.
    fn share_with(&mut self, emission: Option<&Emission>, stream: &mut Stream) {
        self.keys.extend(emission.map(|emission| emission.key.clone()));
        stream.share_of(self.reads());
    }

    fn spec(&self, phase: AggregatePhase, stream: &Stream) -> WindowAggregateSpec {
        let windowed = self.windowed.as_ref();
        WindowAggregateSpec {
            phase,
            window: windowed.map_or(Window::Global, |w| w.window),
            time: windowed.map(|w| w.time.clone()),
            time_type: windowed.map_or(DataType::Timestamp(TimeUnit::Millisecond, None), |w| w.time_type.clone()),
            keys: self.keys.clone(),
            aggregates: self.aggregates.clone(),
            input_schema: stream.physical_schema(),
            zone: windowed.and_then(|w| w.zone.clone()),
        }
    }

    /// The expressions that the aggregation evaluates on its input rows.
    fn reads(&mut self) -> Vec<Read<'_>> {
        let mut reads: Vec<Read> = Vec::new();
        reads.extend(self.keys.iter_mut().map(|key| Read { expr: &mut key.expr, always: true }));
        for aggregate in &mut self.aggregates {
            let always = aggregate.filter.is_none();
            reads.extend(aggregate.args.iter_mut().map(|expr| Read { expr, always }));
            reads.extend(aggregate.filter.iter_mut().map(|expr| Read { expr, always: true }));
        }
        if let Some(windowed) = &mut self.windowed {
            reads.push(Read { expr: &mut windowed.time, always: true });
            reads.extend(windowed.partition.iter_mut().map(|key| Read { expr: &mut key.expr, always: true }));
        }
        reads
    }
}

impl Lowering<'_> {
    pub(super) fn aggregate(&mut self, aggregate: &Aggregate, needed: &Needed) -> Result<Stream> {
        let is_expanded = matches!(aggregate.group_expr.as_slice(), [Logical::GroupingSet(_)]);
        let keys = grouping_set_to_exprlist(&aggregate.group_expr).map_err(planning_error)?;
        let groups = keys.len() + usize::from(is_expanded);
        let read = aggregate.aggr_expr.iter().enumerate().filter(|(i, _)| needed.contains(&(groups + i)));
        let wanted: Vec<&Logical> = keys.into_iter().chain(read.map(|(_, e)| e)).collect();
        let below = aggregate.input.columns();
        let columns = columns_of(wanted.iter().copied(), below)?;
        let want = Want { sessions: !is_expanded, ..Want::columns(columns) };
        let mut stream = self.wanted(&aggregate.input, &want)?;
        if aggregate.group_expr.is_empty() {
            // A final aggregate over no rows has one result. An updating one has none.
            stream = self.rows_in_batch(stream)?;
        }
        stream.share(&wanted, below)?;
        match is_expanded {
            true => self.grouping_sets(aggregate, needed, stream),
            false => self.aggregate_rows(aggregate, needed, stream),
        }
    }

    /// Lowers an aggregation over this stream.
    pub(super) fn aggregate_rows(
        &mut self,
        aggregate: &Aggregate,
        needed: &Needed,
        mut stream: Stream,
    ) -> Result<Stream> {
        let below = aggregate.input.columns();
        stream = self.sessions_for(aggregate, below, stream)?;
        assign_cumulated(aggregate, below, &mut stream)?;
        let emission = self.emission(aggregate, below, &mut stream)?;
        let mut grouping = grouping(aggregate, needed, below, &mut stream)?;
        grouping.share_with(emission.as_ref(), &mut stream);
        grouping.windowed.iter().for_each(|windowed| add_places(&mut self.origins.present, &windowed.places));
        if let Some(emission) = emission {
            let mut next = self.group_aggregate(aggregate, needed, stream, grouping, Some(emission.spec))?;
            next.follow(emission);
            return Ok(next);
        }
        let follows_rows = grouping.windowed.as_ref().is_some_and(|windowed| windowed.window.follows_rows());
        if !self.ends(&grouping, &stream) {
            return self.group_aggregate(aggregate, needed, stream, grouping, None);
        }
        let stage = self.keyed_stage(AGGREGATE, grouping.keys.is_empty());
        let in_two_phases = !follows_rows && grouping.aggregates.iter().all(is_mergeable);
        if in_two_phases && !stage.continues(&stream) {
            let mut fields: Vec<Field> = grouping.windowed.iter().map(|_| pane_start()).collect();
            let first_key = fields.len();
            fields.extend(grouping.keys.iter().map(NamedExpr::field));
            for (aggregate_spec, call) in grouping.aggregates.iter().zip(&grouping.calls) {
                fields.extend(state_fields(aggregate_spec, call, below)?);
            }
            let partial = grouping.spec(AggregatePhase::Partial, &stream);
            let last = WindowAggregateSpec { phase: AggregatePhase::Final, ..partial.clone() };
            stream.operators.push(OperatorSpec::WindowAggregate(partial));
            stream.physical = fields;
            stream.columns.clear();
            stream.window = None;
            let keys = (first_key..first_key + grouping.keys.len()).collect();
            stream = self.exchange_to(stage, keys, stream);
            stream.operators.push(OperatorSpec::WindowAggregate(last));
        } else {
            stream = self.exchange_rows(stage, stream, &mut grouping);
            let spec = grouping.spec(AggregatePhase::Complete, &stream);
            stream.operators.push(OperatorSpec::WindowAggregate(spec));
        }
        finish(&mut stream, &grouping, aggregate, needed);
        Ok(stream)
    }

    /// Whether results are emitted once: at the end of the window, or of the input.
    fn ends(&self, grouping: &Grouping, stream: &Stream) -> bool {
        let ends = stream.bounded && self.mode != RuntimeMode::Streaming;
        grouping.windowed.is_some() || ends && stream.weight.is_none()
    }

    /// Exchanges rows by key, unless the stage continues their chain: keys first, then the arguments of the
    /// aggregates, the event time, and the weight.
    pub(super) fn exchange_rows(&mut self, stage: KeyedStage, mut stream: Stream, grouping: &mut Grouping) -> Stream {
        if stage.continues(&stream) {
            // At another parallelism the aggregate would be a stage of its own.
            stream.tasks_max = stream.tasks_max.filter(|_| stage.tasks_max.is_some());
            return stream;
        }
        let schema = stream.physical.clone();
        let mut columns = Exchanged::new(grouping.keys.clone(), &schema);
        for (index, key) in grouping.keys.iter_mut().enumerate() {
            key.expr = Expr::Column(index);
        }
        if let Some(windowed) = &mut grouping.windowed {
            let time_type = windowed.time_type.clone();
            windowed.time = columns.add("$event_time", &windowed.time, Some(time_type));
        }
        for aggregate in &mut grouping.aggregates {
            for arg in aggregate.args.iter_mut().chain(&mut aggregate.filter) {
                *arg = columns.carry(arg);
            }
        }
        if let Some(weight) = stream.weight
            && let Expr::Column(index) = columns.add("", &Expr::Column(weight), None)
        {
            stream.weight = Some(index);
        }
        let exprs = columns.exprs;
        stream.window = None;
        stream.project(exprs, false);
        stream.columns.clear();
        let keys = (0..grouping.keys.len()).collect();
        self.exchange_to(stage, keys, stream)
    }
}

/// Assigns cumulating windows if the keys contain only their start, which several windows share.
fn assign_cumulated(aggregate: &Aggregate, below: &Columns, stream: &mut Stream) -> Result<()> {
    let is_cumulated =
        |windowed: &Windowed| !windowed.has_columns && matches!(windowed.window, Window::Cumulate { .. });
    let columns = aggregate.group_expr.iter().filter_map(|key| stream.plain_column(key, below));
    let mut columns = columns.filter_map(|column| stream.window_column(column));
    let by_start =
        stream.window.as_ref().is_some_and(is_cumulated) && columns.all(|column| column == WindowColumn::Start);
    if by_start { stream.assign_windows() } else { Ok(()) }
}

/// The columns of an exchanged row, collected one by one.
struct Exchanged<'a> {
    exprs: Vec<NamedExpr>,
    /// The first index in `exprs` of each column that is carried unchanged.
    carried: BTreeMap<usize, usize>,
    schema: &'a [Field],
}

impl<'a> Exchanged<'a> {
    fn new(exprs: Vec<NamedExpr>, schema: &'a [Field]) -> Self {
        let mut carried = BTreeMap::new();
        for (position, named) in exprs.iter().enumerate() {
            if let Expr::Column(index) = named.expr {
                carried.entry(index).or_insert(position);
            }
        }
        Exchanged { exprs, carried, schema }
    }

    /// The column for `expr`, which is added if it is new. Without a type, `expr` must be a column.
    fn add(&mut self, name: &str, expr: &Expr, data_type: Option<DataType>) -> Expr {
        let found = match expr {
            Expr::Column(index) => self.carried.get(index).copied(),
            _ => self.exprs.iter().position(|e| e.expr == *expr),
        };
        if let Some(position) = found {
            return Expr::Column(position);
        }
        if let Expr::Column(index) = expr {
            self.carried.insert(*index, self.exprs.len());
        }
        let (name, data_type, nullable) = match (expr, data_type) {
            (Expr::Column(index), _) => {
                let field = &self.schema[*index];
                (field.name().as_str(), field.data_type().clone(), field.is_nullable())
            }
            (_, data_type) => (name, data_type.unwrap_or(DataType::Null), true),
        };
        self.exprs.push(NamedExpr { name: name.to_string(), expr: expr.clone(), data_type, nullable });
        Expr::Column(self.exprs.len() - 1)
    }

    /// The expression over the exchanged row. Columns that it reads are added. If it reads only fields of a
    /// ROW, only these fields are added.
    fn carry(&mut self, expr: &Expr) -> Expr {
        if let Expr::Column(_) = expr {
            return self.add("", expr, None);
        }
        if let Expr::Call { function, args, returns, .. } = expr
            && let ("get_field", [Expr::Column(_), Expr::Literal(name)]) = (function.as_str(), args.as_slice())
        {
            return self.add(name.as_text().unwrap_or_default(), expr, Some(returns.clone()));
        }
        let mut carried = expr.clone();
        for operand in carried.children_mut() {
            *operand = self.carry(operand);
        }
        carried
    }
}

/// Converts keys, window and aggregates to the physical columns.
fn grouping<'a>(
    aggregate: &'a Aggregate,
    needed: &Needed,
    below: &Columns,
    stream: &mut Stream,
) -> Result<Grouping<'a>> {
    let fields = aggregate.columns.fields();
    let window_column = |stream: &Stream, expr: &Logical| {
        stream.plain_column(expr, below).and_then(|index| stream.window_column(index))
    };
    let windowed = aggregate.group_expr.iter().any(|e| window_column(stream, e).is_some());
    if !windowed {
        stream.assign_windows()?;
    }
    // Expressions come first: a window column in one assigns the windows, which moves the columns.
    let is_read = |index: &usize| *index < aggregate.group_expr.len() || needed.contains(index);
    let exprs = aggregate.group_expr.iter().chain(&aggregate.aggr_expr).enumerate();
    for (_, expr) in exprs.filter(|(index, _)| is_read(index)) {
        if window_column(stream, expr).is_none() && !matches!(expr, Logical::AggregateFunction(_)) {
            stream.expr(expr, below)?;
        }
        if let Logical::AggregateFunction(call) = expr {
            for arg in call.params.args.iter().chain(call.params.filter.as_deref()) {
                stream.expr(arg, below)?;
            }
        }
    }
    let mut grouping = Grouping {
        keys: Vec::new(),
        aggregates: Vec::new(),
        calls: Vec::new(),
        outputs: Vec::new(),
        windowed: stream.window.clone().filter(|_| windowed),
    };
    for (index, expr) in aggregate.group_expr.iter().enumerate() {
        if let Some(column) = window_column(stream, expr) {
            grouping.outputs.push(Output::Window(column));
            continue;
        }
        let field = &fields[index];
        check_comparable(expr, below, "GROUP BY or DISTINCT")?;
        grouping.outputs.push(Output::Key(grouping.keys.len()));
        grouping.keys.push(NamedExpr::with_field(stream.expr(expr, below)?, field));
    }
    for (index, expr) in aggregate.aggr_expr.iter().enumerate() {
        let position = aggregate.group_expr.len() + index;
        grouping.outputs.push(Output::Aggregate(grouping.aggregates.len()));
        if needed.contains(&position) {
            let call = aggregate_call(expr)?;
            let name = format!("{}_{}", call.func.name(), grouping.aggregates.len() + 1);
            grouping.aggregates.push(aggregate_spec(name, call, &fields[position], below, stream)?);
            grouping.calls.push(call);
        }
    }
    Ok(grouping)
}

fn aggregate_call(expr: &Logical) -> Result<&AggregateFunction> {
    match expr {
        Logical::AggregateFunction(call) => Ok(call),
        other => Err(Error::internal(format!("{other} is not an aggregate"))),
    }
}

pub(super) fn aggregate_spec(
    name: String,
    call: &AggregateFunction,
    field: &Field,
    below: &Columns,
    stream: &mut Stream,
) -> Result<AggregateSpec> {
    let function = call.func.name().to_string();
    if !call.params.order_by.is_empty() || call.params.null_treatment.is_some() {
        return Err(Error::user(format!("ORDER BY and IGNORE NULLS in {function}(...) are not supported yet"))
            .remedy("omit them"));
    }
    if call.params.distinct || matches!(function.as_str(), "min" | "max") {
        for arg in &call.params.args {
            check_comparable(arg, below, &function.to_uppercase())?;
        }
    }
    let mut over = |expr: &Logical| stream.expr(expr, below);
    let args = call.params.args.iter().map(&mut over).collect::<Result<Vec<_>>>()?;
    let mut filter = call.params.filter.as_deref().map(&mut over).transpose()?;
    if matches!(function.as_str(), "first_value" | "last_value") {
        // As in Flink, the first value is the first value that is not NULL.
        let is_value = args.iter().map(|arg| Expr::Not(Box::new(Expr::IsNull(Box::new(arg.clone())))));
        filter = Expr::all(filter.into_iter().chain(is_value).collect());
    }
    Ok(AggregateSpec {
        name,
        args,
        distinct: call.params.distinct,
        filter,
        data_type: field.data_type().clone(),
        nullable: field.is_nullable(),
        function,
    })
}

/// Sets the columns after the aggregation.
pub(super) fn finish(stream: &mut Stream, grouping: &Grouping, aggregate: &Aggregate, needed: &Needed) {
    let key_count = grouping.keys.len();
    let mut physical: Vec<Field> = grouping.keys.iter().map(NamedExpr::field).collect();
    let window_columns = if let Some(windowed) = &grouping.windowed {
        physical.extend(WINDOW_COLUMNS.map(|name| Field::new(name, windowed.time_type.clone(), false)));
        WINDOW_COLUMNS.len()
    } else {
        0
    };
    physical.extend(grouping.aggregates.iter().map(AggregateSpec::field));
    let value = |output: Output, data_type: &DataType| match output {
        Output::Key(index) => Expr::Column(index),
        Output::Aggregate(index) => Expr::Column(key_count + window_columns + index),
        Output::Window(column) => {
            let value = Expr::Column(key_count + column as usize);
            let earlier_ms = grouping.windowed.as_ref().map_or(0, |w| w.earlier_ms);
            let value = if column == WindowColumn::Start { minus_ms(value, earlier_ms) } else { value };
            grouping.windowed.as_ref().map_or(value.clone(), |w| w.value(column, value, data_type))
        }
    };
    let outputs = grouping.outputs.iter().zip(aggregate.columns.fields()).enumerate();
    stream.columns = outputs
        .map(|(index, (output, field))| LogicalColumn {
            value: needed.contains(&index).then(|| value(*output, field.data_type())),
            window: match output {
                Output::Window(column) => grouping.windowed.as_ref().and_then(|w| column.with_values(w.window)),
                _ => None,
            },
            ..LogicalColumn::absent(field)
        })
        .collect();
    (stream.physical, stream.stamps) = (physical, Vec::new());
    stream.window = grouping.windowed.as_ref().map(|w| {
        let window_time = Expr::Column(key_count + WindowColumn::Time as usize);
        let mut windowed = w.with_columns(window_time);
        windowed.earlier_ms += w.earlier_ms;
        windowed
    });
    stream.has_event_time &= grouping.windowed.is_some();
    stream.times = BTreeMap::new();
    if let Some(windowed) = grouping.windowed.as_ref().filter(|_| stream.has_event_time) {
        let is_window = |(index, output): (usize, &Output)| match output {
            Output::Window(column) => Some((index, windowed.lag_ms(*column)?)),
            _ => None,
        };
        stream.times = grouping.outputs.iter().enumerate().filter_map(is_window).collect();
    }
}
