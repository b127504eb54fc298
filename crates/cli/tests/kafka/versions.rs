//! A topic of versions of rows, read as a table whose rows are updated.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tempfile::NamedTempFile;

use crate::{broker, run, topics};

/// Writes a version to the partition of its key; without a value it deletes the row.
fn produce(producer: &BaseProducer, id: i32, value: Option<&str>) {
    let key = format!(r#"{{"id": {id}}}"#);
    let mut record = BaseRecord::to("people").partition(id % 2).key(key.as_str());
    if let Some(value) = value {
        record = record.payload(value);
    }
    producer.send(record).map_err(|(error, _)| error).expect("taken");
}

/// The rows that are left when all printed changes are added up.
pub(crate) fn sums(printed: &str, prefix: &str) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for change in printed.lines().filter_map(|line| line.strip_prefix(prefix)) {
        let (sign, row) = change.split_at(2);
        *sums.entry(row.to_owned()).or_default() += if sign == "+ " { 1 } else { -1 };
    }
    sums.retain(|_, count| *count != 0);
    sums
}

#[test]
fn of_the_versions_of_a_row_the_latest_counts_and_one_without_a_value_deletes_it() {
    let broker = broker::Broker::start();
    topics::create(broker.servers(), "people", 2);
    let mut config = ClientConfig::new();
    let producer: BaseProducer = config.set("bootstrap.servers", broker.servers()).create().expect("producer");
    for id in 0..1000 {
        produce(&producer, id, Some(&format!(r#"{{"name": "n{id}", "city": "old"}}"#)));
    }
    for id in 0..400 {
        produce(&producer, id, Some(&format!(r#"{{"name": "m{id}", "city": "new"}}"#)));
    }
    (300..500).for_each(|id| produce(&producer, id, None));
    produce(&producer, 300, Some(r#"{"name": "again", "city": "third"}"#));
    producer.flush(Duration::from_secs(60)).expect("flush");
    let mut script = NamedTempFile::new().expect("file");
    let sql = format!(
        "CREATE TABLE people (id INT, name STRING NOT NULL, city STRING, part INT METADATA FROM 'partition' VIRTUAL,
           PRIMARY KEY (id) NOT ENFORCED)
           WITH ('connector' = 'upsert-kafka', 'topic' = 'people', 'properties.bootstrap.servers' = '{}',
             'key.format' = 'json', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY',
             'scan.bounded.mode' = 'latest-offset');
         CREATE TABLE cities (city STRING, people BIGINT, part BIGINT)
           WITH ('connector' = 'print', 'print-identifier' = 'cities');
         CREATE TABLE few (id INT, name STRING) WITH ('connector' = 'print', 'print-identifier' = 'few');
         INSERT INTO cities SELECT city, COUNT(*), SUM(part) FROM people GROUP BY city;
         INSERT INTO few SELECT id, name FROM people WHERE id BETWEEN 298 AND 301;",
        broker.servers()
    );
    script.write_all(sql.as_bytes()).expect("written");
    for parallelism in [1, 3] {
        let printed = run(script.path(), parallelism, &[]);
        let cities = sums(&printed, "cities> ");
        let expected = ["new,300,150", "old,500,250", "third,1,0"];
        assert_eq!(cities, expected.map(|row| (row.to_owned(), 1)).into(), "{printed}");
        let few = ["298,m298", "299,m299", "300,again"];
        assert_eq!(sums(&printed, "few> "), few.map(|row| (row.to_owned(), 1)).into(), "{printed}");
    }
}
