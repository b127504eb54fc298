//! The threads of an incarnation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use anabranch_model::{Error, Result};
use anabranch_protocol::coordinator::Report;

use crate::assembly::{Assembly, TaskBody};
use crate::control::Control;
use crate::job::TaskView;

/// Tasks at work. Whoever drops them ends them, and waits until they have ended.
pub(crate) struct Running {
    pub(crate) control: Arc<Control>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Starts the tasks: one thread each, named after its stage.
    pub(crate) fn start(assembly: Assembly) -> Result<(Running, Arc<[TaskView]>)> {
        let Assembly { control, views, bodies } = assembly;
        let mut running = Running { control, threads: Vec::with_capacity(bodies.len()) };
        for (view, body) in views.iter().zip(bodies) {
            running.spawn(view, body)?;
        }
        Ok((running, views.into()))
    }

    fn spawn(&mut self, view: &TaskView, body: TaskBody) -> Result<()> {
        let task = view.id;
        let place = format!("{} task {} ({})", task.stage, task.index, view.stage_name);
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
