//! The threads of an incarnation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use anabranch_model::{Error, Result};
use anabranch_protocol::coordinator::Report;

use crate::assembly::{Assembly, Task};
use crate::control::Control;
use crate::job::TaskView;

/// How tasks come to do what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drive {
    /// Each has a thread.
    Threads,
    /// Somebody steps them.
    Steps,
}

/// Tasks at work. Whoever drops them ends them, and waits until they have ended.
pub(crate) struct Running {
    pub(crate) control: Arc<Control>,
    pub(crate) views: Arc<[TaskView]>,
    threads: Vec<JoinHandle<()>>,
    /// The tasks if somebody steps them; `None` when a task has ended.
    pub(crate) stepped: Vec<Option<Task>>,
}

impl Running {
    /// Starts the tasks: if they are driven by threads one each, named after its stage.
    pub(crate) fn start(assembly: Assembly, drive: Drive) -> Result<Running> {
        let Assembly { control, views, tasks } = assembly;
        let views: Arc<[TaskView]> = views.into();
        let mut running = Running { control, views: Arc::clone(&views), threads: Vec::new(), stepped: Vec::new() };
        match drive {
            Drive::Threads => views.iter().zip(tasks).try_for_each(|(view, task)| running.spawn(view, task))?,
            Drive::Steps => running.stepped = tasks.into_iter().map(Some).collect(),
        }
        Ok(running)
    }

    fn spawn(&mut self, view: &TaskView, task: Task) -> Result<()> {
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
        self.threads.push(std::thread::Builder::new().name(name).spawn(run).map_err(|error| no_thread(&error))?);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.cancel();
        for thread in self.threads.drain(..) {
            // A panic of the body was caught inside and has become the task's failure.
            let _ = thread.join();
        }
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
