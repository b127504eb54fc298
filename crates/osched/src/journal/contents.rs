//! The lines of a journal: one JSON value each, the header first. The format is frozen by its version.

use std::collections::BTreeSet;
use std::path::Path;

use anabranch_model::{Error, Result};
use anabranch_schedule::ThreadId;
use serde::{Deserialize, Serialize};

use crate::kernel::{Change, Class, Proc, Process, Scheduling, Subject, ThreadValue};

/// The version of the format that this program writes, and the only one that it reads.
pub(super) const VERSION: u32 = 1;

/// A line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// Of which osched it is.
    OschedJournal(Header),
    /// A process whose threads may be changed.
    Claim(Claim),
    /// Carrying this out restores what will be changed.
    Restore(Change),
    /// That was carried out.
    Restored(Change),
    /// A value that some thread of a process got: threads that it starts inherit it.
    Wrote(Wrote),
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Of the format.
    pub version: u32,
    /// The process of the osched.
    pub pid: u32,
    /// When it started, in clock ticks after the boot.
    pub start: u64,
    /// The boot of the machine in which the start times count.
    pub boot: String,
    /// The beginning of the names of its groups.
    pub label: String,
}

/// A process whose threads an osched may change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The process.
    pub pid: u32,
    /// When it started.
    pub start: u64,
    /// The name of its program.
    pub name: String,
    /// When it was claimed, in the same unit. Threads that start later may inherit what osched has written.
    pub at: u64,
    /// What all its threads had then.
    pub usual: Usual,
}

/// What all threads of a process have in common; `None` where they differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usual {
    /// The nice value.
    pub nice: Option<i32>,
    /// The class.
    pub class: Option<Class>,
    /// The slice.
    pub slice_ns: Option<u64>,
}

/// A value that some thread of a process got.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Wrote {
    pub(super) pid: u32,
    pub(super) start: u64,
    pub(super) value: ThreadValue,
}

/// What a journal says.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    pub(super) header: Header,
    pub(super) claims: Vec<Claim>,
    /// In the order in which the changes were made.
    pub(super) restores: Vec<Change>,
    /// What they restore.
    restorable: BTreeSet<Subject>,
    wrote: BTreeSet<Wrote>,
}

impl Claim {
    /// Reads what the threads of a process have in common.
    pub(super) fn of(kernel: &Proc, process: &Process) -> Result<Claim> {
        // Before the threads are listed: what starts meanwhile counts as later.
        let at = kernel.ticks()?;
        let mut all: Vec<Scheduling> = Vec::new();
        for thread in kernel.threads(process.pid)? {
            all.extend(kernel.scheduling(thread.id)?);
        }
        let usual = Usual {
            nice: common(all.iter().map(|one| one.nice)),
            class: common(all.iter().map(|one| one.class)),
            slice_ns: common(all.iter().map(|one| one.slice_ns)).flatten(),
        };
        Ok(Claim { pid: process.pid, start: process.start, name: process.name.clone(), at, usual })
    }

    /// The value that a thread would have if it had inherited nothing of what osched wrote. `None` if that is
    /// not known.
    fn usual_value(&self, like: &ThreadValue) -> Option<ThreadValue> {
        match like {
            ThreadValue::Nice(_) => self.usual.nice.map(ThreadValue::Nice),
            ThreadValue::Class(_) => self.usual.class.map(ThreadValue::Class),
            ThreadValue::SliceNs(_) => self.usual.slice_ns.map(ThreadValue::SliceNs),
            ThreadValue::Group(_) => None,
        }
    }
}

impl Contents {
    pub(super) fn new(header: Header) -> Contents {
        let (restorable, wrote) = (BTreeSet::new(), BTreeSet::new());
        Contents { header, claims: Vec::new(), restores: Vec::new(), restorable, wrote }
    }

    /// `None` if not even the header is complete. A last line that is not complete is left out: what it is
    /// about was not written yet.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Option<Contents>> {
        let mut contents: Option<Contents> = None;
        let mut lines = text.split_inclusive('\n').enumerate().peekable();
        while let Some((index, text)) = lines.next() {
            let line = match serde_json::from_str::<Line>(text) {
                Ok(line) if text.ends_with('\n') => line,
                _ if lines.peek().is_none() => break,
                Ok(_) => break,
                Err(error) => return Err(damaged(&format!("not a line of a journal: {error}"), path, index)),
            };
            match (&mut contents, line) {
                (None, Line::OschedJournal(header)) if header.version == VERSION => {
                    contents = Some(Contents::new(header));
                }
                (None, Line::OschedJournal(header)) => {
                    return Err(Error::damaged(format!("a journal of version {}", header.version))
                        .at(path.display().to_string())
                        .remedy("restore it with the program that wrote it"));
                }
                (None, _) => return Err(damaged("the first line is not that of a journal", path, index)),
                (Some(contents), line) => contents.add(line),
            }
        }
        Ok(contents)
    }

    pub(super) fn add(&mut self, line: Line) {
        match line {
            Line::OschedJournal(_) => {}
            Line::Claim(claim) => self.claims.push(claim),
            // The first one counts: it has the value from before all changes.
            Line::Restore(change) => {
                if self.restorable.insert(change.subject()) {
                    self.restores.push(change);
                }
            }
            Line::Restored(restored) => {
                let subject = restored.subject();
                if self.restorable.remove(&subject) {
                    self.restores.retain(|change| change.subject() != subject);
                }
            }
            Line::Wrote(wrote) => drop(self.wrote.insert(wrote)),
        }
    }

    /// The lines that say the same, without those that no longer count.
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = vec![Line::OschedJournal(self.header.clone())];
        lines.extend(self.claims.iter().cloned().map(Line::Claim));
        lines.extend(self.restores.iter().cloned().map(Line::Restore));
        lines.extend(self.wrote.iter().cloned().map(Line::Wrote));
        lines
    }

    pub(super) fn restores_subject(&self, subject: &Subject) -> bool {
        self.restorable.contains(subject)
    }

    pub(super) fn has_wrote(&self, line: &Line) -> bool {
        matches!(line, Line::Wrote(wrote) if self.wrote.contains(wrote))
    }

    /// Puts the usual value in the place of one that a thread has inherited from a thread that osched has
    /// changed: it started after the claim, and has a value that osched gave to some thread of its process. A
    /// thread that has given itself just that value cannot be distinguished, and loses it.
    pub(super) fn replace_inherited(&self, thread: ThreadId, value: &mut ThreadValue) {
        let claim = self.claims.iter().find(|c| c.pid == thread.pid && c.start == thread.process_start);
        let Some(claim) = claim.filter(|claim| thread.start >= claim.at) else { return };
        let wrote = Wrote { pid: thread.pid, start: thread.process_start, value: value.clone() };
        let is_ours = self.wrote.contains(&wrote);
        if let Some(usual) = claim.usual_value(value).filter(|_| is_ours) {
            *value = usual;
        }
    }
}

fn common<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

fn damaged(message: &str, path: &Path, index: usize) -> Error {
    Error::damaged(message).at(format!("line {}", index + 1)).at(path.display().to_string()).remedy(
        "restart the engines that it names, which gives their threads the usual values, and remove the file and the \
         cgroups named 'osched-*'",
    )
}
