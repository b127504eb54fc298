//! All integration tests of the connectors as one program, which links once.

#![expect(clippy::unwrap_used, reason = "a test stops at the first error")]

mod conformance;
mod jdbc;
mod kafka;
mod rows;
mod suite;

#[path = "../support/broker.rs"]
mod broker;
#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/runner.rs"]
mod runner;
