//! Descriptions of connectors for users: for `SHOW CONNECTORS`, and for completion.

use crate::format::Format;

/// A description of a connector.
#[derive(Debug)]
pub struct ConnectorInfo {
    /// Its name.
    pub name: &'static str,
    /// The kind of its tables.
    pub tables: &'static str,
    /// Required options, with example values.
    pub needed: &'static [(&'static str, &'static str)],
    /// Further options; a name that ends in `*` stands for a prefix.
    pub options: &'static [&'static str],
    /// The formats that the option `format` names; empty without it.
    pub formats: &'static [&'static str],
}

/// Options of tables of every connector.
pub const COMMON_OPTIONS: &[&str] = &crate::options::PLAN_OPTIONS;

/// All connectors of [`crate::standard`], by their names.
pub const CONNECTORS: [ConnectorInfo; 12] = [
    ConnectorInfo {
        name: "ad_campaigns",
        tables: "generated: the campaign of each ad of 'ad_events'",
        needed: &[],
        options: &["seed"],
        formats: &[],
    },
    ConnectorInfo {
        name: "ad_events",
        tables: "generated: views, clicks and purchases of ads",
        needed: &[],
        options: &[
            "format",
            "malformed-every",
            "number-of-rows",
            "out-of-orderness",
            "partitions",
            "rows-per-second",
            "seed",
            "start-time",
        ],
        formats: &["json"],
    },
    ConnectorInfo { name: "blackhole", tables: "rows that are dropped", needed: &[], options: &[], formats: &[] },
    ConnectorInfo {
        name: "datagen",
        tables: "generated: rows by chance, for any columns",
        needed: &[],
        options: &["fields.*", "number-of-rows", "partitions", "rows-per-second", "seed", "start-time"],
        formats: &[],
    },
    ConnectorInfo {
        name: "faker",
        tables: "generated: texts such as names and addresses, by the expressions of flink-faker",
        needed: &[],
        options: &["fields.*", "number-of-rows", "partitions", "rows-per-second", "seed", "start-time"],
        formats: &[],
    },
    ConnectorInfo {
        name: "filesystem",
        tables: "files of a local directory",
        needed: &[("path", "/tmp/data"), ("format", "json")],
        options: &[
            "auto-compaction",
            "compaction.file-size",
            "compression",
            "partition-keys",
            "partition.default-name",
            "partition.time-extractor.kind",
            "partition.time-extractor.timestamp-pattern",
            "sink.partition-commit.delay",
            "sink.partition-commit.policy.kind",
            "sink.partition-commit.success-file.name",
            "sink.partition-commit.trigger",
            "sink.partition-commit.watermark-time-zone",
            "sink.rolling-interval",
            "sink.rolling-policy.check-interval",
            "sink.rolling-policy.file-size",
            "sink.rolling-policy.inactivity-interval",
            "sink.rolling-policy.rollover-interval",
            "sink.rolling-size",
            "source.monitor-interval",
        ],
        formats: &["json", "csv", "parquet", "raw"],
    },
    ConnectorInfo {
        name: "http",
        tables: "a service that is asked for rows by their keys",
        needed: &[("url", "http://localhost:8080")],
        options: &["format", "header.*", "request.max-concurrent", "request.max-keys", "request.timeout", "token"],
        formats: &["json"],
    },
    ConnectorInfo {
        name: "jdbc",
        tables: "a table of PostgreSQL",
        needed: &[("url", "jdbc:postgresql://localhost:5432/db"), ("table-name", "orders")],
        options: &[
            "connection.max-retry-timeout",
            "driver",
            "password",
            "scan.auto-commit",
            "scan.fetch-size",
            "scan.partition.column",
            "scan.partition.lower-bound",
            "scan.partition.num",
            "scan.partition.upper-bound",
            "sink.buffer-bytes",
            "sink.buffer-flush.interval",
            "sink.buffer-flush.max-rows",
            "sink.delivery-guarantee",
            "sink.delivery.timeout",
            "sink.max-retries",
            "username",
        ],
        formats: &[],
    },
    ConnectorInfo {
        name: "kafka",
        tables: "a topic of Kafka",
        needed: &[("topic", "orders"), ("properties.bootstrap.servers", "localhost:9092"), ("format", "json")],
        options: &[
            "connection.timeout",
            "key.fields",
            "key.fields-prefix",
            "key.format",
            "properties.*",
            "scan.bounded.mode",
            "scan.bounded.specific-offsets",
            "scan.bounded.timestamp-millis",
            "scan.startup.mode",
            "scan.startup.specific-offsets",
            "scan.startup.timestamp-millis",
            "scan.topic-partition-discovery.interval",
            "sink.buffer-bytes",
            "sink.delivery-guarantee",
            "sink.delivery.timeout",
            "sink.partitioner",
            "sink.topic.partitions",
            "sink.transactional-id-prefix",
            "topic-pattern",
            "value.fields-include",
            "value.format",
        ],
        formats: &["json", "csv", "raw", "debezium-json"],
    },
    ConnectorInfo {
        name: "nexmark",
        tables: "generated: persons, auctions and bids",
        needed: &[],
        options: &[
            "auction.avg-size",
            "auction.hot-ratio.sellers",
            "auction.proportion",
            "bid.avg-size",
            "bid.hot-ratio.auctions",
            "bid.hot-ratio.bidders",
            "bid.proportion",
            "events.num",
            "first-event.rate",
            "max-emit-speed",
            "next-event.rate",
            "number-of-rows",
            "partitions",
            "person.avg-size",
            "person.proportion",
            "rows-per-second",
            "seed",
            "start-time",
            "table",
        ],
        formats: &[],
    },
    ConnectorInfo {
        name: "print",
        tables: "lines on standard output",
        needed: &[],
        options: &["print-identifier"],
        formats: &[],
    },
    ConnectorInfo {
        name: "upsert-kafka",
        tables: "a topic of Kafka with the newest row of each key",
        needed: &[
            ("topic", "orders"),
            ("properties.bootstrap.servers", "localhost:9092"),
            ("key.format", "json"),
            ("value.format", "json"),
        ],
        options: &[
            "connection.timeout",
            "key.fields-prefix",
            "properties.*",
            "scan.bounded.mode",
            "scan.bounded.specific-offsets",
            "scan.bounded.timestamp-millis",
            "scan.startup.mode",
            "scan.startup.specific-offsets",
            "scan.startup.timestamp-millis",
            "scan.topic-partition-discovery.interval",
            "sink.buffer-bytes",
            "sink.buffer-flush.interval",
            "sink.buffer-flush.max-rows",
            "sink.delivery-guarantee",
            "sink.delivery.timeout",
            "sink.partitioner",
            "sink.topic.partitions",
            "sink.transactional-id-prefix",
            "value.fields-include",
        ],
        formats: &Format::NAMES,
    },
];

