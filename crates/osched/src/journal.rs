//! What osched has changed, on disk before it changes it, so that everything can be restored: by osched
//! itself at its end, by its [guardian](crate::guardian) after a SIGKILL, by `anabranch osched restore`, or
//! by the next osched.
//!
//! A journal has one line for the former value of each thing that was changed, synced before the first write
//! to it. The process that writes a journal holds a lock on it: a journal without a lock was left by an
//! osched that was killed. A process of an engine is claimed before its threads are changed, and no two
//! oscheds claim the same one.

mod contents;
mod folder;
mod locked;
mod undo;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};
use anabranch_schedule::ThreadId;

use crate::kernel::{Carried, Change, GroupPath, GroupValue, Proc, Process, Subject, ThreadValue};
use crate::translator::Write;

pub use contents::{Claim, Header, Usual};
pub use folder::StateFolder;
pub use undo::Undone;

use contents::{Contents, Line};
use locked::LockedFile;

/// Bytes of a journal that is rewritten without the lines that no longer count.
const REWRITTEN_BYTES: u64 = 1 << 20;

/// The journal of a running osched, through which it changes the machine.
pub struct Journal {
    kernel: Proc,
    folder: StateFolder,
    file: LockedFile,
    contents: Contents,
    on_step: Option<StepHook>,
}

