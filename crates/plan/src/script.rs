//! Single statements: their effect on the catalog, and the resulting job.

use std::fmt::{self, Write};
use std::sync::Arc;

use anabranch_dataflow::{ConnectorSpec, Plan, SinkSpec};
use anabranch_model::{Error, Result};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_sql::sqlparser::ast::{Ident, Query};

use crate::catalog::{Catalog, Relation, View};
use crate::creation::{alter_table, create_as, create_table, declare_with};
use crate::hints::times_to_live;
use crate::in_statement::in_statement;
use crate::insert::{plan_insert, plan_output};
use crate::logical_text::with_plain_constants;
use crate::lower::{Output, lower};
use crate::place::{at, counted, planning_error};
use crate::query::Planner;
use crate::rel::{Rel, named};
use crate::settings::Settings;
use crate::show::{declaration, show};
use crate::sql_function::SqlFunction;
use crate::statement::{CreateFunction, DatabaseStatement, Insert, QualifiedName, Statement, parse};
use crate::text::StatementText;
use crate::{PlanOptions, TableResolver};

/// Connector of the sink that an interactive SELECT writes to.
pub const COLLECT: &str = "collect";

/// The job of a SELECT. Its sink has the connector [`COLLECT`].
#[derive(Debug)]
pub struct QueryPlan {
    /// The job. It takes no checkpoints, because shown rows cannot be retracted.
    pub plan: Plan,
    /// Columns of the result.
    pub schema: SchemaRef,
    /// Rows to skip and rows to take before the caller stops the job (`LIMIT`, `OFFSET`).
    pub skip: usize,
    /// See `skip`; `None`: all rows.
    pub limit: Option<usize>,
    /// The time zone in which instants are shown. `None`: UTC.
    pub zone: Option<String>,
    /// Rows may be retracted: the last column is their weight.
    pub updating: bool,
}

/// The result of a statement.
#[derive(Debug)]
pub enum Outcome {
    /// The catalog or an option changed. The message for the user.
    Done(String),
    /// A text to show.
    Report(String),
    /// [`Outcome::Done`] with a message that scripts show too.
    Note(String),
    /// A job that runs independently.
    Insert(Box<Plan>),
    /// A table was declared, and a job writes its rows.
    CreateAs {
        /// The job.
        plan: Box<Plan>,
        /// The statement that declares only the table, including its secrets.
        declaration: String,
    },
    /// A job whose rows the caller collects.
    Query(Box<QueryPlan>),
}

/// What to know about the checkpoint interval before a directory is set. The job may get one elsewhere: a
/// coordinator has one for each job.
const NEEDS_DIRECTORY: &str =
    "it needs a directory: SET 'checkpoint-directory' = '/path'; a job of a coordinator has one";

/// Stack size for planning, which recurses as deep as the longest chain of conditions. Only the used part
/// takes memory.
const STACK_BYTES: usize = 512 << 20;

/// Runs planning on a large stack.
pub(crate) fn on_large_stack<T>(plan: impl FnOnce() -> Result<T>) -> Result<T> {
    stacker::grow(STACK_BYTES, plan)
}

/// Plans one statement. The rows of a bare SELECT go to a sink of connector [`COLLECT`] and table
/// `collect_as`.
pub fn execute(
    statement: &StatementText,
    catalog: &mut Catalog,
    resolver: &dyn TableResolver,
    options: &PlanOptions,
    collect_as: &str,
) -> Result<Outcome> {
    on_large_stack(|| execute_here(statement, catalog, resolver, options, collect_as))
}

