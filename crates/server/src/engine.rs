//! The engine: plans SQL and starts jobs, with a set of connectors and a clock.

use std::sync::Arc;

use anabranch_connectors::connector_info;
use anabranch_dataflow::{CheckpointOptions, ConnectorSpec, Plan, TableTraits};
use anabranch_model::{Clock, Error, HASH_SEED, Result, SystemClock, hash_u64, is_secret};
use anabranch_operators::{Connector, Connectors};
use anabranch_plan::{Catalog, PlanOptions, Planned, Steps, TableResolver, fitted, plan_script, plan_steps};
use anabranch_runtime::{Change, Checkpointing, Fate, Origin, Workers, present};
use anabranch_state::{Access, Store};
use arrow::datatypes::SchemaRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Job;
use crate::cluster::LocalWorkers;
use crate::http::Running;

/// Plans and runs SQL in this process.
#[derive(Clone)]
pub struct Engine {
    connectors: Connectors,
    clock: Arc<dyn Clock>,
    access: Access,
    /// `None`: jobs run in this process.
    workers: Option<u32>,
}

/// The caller's settings for a script, in addition to the script's own SET statements.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Number of tasks of parallel stages; overrides `SET 'parallelism'`. `None`: the script's, else one per
    /// core.
    pub parallelism: Option<u32>,
    /// Options as by `SET`. In a script they override its SET statements; in a session, SET changes them.
    pub set: Vec<(String, String)>,
    /// Options of tables that override their `WITH` clauses.
    pub table_options: Vec<TableOption>,
}

/// An option of a table, which overrides its WITH clause: `events.rows-per-second=50000`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableOption {
    /// Name of the table.
    pub table: String,
    /// Name of the option.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl std::fmt::Debug for TableOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = if is_secret(&self.name) { "***" } else { &self.value };
        write!(f, "{}.{}={value}", self.table, self.name)
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::new(anabranch_connectors::standard())
    }
}

impl Engine {
    /// An engine with these connectors, the machine's clock, and access to object stores as configured in the
    /// environment. [`Engine::default`] has the standard connectors.
    #[must_use]
    pub fn new(connectors: Connectors) -> Self {
        let (clock, access) = (Arc::new(SystemClock::new()), Access::from_environment());
        Engine { connectors, clock, access, workers: None }
    }

    /// Replaces the access to object stores that the environment configures.
    pub fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// Registers a connector under a name for SQL: for the embedding program's own tables, in memory or
    /// elsewhere.
    pub fn register(&mut self, name: impl Into<String>, connector: Arc<dyn Connector>) {
        self.connectors.register(name, connector);
    }

    /// Plans all statements of a file, whose jobs and queries are to run one after the other.
    pub fn plan_steps(&self, sql: &str, settings: &Settings) -> Result<Steps> {
        let (mut catalog, options) = (Catalog::new(), self.plan_options(settings));
        fix(&mut catalog, settings, &options)?;
        plan_steps(sql, &mut catalog, self, &options)
    }

    /// Plans all statements of a script as one job.
    pub fn plan(&self, sql: &str, settings: &Settings) -> Result<Planned> {
        self.plan_with(sql, settings, &[], None)
    }

    /// Plans a script whose SET statements replace `defaults`.
    pub(crate) fn plan_with(
        &self,
        sql: &str,
        settings: &Settings,
        defaults: &[(&str, &str)],
        default_parallelism: Option<u32>,
    ) -> Result<Planned> {
        let mut options = self.plan_options(settings);
        options.default_parallelism = default_parallelism.unwrap_or(options.default_parallelism);
        let mut catalog = Catalog::new();
        for (name, value) in defaults {
            catalog.set(name, value, options.key_groups)?;
        }
        fix(&mut catalog, settings, &options)?;
        plan_script(sql, &mut catalog, self, &options)
    }

    /// Starts a plan. If its options name a checkpoint directory, the job resumes from the newest checkpoint
    /// there, and again after failures that may be temporary.
    pub fn start(&self, plan: &Plan) -> Result<Job> {
        self.start_with(plan, None)
    }

