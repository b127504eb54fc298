//! What observers see of a job: its tasks, notices and restarts, and how it has ended.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_dataflow::{JobOptions, Plan};
use anabranch_model::{Clock, Incarnation, KeyGroupReading, KeyGroups, Nanos, Notices, Result, StageId, TaskMetrics};
use anabranch_protocol::membership::Process;

use crate::shell::coordinator::HERE;
use crate::shell::hearts::Hearts;
use crate::shell::job::Coordination;
use crate::shell::status::Life;
use crate::task::view::{Activity, TaskView};

/// Number of the newest failures with a restart that are kept for the user.
const RESTARTS_KEPT: usize = 100;

/// What the parts of a job show to observers.
pub(crate) struct Shared {
    clock: Arc<dyn Clock>,
    started: Nanos,
    state: Mutex<SharedState>,
    changed: Condvar,
    pub(crate) notices: Arc<Notices>,
    pub(crate) life: Life,
    pub(crate) hearts: Hearts,
}

struct SharedState {
    tasks: Arc<[TaskView]>,
    plan: Option<Arc<Plan>>,
    /// The last metrics of tasks in other processes.
    remote: BTreeMap<Process, Vec<TaskMetrics>>,
    /// The rows of each key group that tasks in other processes have sent, and their incarnation.
    remote_rows: BTreeMap<Process, (Incarnation, Vec<KeyGroupReading>)>,
    restarts: Vec<Restart>,
    coordination: Coordination,
    /// When the job ended.
    ended: Option<Nanos>,
    /// How the job has ended, until the result is taken.
    outcome: Option<Result<()>>,
}

/// A restart of a job's tasks after a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// When they were started again, by the job's clock.
    pub at: Nanos,
    /// The failure.
    pub failure: String,
}

impl Shared {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Shared> {
        let (tasks, coordination) = (Arc::from([]), Coordination::default());
        let (remote, remote_rows, restarts) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let state =
            SharedState { tasks, plan: None, remote, remote_rows, restarts, coordination, ended: None, outcome: None };
        let (state, changed, notices) = (Mutex::new(state), Condvar::new(), Arc::default());
        Arc::new(Shared {
            started: clock.now(),
            clock,
            state,
            changed,
            notices,
            life: Life::default(),
            hearts: Hearts::default(),
        })
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    fn lock(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job runs this plan from now on.
    pub(crate) fn set_plan(&self, plan: Arc<Plan>) {
        self.lock().plan = Some(plan);
    }

    /// The plan that the job runs.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        let plan = self.lock().plan.clone();
        plan.unwrap_or_else(|| Arc::new(Plan::new(KeyGroups(1), JobOptions::default(), Vec::new(), Vec::new())))
    }

    /// Replaces the tasks that observers see.
    pub(crate) fn show(&self, tasks: Arc<[TaskView]>) {
        self.lock().tasks = tasks;
    }

    /// Replaces what observers see of the tasks in another process. `None`: the process is lost.
    pub(crate) fn show_remote(&self, process: Process, metrics: Option<Vec<TaskMetrics>>) {
        let mut state = self.lock();
        match metrics {
            Some(metrics) => state.remote.insert(process, metrics),
            None => {
                self.hearts.forget(process);
                state.remote_rows.remove(&process);
                state.remote.remove(&process)
            }
        };
    }

    /// A reading of every task, in order of stages.
    pub(crate) fn metrics(&self) -> Vec<TaskMetrics> {
        self.placed().into_iter().map(|(_, metrics)| metrics).collect()
    }

    /// Like [`Shared::metrics`], with the process of each task.
    pub(crate) fn placed(&self) -> Vec<(Process, TaskMetrics)> {
        let (now, tasks) = (self.clock.now(), self.tasks());
        let mut placed: Vec<_> = tasks.iter().map(|task| (HERE, task.metrics(now))).collect();
        for (process, metrics) in &self.lock().remote {
            placed.extend(metrics.iter().map(|metrics| (*process, metrics.clone())));
        }
        placed.sort_by_key(|(_, metrics)| metrics.task);
        placed
    }

    /// Replaces the rows of key groups of the tasks in another process.
    pub(crate) fn show_key_groups(&self, process: Process, incarnation: Incarnation, rows: Vec<KeyGroupReading>) {
        self.lock().remote_rows.insert(process, (incarnation, rows));
    }

    /// The rows of each key group that tasks in this process have sent.
    pub(crate) fn own_key_groups(&self) -> Vec<KeyGroupReading> {
        self.tasks().iter().flat_map(|task| task.counters.key_groups(task.id)).collect()
    }

