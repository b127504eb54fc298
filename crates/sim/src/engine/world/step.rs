//! One step: of a process with a coordinator, or of a machine with a worker.

use std::ops::Range;
use std::sync::Arc;

use super::World;
use crate::engine::cluster::Turn;
use crate::engine::outside::ProcessId;
use crate::engine::tables::{Readers, Tables};

impl World<'_> {
    /// A process does a step.
    pub(super) fn step(&mut self, which: usize) {
        let id = self.processes[which].id;
        self.step_hub(id);
        let process = &mut self.processes[which];
        process.hand.switches = !process.asked.is_empty();
        if self.stop_asked && !process.stopping {
            process.stopping = true;
            process.job.handle().stop();
        }
        match self.rng.below(16) {
            0..2 => {
                let was_open = process.job.was_open();
                for _ in 0..1 + self.rng.below(8) {
                    process.job.coordinate();
                }
                // With several workers it may have lost the job meanwhile.
                if !was_open && process.job.was_open() && (self.cluster.is_none() || self.truth.owner == Some(id)) {
                    self.check(self.truth.restored(&self.shared));
                }
            }
            2..5 => {
                for _ in 0..1 + self.rng.below(4) {
                    let _ = process.hand.record(&mut process.job.tasks()) || process.job.write();
                }
            }
            _ => {
                let mut tasks = process.job.tasks();
                let count = tasks.count();
                if count == 0 {
                    return;
                }
                let task = self.rng.below(count as u64) as usize;
                let hangs = |hung: &(Range<u64>, usize)| hung.0.contains(&self.turn) && hung.1 % count == task;
                if self.finished_at.is_none() && self.scenario.hung.as_ref().is_some_and(hangs) {
                    self.run.seen.add("steps not done by a hung task", 1);
                    return;
                }
                process.hand.steps(&mut tasks, task, &mut self.rng, &self.shared);
            }
        }
    }

    /// What passes between the process of a coordinator and others.
    pub(super) fn step_hub(&mut self, id: ProcessId) {
        let now = anabranch_model::Clock::now(self.clock.as_ref());
        if let Some(cluster) = &mut self.cluster {
            let checked = cluster.step_hub(id, now);
            self.check(checked);
        }
    }

    /// The process of a coordinator is gone.
    pub(super) fn end_hub(&mut self, id: ProcessId) {
        let now = anabranch_model::Clock::now(self.clock.as_ref());
        if let Some(cluster) = &mut self.cluster {
            cluster.end(id, now, &mut self.run.seen);
        }
    }

    /// A machine with a worker does something.
    pub(super) fn step_machine(&mut self, which: usize) {
        let (tables, faulty) = (self.tables(0), self.faulty());
        let hung = self.scenario.hung.as_ref().filter(|(turns, _)| turns.contains(&self.turn) && faulty);
        let turn = Turn {
            shared: &self.shared,
            clock: &self.clock,
            number: self.turn,
            faulty,
            origin: self.origin.as_ref(),
            tables: &tables,
            hung: hung.map(|(_, task)| task % 4),
            switches: self.processes.iter().any(|process| !process.asked.is_empty()),
        };
        let Some(cluster) = &mut self.cluster else { return };
        let checked = cluster.step(which, &turn, &mut self.run.seen);
        self.check(checked);
    }

    /// The tables as a process accesses them.
    pub(super) fn tables(&self, process: ProcessId) -> Tables {
        let quiet = self.scenario.quiet.as_ref().map(|(quiet, _)| quiet.name.clone());
        let (hold, mutation) = (self.scenario.readers_hold, self.options.mutation);
        let readers = Readers { quiet, hold, mutation, ..Readers::default() };
        let contents = Arc::clone(&self.scenario.contents);
        Tables { shared: self.shared.clone(), process, contents, readers }
    }
}
