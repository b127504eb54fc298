//! The tasks of one job at a worker whose coordinator is in another process: a thread that drives the
//! worker's shell.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Error, Incarnation, KeyGroupReading, Nanos, Result};
use anabranch_operators::Connectors;
use anabranch_protocol::worker::{Config, Term};
use anabranch_state::Store;

use crate::durable::origin::Origin;
use crate::network::Endpoint;
use crate::network::wiring::Network;
use crate::shell::adoption::Hosted;
use crate::shell::contact::Contact;
use crate::shell::coordinator::REPEAT;
use crate::shell::deployment::{Checkpoints, Deployment};
use crate::shell::messages::{Deploy, DeployCheckpoints, FromWorker, Observed, ToWorker};
use crate::shell::running::Drive;
use crate::shell::shared::Shared;
use crate::shell::worker::{FromThread, WorkerMail, WorkerShell};
use crate::task::mail::{FromTask, Mail};
use crate::task::threads::no_thread;
use crate::task::view::Activity;

/// How often the coordinator gets the metrics of the tasks.
const METRICS: Duration = Duration::from_millis(500);
/// How often it gets them while tasks process few rows.
const METRICS_IDLE: Duration = Duration::from_secs(4);
/// How long a change that is not urgent may wait for the worker's next summary. A coordinator that waits for
/// a summary gets it at once.
const LINGER: Duration = Duration::from_secs(2);
/// Fewer rows between two readings, of all tasks together, are few.
const FEW_ROWS: u64 = 100;
/// State that was loaded for a plan version is dropped if no coordinator sends a message for this time: the
/// requesting coordinator is gone, or a file takes unreasonably long.
const PREPARED_MAX: Duration = Duration::from_secs(600);

/// What a worker's process provides for the tasks of all jobs.
pub trait Premises: Send + Sync {
    /// Opens a job's checkpoint storage.
    fn checkpoints(&self, plan: &Plan) -> Result<Store>;

    /// Opens the savepoint at this place.
    fn savepoint(&self, place: &str) -> Result<Origin>;

    /// Sends a message to the coordinator of a job. It never waits.
    fn send(&self, job: u64, message: FromWorker);

    /// The tasks of a job run, so that any coordinator may adopt them. `None`: they have ended.
    fn hosts(&self, job: u64, hosted: Option<Hosted>);
}

/// The messages of a job's worker.
pub(crate) enum HostedMessage {
    Task(FromTask),
    Thread(FromThread),
    Coordinator(ToWorker),
    /// The coordinator's process has not answered a heartbeat for the time of a lease.
    Silent,
    End,
    /// The job has ended by itself.
    Over,
}

