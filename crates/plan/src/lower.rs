//! Converts optimized plans to stages.
//!
//! A query is lowered from its leaves. The open end of a chain is a [`Stream`]: the operators so far, the
//! *physical* columns of the rows that leave them, and the *logical* columns of the plan as expressions over
//! the physical ones. Projections only rewrite these expressions. Nothing is computed, renamed or reordered
//! before a consumer needs rows of an exact shape (an exchange, a sink). So filters run before casts that
//! they do not need, and a join copies only the columns that are read above it. Every step receives the set
//! of needed columns.
//!
//! Windows are lazy too. A window table function first only records how rows belong to windows. An
//! aggregation that groups by the window uses the record. Only other uses of the window columns add an
//! operator to the chain.

mod aggregate;
mod assign;
mod chain;
mod copies;
mod deduplicate;
mod emission;
mod exchange;
mod expr;
mod final_rows;
mod group_aggregate;
mod grouping_sets;
mod join;
mod join_times;
mod latest_of_keys;
mod limit;
mod literal;
mod lookup_join;
mod materialize;
mod narrow;
mod origin;
mod over;
mod over_checks;
mod query_text;
mod rank;
mod row_fields;
mod scan;
mod session_rows;
mod share;
mod shared_sources;
mod side_tables;
mod sink;
mod sort;
mod states;
mod stream;
mod stream_join;
mod table_options;
mod temporal_join;
mod union;
mod unnest;
mod values;
mod window_join;
mod windowed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_dataflow::{Exchange, JoinedAtOnce, Place, Plan, SinkSpec, Stage, Updates, join_at_once, report_once};
use anabranch_model::{Error, KeyGroups, Result, StageId};
use arrow::datatypes::DataType;
use datafusion_expr::utils::expr_to_columns;
use datafusion_expr::{Expr, ExprSchemable};

pub(crate) use self::deduplicate::first_by;
use self::join_times::{Times, plain_time};
use self::narrow::narrow_filters;
use self::origin::Origins;
pub(crate) use self::rank::{bounded_number, row_number};
use self::shared_sources::{Readers, share_sources};
pub(crate) use self::side_tables::side_tables;
use self::stream::{LogicalColumn, Stream};
use self::table_options::TableOptions;
pub(crate) use self::temporal_join::version_key;
use crate::PlanOptions;
use crate::catalog::Catalog;
use crate::hints::TimesToLive;
use crate::origin::first_place;
use crate::place::planning_error;
use crate::processing_time;
use crate::rel::{Columns, Project, Rel};
use crate::settings::{RuntimeMode, TableSettings};
use crate::sql_function::CalledFunction;
use crate::stamps::ReadStamps;
use crate::table::Table;
use crate::varying::{is_volatile, what_varies};

/// A query and the destination of its rows.
pub(crate) struct Output {
    /// The plan before all passes.
    pub(crate) bound: Rel,
    /// The optimized plan, with the sink's columns.
    pub(crate) plan: Rel,
    pub(crate) sink: SinkSpec,
    /// How the table handles updates.
    pub(crate) updates: Updates,
    /// Whether the table keeps the latest of several rows with its primary key.
    pub(crate) deduplicates: bool,
    pub(crate) parallelism: Option<u32>,
    /// See [`side_tables`].
    pub(crate) side_tables: BTreeMap<String, Arc<Table>>,
    /// The declared functions that the query calls.
    pub(crate) functions: BTreeSet<CalledFunction>,
    /// The times to live of STATE_TTL hints.
    pub(crate) times_to_live: TimesToLive,
    /// The options at the time of the statement.
    pub(crate) table: TableSettings,
    /// Where the statement names the table.
    pub(crate) place: Option<Place>,
}

/// Short name of the stages after an exchange by key.
const AGGREGATE: &str = "aggregate";

/// Indexes of the columns of a plan that the nodes above read.
type Needed = BTreeSet<usize>;

/// The requirements on the rows of a plan.
#[derive(Clone, Default)]
struct Want {
    /// The needed columns. Others have no value.
    columns: Needed,
    /// Only the first rows of each partition of a numbering, up to this number.
    limit: Option<u64>,
    /// All versions of the rows, instead of the latest row of each key.
    versions: bool,
    /// The table is looked up by key.
    is_lookup: bool,
    /// Sessions may be open: their bounds need not be known.
    sessions: bool,
    /// Columns whose value may differ between a row and its retraction, because the sink keeps only the
    /// latest row per key.
    may_vary: Needed,
}