    /// Starts a plan as a new job from a savepoint: with its state and its positions, as far as the plan has
    /// a place for them. If something has no place, that is an error unless `allow_lost_state`. A job that
    /// takes checkpoints needs an empty place for them. If that place has checkpoints of a job that started
    /// from this savepoint, that job resumes, as with [`Engine::start`].
    pub fn start_from(&self, plan: &Plan, savepoint: &Origin, allow_lost_state: bool) -> Result<Job> {
        if self.goes_on_behind(plan, savepoint)? {
            return self.start_with(plan, Some(savepoint));
        }
        let lost = self.compare(plan, savepoint)?.into_iter().filter(|change| change.fate == Fate::Lost);
        let lost: Vec<String> = lost.map(|change| change.what).collect();
        if !lost.is_empty() && !allow_lost_state {
            return Err(Error::user(format!("the query has no place for parts of the savepoint: {}", lost.join("; ")))
                .remedy("change the query so that it keeps them, or allow their loss (--allow-lost-state)"));
        }
        self.start_with(plan, Some(savepoint))
    }

    /// The sources of a plan whose rows may only be late if it starts from this savepoint, because windows
    /// have fired, with the reasons.
    pub fn late_from(&self, plan: &Plan, savepoint: &Origin) -> Result<Vec<String>> {
        if self.goes_on_behind(plan, savepoint)? {
            return Ok(Vec::new());
        }
        savepoint.late(&fitted(plan, || Ok(savepoint.parts().to_vec()))?)
    }

    /// What would happen to each part of a savepoint if a job of this plan started from it, and to those of
    /// the plan.
    pub fn compare(&self, plan: &Plan, savepoint: &Origin) -> Result<Vec<Change>> {
        savepoint.compare(&fitted(plan, || Ok(savepoint.parts().to_vec()))?)
    }

    /// Whether the plan's place has checkpoints of a job that started from this savepoint, so that the job
    /// resumes from them. An error if they belong to another job.
    pub fn goes_on_behind(&self, plan: &Plan, savepoint: &Origin) -> Result<bool> {
        let Some(options) = &plan.options.checkpoints else { return Ok(false) };
        savepoint.is_behind(&self.store(plan, options)?).map_err(|e| e.at("option 'checkpoint-directory'"))
    }

    /// The savepoint at a place: a directory, or a place in an object store.
    pub fn savepoint(&self, place: &str) -> Result<Origin> {
        Origin::open(Store::open_existing(place, &self.access)?)
    }

    fn start_with(&self, plan: &Plan, origin: Option<&Origin>) -> Result<Job> {
        check_scaled(plan)?;
        let running = self.running(plan)?;
        let local = self.workers.map(|count| self.local_workers(plan, count)).transpose()?;
        let workers = local.as_ref().and_then(LocalWorkers::workers);
        let job = self.start_at(&running, origin, workers)?;
        Ok(Job::new(job, running, local))
    }

    /// What does not change while a plan runs.
    pub(crate) fn running(&self, plan: &Plan) -> Result<Running> {
        let options = plan.options.checkpoints.as_ref();
        Ok(Running {
            plan: Arc::new(plan.clone()),
            clock: Arc::clone(&self.clock),
            store: options.map(|options| self.store(plan, options)).transpose()?,
            access: self.access.clone(),
            started_ms: self.clock.wall_ms(),
        })
    }

    /// Starts a plan with its tasks at these workers.
    pub(crate) fn start_at(
        &self,
        running: &Running,
        origin: Option<&Origin>,
        workers: Option<Workers>,
    ) -> Result<anabranch_runtime::Job> {
        let plan = &fitted(&running.plan, || present(running.store.as_ref(), origin))?;
        let place = plan.options.checkpoints.as_ref().zip(running.store.clone());
        let checkpointing = place.map(|(options, store)| checkpointing(plan, options, store));
        let (clock, connectors) = (Arc::clone(&self.clock), &self.connectors);
        anabranch_runtime::Job::start_at(plan, connectors, clock, checkpointing.as_ref(), origin, workers)
    }

    /// Processes with a slot for each task of the widest stage.
    fn local_workers(&self, plan: &Plan, count: u32) -> Result<LocalWorkers> {
        let widest = plan.stages.iter().map(|stage| stage.parallelism).max().unwrap_or(1);
        let program = std::env::current_exe();
        let program = program.map_err(|error| Error::outside(format!("cannot find the own program: {error}")))?;
        LocalWorkers::start(program, count, widest.div_ceil(count), Arc::clone(&self.clock))
    }

