//! Where state and checkpoints are kept.

use anabranch_dataflow::StateBackendKind;
use anabranch_model::{Error, Result};

use super::{Settings, own_name};

const CHECKPOINT_INTERVAL: &str = "checkpoint-interval";
const NO_CHECKPOINTS: &str = "checkpoint-interval has no effect: the job takes no checkpoints, since it has no directory for them; give it \
                              one: SET 'checkpoint-directory' = '/path', or --set checkpoint-directory=/path";

impl Settings {
    /// What a statement that sets the interval of checkpoints does not know: without a directory, the job takes none.
    pub(crate) fn no_checkpoints(&self) -> Option<&'static str> {
        let sets_interval = self.changes.iter().any(|(name, _)| own_name(name) == CHECKPOINT_INTERVAL);
        (sets_interval && self.job.checkpoints.is_none()).then_some(NO_CHECKPOINTS)
    }

    /// Whether an option, by any of its names, is the interval of checkpoints.
    pub(crate) fn is_checkpoint_interval(name: &str) -> bool {
        own_name(name) == CHECKPOINT_INTERVAL
    }
}

/// `memory` or `disk`, and their names in other systems.
pub(super) fn parse_backend(text: &str) -> Result<StateBackendKind> {
    match text.trim().to_lowercase().as_str() {
        "memory" | "hashmap" | "filesystem" | "jobmanager" => Ok(StateBackendKind::Memory),
        "disk" | "rocksdb" | "forst" => Ok(StateBackendKind::Disk),
        _ => Err(Error::user(format!("'{text}' is not a state backend")).remedy("use 'memory' or 'disk'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_have_the_names_of_flink_too() {
        for (text, expected) in [
            ("hashmap", StateBackendKind::Memory),
            ("filesystem", StateBackendKind::Memory),
            ("jobmanager", StateBackendKind::Memory),
            ("rocksdb", StateBackendKind::Disk),
            ("forst", StateBackendKind::Disk),
        ] {
            assert_eq!(parse_backend(text).expect(text), expected);
        }
        assert!(parse_backend("floppy").is_err());
    }
}
