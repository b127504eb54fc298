//! One run: processes that take the job over from each other, and a scheduler that draws what happens next.

mod change;
mod start;
mod step;

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Error, ErrorKind, ManualClock, Result, Rng};
use anabranch_runtime::Origin;
use anabranch_runtime::stepped::SteppedJob;

use self::change::{Asked, Record};
use self::start::Standby;
use super::cluster::Cluster;
use super::damage::damage;
use super::outside::{ProcessId, Shared};
use super::planted::Hand;
use super::query::{PARALLELISM_MAX, Queries};
use super::savepoint::{Asker, Copied};
use super::scenario::{FAULT_TURNS, Scenario};
use super::store::arrive;
use super::truth::{Counts, Truth};
use crate::{Checked, Options, Run, Violation};

/// Number of further turns in which the job must end. Set operations of nine tasks that pass on single rows
/// need up to 180,000.
const PROGRESS_WITHIN: u64 = 400_000;
/// Turns after the end, in which suspended processes continue.
const AFTERMATH: u64 = 300;
/// Largest number of turns of a job from whose savepoint another job starts.
const BEFORE_TURNS: u64 = 1_000;
/// Processes at the same time.
const PROCESSES: usize = 3;

/// A process that runs the job, or believes so.
pub(super) struct Process {
    pub(super) id: ProcessId,
    pub(super) job: SteppedJob,
    pub(super) hand: Hand,
    pub(super) stopping: bool,
    /// The turn until which it does nothing.
    stopped_until: u64,
    /// Changes that it was asked for.
    asked: Vec<Asked>,
}

/// The whole state of a run.
pub(crate) struct World<'a> {
    options: Options,
    scenario: Scenario<'a>,
    rng: Rng,
    shared: Shared,
    clock: Arc<ManualClock>,
    /// Draws steps of the wall clock.
    wall: Rng,
    /// Draws changes of the plan.
    changes: Rng,
    processes: Vec<Process>,
    /// A coordinator that may take the job over.
    standby: Option<Standby>,
    record: Record,
    /// Workers in other processes.
    cluster: Option<Cluster>,
    started: ProcessId,
    parallelism: u32,
    truth: Truth,
    turn: u64,
    stop_asked: bool,
    finished_at: Option<u64>,
    asker: Asker,
    /// What the job starts from.
    origin: Option<Origin>,
    damaged: bool,
    /// Average number of turns between two actions of the client for savepoints.
    asks_every: u64,
    run: Run,
}

impl<'a> World<'a> {
    pub(crate) fn new(queries: &'a Queries, seed: u64, options: Options) -> Result<Self> {
        let scenario = Scenario::draw(queries, seed)?;
        if !scenario.from_savepoint {
            return Ok(World::of(scenario, seed, options, None, Counts::new()));
        }
        let traced = Options { trace: options.trace, ..Options::default() };
        let before = World::of(scenario.before(), seed ^ 0xbef0, traced, None, Counts::new());
        let Some(Copied { store, results }) = before.savepoint()? else {
            return Ok(World::of(scenario, seed, options, None, Counts::new()));
        };
        let mut world = World::of(scenario, seed, options, Some(Origin::open(store)?), results);
        world.run.seen.add("starts from a savepoint", 1);
        Ok(world)
    }

    fn of(scenario: Scenario<'a>, seed: u64, options: Options, origin: Option<Origin>, base: Counts) -> Self {
        let shared = Shared::new(seed);
        shared.lock().rates = scenario.rates;
        let quiet = scenario.quiet.as_ref().map(|(quiet, _)| quiet.name.clone());
        let truth = Truth::new(Arc::clone(&scenario.contents), scenario.reference(), base, quiet);
        let cluster = scenario.several.as_ref().map(|several| Cluster::new(several, seed, options.mutation));
        World {
            options,
            scenario,
            cluster,
            rng: Rng::new(seed ^ 0x5eed),
            shared,
            clock: Arc::default(),
            wall: Rng::new(seed ^ 0xc10c),
            changes: Rng::new(seed ^ 0xc4a6),
            processes: Vec::new(),
            standby: None,
            record: Record::default(),
            started: 0,
            parallelism: 0,
            truth,
            turn: 0,
            stop_asked: false,
            finished_at: None,
            asker: Asker::default(),
            origin,
            damaged: false,
            asks_every: 100,
            run: Run { seed, ..Run::default() },
        }
    }

