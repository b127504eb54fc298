//! A small instance in all interleavings: two requests, two workers, a coordinator that switches, fails,
//! restarts and stops at any time, and a user who aborts.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;

/// A larger instance than the tests have time for.
const STATES_MAX: usize = 100_000;
const EPOCHS_MAX: u64 = 4;

/// A state of everything.
#[derive(Clone, Debug)]
struct World {
    changes: Changes,
    job: Job,
    stopped: bool,
    /// Its tasks were cancelled, and have not begun again.
    cancelled: bool,
    version: PlanVersion,
    /// The coordinator was given tasks of this version, and theirs have not begun.
    pending: Option<PlanVersion>,
    /// The present version has begun by a change, and no checkpoint by it is committed.
    is_unsettled: bool,
    /// The version that begins next, because the one before has failed.
    undo: Option<PlanVersion>,
    epoch: u64,
    /// A checkpoint was requested, and none was committed since.
    requested: bool,
    /// The request that the driver compares with the present plan.
    checking: Option<Ticket>,
    /// The driver determines what a round loads.
    measuring: bool,
    /// Workers that prepare.
    told: BTreeSet<Process>,
    /// Those that load.
    loading: BTreeSet<Process>,
    /// The versions of the requests that are carried out.
    versions: BTreeMap<Ticket, PlanVersion>,
    answers: BTreeMap<Ticket, bool>,
    requests: u64,
    faults: u32,
    aborts: u32,
}

impl World {
    fn new() -> World {
        World {
            changes: Changes::new(PlanVersion(1)),
            job: Job::Runs,
            stopped: false,
            cancelled: false,
            version: PlanVersion(1),
            pending: None,
            is_unsettled: false,
            undo: None,
            epoch: 4,
            requested: false,
            checking: None,
            measuring: false,
            told: BTreeSet::new(),
            loading: BTreeSet::new(),
            versions: BTreeMap::new(),
            answers: BTreeMap::new(),
            requests: 0,
            faults: 0,
            aborts: 0,
        }
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{self:?}").hash(&mut hasher);
        hasher.finish()
    }

    fn gives(&mut self, input: Input) {
        self.changes.handle(self.job, input);
        while let Some(command) = self.changes.poll() {
            self.carry_out(command);
        }
        let prepares = matches!(self.changes.changing(), Some(Changing::Preparing(_)));
        assert!(prepares || self.told.is_empty() || self.is_switching(), "workers prepare for nothing: {self:?}");
        assert_eq!(self.changes.has_begun(self.version), self.is_unsettled);
    }

