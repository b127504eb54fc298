//! Functions of a coordinator's running jobs.

use std::sync::Arc;

use anabranch_model::Result;
use anabranch_plan::Planned;
use anabranch_runtime::Reconfigured;

use super::changes::not_running;
use super::coordinator::Shared;
use super::record::State;
use super::submitted::Submitted;
use crate::functions::{Changeable, FunctionRefusal, replace};
use crate::http::{FunctionJob, FunctionOrder, ReconfigureOrder, Refusal, ServedJob as _};
use crate::threads::lock;

/// A job whose lock for changes is held.
struct Held<'a> {
    shared: &'a Shared,
    job: &'a Submitted,
}

impl Changeable for Held<'_> {
    fn name(&self) -> &str {
        self.job.name()
    }

    fn sql(&self) -> String {
        self.job.record().order.sql
    }

    fn plan(&self, sql: &str) -> Result<Planned> {
        let mut record = self.job.record();
        sql.clone_into(&mut record.order.sql);
        self.shared.plan(&record)
    }

    fn check(&self) -> Result<(), Refusal> {
        self.job.live().ok_or_else(|| not_running(self.name()))?.check()
    }

    fn change(&self, order: &ReconfigureOrder) -> Result<Reconfigured, Refusal> {
        self.shared.change_held(self.job, order)
    }
}

impl Shared {
    /// Replaces functions in all running jobs that use them.
    pub(super) fn replace_functions(&self, order: &FunctionOrder) -> Result<Vec<FunctionJob>, FunctionRefusal> {
        // In the order of their names: two such requests cannot wait for each other.
        let jobs: Vec<Arc<Submitted>> = self.jobs().values().cloned().collect();
        let _changing: Vec<_> = jobs.iter().map(|job| lock(&job.changing)).collect();
        let running = jobs.iter().filter(|job| job.state() == State::Running);
        let held: Vec<Held<'_>> = running.map(|job| Held { shared: self, job }).collect();
        replace(order, &held, &self.histories)
    }
}