    /// Runs the job until the client has a savepoint of it.
    fn savepoint(mut self) -> Result<Option<Copied>> {
        self.asks_every = 10;
        let turns = self.rng.below(BEFORE_TURNS / 2);
        let text = self.scenario.describe();
        self.note(|| text);
        while self.turn < BEFORE_TURNS && (self.turn < turns || self.asker.copied.is_none()) {
            self.next_turn();
            if self.finished_at.is_some() {
                break;
            }
        }
        match self.run.violation {
            Some(Violation { invariant, message, when }) => {
                let trace = self.run.trace.join("\n");
                Err(Error::internal(format!("{trace}\nbefore the savepoint, {when}: {invariant}: {message}")))
            }
            None => Ok(self.asker.copied),
        }
    }

    pub(crate) fn run(mut self) -> Run {
        let text = self.scenario.describe();
        self.note(|| text);
        if self.origin.is_some() {
            self.note(|| "it starts from a savepoint".to_owned());
        }
        while self.run.violation.is_none() && self.finished_at.is_none_or(|end| self.turn < end + AFTERMATH) {
            self.next_turn();
            if self.finished_at.is_none() && self.turn > FAULT_TURNS + PROGRESS_WITHIN {
                self.violated("progress", "the job has not ended though nothing goes wrong any more".into());
            }
        }
        self.run.seen.add("turns", self.turn);
        self.run.seen.add("checkpoints", self.truth.checkpoints);
        self.run.seen.add("incarnations", self.truth.incarnations());
        self.run.seen.extend(&self.shared.lock().seen);
        self.run.seen.extend(&self.truth.seen);
        self.run.seen.add("jobs without checkpoints", u64::from(!self.scenario.durable));
        self.run.seen.add("jobs with workers", u64::from(self.cluster.is_some()));
        self.run
    }

    fn faulty(&self) -> bool {
        self.turn < FAULT_TURNS && self.finished_at.is_none()
    }

    fn next_turn(&mut self) {
        self.turn += 1;
        self.take_turn();
        self.observe();
        self.bury();
    }

    fn take_turn(&mut self) {
        // Sometimes all processes pause for longer: otherwise a pause before a restart would never end.
        let most_us = if self.rng.below(100) == 0 { 100_000 } else { 200 };
        self.clock.advance(Duration::from_micros(self.rng.below(most_us)));
        if self.faulty() && self.wall.below(10_000) < self.scenario.wall_steps {
            self.step_wall();
        }
        if !self.faulty() {
            self.shared.lock().calm();
        }
        let is_full = self.faulty() && self.scenario.full.contains(&self.turn);
        self.shared.lock().is_full = is_full;
        if self.rng.below(100) == 0 {
            self.arrive();
        }
        if self.scenario.stop_at == Some(self.turn) && self.finished_at.is_none() {
            self.stop_asked = true;
        }
        if self.scenario.durable && self.rng.below(self.asks_every) == 0 {
            let checked = self.asker.act(&self.shared, &self.truth, self.turn, &mut self.run.seen);
            self.check(checked);
        }
        if self.scenario.quiet.as_ref().is_some_and(|(quiet, _)| quiet.until_turn <= self.turn) {
            self.shared.lock().quiet_is_over = true;
        }
        if self.scenario.damage_at.is_some_and(|turn| turn <= self.turn) && !self.damaged && self.finished_at.is_none()
        {
            self.damage();
        }
        if self.turn < FAULT_TURNS && self.changes.below(10_000) < self.preferred(self.scenario.changes) {
            self.change();
        }
        self.stand_by();
        if self.is_due_to_start() {
            return self.start();
        }
        if let Some(Standby { id, .. }) = self.standby
            && self.rng.below(8) == 0
        {
            return self.step_hub(id);
        }
        let machines = self.cluster.as_ref().map_or(0, Cluster::machines);
        let which = self.rng.below(machines + 1 + u64::from(machines > 0));
        if which < machines {
            return self.step_machine(which as usize);
        }
        if self.processes.is_empty() {
            return;
        }
        let which = match self.rng.below(4) {
            0 => self.rng.below(self.processes.len() as u64) as usize,
            _ => self.processes.len() - 1,
        };
        if self.happens(self.scenario.crashes) {
            let id = self.processes[which].id;
            self.run.seen.add("crashes", 1);
            return self.shared.lock().kill(id);
        }
        if self.happens(self.scenario.freezes()) {
            self.processes[which].stopped_until = self.turn + self.rng.below(1_500);
            self.run.seen.add("suspended coordinators", 1);
        }
        if self.processes[which].stopped_until <= self.turn || !self.faulty() {
            self.step(which);
        }
    }

