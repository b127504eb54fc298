//! Watermark alignment: no source of a group reads further ahead of the slowest one than its table allows.
//!
//! A member says what event time it has reached. One that has not said anything yet has reached nothing: no
//! other one runs ahead of it. One that is idle or has ended has reached everything: no other one waits for
//! it. The members in one process know each other's time at once ([`Aligned`]). Of those in other processes
//! they know the least, from the coordinator ([`Processes`]). What they know may be older than what is, never
//! ahead of it, so a source pauses sooner and not later than it must. The slowest one of all is known to its
//! own process, and to the others once it has been reported, so some source always goes on.

use std::collections::BTreeMap;

use anabranch_model::{EventTime, Nanos, TaskId};

use crate::membership::Process;

/// What the members of a group have reached.
#[derive(Clone, Debug)]
struct Reached<M>(BTreeMap<M, EventTime>);

impl<M: Ord> Reached<M> {
    /// Nobody has said anything.
    fn by(members: impl IntoIterator<Item = M>) -> Self {
        Reached(members.into_iter().map(|member| (member, EventTime::MIN)).collect())
    }

    fn least(&self, of: impl Fn(&M) -> bool) -> EventTime {
        self.0.iter().filter(|(member, _)| of(member)).map(|(_, time)| *time).min().unwrap_or(EventTime::MAX)
    }
}

/// A group, as the tasks of one process see it.
#[derive(Clone, Debug)]
pub struct Aligned {
    here: Reached<TaskId>,
    /// The least that tasks in other processes have reached.
    elsewhere: EventTime,
    /// How often other processes learn of this one.
    interval_ns: u64,
    /// What they were told last, and when.
    told: (EventTime, Nanos),
    /// It is known that there is something to tell.
    has_news: bool,
}

impl Aligned {
    /// These tasks of this process. `alone`: there is no other process.
    #[must_use]
    pub fn new(tasks: impl IntoIterator<Item = TaskId>, alone: bool, interval_ns: u64) -> Aligned {
        let elsewhere = if alone { EventTime::MAX } else { EventTime::MIN };
        Aligned { here: Reached::by(tasks), elsewhere, interval_ns, told: (EventTime::MIN, Nanos(0)), has_news: false }
    }

    /// A task has reached this time, which is earlier than before if a partition is no longer idle.
    pub fn reached(&mut self, task: TaskId, time: EventTime) {
        self.here.0.insert(task, time);
    }

    /// Tasks in other processes have reached this time.
    pub fn elsewhere(&mut self, time: EventTime) {
        self.elsewhere = time;
    }

    /// What all members have reached, as far as this process knows.
    #[must_use]
    pub fn least(&self) -> EventTime {
        self.here.least(|_| true).min(self.elsewhere)
    }

    /// Whether there is something to tell the coordinator now. Says so once until that is
    /// [taken](Aligned::news).
    pub fn has_news(&mut self, now: Nanos) -> bool {
        self.due(now).is_some() && !std::mem::replace(&mut self.has_news, true)
    }

    /// What the coordinator is to learn now, if anything. It must learn that in the order in which it is
    /// taken: an older time that follows a later one would hold others back, or let them run ahead.
    pub fn news(&mut self, now: Nanos) -> Option<EventTime> {
        self.has_news = false;
        let least = self.due(now)?;
        self.told = (least, now);
        Some(least)
    }

    /// That no task here holds others back any more does not wait for the interval.
    fn due(&self, now: Nanos) -> Option<EventTime> {
        let (least, (told, at)) = (self.here.least(|_| true), self.told);
        let due = told == EventTime::MIN || least == EventTime::MAX || now.since(at) >= self.interval_ns;
        (least != told && due).then_some(least)
    }

    /// Another coordinator knows nothing yet.
    pub fn forget_told(&mut self) {
        self.told = (EventTime::MIN, Nanos(0));
    }
}

