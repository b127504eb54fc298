//! Jobs from Kafka to Kafka while their process is killed with SIGKILL at random moments.
//!
//! `ANABRANCH_KILLS` says how often it is killed (3 by default; `make chaos` kills it 20 times), `ANABRANCH_SEED` when.

#[path = "../../../connectors/tests/support/broker.rs"]
#[allow(dead_code, reason = "these tests use a part of the helper")]
mod broker;
mod main_job;
mod processes;
mod session_rules;
mod topics;