    fn is_switching(&self) -> bool {
        self.changes.changing() == Some(Changing::Switching)
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Check(ticket) => {
                assert!(self.checking.replace(ticket).is_none() && !self.answers.contains_key(&ticket));
            }
            Command::Prepare(_, told) => {
                assert!(self.told.is_empty(), "two changes are prepared");
                self.told = told;
            }
            Command::AddOnly => {}
            Command::Checkpoint => self.requested = true,
            Command::Load(_, processes) => {
                assert!(self.told.is_superset(&processes) && self.loading.is_empty() && !self.measuring);
                (self.loading, self.measuring) = (processes, true);
            }
            Command::Switch(ticket, _) => {
                assert!(self.loading.is_empty(), "the tasks switch while state is loaded");
                assert!(self.pending.is_none() && !self.is_unsettled && self.undo.is_none(), "two changes at once");
                self.pending = Some(self.versions[&ticket]);
            }
            Command::GiveUp(told) => {
                assert_eq!(told, self.told);
                self.told.clear();
                self.loading.clear();
            }
            Command::Answer(ticket, answer) => {
                let has_changed = matches!(answer, Answer::Changed(_));
                let begun = self.versions.get(&ticket) == Some(&self.version);
                assert!(!has_changed || begun, "{ticket:?} is answered too early");
                assert!(self.answers.insert(ticket, has_changed).is_none(), "{ticket:?} is answered twice");
            }
            Command::Aborted(answer) => {
                assert!(answer != Err(NotAborted::Switches) || self.is_switching());
            }
        }
    }

    fn requests(&mut self, dry_run: bool) {
        self.requests += 1;
        self.gives(Input::Requested(Request { ticket: Ticket(self.requests), dry_run }));
    }

    /// The driver has compared a request with the present plan. `None`: it has answered it.
    fn checks(&mut self, moved_bytes: Option<u64>) {
        let Some(ticket) = self.checking.take() else { return };
        let checked = match moved_bytes {
            None => {
                self.answers.insert(ticket, false);
                Checked::Answered
            }
            Some(bytes) => {
                let version = self.changes.next_version();
                assert!(self.versions.values().all(|other| *other < version) && version > self.version);
                self.versions.insert(ticket, version);
                let loading = [process(1), process(2)].into();
                Checked::Next(Next { granted: Epoch(self.epoch), loading, ..next(bytes) })
            }
        };
        self.gives(Input::Checked(checked));
    }

    fn commits(&mut self) {
        self.epoch += 1;
        self.requested = false;
        if std::mem::take(&mut self.is_unsettled) {
            self.told.clear();
            self.changes.handle(self.job, Input::Settled { version: self.version, changed: true });
        }
        self.gives(Input::Committed(Epoch(self.epoch)));
    }

    /// A worker says that it has loaded, or that it cannot.
    fn loads(&mut self, process: Process, version: PlanVersion, succeeded: bool) {
        self.loading.remove(&process);
        self.gives(Input::Loaded { process, version, succeeded });
    }

    fn not_changed(&mut self, version: PlanVersion) {
        self.told.clear();
        self.gives(Input::Settled { version, changed: false });
    }

    /// The tasks fail, and the coordinator cancels them.
    fn fails(&mut self) {
        (self.job, self.cancelled) = (Job::Waits, true);
        match self.pending.take() {
            Some(version) => self.not_changed(version),
            None if self.is_unsettled => {
                self.undo = Some(PlanVersion(self.version.0 + 1));
                self.is_unsettled = false;
                // The version has begun until the coordinator says that it does not stay.
                self.told.clear();
                self.changes.handle(self.job, Input::Settled { version: self.version, changed: false });
                self.gives(Input::Tick);
            }
            None => self.gives(Input::Tick),
        }
    }

    /// The tasks that were cancelled begin again, or those of the next version begin.
    fn begins(&mut self) {
        let next = self.pending.take();
        self.is_unsettled |= next.is_some();
        self.version = next.or(self.undo.take()).unwrap_or(self.version);
        self.job = if self.stopped { Job::Stops } else { Job::Waits };
        (self.loading, self.requested, self.cancelled) = (BTreeSet::new(), false, false);
        self.gives(Input::Begins(self.version));
    }

    fn runs(&mut self) {
        self.job = Job::Runs;
        self.gives(Input::Tick);
    }

    /// The job stops; a change whose tasks do not end yet is given up.
    fn stops(&mut self, gives_up: bool) {
        (self.job, self.stopped) = (Job::Stops, true);
        match self.pending.take_if(|_| gives_up) {
            Some(version) => self.not_changed(version),
            None => self.gives(Input::Tick),
        }
    }

    fn faulty(&mut self) -> &mut World {
        self.faults += 1;
        self
    }

    /// Everything that may happen next.
    fn next(&self) -> Vec<World> {
        let mut all = Vec::new();
        let mut visit = |change: &dyn Fn(&mut World)| {
            let mut next = self.clone();
            change(&mut next);
            all.push(next);
        };
        if self.checking.is_some() {
            visit(&|next| next.checks(None));
            if !self.stopped {
                [0, 1000].iter().for_each(|bytes| visit(&|next| next.checks(Some(*bytes))));
            }
            return all;
        }
        if self.measuring {
            for bytes in [LITTLE, 400, 1000] {
                visit(&|next| {
                    next.measuring = false;
                    next.gives(Input::Loads(bytes));
                });
            }
            return all;
        }
        if self.requests < 2 {
            [false, true].iter().for_each(|dry_run| visit(&|next| next.requests(*dry_run)));
        }
        for process in self.loading.clone() {
            let version = *self.versions.values().max().expect("a change is prepared");
            visit(&|next| next.loads(process, version, true));
        }
        if self.faults < 2 {
            for process in self.told.clone() {
                visit(&|next| next.faulty().gives(Input::Lost(process)));
            }
            for process in self.loading.clone() {
                for version in self.versions.values().copied() {
                    visit(&|next| next.faulty().gives(Input::Loaded { process, version, succeeded: false }));
                }
            }
            if self.job == Job::Runs || self.is_unsettled {
                visit(&|next| next.faulty().fails());
            }
        }
        if self.aborts < 1 {
            visit(&|next| {
                next.aborts += 1;
                next.gives(Input::Abort);
            });
        }
        if self.job == Job::Waits {
            visit(&World::begins);
            if !self.cancelled {
                visit(&World::runs);
            }
        } else if self.pending.is_some() {
            visit(&World::begins);
        }
        if self.job == Job::Runs && !self.stopped {
            [false, true].iter().for_each(|gives_up| visit(&|next| next.stops(*gives_up)));
        }
        if self.job != Job::Waits && self.epoch < 4 + EPOCHS_MAX {
            visit(&World::commits);
        }
        all
    }

    /// From here on nothing fails: in the end every request is answered, and no worker prepares.
    fn settles(mut self) {
        for _ in 0..60 {
            if self.checking.is_some() {
                self.checks((!self.stopped).then_some(1000));
            } else if std::mem::take(&mut self.measuring) {
                self.gives(Input::Loads(LITTLE));
            } else if let Some(process) = self.loading.first().copied() {
                let version = *self.versions.values().max().expect("a change is prepared");
                self.loads(process, version, true);
            } else if self.pending.is_some() || self.undo.is_some() {
                self.begins();
            } else if self.job == Job::Waits {
                // Tasks that were cancelled begin again before they run.
                self.begins();
                self.job = if self.stopped { Job::Stops } else { Job::Runs };
                self.gives(Input::Tick);
            } else if self.requested || self.is_unsettled {
                self.commits();
            } else {
                break;
            }
        }
        assert!(self.answers.len() as u64 == self.requests, "requests without an answer: {self:?}");
        assert!(self.told.is_empty() && self.changes.changing().is_none(), "it has not ended: {self:?}");
    }
}