/// The description of a connector.
#[must_use]
pub fn connector_info(name: &str) -> Option<&'static ConnectorInfo> {
    CONNECTORS.iter().find(|info| info.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use anabranch_dataflow::{ConnectorSpec, TableTraits};
    use anabranch_model::Result;
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::format::debezium;

    /// Describes a table with the required options and another one.
    fn describe(info: &ConnectorInfo, name: &str, value: &str) -> Result<TableTraits> {
        let spec = ConnectorSpec::new(info.name, &[info.needed, &[(name, value)]].concat());
        let columns = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8View, true)]));
        let connectors = crate::standard();
        let connector = connectors.get(info.name).expect("registered");
        let declared = if info.needed.is_empty() { Arc::new(Schema::empty()) } else { columns };
        connector.describe(&spec, &declared)
    }

    /// The options that a connector lists when one is unknown, without those of all tables and of the format.
    fn known(info: &ConnectorInfo) -> BTreeSet<String> {
        let error = describe(info, "no.such.option", "").expect_err(info.name);
        let text = error.to_string() + error.help().unwrap_or_default();
        let list = text.split("known options: ").nth(1).unwrap_or_else(|| panic!("{}: {text}", info.name));
        let is_own = |name: &&str| !COMMON_OPTIONS.contains(name) && !name.contains("json.");
        list.split(", ").map(str::trim).filter(is_own).map(str::to_owned).collect()
    }

    #[test]
    fn each_connector_is_described() {
        let described: BTreeSet<&str> = CONNECTORS.iter().map(|info| info.name).collect();
        assert_eq!(described, crate::standard().names().collect());
    }

    #[test]
    fn each_connector_has_the_formats_that_it_reads() {
        let all = [&Format::NAMES[..], &["parquet", debezium::NAME]].concat();
        for info in CONNECTORS.iter().filter(|info| !info.formats.is_empty()) {
            let has_keys = info.needed.iter().any(|(name, _)| *name == "value.format");
            let option = if has_keys { "value.format" } else { "format" };
            let is_refused =
                |format: &str| describe(info, option, format).is_err_and(|e| e.to_string().contains("format"));
            let read: BTreeSet<&str> = all.iter().copied().filter(|format| !is_refused(format)).collect();
            assert_eq!(read, info.formats.iter().copied().collect(), "{}", info.name);
        }
    }

    #[test]
    fn each_connector_has_the_options_that_it_reads() {
        let wrong = CONNECTORS.iter().filter_map(|info| {
            let groups = info.options.iter().filter_map(|name| name.strip_suffix('*'));
            let is_of_group = |name: &&str| groups.clone().any(|group| name.starts_with(group) && !name.ends_with('*'));
            let told = info.needed.iter().map(|(name, _)| *name).chain(info.options.iter().copied());
            let told = told.filter(|name| !is_of_group(name));
            let told: BTreeSet<String> = told.map(str::to_owned).collect();
            let known = known(info);
            (told != known).then(|| format!("{}: {:?}", info.name, known))
        });
        let wrong: Vec<String> = wrong.collect();
        assert!(wrong.is_empty(), "options are not told, or are told and not read:\n{}", wrong.join("\n"));
    }
}
