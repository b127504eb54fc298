//! The threads of an incarnation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Epoch, Incarnation, Result, StageId, TaskId};
use anabranch_protocol::coordinator::Report;

use crate::change::handover::Handover;
use crate::change::static_sides::Placement;
use crate::durable::recorder::Recorder;
use crate::network::wiring::Wiring;
use crate::shell::assembly::Assembly;
use crate::shell::stepped::Stepped;
use crate::task::advance::Task;
use crate::task::control::Control;
use crate::task::host::TaskHost;
use crate::task::left::Left;
use crate::task::mail::Mail;
use crate::task::own_threads::OwnThreads;
use crate::task::processor::set_nice;
use crate::task::snapshot::Snapshot;
use crate::task::streaming;
use crate::task::threads::{no_thread, panicked};
use crate::task::view::TaskView;

/// Time limit for cancelled tasks. A task may be stuck in a call of a sink or source that does not return;
/// the process must be able to end all the same.
pub(crate) const END_MAX: Duration = Duration::from_secs(30);

/// The nice value of the thread that writes snapshots: it gets a third of a task's share of a core that both
/// need.
const NICE: i32 = 5;

/// What a job may wait for at its end.
pub(crate) const NO_ANSWER: &str = "an answer from the checkpoint storage";

/// Running tasks. Dropping them cancels them and waits for them, up to a time limit.
pub(crate) struct Running {
    pub(crate) control: Arc<Control>,
    wiring: Arc<Wiring>,
    threads: Arc<Threads>,
    /// The tasks if they are stepped; `None` for a task that has ended.
    pub(crate) stepped: Vec<Option<Stepped>>,
    /// The recorder and its queue if it is stepped.
    pub(crate) recorder: Option<(Recorder, Receiver<Snapshot>)>,
    /// Gets the recorder when its thread ends.
    recorder_ended: Option<Receiver<Recorder>>,
    /// The job as open tables see it, for the tasks of the next plan version.
    host: Arc<TaskHost>,
    plan: Arc<Plan>,
    placement: Placement,
    /// Schedules the threads of the tasks, if the job requests that.
    own_threads: Option<OwnThreads>,
}

/// What drives the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drive {
    Threads,
    /// The caller steps them.
    Steps,
}

/// The threads of tasks that run under one [`Control`].
pub(crate) struct Threads {
    control: Arc<Control>,
    /// The parts that tasks have left for the next plan version.
    left: Mutex<Vec<Left>>,
    handles: Mutex<Vec<Thread>>,
    /// Time limit for cancelled tasks.
    end_max: Duration,
    /// Held while a task ends.
    ending: Mutex<()>,
    changed: Condvar,
}

/// A task's thread.
struct Thread {
    /// The task, for messages.
    place: String,
    has_ended: Arc<AtomicBool>,
    handle: JoinHandle<()>,
}

impl Running {
    /// No tasks yet.
    pub(crate) fn new(
        control: Arc<Control>,
        wiring: Arc<Wiring>,
        host: Arc<TaskHost>,
        (plan, placement): (Arc<Plan>, Placement),
    ) -> Running {
        let threads = Threads {
            control: Arc::clone(&control),
            left: Mutex::default(),
            handles: Mutex::default(),
            end_max: END_MAX,
            ending: Mutex::default(),
            changed: Condvar::new(),
        };
        let (threads, stepped) = (Arc::new(threads), Vec::new());
        let (recorder, recorder_ended, own_threads) = (None, None, None);
        Running { control, wiring, threads, stepped, recorder, recorder_ended, host, plan, placement, own_threads }
    }

    /// Schedules the threads of the tasks, which have started, if the job requests that.
    pub(crate) fn order(&mut self, views: &Arc<[TaskView]>, clock: &Arc<dyn Clock>, drive: Drive) -> Result<()> {
        if let Some(scheduling) = self.plan.options.scheduling.filter(|_| drive == Drive::Threads) {
            self.own_threads = Some(OwnThreads::start(scheduling, &self.plan, Arc::clone(views), Arc::clone(clock))?);
        }
        Ok(())
    }

    /// Creates the tasks of an assembly, which observers see as these `views`, and starts them.
    pub(crate) fn start(&mut self, views: &[TaskView], assembly: Assembly, drive: Drive) -> Result<()> {
        if drive == Drive::Threads && assembly.opens_apart() {
            return self.threads.start_apart(views, &Arc::new(assembly));
        }
        let mut tasks = Vec::with_capacity(views.len());
        for view in views {
            tasks.push(assembly.create(view.id, Arc::clone(&view.counters))?);
            self.control.opened();
        }
        match drive {
            Drive::Threads => self.threads.start(views, tasks),
            Drive::Steps => {
                self.stepped = tasks.into_iter().map(|task| Some(Stepped::new(task))).collect();
                Ok(())
            }
        }
    }

