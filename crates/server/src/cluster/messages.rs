//! What a worker's process and the coordinator's tell each other.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_model::Nanos;
use anabranch_protocol::membership::WorkerId;
use anabranch_protocol::worker::Term;
use anabranch_runtime::Hosted;
use anabranch_runtime::messages::{FromWorker, ToWorker};
use anabranch_runtime::network::PublicKey;
use anabranch_state::LocalCopies;
use serde::{Deserialize, Serialize};

/// A coordinator that leads, among all that ever lead with the same store. A later one has a higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Leader(pub(super) u64);

/// From a worker's process, or from a coordinator that stands by. `job` is a job's number.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromProcess {
    /// The first message.
    Hello(Introduction),
    /// The process listens to other workers here: tasks can be placed at it.
    Ready {
        /// Where: the address that the others reach.
        exchange: SocketAddr,
        /// The key that it proves there. `None`: connections to it are not encrypted, so only processes of
        /// its machine reach it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<PublicKey>,
        /// State files that it has on a local disk.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        copies: Vec<LocalCopies>,
        /// When this was sent, by the clock of the process.
        sent: Nanos,
    },
    /// The process lives.
    Beat {
        /// When this was sent, by the clock of the process.
        sent: Nanos,
        /// The coordinator that leads, as far as the process has heard from it lately.
        leader: Option<Leader>,
    },
    /// The tasks of a job run here, or do not any more.
    Hosts { job: u64, hosted: Option<Hosted> },
    /// The tasks of a job that a message is for are not here.
    Missing { job: u64 },
    /// The first message of another coordinator, which stands by.
    StandsBy { version: u32, release: String },
    /// Of a job's tasks.
    Job { job: u64, message: FromWorker },
}

/// A process as it says which worker it is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Introduction {
    /// [`MESSAGES_VERSION`](anabranch_runtime::messages::MESSAGES_VERSION) of the process.
    pub(super) version: u32,
    /// The release of the process.
    pub(super) release: String,
    /// The worker's name.
    pub(super) name: String,
    /// When it connected, in nanoseconds since 1970: for a coordinator each connection is another life of the
    /// worker.
    pub(super) life: u64,
    /// How many tasks of one stage it may have.
    pub(super) slots: u32,
    /// What distinguishes it.
    pub(super) labels: Vec<String>,
    /// Number of the process in its operating system.
    pub(super) pid: u32,
}

/// From the coordinator's process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromCluster {
    /// The worker is known.
    Welcome {
        /// Under this number.
        worker: WorkerId,
        /// A worker that is silent for this time is lost. Its tasks end when the coordinator is.
        silence: Duration,
    },
    /// The worker cannot join, for this reason.
    Refused { why: String },
    /// The answer to a heartbeat; standbys hear it too.
    Leads {
        /// This coordinator, if it leads.
        leader: Option<Leader>,
    },
    /// The answer to a heartbeat of a worker, for all jobs whose coordinators are in this process.
    Heard {
        /// When it was sent, by the clock of the worker's process.
        sent: Nanos,
        /// The numbers of the jobs.
        jobs: Vec<u64>,
    },
    /// For a job's tasks. The term is the coordinator's over the job.
    Job { job: u64, term: Term, message: ToWorker },
    /// A job is over.
    Forget {
        job: u64,
        term: Term,
        /// It has ended by itself: it will not start again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ended: bool,
    },
    /// The process is not needed any more.
    End,
}
