//! The engine: connectors and a clock, from which plans and jobs are made.

use std::sync::Arc;

use anabranch_dataflow::{CheckpointOptions, ConnectorSpec, Plan, TableTraits};
use anabranch_model::{Clock, Error, HASH_SEED, Result, SystemClock, hash_u64};
use anabranch_operators::{Connector, Connectors};
use anabranch_plan::{Catalog, PlanOptions, Planned, TableResolver, execute, plan_script, split_statements};
use anabranch_runtime::Checkpointing;
use anabranch_state::Store;
use arrow::datatypes::SchemaRef;

use crate::Job;

/// Plans and runs SQL in this process.
#[derive(Clone)]
pub struct Engine {
    connectors: Connectors,
    clock: Arc<dyn Clock>,
}

/// What the caller sets for a script, beside what the script says itself.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Number of tasks of parallel stages; wins over `SET 'parallelism'`. `None`: the script's, else one per core.
    pub parallelism: Option<u32>,
    /// Options as by `SET`, in force before the script's first statement.
    pub set: Vec<(String, String)>,
    /// Options of tables that win over their `WITH` clauses.
    pub table_options: Vec<TableOption>,
}

/// An option of a table: `events.rows-per-second=50000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOption {
    /// Name of the table.
    pub table: String,
    /// Name of the option.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Default for Engine {
    fn default() -> Self {
        Self::new(anabranch_connectors::standard())
    }
}

impl Engine {
    /// An engine with these connectors and the machine's clock. [`Engine::default`] has the standard connectors.
    #[must_use]
    pub fn new(connectors: Connectors) -> Self {
        Engine { connectors, clock: Arc::new(SystemClock::new()) }
    }

    /// Makes a connector known to SQL under a name: tables of the embedder's own, in memory or elsewhere.
    pub fn register(&mut self, name: impl Into<String>, connector: Arc<dyn Connector>) {
        self.connectors.register(name, connector);
    }

    /// Plans all statements of a script; its INSERTs become one job.
    pub fn plan(&self, sql: &str, settings: &Settings) -> Result<Planned> {
        let mut catalog = Catalog::new();
        let options = self.plan_options(settings);
        for (name, value) in &settings.set {
            self.set(&mut catalog, name, value, &options)?;
        }
        plan_script(sql, &mut catalog, self, &options)
    }

    /// Starts a plan. If its options name a directory of checkpoints, the job goes on from the newest one there, and does so
    /// again after failures that may pass.
    pub fn start(&self, plan: &Plan) -> Result<Job> {
        let checkpointing =
            plan.options.checkpoints.as_ref().map(|options| checkpointing(plan, options)).transpose()?;
        let clock = Arc::clone(&self.clock);
        anabranch_runtime::Job::start(plan, &self.connectors, clock, checkpointing.as_ref()).map(Job::new)
    }

    /// Plans a script and starts its job.
    pub fn run(&self, sql: &str, settings: &Settings) -> Result<Job> {
        let planned = self.plan(sql, settings)?;
        let nothing = || Error::user("the script has no INSERT INTO, so there is nothing to run");
        let plan = planned.plan.ok_or_else(|| nothing().remedy("add INSERT INTO t SELECT ..."))?;
        self.start(&plan)
    }

    pub(crate) fn set(&self, catalog: &mut Catalog, name: &str, value: &str, options: &PlanOptions) -> Result<()> {
        let quoted = |text: &str| text.replace('\'', "''");
        let text = format!("SET '{}' = '{}'", quoted(name), quoted(value));
        for statement in split_statements(&text)? {
            execute(&statement, catalog, self, options, "")?;
        }
        Ok(())
    }

    pub(crate) fn plan_options(&self, settings: &Settings) -> PlanOptions {
        let cores = std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        let mut options =
            PlanOptions { parallelism: settings.parallelism, default_parallelism: cores, ..PlanOptions::default() };
        for TableOption { table, name, value } in &settings.table_options {
            options.table_options.entry(table.clone()).or_default().insert(name.clone(), value.clone());
        }
        options
    }
}

fn checkpointing(plan: &Plan, options: &CheckpointOptions) -> Result<Checkpointing> {
    Ok(Checkpointing {
        store: Store::directory(&options.directory).map_err(|e| e.at("option 'checkpoint-directory'"))?,
        interval: options.interval,
        timeout: options.timeout,
        restart_attempts: options.restart_attempts,
        new_job: new_job_name(&plan.options.job_name),
    })
}

/// A name that no other job has: of letters, digits and hyphens, because places outside are named after it.
fn new_job_name(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let since_1970 = std::time::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos() as u64);
    format!("{plain}-{:016x}", hash_u64(hash_u64(HASH_SEED, since_1970), u64::from(std::process::id())))
}

impl TableResolver for Engine {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        self.connectors.get(&spec.connector)?.describe(spec, columns)
    }
}
