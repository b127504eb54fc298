//! The loop: each period it reads the targets, lets policies decide, and writes what differs. One target that
//! fails does not stop the others.
//!
//! Algorithm 1 of the paper wakes at the greatest common divisor of the policies' periods; here each policy
//! has its next time, and a target is read once for all policies that are due. While no thread waits for a
//! core, nothing is decided and nothing is written.

mod answers;
mod applied;
mod environment;
mod notices;
mod reader;
mod report;
mod setup;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result};
use anabranch_schedule::{Schedule, ThreadId, ThreadKind};

use self::applied::Applied;
pub use self::environment::{Environment, Formulas};
pub use self::report::{check, list};
pub use self::setup::state_directory;
use self::setup::{applied, own_processor_ms, property_of, watched};
use self::watched::Watched;
use crate::config::{Config, Property};
use crate::control::{Asked, Order};
use crate::guardian::{self, Guardian};
use crate::journal::{Journal, Outcome, StateFolder, Undone};
use crate::kernel::{Change, Machine, Proc, State, Trigger, UsageReader};
use crate::permission::{Abilities, Rules, check_process, has_other_cpuset};
use crate::status::Status;
use crate::translator::Write;

/// Time between two looks at the targets while no thread waits for a core.
const IDLE: Duration = Duration::from_secs(5);
/// Time for which a step waits for engines that it has asked. What comes later is for the next step.
const ANSWERS: Duration = Duration::from_millis(100);
/// Share of the time for which some thread waits for a core from which on decisions are made.
const PRESSURE_MIN: f64 = 0.02;
/// The window of the kernel's reports.
const PRESSURE_WINDOW: Duration = Duration::from_secs(1);
/// Notices that are kept.
const NOTICES: usize = 50;

/// A running scheduler.
pub struct Osched {
    clock: Arc<dyn Clock>,
    kernel: Proc,
    machine: Machine,
    formulas: Formulas,
    guardian: fn(&Path) -> Command,
    targets: Vec<Watched>,
    policies: Vec<Applied>,
    abilities: Abilities,
    /// `None`: nothing is written.
    journal: Option<(Journal, Guardian)>,
    usages: UsageReader,
    /// What a dry run would have written.
    rehearsed: BTreeMap<String, String>,
    status: Arc<Mutex<Status>>,
    orders: Receiver<Asked>,
    ordering: Sender<Asked>,
    /// When the kernel was last asked for pressure, and its counter then.
    pressure: Option<(Nanos, u64)>,
    /// The kernel's pressure trigger, which reports that threads wait for cores again. `None`: the kernel or
    /// the user's rights do not allow it, and policies run at their periods only.
    trigger: Option<Trigger>,
    /// Whether threads waited for cores at the last look.
    is_pressed: bool,
    looked_at: Option<Nanos>,
    other_cpusets: bool,
    /// Refusals for which there was a notice.
    told: BTreeSet<String>,
    /// Processes that are left alone.
    excluded: BTreeSet<u32>,
    /// The targets, and the properties of their threads, about which a policy decides.
    taken: BTreeSet<(String, Property)>,
}

/// What a step has done.
#[derive(Debug)]
pub struct Step {
    /// Time until the next one.
    pub wait: Duration,
    /// What would be written now, in a dry run.
    pub rehearsed: Vec<String>,
}

impl Osched {
    /// Reads all targets, and prepares their policies. Restores what a killed one has left. Errors: no target
    /// answers, a policy needs a metric that its target does not have, another scheduler has one of the
    /// processes.
    pub fn start(config: Config, environment: Environment) -> Result<Osched> {
        let Environment { clock, kernel, formulas, guardian, drivers, dry_run } = environment;
        let mut targets = watched(&config, drivers, &kernel, &clock)?;
        if targets.iter().all(|watched| watched.failure().is_some()) {
            let failure = targets.iter_mut().find_map(Watched::take_failure);
            return Err(failure.unwrap_or_else(|| Error::user("there is no target")));
        }
        let folder = config.state_directory.clone().unwrap_or_else(state_directory);
        let (journal, left) = match dry_run {
            true => (None, Vec::new()),
            false => {
                let (journal, left) = Journal::create(&StateFolder::open(folder)?, &kernel)?;
                let guardian = guardian::start(guardian(journal.path()))?;
                (Some((journal, guardian)), left)
            }
        };
        let label = journal.as_ref().map_or("osched", |(journal, _)| journal.label());
        let machine = Machine::of(&kernel, label);
        let policies = config.policies.into_iter().enumerate();
        let policies = policies
            .map(|(index, config)| applied(index, config, formulas, &machine, &mut targets))
            .collect::<Result<Vec<_>>>()?;
        let (ordering, orders) = channel();
        let trigger = kernel.trigger(PRESSURE_MIN, PRESSURE_WINDOW).ok();
        let mut osched = Osched {
            abilities: Abilities::find(&kernel)?,
            clock,
            kernel,
            machine,
            formulas,
            guardian,
            targets,
            policies,
            journal,
            usages: UsageReader::default(),
            rehearsed: BTreeMap::new(),
            status: Arc::new(Mutex::new(Status { dry_run, ..Status::default() })),
            orders,
            ordering,
            pressure: None,
            trigger,
            is_pressed: true,
            looked_at: None,
            other_cpusets: config.other_cpusets,
            told: BTreeSet::new(),
            excluded: BTreeSet::new(),
            taken: BTreeSet::new(),
        };
        for (path, undone) in left {
            osched.notice(format!("restored what {} had left: {undone}", path.display()));
        }
        osched.claim()?;
        osched.tell_of_sessions()?;
        osched.tell_left_alone();
        let failures: Vec<String> =
            osched.targets.iter().filter_map(Watched::failure).map(ToString::to_string).collect();
        failures.into_iter().for_each(|failure| osched.notice(failure));
        osched.publish();
        Ok(osched)
    }