    /// Starts the recorder of the tasks' snapshots. Its thread ends after theirs.
    pub(crate) fn record(
        &mut self,
        (recorder, snapshots): (Recorder, Receiver<Snapshot>),
        mail: Arc<dyn Mail>,
        drive: Drive,
    ) -> Result<()> {
        if drive == Drive::Steps {
            self.recorder = Some((recorder, snapshots));
            return Ok(());
        }
        let (control, (ends, ended)) = (Arc::clone(&self.control), channel());
        let run = move || {
            set_nice(0, NICE);
            let ran = catch_unwind(AssertUnwindSafe(|| recorder.run(&snapshots, mail.as_ref())));
            match ran {
                // The receiver may be gone.
                Ok(recorder) => drop(ends.send(recorder)),
                // Without the recorder there would be no further checkpoint, and nobody would report that.
                Err(panic) => control.failed(TaskId { stage: StageId(0), index: 0 }, panicked(panic.as_ref())),
            }
        };
        let thread = std::thread::Builder::new().name("snapshots".into()).spawn(run);
        thread.map_err(|error| no_thread(&error))?;
        self.recorder_ended = Some(ended);
        Ok(())
    }

    /// Cancels the tasks; each ends at its next check.
    pub(crate) fn cancel(&self) {
        self.control.cancel();
        self.wiring.close();
    }

    /// Cancels the tasks and waits for them. Returns the tasks that do not end, if any: their threads are
    /// abandoned.
    pub(crate) fn end(mut self) -> Option<String> {
        self.cancel();
        self.threads.join();
        let hung = self.unfinished();
        self.threads.handles.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let ended = self.recorder_ended.take().filter(|_| hung.is_none());
        let records = ended.is_some_and(|ended| ended.recv_timeout(END_MAX).err() == Some(RecvTimeoutError::Timeout));
        hung.or_else(|| records.then(|| NO_ANSWER.to_owned()))
    }

    /// Called when all tasks have ended at the end of this epoch, for the next plan version: returns the
    /// parts that they have left. `None`: they have ended otherwise.
    pub(crate) fn hand_over(mut self, incarnation: Incarnation, epoch: Epoch) -> Option<Handover> {
        let is_last = self.control.incarnation() == incarnation && self.control.stop_after() == Some(epoch);
        if !is_last || !self.control.leaves_parts() {
            return None;
        }
        self.host.pass_on();
        let left = std::mem::take(&mut *self.threads.left.lock().unwrap_or_else(PoisonError::into_inner));
        let recorder = match self.recorder.take() {
            Some((recorder, _)) => Some(recorder),
            // Its queue was closed by the last task.
            None => self.recorder_ended.take().and_then(|ended| ended.recv_timeout(END_MAX).ok()),
        };
        let files = recorder.map(Recorder::into_files).unwrap_or_default();
        Some(Handover::new((&self.plan, &self.placement), Arc::clone(&self.host), left, files))
    }

    pub(crate) fn has_ended(&self, task: Task) {
        self.threads.leave(task);
    }

    /// Tasks that have not ended.
    pub(crate) fn unfinished(&self) -> Option<String> {
        let handles = self.threads.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let hung = handles.iter().filter(|thread| !thread.has_ended.load(SeqCst)).map(|thread| thread.place.as_str());
        let hung: Vec<&str> = hung.collect();
        (!hung.is_empty()).then(|| format!("{}, which has not ended since it was cancelled", hung.join(", ")))
    }
}

impl Threads {
    /// Starts the tasks: one thread each, named after its stage.
    fn start(self: &Arc<Self>, views: &[TaskView], tasks: Vec<Task>) -> Result<()> {
        let started = views.iter().zip(tasks).try_for_each(|(view, task)| self.run(view, move || Ok(task)));
        self.started(started)
    }

    fn leave(&self, task: Task) {
        if self.control.leaves_parts() {
            self.left.lock().unwrap_or_else(PoisonError::into_inner).push(task.leave());
        }
    }

    /// Starts the tasks, each of which is created on its own thread: opening tables and reading state take
    /// long. No source reads before all tasks are created.
    fn start_apart(self: &Arc<Self>, views: &[TaskView], assembly: &Arc<Assembly>) -> Result<()> {
        let started = views.iter().try_for_each(|view| {
            let (id, counters) = (view.id, Arc::clone(&view.counters));
            let (assembly, control) = (Arc::clone(assembly), Arc::clone(&self.control));
            self.run(view, move || {
                let task = assembly.create(id, counters)?;
                drop(assembly);
                control.opened();
                if matches!(task, Task::Source(_)) {
                    control.wait_opened();
                }
                Ok(task)
            })
        });
        self.started(started)
    }

    /// Creates a task on a thread of its own and runs it.
    fn run(self: &Arc<Self>, view: &TaskView, task: impl FnOnce() -> Result<Task> + Send + 'static) -> Result<()> {
        let (id, at, control) = (view.id, view.place(), Arc::clone(&self.control));
        let threads = Arc::clone(self);
        let body = move || match task() {
            Ok(task) => streaming::run(task).map(|task| threads.leave(task)).map_err(|error| error.at(at)),
            Err(error) => {
                control.not_opened(id, error);
                Ok(())
            }
        };
        self.spawn(view.id, &view.stage_name, view.place(), body)
    }

