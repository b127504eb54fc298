//! Scripts: planned as a whole before anything runs, then carried out step by step.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::{Plan, PlannedText};
use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::Ident;
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::catalog::Catalog;
use crate::creation::{create_as, declare_with};
use crate::in_statement::in_statement;
use crate::insert::plan_insert;
use crate::lower::{Output, lower, lower_job};
use crate::place::or_at;
use crate::script::{LogicalPlans, Outcome, QueryPlan, on_large_stack, perform, plan_query};
use crate::sql_function::CalledFunction;
use crate::statement::{Statement, parse};
use crate::text::{StatementText, split_statements};
use crate::{PlanOptions, TableResolver};

/// The steps of a script, in the order of its statements.
#[derive(Debug)]
pub struct Steps {
    /// The steps. Each begins when the one before has ended.
    pub steps: Vec<Step>,
    /// Notes for the user on statements without output, such as options without effect.
    pub notes: Vec<String>,
}

/// A step of a script.
#[derive(Debug)]
pub enum Step {
    /// The output of a statement such as EXPLAIN, DESCRIBE and SHOW TABLES.
    Report(String),
    /// The INSERTs up to the next SELECT, or to the end, as one job.
    Job(Box<JobStep>),
    /// A SELECT, whose rows the caller collects.
    Query(Box<QueryStep>),
}

/// The job of several INSERTs.
#[derive(Debug)]
pub struct JobStep {
    /// The job.
    pub plan: Plan,
    /// Its optimized logical plans, for `explain`.
    pub logical: LogicalPlans,
    /// For each INSERT in order, the declared functions that it calls, directly or through views, tables and
    /// other functions.
    pub functions: Vec<BTreeSet<CalledFunction>>,
}

/// A SELECT of a script.
#[derive(Debug)]
pub struct QueryStep {
    /// The job and its rows.
    pub query: QueryPlan,
    /// Its optimized logical plan, for `explain`.
    pub logical: LogicalPlans,
    /// Its line and column in the script.
    pub place: (u64, u64),
}

/// A script as one job.
#[derive(Debug)]
pub struct Planned {
    /// One job with all INSERTs of the script; `None` if it has none.
    pub plan: Option<Plan>,
    /// The optimized logical plans of the job, for `explain`.
    pub logical: LogicalPlans,
    /// The output of EXPLAIN, DESCRIBE, SHOW TABLES and SET without arguments, in order.
    pub reports: Vec<String>,
    /// Notes for the user on statements without output, such as options without effect.
    pub notes: Vec<String>,
    /// For each INSERT in order, the declared functions that it calls, directly or through views, tables and
    /// other functions.
    pub functions: Vec<BTreeSet<CalledFunction>>,
}

/// Plans all statements of a script, before the first one runs. INSERTs without a SELECT between them become
/// one job.
pub fn plan_steps(
    text: &str,
    catalog: &mut Catalog,
    resolver: &dyn TableResolver,
    options: &PlanOptions,
) -> Result<Steps> {
    on_large_stack(|| plan_statements(text, catalog, resolver, options))
}

/// Plans all statements of a script as one job. A SELECT is refused, because nothing reads its rows.
pub fn plan_script(
    text: &str,
    catalog: &mut Catalog,
    resolver: &dyn TableResolver,
    options: &PlanOptions,
) -> Result<Planned> {
    plan_steps(text, catalog, resolver, options)?.into_job()
}

/// [`plan_steps`] on the caller's stack.
pub(crate) fn plan_statements(
    text: &str,
    catalog: &mut Catalog,
    resolver: &dyn TableResolver,
    options: &PlanOptions,
) -> Result<Steps> {
    let mut script = Script {
        resolver,
        options,
        declared: BTreeSet::new(),
        inserts: Vec::new(),
        steps: Vec::new(),
        notes: Vec::new(),
    };
    catalog.has_one_text = true;
    for statement in split_statements(text)? {
        let place = (statement.line, statement.column);
        script.statement(&statement, catalog).map_err(|error| in_statement(error, &statement, place))?;
    }
    script.end_job(catalog)?;
    let Script { declared, mut steps, notes, .. } = script;
    check_overridden(options, &declared)?;
    let text = PlannedText(Some(text.into()));
    for step in &mut steps {
        match step {
            Step::Job(job) => job.plan.text = text.clone(),
            Step::Query(query) => query.query.plan.text = text.clone(),
            Step::Report(_) => {}
        }
    }
    Ok(Steps { steps, notes })
}

/// A script during planning.
struct Script<'a> {
    resolver: &'a dyn TableResolver,
    options: &'a PlanOptions,
    /// The tables declared so far.
    declared: BTreeSet<String>,
    /// The INSERTs since the last SELECT.
    inserts: Vec<Inserted>,
    steps: Vec<Step>,
    notes: Vec<String>,
}