fn execute_here(
    statement: &StatementText,
    catalog: &mut Catalog,
    resolver: &dyn TableResolver,
    options: &PlanOptions,
    collect_as: &str,
) -> Result<Outcome> {
    let place = |error: Error| in_statement(error, statement, (statement.line, statement.column));
    let mut declare = |name: &Ident, with| declare_with(name, with, catalog, resolver, options);
    match parse(statement, &mut declare).map_err(place)? {
        Statement::Insert(inserts) => {
            let outputs = plan_inserts(inserts, catalog, statement)?;
            Ok(Outcome::Insert(Box::new(lower(&outputs, catalog, options).map_err(place)?)))
        }
        Statement::Query(query) => {
            let (query, _) = plan_query(query, catalog, options, collect_as).map_err(place)?;
            Ok(Outcome::Query(Box::new(query)))
        }
        Statement::CreateTable(create) if create.query.is_some() => {
            let (name, former) = (create.name.value.clone(), catalog.get(&create.name.value).ok().cloned());
            let output = create_as(*create, catalog, resolver, options).map_err(place);
            let plan = output.and_then(|output| {
                output.map(|output| lower(std::slice::from_ref(&output), catalog, options).map_err(place)).transpose()
            });
            if plan.is_err() {
                catalog.put_back(&name, former);
            }
            let Some(plan) = plan? else { return Ok(Outcome::Done(format!("table {name} exists"))) };
            let declaration = declaration(&catalog.table(&name)?.statement);
            Ok(Outcome::CreateAs { plan: Box::new(plan), declaration })
        }
        other => {
            let sets_interval = matches!(&other, Statement::Set { name, .. } if Settings::is_checkpoint_interval(name));
            let outcome = perform(other, statement, catalog, resolver, options).map_err(place)?;
            Ok(match outcome {
                Outcome::Done(text) if sets_interval && catalog.settings.no_checkpoints().is_some() => {
                    Outcome::Note(format!("{text}; {NEEDS_DIRECTORY}"))
                }
                outcome => outcome,
            })
        }
    }
}

fn plan_inserts(inserts: Vec<Insert>, catalog: &Catalog, statement: &StatementText) -> Result<Vec<Output>> {
    inserts
        .into_iter()
        .map(|insert| {
            let start = insert.start;
            plan_insert(insert, catalog).map_err(|e| in_statement(e, statement, (start.line, start.column)))
        })
        .collect()
}

/// Carries out statements that start no job.
pub(crate) fn perform(
    statement: Statement,
    text: &StatementText,
    catalog: &mut Catalog,
    resolver: &dyn TableResolver,
    options: &PlanOptions,
) -> Result<Outcome> {
    match statement {
        Statement::AlterTable(alter) => alter_table(*alter, catalog, resolver, options).map(Outcome::Done),
        Statement::CreateTable(create) => create_table(*create, catalog, resolver, options).map(Outcome::Done),
        Statement::CreateView { name, if_not_exists, or_replace, columns, query, text } => {
            if if_not_exists && catalog.contains(&name.value) {
                return Ok(Outcome::Done(format!("view {} exists", name.value)));
            }
            let view = View { plan: plan_view(query, columns, catalog)?, text };
            let inserted = catalog.insert(&name.value, Relation::View(Arc::new(view)), or_replace);
            inserted.map_err(|e| e.at(at(name.span.start)))?;
            Ok(Outcome::Done(format!("view {} created", name.value)))
        }
        Statement::CreateFunction(create) => create_function(&create, catalog).map(Outcome::Done),
        Statement::Drop { kind, name, if_exists } => drop_declared(kind, &name, if_exists, catalog).map(Outcome::Done),
        Statement::Set { name, value } => {
            catalog.settings.set(&name, &value, options.key_groups)?;
            Ok(match Settings::without_effect(&name) {
                Some(reason) => Outcome::Note(format!("{name} has no effect: {reason}")),
                None => Outcome::Done(format!("{name} = {value}")),
            })
        }
        Statement::Reset(name) => {
            catalog.settings.reset(name.as_deref(), options.key_groups)?;
            Ok(Outcome::Done(name.map_or_else(|| "all options reset".to_owned(), |name| format!("{name} reset"))))
        }
        Statement::AddJar => {
            Ok(Outcome::Note("ADD JAR has no effect: connectors and formats are part of the program".to_owned()))
        }
        Statement::Database(statement) => perform_database(&statement, catalog).map(Outcome::Done),
        Statement::Show(what) => show(&what, catalog, resolver).map(Outcome::Report),
        Statement::Explain { explained, verbose } => {
            explain(*explained, verbose, text, catalog, options).map(Outcome::Report)
        }
        Statement::Insert(_) | Statement::Query(_) => Err(Error::internal("a job where none is expected")),
    }
}

