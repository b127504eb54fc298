//! Tables without anything behind them.

use std::sync::Arc;

use anabranch_dataflow::{Changes, ConnectorSpec, Lookups, TableTraits, Updates, Versions};
use anabranch_model::{Error, Result};
use anabranch_plan::TableResolver;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// Connectors that know what their tables can do.
pub(crate) struct Connectors;

impl TableResolver for Connectors {
    fn describe(&self, spec: &ConnectorSpec, _columns: &SchemaRef) -> Result<TableTraits> {
        let traits = |bounded, readable, writable, max_readers| TableTraits {
            bounded,
            readable,
            writable,
            max_readers,
            schema: None,
            ..TableTraits::default()
        };
        Ok(match spec.connector.as_str() {
            "kafka" => {
                if !spec.options.contains_key("topic") {
                    return Err(Error::user("a kafka table needs a topic").remedy("add 'topic' = '...'"));
                }
                let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
                let metadata = [("timestamp", time), ("partition", DataType::Int32), ("offset", DataType::Int64)];
                let metadata = metadata.map(|(key, data_type)| Field::new(key, data_type, false));
                let metadata = Some(Arc::new(Schema::new(metadata.to_vec())));
                TableTraits { metadata, written_metadata: &["timestamp"], ..traits(false, true, true, Some(3)) }
            }
            "ad_events" | "stream" => traits(false, true, false, None),
            "single" => traits(false, true, false, Some(1)),
            "filesystem" => TableTraits { lookups: Lookups::Whole, ..traits(true, true, true, None) },
            "http" => TableTraits { lookups: Lookups::ByKey, ..traits(true, false, false, None) },
            "upsert-kafka" => {
                let versions = Some(Versions { order: "offset", deleted: "tombstone" });
                TableTraits { updates: Updates::Upserted, versions, ..traits(false, true, true, None) }
            }
            "jdbc" => {
                let (updates, lookups) = (Updates::UpsertedByKey, Lookups::ByKey);
                TableTraits { updates, lookups, ..traits(true, true, true, Some(1)) }
            }
            "changes" => {
                let metadata = [("place", DataType::Int32), ("time", DataType::Timestamp(TimeUnit::Millisecond, None))];
                let metadata = metadata.map(|(key, data_type)| Field::new(key, data_type, true));
                TableTraits {
                    updates: Updates::Written,
                    metadata: Some(Arc::new(Schema::new(metadata.to_vec()))),
                    versions: Some(Versions { order: "offset", deleted: "tombstone" }),
                    changes: Some(Changes { weight: "weight", kept: &["place"], begins_later: None }),
                    ..traits(false, true, true, Some(3))
                }
            }
            "nexmark" => TableTraits { row_fields: true, ..traits(false, true, false, None) },
            "print" | "blackhole" => TableTraits { updates: Updates::Shown, ..traits(false, false, true, None) },
            "ad_campaigns" => {
                let columns = ["ad_id", "campaign_id"].map(|name| Field::new(name, DataType::Utf8View, false));
                TableTraits {
                    schema: Some(Arc::new(Schema::new(columns.to_vec()))),
                    ..traits(true, true, false, Some(1))
                }
            }
            "timed" => {
                let time = DataType::Timestamp(TimeUnit::Millisecond, None);
                let columns = vec![Field::new("id", DataType::Int64, false), Field::new("dateTime", time, false)];
                TableTraits { schema: Some(Arc::new(Schema::new(columns))), ..traits(false, true, false, Some(1)) }
            }
            other => {
                return Err(Error::user(format!("unknown connector '{other}'")).remedy("use one of: kafka, print"));
            }
        })
    }
}
