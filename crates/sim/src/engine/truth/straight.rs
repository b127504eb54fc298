//! A query without failures over the inputs up to some positions.

use std::sync::Arc;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Error, ManualClock, Result};
use anabranch_operators::Positions;
use anabranch_plan::fitted;
use anabranch_runtime::stepped::{Parts, SteppedJob};

use super::Counts;
use crate::engine::outside::Shared;
use crate::engine::query::Contents;
use crate::engine::tables::{END, Readers, Tables, count, partition_name};

/// Number of rounds in which a straight run must end.
const ROUNDS: u64 = 100_000;

/// What results are compared with: those of a plan with one task per stage.
pub(crate) struct Reference {
    pub(crate) plan: Plan,
    /// It is run over tables that end at the positions. Otherwise they go on without rows, and event time
    /// stays where it is.
    pub(crate) ends: bool,
}

impl Reference {
    /// Whether rows may be taken back.
    pub(super) fn is_updating(&self) -> bool {
        self.plan.stages.iter().any(|stage| stage.sink.as_ref().is_some_and(|sink| sink.updating))
    }

    /// The results of the inputs up to these positions.
    pub(super) fn run(&self, contents: &Arc<Contents>, upto: &Positions) -> Result<Counts> {
        let plan = &fitted(&self.plan, || Ok(Vec::new()))?;
        let shared = Shared::new(0);
        shared.lock().poll_rows = usize::MAX;
        let mut upto = upto.clone();
        // A table without positions is static: it is read to its end at every start.
        for id in 0..contents["dims"].len() {
            upto.entry(partition_name("dims", id)).or_insert_with(|| END.to_owned());
        }
        let readers = Readers { upto: Some(Arc::new(upto)), ends: self.ends, ..Readers::default() };
        let tables = Tables { shared: shared.clone(), process: 0, contents: Arc::clone(contents), readers };
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let connectors = tables.connectors();
        let parts =
            Parts { plan, connectors: &connectors, clock: &clock, checkpointing: None, origin: None, workers: None };
        let job = SteppedJob::start(parts)?;
        let mut job = job.ok_or_else(|| Error::internal("a job without checkpoints has not ended before"))?;
        let sources = plan.stages.iter().filter(|stage| stage.source.is_some()).count();
        let mut stopped = self.ends;
        for _ in 0..ROUNDS {
            let mut tasks = job.tasks();
            for task in 0..tasks.count() {
                for channel in 0..tasks.channels(task).max(1) {
                    tasks.step(task, channel);
                }
            }
            while job.coordinate() {}
            if !stopped && shared.lock().dry.len() == sources {
                stopped = true;
                job.handle().stop();
            }
            if let Some(outcome) = job.outcome() {
                outcome?;
                let mut counts = Counts::new();
                count(shared.lock().written.iter().map(String::as_str), &mut counts);
                return Ok(counts);
            }
        }
        Err(Error::internal("the straight run does not end"))
    }
}