    /// The state that views show, which each step renews.
    #[must_use]
    pub fn status(&self) -> Arc<Mutex<Status>> {
        Arc::clone(&self.status)
    }

    /// Takes orders, each of which the next step carries out.
    #[must_use]
    pub fn orders(&self) -> Sender<Asked> {
        self.ordering.clone()
    }

    /// Does what is due.
    pub fn step(&mut self) -> Result<Step> {
        self.carry_out_orders();
        let now = self.clock.now();
        if !self.is_pressed && self.has_pressure_returned() {
            // Those that were passed over decide at once.
            let passed_over = self.policies.iter_mut().filter(|policy| policy.passed_over);
            passed_over.for_each(|policy| policy.due_at = now);
        }
        let late = self.take_late();
        let due: BTreeSet<usize> = (0..self.policies.len()).filter(|at| self.policies[*at].due_at <= now).collect();
        let mut rehearsed = Vec::new();
        if !due.is_empty() {
            self.look_for_pressure(now);
        }
        let is_idle = self.looked_at.is_some_and(|looked_at| now.after(looked_at) < IDLE);
        if !due.is_empty() && (self.is_pressed || !is_idle) {
            self.looked_at = Some(now);
            self.read(&due);
        }
        let deciding: BTreeSet<usize> = due.union(&late).copied().collect();
        if !deciding.is_empty() && (self.is_pressed || self.looked_at == Some(now)) {
            if !self.lock().paused {
                rehearsed = self.decide(&deciding)?;
            }
            self.publish();
        }
        for at in due {
            let policy = &mut self.policies[at];
            policy.due_at = now.plus(policy.config.period);
            policy.passed_over = !self.is_pressed;
        }
        let next = self.policies.iter().map(|policy| policy.due_at).min().unwrap_or(now);
        let wait = next.after(self.clock.now());
        // What is late is taken soon.
        let owes = self.targets.iter().any(Watched::owes);
        Ok(Step { wait: if owes { wait.min(ANSWERS) } else { wait }, rehearsed })
    }

    /// Restores everything, and ends.
    pub fn end(mut self) -> Result<Undone> {
        match self.journal.take() {
            None => Ok(Undone::default()),
            Some((journal, guardian)) => {
                let undone = journal.close()?;
                guardian.farewell()?;
                Ok(undone)
            }
        }
    }

    /// Lets the policies that are due decide, each about the targets that no earlier policy decides about,
    /// and writes what differs. What a policy wrote for targets that no policy decides about any more is
    /// restored.
    fn decide(&mut self, due: &BTreeSet<usize>) -> Result<Vec<String>> {
        let (pressure, is_pressed) = (self.lock().pressure.unwrap_or(f64::NAN), self.is_pressed);
        self.claim_new();
        self.keep_guarded()?;
        let (mut taken, mut schedules) = (BTreeSet::new(), Vec::new());
        let cores = self.machine.cores;
        for at in 0..self.policies.len() {
            let policy = &mut self.policies[at];
            let properties = policy.properties();
            let mut mine = Vec::new();
            for watched in &self.targets {
                if !policy.config.targets.contains(&watched.name) {
                    continue;
                }
                let holds = policy.holds(&watched.name, &watched.as_target(pressure, cores));
                let is_free = properties.iter().all(|of| !taken.contains(&(watched.name.clone(), *of)));
                if holds && watched.is_known() && is_free {
                    mine.push(watched);
                }
            }
            policy.active = !mine.is_empty();
            let mut failed = Vec::new();
            if policy.active && is_pressed && due.contains(&at) {
                let (schedule, without) = policy.decide(&mine);
                failed = without;
                schedules.extend((!policy.only_observes() || self.journal.is_none()).then_some((at, schedule)));
            }
            let decided = mine.iter().filter(|watched| !failed.contains(&watched.name));
            taken.extend(decided.flat_map(|watched| properties.iter().map(|of| (watched.name.clone(), *of))));
        }
        // To restore means to look at all threads of the claimed processes.
        if taken != self.taken {
            self.release(&taken)?;
            self.taken = taken;
        }
        let mut rehearsed = Vec::new();
        for (at, schedule) in schedules {
            rehearsed.extend(self.write(at, &schedule)?);
        }
        Ok(rehearsed)
    }