/// Creates, drops or selects a database or catalog. Returns the message for the user.
fn perform_database(statement: &DatabaseStatement, catalog: &mut Catalog) -> Result<String> {
    let (databases, done) =
        (&mut catalog.databases, |place: &QualifiedName, done: Result<String>| done.map_err(|e| e.at(at(place.start))));
    match statement {
        DatabaseStatement::CreateDatabase { database, if_not_exists } => {
            done(database, databases.create(&database.parts(), *if_not_exists))
        }
        DatabaseStatement::DropDatabase { database, if_exists, cascade } => {
            done(database, catalog.drop_database(&database.parts(), *if_exists, *cascade))
        }
        DatabaseStatement::UseDatabase(database) => done(database, databases.use_database(&database.parts())),
        DatabaseStatement::CreateCatalog { catalog, options, if_not_exists } => {
            done(catalog, databases.create_catalog(&catalog.parts(), options, *if_not_exists))
        }
        DatabaseStatement::UseCatalog(catalog) => done(catalog, databases.use_catalog(&catalog.parts())),
    }
}

fn plan_view(query: Box<Query>, columns: Vec<Ident>, catalog: &Catalog) -> Result<Rel> {
    if !times_to_live(&query)?.is_empty() {
        return Err(Error::user("STATE_TTL is in a view")
            .remedy("write the hint in INSERT INTO ... SELECT, by the name of the view"));
    }
    let plan = Planner::new(catalog).view(query)?;
    let names: Vec<String> = columns.into_iter().map(|c| c.value).collect();
    if names.is_empty() { Ok(plan) } else { renamed(plan, &names) }
}

/// Declares a function. Returns the message for the user.
fn create_function(create: &CreateFunction, catalog: &mut Catalog) -> Result<String> {
    let name = &create.name.value;
    let here = |error: Error| error.at(at(create.name.span.start));
    catalog.check_function_name(name).map_err(here)?;
    if create.if_not_exists && catalog.sql_function(name).is_some() {
        return Ok(format!("function {name} exists"));
    }
    let function = SqlFunction::declare(create, catalog)?;
    catalog.insert_function(function, create.or_replace).map_err(here)?;
    Ok(format!("function {name} created"))
}

/// Drops a declaration. Returns the message for the user.
fn drop_declared(kind: &'static str, name: &Ident, if_exists: bool, catalog: &mut Catalog) -> Result<String> {
    let (name, place) = (&name.value, at(name.span.start));
    let is_function = kind == "function";
    let exists = if is_function { catalog.sql_function(name).is_some() } else { catalog.contains(name) };
    if if_exists && !exists {
        return Ok(format!("there is no {kind} {name}"));
    }
    let removed = if is_function { catalog.remove_function(name) } else { catalog.remove(kind, name) };
    removed.map_err(|e| e.at(place))?;
    Ok(format!("{kind} {name} dropped"))
}

fn renamed(plan: Rel, names: &[String]) -> Result<Rel> {
    let fields = plan.width();
    if fields != names.len() {
        return Err(Error::user(format!(
            "the view names {}, its query gives {fields}",
            counted(names.len(), "column")
        ))
        .remedy("name every column of the query, or none"));
    }
    let columns: Vec<_> = plan.columns().iter().zip(names).map(|(col, name)| named(name, col.expr())).collect();
    plan.project(columns).map_err(planning_error)
}

/// Plans a bare SELECT. Also returns its logical plan.
pub(crate) fn plan_query(
    query: Box<Query>,
    catalog: &Catalog,
    options: &PlanOptions,
    collect_as: &str,
) -> Result<(QueryPlan, LogicalPlans)> {
    let collected = collect(query, catalog, collect_as)?;
    let mut plan = lower(std::slice::from_ref(&collected.output), catalog, options)?;
    plan.options.checkpoints = None;
    // The schema of the last chain's rows: updating results have a weight.
    let results = plan.stages.iter().find(|stage| stage.sink.is_some());
    let updating = results.is_some_and(|stage| stage.sink.as_ref().is_some_and(|sink| sink.updating));
    let schema = results.map(|stage| stage.schema.clone());
    let Collected { output, skip, limit } = collected;
    if updating && (skip > 0 || limit.is_some()) {
        return Err(Error::user("LIMIT and OFFSET of results that are updated are not supported yet")
            .remedy("bound ROW_NUMBER() OVER (ORDER BY ...), or omit them and stop with Ctrl-C"));
    }
    let logical = LogicalPlans(vec![(None, output.plan.clone())]);
    let schema = schema.unwrap_or(output.sink.schema);
    let zone = catalog.settings.table.zone.clone();
    Ok((QueryPlan { plan, schema, skip, limit, zone, updating }, logical))
}

