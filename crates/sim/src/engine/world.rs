//! One run: processes that take the job over from each other, and a scheduler that draws what happens next.

use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{Plan, StateBackendKind};
use anabranch_model::{Clock, Error, ErrorKind, ManualClock, Result, Rng};
use anabranch_runtime::Checkpointing;
use anabranch_runtime::stepped::SteppedJob;
use anabranch_state::Store;

use super::outside::{ProcessId, Rates, Shared};
use super::query::{Contents, PARALLELISM_MAX, Planned, Queries, contents};
use super::savepoint::Asker;
use super::store::{FaultyStore, arrive};
use super::tables::{Readers, Tables};
use super::truth::{Checked, Truth};
use super::{Mutation, Options, Run, Seen, Violation};

/// Turns in which things go wrong.
const FAULT_TURNS: u64 = 4_000;
/// Turns from then on in which the job has to end.
const PROGRESS_WITHIN: u64 = 60_000;
/// Turns after the end, for those who slept to show what they can do.
const AFTERMATH: u64 = 300;
/// Processes at a time.
const PROCESSES: usize = 3;

/// What a seed stands for.
struct Scenario<'a> {
    query: &'a Planned,
    contents: Arc<Contents>,
    rates: Rates,
    /// Of 10,000 turns, so many begin with the crash of a process.
    crashes: u64,
    /// Of 10,000 turns, so many begin with another process that takes the job over.
    rivals: u64,
    /// The turn in which the job is asked to stop.
    stop_at: Option<u64>,
    interval: Duration,
    timeout: Duration,
    restart_attempts: u32,
    group_epochs: Option<u64>,
    batch_rows: usize,
    channel_bytes: usize,
    epoch_interval: Duration,
    buffer_timeout: Duration,
    /// Bytes of state that an operator may hold in memory, where the rest goes to the disk.
    state_bytes: usize,
}

impl<'a> Scenario<'a> {
    fn draw(queries: &'a Queries, rng: &mut Rng) -> Result<Self> {
        let faulty = rng.below(8) > 0;
        let upto = |rng: &mut Rng, most: u64| if faulty { rng.below(most + 1) } else { 0 };
        let us = |rng: &mut Rng, most: u64| Duration::from_micros(rng.below(most + 1));
        Ok(Scenario {
            query: queries.draw(rng),
            contents: Arc::new(contents(rng)?),
            rates: Rates { fails: upto(rng, 8), crashes: upto(rng, 8) },
            crashes: upto(rng, 20),
            rivals: upto(rng, 15),
            stop_at: (rng.below(4) == 0).then(|| rng.below(FAULT_TURNS)),
            interval: us(rng, 2_000),
            timeout: Duration::from_millis(200 + rng.below(2_000)),
            restart_attempts: rng.below(4) as u32,
            group_epochs: (rng.below(4) > 0).then(|| 1 + rng.below(3)),
            batch_rows: 1 + rng.below(24) as usize,
            channel_bytes: 1 + rng.below(3_000) as usize,
            epoch_interval: Duration::from_micros(200 + rng.below(2_000)),
            buffer_timeout: us(rng, 3_000),
            state_bytes: 1 << (12 + rng.below(8)),
        })
    }

    fn plan(&self, parallelism: u32, state_backend: StateBackendKind) -> Plan {
        let mut plan = self.query.at(parallelism).clone();
        plan.options.group.epochs = self.group_epochs;
        plan.options.batch_rows = self.batch_rows;
        plan.options.channel_bytes = self.channel_bytes;
        plan.options.epoch_interval = self.epoch_interval;
        plan.options.buffer_timeout = self.buffer_timeout;
        if state_backend == StateBackendKind::Disk {
            plan.options.state_backend = state_backend;
            plan.options.state_bytes = self.state_bytes;
        }
        plan
    }
}

/// A process that runs the job, or still believes so.
struct Process {
    id: ProcessId,
    job: SteppedJob,
    stopping: bool,
}

/// All there is in a run.
pub(crate) struct World<'a> {
    seed: u64,
    options: Options,
    scenario: Scenario<'a>,
    rng: Rng,
    shared: Shared,
    clock: Arc<ManualClock>,
    processes: Vec<Process>,
    started: ProcessId,
    parallelism: u32,
    truth: Truth,
    turn: u64,
    stop_asked: bool,
    finished_at: Option<u64>,
    asker: Asker,
    seen: Seen,
    violation: Option<Violation>,
    trace: Vec<String>,
}

impl<'a> World<'a> {
    pub(crate) fn new(queries: &'a Queries, seed: u64, options: Options) -> Result<Self> {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::draw(queries, &mut rng)?;
        let shared = Shared::new(seed);
        shared.lock().rates = scenario.rates;
        let truth = Truth::new(Arc::clone(&scenario.contents), scenario.query.at(1).clone());
        Ok(World {
            seed,
            options,
            scenario,
            rng,
            shared,
            clock: Arc::default(),
            processes: Vec::new(),
            started: 0,
            parallelism: 0,
            truth,
            turn: 0,
            stop_asked: false,
            finished_at: None,
            asker: Asker::default(),
            seen: Seen::default(),
            violation: None,
            trace: Vec::new(),
        })
    }