    /// The wall clock is set: by milliseconds, or by up to three hours, as on a machine that was suspended.
    fn step_wall(&mut self) {
        let most_ms = [10, 1_000, 60_000, 10_000_000][self.wall.below(4) as usize];
        let ms = 1 + self.wall.below(most_ms) as i64;
        let by_ms = if self.wall.below(2) == 0 { -ms } else { ms };
        self.clock.step_wall(by_ms);
        self.run.seen.add("steps of the wall clock", 1);
        self.note(|| format!("the wall clock steps by {by_ms} ms"));
    }

    /// All processes stop, and an object is damaged: one that only the newest checkpoint has, or an entry of
    /// the log in front of it, which nothing needs any more.
    fn damage(&mut self) {
        let is_needed = self.rng.below(4) > 0;
        let objects = match is_needed {
            true => self.truth.only_of_newest(),
            false => self.truth.entries_before_newest(&self.shared),
        };
        if objects.is_empty() {
            return;
        }
        self.damaged = true;
        self.run.seen.add("damaged objects", 1);
        for process in std::mem::take(&mut self.processes) {
            self.shared.lock().kill(process.id);
            self.end_hub(process.id);
        }
        if let Some(standby) = self.standby.take() {
            self.end_hub(standby.id);
        }
        self.cluster.iter_mut().for_each(|cluster| cluster.kill_all(&self.shared));
        let which = {
            let outside = &mut *self.shared.lock();
            outside.late.clear();
            outside.below(objects.len())
        };
        if is_needed {
            self.asker.damaged();
            self.truth.lost_newest();
        } else {
            self.run.seen.add("damaged entries before the newest", 1);
        }
        match damage(&self.shared, &objects[which]) {
            Ok(what) => self.note(|| format!("all processes stop; {what}")),
            Err(error) => self.violated("commit", format!("a damaged object: {error}")),
        }
    }

    /// A delayed write arrives.
    fn arrive(&mut self) {
        let late = {
            let outside = &mut *self.shared.lock();
            let which = outside.below(outside.late.len());
            (which < outside.late.len()).then(|| outside.late.swap_remove(which))
        };
        if let Some(late) = late {
            self.run.seen.add("late writes", 1);
            self.note(|| format!("a late write arrives: {}", late.path));
            arrive(&self.shared, late);
        }
    }

    /// Reports to the checks what has happened.
    fn observe(&mut self) {
        let happened = std::mem::take(&mut self.shared.lock().happened);
        for event in &happened {
            self.note(|| event.to_string());
            let checked = self.truth.observe(event, &self.shared);
            self.check(checked);
        }
        let checked = self.nothing_restarted();
        self.check(checked);
    }

    /// As long as nothing but coordinators fails, no task starts again because it was adopted.
    fn nothing_restarted(&mut self) -> Checked {
        let restarted = std::mem::take(&mut self.truth.restarted);
        let Some(cluster) = self.cluster.as_ref().filter(|cluster| cluster.is_calm()) else { return Ok(()) };
        let excused = cluster.ends();
        match restarted.iter().find(|incarnation| **incarnation > excused) {
            Some(incarnation) if !self.truth.owner.is_some_and(|owner| cluster.has_lost_silent(owner)) => {
                let owner = self.processes.iter().find(|process| Some(process.id) == self.truth.owner);
                let why = owner.map(|process| process.job.handle().notices().after(0));
                Err(("adoption", format!("incarnation {} was adopted, and has started again: {why:?}", incarnation.0)))
            }
            _ => Ok(()),
        }
    }