    /// The rows of each key group that the tasks of an incarnation have sent to each stage.
    pub(crate) fn key_groups(&self, incarnation: Incarnation) -> BTreeMap<StageId, Vec<u64>> {
        let mut stages: BTreeMap<StageId, Vec<u64>> = BTreeMap::new();
        let mut add = |reading: &KeyGroupReading| {
            let sums = stages.entry(reading.to).or_insert_with(|| vec![0; reading.rows.len()]);
            sums.iter_mut().zip(&reading.rows).for_each(|(sum, rows)| *sum += rows);
        };
        self.own_key_groups().iter().for_each(&mut add);
        let state = self.lock();
        let remote = state.remote_rows.values().filter(|(other, _)| *other == incarnation);
        remote.flat_map(|(_, rows)| rows).for_each(add);
        stages
    }

    pub(crate) fn tasks(&self) -> Arc<[TaskView]> {
        Arc::clone(&self.lock().tasks)
    }

    /// Late rows of the tasks in this process.
    pub(crate) fn late_rows(&self) -> u64 {
        self.tasks().iter().map(|task| task.counters.late_rows.load(Relaxed)).sum()
    }

    /// The activity of the tasks in this process. It costs less than metrics.
    pub(crate) fn activity(&self) -> Vec<Activity> {
        self.tasks().iter().map(TaskView::activity).collect()
    }

    pub(crate) fn granted(&self, group_epochs: u64, overhead: Option<f64>) {
        let coordination = &mut self.lock().coordination;
        *coordination = Coordination { groups: coordination.groups + 1, group_epochs, overhead };
    }

    /// Notifies the user while the job runs.
    pub(crate) fn notify(&self, text: impl Into<String>) {
        self.life.notified(&self.notices.report(self.clock.now(), text));
    }

    /// The tasks are restarted after this failure.
    pub(crate) fn restarted(&self, failure: String) {
        self.notify(format!("the job restarted after: {failure}"));
        self.life.restarted(&failure);
        let mut state = self.lock();
        if state.restarts.len() == RESTARTS_KEPT {
            state.restarts.remove(0);
        }
        state.restarts.push(Restart { at: self.clock.now(), failure });
    }

    /// The job has ended: no task runs any more.
    pub(crate) fn end(&self, outcome: Result<()>) {
        self.life.ended(&outcome);
        let mut state = self.lock();
        state.ended = Some(self.clock.now());
        state.outcome = Some(outcome);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until the job has ended, at most for `timeout`. Returns whether it has.
    pub(crate) fn wait_timeout(&self, timeout: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, |state| state.ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.ended.is_some()
    }

    pub(crate) fn coordination(&self) -> Coordination {
        self.lock().coordination
    }

    pub(crate) fn restarts(&self) -> Vec<Restart> {
        self.lock().restarts.clone()
    }

    /// Waits for the end. Returns how long the job ran, and how it ended, unless the result was taken before.
    pub(crate) fn wait(&self) -> (Duration, Option<Result<()>>) {
        let mut state = self.lock();
        loop {
            match state.ended {
                Some(ended) => return (ended.after(self.started), state.outcome.take()),
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::{ManualClock, TaskCounters, TaskId};

    use super::*;

    #[test]
    fn a_task_is_idle_while_only_its_epochs_and_its_waits_go_on() {
        let shared = Shared::new(Arc::new(ManualClock::default()));
        let counters = Arc::<TaskCounters>::default();
        let task = TaskView {
            id: TaskId { stage: StageId(0), index: 0 },
            stage_name: "source".to_owned(),
            is_source: true,
            is_sink: false,
            restores: false,
            keeps_windows: false,
            counters: Arc::clone(&counters),
            inbox: None,
        };
        shared.show(Arc::from([task]));
        let before = shared.activity();
        counters.epoch.store(7, Relaxed);
        TaskCounters::add(&counters.idle_ns, 100);
        TaskCounters::add(&counters.busy_ns, 1);
        assert_eq!(Activity::rows_since(&shared.activity(), &before), Some(0));
        for counter in [&counters.rows_in, &counters.rows_out, &counters.late_rows, &counters.malformed_rows] {
            let before = shared.activity();
            TaskCounters::add(counter, 3);
            assert_eq!(Activity::rows_since(&shared.activity(), &before), Some(3));
        }
        let before = shared.activity();
        counters.is_prepared.store(true, Relaxed);
        assert_eq!(Activity::rows_since(&shared.activity(), &before), None, "it is another condition");
    }
}