    /// Restores the properties of threads about which no policy decides now.
    fn release(&mut self, taken: &BTreeSet<(String, Property)>) -> Result<()> {
        let Some((journal, _)) = self.journal.as_mut().filter(|(journal, _)| !journal.is_empty()) else {
            return Ok(());
        };
        let decided: BTreeMap<ThreadId, &str> = self
            .targets
            .iter()
            .flat_map(|watched| watched.graph.threads.iter().map(|thread| (thread.id, watched.name.as_str())))
            .collect();
        let undone = journal.undo_where(|change| match change {
            Change::Thread { thread, value } => {
                let target = decided.get(thread).map(|name| (*name).to_owned());
                target.is_none_or(|name| !taken.contains(&(name, property_of(value))))
            }
            _ => false,
        })?;
        for error in undone.failed {
            self.notice(error.to_string());
        }
        Ok(())
    }

    /// Plans what differs from a schedule, and writes what is permitted.
    fn write(&mut self, at: usize, schedule: &Schedule) -> Result<Vec<String>> {
        let now = self.clock.now();
        let names = self.names();
        let is_wanted =
            |thread: &ThreadId| schedule.threads.contains_key(thread) && !self.excluded.contains(&thread.pid);
        let wanted: BTreeMap<ThreadId, String> = names.into_iter().filter(|(thread, _)| is_wanted(thread)).collect();
        let policy = &mut self.policies[at];
        let needs = policy.translator.needs();
        let state = State::read(&self.kernel, &self.machine, &wanted, needs, &mut self.usages, now)?;
        let plan = policy.translator.plan(schedule, policy.scale(), &state);
        let rules = Rules {
            abilities: self.abilities.clone(),
            threads: wanted.keys().copied().collect(),
            other_cpusets: self.other_cpusets,
            real_time: policy.properties().contains(&Property::Class),
        };
        let pids: BTreeSet<u32> = wanted.keys().map(|thread| thread.pid).collect();
        let mut cpusets = BTreeSet::new();
        for pid in pids {
            if has_other_cpuset(&self.kernel, pid)? {
                cpusets.insert(pid);
            }
        }
        let sifted = rules.sift(plan, &state, &cpusets);
        self.tell_refused(&sifted.refused);
        self.apply(at, &sifted.permitted)
    }

    fn apply(&mut self, at: usize, writes: &[Write]) -> Result<Vec<String>> {
        let Some((journal, _)) = &mut self.journal else {
            // Only what is new since the last time is said again.
            let mut lines = Vec::new();
            for write in writes {
                let (subject, line) = (format!("{:?}", write.change.subject()), write.to_string());
                if self.rehearsed.insert(subject, line.clone()).is_none_or(|before| before != line) {
                    lines.push(line);
                }
            }
            return Ok(lines);
        };
        let outcomes = journal.apply(writes)?;
        let mut failed = Vec::new();
        for (write, outcome) in writes.iter().zip(outcomes) {
            match outcome {
                Outcome::Done => self.policies[at].writes += 1,
                Outcome::Gone | Outcome::Skipped => {}
                Outcome::Differs(present) => failed.push(format!("{write}: the kernel has {present}")),
                Outcome::Failed(error) => failed.push(format!("{write}: {error}")),
            }
        }
        self.lock().failed_writes += failed.len() as u64;
        failed.into_iter().for_each(|failure| self.notice(failure));
        Ok(Vec::new())
    }

    /// Takes the processes of all targets for this scheduler. Errors: another one has one of them, or this
    /// user may not change it.
    fn claim(&mut self) -> Result<()> {
        let Some((journal, _)) = &mut self.journal else { return Ok(()) };
        for pid in self.targets.iter().flat_map(Watched::processes) {
            if let Some(process) = self.kernel.process(pid)?
                && !journal.claims().iter().any(|claim| (claim.pid, claim.start) == (process.pid, process.start))
            {
                check_process(&process, true)?;
                journal.claim(&process)?;
            }
        }
        Ok(())
    }

    /// Starts another guardian if the last one is gone.
    fn keep_guarded(&mut self) -> Result<()> {
        if let Some((journal, guardian)) = &mut self.journal
            && !guardian.is_watching()
        {
            *guardian = guardian::start((self.guardian)(journal.path()))?;
        }
        Ok(())
    }