/// The groups of a job, as its coordinator sees them.
#[derive(Clone, Debug, Default)]
pub struct Processes(BTreeMap<String, OfGroup>);

#[derive(Clone, Debug)]
struct OfGroup {
    reached: Reached<Process>,
    /// What each process knows of the others. It begins with nothing.
    known: BTreeMap<Process, EventTime>,
}

impl Processes {
    /// The tasks of a process, which is one of `all` processes with tasks, have reached this time. Returns
    /// what processes are to learn of the others.
    pub fn reached(&mut self, group: &str, by: Process, time: EventTime, all: &[Process]) -> Vec<(Process, EventTime)> {
        let of_group = self.0.entry(group.to_owned()).or_insert_with(|| OfGroup {
            reached: Reached::by(all.iter().copied()),
            known: all.iter().map(|process| (*process, EventTime::MIN)).collect(),
        });
        of_group.reached.0.insert(by, time);
        let OfGroup { reached, known } = of_group;
        let mut news = Vec::new();
        for (process, known) in known {
            let others = reached.least(|other| other != process);
            if others != std::mem::replace(known, others) {
                news.push((*process, others));
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::{Rng, StageId};

    use super::*;
    use crate::membership::WorkerId;

    const SECOND: u64 = 1_000_000_000;

    fn task(index: u32) -> TaskId {
        TaskId { stage: StageId(0), index }
    }

    fn process(worker: u32) -> Process {
        Process { worker: WorkerId(worker), life: 1 }
    }

    #[test]
    fn nobody_runs_ahead_of_a_member_that_has_not_started_and_nobody_waits_for_one_that_has_ended() {
        let mut group = Aligned::new([task(0), task(1)], true, SECOND);
        group.reached(task(0), EventTime(70));
        assert_eq!(group.least(), EventTime::MIN);
        group.reached(task(1), EventTime(30));
        assert_eq!(group.least(), EventTime(30));
        group.reached(task(1), EventTime::MAX);
        assert_eq!(group.least(), EventTime(70));
        group.reached(task(1), EventTime(20));
        assert_eq!(group.least(), EventTime(20), "it is no longer idle");
        group.reached(task(0), EventTime::MAX);
        group.reached(task(1), EventTime::MAX);
        assert_eq!(group.least(), EventTime::MAX);
    }

    #[test]
    fn other_processes_learn_of_the_first_time_and_of_the_end_at_once_and_of_the_rest_at_intervals() {
        let mut group = Aligned::new([task(0)], false, SECOND);
        assert_eq!(group.news(Nanos(5)), None);
        group.reached(task(0), EventTime(10));
        assert_eq!((group.news(Nanos(6)), group.news(Nanos(7))), (Some(EventTime(10)), None));
        group.reached(task(0), EventTime(20));
        assert_eq!(group.news(Nanos(SECOND)), None);
        assert_eq!(group.news(Nanos(SECOND + 6)), Some(EventTime(20)));
        assert_eq!(group.least(), EventTime::MIN, "nothing is known of the others");
        group.elsewhere(EventTime(15));
        assert_eq!(group.least(), EventTime(15));
        group.reached(task(0), EventTime::MAX);
        assert_eq!(group.news(Nanos(SECOND + 7)), Some(EventTime::MAX));
        assert_eq!(group.least(), EventTime(15));
        group.forget_told();
        assert_eq!(group.news(Nanos(SECOND + 8)), Some(EventTime::MAX), "the coordinator is another one");
        let mut without = Aligned::new([], false, SECOND);
        assert_eq!(without.news(Nanos(0)), Some(EventTime::MAX), "no task here holds others back");
    }

    #[test]
    fn news_is_what_is_so_when_it_is_taken() {
        let mut group = Aligned::new([task(0)], false, SECOND);
        group.reached(task(0), EventTime(10));
        assert!(group.has_news(Nanos(1)));
        group.reached(task(0), EventTime(20));
        assert!(!group.has_news(Nanos(2)), "it is known already");
        assert_eq!(group.news(Nanos(3)), Some(EventTime(20)));
        group.reached(task(0), EventTime(30));
        assert!(!group.has_news(Nanos(4)), "not yet");
        assert!(group.has_news(Nanos(SECOND + 3)));
        group.reached(task(0), EventTime(20));
        assert_eq!(group.news(Nanos(SECOND + 4)), None, "it is as it was");
        group.reached(task(0), EventTime::MAX);
        assert!(group.has_news(Nanos(SECOND + 5)));
    }

    #[test]
    fn processes_learn_of_the_others_once_all_have_reported() {
        let all = [process(0), process(1), process(2)];
        let mut processes = Processes::default();
        assert_eq!(processes.reached("g", process(0), EventTime(10), &all), []);
        assert_eq!(processes.reached("g", process(1), EventTime::MAX, &all), [(process(2), EventTime(10))]);
        let news = processes.reached("g", process(2), EventTime(5), &all);
        assert_eq!(news, [(process(0), EventTime(5)), (process(1), EventTime(5))]);
        assert_eq!(processes.reached("g", process(2), EventTime(5), &all), []);
        assert_eq!(processes.reached("another", process(2), EventTime(5), &all), []);
        let alone = [process(3)];
        let mut processes = Processes::default();
        assert_eq!(processes.reached("g", process(3), EventTime(1), &alone), [(process(3), EventTime::MAX)]);
    }

    /// Sources in several processes read at random, as far as they may by what their processes know. Messages
    /// take their time.
    #[test]
    fn sources_stay_within_the_drift_and_all_reach_their_ends() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let drift = rng.below(50) as i64;
            let step_max = 1 + rng.below(20);
            let all: Vec<Process> = (0..1 + rng.below(3) as u32).map(process).collect();
            let owner = |index: u32| all[index as usize % all.len()];
            let tasks: Vec<TaskId> = (0..1 + rng.below(5) as u32).map(task).collect();
            let mut times: BTreeMap<TaskId, i64> = tasks.iter().map(|t| (*t, rng.below(400) as i64)).collect();
            let end = 1000;
            let mut groups: BTreeMap<Process, Aligned> = all
                .iter()
                .map(|p| (*p, Aligned::new(tasks.iter().copied().filter(|t| owner(t.index) == *p), all.len() == 1, 40)))
                .collect();
            let mut coordinator = Processes::default();
            let (mut up, mut down) = (Vec::new(), Vec::new());
            let mut now = 0;
            while times.values().any(|time| *time < end) {
                now += 1;
                assert!(now < 200_000, "seed {seed}: nobody goes on: {times:?}");
                for (process, group) in &mut groups {
                    let due = (all.len() > 1).then(|| group.news(Nanos(now))).flatten();
                    up.extend(due.map(|time| (*process, time)));
                }
                if !up.is_empty() && rng.below(3) == 0 {
                    let (process, time) = up.remove(0);
                    down.extend(coordinator.reached("g", process, time, &all));
                }
                if !down.is_empty() && rng.below(3) == 0 {
                    let (process, time) = down.remove(0);
                    groups.get_mut(&process).expect("a process").elsewhere(time);
                }
                let task = tasks[rng.below(tasks.len() as u64) as usize];
                let group = groups.get_mut(&owner(task.index)).expect("a process");
                let time = times[&task];
                if time >= end {
                    continue;
                }
                group.reached(task, EventTime(time));
                if time > group.least().0.saturating_add(drift) {
                    continue;
                }
                let slowest = times.values().copied().filter(|time| *time < end).min().expect("not at the end");
                assert!(time <= slowest + drift, "seed {seed}: {time} is ahead of {slowest} by more than {drift}");
                let read = time + 1 + rng.below(step_max) as i64;
                times.insert(task, read);
                group.reached(task, if read < end { EventTime(read) } else { EventTime::MAX });
            }
        }
    }
}