/// A job at this worker. Dropping it ends its tasks.
pub struct HostedJob {
    messages: Sender<HostedMessage>,
    contact: Arc<Contact>,
    has_tasks: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Post(Sender<HostedMessage>);

impl Mail for Post {
    fn send(&self, message: FromTask) {
        // The receiver is gone only when the job is over.
        let _ = self.0.send(HostedMessage::Task(message));
    }
}

impl WorkerMail for Post {
    fn send_from_thread(&self, message: FromThread) {
        // As above.
        let _ = self.0.send(HostedMessage::Thread(message));
    }
}

/// The worker of one job, without its thread.
pub(crate) struct Host {
    job: u64,
    config: Config,
    connectors: Connectors,
    shared: Arc<Shared>,
    mail: Arc<dyn WorkerMail>,
    network: Arc<dyn Network>,
    premises: Arc<dyn Premises>,
    drive: Drive,
    messages: Receiver<HostedMessage>,
    /// The newest heartbeat that was answered.
    pub(crate) contact: Arc<Contact>,
    /// Number of messages of coordinators that were handled.
    taken: u64,
    /// `None` until the first deployment.
    pub(crate) shell: Option<WorkerShell>,
    /// The incarnation whose tasks run, as reported to coordinators.
    runs: Option<Incarnation>,
    /// Number of the last notice that was sent.
    noticed: u64,
    /// When the tasks are read next, at the latest.
    read_at: Nanos,
    /// When they were last read.
    read_last: Nanos,
    /// When the last message of a coordinator was handled.
    heard_at: Nanos,
    /// The activity of the tasks at the last reading that the coordinator has, and the time of that reading.
    sent: Option<(Vec<Activity>, Nanos)>,
    /// The rows of key groups that the coordinator knows, and their incarnation.
    sent_rows: (Option<Incarnation>, Vec<KeyGroupReading>),
    /// Whether the job will not start again.
    is_over: bool,
    /// Whether tasks are here.
    has_tasks: Arc<AtomicBool>,
}

impl HostedJob {
    /// Waits for the tasks of a job. `lease` is how long they may run without a coordinator.
    pub fn start(
        job: u64,
        lease: Duration,
        connectors: Connectors,
        endpoint: Arc<Endpoint>,
        premises: Arc<dyn Premises>,
    ) -> Result<HostedJob> {
        let clock = Arc::clone(endpoint.clock());
        let config = Config { lease, linger: LINGER, resend: REPEAT };
        let (host, messages) = Host::new(job, config, connectors, (endpoint, clock), premises, Drive::Threads);
        let (has_tasks, contact) = (Arc::clone(&host.has_tasks), Arc::clone(&host.contact));
        let thread = std::thread::Builder::new().name("worker".into()).spawn(move || host.run());
        let thread = Some(thread.map_err(|error| no_thread(&error))?);
        Ok(HostedJob { messages, contact, has_tasks, thread })
    }

    /// A message of the job's coordinator has arrived.
    pub fn send(&self, message: ToWorker) {
        self.give(HostedMessage::Coordinator(message));
    }

    /// The process of the job's coordinator in this term has answered the heartbeat that this process sent at
    /// this time.
    pub fn answered(&self, term: Term, sent: Nanos) {
        self.contact.answered(term, sent);
    }

    /// The coordinator's process has not answered a heartbeat for the time of a lease: later answers must not
    /// extend that lease.
    pub fn silent(&self) {
        self.give(HostedMessage::Silent);
    }

    fn give(&self, message: HostedMessage) {
        self.contact.count_message();
        // The receiver is gone only after a panic, which has ended the tasks.
        let _ = self.messages.send(message);
    }

    /// Whether tasks run here, are ending, or are being prepared.
    #[must_use]
    pub fn has_tasks(&self) -> bool {
        self.has_tasks.load(SeqCst)
    }

    /// The job has ended by itself: local copies of its state are removed when the value is dropped.
    pub fn is_over(&self) {
        let _ = self.messages.send(HostedMessage::Over);
    }
}

impl Drop for HostedJob {
    fn drop(&mut self) {
        let _ = self.messages.send(HostedMessage::End);
        // A panic has ended the tasks.
        self.thread.take().map(JoinHandle::join).unwrap_or(Ok(())).unwrap_or_default();
    }
}

impl Host {
    /// A worker without tasks, and the channel for its messages.
    pub(crate) fn new(
        job: u64,
        config: Config,
        connectors: Connectors,
        (network, clock): (Arc<dyn Network>, Arc<dyn Clock>),
        premises: Arc<dyn Premises>,
        drive: Drive,
    ) -> (Host, Sender<HostedMessage>) {
        let (sender, messages) = channel();
        let (shared, read_at) = (Shared::new(Arc::clone(&clock)), clock.now());
        let mail = Arc::new(Post(sender.clone()));
        let (shell, runs, noticed) = (None, None, 0);
        let host = Host {
            job,
            config,
            connectors,
            shared,
            mail,
            network,
            premises,
            drive,
            messages,
            contact: Arc::default(),
            taken: 0,
            shell,
            runs,
            noticed,
            read_at,
            read_last: read_at,
            heard_at: read_at,
            sent: None,
            sent_rows: (None, Vec::new()),
            is_over: false,
            has_tasks: Arc::default(),
        };
        (host, sender)
    }

