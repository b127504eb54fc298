//! Restores what a journal says. Doing it twice, or after a part was done, does no harm.

use std::fmt;

use anabranch_model::{Error, Result};

use super::contents::{Claim, Contents};
use crate::kernel::{Carried, Change, Proc, ThreadValue};

/// What came of an undo.
#[derive(Debug, Default)]
pub struct Undone {
    /// Values that were restored, and groups that were removed.
    pub restored: usize,
    /// Values that were as they should be already.
    pub unchanged: usize,
    /// Threads and groups that do not exist any more.
    pub gone: usize,
    /// What could not be restored.
    pub failed: Vec<Error>,
    /// The entries that no longer count.
    pub(super) forgotten: Vec<Change>,
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Undone { restored, unchanged, gone, failed, .. } = self;
        write!(f, "{restored} restored, {unchanged} unchanged, {gone} gone, {} failed", failed.len())
    }
}

enum Done {
    Restored,
    Unchanged,
    Gone,
}

/// Carries out the selected entries, the last one first, then restores threads that have inherited a value.
pub(super) fn undo(kernel: &Proc, contents: &Contents, select: &dyn Fn(&Change) -> bool) -> Undone {
    let mut undone = Undone::default();
    for change in contents.restores.iter().rev().filter(|change| select(change)) {
        if undone.count(restore(kernel, change)) {
            undone.forgotten.push(change.clone());
        }
    }
    for claim in &contents.claims {
        match inherited(kernel, contents, claim) {
            Ok(changes) => {
                for change in changes.iter().filter(|change| select(change)) {
                    undone.count(restore(kernel, change));
                }
            }
            Err(error) => undone.failed.push(error),
        }
    }
    undone
}

impl Undone {
    /// Whether it succeeded.
    fn count(&mut self, result: Result<Done>) -> bool {
        match result {
            Ok(Done::Restored) => self.restored += 1,
            Ok(Done::Unchanged) => self.unchanged += 1,
            Ok(Done::Gone) => self.gone += 1,
            Err(error) => {
                self.failed.push(error);
                return false;
            }
        }
        true
    }
}

fn restore(kernel: &Proc, change: &Change) -> Result<Done> {
    match change {
        Change::Thread { thread, .. } if !kernel.is_alive(*thread)? => return Ok(Done::Gone),
        Change::Thread { value: ThreadValue::Group(group), .. } | Change::Group { group, .. }
            if !kernel.has_group(group) =>
        {
            return Ok(Done::Gone);
        }
        _ => {}
    }
    if kernel.present(change)?.as_ref() == Some(change) {
        return Ok(Done::Unchanged);
    }
    match kernel.carry_out(change)? {
        Carried::Done => Ok(Done::Restored),
        Carried::Gone => Ok(Done::Gone),
        Carried::Differs(present) => Err(Error::outside(format!("the kernel keeps it as it is: {present}"))
            .at(change.to_string())
            .remedy("another program changes it as well: end that one, then run 'anabranch osched restore'")),
    }
}

/// The changes that restore the threads of a process that started after its claim with a value that osched
/// had written.
fn inherited(kernel: &Proc, contents: &Contents, claim: &Claim) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    if !kernel.is_process_alive(claim.pid, claim.start)? {
        return Ok(changes);
    }
    let threads = kernel.threads(claim.pid)?;
    for thread in threads.iter().filter(|thread| thread.id.start >= claim.at) {
        let Some(now) = kernel.scheduling(thread.id)? else { continue };
        let mut values = vec![ThreadValue::Class(now.class), ThreadValue::Nice(now.nice)];
        values.extend(now.slice_ns.map(ThreadValue::SliceNs));
        for mut value in values {
            let former = value.clone();
            contents.replace_inherited(thread.id, &mut value);
            let change = Change::Thread { thread: thread.id, value };
            if !contents.restores_subject(&change.subject())
                && !matches!(&change, Change::Thread { value, .. } if *value == former)
            {
                changes.push(change);
            }
        }
    }
    Ok(changes)
}
