//! Jobs from Kafka to Kafka while their process is killed with SIGKILL at random moments.
//!
//! `ANABRANCH_KILLS` is the number of kills (3 by default; 20 in `make chaos`), `ANABRANCH_SEED` determines their times.

#[path = "../../../connectors/tests/support/broker.rs"]
#[allow(dead_code, reason = "these tests use a part of the helper")]
mod broker;
mod cluster;
#[path = "../support/cluster.rs"]
#[allow(dead_code, reason = "these tests use a part of the helper")]
mod harness;
mod main_job;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "these tests use a part of the helper")]
mod process;
mod processes;
mod session_rules;
mod statements;
mod topics;
