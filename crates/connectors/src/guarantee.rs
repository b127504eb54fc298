//! What a sink promises: `sink.delivery-guarantee`.

use anabranch_model::{Error, Result};

use crate::Options;

/// What a job with checkpoints makes of the sink's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarantee {
    /// They are written as they come; after a failure some are written again.
    AtLeastOnce,
    /// They are written when a checkpoint covers them.
    ExactlyOnce,
}

impl Guarantee {
    /// Reads the option.
    pub(crate) fn read(options: &mut Options<'_>) -> Result<Option<Guarantee>> {
        let choices = [("exactly-once", Guarantee::ExactlyOnce), ("at-least-once", Guarantee::AtLeastOnce)];
        options.choice("sink.delivery-guarantee", &choices)
    }
}

/// The error of a table that must be written exactly once, in a job that cannot.
pub(crate) fn no_checkpoints() -> Error {
    Error::user("'sink.delivery-guarantee' is 'exactly-once', but the job keeps no checkpoints")
        .remedy("give it a place for them: SET 'checkpoint-directory' = '...'; or leave the option out")
}
