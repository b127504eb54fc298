//! Jobs of the coordinator that leads whose number of tasks follows their load.
//!
//! One thread looks at the counters that the coordinator has of all tasks. A change that is decided has a
//! thread of its own, because it waits.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock as _, Result, Secrets, SystemClock};
use tracing::{info, warn};

use super::coordinator::Shared;
use super::record::State;
use super::submitted::Submitted;
use crate::autoscale::{Decided, JobScaler, Observed};
use crate::http::{ReconfigureOrder, ServedJob as _};

/// Time between two looks at the counters.
const LOOK: Duration = Duration::from_millis(250);
/// The same while no job is to follow its load.
const LOOK_IDLE: Duration = Duration::from_secs(1);

impl Shared {
    /// Looks at all jobs again and again, until the coordinator closes.
    pub(super) fn keep_scale(self: &Arc<Self>) {
        let mut scalers: BTreeMap<String, JobScaler> = BTreeMap::new();
        while !self.closing.is_set() {
            let jobs: Vec<Arc<Submitted>> = self.jobs().values().cloned().collect();
            let leads = self.role.leader().is_some();
            let is_own = |job: &Arc<Submitted>| leads && job.state() == State::Running && !job.was_left();
            let scaled = |job: &Arc<Submitted>| is_own(job) && job.plan().options.autoscale.is_some();
            let jobs: Vec<Arc<Submitted>> = jobs.into_iter().filter(scaled).collect();
            let pause = if jobs.is_empty() { LOOK_IDLE } else { LOOK };
            scalers.retain(|name, _| jobs.iter().any(|job| job.name() == name));
            for job in jobs {
                if let Err(error) = self.scale(&job, &mut scalers) {
                    warn!(job = job.name(), error = %error, "number of tasks cannot be decided");
                }
            }
            self.closing.wait(pause);
        }
    }

    /// Looks at a job, and begins the change that is decided.
    fn scale(self: &Arc<Self>, job: &Arc<Submitted>, scalers: &mut BTreeMap<String, JobScaler>) -> Result<()> {
        let (reading, plan, slots) = (job.reading(), job.plan(), self.cluster.members().slots());
        let sql = job.record().order.sql;
        let seen = Observed { reading: &reading, plan: &plan, sql: &sql, slots };
        let Some(options) = &plan.options.autoscale else { return Ok(()) };
        let name = job.name();
        if scalers.get(name).is_none_or(|scaler| scaler.options() != options) {
            scalers.insert(name.to_owned(), JobScaler::new(options.clone(), &seen)?);
        }
        let Some(scaler) = scalers.get_mut(name) else { return Ok(()) };
        let Some(decided) = scaler.observe(&seen)? else { return Ok(()) };
        self.scaling.push(name, SystemClock::new().wall_ms(), &decided);
        match decided.tasks().and_then(NonZeroU32::new) {
            Some(tasks) if !options.observes_only => self.rescale(job, tasks, &decided),
            _ => {}
        }
        Ok(())
    }

    fn rescale(self: &Arc<Self>, job: &Arc<Submitted>, tasks: NonZeroU32, decided: &Decided) {
        let name = job.name().to_owned();
        let why: Vec<String> = decided.decision.findings.iter().map(ToString::to_string).collect();
        let request = format!("autoscale: parallelism {tasks} ({})", why.join("; "));
        info!(job = name, tasks = tasks.get(), "number of tasks follows the load");
        let shared = Arc::clone(self);
        let run = move || {
            // Stages with a number of tasks of their own keep it.
            let settings = [("parallelism".to_owned(), Some(tasks.to_string()))].into();
            let order = ReconfigureOrder { settings, ..ReconfigureOrder::default() };
            // It is remembered, and the reason is logged where the change fails.
            let _ = shared.histories.record((&name, request), &Secrets::default(), || shared.change(&name, &order));
        };
        if let Err(error) = std::thread::Builder::new().name("autoscale".into()).spawn(run) {
            warn!(job = job.name(), error = %error, "cannot start a thread");
        }
    }
}
