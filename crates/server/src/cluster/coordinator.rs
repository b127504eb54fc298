//! A coordinator's process: takes jobs, runs them at the workers that have joined, and resumes them when it
//! starts again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_dataflow::{Assignment, Identities, JobOptions, PLAN_FORMAT, Plan, PlannedText};
use anabranch_model::{Error, ErrorKind, KeyGroups, Latch, PlanVersion, Result, pause};
use anabranch_plan::Planned;
use anabranch_runtime::{Check, JobHandle, Summary, Workers};
use anabranch_state::Store;
use tracing::{error, info, warn};

use super::changes::confirm_text;
use super::checks::check_name;
use super::members::Cluster;
use super::messages::Leader;
use super::record::{Record, Records, State};
use super::role::{Role, of_peers};
use super::served::Served;
use super::submitted::Submitted;
use crate::control::Security;
use crate::http::{
    ChangeHistories, JobOrder, Jobs, Listener, Refusal, Running, ScalingRecords, ServedJob as _, Server, no_job,
};
use crate::threads::{lock, spawn};
use crate::{Engine, Settings};

/// Time between two checkpoints of a job that does not set one.
const CHECKPOINT_INTERVAL: &str = "10 s";
/// How long a coordinator that leads from now on waits for workers that have tasks of its jobs. Those run on
/// for longer.
const ADOPTION: Duration = Duration::from_secs(1);
/// How often a coordinator that closes tries to record the end of a job.
const ATTEMPTS_AT_CLOSE: u32 = 25;
/// How often a job starts again because another process has taken it over. A coordinator that led before does
/// that once or twice; another job with the same place for checkpoints does it for ever.
const FENCED_MAX: u32 = 5;
/// Pause before another attempt to resume a job, or to write its record.
const AGAIN: Duration = Duration::from_millis(200);

/// How a coordinator is started.
pub struct CoordinatorOptions {
    /// Where the list of jobs is, and their checkpoints: a directory, or a place in an object store.
    pub store: String,
    /// Where it listens for workers.
    pub listen: SocketAddr,
    /// Where workers and other coordinators reach it, if that is another address.
    pub advertise: Option<SocketAddr>,
    /// The secret of the cluster, and the certificate that workers check.
    pub security: Security,
    /// What the certificate of another coordinator is checked with, as PEM. `None`: its own certificate.
    pub authority: Option<Vec<u8>>,
    /// The job that clients may start by a request for the demonstration.
    pub demo: Option<JobOrder>,
}

/// A running coordinator: it leads, or stands by.
pub struct Coordinator {
    shared: Arc<Shared>,
    server: Option<Server>,
    threads: Vec<JoinHandle<()>>,
}

pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) cluster: Cluster,
    pub(super) records: Records,
    pub(super) role: Role,
    jobs: Mutex<BTreeMap<String, Arc<Submitted>>>,
    /// Held while a job is taken: two of the same name must not be.
    pub(super) taking: Mutex<()>,
    pub(super) closing: Latch,
    pub(super) histories: ChangeHistories,
    pub(super) scaling: ScalingRecords,
    pub(super) demo: Option<JobOrder>,
}

