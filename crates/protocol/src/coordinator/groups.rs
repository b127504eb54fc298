//! Which groups are granted: the machines `grants`, `quiet`, `group size` and `checkpoints` together.

use anabranch_model::{Group, Nanos};

use super::message::{Command, Granted, Pace, Then};
use super::quiet::Wanted;
use super::{Coordinator, Phase};

impl<S: Clone + PartialEq> Coordinator<S> {
    /// The coordinator before has granted a group.
    pub(super) fn was_granted(&mut self, now: Nanos, granted: Granted) {
        let Granted { group, checkpoint, then, pace, aborted } = granted;
        self.grants.granted(group, pace, then.ends());
        match then {
            Then::Next => {}
            Then::Stop => self.life.stop_wanted = true,
            // The version that was to follow is not in the log: the present one goes on.
            Then::Switch => (self.change, self.undoes) = (Some(self.tasks.clone()), true),
        }
        if checkpoint && !aborted {
            self.checkpoints.adopted(now, group.last);
        }
    }

    /// Grants the group that is due, if it is wanted.
    pub(super) fn next_group(&mut self, now: Nanos) {
        let epochs = match self.quiet.wants(now, self.grants.last(), self.checkpoints.failures() > 0) {
            Some(Wanted::Group) => self.group_size.epochs(),
            Some(Wanted::One) => 1,
            None => {
                let due = self.checkpoints.due_with(self.quiet.active()).filter(|due| *due <= now);
                let group = due.and_then(|_| self.grants.hurry());
                return group.into_iter().for_each(|group| self.granted(now, (group, Pace::AtOnce), true, Then::Next));
            }
        };
        let group = self.grants.grant(epochs, Pace::Steady);
        self.granted(now, (group, Pace::Steady), self.checkpoints.is_due(now), Then::Next);
    }

    /// When a group that is due, but not wanted yet, will be.
    pub(super) fn group_deadline(&self) -> Option<Nanos> {
        let waits = self.phase() == Phase::Running && self.grants.is_due();
        let quiet = self.quiet.deadline(self.checkpoints.failures() > 0).filter(|_| waits)?;
        Some(self.checkpoints.due_with(self.quiet.active()).map_or(quiet, |due| due.min(quiet)))
    }

    pub(super) fn granted(&mut self, now: Nanos, (group, pace): (Group, Pace), checkpoint: bool, then: Then) {
        self.quiet.granted(now);
        if checkpoint {
            self.checkpoints.trigger(now, group.last);
        }
        self.commands.push_back(Command::Grant { incarnation: self.incarnation, group, checkpoint, then, pace });
    }
}
