//! Drives a task on a thread of its own: waits for what the task needs.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anabranch_model::{Result, TaskCounters};

use crate::task::advance::{Advance, Input, Task};

/// The thread of a task, as observers and tools of the system identify it.
struct Thread(Arc<TaskCounters>);

impl Thread {
    /// The calling thread. Linux identifies it by a link; other systems do not.
    fn enter(counters: Arc<TaskCounters>) -> Thread {
        let link = std::fs::read_link("/proc/thread-self").ok();
        let id = link.as_deref().and_then(|link| link.file_name()?.to_str()?.parse().ok());
        counters.thread.store(id.unwrap_or(0), Relaxed);
        Thread(counters)
    }
}

/// From here on the system may reuse the identifier.
impl Drop for Thread {
    fn drop(&mut self) {
        self.0.thread.store(0, Relaxed);
    }
}

/// Runs a task to its end, and returns it. Counts its busy time, its waits for input, and its waits for room
/// downstream.
pub(crate) fn run(mut task: Task) -> Result<Task> {
    let (clock, counters) = (task.parts().clock.clone(), task.parts().counters.clone());
    let _thread = Thread::enter(Arc::clone(&counters));
    let mut input = None;
    let mut now = clock.now();
    loop {
        let needs = task.advance(now, input.take())?;
        now = task.parts().chain.account(now);
        match needs {
            Advance::Continue => continue,
            Advance::Ended => return Ok(task),
            Advance::Input(until) => {
                // Input that is available is taken at once. If there is none, the task pauses and waits.
                let received = task.receive(Some(Duration::ZERO), None)?;
                if received.is_there() {
                    input = Some(received);
                    continue;
                }
                task.pause()?;
                now = task.parts().chain.account(now);
                let received = task.receive(until.map(|until| until.after(now)), None)?;
                input = Some(received).filter(|received| !matches!(received, Input::Nothing));
            }
            Advance::Settled(epoch) => task.parts().control.wait_settled(epoch),
            Advance::Room => task.parts().chain.wait_for_room(),
            Advance::Release(until) => task.wait_held(now, until),
        }
        let waited = match needs {
            Advance::Room | Advance::Release(_) => &counters.backpressured_ns,
            _ => &counters.idle_ns,
        };
        let after = clock.now();
        TaskCounters::add(waited, after.since(now));
        now = after;
    }
}