impl Script<'_> {
    fn statement(&mut self, statement: &StatementText, catalog: &mut Catalog) -> Result<()> {
        let (resolver, options) = (self.resolver, self.options);
        let place = (statement.line, statement.column);
        let mut declare = |name: &Ident, with| declare_with(name, with, catalog, resolver, options);
        match parse(statement, &mut declare)? {
            Statement::Insert(inserts) => {
                for insert in inserts {
                    let start = insert.start;
                    let here = |error| in_statement(error, statement, (start.line, start.column));
                    let output = plan_insert(insert, catalog).map_err(here)?;
                    self.inserts.push(Inserted { output, start, statement: statement.clone() });
                }
            }
            Statement::CreateTable(create) if create.query.is_some() => {
                let start = create.start;
                self.declared.extend(catalog.databases.path(&create.name.value).map(|path| path.label()));
                if let Some(output) = create_as(*create, catalog, resolver, options)? {
                    self.inserts.push(Inserted { output, start, statement: statement.clone() });
                }
            }
            Statement::Query(query) => {
                self.end_job(catalog)?;
                let (query, logical) = plan_query(query, catalog, options, "result")?;
                self.steps.push(Step::Query(Box::new(QueryStep { query, logical, place })));
            }
            other => {
                let named = match &other {
                    Statement::CreateTable(create) => Some(&create.name),
                    Statement::AlterTable(alter) => alter.new_name(),
                    _ => None,
                };
                let path = named.map(|name| catalog.databases.path(&name.value));
                self.declared.extend(path.and_then(Result::ok).map(|path| path.label()));
                match perform(other, statement, catalog, resolver, options)? {
                    Outcome::Report(report) => self.steps.push(Step::Report(report)),
                    Outcome::Note(note) => self.notes.push(note),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Ends the job of the INSERTs so far. Later statements run after it.
    fn end_job(&mut self, catalog: &Catalog) -> Result<()> {
        let inserts = std::mem::take(&mut self.inserts);
        let Some(first) = inserts.first() else { return Ok(()) };
        let (line, column) = (first.statement.line, first.statement.column);
        let of_statement = |inserted: &Inserted| {
            let lowered = lower(std::slice::from_ref(&inserted.output), catalog, self.options);
            lowered.err().map(|error| inserted.error(error))
        };
        let outputs: Vec<&Output> = inserts.iter().map(|inserted| &inserted.output).collect();
        let plan = lower_job(&outputs, catalog, self.options);
        // The error names the statement that causes it.
        let plan = plan.map_err(|error| match inserts.iter().find_map(of_statement) {
            Some(error) => error,
            None => or_at(error, line, column),
        })?;
        let logical = LogicalPlans::of_outputs(outputs);
        let functions = inserts.into_iter().map(|inserted| inserted.output.functions).collect();
        self.notes.extend(catalog.settings.no_checkpoints().map(str::to_owned));
        self.steps.push(Step::Job(Box::new(JobStep { plan, logical, functions })));
        Ok(())
    }
}

/// An INSERT of the next job.
struct Inserted {
    output: Output,
    start: Location,
    /// The statement that contains it.
    statement: StatementText,
}

impl Inserted {
    /// Adds its place to an error.
    fn error(&self, error: Error) -> Error {
        let start = (self.start.line, self.start.column);
        in_statement(error, &self.statement, start)
    }
}

impl Steps {
    /// The script as one job.
    fn into_job(self) -> Result<Planned> {
        let mut planned = Planned {
            plan: None,
            logical: LogicalPlans::default(),
            reports: Vec::new(),
            notes: self.notes,
            functions: Vec::new(),
        };
        for step in self.steps {
            match step {
                Step::Report(report) => planned.reports.push(report),
                // There is no second job: only a SELECT ends a job before the end of the script.
                Step::Job(job) => {
                    (planned.plan, planned.logical, planned.functions) = (Some(job.plan), job.logical, job.functions);
                }
                Step::Query(query) => {
                    let error = Error::user("a SELECT has no table to write its rows to").remedy(
                        "write INSERT INTO t SELECT ...; anabranch run and anabranch sql show the rows of a SELECT",
                    );
                    return Err(or_at(error, query.place.0, query.place.1));
                }
            }
        }
        Ok(planned)
    }
}

/// Refuses an option for a table that the script does not declare.
fn check_overridden(options: &PlanOptions, declared: &BTreeSet<String>) -> Result<()> {
    // The option's name begins with the part of the table's name after the database.
    let is_known = |table: &String, names: &BTreeMap<String, String>| {
        let of_database = |name: &String| {
            let mut others = declared.iter().filter_map(|other| other.strip_prefix(table)?.strip_prefix('.'));
            others.any(|other| name.strip_prefix(other).is_some_and(|rest| rest.starts_with('.')))
        };
        declared.contains(table) || names.keys().all(of_database)
    };
    let unknown = options.table_options.iter().find(|(table, names)| !is_known(table, names));
    let Some((table, _)) = unknown else { return Ok(()) };
    let error = Error::user(format!("an option is set for table '{table}', which the script does not declare"));
    let names: Vec<&str> = declared.iter().map(String::as_str).collect();
    Err(match names.as_slice() {
        [] => error.remedy("declare it with CREATE TABLE"),
        names => error.remedy(format!("its tables are: {}", names.join(", "))),
    })
}
