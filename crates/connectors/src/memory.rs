//! Memory: tables made of batches or records in this process, for embedding, tests and measurements. The embedder
//! registers them under names of its own; SQL then uses these names as connectors.

mod sink;
mod source;

pub use sink::MemorySink;
pub use source::MemorySource;