    fn run(mut self) {
        let clock = self.shared.clock();
        loop {
            let deadline = self.shell.as_ref().and_then(WorkerShell::next_deadline);
            let until = deadline.map_or(self.read_at, |deadline| deadline.min(self.read_at));
            let received = self.messages.recv_timeout(until.after(clock.now()));
            if let Ok(HostedMessage::End) | Err(RecvTimeoutError::Disconnected) = received {
                break;
            }
            self.handle(received.ok());
        }
        self.end();
    }

    /// Ends the tasks.
    pub(crate) fn end(&mut self) {
        if let Some(mut shell) = self.shell.take() {
            // The process may end, even if tasks hang.
            let _ = shell.end();
            let checkpoints = shell.deployment().checkpoints.as_ref();
            checkpoints.filter(|_| self.is_over).into_iter().for_each(|checkpoints| checkpoints.store.remove_copies());
        }
    }

    /// Handles the next message without waiting, or the time if there is none. Returns whether there was a
    /// message.
    pub(crate) fn step(&mut self) -> bool {
        let received = self.messages.try_recv().ok();
        let had_message = received.is_some();
        self.handle(received);
        had_message
    }

    /// Handles a message, or the time.
    fn handle(&mut self, received: Option<HostedMessage>) {
        let now = self.shared.clock().now();
        // An answer that arrived after this message must not be handled before it.
        if let (Some((term, sent)), Some(shell)) = (self.contact.newest(self.taken), &mut self.shell) {
            shell.answered(term, sent);
        }
        self.taken += u64::from(matches!(received, Some(HostedMessage::Coordinator(_) | HostedMessage::Silent)));
        let was_task = matches!(received, Some(HostedMessage::Task(_) | HostedMessage::Thread(_)));
        match (received, &mut self.shell) {
            (Some(HostedMessage::Task(message)), Some(shell)) => shell.task(message),
            (Some(HostedMessage::Thread(message)), Some(shell)) => shell.thread(message),
            (Some(HostedMessage::Coordinator(message)), _) => self.coordinator(message),
            (Some(HostedMessage::Over), _) => self.is_over = true,
            (None | Some(HostedMessage::Silent), Some(shell)) => {
                if shell.is_preparing() && now >= self.heard_at.plus(PREPARED_MAX) {
                    shell.give_up_preparing();
                }
                shell.tick();
            }
            (Some(HostedMessage::End), _) | (_, None) => {}
        }
        while let Some(message) = self.shell.as_mut().and_then(WorkerShell::poll) {
            self.premises.send(self.job, message);
        }
        let is_needed = |shell: &WorkerShell| shell.has_tasks() || shell.is_preparing();
        self.has_tasks.store(self.shell.as_ref().is_some_and(is_needed), SeqCst);
        self.report_running();
        // Tasks with few rows are read only when their thread is awake anyway.
        if now >= self.read_at || (was_task && now >= self.read_last.plus(METRICS)) {
            self.read_last = now;
            self.read_at = now.plus(if self.read() { METRICS } else { METRICS_IDLE });
        }
    }

    /// Reports to the coordinators when all tasks run, and when they no longer do.
    fn report_running(&mut self) {
        let running = self.shell.as_ref().and_then(WorkerShell::runs);
        if running != self.runs {
            self.runs = running;
            self.premises.hosts(self.job, self.shell.as_ref().and_then(WorkerShell::hosted));
        }
    }

    fn coordinator(&mut self, message: ToWorker) {
        self.heard_at = self.shared.clock().now();
        match (message, &mut self.shell) {
            (ToWorker::Deploy(deploy), _) if deploy.prepares => self.prepare(*deploy),
            (ToWorker::Deploy(deploy), _) => self.deploy(*deploy),
            (ToWorker::Protocol(message), Some(shell)) => {
                if shell.hears(*message) {
                    // The new coordinator knows nothing of the tasks.
                    (self.sent, self.sent_rows) = (None, (None, Vec::new()));
                }
            }
            (ToWorker::Observed(reached), Some(shell)) => shell.aligned(reached),
            // The deployment always comes first.
            (_, None) => {}
        }
    }

