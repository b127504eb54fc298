//! Jobs from Kafka to Kafka while their process is killed with SIGKILL at random moments.
//!
//! `ANABRANCH_KILLS` is the number of kills (3 by default; 20 in `make chaos`), `ANABRANCH_SEED` determines
//! their times.

mod cluster;
mod main_job;
mod processes;
mod session_rules;
mod statements;
