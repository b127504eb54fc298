//! Memory: tables of batches or records in this process, for embedding, tests and measurements. The embedding
//! program registers them under names of its choice; SQL then uses these names as connectors.

mod sink;
mod source;

pub use sink::MemorySink;
pub use source::MemorySource;