impl Coordinator {
    /// Listens for workers, serves the API, and resumes the jobs that were running.
    pub fn start(engine: Engine, options: CoordinatorOptions, listener: Listener) -> Result<Coordinator> {
        let CoordinatorOptions { store, listen, advertise, security, authority, demo } = options;
        let of_peers = of_peers(&security, authority);
        let place = |error: Error| error.at(format!("option --store {store}"));
        // No task runs in this process, so other workers need not reach it.
        let mut cluster = Cluster::listen(listen, security, Arc::clone(engine.clock()))
            .map_err(|error| error.at(format!("option --listen {listen}")))?;
        cluster.keep_workers();
        let records = Records::new(Store::open(&store, engine.access()).map_err(place)?);
        if let Err(error) = records.make_private() {
            warn!(error = %error, "other users may read the statements of jobs");
        }
        let address = advertise.or(cluster.address()).unwrap_or(listen);
        let role = Role::new(records.leaders(), (address, listener.url()), of_peers);
        let (jobs, taking, closing) = (Mutex::default(), Mutex::default(), Latch::default());
        let (histories, scaling) = (ChangeHistories::default(), ScalingRecords::default());
        let shared =
            Arc::new(Shared { engine, cluster, records, role, jobs, taking, closing, histories, scaling, demo });
        // If it can neither lead nor stand by, this start fails.
        shared.decide().map_err(place)?;
        let server = listener.serve(Arc::new(Served(Arc::clone(&shared))))?;
        let start = |name: &str, run: fn(&Arc<Shared>)| {
            let shared = Arc::clone(&shared);
            spawn(name, move || run(&shared))
        };
        let threads = vec![start("leader", Shared::keep_role)?, start("autoscaler", Shared::keep_scale)?];
        Ok(Coordinator { shared, server: Some(server), threads })
    }

    /// Where workers connect.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.shared.cluster.address()
    }

    /// Its jobs and workers.
    #[must_use]
    pub fn jobs(&self) -> Arc<dyn Jobs> {
        Arc::new(Served(Arc::clone(&self.shared)))
    }

    /// Whether another coordinator stands by. It takes over the jobs when this one closes.
    #[must_use]
    pub fn has_standby(&self) -> bool {
        self.shared.cluster.members().has_standby()
    }

    /// Stops all jobs at the end of an epoch; the next start resumes them. Jobs that take longer than `limit`
    /// end as by a crash. If another coordinator stands by, the jobs keep running.
    pub fn close(mut self, limit: Duration) {
        self.shared.closing.set();
        self.server = None;
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A panic has ended it too.
            let _ = thread.join();
        }
        let jobs: Vec<_> = self.shared.jobs().values().cloned().collect();
        let running = jobs.iter().filter(|job| job.state() == State::Running);
        match self.has_standby() {
            true => {
                running.for_each(|job| job.leave());
                // The other one need not find out.
                self.shared.cluster.lead(None);
            }
            false => running.for_each(|job| job.close()),
        }
        let clock = self.shared.engine.clock();
        let end = clock.now().plus(limit);
        for ended in jobs.iter().filter_map(|job| job.take_end()) {
            // Nothing is ever sent: the channel closes with the job's thread.
            let _ = ended.recv_timeout(end.after(clock.now()));
        }
    }
}