    fn deploy(&mut self, deploy: Deploy) {
        self.shared.life.named(&deploy.plan.options.job_name);
        let refused = deploy.plan.check().err();
        let (deployment, error) = self.deployment(deploy);
        let refused = refused.or(error);
        let shell = self.shell.get_or_insert_with(|| {
            let seen = (Arc::clone(&self.shared), Arc::clone(&self.mail));
            let network = Some((Arc::clone(&self.network), self.job));
            let (config, connectors) = (self.config.clone(), self.connectors.clone());
            WorkerShell::new(config, deployment.clone(), connectors, seen, network, self.drive)
        });
        shell.deploy(deployment);
        shell.refuse(refused);
    }

    /// Prepares a worker without tasks for the job.
    fn prepare(&mut self, deploy: Deploy) {
        let own = self.network.worker();
        let own = deploy.placement.iter().filter(|(_, worker)| *worker == own).map(|(task, _)| *task).collect();
        let plan = deploy.plan.clone();
        if self.shell.is_none() {
            self.deploy(deploy);
        }
        self.shell.iter_mut().for_each(|shell| shell.prepare(&plan, &own));
    }

    /// What tasks are started with, and the error if they cannot be started.
    fn deployment(&self, deploy: Deploy) -> (Deployment, Option<Error>) {
        let peers = deploy.peers();
        let Deploy { plan, origin, checkpoints, retries_opening, placement, .. } = deploy;
        let mut refused = None;
        let checkpoints = checkpoints.and_then(|given| {
            let DeployCheckpoints { job, former, progress_interval } = given;
            let store = self.premises.checkpoints(&plan).map_err(|error| refused = Some(error)).ok()?;
            Some(Checkpoints { store, job, former, progress_interval })
        });
        let origin = origin.and_then(|place| {
            let opened = self.premises.savepoint(&place);
            opened.map_err(|error| refused = Some(error)).ok()
        });
        let (plan, placement) = (Arc::new(plan), placement.into_iter().collect());
        (Deployment { plan, origin, checkpoints, retries_opening, placement, peers }, refused)
    }

    /// Late rows of the present tasks.
    pub(crate) fn late_rows(&self) -> u64 {
        self.shared.late_rows()
    }

    /// Sends the metrics for users. Returns whether they have changed much.
    fn read(&mut self) -> bool {
        let notices = self.shared.notices.after(self.noticed);
        if let Some(last) = notices.last() {
            self.noticed = last.number;
            let texts = notices.into_iter().map(|notice| notice.text).collect();
            self.premises.send(self.job, FromWorker::Observed(Observed::Notices(texts)));
        }
        let (activity, now) = (self.shared.activity(), self.shared.clock().now());
        let rows = self.sent.as_ref().and_then(|(sent, _)| Activity::rows_since(&activity, sent));
        let is_recent = self.sent.as_ref().is_some_and(|(_, at)| now < at.plus(METRICS_IDLE));
        let is_idle = is_recent && rows.is_some_and(|rows| rows < FEW_ROWS);
        if !activity.is_empty() && !is_idle {
            self.sent = Some((activity, now));
            self.premises.send(self.job, FromWorker::Observed(Observed::Metrics(self.shared.metrics())));
            self.send_key_groups();
        }
        rows.is_none_or(|rows| rows >= FEW_ROWS)
    }

    /// Sends the rows of key groups, if tasks have sent rows to each other.
    fn send_key_groups(&mut self) {
        let Some(incarnation) = self.runs else { return };
        let now = (Some(incarnation), self.shared.own_key_groups());
        if now != self.sent_rows && !now.1.is_empty() {
            let rows = now.1.clone();
            self.sent_rows = now;
            self.premises.send(self.job, FromWorker::Observed(Observed::KeyGroups { incarnation, rows }));
        }
    }
}
