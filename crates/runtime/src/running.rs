//! The threads of an incarnation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anabranch_model::{Error, Result};
use anabranch_protocol::coordinator::Report;

use crate::assembly::Task;
use crate::control::Control;
use crate::job::TaskView;

/// Tasks at work. Whoever drops them ends them, and waits until they have ended.
pub(crate) struct Running {
    pub(crate) control: Arc<Control>,
    threads: Arc<Threads>,
    /// The tasks if they are stepped; `None` when a task has ended.
    pub(crate) stepped: Vec<Option<Task>>,
}

/// Who lets tasks do what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drive {
    /// Each has a thread.
    Threads,
    /// Somebody steps them.
    Steps,
}

/// The threads of tasks that run under one [`Control`].
pub(crate) struct Threads {
    control: Arc<Control>,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl Running {
    /// No task runs yet: they are started by [`Threads::start`].
    pub(crate) fn new(control: Arc<Control>) -> Running {
        let threads = Threads { control: Arc::clone(&control), handles: Mutex::default() };
        Running { control, threads: Arc::new(threads), stepped: Vec::new() }
    }

    /// Lets the tasks of an assembly run.
    pub(crate) fn start(&mut self, views: &[TaskView], tasks: Vec<Task>, drive: Drive) -> Result<()> {
        match drive {
            Drive::Threads => self.threads.start(views, tasks),
            Drive::Steps => {
                self.stepped = tasks.into_iter().map(Some).collect();
                Ok(())
            }
        }
    }

    pub(crate) fn threads(&self) -> Arc<Threads> {
        Arc::clone(&self.threads)
    }
}

impl Threads {
    /// Starts the tasks: one thread each, named after its stage.
    pub(crate) fn start(&self, views: &[TaskView], tasks: Vec<Task>) -> Result<()> {
        let started = views.iter().zip(tasks).try_for_each(|(view, task)| self.spawn(view, task));
        if started.is_err() {
            self.control.cancel();
        }
        // Whoever has cancelled them meanwhile does not know of all.
        if self.control.is_cancelled() {
            self.join();
        }
        started
    }

    fn spawn(&self, view: &TaskView, task: Task) -> Result<()> {
        let body = move || task.run();
        let (task, place) = (view.id, view.place());
        let control = Arc::clone(&self.control);
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
            if let Err(error) = outcome {
                control.failed(task, error.at(place));
            }
            control.report(task, Report::Gone);
        };
        // Linux shows 15 bytes of a thread's name.
        let name: String = format!("{}.{} {}", task.stage.0, task.index, view.stage_name);
        let handle = std::thread::Builder::new().name(name).spawn(run).map_err(|error| no_thread(&error))?;
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
        Ok(())
    }

    fn join(&self) {
        let handles = std::mem::take(&mut *self.handles.lock().unwrap_or_else(PoisonError::into_inner));
        let own = std::thread::current().id();
        // A task that could not start the coordinator's thread drops the driver, and must not wait for itself.
        for handle in handles.into_iter().filter(|handle| handle.thread().id() != own) {
            // A panic of the body was caught inside and has become the task's failure.
            let _ = handle.join();
        }
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
