//! The option `sink.delivery-guarantee`, and the errors of guarantees that cannot be given.

use anabranch_dataflow::Visibility;
use anabranch_model::{Epoch, Error, Result};

use crate::Options;

/// When a job with checkpoints writes the sink's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarantee {
    /// As they arrive. After a failure some are written again.
    AtLeastOnce,
    /// When a checkpoint covers them.
    ExactlyOnce,
}

impl Guarantee {
    pub(crate) fn read(options: &mut Options<'_>) -> Result<Option<Guarantee>> {
        let choices = [("exactly-once", Guarantee::ExactlyOnce), ("at-least-once", Guarantee::AtLeastOnce)];
        options.choice("sink.delivery-guarantee", &choices)
    }
}

/// When the rows of a sink with this guarantee can be seen; without one they are written exactly once.
pub(crate) fn visibility(guarantee: Option<Guarantee>) -> Visibility {
    match guarantee {
        Some(Guarantee::AtLeastOnce) => Visibility::ByEpoch,
        Some(Guarantee::ExactlyOnce) | None => Visibility::ByCheckpoint,
    }
}

/// The error of a table that must be written exactly once, in a job that cannot.
pub(crate) fn no_checkpoints() -> Error {
    Error::user("'sink.delivery-guarantee' is 'exactly-once', but the job keeps no checkpoints")
        .remedy("give it a place for them: SET 'checkpoint-directory' = '...'; or leave the option out")
}

/// The remedy if a job cannot resume from its checkpoints. With a new checkpoint directory the job gets a new
/// name, under which its sinks do not know earlier results.
pub(crate) const START_OVER: &str =
    "start over: empty the tables that the job writes, and give it a new 'checkpoint-directory'";

/// The error of a job that resumes from a checkpoint before its last results. It would repeat epochs, with
/// other rows.
pub(crate) fn has_later_results(written: &str, last: u64, after: Epoch) -> Error {
    let resumes = match after {
        Epoch(0) => "begins without a checkpoint".to_owned(),
        Epoch(after) => format!("resumes after epoch {after}"),
    };
    Error::user(format!(
        "{written} has results up to epoch {last}, but the job {resumes}: results would be written twice"
    ))
    .remedy(format!(
        "if an older copy of the checkpoint directory was put back, put the newest one back instead; or {START_OVER}"
    ))
}
