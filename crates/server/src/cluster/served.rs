//! A coordinator's jobs and workers as the API serves them.

use std::sync::Arc;

use anabranch_model::Result;
use anabranch_runtime::Reconfigured;
use tracing::info;

use super::coordinator::Shared;
use crate::http::{
    ChangeHistories, FunctionJob, FunctionOrder, JobOrder, Jobs, ReconfigureOrder, Refusal, ScalingRecords, ServedJob,
    Worker,
};
use crate::{Engine, FunctionRefusal};

/// Its jobs and workers.
pub(super) struct Served(pub(super) Arc<Shared>);

impl Jobs for Served {
    fn jobs(&self) -> Vec<Arc<dyn ServedJob>> {
        self.0.jobs().values().map(|job| Arc::clone(job) as Arc<dyn ServedJob>).collect()
    }

    fn workers(&self) -> Vec<Worker> {
        self.0.cluster.members().list()
    }

    fn takes_jobs(&self) -> bool {
        self.0.role.leader().is_some()
    }

    fn elsewhere(&self) -> Option<String> {
        self.0.role.elsewhere()
    }

    fn submit(&self, order: JobOrder) -> Result<(), Refusal> {
        self.0.take(order)
    }

    fn reconfigure(&self, job: &str, order: &ReconfigureOrder) -> Result<Reconfigured, Refusal> {
        self.0.change(job, order)
    }

    fn replace_functions(&self, order: &FunctionOrder) -> Result<Vec<FunctionJob>, FunctionRefusal> {
        self.0.replace_functions(order)
    }

    fn histories(&self) -> &ChangeHistories {
        &self.0.histories
    }

    fn script(&self, job: &str) -> Result<JobOrder, Refusal> {
        Ok(self.0.find(job)?.record().order)
    }

    fn engine(&self) -> Option<Engine> {
        Some(self.0.engine.clone())
    }

    fn demo(&self) -> Option<JobOrder> {
        self.0.demo.clone()
    }

    fn scaling(&self) -> Option<&ScalingRecords> {
        Some(&self.0.scaling)
    }

    fn remove(&self, job: &str, discards_state: bool) -> Result<(), Refusal> {
        self.0.remove(job, discards_state)
    }

    fn drain(&self, worker: &str, is_drained: bool) -> Result<bool, Refusal> {
        self.0.worker(worker)?;
        let was_drained = self.0.cluster.members().drain(worker, is_drained);
        info!(worker, drained = is_drained, "worker drained, or its drain undone");
        Ok(was_drained)
    }
}
