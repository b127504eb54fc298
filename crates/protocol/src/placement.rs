//! Which worker has which task: a function of the workers, the stages and what other jobs have there, the
//! same for the same arguments.
//!
//! A job takes as many slots of a worker as it has tasks of one stage there. The slots of all jobs count
//! alike, so a worker of which other jobs have many gets few tasks of this one. Once other jobs have taken
//! all slots, a job gains no processors by being spread, and its exchange would cost more: it stays together.
//! A task whose state is at a worker goes there whatever else that has: moving much state costs more than
//! sharing a machine.

use std::collections::BTreeMap;

use anabranch_model::{StageId, TaskId};

use crate::membership::{Member, Process};

/// A stage whose tasks are to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The stage.
    pub id: StageId,
    /// How many tasks it has.
    pub parallelism: u32,
    /// The label that its workers must have.
    pub label: Option<String>,
}

/// Where tasks were, and where their state is.
#[derive(Clone, Debug, Default)]
pub struct Former {
    /// The placement before this one.
    pub tasks: BTreeMap<TaskId, Process>,
    /// Processes that have the newest state of a task on a local disk.
    pub local: BTreeMap<TaskId, Vec<Process>>,
}

/// There are not enough slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// How many.
    pub slots: u32,
    /// For the tasks of which stage.
    pub stage: StageId,
    /// The label that their workers must have.
    pub label: Option<String>,
}

/// One worker while its slots are filled.
struct Room<'a> {
    member: &'a Member,
    /// Slots without a task of the present stage.
    free: u32,
    /// Slots that other jobs have taken.
    others: u64,
    /// Tasks of the present stage.
    of_stage: u64,
    /// The most tasks of one stage.
    slots: u64,
    /// Tasks of all stages.
    tasks: u64,
}

impl Room<'_> {
    /// Slots that are taken once it has another task of the present stage.
    fn taken(&self) -> u64 {
        self.others + self.slots.max(self.of_stage + 1)
    }

    /// Whether it has more room than another one: then less of its slots is taken, it has fewer tasks, or its
    /// number is lower. A job that stays `together` goes where it is already.
    fn is_emptier(&self, than: &Room<'_>, together: bool) -> bool {
        let (slots, than_slots) = (u64::from(self.member.slots), u64::from(than.member.slots));
        let (here, there) = (together && self.tasks > 0, together && than.tasks > 0);
        let own = (there, self.taken() * than_slots, self.tasks * than_slots, self.member.process);
        own < (here, than.taken() * slots, than.tasks * slots, than.member.process)
    }

    fn take(&mut self) -> Process {
        self.free -= 1;
        self.of_stage += 1;
        self.slots = self.slots.max(self.of_stage);
        self.tasks += 1;
        self.member.process
    }
}