    /// Removes processes that have crashed, failed or ended.
    fn bury(&mut self) {
        let mut index = 0;
        while index < self.processes.len() {
            self.take_answers(index);
            let process = &mut self.processes[index];
            let (id, dead) = (process.id, self.shared.lock().is_dead(process.id));
            let outcome = if dead { None } else { process.job.outcome() };
            if !dead && outcome.is_none() {
                index += 1;
                continue;
            }
            let late = process.job.late_rows();
            self.run.seen.add("late rows", late);
            if late > 0 && !self.scenario.late_rows {
                self.violated("late", format!("{late} rows were late"));
            }
            match outcome {
                _ if !self.scenario.durable => self.end_without_checkpoints(index, outcome),
                None => self.note(|| format!("process {id} crashes")),
                Some(Ok(())) => self.ended(index),
                Some(Err(error)) => {
                    self.observe();
                    // Nothing ran that could stop at the end of an epoch.
                    let Process { job, stopping, .. } = &self.processes[index];
                    if *stopping && job.handle().status().waits_for.is_some() {
                        self.stop_asked = false;
                        self.run.seen.add("stops", 1);
                    }
                    self.failed(id, &error);
                }
            }
            self.run.seen.add("restarts", self.processes[index].job.handle().restarts().len() as u64);
            self.processes.remove(index);
            self.end_hub(id);
        }
    }

    fn ended(&mut self, index: usize) {
        self.observe();
        let Process { id, stopping, .. } = self.processes[index];
        self.note(|| format!("process {id} has reached the end"));
        // Tasks that it has adopted may have been stopped before.
        if stopping || self.processes[index].job.handle().status().stopping {
            self.stop_asked = false;
            self.run.seen.add("stops", 1);
        } else {
            self.finish();
        }
    }

    /// A job without checkpoints is over, however it ended.
    fn end_without_checkpoints(&mut self, index: usize, outcome: Option<Result<()>>) {
        self.observe();
        let Process { id, stopping, .. } = self.processes[index];
        self.finished_at = Some(self.turn.saturating_sub(AFTERMATH));
        match outcome {
            None => self.note(|| format!("process {id} crashes")),
            Some(Ok(())) if stopping => self.run.seen.add("stops", 1),
            Some(Ok(())) => {
                self.run.seen.add("ends without checkpoints", 1);
                let checked = self.truth.all_written(&self.shared);
                self.check(checked);
            }
            Some(Err(error)) => self.failed(id, &error),
        }
    }

    fn finish(&mut self) {
        let checked = self.truth.finished(&self.shared);
        self.check(checked);
        self.finished_at.get_or_insert(self.turn);
    }

    fn failed(&mut self, id: ProcessId, error: &Error) {
        self.note(|| format!("process {id} fails: {error}"));
        self.run.seen.add("failures", 1);
        match error.kind() {
            ErrorKind::Outside => {}
            // The owner of the job keeps only the files of its own checkpoints.
            ErrorKind::Damaged if self.damaged || self.truth.owner != Some(id) => {}
            ErrorKind::Fenced => {
                if self.truth.owner == Some(id) {
                    self.violated("fencing", format!("process {id} has the job, and believes that it has not"));
                }
                self.run.seen.add("fenced", 1);
            }
            ErrorKind::User | ErrorKind::Damaged | ErrorKind::Internal | ErrorKind::Cancelled => {
                self.violated("error", error.to_string());
            }
        }
    }

    fn check(&mut self, checked: Checked) {
        checked.unwrap_or_else(|(invariant, message)| self.violated(invariant, message));
    }

    fn violated(&mut self, invariant: &'static str, message: String) {
        let turn = self.turn;
        self.run.violation.get_or_insert_with(|| Violation { invariant, message, when: format!("in turn {turn}") });
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.options.trace {
            self.run.trace.push(format!("{:>6}  {:>8} us  {}", self.turn, self.clock.now().0 / 1000, text()));
        }
    }
}