impl Want {
    fn columns(columns: Needed) -> Self {
        Want { columns, ..Want::default() }
    }

    /// The requirements on the input of a node that passes rows on and needs these columns.
    fn of_input(&self, columns: Needed) -> Self {
        Want { columns, may_vary: Needed::new(), ..self.clone() }
    }
}

/// Lowers the queries of one job. The option `stage-parallelism` may only name stages of the job.
pub(crate) fn lower_job(outputs: &[&Output], catalog: &Catalog, options: &PlanOptions) -> Result<Plan> {
    let (plan, labels) = lower_labelled(outputs, catalog, options)?;
    let Some(unknown) = plan.options.stage_parallelism.keys().find(|label| !labels.contains_key(*label)) else {
        return Ok(plan);
    };
    let error = Error::user(format!("there is no stage '{unknown}' whose number of tasks can be set"));
    let labels: Vec<&str> = labels.keys().map(String::as_str).collect();
    Err(error.at("option 'stage-parallelism'").remedy(match labels.as_slice() {
        [] => "no stage has a number of tasks of its own".to_owned(),
        labels => format!("the stages are: {}", labels.join(", ")),
    }))
}

pub(crate) fn lower(outputs: &[Output], catalog: &Catalog, options: &PlanOptions) -> Result<Plan> {
    lower_labelled(&outputs.iter().collect::<Vec<_>>(), catalog, options).map(|(plan, _)| plan)
}

/// Lowers queries. Also returns the labels of stages whose number of tasks can be set.
fn lower_labelled(outputs: &[&Output], catalog: &Catalog, options: &PlanOptions) -> Result<(Plan, Labels)> {
    let parallelism = options.parallelism.or(catalog.settings.parallelism).unwrap_or(options.default_parallelism);
    let parallelism = parallelism.max(1);
    let key_groups = catalog.settings.key_groups(options.key_groups);
    if parallelism > u32::from(key_groups) {
        return Err(too_many_tasks(parallelism, key_groups));
    }
    let mut lowered = Lowered::default();
    let own = &catalog.settings.job.stage_parallelism;
    for output in outputs {
        let side_tables = &output.side_tables;
        let reads = ReadStamps::of_plan(&output.plan);
        let mut lowering = Lowering {
            catalog,
            side_tables,
            parallelism,
            own,
            table: TableOptions::new(&output.table, &catalog.settings, &output.times_to_live)?,
            mode: catalog.settings.runtime_mode,
            reads,
            by_clock: None,
            origins: Origins::default(),
            lowered,
        };
        let first = lowering.lowered.stages.len();
        lowering.output(output)?;
        lowered = lowering.lowered;
        // A join of several streams at once evaluates its condition again for a retraction, so the condition
        // must not be volatile.
        if !output.table.joins_two && !is_volatile(&output.plan) {
            lowered.joins_at_once.extend(lowered.stages[first..].iter().map(|stage| stage.id));
        }
    }
    let Lowered { stages, exchanges, mut labels, by_field, joins_at_once, .. } = lowered;
    let all = stages;
    let JoinedAtOnce { stages, exchanges, ids } = join_at_once(&all, &exchanges, &joins_at_once);
    // A join that runs inside another stage has no label.
    for label in all.iter().filter(|stage| !ids.contains_key(&stage.id)).filter_map(|stage| stage.label.as_ref()) {
        labels.remove(label);
    }
    let by_field = by_field.iter().filter_map(|stage| ids.get(stage).copied()).collect();
    let (mut stages, exchanges) = share_sources(stages, exchanges, &by_field)?;
    narrow_filters(&mut stages)?;
    report_once(&mut stages, &exchanges);
    // The script may have lowered the bound after it set these numbers.
    if let Some(widest) =
        stages.iter().map(|stage| stage.parallelism).max().filter(|tasks| *tasks > u32::from(key_groups))
    {
        return Err(too_many_tasks(widest, key_groups));
    }
    Ok((Plan::new(KeyGroups(key_groups), catalog.settings.job.clone(), stages, exchanges), labels))
}

fn too_many_tasks(tasks: u32, key_groups: u16) -> Error {
    Error::user(format!("a parallelism of {tasks} is more than the {key_groups} key groups of the job"))
        .remedy("lower the parallelism, or raise 'max-parallelism'")
}

