//! All integration tests of the engine as one program, which links once.

mod alignment;
mod arrays;
mod control_threads;
mod coordination;
mod current_watermark;
mod event_time;
mod flat_state;
mod flink;
mod followed;
mod function_catalog;
mod golden;
mod http;
mod idle;
mod late;
mod listing;
mod live;
mod lookup;
mod maps;
mod multi_join;
mod older_checkpoint;
#[path = "../../../connectors/tests/support/postgres.rs"]
mod postgres;
mod reconfiguration;
mod recovery;
#[path = "../../../connectors/tests/support/runner.rs"]
mod runner;
#[path = "../../../state/tests/support/s3.rs"]
mod s3;
mod savepoint;
#[path = "../../../connectors/tests/support/service.rs"]
mod service;
mod shared_sources;
mod state_bytes;
mod stop;
mod support;
mod takeover;
mod updating;
mod why;