#[test]
fn in_every_interleaving_each_request_is_answered_once_and_nothing_stays_prepared() {
    let (mut seen, mut taken) = (BTreeSet::new(), BTreeSet::new());
    let mut queue = VecDeque::from([World::new()]);
    let (mut changed, mut undone) = (0_u64, 0_u64);
    while let Some(world) = queue.pop_front() {
        for mut next in world.next() {
            taken.extend(next.changes.taken());
            next.changes.taken = Taken::new(TABLE);
            if seen.insert(next.key()) {
                assert!(seen.len() < STATES_MAX, "a larger instance than the tests have time for");
                changed += u64::from(next.answers.values().any(|changed| *changed));
                undone += u64::from(next.undo.is_some());
                next.clone().settles();
                queue.push_back(next);
            }
        }
    }
    println!("{} states, {changed} with a change, {undone} with one undone", seen.len());
    assert!(changed > 100 && undone > 100, "the exploration must not be trivial");
    let listed: BTreeSet<_> = TABLE.iter().map(|row| ("change", row.state, row.next)).collect();
    let unlisted: Vec<_> = taken.difference(&listed).collect();
    assert!(unlisted.is_empty(), "not in the table: {unlisted:?}");
    let never: Vec<_> = listed.difference(&taken).collect();
    assert!(never.is_empty(), "never taken: {never:?}");
}