/// The physical form of an expression over the columns of a plan.
#[cfg(test)]
pub(crate) fn converted(expr: &Expr, columns: &crate::rel::Columns) -> Result<anabranch_dataflow::Expr> {
    expr::convert(expr, columns, &|index| Ok(anabranch_dataflow::Expr::Column(index)))
}

/// The labels of stages whose number of tasks can be set, each with that number if it is set.
type Labels = BTreeMap<String, Option<u32>>;

/// The stages and exchanges lowered so far, for all queries of a job.
#[derive(Default)]
struct Lowered {
    stages: Vec<Stage>,
    exchanges: Vec<Exchange>,
    labels: Labels,
    readers: Vec<Readers>,
    /// Stages whose source can provide fields of rows as columns: see [`row_fields`].
    by_field: BTreeSet<StageId>,
    /// Stages whose joins may [run in one operator](join_at_once).
    joins_at_once: BTreeSet<StageId>,
}

/// The lowering of a query.
struct Lowering<'a> {
    catalog: &'a Catalog,
    side_tables: &'a BTreeMap<String, Arc<Table>>,
    /// Parallelism of stages that follow a hash exchange.
    parallelism: u32,
    /// The number of tasks of each stage for which an option sets it, by label.
    own: &'a BTreeMap<String, u32>,
    table: TableOptions<'a>,
    mode: RuntimeMode,
    reads: ReadStamps,
    /// Whether the windows above use processing time. `None`: there are none.
    by_clock: Option<bool>,
    origins: Origins,
    lowered: Lowered,
}

impl Lowering<'_> {
    /// Lowers a plan of which these columns are needed.
    fn plan(&mut self, plan: &Rel, needed: &Needed) -> Result<Stream> {
        self.wanted(plan, &Want::columns(needed.clone()))
    }

    /// Lowers a plan.
    fn wanted(&mut self, plan: &Rel, want: &Want) -> Result<Stream> {
        let above = self.enter(plan);
        let stream = self.node(plan, want);
        let places = self.leave(above);
        let mut stream = stream.map_err(|error| self.located(error, plan, &places))?;
        stream.operators.close(&places);
        let columns = stream.columns.iter_mut().enumerate();
        columns.filter(|(index, _)| !want.columns.contains(index)).for_each(|(_, column)| column.value = None);
        Ok(stream)
    }

    fn node(&mut self, plan: &Rel, want: &Want) -> Result<Stream> {
        let needed = &want.columns;
        match plan {
            Rel::Project(projection) => self.project(projection, want),
            Rel::Filter(filter) => match rank::bounded_number(filter) {
                Some((1, rest)) if want.versions => self.versions(filter, rest.as_ref(), want),
                Some((limit, rest)) => {
                    let want = Want { limit: Some(limit), ..want.of_input(needed.clone()) };
                    match rest {
                        Some(rest) => self.filter(&rest, &filter.input, &want),
                        None => self.wanted(&filter.input, &want),
                    }
                }
                None => self.filter(&filter.predicate, &filter.input, want),
            },
            Rel::Over(window) => {
                over_checks::check_calls(window)?;
                if want.versions {
                    return self.unnumbered(window, needed);
                }
                match row_number(window).zip(want.limit) {
                    Some((call, limit)) => self.rank(window, call, limit, needed),
                    None => self.over(window, needed),
                }
            }
            Rel::Sort(sort) => self.sort(sort, needed),
            Rel::Limit(limit) => self.limit(limit, needed),
            Rel::Get(scan) => self.scan(scan, want),
            Rel::Aggregate(aggregate) => self.aggregate(aggregate, needed),
            Rel::Join(join) => self.join(join, needed),
            Rel::Union(union) => self.union(union, needed),
            Rel::Values(values) => self.values(values, needed),
            Rel::Assign(assign) => self.assign(assign, want),
            Rel::Unnest(unnest) => self.unnest(unnest, needed),
            Rel::Temporal(join) => self.temporal_join(join, needed),
            Rel::Copies(copies) => self.copies(copies, needed),
            Rel::Distinct(_) => Err(Error::internal("DISTINCT is an aggregation when a plan is lowered")),
        }
    }

    fn project(&mut self, projection: &Project, want: &Want) -> Result<Stream> {
        let Project { exprs, input, .. } = projection;
        let needed = &want.columns;
        let used: Vec<&Expr> = exprs.iter().enumerate().filter(|(i, _)| needed.contains(i)).map(|(_, e)| e).collect();
        let below = input.columns();
        let mut stream = self.wanted(input, &want.of_input(columns_of(used.iter().copied(), below)?))?;
        // Windows are assigned first, because that moves the physical columns.
        let computed = used.iter().copied().filter(|e| stream.plain_column(e, below).is_none());
        let computed: Vec<&Expr> = computed.collect();
        if stream.open_sessions().is_some() && stream.reads_window(&computed, below) {
            stream = self.session_rows(stream)?;
        }
        stream.assign_windows_for(&computed, below)?;
        stream.share(&used, below)?;
        let mut columns = Vec::with_capacity(exprs.len());
        for (index, expr) in exprs.iter().enumerate() {
            let field = projection.columns.field(index);
            let mut column = LogicalColumn::absent(field);
            if needed.contains(&index) {
                match stream.plain_column(expr, below) {
                    Some(source) => {
                        column.value = stream.columns[source].value.clone();
                        column.window = stream.columns[source].window;
                        column.place = stream.columns[source].place;
                    }
                    None if want.may_vary.contains(&index) => {
                        column.value = Some(stream.varying_expr(expr, below)?);
                        stream.varies = what_varies(expr)?.or(stream.varies.take());
                    }
                    None => column.value = Some(stream.expr(expr, below)?),
                }
                column.place = column.place.or_else(|| first_place(expr));
            }
            columns.push(column);
        }
        stream.times = times_of(projection, below, &stream, self.by_clock == Some(true));
        stream.unique = stream.unique.as_ref().and_then(|unique| {
            let kept = |column: &usize| exprs.iter().position(|expr| same_values(expr, below) == Some(*column));
            unique.iter().map(kept).collect()
        });
        stream.columns = columns;
        if exprs.iter().any(Expr::is_volatile) {
            stream.materialize();
        }
        Ok(stream)
    }

    fn filter(&mut self, predicate: &Expr, input: &Rel, want: &Want) -> Result<Stream> {
        let needed = &want.columns;
        let index = input.columns();
        let mut below = columns_of([predicate], index)?;
        let own = below.clone();
        below.extend(needed);
        let mut stream = self.wanted(input, &Want { sessions: false, ..want.of_input(below) })?;
        // A costly column that the predicate and the nodes above read is computed once, unless a computation
        // may fail on a row that the predicate drops.
        if own.intersection(needed).any(|index| stream.columns[*index].is_costly()) && !stream.may_fail() {
            stream.materialize();
        }
        let predicate = stream.expr(predicate, index)?;
        stream.filter(&predicate);
        Ok(stream)
    }
}