/// Chooses a process for every task. A slot has room for one task of each stage. `others` are the slots that
/// other jobs have taken.
///
/// # Errors
/// The first stage that has not enough slots.
pub fn place<'a>(
    members: impl IntoIterator<Item = &'a Member>,
    stages: &[Stage],
    former: &Former,
    others: &BTreeMap<Process, u32>,
) -> Result<BTreeMap<TaskId, Process>, Missing> {
    let room = |member: &'a Member| {
        let others = others.get(&member.process).copied().map_or(0, u64::from);
        Room { member, free: 0, others, of_stage: 0, slots: 0, tasks: 0 }
    };
    let mut rooms: Vec<Room<'_>> = members.into_iter().map(room).collect();
    rooms.sort_by_key(|room| room.member.process);
    let together = rooms.iter().all(|room| room.others >= u64::from(room.member.slots));
    let mut placed = BTreeMap::new();
    for stage in stages {
        for room in &mut rooms {
            let fits = stage.label.as_ref().is_none_or(|label| room.member.labels.contains(label));
            (room.free, room.of_stage) = (if fits { room.member.slots } else { 0 }, 0);
        }
        let slots = rooms.iter().fold(0, |slots: u32, room| slots.saturating_add(room.free));
        if slots < stage.parallelism {
            let (slots, label) = (stage.parallelism - slots, stage.label.clone());
            return Err(Missing { slots, stage: stage.id, label });
        }
        let tasks = (0..stage.parallelism).map(|index| TaskId { stage: stage.id, index });
        let mut left: Vec<TaskId> = tasks.collect();
        let stays = |task: &TaskId, room: &Room<'_>| former.tasks.get(task) == Some(&room.member.process);
        let is_successor = |task: &TaskId, room: &Room<'_>| {
            former.tasks.get(task).is_some_and(|process| process.worker == room.member.process.worker)
        };
        let has_state = |task: &TaskId, room: &Room<'_>| {
            former.local.get(task).is_some_and(|processes| processes.contains(&room.member.process))
        };
        for prefers in [&stays as &dyn Fn(&TaskId, &Room<'_>) -> bool, &has_state, &is_successor, &|_, _| true] {
            left.retain(|task| {
                let fitting = rooms.iter_mut().filter(|room| room.free > 0 && prefers(task, room));
                let emptiest = fitting.reduce(|best, room| if room.is_emptier(best, together) { room } else { best });
                placed.extend(emptiest.map(|room| (*task, room.take())));
                !placed.contains_key(task)
            });
        }
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_model::Rng;

    use super::*;
    use crate::membership::WorkerId;

    /// No other job has tasks.
    const ALONE: BTreeMap<Process, u32> = BTreeMap::new();

    fn process(worker: u32) -> Process {
        Process { worker: WorkerId(worker), life: 1 }
    }

    fn member(worker: u32, slots: u32, labels: &[&str]) -> Member {
        let labels = Arc::new(labels.iter().map(|label| (*label).to_owned()).collect());
        Member { process: process(worker), slots, labels }
    }

    fn stage(id: u32, parallelism: u32, label: Option<&str>) -> Stage {
        Stage { id: StageId(id), parallelism, label: label.map(str::to_owned) }
    }

    fn task(stage: u32, index: u32) -> TaskId {
        TaskId { stage: StageId(stage), index }
    }

    /// The workers of the tasks of a stage, by their indexes.
    fn workers(placed: &BTreeMap<TaskId, Process>, stage: u32) -> Vec<u32> {
        placed.iter().filter(|(task, _)| task.stage.0 == stage).map(|(_, process)| process.worker.0).collect()
    }

    #[test]
    fn tasks_are_spread_by_the_slots_of_workers() {
        let members = [member(2, 2, &[]), member(0, 4, &[]), member(1, 2, &[])];
        let stages = [stage(0, 4, None), stage(1, 8, None), stage(2, 1, None)];
        let placed = place(&members, &stages, &Former::default(), &ALONE).expect("enough slots");
        assert_eq!(workers(&placed, 0), [0, 1, 2, 0]);
        let mut second = workers(&placed, 1);
        second.sort_unstable();
        assert_eq!(second, [0, 0, 0, 0, 1, 1, 2, 2]);
        assert_eq!(workers(&placed, 2), [0]);
        let reversed = place(members.iter().rev(), &stages, &Former::default(), &ALONE);
        assert_eq!(reversed.as_ref(), Ok(&placed), "the order of the workers does not matter");
    }

    /// Workers of which some are nearly full, a job, and where its tasks were.
    fn drawn(rng: &mut Rng) -> (Vec<Member>, [Stage; 3], Former, BTreeMap<Process, u32>) {
        let labels = |worker| if worker == 0 { &["near"][..] } else { &[] };
        let count = 1 + rng.below(4) as u32;
        let members = (0..count).map(|worker| member(worker, 1 + rng.below(3) as u32, labels(worker))).collect();
        let others = (0..count).map(|worker| (process(worker), rng.below(5) as u32)).collect();
        let label = (rng.below(4) == 0).then_some("near");
        let stages = [0, 1, 2].map(|id| stage(id, 1 + rng.below(3) as u32, label.filter(|_| id == 2)));
        let mut former = Former::default();
        if rng.below(2) == 0 {
            let tasks = stages.iter().flat_map(|stage| (0..stage.parallelism).map(|index| task(stage.id.0, index)));
            former.tasks = tasks.map(|task| (task, process(rng.below(5) as u32))).collect();
        }
        (members, stages, former, others)
    }

    #[test]
    fn every_task_has_a_slot_and_its_label_and_no_worker_has_more_room_than_one_that_got_tasks() {
        let (mut placements, mut spread) = (0, 0);
        for seed in 0..2_000 {
            let (members, stages, former, others) = drawn(&mut Rng::new(seed));
            let suits =
                |stage: &Stage, member: &Member| stage.label.as_ref().is_none_or(|label| member.labels.contains(label));
            let slots_of = |stage: &Stage| {
                members.iter().filter(|member| suits(stage, member)).map(|member| member.slots).sum::<u32>()
            };
            let placed = place(&members, &stages, &former, &others);
            assert_eq!(placed.is_ok(), stages.iter().all(|stage| slots_of(stage) >= stage.parallelism), "seed {seed}");
            let Ok(placed) = placed else { continue };
            placements += 1;
            let here = |member: &Member, id: StageId| {
                let is_here = |(task, at): &(&TaskId, &Process)| task.stage == id && **at == member.process;
                placed.iter().filter(is_here).count() as u32
            };
            for stage in &stages {
                let counts = members.iter().map(|member| (member, here(member, stage.id)));
                assert_eq!(counts.clone().map(|(_, tasks)| tasks).sum::<u32>(), stage.parallelism, "seed {seed}");
                for (member, tasks) in counts.filter(|(_, tasks)| *tasks > 0) {
                    let fits = suits(stage, member) && tasks <= member.slots;
                    assert!(fits, "seed {seed}: {member:?} does not suit {placed:?}");
                }
            }
            let free = |member: &&Member| others[&member.process] < member.slots;
            if !former.tasks.is_empty() || stages[2].label.is_some() || !members.iter().any(|member| free(&member)) {
                continue;
            }
            spread += 1;
            let slots = |member: &Member| stages.iter().map(|stage| here(member, stage.id)).max().unwrap_or(0);
            let taken = |member: &Member| others[&member.process] + slots(member);
            for full in members.iter().filter(|member| slots(member) > 0) {
                for empty in members.iter().filter(|member| slots(member) < member.slots) {
                    let fair = taken(full) * empty.slots <= (taken(empty) + 1) * full.slots;
                    assert!(fair, "seed {seed}: {empty:?} had more room than {full:?}: {placed:?}");
                }
            }
        }
        assert!(placements > 1_000 && spread > 200, "{placements} placements, {spread} of them spread");
    }

    #[test]
    fn small_jobs_are_spread_over_all_workers() {
        let members = [member(0, 4, &[]), member(1, 4, &[]), member(2, 8, &[])];
        let (mut others, mut apart) = (BTreeMap::new(), 0);
        for job in 0..40 {
            let stages = [stage(0, 2, None), stage(1, 2, None)];
            let placed = place(&members, &stages, &Former::default(), &others).expect("enough slots");
            let used: std::collections::BTreeSet<Process> = placed.values().copied().collect();
            assert!(job < 8 || used.len() == 1, "all slots are taken: job {job} stays together");
            apart += usize::from(used.len() > 1);
            for process in used {
                let of_stage = |id| placed.iter().filter(|(task, at)| task.stage.0 == id && **at == process).count();
                *others.entry(process).or_default() += of_stage(0).max(of_stage(1)) as u32;
            }
        }
        assert!(apart >= 4, "{apart} jobs were spread");
        let [first, second, large] = [0, 1, 2].map(|worker| others[&process(worker)]);
        assert!(first.abs_diff(second) <= 2 && large.abs_diff(first + second) <= 2, "{others:?}");
    }

    #[test]
    fn a_task_goes_to_a_full_worker_only_if_it_was_there_or_its_state_is() {
        let members = [member(0, 2, &[]), member(1, 2, &[]), member(2, 2, &[])];
        let others = [(process(0), 90), (process(1), 2), (process(7), 1)].into();
        let former =
            Former { tasks: [(task(0, 0), process(0))].into(), local: [(task(1, 0), vec![process(0)])].into() };
        let stages = [stage(0, 3, None), stage(1, 3, None)];
        let placed = place(&members, &stages, &former, &others).expect("enough slots");
        assert_eq!(
            (workers(&placed, 0), workers(&placed, 1)),
            (vec![0, 2, 2], vec![0, 2, 2]),
            "the slots that it takes have room"
        );
        // Without other room it goes there too.
        let placed = place(&members, &[stage(0, 6, None)], &Former::default(), &others).expect("enough slots");
        let mut used = workers(&placed, 0);
        used.sort_unstable();
        assert_eq!(used, [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_task_stays_where_it_is_or_where_its_state_is() {
        let members = [member(0, 2, &[]), member(1, 2, &[]), member(2, 2, &[])];
        let former = Former {
            tasks: [(task(0, 0), process(1)), (task(0, 1), process(1)), (task(0, 2), process(9))].into(),
            // The process that has a task comes before one that has a copy of its state.
            local: [(task(0, 0), vec![process(0)]), (task(0, 2), vec![process(7), process(2)])].into(),
        };
        let placed = place(&members, &[stage(0, 4, None)], &former, &ALONE).expect("enough slots");
        assert_eq!(workers(&placed, 0), [1, 1, 2, 0]);
    }

    #[test]
    fn a_later_process_of_a_worker_gets_the_tasks_of_the_former_one_unless_another_has_their_state() {
        let later =
            |worker| Member { process: Process { worker: WorkerId(worker), life: 2 }, ..member(worker, 2, &[]) };
        let former = Former {
            tasks: [(task(0, 0), process(1)), (task(0, 1), process(0)), (task(0, 2), process(1))].into(),
            local: [(task(0, 2), vec![process(0)])].into(),
        };
        let placed =
            place(&[member(0, 2, &[]), later(1)], &[stage(0, 3, None)], &former, &ALONE).expect("enough slots");
        assert_eq!(workers(&placed, 0), [1, 0, 0]);
    }

    #[test]
    fn what_no_longer_fits_goes_elsewhere() {
        let former = Former { tasks: (0..3).map(|index| (task(0, index), process(0))).collect(), ..Former::default() };
        let placed = place(&[member(0, 2, &[]), member(1, 1, &[])], &[stage(0, 3, None)], &former, &ALONE);
        assert_eq!(workers(&placed.expect("enough slots"), 0), [0, 0, 1]);
        let drained = place(&[member(1, 3, &[])], &[stage(0, 3, None)], &former, &ALONE);
        assert_eq!(workers(&drained.expect("enough slots"), 0), [1, 1, 1]);
    }

    #[test]
    fn a_stage_goes_to_workers_with_its_label() {
        let members = [member(0, 4, &["disk"]), member(1, 4, &["disk", "gpu"])];
        let placed =
            place(&members, &[stage(0, 2, Some("gpu")), stage(1, 2, Some("disk"))], &Former::default(), &ALONE);
        let placed = placed.expect("enough slots");
        assert_eq!((workers(&placed, 0), workers(&placed, 1)), (vec![1, 1], vec![0, 0]));
    }

    #[test]
    fn missing_slots_are_counted_by_stage_and_label() {
        let members = [member(0, 2, &[]), member(1, 1, &["gpu"])];
        let missing = |stage| place(&members, &[stage], &Former::default(), &ALONE).expect_err("not enough slots");
        let stage_3 = StageId(3);
        assert_eq!(missing(stage(3, 5, None)), Missing { slots: 2, stage: stage_3, label: None });
        let label = Some("gpu".to_owned());
        assert_eq!(missing(stage(3, 2, Some("gpu"))), Missing { slots: 1, stage: stage_3, label });
        let none = place([], &[stage(3, 1, None)], &Former::default(), &ALONE);
        assert_eq!(none, Err(Missing { slots: 1, stage: stage_3, label: None }));
    }
}