/// A bare SELECT.
struct Collected {
    output: Output,
    skip: usize,
    limit: Option<usize>,
}

fn collect(query: Box<Query>, catalog: &Catalog, name: &str) -> Result<Collected> {
    let times_to_live = times_to_live(&query)?;
    let mut plan = Planner::new(catalog).query(query)?;
    let (mut skip, mut limit) = (0, None);
    if let Rel::Limit(top) = &plan {
        let constant = || Error::user("LIMIT and OFFSET must be whole numbers of at least 0").remedy("write LIMIT 10");
        (skip, limit) = top.bounds().map(|bounds| (bounds.skip, bounds.fetch)).ok_or_else(constant)?;
        plan = top.input.as_ref().clone();
    }
    let sink = |plan: &Rel| {
        let fields = plan.columns().fields().iter();
        let fields = fields.map(|field| Field::new(field.name(), field.data_type().clone(), field.is_nullable()));
        let connector = ConnectorSpec::new(COLLECT, &[]);
        SinkSpec::new(name, connector, Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    };
    Ok(Collected { output: plan_output(plan, sink, times_to_live, catalog)?, skip, limit })
}

fn explain(
    statement: Statement,
    verbose: bool,
    text: &StatementText,
    catalog: &Catalog,
    options: &PlanOptions,
) -> Result<String> {
    let outputs = match statement {
        Statement::Query(query) => vec![collect(query, catalog, "result")?.output],
        Statement::Insert(inserts) => plan_inserts(inserts, catalog, text)?,
        _ => return Err(Error::internal("only queries and inserts can be explained")),
    };
    let plan = lower(&outputs, catalog, options)?.with_equal_stages_once();
    let logical = LogicalPlans::of_outputs(&outputs).to_string();
    let passes = match verbose {
        true => outputs.iter().map(|output| passes_text(output, catalog)).collect::<Result<String>>()?,
        false => String::new(),
    };
    let state = plan.state_report();
    let state = if state.is_empty() { state } else { format!("\nState\n{}", indented(&state)) };
    Ok(format!("{passes}Logical plan\n{}\nStages\n{}{state}", indented(&logical), indented(&plan.to_string())))
}

/// The plan before all passes, and after each pass that changes it.
fn passes_text(output: &Output, catalog: &Catalog) -> Result<String> {
    let shown = |plan: &Rel| with_plain_constants(&plan.to_string());
    let mut last = shown(&output.bound);
    let mut text = format!("As written\n{}\n", indented(&last));
    let mut unchanged = Vec::new();
    Planner::new(catalog).optimize_observed(output.bound.clone(), &mut |plan, pass| {
        let plan = shown(plan);
        if plan == last {
            unchanged.push(pass.name);
            return;
        }
        let _ = writeln!(text, "Pass {}: {}\n  ({})\n{}", pass.name, pass.does, pass.place, indented(&plan));
        last = plan;
    })?;
    let _ = writeln!(text, "Passes without a change: {}\n", unchanged.join(", "));
    Ok(text)
}

fn indented(text: &str) -> String {
    text.lines().fold(String::new(), |mut result, line| {
        let _ = writeln!(result, "  {line}");
        result
    })
}

/// Logical plans as `explain` shows them, each with the table that it writes. A SELECT has no table, but the
/// statement EXPLAIN shows it with the table `result`.
#[derive(Clone, Debug, Default)]
pub struct LogicalPlans(Vec<(Option<String>, Rel)>);

impl LogicalPlans {
    pub(crate) fn of_outputs<'o>(outputs: impl IntoIterator<Item = &'o Output>) -> Self {
        LogicalPlans(outputs.into_iter().map(|output| (Some(output.sink.table.clone()), output.plan.clone())).collect())
    }
}

impl fmt::Display for LogicalPlans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (table, plan)) in self.0.iter().enumerate() {
            if place > 0 {
                writeln!(f)?;
            }
            if let Some(table) = table {
                writeln!(f, "insert into {table}")?;
            }
            f.write_str(&indented(&with_plain_constants(&plan.to_string())))?;
        }
        Ok(())
    }
}
