//! Processes that take the job over.

use std::sync::Arc;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Result};
use anabranch_plan::fitted;
use anabranch_runtime::stepped::{Parts, SteppedJob};
use anabranch_runtime::{Checkpointing, present};
use anabranch_state::Store;

use super::{AFTERMATH, PROCESSES, Process, World};
use crate::Mutation;
use crate::engine::cluster::Cluster;
use crate::engine::outside::ProcessId;
use crate::engine::planted::Hand;
use crate::engine::store::FaultyStore;

/// A coordinator that stands by takes a job over whose coordinator was stopped, one turn in so many.
const STOPPED: u64 = 64;
/// The same if the coordinator is gone.
const GONE: u64 = 8;
/// One turn in so many in which a coordinator begins to stand by, if there is none.
const STANDS_BY: u64 = 16;

/// How much more often a coordinator fails, or the plan changes, while another coordinator could adopt the
/// tasks.
const PREFERRED: u64 = 16;

/// A coordinator that stands by.
#[derive(Clone, Copy)]
pub(super) struct Standby {
    pub(super) id: ProcessId,
    /// How long it waits to learn which tasks run, if it is to take the job over.
    patience: u64,
}

impl World<'_> {
    /// Whether a process tries to take the job over now. A job without checkpoints is started once.
    pub(super) fn is_due_to_start(&mut self) -> bool {
        if !self.scenario.durable {
            return self.started == 0;
        }
        let owner = self.processes.iter().find(|process| Some(process.id) == self.truth.owner);
        let often = match owner {
            None => Some(GONE),
            Some(owner) => (owner.stopped_until > self.turn).then_some(STOPPED),
        };
        let due = often.is_some_and(|often| self.finished_at.is_none() && self.rng.below(often) == 0);
        let rival = self.happens(self.scenario.rivals);
        let again = self.finished_at.is_some() && self.rng.below(AFTERMATH) == 0;
        (due && self.standby_is_ready()) || rival || again
    }

    /// Whether something goes wrong with a coordinator now, so many times in 10,000 turns.
    pub(super) fn happens(&mut self, often: u64) -> bool {
        self.faulty() && self.rng.below(10_000) < self.preferred(often)
    }

    /// What happens so often is more frequent while a coordinator could adopt the tasks, unless the plan
    /// changes: many changes are to succeed.
    pub(super) fn preferred(&self, often: u64) -> u64 {
        let informed = self.standby.zip(self.cluster.as_ref()).is_some_and(|(of, cluster)| cluster.is_informed(of.id));
        let changes = self.processes.iter().any(|process| !process.asked.is_empty());
        if informed && !changes { PREFERRED * often } else { often }
    }

    /// Lets a coordinator stand by, sometimes.
    pub(super) fn stand_by(&mut self) {
        let Some(cluster) = self.cluster.as_mut().filter(|cluster| cluster.has_standbys()) else { return };
        if self.standby.is_none() && self.finished_at.is_none() && self.rng.below(STANDS_BY) == 0 {
            self.started += 1;
            let id = self.started;
            cluster.stand_by(id, &self.clock);
            self.standby = Some(Standby { id, patience: self.rng.below(400) });
            self.note(|| format!("process {id} stands by"));
        }
    }

    fn standby_is_ready(&mut self) -> bool {
        let Some((cluster, standby)) = self.cluster.as_ref().zip(self.standby.as_mut()) else { return true };
        standby.patience = standby.patience.saturating_sub(GONE);
        standby.patience == 0 || cluster.is_informed(standby.id)
    }

    /// A process takes the job over from its owner.
    pub(super) fn start(&mut self) {
        let id = self.standby.take().map_or_else(
            || {
                self.started += 1;
                self.started
            },
            |standby| standby.id,
        );
        let variant = self.decide_variant(id);
        let plan = variant.plan(&self.scenario);
        self.note(|| format!("process {id} starts with {variant}"));
        self.truth.may_run(id, &plan);
        let started = self.take_over(id, &plan);
        self.observe();
        match started {
            Ok(Some(job)) if !self.shared.lock().is_dead(id) => {
                self.record.confirm(variant);
                self.run.seen.add(
                    "starts at another parallelism",
                    u64::from(![0, variant.parallelism].contains(&self.parallelism)),
                );
                self.parallelism = variant.parallelism;
                // Sinks that go on make visible what the newest checkpoint has when they hear of it.
                if job.was_open() && !self.truth.adopted {
                    self.check(self.truth.restored(&self.shared));
                }
                if let Some(cluster) = &mut self.cluster {
                    cluster.begun(id, job.handle());
                }
                let hand = Hand::new(self.options.mutation);
                self.processes.push(Process { id, job, hand, stopping: false, stopped_until: 0, asked: Vec::new() });
                if self.processes.len() > PROCESSES {
                    let oldest = self.processes[0].id;
                    self.shared.lock().kill(oldest);
                }
            }
            Ok(Some(_)) => self.end_hub(id),
            Ok(None) => {
                self.end_hub(id);
                self.note(|| format!("process {id} finds that the job has ended"));
                self.run.seen.add("starts after the end", 1);
                self.finish();
            }
            Err(error) => {
                self.end_hub(id);
                self.failed(id, &error);
            }
        }
    }

    fn take_over(&mut self, id: ProcessId, plan: &Plan) -> Result<Option<SteppedJob>> {
        let overwrites = self.options.mutation == Some(Mutation::LateWriteAccepted);
        let store = FaultyStore { shared: self.shared.clone(), process: id, overwrites };
        let checkpointing = Checkpointing {
            store: Store::new(Arc::new(store), "simulated"),
            interval: self.scenario.interval,
            timeout: self.scenario.timeout,
            restart_attempts: self.scenario.restart_attempts,
            new_job: format!("job-{id}"),
            seed: self.rng.next_u64(),
        };
        let (connectors, clock): (_, Arc<dyn Clock>) = (self.tables(id).connectors(), self.clock.clone());
        let (clock_of, faulty) = (&self.clock, self.turn < super::FAULT_TURNS);
        let workers = self.cluster.as_mut().and_then(|cluster: &mut Cluster| cluster.begin(id, clock_of, faulty));
        let checkpointing = self.scenario.durable.then_some(&checkpointing);
        let present = || present(checkpointing.map(|of| &of.store), self.origin.as_ref());
        SteppedJob::start(Parts {
            plan: &fitted(plan, present)?,
            connectors: &connectors,
            clock: &clock,
            checkpointing,
            origin: self.origin.as_ref(),
            workers,
        })
    }
}
