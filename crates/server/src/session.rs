//! A session: statements one by one, as a person at a prompt gives them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use anabranch_connectors::MemorySink;
use anabranch_model::Result;
use anabranch_plan::{COLLECT, Catalog, Outcome, PlanOptions, StatementText, execute};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::{Engine, Job, Settings};

/// Batches of a result that wait for the reader at most.
const RESULT_BATCHES: usize = 16;

/// Tables, views and options that statements have made so far.
pub struct Session {
    engine: Engine,
    catalog: Catalog,
    options: PlanOptions,
}

/// What a statement came to.
pub enum Reply {
    /// It is done; what to tell the user.
    Done(String),
    /// Something to read.
    Report(String),
    /// A job that writes into a table runs.
    Job(Job),
    /// A query runs.
    Query(Query),
}

/// The names that a statement of a session may use.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// The columns of each table and view.
    pub relations: BTreeMap<String, Vec<String>>,
    /// Functions, in lower case.
    pub functions: Vec<String>,
}

/// A running query and its rows.
pub struct Query {
    /// The job.
    pub job: Job,
    /// Columns of the result.
    pub schema: SchemaRef,
    /// Batches as they come; ends when the job does. The job waits while nobody reads.
    pub rows: Receiver<RecordBatch>,
    /// Rows to leave out first.
    pub skip: usize,
    /// Rows to take before the job is to be stopped; `None`: all.
    pub limit: Option<usize>,
}

impl Session {
    /// A session on an engine.
    pub fn new(engine: Engine, settings: &Settings) -> Result<Self> {
        let options = engine.plan_options(settings);
        let mut catalog = Catalog::new();
        for (name, value) in &settings.set {
            engine.set(&mut catalog, name, value, &options)?;
        }
        Ok(Session { engine, catalog, options })
    }

    /// The names that a statement may use now.
    #[must_use]
    pub fn vocabulary(&self) -> Vocabulary {
        let columns = |name: &str| self.catalog.columns(name).into_iter().map(str::to_owned).collect();
        let relations = self.catalog.names().map(|(name, _)| (name.to_owned(), columns(name))).collect();
        Vocabulary { relations, functions: self.catalog.function_names() }
    }

    /// Carries a statement out.
    pub fn execute(&mut self, statement: &StatementText) -> Result<Reply> {
        let outcome = execute(statement, &mut self.catalog, &self.engine, &self.options, "result")?;
        Ok(match outcome {
            Outcome::Done(text) => Reply::Done(text),
            Outcome::Report(text) => Reply::Report(text),
            Outcome::Insert(plan) => Reply::Job(self.engine.start(&plan)?),
            Outcome::Query { plan, schema, skip, limit } => {
                // The sink of one query: known to a copy of the engine that lives as long as it takes to start.
                let (sink, rows) = MemorySink::channel(RESULT_BATCHES);
                let mut engine = self.engine.clone();
                engine.register(COLLECT, Arc::new(sink));
                Reply::Query(Query { job: engine.start(&plan)?, schema, rows, skip, limit })
            }
        })
    }
}