/// The column that has the same values as the expression. The expression may have a wider type.
fn same_values(expr: &Expr, below: &Columns) -> Option<usize> {
    match expr {
        Expr::Column(column) => below.find(column),
        Expr::Cast(cast) => {
            let from = cast.expr.get_type(below).ok()?;
            let bytes = |kind: &DataType| kind.primitive_width().filter(|_| kind.is_integer());
            let to = cast.field.data_type();
            let is_wider =
                bytes(&from).zip(bytes(to)).is_some_and(|(from, to)| from <= to) || from.is_string() && to.is_string();
            if is_wider { same_values(&cast.expr, below) } else { None }
        }
        _ => None,
    }
}

/// The times of the projected columns.
fn times_of(projection: &Project, below: &Columns, stream: &Stream, by_clock: bool) -> Times {
    // The projection of a declared table computes the event time.
    let computes = |index: usize, expr: &Expr| {
        if by_clock {
            return processing_time::is_call(expr);
        }
        stream.has_event_time && projection.event_time == Some(projection.columns.id(index))
    };
    let times = projection.exprs.iter().enumerate().filter_map(|(index, expr)| match plain_time(expr, below) {
        Some(column) => Some((index, *stream.times.get(&column)?)),
        None => computes(index, expr).then_some((index, 0)),
    });
    times.collect()
}

/// Indexes of the columns of `input` that the expressions read.
fn columns_of<'e>(exprs: impl IntoIterator<Item = &'e Expr>, input: &Columns) -> Result<Needed> {
    let mut needed = Needed::new();
    for expr in exprs {
        let mut columns = std::collections::HashSet::new();
        expr_to_columns(expr, &mut columns).map_err(planning_error)?;
        for column in columns {
            needed.insert(input.place(&column)?);
        }
    }
    Ok(needed)
}
