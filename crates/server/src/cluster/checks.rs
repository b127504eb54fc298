//! Which jobs a coordinator refuses.

use std::sync::Arc;

use anabranch_dataflow::Plan;
use anabranch_model::{Error, Result};
use anabranch_state::Store;

use super::coordinator::Shared;
use super::record::State;
use super::submitted::Submitted;
use crate::http::{Refusal, Running, ServedJob as _};

/// Longest name of a job: it is part of the names of files.
const NAME_CHARS_MAX: usize = 100;

impl Shared {
    /// Refuses tables that exist only in one process.
    pub(super) fn check(&self, plan: &Plan) -> Result<()> {
        for stage in &plan.stages {
            let source = stage.source.as_ref().map(|source| (&source.table, &source.connector));
            let sink = stage.sink.as_ref().map(|sink| (&sink.table, &sink.connector));
            for (table, spec) in source.into_iter().chain(sink) {
                if self.engine.connectors().get(&spec.connector)?.is_of_process() {
                    let why = format!("connector '{}' writes to the terminal of one process", spec.connector);
                    let error = Error::user(format!("{why}, and a coordinator's jobs have none"));
                    return Err(error.at(format!("table {table}")).remedy(
                        "write to Kafka or to files ('connector' = 'filesystem'); to see rows, use anabranch run or sql",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Refuses a job whose checkpoints would be where those of another one are: each would take the other one
    /// over, again and again.
    pub(super) fn check_place(&self, name: &str, running: &Running) -> Result<(), Refusal> {
        let Some(place) = running.store.as_ref().map(Store::place) else { return Ok(()) };
        let Some(other) = self.other_at(name, place, |state| state == State::Running) else { return Ok(()) };
        let error = Error::user(format!("the running job '{other}' keeps its checkpoints there")).at(place.to_owned());
        Err(Refusal::Conflict(error.remedy(format!(
            "give the job a place of its own (--set checkpoint-directory=PLACE), or stop the other one: anabranch stop {other}"
        ))))
    }

    /// Refuses to remove checkpoints from which another job runs, or would resume.
    pub(super) fn check_removal(&self, name: &str, place: &str) -> Result<(), Refusal> {
        let Some(other) = self.other_at(name, place, |state| state != State::Ended) else { return Ok(()) };
        let error = Error::user(format!("the job '{other}' keeps its checkpoints there, too")).at(place.to_owned());
        Err(Refusal::Conflict(error.remedy(format!(
            "keep '{name}' as long as '{other}' has its checkpoints there: stop and remove that one first"
        ))))
    }

    /// Another job whose checkpoints are at this place, in such a state.
    fn other_at(&self, name: &str, place: &str, is_so: impl Fn(State) -> bool) -> Option<String> {
        let is_there = |job: &Arc<Submitted>| {
            let running = job.running();
            job.name() != name && is_so(job.state()) && running.store.as_ref().map(Store::place) == Some(place)
        };
        self.jobs().values().find(|job| is_there(job)).map(|job| job.name().to_owned())
    }
}

/// Refuses what cannot be part of a place.
pub(super) fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
        return Err(Error::user(format!("'{name}' cannot be the name of a job"))
            .remedy(format!("use at most {NAME_CHARS_MAX} letters of ASCII, digits, hyphens and underscores")));
    }
    Ok(())
}
