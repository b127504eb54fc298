//! The HTTP interface: health, metrics in the format of Prometheus, and a REST API for jobs and workers.
//!
//! The server runs on one thread named `http` with a runtime of its own. It reads counters and sends requests
//! to jobs; no task ever waits for it. Limits of sizes, connections and times keep slow or hostile clients
//! from holding its memory.
//!
//! The routes are over the small traits [`Jobs`] and [`ServedJob`], so that a process with many jobs and
//! workers can serve the same API. `docs/http.md` is the guide for users, `docs/openapi.json` the description
//! for programs, which follows from the routes and from the types of the documents (`description`).

mod answers;
mod autoscale;
mod balance;
mod body;
mod client;
mod connection;
mod description;
mod difference;
mod documents;
mod drain;
mod embedded;
mod exposition;
mod functions;
mod guard;
mod histories;
mod jobs;
mod live;
mod metrics;
mod orders;
mod page;
mod past;
mod paths;
mod query;
mod rates;
mod reconfigure;
mod removal;
mod routes;
mod samples;
mod savepoints;
mod security;
mod sql;
mod state;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Error, Result};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use answers::Api;
pub use autoscale::ScalingRecords;
pub use balance::BalanceOrder;
pub use client::{Called, Client, NoAnswer, Refused};
pub use connection::Limits;
use connection::Service;
pub use documents::Worker;
pub use embedded::Script;
pub(crate) use embedded::{Embedded, EmbeddedJob, Running};
pub use functions::{FunctionJob, FunctionOrder};
pub use histories::ChangeHistories;
pub(crate) use jobs::{JobState, no_job};
pub use jobs::{Jobs, Placed, Reading, Refusal, ServedJob};
pub(crate) use metrics::{Family, Kind, Sample, families};
pub use orders::{JobOrder, new_submission};
use paths::Guarded;
pub use paths::{Paths, Reply};
pub(crate) use rates::{Counted, History, Rate, Rates};
pub use reconfigure::{MoveOrder, ReconfigureOrder};
pub use security::{Given, Listen};
use security::{Protection, bind};

use crate::threads::spawn;

/// What helps where no thread can be started.
const MORE_THREADS: &str = "raise the limit of threads (ulimit -u)";
/// Time for a savepoint that is being taken to be given up.
const GIVE_UP_MAX: Duration = Duration::from_secs(5);

/// A socket that listens, before there is anything to serve: clients wait in its queue meanwhile.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    protection: Protection,
    limits: Limits,
    runtime: Runtime,
}

/// A running server. Dropping it ends it.
pub struct Server {
    /// `None`: it serves no jobs.
    api: Option<Arc<Api>>,
    closing: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Checks the options, reads their files, and listens.
    pub fn bind(listen: &Listen) -> Result<Listener> {
        Self::bind_as(listen, Given::Options("--listen"))
    }

    /// The same, with messages that name what the user has given.
    pub fn bind_as(listen: &Listen, given: Given) -> Result<Listener> {
        let (socket, address, protection) = bind(listen, given)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| Error::outside(format!("cannot prepare the HTTP server: {error}")))?;
        Ok(Listener { socket, address, protection, limits: Limits::default(), runtime })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http{}://{}", if self.protection.tls.is_some() { "s" } else { "" }, self.address)
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Listener {
        Listener { limits, ..self }
    }

    /// Serves jobs and workers until the server is dropped.
    pub fn serve(self, jobs: Arc<dyn Jobs>) -> Result<Server> {
        let api = Arc::new(Api::new(jobs, Arc::clone(&self.protection.guard), self.limits.body));
        self.start(Arc::clone(&api), Some(api))
    }

    /// Serves some paths of another part of the program, and no jobs, until the server is dropped.
    pub fn serve_paths(self, paths: Arc<dyn Paths>) -> Result<Server> {
        let (guard, body_wait) = (Arc::clone(&self.protection.guard), self.limits.body);
        self.start(Arc::new(Guarded { paths, guard, body_wait }), None)
    }

    fn start(self, service: Arc<impl Service>, api: Option<Arc<Api>>) -> Result<Server> {
        let Listener { socket, protection: Protection { tls, .. }, limits, runtime, .. } = self;
        let (closing, closes) = watch::channel(false);
        let run = move || runtime.block_on(connection::serve(socket, service, tls, limits, closes));
        let thread = spawn("http", run).map_err(|error| error.remedy(MORE_THREADS))?;
        Ok(Server { api, closing, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let savepoint = self.api.as_ref().and_then(|api| api.close());
        let _ = self.closing.send(true);
        // A panic of the thread has ended the server already.
        let _ = self.thread.take().map(JoinHandle::join);
        if let Some(ended) = savepoint {
            // Nothing is ever sent: the channel closes when the savepoint has been given up, or is complete.
            let _ = ended.recv_timeout(GIVE_UP_MAX);
        }
    }
}
