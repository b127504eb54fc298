//! The checkpoints of a job as a document.

use serde::Serialize;

use super::super::jobs::Reading;
use super::super::samples::CheckpointMark;

/// A job's checkpoints and restarts.
#[derive(Debug, Serialize)]
pub(in crate::http) struct CheckpointsDocument {
    place: Option<String>,
    completed: u64,
    abandoned: u64,
    last: Option<CheckpointDocument>,
    restarts: u64,
    failures: Vec<FailureDocument>,
    history: Vec<CheckpointMark>,
}

/// A checkpoint.
#[derive(Debug, Serialize)]
struct CheckpointDocument {
    incarnation: u64,
    epoch: u64,
    completed_at_ms: i64,
    took_ms: f64,
    bytes: u64,
}

/// A failure after which the tasks were started again.
#[derive(Debug, Serialize)]
struct FailureDocument {
    at_ms: i64,
    text: String,
}

impl CheckpointsDocument {
    pub(in crate::http) fn of(reading: &Reading, history: Vec<CheckpointMark>) -> Self {
        let status = &reading.status;
        let last = status.last_checkpoint.map(|last| CheckpointDocument {
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
                .map(|restart| FailureDocument { at_ms: reading.wall_ms_of(restart.at), text: restart.failure.clone() })
                .collect(),
            history,
        }
    }
}