    pub(crate) fn run(mut self) -> Run {
        let Scenario { query, interval, epoch_interval, batch_rows, .. } = &self.scenario;
        let text =
            format!("{}, epochs of {epoch_interval:?}, checkpoints every {interval:?}, {batch_rows} rows", query.name);
        self.note(|| text);
        while self.violation.is_none() && self.finished_at.is_none_or(|end| self.turn < end + AFTERMATH) {
            self.turn += 1;
            self.take_turn();
            self.observe();
            self.bury();
            if self.finished_at.is_none() && self.turn > FAULT_TURNS + PROGRESS_WITHIN {
                self.violated("progress", "the job has not ended though nothing goes wrong any more".into());
            }
        }
        let outside = self.shared.lock();
        self.seen.turns = self.turn;
        self.seen.checkpoints = self.truth.checkpoints;
        self.seen.incarnations = self.truth.incarnations();
        self.seen.failed_calls = outside.failed_calls;
        self.seen.crashes += outside.crashes_within;
        self.seen.torn = outside.torn;
        self.seen.repeated_commits = outside.repeated_commits;
        self.seen.runs = outside.runs;
        drop(outside);
        Run { seed: self.seed, seen: self.seen, violation: self.violation, trace: self.trace }
    }

    fn faulty(&self) -> bool {
        self.turn < FAULT_TURNS && self.finished_at.is_none()
    }

    fn take_turn(&mut self) {
        // Now and then everybody rests for longer: otherwise a pause before a restart would never end.
        let most_us = if self.rng.below(100) == 0 { 100_000 } else { 200 };
        self.clock.advance(Duration::from_micros(self.rng.below(most_us)));
        if !self.faulty() {
            self.shared.lock().rates = Rates::default();
        }
        if self.rng.below(100) == 0 {
            self.arrive();
        }
        if self.scenario.stop_at == Some(self.turn) && self.finished_at.is_none() {
            self.stop_asked = true;
        }
        if self.rng.below(100) == 0 {
            let checked = self.asker.act(&self.shared, &self.truth, self.turn, &mut self.seen);
            self.check(checked);
        }
        let leads = self.processes.iter().any(|process| Some(process.id) == self.truth.owner());
        let rival = self.faulty() && self.rng.below(10_000) < self.scenario.rivals;
        let again = self.finished_at.is_some() && self.rng.below(AFTERMATH) == 0;
        if (!leads && self.finished_at.is_none() && self.rng.below(8) == 0) || rival || again {
            return self.start();
        }
        if self.processes.is_empty() {
            return;
        }
        let which = match self.rng.below(4) {
            0 => self.rng.below(self.processes.len() as u64) as usize,
            _ => self.processes.len() - 1,
        };
        if self.faulty() && self.rng.below(10_000) < self.scenario.crashes {
            let id = self.processes[which].id;
            self.seen.crashes += 1;
            return self.shared.lock().kill(id);
        }
        self.step(which);
    }

    /// A process does something.
    fn step(&mut self, which: usize) {
        let process = &mut self.processes[which];
        if self.stop_asked && !process.stopping {
            process.stopping = true;
            process.job.handle().stop();
        }
        match self.rng.below(16) {
            0..2 => {
                for _ in 0..1 + self.rng.below(8) {
                    process.job.coordinate();
                }
            }
            2..5 => {
                for _ in 0..1 + self.rng.below(4) {
                    process.job.record();
                }
            }
            _ => {
                let task = self.rng.below(process.job.tasks() as u64) as usize;
                let channels = process.job.channels(task) as u64;
                let channel = self.rng.below(channels.max(1)) as usize;
                // Sources are slow, so that there is something to do in many epochs.
                let steps = if channels == 0 { 1 } else { 1 + self.rng.below(8) };
                for _ in 0..steps {
                    self.shared.lock().poll_rows = 1 + self.rng.below(8) as usize;
                    if !process.job.step(task, channel) {
                        break;
                    }
                }
            }
        }
    }

