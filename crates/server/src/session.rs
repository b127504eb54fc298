//! A session: executes statements one at a time, as a user enters them at a prompt.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use anabranch_connectors::{MemorySink, connector_info};
use anabranch_model::Result;
use anabranch_plan::{COLLECT, Catalog, Outcome, PlanOptions, QueryPlan, StatementText, TableResolver, execute};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::engine::of_setting;
use crate::{Engine, Job, Settings};

/// Largest number of buffered batches of a result.
const RESULT_BATCHES: usize = 16;

/// The declarations and options of the statements that were executed so far.
pub struct Session {
    engine: Engine,
    catalog: Catalog,
    options: PlanOptions,
}

/// The result of a statement.
pub enum Reply {
    /// The statement has changed declarations or options. The message for the user.
    Done(String),
    /// [`Reply::Done`] with a message that scripts show too.
    Note(String),
    /// A text that the user has requested.
    Report(String),
    /// The job of the statement, which writes a table. It has started.
    Job(Job),
    /// The query, which has started.
    Query(Query),
}

/// The names that a statement of a session may use.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// The columns of each table and view.
    pub relations: BTreeMap<String, Vec<String>>,
    /// Functions, in lower case.
    pub functions: Vec<String>,
    /// The options of each connector, without those that tables of all connectors have.
    pub connectors: BTreeMap<String, Vec<String>>,
    /// The options of `SET`.
    pub settings: Vec<String>,
    /// The names of jobs. A session knows none: a caller that is connected to a coordinator adds them.
    pub jobs: Vec<String>,
}

/// A running query and its rows.
pub struct Query {
    /// The job.
    pub job: Job,
    /// Columns of the result.
    pub schema: SchemaRef,
    /// The batches of the result. The channel closes when the job ends. While it is full, the job waits.
    pub rows: Receiver<RecordBatch>,
    /// Number of rows at the beginning that the caller skips.
    pub skip: usize,
    /// Number of rows after those that the caller takes before it stops the job. `None`: all.
    pub limit: Option<usize>,
    /// The time zone in which instants are shown. `None`: UTC.
    pub zone: Option<String>,
    /// Whether rows may be retracted. If so, the last column is their weight.
    pub updating: bool,
}

/// The result of [`Session::execute_or_plan`].
pub enum Executed {
    /// The statement was executed here: it has no job that writes a table.
    Here(Box<Reply>),
    /// The statement has a job that writes a table. The job can be planned, and was not started.
    Job {
        /// Of `CREATE TABLE ... AS`: the statement that declares only the table, including its secrets.
        declaration: Option<String>,
    },
}

impl Session {
    /// A session whose jobs and queries run on an engine.
    pub fn new(engine: Engine, settings: &Settings) -> Result<Self> {
        let options = engine.plan_options(settings);
        let mut catalog = Catalog::new();
        for (name, value) in &settings.set {
            catalog.set(name, value, options.key_groups).map_err(|e| of_setting(e, name, value))?;
        }
        Ok(Session { engine, catalog, options })
    }

    /// The names that a statement may use now.
    #[must_use]
    pub fn vocabulary(&self) -> Vocabulary {
        let columns = |name: &str| self.catalog.columns(name).into_iter().map(str::to_owned).collect();
        let with_columns = |name: String| {
            let columns = columns(&name);
            (name, columns)
        };
        let relations = self.catalog.names().map(|(name, _)| with_columns(name)).collect();
        let options = |name: &str| {
            let info = connector_info(name);
            let needed = info.iter().flat_map(|info| info.needed).map(|(name, _)| *name);
            let others = info.iter().flat_map(|info| info.options).copied();
            needed.chain(others).map(str::to_owned).collect()
        };
        let connectors = TableResolver::connectors(&self.engine).into_iter();
        Vocabulary {
            relations,
            functions: self.catalog.function_names(),
            connectors: connectors.map(|(name, _)| (name.clone(), options(&name))).collect(),
            settings: self.catalog.setting_names(),
            jobs: Vec::new(),
        }
    }

    /// The name of the next job.
    #[must_use]
    pub fn job_name(&self) -> &str {
        self.catalog.job_name()
    }

    /// Executes a statement, and starts its job or query.
    pub fn execute(&mut self, statement: &StatementText) -> Result<Reply> {
        let outcome = self.plan(statement)?;
        self.carry_out(outcome)
    }

    /// Executes a statement like [`Session::execute`], except that a job that writes a table is only planned:
    /// the caller may run it elsewhere. The table of `CREATE TABLE ... AS` is declared here.
    pub fn execute_or_plan(&mut self, statement: &StatementText) -> Result<Executed> {
        match self.plan(statement)? {
            Outcome::Insert(_) => Ok(Executed::Job { declaration: None }),
            Outcome::CreateAs { declaration, .. } => Ok(Executed::Job { declaration: Some(declaration) }),
            other => Ok(Executed::Here(Box::new(self.carry_out(other)?))),
        }
    }

    /// Plans a query without starting it. `None`: the statement is not a query. It has changed declarations
    /// or options as it says, and its job was not started.
    pub fn query_plan(&mut self, statement: &StatementText) -> Result<Option<QueryPlan>> {
        Ok(match self.plan(statement)? {
            Outcome::Query(query) => Some(*query),
            _ => None,
        })
    }

    /// Plans a statement, and changes declarations and options as it says.
    fn plan(&mut self, statement: &StatementText) -> Result<Outcome> {
        execute(statement, &mut self.catalog, &self.engine, &self.options, "result")
    }

    /// Starts the job or query of a planned statement.
    fn carry_out(&self, outcome: Outcome) -> Result<Reply> {
        Ok(match outcome {
            Outcome::Done(text) => Reply::Done(text),
            Outcome::Note(text) => Reply::Note(text),
            Outcome::Report(text) => Reply::Report(text),
            Outcome::Insert(plan) | Outcome::CreateAs { plan, .. } => Reply::Job(self.engine.start(&plan)?),
            Outcome::Query(query) => Reply::Query(self.engine.query(*query)?),
        })
    }
}

impl Engine {
    /// Starts a query.
    pub fn query(&self, query: QueryPlan) -> Result<Query> {
        // The sink belongs to this query, so it is registered in a copy of the engine. The copy is dropped
        // once the job has started.
        let (sink, rows) = MemorySink::channel(RESULT_BATCHES);
        let mut engine = self.clone();
        engine.register(COLLECT, Arc::new(sink));
        let QueryPlan { plan, schema, skip, limit, zone, updating } = query;
        Ok(Query { job: engine.start(&plan)?, schema, rows, skip, limit, zone, updating })
    }
}
