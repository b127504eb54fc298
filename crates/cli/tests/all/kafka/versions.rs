//! A topic of versions of rows, read as a table whose rows are updated.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tempfile::NamedTempFile;

use super::run;
use crate::{broker, topics};

/// Writes a version to the partition of its key; without a value it deletes the row.
fn produce(producer: &BaseProducer, id: i32, value: Option<&str>) {
    let key = format!(r#"{{"id": {id}}}"#);
    let mut record = BaseRecord::to("latest-people").partition(id % 2).key(key.as_str());
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
    let broker = broker::shared();
    topics::create(broker.servers(), "latest-people", 2);
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
           WITH ('connector' = 'upsert-kafka', 'topic' = 'latest-people', 'properties.bootstrap.servers' = '{}',
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

#[test]
fn each_row_meets_the_version_of_its_time() {
    let broker = broker::shared();
    topics::create(broker.servers(), "people-and-times", 2);
    let mut config = ClientConfig::new();
    let producer: BaseProducer = config.set("bootstrap.servers", broker.servers()).create().expect("producer");
    let second = |second: i64| 1_767_225_600_000 + second * 1000;
    let produce = |id: i32, name: Option<&str>, at: i64| {
        let (key, value) = (format!(r#"{{"id": {id}}}"#), name.map(|name| format!(r#"{{"name": "{name}"}}"#)));
        let record = BaseRecord::to("people-and-times").partition(id % 2).key(&key).timestamp(second(at));
        let record = match &value {
            Some(value) => record.payload(value),
            None => record,
        };
        producer.send(record).map_err(|(error, _)| error).expect("taken");
    };
    [(1, Some("a"), 10), (2, Some("b"), 10), (1, Some("c"), 20), (2, None, 20), (2, Some("d"), 30)]
        .into_iter()
        .for_each(|(id, name, at)| produce(id, name, at));
    producer.flush(Duration::from_secs(60)).expect("flush");
    let mut visits = NamedTempFile::with_suffix(".csv").expect("file");
    for (visit, (id, at)) in [(1, 5), (1, 15), (2, 19), (1, 20), (2, 25), (2, 35), (3, 35)].iter().enumerate() {
        writeln!(visits, "{visit},{id},{}", second(*at)).expect("written");
    }
    let mut script = NamedTempFile::new().expect("file");
    let sql = format!(
        "CREATE TABLE people (id INT, name STRING, `at` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
           PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR `at` AS `at`)
           WITH ('connector' = 'upsert-kafka', 'topic' = 'people-and-times', 'properties.bootstrap.servers' = '{}',
             'key.format' = 'json', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY',
             'scan.bounded.mode' = 'latest-offset');
         CREATE TABLE visits (visit INT, id INT, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
           WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');
         CREATE TABLE met (visit INT, id INT, name STRING) WITH ('connector' = 'print', 'print-identifier' = 'met');
         INSERT INTO met SELECT v.visit, v.id, p.name FROM visits AS v
           LEFT JOIN people FOR SYSTEM_TIME AS OF v.ts AS p ON v.id = p.id;",
        broker.servers(),
        visits.path().display()
    );
    script.write_all(sql.as_bytes()).expect("written");
    for parallelism in [1, 3] {
        let printed = run(script.path(), parallelism, &[]);
        let mut met: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("met> ")).collect();
        met.sort_unstable();
        assert_eq!(met, ["0,1,NULL", "1,1,a", "2,2,b", "3,1,c", "4,2,NULL", "5,2,d", "6,3,NULL"], "{printed}");
    }
}
