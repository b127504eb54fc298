//! Connectors and formats.
//!
//! `kafka`, `upsert-kafka`, `filesystem` and `jdbc` (PostgreSQL) read and write tables. `http` looks up rows
//! by key. `datagen`, `faker`, `ad_events`, `ad_campaigns` and `nexmark` generate rows. `print` and
//! `blackhole` only write. [`MemorySource`] and [`MemorySink`] are for programs and tests.
//!
//! A format converts between the bytes of records and columns: `json`, `csv`, `raw`, and `debezium-json` for
//! changes of rows. Files can also be `parquet`.

mod blackhole;
mod columns;
mod filesystem;
pub mod format;
mod generator;
mod guarantee;
mod http;
mod info;
mod jdbc;
pub mod kafka;
mod lookup;
mod memory;
mod options;
mod outage;
mod ownership;
mod positions;
mod print;
mod room;
mod wait;

use std::sync::Arc;

use anabranch_operators::Connectors;

pub use blackhole::BlackholeConnector;
pub use filesystem::FilesystemConnector;
pub use generator::{AdCampaignsConnector, AdEventsConnector, DatagenConnector, FakerConnector, NexmarkConnector};
pub use http::HttpConnector;
pub use info::{COMMON_OPTIONS, CONNECTORS, ConnectorInfo, connector_info};
pub use jdbc::JdbcConnector;
pub use memory::{MemorySink, MemorySource};
pub use options::Options;
pub use print::{PrintConnector, Printed};

/// The connectors that SQL can name in the option `connector`. The connectors in memory have no such name: a
/// program registers each under a name of its own.
#[must_use]
pub fn standard() -> Connectors {
    let mut connectors = Connectors::default();
    connectors.register("ad_campaigns", Arc::new(AdCampaignsConnector));
    connectors.register("ad_events", Arc::new(AdEventsConnector));
    connectors.register("blackhole", Arc::new(BlackholeConnector::default()));
    connectors.register("datagen", Arc::new(DatagenConnector));
    connectors.register("faker", Arc::new(FakerConnector));
    connectors.register("filesystem", Arc::new(FilesystemConnector));
    connectors.register("http", Arc::new(HttpConnector));
    connectors.register("jdbc", Arc::new(JdbcConnector));
    connectors.register("kafka", Arc::new(kafka::KafkaConnector));
    connectors.register("upsert-kafka", Arc::new(kafka::UpsertKafkaConnector));
    connectors.register("nexmark", Arc::new(NexmarkConnector));
    connectors.register("print", Arc::new(PrintConnector::default()));
    connectors
}
