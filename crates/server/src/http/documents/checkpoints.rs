//! The checkpoints of a job as a document.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::jobs::Reading;
use super::super::samples::CheckpointMark;

/// A job's checkpoints and restarts, in this process.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Checkpoints")]
pub(in crate::http) struct CheckpointsDocument {
    /// Where they are kept. Null: the job takes none.
    place: Option<String>,
    completed: u64,
    /// Begun and not completed.
    abandoned: u64,
    last: Option<Checkpoint>,
    /// How often its tasks were started again.
    restarts: u64,
    /// The failures before the restarts, oldest first; the newest 100.
    failures: Vec<Failure>,
    /// The newest 100, oldest first; one that follows within a second of another may be missing.
    history: Vec<CheckpointMark>,
}

/// A completed checkpoint.
#[derive(Debug, Serialize, JsonSchema)]
struct Checkpoint {
    incarnation: u64,
    /// The epoch at whose end it was taken.
    epoch: u64,
    completed_at_ms: i64,
    /// From its request to its commit.
    took_ms: f64,
    /// Size of the files that it refers to.
    bytes: u64,
}

/// A failure after which the tasks were started again.
#[derive(Debug, Serialize, JsonSchema)]
struct Failure {
    /// When they were started again.
    at_ms: i64,
    text: String,
}

impl CheckpointsDocument {
    pub(in crate::http) fn of(reading: &Reading, history: Vec<CheckpointMark>) -> Self {
        let status = &reading.status;
        let last = status.last_checkpoint.map(|last| Checkpoint {
            incarnation: last.committed.incarnation.0,
            epoch: last.committed.epoch.0,
            completed_at_ms: reading.wall_ms_of(last.at),
            took_ms: last.took.as_secs_f64() * 1e3,
            bytes: last.bytes,
        });
        let failures = reading.failures.iter();
        CheckpointsDocument {
            place: reading.checkpoints.clone(),
            completed: status.checkpoints_completed,
            abandoned: status.checkpoints_abandoned,
            last,
            restarts: status.restarts,
            failures: failures
                .map(|restart| Failure { at_ms: reading.wall_ms_of(restart.at), text: restart.failure.clone() })
                .collect(),
            history,
        }
    }
}