/// What is called at each step.
pub type StepHook = Box<dyn FnMut(Step<'_>) + Send>;

/// A step of [`Journal::apply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The former values of these writes are on disk.
    Synced,
    /// A change will be carried out.
    Before(&'a Change),
    /// It was carried out, or refused.
    After(&'a Change),
}

/// What came of a write.
#[derive(Debug)]
pub enum Outcome {
    /// It holds.
    Done,
    /// Its thread has ended.
    Gone,
    /// The kernel took it and yet has this value.
    Differs(Change),
    /// The group that it needs could not be made.
    Skipped,
    /// It was refused.
    Failed(Error),
}

impl Journal {
    /// Begins a journal for this process, after restoring what killed oscheds have left in the folder.
    /// Returns what was restored too, with the journal of each.
    pub fn create(folder: &StateFolder, kernel: &Proc) -> Result<(Journal, Vec<(PathBuf, Undone)>)> {
        let pid = std::process::id();
        let own = process_start(kernel, pid)?;
        let header = Header {
            version: contents::VERSION,
            pid,
            start: own,
            boot: kernel.boot()?,
            label: format!("osched-{pid}-{own}"),
        };
        let _turn = folder.lock()?;
        let restored = folder.restore_left(kernel)?;
        let contents = Contents::new(header);
        let path = folder.path().join(format!("{}.journal", contents.header.label));
        let file = LockedFile::create(path, &contents.lines())?;
        let (folder, kernel) = (folder.clone(), kernel.clone());
        let journal = Journal { kernel, folder, file, contents, on_step: None };
        Ok((journal, restored))
    }

    /// Where the journal is: the guardian is started with it.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The beginning of the names of this osched's groups, for [`Machine::of`](crate::kernel::Machine::of).
    pub fn label(&self) -> &str {
        &self.contents.header.label
    }

    /// The claimed processes.
    pub fn claims(&self) -> &[Claim] {
        &self.contents.claims
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.contents.restores.is_empty()
    }

    /// Calls `hook` at each step of [`Journal::apply`]: for a trace, and for tests that kill the process at
    /// each step.
    pub fn on_step(&mut self, hook: StepHook) {
        self.on_step = Some(hook);
    }

    /// Claims a process, so that its threads can be changed. Claiming it again has no effect. Fails if
    /// another osched has it.
    pub fn claim(&mut self, process: &Process) -> Result<()> {
        let is_same = |claim: &Claim| claim.pid == process.pid && claim.start == process.start;
        if self.contents.claims.iter().any(is_same) {
            return Ok(());
        }
        let _turn = self.folder.lock()?;
        if let Some(other) = self.folder.claimed_by_other(process, self.file.path())? {
            return Err(Error::user(format!(
                "another osched (process {other}) already schedules process {}",
                process.pid
            ))
            .at(format!("process {} ({})", process.pid, process.name))
            .remedy(format!("end that one first (kill {other}), or leave this process out of the targets")));
        }
        let claim = Claim::of(&self.kernel, process)?;
        self.file.append(&[Line::Claim(claim.clone())])?;
        self.contents.claims.push(claim);
        Ok(())
    }

    /// Carries out the writes in their order. Former values are on disk before the first of them is carried
    /// out; if that fails, none is. A write that is refused does not stop the others.
    pub fn apply(&mut self, writes: &[Write]) -> Result<Vec<Outcome>> {
        let mut refused = BTreeMap::new();
        let mut lines = Vec::new();
        for (index, write) in writes.iter().enumerate() {
            match self.permit(&write.change).and_then(|()| self.lines_before(&write.change, &lines)) {
                Ok(new) => lines.extend(new),
                Err(error) => drop(refused.insert(index, error)),
            }
        }
        self.record(lines)?;
        let mut outcomes = Vec::with_capacity(writes.len());
        let mut missing = BTreeSet::new();
        for (index, write) in writes.iter().enumerate() {
            if let Some(error) = refused.remove(&index) {
                outcomes.push(Outcome::Failed(error));
                continue;
            }
            self.step(Step::Before(&write.change));
            let outcome = self.carry_out(&write.change, &mut missing);
            self.step(Step::After(&write.change));
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// Restores everything. What could be restored is forgotten, so that a second call tries the rest again.
    /// The claims stay.
    pub fn undo(&mut self) -> Result<Undone> {
        self.undo_where(|_| true)
    }

    /// Restores what `select` accepts: it gets each change that would restore something.
    pub fn undo_where(&mut self, select: impl Fn(&Change) -> bool) -> Result<Undone> {
        let undone = undo::undo(&self.kernel, &self.contents, &select);
        let lines: Vec<Line> = undone.forgotten.iter().cloned().map(Line::Restored).collect();
        self.record(lines)?;
        if self.file.len() > REWRITTEN_BYTES {
            self.file = self.file.rewrite(&self.contents.lines())?;
        }
        Ok(undone)
    }

    /// Restores everything and removes the journal. It stays if something could not be restored.
    pub fn close(mut self) -> Result<Undone> {
        let undone = self.undo()?;
        if undone.failed.is_empty() {
            self.file.remove()?;
        }
        Ok(undone)
    }

    fn step(&mut self, step: Step<'_>) {
        if let Some(hook) = &mut self.on_step {
            hook(step);
        }
    }

    /// Puts lines on disk, then into memory.
    fn record(&mut self, lines: Vec<Line>) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.file.append(&lines)?;
        lines.into_iter().for_each(|line| self.contents.add(line));
        self.step(Step::Synced);
        Ok(())
    }

    /// Refuses what no translator plans: a second barrier behind [`permission`](crate::permission).
    fn permit(&self, change: &Change) -> Result<()> {
        let is_claimed =
            |id: &ThreadId| self.contents.claims.iter().any(|c| c.pid == id.pid && c.start == id.process_start);
        let is_permitted = match change {
            Change::Thread { thread, .. } => is_claimed(thread),
            Change::Group { value: GroupValue::CpuControl(_), .. } => true,
            Change::Group { group, .. } | Change::Create { group } | Change::Remove { group } => {
                group.is_of(self.label())
            }
        };
        if is_permitted {
            return Ok(());
        }
        Err(Error::internal("a write to something that was not claimed").at(change.to_string()))
    }

    /// The lines that must be on disk before a change: the former value of what was not changed yet, and what
    /// new threads may inherit.
    fn lines_before(&self, change: &Change, planned: &[Line]) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        let subject = change.subject();
        let is_known = |subject: &Subject| {
            let is_planned = |line: &Line| matches!(line, Line::Restore(change) if change.subject() == *subject);
            self.contents.restores_subject(subject) || planned.iter().any(is_planned)
        };
        let lies_in_own = match change {
            Change::Group { group, value } if !matches!(value, GroupValue::CpuControl(_)) => {
                is_known(&Subject::Existence(group.clone()))
            }
            Change::Remove { .. } => true,
            _ => false,
        };
        if !lies_in_own && !is_known(&subject) {
            lines.extend(self.formers(change)?.into_iter().map(Line::Restore));
        }
        if let Change::Thread { thread, value } = change
            && !matches!(value, ThreadValue::Group(_))
        {
            let wrote = contents::Wrote { pid: thread.pid, start: thread.process_start, value: value.clone() };
            let line = Line::Wrote(wrote);
            if !self.contents.has_wrote(&line) && !planned.contains(&line) {
                lines.push(line);
            }
        }
        Ok(lines)
    }

    /// The changes that restore what a change will overwrite, in the reverse of the order in which they are
    /// carried out.
    fn formers(&self, change: &Change) -> Result<Vec<Change>> {
        if let Change::Create { group } = change {
            return Ok(vec![Change::Remove { group: group.clone() }]);
        }
        // The value of another thread that has the number now must not be taken for it.
        if let Change::Thread { thread, .. } = change
            && !self.kernel.is_alive(*thread)?
        {
            return Ok(Vec::new());
        }
        let Some(mut former) = self.kernel.present(change)? else { return Ok(Vec::new()) };
        let mut formers = Vec::new();
        if let Change::Thread { thread, value } = &mut former {
            // It may have inherited what was written to the thread that started it, or sit in a group of this
            // osched.
            self.contents.replace_inherited(*thread, value);
            if let ThreadValue::Group(group) = value {
                *group = group.home(self.label());
            }
            // A thread that returns from a real-time class has lost its slice.
            let slice = Change::Thread { thread: *thread, value: ThreadValue::SliceNs(0) };
            if matches!(value, ThreadValue::Class(_)) && !self.contents.restores_subject(&slice.subject()) {
                let slice = self.kernel.present(&slice)?;
                formers.extend(slice.filter(|slice| slice != &self.default_slice(*thread)));
            }
        }
        formers.push(former);
        Ok(formers)
    }

    fn default_slice(&self, thread: ThreadId) -> Change {
        Change::Thread { thread, value: ThreadValue::SliceNs(self.kernel.default_slice_ns().unwrap_or(0)) }
    }

    fn carry_out(&self, change: &Change, missing: &mut BTreeSet<GroupPath>) -> Outcome {
        let needed = match change {
            Change::Thread { value: ThreadValue::Group(group), .. } | Change::Group { group, .. } => Some(group),
            _ => None,
        };
        if needed.is_some_and(|group| missing.contains(group)) {
            return Outcome::Skipped;
        }
        match self.kernel.carry_out(change) {
            Ok(Carried::Done) => Outcome::Done,
            Ok(Carried::Gone) => Outcome::Gone,
            Ok(Carried::Differs(present)) => Outcome::Differs(present),
            Err(error) => {
                if let Change::Create { group } = change {
                    missing.insert(group.clone());
                }
                Outcome::Failed(error)
            }
        }
    }
}

/// Restores what the journal at `path` says, which another process has left, and removes it. `None` if it
/// does not exist any more: it was restored meanwhile. Fails if the osched that writes it still runs.
pub fn restore(path: &Path, kernel: &Proc) -> Result<Option<Undone>> {
    let Some(file) = LockedFile::open(path)? else { return Ok(None) };
    let undone = match Contents::parse(&file.text()?, path)? {
        Some(contents) if contents.header.boot == kernel.boot()? => undo::undo(kernel, &contents, &|_| true),
        // The machine was restarted meanwhile, or the first line was never complete: nothing of it is there.
        _ => Undone::default(),
    };
    if undone.failed.is_empty() {
        file.remove()?;
    }
    Ok(Some(undone))
}

fn process_start(kernel: &Proc, pid: u32) -> Result<u64> {
    let process = kernel.process(pid)?;
    process.map(|process| process.start).ok_or_else(|| {
        Error::outside("this process is not in /proc")
            .remedy("mount the /proc of the pid namespace in which osched runs")
    })
}