    /// The same while it runs: a process that it may not have is left out, with a notice.
    fn claim_new(&mut self) {
        let Err(error) = self.claim() else { return };
        let claimed: BTreeSet<u32> =
            self.journal.iter().flat_map(|(journal, _)| journal.claims()).map(|claim| claim.pid).collect();
        let pids = self.targets.iter().flat_map(Watched::processes);
        self.excluded = pids.filter(|pid| !claimed.contains(pid)).collect();
        self.notice(format!("left out: {error}"));
    }

    /// Names of all threads that drivers know.
    fn names(&self) -> BTreeMap<ThreadId, String> {
        let threads = self.targets.iter().flat_map(|watched| &watched.graph.threads);
        threads.map(|thread| (thread.id, thread.name.clone())).collect()
    }

    /// Finds whether threads wait for cores. Where the kernel does not say, they may.
    fn look_for_pressure(&mut self, now: Nanos) {
        let was_pressed = self.is_pressed;
        self.is_pressed = self.pressure(now).is_none_or(|pressure| pressure >= PRESSURE_MIN);
        if was_pressed && !self.is_pressed {
            // A report of the time before says nothing about the time from now on.
            self.has_pressure_returned();
        }
    }

    /// Whether the kernel has reported, since the last call, that threads wait for cores.
    fn has_pressure_returned(&self) -> bool {
        self.trigger.as_ref().is_some_and(|trigger| trigger.wait(Duration::ZERO).unwrap_or(false))
    }

    /// Share of the time since the last call for which some thread of the machine waited for a core.
    fn pressure(&mut self, now: Nanos) -> Option<f64> {
        let total_us = self.kernel.cpu_pressure_us().ok().flatten()?;
        let share = |(at, before): (Nanos, u64)| {
            let elapsed_us = now.since(at) as f64 / 1e3;
            (elapsed_us > 0.0).then(|| (total_us.saturating_sub(before) as f64 / elapsed_us).min(1.0))
        };
        let share = self.pressure.and_then(share);
        self.pressure = Some((now, total_us));
        self.lock().pressure = share;
        share
    }

    fn carry_out_orders(&mut self) {
        while let Ok(Asked { order, answer }) = self.orders.try_recv() {
            let done = match order {
                Order::Switch { policy, priority } => self.switch(&policy, &priority),
                Order::Pause(paused) => self.pause(paused),
            };
            self.publish();
            // A client that has not waited has gone.
            let _ = answer.send(done);
        }
    }

    fn switch(&mut self, name: &str, priority: &str) -> Result<()> {
        let names = || self.policies.iter().map(|policy| policy.config.name.as_str());
        let Some(at) = names().position(|known| known == name) else {
            let remedy = match anabranch_model::nearest(name, names()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("the policies are: {}", names().collect::<Vec<_>>().join(", ")),
            };
            return Err(Error::user(format!("there is no policy '{name}'")).remedy(remedy));
        };
        let Osched { policies, formulas, targets, .. } = self;
        policies[at].switch(priority, *formulas, targets)?;
        policies[at].due_at = Nanos(0);
        Ok(())
    }

    fn pause(&mut self, paused: bool) -> Result<()> {
        self.lock().paused = paused;
        let undone = self.journal.as_mut().filter(|_| paused).map(|(journal, _)| journal.undo()).transpose()?;
        for policy in &mut self.policies {
            policy.due_at = Nanos(0);
            policy.active &= !paused;
        }
        undone.and_then(|undone| undone.failed.into_iter().next()).map_or(Ok(()), Err)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews what views show.
    fn publish(&self) {
        let mut tasks = Vec::new();
        for watched in &self.targets {
            let mut of_target = watched.tasks();
            let priorities = self.policies.iter().rev().find_map(|policy| policy.priorities.get(&watched.name));
            for (index, task) in of_target.iter_mut().enumerate() {
                task.priority = priorities.and_then(|of| of.get(index)).copied().filter(|value| value.is_finite());
            }
            for thread in &watched.graph.threads {
                let ThreadKind::Task(task) = thread.kind else { continue };
                let scheduling = self.kernel.scheduling(thread.id).ok().flatten();
                of_target[task.0].written = scheduling.map(|scheduling| format!("nice {}", scheduling.nice));
            }
            tasks.extend(of_target);
        }
        let policies: Vec<_> = self.policies.iter().map(Applied::status).collect();
        let mut status = self.lock();
        status.writes = policies.iter().map(|policy| policy.writes).sum();
        status.cpu_ms = own_processor_ms(&self.kernel);
        status.targets = self.targets.iter().map(Watched::status).collect();
        (status.policies, status.tasks) = (policies, tasks);
    }
}