    /// Jobs run in this number of worker processes of this machine, which this program starts as its command
    /// `worker`; `None`: in this one.
    pub fn set_workers(&mut self, count: Option<u32>) {
        self.workers = count;
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    pub(crate) fn connectors(&self) -> &Connectors {
        &self.connectors
    }

    pub(crate) fn store(&self, plan: &Plan, options: &CheckpointOptions) -> Result<Store> {
        let store = Store::open(&options.directory, &self.access).map_err(|e| e.at("option 'checkpoint-directory'"))?;
        match &plan.options.state_directory {
            Some(directory) => store.with_copies(directory).map_err(|e| e.at("option 'state-directory'")),
            None => Ok(store),
        }
    }

    /// Plans a script and starts its job.
    pub fn run(&self, sql: &str, settings: &Settings) -> Result<Job> {
        let planned = self.plan(sql, settings)?;
        let nothing = || Error::user("the script has no INSERT INTO, so there is nothing to run");
        let plan = planned.plan.ok_or_else(|| nothing().remedy("add INSERT INTO t SELECT ..."))?;
        self.start(&plan)
    }

    pub(crate) fn plan_options(&self, settings: &Settings) -> PlanOptions {
        let cores = cores();
        let mut options =
            PlanOptions { parallelism: settings.parallelism, default_parallelism: cores, ..PlanOptions::default() };
        for TableOption { table, name, value } in &settings.table_options {
            options.table_options.entry(table.clone()).or_default().insert(name.clone(), value.clone());
        }
        options
    }
}

/// The processors of this process, as they were when it was first asked. The system reads several files for
/// that.
pub(crate) fn cores() -> u32 {
    static CORES: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
        std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1))
    });
    *CORES
}

/// Refuses a plan whose number of tasks is to follow the load, in a process that does not change its job by
/// itself.
pub(crate) fn check_scaled(plan: &Plan) -> Result<()> {
    match &plan.options.autoscale {
        None => Ok(()),
        Some(_) => Err(Error::user("only a coordinator lets the number of tasks follow the load")
            .at("option 'autoscale'")
            .remedy("submit the job to a coordinator, or set the option to 'off' (--set autoscale=off)")),
    }
}

/// The caller's options win over those that a script sets.
fn fix(catalog: &mut Catalog, settings: &Settings, options: &PlanOptions) -> Result<()> {
    // The upper bound is set before the options that it limits.
    let is_bound = |(name, _): &&(String, String)| name.ends_with("max-parallelism");
    let (bounds, others): (Vec<_>, Vec<_>) = settings.set.iter().partition(is_bound);
    bounds.into_iter().chain(others).try_for_each(|(name, value)| {
        catalog.fix(name, value, options.key_groups).map_err(|error| of_setting(error, name, value))
    })
}

/// An error in an option of [`Settings::set`].
pub(crate) fn of_setting(error: Error, name: &str, value: &str) -> Error {
    let value = if is_secret(name) { "***" } else { value };
    error.at(format!("--set {name}={value}"))
}

fn checkpointing(plan: &Plan, options: &CheckpointOptions, store: Store) -> Checkpointing {
    Checkpointing {
        store,
        interval: options.interval,
        timeout: options.timeout,
        restart_attempts: options.restart_attempts,
        new_job: new_job_name(&plan.options.job_name),
        seed: anabranch_runtime::random_seed(),
    }
}

/// A name that no other job has. It consists of letters, digits and hyphens, because it is part of names in
/// external systems.
fn new_job_name(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let since_1970 = std::time::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos() as u64);
    format!("{plain}-{:016x}", hash_u64(hash_u64(HASH_SEED, since_1970), u64::from(std::process::id())))
}

impl TableResolver for Engine {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        self.connectors.get(&spec.connector)?.describe(spec, columns)
    }

    fn connectors(&self) -> Vec<(String, String)> {
        let about = |name: &str| {
            let Some(info) = connector_info(name) else { return "tables of this program".to_owned() };
            let needed: Vec<String> = info.needed.iter().map(|(name, _)| format!("'{name}'")).collect();
            let needs = if needed.is_empty() { String::new() } else { format!("; needs {}", needed.join(", ")) };
            format!("{}{needs}", info.tables)
        };
        self.connectors.names().map(|name| (name.to_owned(), about(name))).collect()
    }
}
