//! What a worker must know of a job before tasks of it start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::TaskId;
use anabranch_protocol::membership::WorkerId;
use anabranch_state::Store;

use crate::durable::origin::Origin;
use crate::durable::takeover::FormerNames;
use crate::network::Peer;

/// What a worker must know of a job to start tasks of it.
#[derive(Clone)]
pub(crate) struct Deployment {
    pub(crate) plan: Arc<Plan>,
    /// The savepoint that the job starts from while it has no checkpoint.
    pub(crate) origin: Option<Origin>,
    pub(crate) checkpoints: Option<Checkpoints>,
    /// Whether a retry may help if a table cannot be opened.
    pub(crate) retries_opening: bool,
    /// The worker of each task, and the addresses of the workers. Empty: all tasks are here.
    pub(crate) placement: BTreeMap<TaskId, WorkerId>,
    pub(crate) peers: BTreeMap<WorkerId, Peer>,
}

/// What a worker must know of a job that takes checkpoints.
#[derive(Clone)]
pub(crate) struct Checkpoints {
    pub(crate) store: Store,
    /// Name of the job.
    pub(crate) job: String,
    pub(crate) former: FormerNames,
    /// How often a task reports progress while it restores its state.
    pub(crate) progress_interval: Duration,
}
