//! Changes of the plan: the job goes on with other tasks from the end of an epoch on, or as before if
//! anything fails.
//!
//! The tasks of the next version begin with an entry of the log behind the checkpoint that both versions
//! share. Until a checkpoint by the next version is committed, nothing of it is durable, and any failure
//! leads back.

use anabranch_model::PlanVersion;

use super::Coordinator;
use super::message::{Checkpoint, Command, Tasks};

impl<S: Clone + PartialEq> Coordinator<S> {
    /// A change is ready. It is given up if another one is in the way.
    pub(super) fn change(&mut self, tasks: Tasks) {
        let version = tasks.version;
        let takes = self.checkpoints.is_enabled() && self.change.is_none() && version > self.tasks.version;
        match takes && !self.life.stop_wanted {
            true => {
                self.change_behind = self.checkpoints.fulfilled_behind(self.grants.last());
                self.change = Some(tasks);
            }
            false => self.commands.push_back(Command::NotChanged(version)),
        }
    }

    pub(super) fn give_up_change(&mut self) {
        self.undoes = false;
        // A coordinator that adopted tasks which were about to end knows no newer version.
        let change = self.change.take().filter(|tasks| tasks.version > self.tasks.version);
        self.commands.extend(change.map(|tasks| Command::NotChanged(tasks.version)));
    }

    /// A checkpoint of the present incarnation is committed.
    pub(super) fn settled(&mut self, checkpoint: &Checkpoint<S>) {
        if checkpoint.incarnation == self.incarnation {
            self.change_behind.take_if(|behind| checkpoint.epoch > *behind);
            let changed = self.former.take().map(|_| Command::Changed(self.tasks.version));
            self.commands.extend(changed);
        }
    }

    /// Nothing of the present plan version is durable: the version before goes on, under a new number.
    pub(super) fn undo(&mut self) {
        // A checkpoint by the present version may be in the log already: the entry after it must know.
        let former = self.former.take_if(|_| !self.checkpoints.is_committing());
        let Some(former) = former else { return };
        let present = self.tasks.version;
        self.life.undo();
        self.undoes = true;
        self.change = Some(Tasks { version: PlanVersion(present.0 + 1), ..former });
        self.commands.push_back(Command::NotChanged(present));
    }
}