    fn started(&self, started: Result<()>) -> Result<()> {
        if started.is_err() {
            self.control.cancel();
        }
        // A cancellation in between has not reached all tasks.
        if self.control.is_cancelled() {
            self.join();
        }
        started
    }

    fn spawn(
        self: &Arc<Self>,
        task: TaskId,
        stage_name: &str,
        place: String,
        body: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (control, threads) = (Arc::clone(&self.control), Arc::clone(self));
        let has_ended = Arc::new(AtomicBool::new(false));
        let (ends, at) = (Arc::clone(&has_ended), place.clone());
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(body));
            let outcome = outcome.unwrap_or_else(|panic| Err(panicked(panic.as_ref()).at(at)));
            if let Err(error) = outcome {
                control.failed(task, error);
            }
            control.report(task, Report::Gone);
            let ending = threads.ending.lock().unwrap_or_else(PoisonError::into_inner);
            ends.store(true, SeqCst);
            drop(ending);
            threads.changed.notify_all();
        };
        // Linux shows 15 bytes of a thread's name.
        let name = format!("{}.{} {stage_name}", task.stage.0, task.index);
        let handle = std::thread::Builder::new().name(name).spawn(run).map_err(|error| no_thread(&error))?;
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).push(Thread { place, has_ended, handle });
        Ok(())
    }

    /// Waits for the threads, at most for [`Threads::end_max`]. Threads that have not ended stay listed.
    fn join(&self) {
        let own = std::thread::current().id();
        let mut threads = std::mem::take(&mut *self.handles.lock().unwrap_or_else(PoisonError::into_inner));
        // A task that could not start the coordinator's thread drops the driver on its own thread, which must
        // not wait for itself.
        threads.retain(|thread| thread.handle.thread().id() != own);
        let ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let has_ended = |thread: &Thread| thread.has_ended.load(SeqCst);
        let waited = self.changed.wait_timeout_while(ending, self.end_max, |()| !threads.iter().all(has_ended));
        drop(waited);
        for thread in threads.extract_if(.., |thread| has_ended(thread)) {
            // A panic was caught inside and has become the task's failure.
            let _ = thread.handle.join();
        }
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).append(&mut threads);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel();
        self.threads.join();
    }
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::{JobOptions, Plan};
    use anabranch_model::{Epoch, Incarnation, KeyGroups, ManualClock};

    use super::*;
    use crate::task::host::HostLife;
    use crate::task::mail::Unheard;

    /// A sink may be stuck in a call that does not return: the end of the job does not wait for it forever,
    /// and names it.
    #[test]
    fn a_task_that_does_not_end_is_named_and_left_behind() {
        let control = Control::new(Incarnation(1), Epoch(0), Arc::new(Unheard), Vec::new(), 1);
        let plan = Plan::new(KeyGroups(128), JobOptions::default(), Vec::new(), Vec::new());
        let life = HostLife { incarnation: Incarnation(1), after: Epoch(0), log: None, control: None, asks: false };
        let host = TaskHost::new("", life, Arc::default(), Arc::new(ManualClock::default()));
        let wiring = Arc::new(Wiring::local(&plan).expect("no channels"));
        let mut running = Running::new(control, wiring, Arc::new(host), (Arc::new(plan), Placement::new()));
        running.threads = Arc::new(Threads {
            control: Arc::clone(&running.control),
            left: Mutex::default(),
            handles: Mutex::default(),
            end_max: Duration::from_millis(20),
            ending: Mutex::default(),
            changed: Condvar::new(),
        });
        let (release, released) = channel::<()>();
        let task = |index| TaskId { stage: StageId(3), index };
        let spawn = |index, body: Box<dyn FnOnce() -> Result<()> + Send>| {
            running.threads.spawn(task(index), "out", format!("stage 3 task {index} (out)"), body).expect("spawned");
        };
        spawn(0, Box::new(|| Ok(())));
        spawn(
            1,
            Box::new(move || {
                let _ = released.recv();
                Ok(())
            }),
        );
        // The first task has ended by then, however busy the machine is.
        let limit = Duration::from_secs(60);
        let ending = running.threads.ending.lock().expect("lock");
        let waits = |(): &mut ()| !running.threads.handles.lock().expect("lock")[0].has_ended.load(SeqCst);
        let (ending, waited) = running.threads.changed.wait_timeout_while(ending, limit, waits).expect("lock");
        assert!(!waited.timed_out(), "the task ends");
        drop(ending);
        let hung = running.end().expect("one does not end");
        assert!(hung.contains("stage 3 task 1 (out)") && !hung.contains("task 0"), "{hung}");
        drop(release);
    }
}
