//! Where state is stored: outside of an operator's tables on a local disk, and in checkpoints, which are
//! state files, manifests and the job's log in an object store. Formats are types of their own, versioned and
//! verified by checksums. Damage is distinguished from absence.

mod contents;
mod file;
mod log;
#[cfg(test)]
mod lossy;
mod manifest;
mod narrow;
mod request;
mod runs;
mod savepoint;
mod store;

pub use anabranch_dataflow::KeptPart;
pub use contents::{Contents, Stored};
pub use file::{decode_rows, encode_rows, pieces, read_rows};
pub use log::{Appended, Entry, Found, Log};
pub use manifest::{
    FORMAT, Manifest, OperatorState, Others, Prepared, SinkState, SourceState, StateFile, TaskState, decode_manifest,
    encode_manifest,
};
pub use request::{Answer, Asked, REQUEST_FORGOTTEN_MS, Request};
pub use runs::{
    BUCKETS, HashKeys, KeyedRuns, KeyedTable, LatestTime, Merge, NewMerge, Ordered, PaneRuns, Run, hashes_of_window,
    in_window,
};
pub use savepoint::{Savepoint, check_empty};
pub use store::{Access, Blob, CopiedTask, Disk, DiskEntry, DiskFault, LocalCopies, ModelDisk, OsDisk, Store};
