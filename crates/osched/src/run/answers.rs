//! Asks the targets of the policies that are due, and takes their answers, also those that come late.

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_schedule::ThreadId;

use super::watched::Taken;
use super::{ANSWERS, Osched};

impl Osched {
    /// Takes the answers that earlier steps did not wait for. Returns the policies that decide by them.
    pub(super) fn take_late(&mut self) -> BTreeSet<usize> {
        let owing: Vec<usize> = (0..self.targets.len()).filter(|at| self.targets[*at].owes()).collect();
        let came: Vec<usize> = owing.into_iter().filter(|at| self.take(*at, Duration::ZERO)).collect();
        let names: BTreeSet<&String> = came.iter().map(|at| &self.targets[*at].name).collect();
        let reads = |at: &usize| self.policies[*at].config.targets.iter().any(|name| names.contains(name));
        (0..self.policies.len()).filter(reads).collect()
    }

    /// Reads the targets of the policies that are due. One whose last answer was late is not waited for.
    pub(super) fn read(&mut self, due: &BTreeSet<usize>) {
        let wanted: BTreeSet<&String> = due.iter().flat_map(|at| &self.policies[*at].config.targets).collect();
        let wanted: Vec<usize> =
            (0..self.targets.len()).filter(|at| wanted.contains(&self.targets[*at].name)).collect();
        wanted.iter().for_each(|at| self.targets[*at].ask());
        let until = self.clock.now().plus(ANSWERS);
        for at in wanted.into_iter().filter(|at| self.targets[*at].owes()).collect::<Vec<_>>() {
            let may_answer = self.targets[at].may_answer_soon();
            self.take(at, if may_answer { until.after(self.clock.now()) } else { Duration::ZERO });
        }
        self.tell_left_alone();
        let threads: BTreeSet<ThreadId> =
            self.targets.iter().flat_map(|watched| &watched.graph.threads).map(|thread| thread.id).collect();
        self.usages.retain(|thread| threads.contains(&thread));
    }

    /// Takes the answer of a target, and tells what has changed. Returns whether there are new readings.
    fn take(&mut self, at: usize, wait: Duration) -> bool {
        let watched = &mut self.targets[at];
        let mut notices = Vec::new();
        let taken = watched.take(wait);
        match taken {
            Taken::Nothing | Taken::Readings => {}
            Taken::Failed => notices.extend(watched.failure().map(ToString::to_string)),
            Taken::Back => {
                let name = watched.name.clone();
                let of_target = self.policies.iter().filter(|policy| policy.config.targets.contains(&name));
                let missing = of_target.filter_map(|policy| policy.prepare(watched).err()).map(|of| of.to_string());
                notices.extend(missing.filter(|missing| self.told.insert(missing.clone())));
            }
        }
        notices.into_iter().for_each(|notice| self.notice(notice));
        matches!(taken, Taken::Readings | Taken::Back)
    }
}
