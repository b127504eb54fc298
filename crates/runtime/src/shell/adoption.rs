//! Finds the tasks that run at workers without a coordinator.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Clock, Epoch, Incarnation};
use anabranch_protocol::coordinator::Tasks;
use anabranch_protocol::membership::Process;
use anabranch_protocol::peers::adoptable;
use anabranch_protocol::worker::Hosting;
use serde::{Deserialize, Serialize};

use crate::durable::takeover::Running;

/// Pause between two checks for workers with tasks of a job.
const LOOK: Duration = Duration::from_millis(20);

/// The tasks of a job that run at a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hosted {
    /// The tasks.
    pub hosting: Hosting,
    /// The fingerprint of their plan.
    pub plan: u64,
    /// The checkpoint from which they have started.
    #[serde(default)]
    pub from: Option<(Incarnation, Epoch)>,
}

/// The tasks that run without a coordinator, if all of them do, and where they are. Waits up to this time for
/// missing tasks.
pub(crate) fn running(
    all: &Tasks,
    hosted: &dyn Fn() -> Vec<(Process, Hosted)>,
    patience: Duration,
    clock: &dyn Clock,
) -> (Option<Running>, BTreeMap<Process, Tasks>) {
    let until = clock.now().plus(patience);
    loop {
        let hosted = hosted();
        if let Some(found) = complete(all, &hosted) {
            return (Some(found.0), found.1);
        }
        if clock.now() >= until {
            return (None, BTreeMap::new());
        }
        anabranch_model::pause(LOOK);
    }
}

/// The newest incarnation, if all of its tasks run, with one plan and from one checkpoint.
fn complete(all: &Tasks, hosted: &[(Process, Hosted)]) -> Option<(Running, BTreeMap<Process, Tasks>)> {
    let (incarnation, found) =
        adoptable(all, hosted.iter().map(|(process, running)| (*process, running.hosting.clone())))?;
    let mut running = hosted
        .iter()
        .filter(|(process, _)| found.contains_key(process))
        .map(|(_, running)| (running.plan, running.from));
    let (plan, from) = running.next()?;
    running.all(|other| other == (plan, from)).then_some((Running { incarnation, plan, from }, found))
}
