//! Changes of the plan while the job runs.

use std::sync::mpsc::TryRecvError;

use anabranch_dataflow::StateBackendKind;
use anabranch_runtime::{Moves, Reconfigure};

use super::{PARALLELISM_MAX, Process, World};

impl World<'_> {
    /// A user lets the newest process go on at another parallelism, or with its state elsewhere.
    pub(super) fn change(&mut self) {
        let parallelism = 1 + self.changes.below(u64::from(PARALLELISM_MAX)) as u32;
        let state = if self.changes.below(3) == 0 { StateBackendKind::Disk } else { StateBackendKind::Memory };
        let Some(Process { id, job, asked, .. }) = self.processes.last_mut() else { return };
        let (id, plan) = (*id, self.scenario.plan(parallelism, state));
        self.truth.may_run(id, &plan);
        let request = Reconfigure { plan, moves: Moves::default(), allow_lost_state: false, dry_run: false };
        asked.push(job.handle().begin_to_reconfigure(request));
        self.note(|| format!("process {id} is to change to parallelism {parallelism}, state in {state:?}"));
    }

    /// How changes went.
    pub(super) fn take_answers(&mut self, index: usize) {
        let mut answers = Vec::new();
        self.processes[index].asked.retain(|asked| match asked.try_recv() {
            Ok(answer) => {
                answers.push(answer);
                false
            }
            Err(error) => error == TryRecvError::Empty,
        });
        for answer in answers {
            match answer {
                Ok(done) if done.unchanged => self.seen.unchanged += 1,
                Ok(done) => {
                    self.seen.changes += 1;
                    self.seen.prepared += u64::from(done.copied_bytes > 0);
                    self.note(|| format!("the job runs by version {}", done.version.0));
                }
                Err(error) => {
                    self.seen.changes_given_up += 1;
                    self.note(|| error.to_string());
                }
            }
        }
    }
}
