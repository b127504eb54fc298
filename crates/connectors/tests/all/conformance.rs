//! The conformance suite over the connectors that need nothing outside this process but a folder.

mod deletion;
mod exactly_once;
mod files;
mod folder;
mod generators;
mod held;
mod maps;
mod memory;
mod remedies;
mod rotation;
mod writers;
