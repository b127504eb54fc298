//! The integration tests of state as one program, which links once.

mod power;
mod store;

#[path = "../../../connectors/tests/support/runner.rs"]
mod runner;
#[path = "../support/s3.rs"]
mod s3;
