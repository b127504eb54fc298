//! Workers as processes of this machine, for a job that is started here. A process that ends, or stands
//! still, is replaced.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Clock, Error, Result};
use anabranch_runtime::{Workers, random_seed};

use super::members::{Cluster, Members};
use crate::control::Security;
use crate::threads::spawn;

/// How often ended processes are looked for.
const LOOK: Duration = Duration::from_millis(100);
/// Time that processes have to end.
const END: Duration = Duration::from_secs(5);
/// The environment of a worker's process has the secret of the cluster under this name.
pub const TOKEN: &str = "ANABRANCH_TOKEN";
/// The environment says under this name which events a process logs.
pub const LOG: &str = "ANABRANCH_LOG";

/// Worker processes of this machine. Dropping it ends them.
pub struct LocalWorkers {
    count: usize,
    cluster: Option<Cluster>,
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LocalWorkers {
    /// Starts this number of processes of the program, each with so many slots.
    pub fn start(program: PathBuf, count: u32, slots: u32, clock: Arc<dyn Clock>) -> Result<LocalWorkers> {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let token = format!("{:016x}{:016x}", random_seed(), random_seed());
        let cluster = Cluster::listen(any, Security::Plain { token: token.clone().into_bytes() }, clock)?;
        let address = cluster.address().ok_or_else(|| Error::internal("a cluster does not listen"))?;
        let start = move |number: u32| {
            let mut command = Command::new(&program);
            command.args(["worker", "--coordinator", &address.to_string(), "--slots", &slots.to_string()]);
            command.args(["--once", "--name", &format!("local-{number}")]).env(TOKEN, &token);
            // Standard error is for the lines of this process. What a worker reports, this process shows or
            // logs.
            command.env(LOG, "off");
            // An interrupt of the terminal is for the coordinator, which lets the tasks end in order.
            command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
            let place =
                |error| Error::outside(format!("cannot start a worker: {error}")).at(program.display().to_string());
            command.spawn().map_err(place)
        };
        let children = (1..=count).map(&start).collect::<Result<Vec<Child>>>()?;
        let ((ends, ended), members) = (channel(), cluster.members());
        let watch = move || watch(children, &members, &start, &ended);
        let thread = Some(spawn("workers", watch)?);
        Ok(LocalWorkers { count: count as usize, cluster: Some(cluster), ends: Some(ends), thread })
    }

    /// The workers for observers.
    pub(crate) fn members(&self) -> Option<Members> {
        self.cluster.as_ref().map(Cluster::members)
    }

    /// For the job whose tasks run there.
    #[must_use]
    pub fn workers(&self) -> Option<Workers> {
        self.cluster.as_ref().map(|cluster| cluster.workers(self.count))
    }
}

impl Drop for LocalWorkers {
    fn drop(&mut self) {
        // The thread must not start processes again when they end.
        self.ends = None;
        self.cluster = None;
        self.thread.take().map(JoinHandle::join).unwrap_or(Ok(())).unwrap_or_default();
    }
}

struct Worker {
    child: Child,
    /// The coordinator has seen it.
    joined: bool,
}

impl Worker {
    fn new(child: Child) -> Worker {
        Worker { child, joined: false }
    }

    /// Whether the process has ended. A process that was a worker and is lost hangs or is of no use: it is
    /// killed.
    fn has_ended(&mut self, members: &Members) -> bool {
        let is_member = members.has(self.child.id());
        if self.joined && !is_member {
            // It may have ended by itself.
            let _ = self.child.kill();
        }
        self.joined |= is_member;
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

/// Starts processes again until the sender of `ended` is gone, then waits for them, but not forever.
fn watch(children: Vec<Child>, members: &Members, start: &dyn Fn(u32) -> Result<Child>, ended: &Receiver<()>) {
    let mut workers: Vec<Worker> = children.into_iter().map(Worker::new).collect();
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        for (number, worker) in (1..).zip(&mut workers) {
            if worker.has_ended(members)
                && let Ok(next) = start(number)
            {
                *worker = Worker::new(next);
            }
        }
    }
    let mut children: Vec<Child> = workers.into_iter().map(|worker| worker.child).collect();
    let (_nobody, never) = channel::<()>();
    let mut left = END;
    while children.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) && !left.is_zero() {
        let _ = never.recv_timeout(LOOK);
        left = left.saturating_sub(LOOK);
    }
    for child in &mut children {
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
}