    /// A process takes the job over, from whoever has it.
    fn start(&mut self) {
        self.started += 1;
        let id = self.started;
        let parallelism = 1 + self.rng.below(u64::from(PARALLELISM_MAX)) as u32;
        let state = if self.rng.below(3) == 0 { StateBackendKind::Disk } else { StateBackendKind::Memory };
        let plan = self.scenario.plan(parallelism, state);
        self.note(|| format!("process {id} starts with parallelism {parallelism}, state in {state:?}"));
        self.truth.starts(id, &plan);
        let started = self.take_over(id, &plan);
        self.observe();
        match started {
            Ok(Some(job)) if !self.shared.lock().is_dead(id) => {
                self.seen.rescaled += u64::from(![0, parallelism].contains(&self.parallelism));
                self.parallelism = parallelism;
                let checked = self.truth.restored(&self.shared);
                self.check(checked);
                self.processes.push(Process { id, job, stopping: false });
                if self.processes.len() > PROCESSES {
                    let oldest = self.processes[0].id;
                    self.shared.lock().kill(oldest);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                self.note(|| format!("process {id} finds that the job has ended"));
                self.seen.had_ended += 1;
                self.finish();
            }
            Err(error) => self.failed(id, &error),
        }
    }

    fn take_over(&mut self, id: ProcessId, plan: &Plan) -> Result<Option<SteppedJob>> {
        let mutation = self.options.mutation;
        let overwrites = mutation == Some(Mutation::LateWriteAccepted);
        let store = FaultyStore { shared: self.shared.clone(), process: id, overwrites };
        let checkpointing = Checkpointing {
            store: Store::new(Arc::new(store), "simulated"),
            interval: self.scenario.interval,
            timeout: self.scenario.timeout,
            restart_attempts: self.scenario.restart_attempts,
            new_job: format!("job-{id}"),
        };
        let readers = Readers {
            upto: None,
            late: mutation == Some(Mutation::PositionOneBatchLate),
            forgetful: mutation == Some(Mutation::PreparedForgotten),
        };
        let contents = Arc::clone(&self.scenario.contents);
        let tables = Tables { shared: self.shared.clone(), process: id, contents, readers };
        let fault = match mutation {
            Some(Mutation::Runtime(fault)) => Some(fault),
            _ => None,
        };
        let clock: Arc<dyn Clock> = self.clock.clone();
        SteppedJob::start(plan, &tables.connectors(), &clock, Some(&checkpointing), fault)
    }

    /// A write that was under way arrives.
    fn arrive(&mut self) {
        let late = {
            let outside = &mut *self.shared.lock();
            let which = outside.below(outside.late.len());
            (which < outside.late.len()).then(|| outside.late.swap_remove(which))
        };
        if let Some(late) = late {
            self.seen.late_writes += 1;
            self.note(|| format!("a late write arrives: {}", late.path));
            arrive(&self.shared, late);
        }
    }

    /// Tells the truth what has happened.
    fn observe(&mut self) {
        let happened = std::mem::take(&mut self.shared.lock().happened);
        for event in &happened {
            self.note(|| event.to_string());
            let checked = self.truth.observe(event, &self.shared);
            self.check(checked);
        }
    }

    /// Takes away processes that have crashed, failed or come to their end.
    fn bury(&mut self) {
        let mut index = 0;
        while index < self.processes.len() {
            let process = &mut self.processes[index];
            let (id, dead) = (process.id, self.shared.lock().is_dead(process.id));
            let outcome = if dead { None } else { process.job.outcome() };
            if !dead && outcome.is_none() {
                index += 1;
                continue;
            }
            let late: u64 = process.job.metrics().iter().map(|task| task.late_rows).sum();
            if late > 0 {
                self.violated("late", format!("{late} rows were late"));
            }
            match outcome {
                None => self.note(|| format!("process {id} crashes")),
                Some(Ok(())) => self.ended(index),
                Some(Err(error)) => {
                    self.observe();
                    self.failed(id, &error);
                }
            }
            self.seen.restarts += self.processes[index].job.handle().restarts().len() as u64;
            self.processes.remove(index);
        }
    }

    fn ended(&mut self, index: usize) {
        self.observe();
        let Process { id, stopping, .. } = self.processes[index];
        self.note(|| format!("process {id} has come to the end"));
        if stopping {
            self.stop_asked = false;
            self.seen.stops += 1;
        } else {
            self.finish();
        }
    }

    fn finish(&mut self) {
        let checked = self.truth.finished(&self.shared);
        self.check(checked);
        self.finished_at.get_or_insert(self.turn);
    }

    fn failed(&mut self, id: ProcessId, error: &Error) {
        self.note(|| format!("process {id} fails: {error}"));
        self.seen.failures += 1;
        match error.kind() {
            ErrorKind::Outside => {}
            // Who has the job now keeps the files of its own checkpoints only.
            ErrorKind::Damaged if self.truth.owner() != Some(id) => {}
            ErrorKind::User if error.message().contains("another process has taken the job over") => {
                if self.truth.owner() == Some(id) {
                    self.violated("fencing", format!("process {id} has the job, and believes that it has not"));
                }
                self.seen.fenced += 1;
            }
            ErrorKind::User | ErrorKind::Damaged | ErrorKind::Internal => self.violated("error", error.to_string()),
        }
    }

    fn check(&mut self, checked: Checked) {
        if let Err((invariant, message)) = checked {
            self.violated(invariant, message);
        }
    }

    fn violated(&mut self, invariant: &'static str, message: String) {
        let turn = self.turn;
        self.violation.get_or_insert(Violation { invariant, message, turn });
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.options.trace {
            self.trace.push(format!("{:>6}  {:>8} us  {}", self.turn, self.clock.now().0 / 1000, text()));
        }
    }
}
