//! The conformance suite over the connectors that need nothing outside this process but a folder.

#![expect(clippy::unwrap_used, reason = "a test stops at the first error")]

#[path = "conformance/suite.rs"]
mod suite;

#[path = "conformance/deletion.rs"]
mod deletion;
#[path = "conformance/exactly_once.rs"]
mod exactly_once;
#[path = "conformance/files.rs"]
mod files;
#[path = "conformance/generators.rs"]
mod generators;
#[path = "conformance/held.rs"]
mod held;
#[path = "conformance/maps.rs"]
mod maps;
#[path = "conformance/memory.rs"]
mod memory;
#[path = "conformance/rotation.rs"]
mod rotation;
#[path = "conformance/rows.rs"]
mod rows;
#[path = "conformance/writers.rs"]
mod writers;
