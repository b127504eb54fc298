//! All tests of the program as one program, which links once. They start processes of the binary and real
//! servers.

mod chaos;
mod cli;
mod cluster;
mod documents;
mod jdbc;
mod kafka;
mod machines;
mod osched;
mod otlp;
mod run;
mod savepoint;
mod serve;
mod shell;
mod workers;

#[path = "../../../connectors/tests/support/broker.rs"]
mod broker;
#[path = "../support/collector.rs"]
mod collector;
#[path = "../support/document.rs"]
mod document;
#[path = "../support/cluster.rs"]
mod harness;
#[path = "../../../connectors/tests/support/postgres.rs"]
mod postgres;
#[path = "../support/process.rs"]
mod process;
#[path = "../../../connectors/tests/support/runner.rs"]
mod runner;
#[path = "../../../state/tests/support/s3.rs"]
mod s3;
#[path = "../../../connectors/tests/support/service.rs"]
mod service;
#[path = "../support/terminal.rs"]
mod terminal;
#[path = "../support/topics.rs"]
mod topics;
