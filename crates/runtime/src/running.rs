//! The threads of an incarnation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Error, Result, TaskId};
use anabranch_protocol::coordinator::Report;

use crate::control::Control;
use crate::job::TaskView;
use crate::stepped::Stepped;
use crate::streaming;
use crate::task::Task;

/// Time that cancelled tasks have to end. A task may be stuck in a call of a sink or source that does not return; the process
/// must be able to end all the same.
pub(crate) const END_MAX: Duration = Duration::from_secs(30);

/// Running tasks. Dropping them cancels them and waits until they have ended, but not forever.
pub(crate) struct Running {
    pub(crate) control: Arc<Control>,
    threads: Arc<Threads>,
    /// The tasks if they are stepped; `None` when a task has ended.
    pub(crate) stepped: Vec<Option<Stepped>>,
}

/// What drives the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drive {
    /// Each has a thread.
    Threads,
    /// The caller steps them.
    Steps,
}

/// The threads of tasks that run under one [`Control`].
pub(crate) struct Threads {
    control: Arc<Control>,
    handles: Mutex<Vec<Thread>>,
    /// Time that cancelled tasks have to end.
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
    /// No task runs yet: they are started by [`Threads::start`].
    pub(crate) fn new(control: Arc<Control>) -> Running {
        let threads = Threads {
            control: Arc::clone(&control),
            handles: Mutex::default(),
            end_max: END_MAX,
            ending: Mutex::default(),
            changed: Condvar::new(),
        };
        Running { control, threads: Arc::new(threads), stepped: Vec::new() }
    }

    /// Lets the tasks of an assembly run.
    pub(crate) fn start(&mut self, views: &[TaskView], tasks: Vec<Task>, drive: Drive) -> Result<()> {
        match drive {
            Drive::Threads => self.threads.start(views, tasks),
            Drive::Steps => {
                self.stepped = tasks.into_iter().map(|task| Some(Stepped::new(task))).collect();
                Ok(())
            }
        }
    }

    pub(crate) fn threads(&self) -> Arc<Threads> {
        Arc::clone(&self.threads)
    }

    /// Cancels the tasks and waits for them. Returns those that do not end, if any: their threads are abandoned.
    pub(crate) fn end(self) -> Option<String> {
        self.control.cancel();
        self.threads.join();
        let hung = self.unfinished();
        self.threads.handles.lock().unwrap_or_else(PoisonError::into_inner).clear();
        hung
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
    pub(crate) fn start(self: &Arc<Self>, views: &[TaskView], tasks: Vec<Task>) -> Result<()> {
        let started = views.iter().zip(tasks).try_for_each(|(view, task)| {
            self.spawn((view.id, &view.stage_name, view.place()), move || streaming::run(task))
        });
        if started.is_err() {
            self.control.cancel();
        }
        // A cancellation meanwhile does not know all tasks.
        if self.control.is_cancelled() {
            self.join();
        }
        started
    }

    fn spawn(
        self: &Arc<Self>,
        (task, name, place): (TaskId, &str, String),
        body: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (control, threads) = (Arc::clone(&self.control), Arc::clone(self));
        let has_ended = Arc::new(AtomicBool::new(false));
        let (ends, at) = (Arc::clone(&has_ended), place.clone());
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
            if let Err(error) = outcome {
                control.failed(task, error.at(at));
            }
            control.report(task, Report::Gone);
            let ending = threads.ending.lock().unwrap_or_else(PoisonError::into_inner);
            ends.store(true, SeqCst);
            drop(ending);
            threads.changed.notify_all();
        };
        // Linux shows 15 bytes of a thread's name.
        let name: String = format!("{}.{} {name}", task.stage.0, task.index);
        let handle = std::thread::Builder::new().name(name).spawn(run).map_err(|error| no_thread(&error))?;
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).push(Thread { place, has_ended, handle });
        Ok(())
    }

    /// Waits for the threads, at most for [`Threads::end_max`]. Those that have not ended stay listed.
    fn join(&self) {
        let own = std::thread::current().id();
        let mut threads = std::mem::take(&mut *self.handles.lock().unwrap_or_else(PoisonError::into_inner));
        // A task that could not start the coordinator's thread drops the driver, and must not wait for itself.
        threads.retain(|thread| thread.handle.thread().id() != own);
        let ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let has_ended = |thread: &Thread| thread.has_ended.load(SeqCst);
        let waited = self.changed.wait_timeout_while(ending, self.end_max, |()| !threads.iter().all(has_ended));
        drop(waited);
        for thread in threads.extract_if(.., |thread| has_ended(thread)) {
            // A panic of the body was caught inside and has become the task's failure.
            let _ = thread.handle.join();
        }
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).append(&mut threads);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.cancel();
        self.threads.join();
    }
}

/// A panic as an error.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message");
    Error::internal(format!("panic: {text}"))
}

/// A thread could not be started.
pub(crate) fn no_thread(error: &std::io::Error) -> Error {
    Error::outside(format!("cannot start a thread: {error}"))
        .remedy("lower the parallelism, or raise the limit of threads (ulimit -u)")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use anabranch_model::{Epoch, Incarnation, ManualClock, StageId};

    use super::*;
    use crate::job::Shared;
    use crate::mailbox::Mailbox;

    /// A sink may be stuck in a call that does not return: the end of the job does not wait for it forever, and names
    /// it.
    #[test]
    fn a_task_that_does_not_end_is_named_and_left_behind() {
        let (sender, _received) = channel();
        let mailbox = Mailbox::new(sender, Shared::new(Arc::new(ManualClock::default())));
        let control = Control::new(Incarnation(1), Epoch(0), mailbox, Vec::new());
        let mut running = Running::new(control);
        running.threads = Arc::new(Threads {
            control: Arc::clone(&running.control),
            handles: Mutex::default(),
            end_max: Duration::from_millis(20),
            ending: Mutex::default(),
            changed: Condvar::new(),
        });
        let (release, released) = channel::<()>();
        let task = |index| TaskId { stage: StageId(3), index };
        let spawn = |index, body: Box<dyn FnOnce() -> Result<()> + Send>| {
            running.threads.spawn((task(index), "out", format!("stage 3 task {index} (out)")), body).expect("spawned");
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