impl Shared {
    pub(super) fn jobs(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Submitted>>> {
        lock(&self.jobs)
    }

    pub(super) fn find(&self, job: &str) -> Result<Arc<Submitted>, Refusal> {
        self.jobs().get(job).cloned().ok_or_else(|| Refusal::Unknown(no_job(job)))
    }

    /// Plans the statements of a job.
    pub(super) fn plan(&self, record: &Record) -> Result<Planned> {
        let Record { order: JobOrder { name, sql, settings, options, .. }, default_parallelism, .. } = record;
        let mut set: Vec<_> = settings.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        // The name under which it was submitted is the only one.
        set.push(("job-name".to_owned(), name.clone()));
        let settings = Settings { parallelism: None, set, table_options: options.clone() };
        let checkpoints = self.records.checkpoints(name);
        let defaults = [("checkpoint-directory", checkpoints.as_str()), ("checkpoint-interval", CHECKPOINT_INTERVAL)];
        self.engine.plan_with(sql, &settings, &defaults, Some(*default_parallelism))
    }

    /// Plans a job and opens the place of its checkpoints.
    pub(super) fn prepare(&self, record: &Record) -> Result<Running> {
        let planned = self.plan(record)?;
        let nothing = || Error::user("there is nothing to run: the statements have no INSERT INTO");
        let plan = planned.plan.ok_or_else(|| nothing().remedy("add INSERT INTO t SELECT ..."))?;
        self.check(&plan)?;
        self.engine.running(&plan)
    }

    /// Starts a job that was running, and lists those that were not.
    pub(super) fn resume(self: &Arc<Self>, mut record: Record) {
        let name = record.order.name.clone();
        let resumes = record.state == State::Running;
        let running = self.prepare(&record).unwrap_or_else(|error| {
            if resumes {
                (record.state, record.failure) = (State::Failed, Some(error.to_string()));
                warn!(job = name, error = %error, "job cannot be resumed");
            }
            self.without_plan(record.submitted_ms)
        });
        let Some(own) = self.role.leader() else { return };
        let job = Submitted::new((record, true), running, self.cluster.members(), (self.records.clone(), own));
        self.jobs().insert(name.clone(), Arc::clone(&job));
        if job.state() == State::Running {
            info!(job = name, "job resumes");
            self.start(&job);
        }
    }

    /// What is shown of a job that cannot be planned any more.
    fn without_plan(&self, started_ms: i64) -> Running {
        let (clock, access) = (Arc::clone(self.engine.clock()), self.engine.access().clone());
        Running { plan: Arc::new(nothing()), clock, store: None, access, started_ms }
    }

    pub(super) fn take(self: &Arc<Self>, order: JobOrder) -> Result<(), Refusal> {
        let _taking = lock(&self.taking);
        if self.role.leader().is_none() {
            return Err(Refusal::Conflict(Error::outside("this coordinator does not lead any more")));
        }
        check_name(&order.name).map_err(Refusal::Wrong)?;
        let known = self.jobs().get(&order.name).cloned();
        let taken = |what: &str, remedy: &str| {
            let error = Error::user(format!("there is a job '{}' already, which {what}", order.name));
            Err(Refusal::Conflict(error.remedy(remedy.to_owned())))
        };
        // The client has not received the first answer, and sends the order again.
        let is_same = |job: &Arc<Submitted>| job.record().order.submission == order.submission;
        if order.submission.is_some() && known.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        match known.as_ref().map(|job| job.state()) {
            Some(State::Running) => {
                let stop = format!("choose another name, or stop that job first: anabranch stop {}", order.name);
                return taken("runs", &stop);
            }
            Some(State::Ended) => {
                let remove = format!("choose another name, or remove that job: anabranch remove {}", order.name);
                return taken("has ended", &remove);
            }
            Some(State::Stopped | State::Failed | State::Cancelled | State::Removed) | None => {}
        }
        if self.closing.is_set() {
            return Err(Refusal::Conflict(Error::outside("the coordinator ends").remedy("send the job again later")));
        }
        let slots = Some(self.cluster.members().slots()).filter(|slots| *slots > 0);
        let mut record = Record::new(order, slots.unwrap_or_else(crate::engine::cores), self.engine.clock().wall_ms());
        record.follow(known.map(|job| job.record()).as_ref());
        let running = self.prepare(&record).map_err(Refusal::Wrong)?;
        self.check_place(&record.order.name, &running)?;
        let own = self.write_new(&mut record).map_err(Refusal::Wrong)?;
        let name = record.order.name.clone();
        let job = Submitted::new((record, false), running, self.cluster.members(), (self.records.clone(), own));
        self.jobs().insert(name.clone(), Arc::clone(&job));
        info!(job = name, "job submitted");
        self.start(&job);
        Ok(())
    }

    /// Writes the record of a new job, as long as this coordinator leads.
    fn write_new(&self, record: &mut Record) -> Result<Leader> {
        while self.role.may_write()? {
            let Some(own) = self.role.leader() else { break };
            if self.records.write(record, own)? {
                return Ok(own);
            }
            let last = self.records.of(&record.order.name)?;
            if last.as_ref().is_some_and(|last| last.writer() > own) {
                break;
            }
            // A coordinator that led before was late, or a request to stop the job that had this name.
            record.follow(last.as_ref());
        }
        Err(leads_no_more())
    }

    /// Writes the record of a job that was running: what a coordinator that led before writes later is
    /// refused. Returns whether the job is to run, once the store has answered.
    fn claim(&self, job: &Submitted, leads: &dyn Fn() -> bool) -> bool {
        while let Some(own) = self.role.leader().filter(|_| leads()) {
            match self.try_claim(job, own) {
                Ok(Some(runs)) => return runs,
                Ok(None) => {}
                Err(error) => {
                    warn!(job = job.name(), error = %error, "job cannot be resumed yet");
                    self.closing.wait(AGAIN);
                }
            }
        }
        false
    }

    /// `None`: its record has changed, and is to be written again.
    fn try_claim(&self, job: &Submitted, own: Leader) -> Result<Option<bool>> {
        if job.write(|_| {})? {
            return match self.decide_text(job) {
                Err(error) if error.kind() == ErrorKind::User => {
                    self.ended(job, State::Failed, Some(error));
                    Ok(Some(false))
                }
                decided => decided.map(|()| Some(true)),
            };
        }
        let Some(record) = self.records.of(job.name())?.filter(|record| record.writer() < own) else {
            return Ok(Some(false));
        };
        let (state, failure) = (record.state, record.failure.clone());
        job.read(record);
        if state == State::Running {
            return Ok(None);
        }
        job.ended(state, failure);
        Ok(Some(false))
    }

    /// A job has a thread: its start waits for workers.
    fn start(self: &Arc<Self>, job: &Arc<Submitted>) {
        let (shared, started) = (Arc::clone(self), Arc::clone(job));
        let (ends, ended) = channel::<()>();
        job.set_end(ended);
        let run = move || {
            shared.run(&started);
            // A coordinator that closes waits for this: no request is answered here afterwards.
            drop((shared, started));
            drop(ends);
        };
        if let Err(error) = spawn("job", run) {
            self.ended(job, State::Failed, Some(error));
        }
    }

    /// Runs a job to its end.
    fn run(&self, job: &Arc<Submitted>) {
        let leader = self.role.leader();
        let leads = || {
            let leads = leader.is_some() && self.role.leader() == leader && !self.closing.is_set();
            leads && !job.was_left() && self.role.is_last()
        };
        let goes_on = || !job.end_was_requested() && leads();
        if job.resumes && !self.claim(job, &leads) {
            return;
        }
        let (mut check, mut patience) = (Check::Sizes, if job.resumes { ADOPTION } else { Duration::ZERO });
        let mut fenced = 0;
        let outcome = loop {
            let outcome = self.run_once(job, check, patience);
            let why = match &outcome {
                _ if job.stops_for_coordinator() && goes_on() => {
                    patience = Duration::ZERO;
                    "a coordinator that has ended had stopped it".to_owned()
                }
                Ok(_) => break outcome,
                Err(error) => {
                    match error.kind() {
                        _ if goes_on() && self.decides_anew(job) => {}
                        ErrorKind::Damaged if matches!(check, Check::Sizes) && goes_on() => check = Check::Content,
                        // A coordinator that led before has written to the job's log late: that is over soon.
                        ErrorKind::Fenced if fenced < FENCED_MAX && goes_on() => {
                            fenced += 1;
                            patience = ADOPTION;
                        }
                        // It ran before this coordinator led: a system that is away for a moment does not end
                        // it.
                        ErrorKind::Outside if job.resumes && job.live().is_none() && goes_on() => {}
                        _ => break outcome,
                    }
                    error.to_string()
                }
            };
            let reads_checkpoint = matches!(check, Check::Content);
            warn!(job = job.name(), reads_checkpoint, why, "job starts again");
            job.starts_again();
            self.closing.wait(AGAIN);
        };
        match outcome {
            // Another coordinator has it, or will.
            _ if leader.is_none() || self.role.leader() != leader || job.was_left() || !self.role.is_last() => {}
            // The next start resumes it.
            _ if self.closing.is_set() && !job.end_was_requested() => {}
            Err(_) if job.was_cancelled() => self.ended(job, State::Cancelled, None),
            Ok(summary) if job.stop_was_requested() && !summary.had_ended => self.ended(job, State::Stopped, None),
            Ok(_) => self.ended(job, State::Ended, None),
            // No task ran that could stop at the end of an epoch.
            Err(_) if job.stop_was_requested() && (job.waits_for_workers() || job.was_to_stop()) => {
                self.ended(job, State::Stopped, None);
            }
            Err(error) => self.ended(job, State::Failed, Some(error)),
        }
    }

    /// Runs a job until it ends or fails. Workers read the state: the coordinator reads it only if it was
    /// found damaged.
    fn run_once(&self, job: &Arc<Submitted>, check: Check, patience: Duration) -> Result<Summary> {
        let workers = self.cluster.workers_of(job.number, 0, patience);
        let (number, seen, left) = (workers.job, Arc::clone(job), Arc::clone(job));
        let register = workers.register;
        let register = Box::new(move |handle: JobHandle| {
            register(handle.clone());
            match confirm_text(&seen) {
                Ok(()) => seen.began(handle),
                Err(why) => handle.abort(why),
            }
        });
        let is_wanted = Box::new(move || !left.was_left());
        let workers = Workers { check, is_wanted, register, ..workers };
        let started = self.engine.start_at(&job.running(), None, Some(workers));
        let outcome = started.and_then(anabranch_runtime::Job::wait);
        self.cluster.forget(number);
        outcome
    }

    fn ended(&self, job: &Submitted, state: State, error: Option<Error>) {
        let name = job.name();
        match (state, &error) {
            (_, Some(error)) => {
                let (message, place, remedy) = (error.message(), error.place(), error.help());
                error!(job = name, error = message, place, remedy, "job failed");
            }
            (State::Stopped, _) => info!(job = name, "job stopped"),
            (State::Cancelled, _) => info!(job = name, "job cancelled"),
            _ => info!(job = name, "job ended"),
        }
        let failure = error.map(|error| error.to_string());
        // As long as it counts as running, its name is taken.
        let change = |record: &mut Record| {
            (record.state, record.failure) = (state, failure.clone());
            job.decided().into_iter().for_each(|decided| decided.apply(record));
        };
        self.record_end(job, change);
        job.ended(state, failure);
    }

    /// Writes that a job is over. Without that the next coordinator would resume it, so this one retries
    /// until the store answers, as long as it has the job.
    fn record_end(&self, job: &Submitted, change: impl Fn(&mut Record)) {
        let mut left = ATTEMPTS_AT_CLOSE;
        loop {
            let error = match job.write(&change) {
                Ok(true) => return,
                Ok(false) => leads_no_more(),
                Err(error) => error,
            };
            let is_over = !self.role.is_last() || job.was_left() || left == 0 || error.kind() != ErrorKind::Outside;
            warn!(job = job.name(), error = %error, goes_on = !is_over, "end of the job not recorded");
            if is_over {
                return;
            }
            left -= u32::from(self.closing.is_set());
            pause(AGAIN);
        }
    }
}

pub(super) fn leads_no_more() -> Error {
    Error::outside("another coordinator leads now").remedy("send the request to that one")
}

/// A plan without tasks.
pub(super) fn nothing() -> Plan {
    Plan {
        format: PLAN_FORMAT,
        version: PlanVersion(1),
        key_groups: KeyGroups(1),
        options: JobOptions::default(),
        stages: Vec::new(),
        exchanges: Vec::new(),
        identities: Identities::default(),
        assignment: Assignment::default(),
        text: PlannedText::default(),
    }
}

#[cfg(test)]
mod tests;
