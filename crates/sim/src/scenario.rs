//! What a seed decides: the job, the faults of its surroundings, and the settings of its coordinator.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{PlanVersion, Rng, StageId, TaskId};
use anabranch_protocol::coordinator::{Adaptive, Config, GroupSizing, Quiet, Restart, Tasks};
use anabranch_protocol::membership::{Member, Process, WorkerId};
use anabranch_protocol::placement::Stage;

/// One millisecond of virtual time.
pub(crate) const MS: u64 = 1_000_000;
/// Until when faults happen.
pub(crate) const FAULTS_END: u64 = 3_000 * MS;
/// How long a job may take after that.
pub(crate) const PROGRESS_WITHIN: u64 = 20_000 * MS;

/// Drawn from the seed before the run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Tasks of each stage: sources, operators, sinks.
    parallelism: [u32; 3],
    /// Slots of each worker.
    pub(crate) slots: Vec<u32>,
    /// Records of each source.
    records: Vec<u64>,
    /// When a checkpoint is requested.
    pub(crate) requests: Vec<u64>,
    /// When the job changes to another version of its plan.
    pub(crate) changes: Vec<u64>,
    /// When the job is stopped; `None`: it ends with its sources.
    pub(crate) stop_at: Option<u64>,
    /// Mean time between faults; `None`: no faults.
    pub(crate) fault_every: Option<u64>,
    /// Lost messages per 1000.
    pub(crate) lost: u64,
    /// Repeated messages per 1000.
    pub(crate) repeated: u64,
    /// Crashes of the sender per 1000 commands and reports.
    pub(crate) crash_at_step: u64,
    /// Longest delay of a message.
    pub(crate) delay: u64,
    /// Requests to the store without a definite answer, per 1000.
    pub(crate) open: u64,
    /// Longest time of a request to the store.
    pub(crate) store_delay: u64,
    pub(crate) config: Config,
}

impl Scenario {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let faulty = rng.below(8) > 0;
        let upto = |rng: &mut Rng, most: u64| if faulty { rng.below(most + 1) } else { 0 };
        let parallelism: [u32; 3] = std::array::from_fn(|_| 1 + rng.below(2) as u32);
        Scenario {
            parallelism,
            slots: slots(rng),
            records: (0..parallelism[0]).map(|_| rng.below(300)).collect(),
            requests: (0..rng.below(4)).map(|_| rng.below(2_500) * MS).collect(),
            changes: (0..rng.below(4)).map(|_| rng.below(2_500) * MS).collect(),
            stop_at: (rng.below(3) == 0).then(|| rng.below(2_500) * MS),
            fault_every: faulty.then(|| (80 + rng.below(700)) * MS),
            lost: upto(rng, 200),
            repeated: upto(rng, 200),
            crash_at_step: upto(rng, 4),
            delay: (1 + rng.below(20)) * MS,
            open: upto(rng, 250),
            store_delay: (1 + rng.below(30)) * MS,
            config: config(rng),
        }
    }

    pub(crate) fn stages(&self) -> Vec<Stage> {
        let stage = |(id, parallelism): (u32, &u32)| Stage { id: StageId(id), parallelism: *parallelism, label: None };
        (0..).zip(&self.parallelism).map(stage).collect()
    }

    fn stage(&self, stage: u32) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.parallelism[stage as usize]).map(move |index| TaskId { stage: StageId(stage), index })
    }

    pub(crate) fn tasks(&self, version: PlanVersion) -> Tasks {
        let all: BTreeSet<TaskId> = (0..3).flat_map(|stage| self.stage(stage)).collect();
        Tasks { version, all, sources: self.stage(0).collect(), sinks: self.stage(2).collect() }
    }

    /// The tasks whose markers a task gets.
    pub(crate) fn before(&self, task: TaskId) -> Vec<TaskId> {
        task.stage.0.checked_sub(1).map_or_else(Vec::new, |stage| self.stage(stage).collect())
    }

    /// How many records a source has; `None` of other tasks.
    pub(crate) fn records(&self, task: TaskId) -> Option<u64> {
        self.records.get(task.index as usize).copied().filter(|_| task.stage.0 == 0)
    }

    /// What a worker's process says about itself.
    pub(crate) fn member(&self, worker: usize, life: u64) -> Member {
        let process = Process { worker: WorkerId(worker as u32), life };
        Member { process, slots: self.slots[worker], labels: Arc::default() }
    }
}

/// The first worker has slots for all tasks of a stage: without it a job may have to wait.
fn slots(rng: &mut Rng) -> Vec<u32> {
    let first = 2 + rng.below(2) as u32;
    let others = rng.below(3);
    [first].into_iter().chain((0..others).map(|_| 1 + rng.below(3) as u32)).collect()
}

fn config(rng: &mut Rng) -> Config {
    let ms = Duration::from_millis;
    let group_size = match rng.below(3) {
        0 => GroupSizing::Adaptive(Adaptive { max: 8, ..Adaptive::default() }),
        _ => GroupSizing::Fixed(1 + rng.below(6)),
    };
    Config {
        group_size,
        // Sometimes checkpoints are taken only on request.
        checkpoint_interval: Some(ms(if rng.below(5) == 0 { 3_600_000 } else { rng.below(300) })),
        // Longer than all delays of a checkpoint together: without faults it succeeds.
        checkpoint_timeout: ms(140 + rng.below(200)),
        checkpoint_failures_max: rng.below(3) as u32,
        checkpoints_kept: 1 + rng.below(3) as usize,
        start_timeout: ms(800),
        cancel_timeout: ms(50 + rng.below(300)),
        restart: Restart {
            attempts_max: 10_000,
            pause_start: ms(5),
            pause_factor: 2,
            pause_max: ms(100),
            forget_after: ms(1_000),
        },
        store_timeout: ms(100),
        store_retry: ms(1 + rng.below(20)),
        store_patience: Duration::MAX,
        fence_look: ms(500),
        quiet: (rng.below(2) == 0).then(|| {
            let (soon, longest) = (rng.below(50), 20 + rng.below(400));
            let pause = if soon % 2 == 0 { soon } else { soon.max(longest) };
            Quiet { soon: ms(soon), pause: ms(pause), longest: ms(longest) }
        }),
    }
}
