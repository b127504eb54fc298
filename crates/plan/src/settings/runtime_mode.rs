//! `execution.runtime-mode`: whether results are emitted once or updated.

use anabranch_model::{Error, Result};

/// What an aggregation without a window emits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RuntimeMode {
    /// Final results where all tables end, updated ones elsewhere.
    #[default]
    Automatic,
    /// Updated results.
    Streaming,
    /// Final results. Tables that do not end are refused.
    Batch,
}

impl RuntimeMode {
    const ALL: [RuntimeMode; 3] = [RuntimeMode::Automatic, RuntimeMode::Streaming, RuntimeMode::Batch];

    pub(crate) fn name(self) -> &'static str {
        match self {
            RuntimeMode::Automatic => "automatic",
            RuntimeMode::Streaming => "streaming",
            RuntimeMode::Batch => "batch",
        }
    }

    pub(super) fn parse(text: &str) -> Result<RuntimeMode> {
        RuntimeMode::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(text.trim())).ok_or_else(|| {
            Error::user(format!("'{text}' is not a runtime mode")).remedy("use 'automatic', 'streaming' or 'batch'")
        })
    }
}
