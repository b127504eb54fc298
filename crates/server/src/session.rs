//! A session: single statements, as a user enters them at a prompt.

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

/// Tables, views and options that statements have created so far.
pub struct Session {
    engine: Engine,
    catalog: Catalog,
    options: PlanOptions,
}

/// The result of a statement.
pub enum Reply {
    /// It is done; with a text for the user.
    Done(String),
    /// A text to show.
    Report(String),
    /// A job that writes to a table is running.
    Job(Job),
    /// A query is running.
    Query(Query),
}

/// The names that a statement of a session may use.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// The columns of each table and view.
    pub relations: BTreeMap<String, Vec<String>>,
    /// Functions, in lower case.
    pub functions: Vec<String>,
    /// The options of tables of each connector, without those of all tables.
    pub connectors: BTreeMap<String, Vec<String>>,
    /// The options of `SET`.
    pub settings: Vec<String>,
    /// The jobs of a coordinator.
    pub jobs: Vec<String>,
}

/// A running query and its rows.
pub struct Query {
    /// The job.
    pub job: Job,
    /// Columns of the result.
    pub schema: SchemaRef,
    /// Batches as they arrive; ends when the job does. The job waits for the reader.
    pub rows: Receiver<RecordBatch>,
    /// Rows to skip first.
    pub skip: usize,
    /// Rows to take before the caller stops the job; `None`: all.
    pub limit: Option<usize>,
    /// The time zone in which instants are shown. `None`: UTC.
    pub zone: Option<String>,
    /// Rows may be taken back: the last column is their weight.
    pub updating: bool,
}

/// What became of a statement whose job is to run elsewhere.
pub enum Executed {
    /// It has no such job.
    Here(Box<Reply>),
    /// Its job can be planned.
    Job {
        /// The statement that declares the table that it has declared too, with its secrets.
        declaration: Option<String>,
    },
}

impl Session {
    /// A session on an engine.
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

    /// Executes a statement.
    pub fn execute(&mut self, statement: &StatementText) -> Result<Reply> {
        let outcome = self.plan(statement)?;
        self.carry_out(outcome)
    }

    /// Executes a statement whose job is to run elsewhere: it is only planned then.
    pub fn execute_or_plan(&mut self, statement: &StatementText) -> Result<Executed> {
        match self.plan(statement)? {
            Outcome::Insert(_) => Ok(Executed::Job { declaration: None }),
            Outcome::CreateAs { declaration, .. } => Ok(Executed::Job { declaration: Some(declaration) }),
            other => Ok(Executed::Here(Box::new(self.carry_out(other)?))),
        }
    }

    /// Plans a query; `None` if the statement is none.
    pub fn query_plan(&mut self, statement: &StatementText) -> Result<Option<QueryPlan>> {
        Ok(match self.plan(statement)? {
            Outcome::Query(query) => Some(*query),
            _ => None,
        })
    }

    fn plan(&mut self, statement: &StatementText) -> Result<Outcome> {
        execute(statement, &mut self.catalog, &self.engine, &self.options, "result")
    }

    fn carry_out(&self, outcome: Outcome) -> Result<Reply> {
        Ok(match outcome {
            Outcome::Done(text) => Reply::Done(text),
            Outcome::Report(text) | Outcome::Note(text) => Reply::Report(text),
            Outcome::Insert(plan) | Outcome::CreateAs { plan, .. } => Reply::Job(self.engine.start(&plan)?),
            Outcome::Query(query) => Reply::Query(self.engine.query(*query)?),
        })
    }
}

impl Engine {
    /// Starts a query.
    pub fn query(&self, query: QueryPlan) -> Result<Query> {
        // The sink of one query: registered in a copy of the engine that lives only while the job starts.
        let (sink, rows) = MemorySink::channel(RESULT_BATCHES);
        let mut engine = self.clone();
        engine.register(COLLECT, Arc::new(sink));
        let QueryPlan { plan, schema, skip, limit, zone, updating } = query;
        Ok(Query { job: engine.start(&plan)?, schema, rows, skip, limit, zone, updating })
    }
}
