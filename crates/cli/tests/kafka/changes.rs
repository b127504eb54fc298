//! Topics of changes of rows, as Debezium writes them: read as tables whose rows are updated, and written.

use std::io::Write as _;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tempfile::NamedTempFile;

use crate::versions::sums;
use crate::{broker, run, topics};

fn row(id: i32, city: &str) -> String {
    format!(r#"{{"id":{id},"name":"n{id}","city":"{city}"}}"#)
}

/// Writes a change to the partition of its row.
fn produce(producer: &BaseProducer, id: i32, op: &str, before: Option<&str>, after: Option<&str>) {
    let side = |city: Option<&str>| city.map_or_else(|| "null".to_owned(), |city| row(id, city));
    let (before, after) = (side(before), side(after));
    let value = format!(r#"{{"before":{before},"after":{after},"source":{{"db":"d"}},"op":"{op}","ts_ms":17}}"#);
    let key = id.to_string();
    let record = BaseRecord::to("people").partition(id % 2).key(&key).payload(&value);
    producer.send(record).map_err(|(error, _)| error).expect("taken");
    if op == "d" {
        // As Debezium does, for topics that are compacted.
        let tombstone = BaseRecord::<_, str>::to("people").partition(id % 2).key(&key);
        producer.send(tombstone).map_err(|(error, _)| error).expect("taken");
    }
}

fn fill(servers: &str) {
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", servers).create().expect("producer");
    (0..500).for_each(|id| produce(&producer, id, "r", None, Some("old")));
    (500..1000).for_each(|id| produce(&producer, id, "c", None, Some("old")));
    (0..400).for_each(|id| produce(&producer, id, "u", Some("old"), Some("new")));
    (300..400).for_each(|id| produce(&producer, id, "d", Some("new"), None));
    (400..500).for_each(|id| produce(&producer, id, "d", Some("old"), None));
    produce(&producer, 300, "c", None, Some("third"));
    producer.flush(Duration::from_secs(60)).expect("flush");
}

fn table(name: &str, topic: &str, columns: &str, options: &str, servers: &str) -> String {
    format!(
        "CREATE TABLE {name} ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'debezium-json',
           'properties.bootstrap.servers' = '{servers}'{options});\n"
    )
}

fn print(name: &str, columns: &str) -> String {
    format!("CREATE TABLE {name} ({columns}) WITH ('connector' = 'print', 'print-identifier' = '{name}');\n")
}

fn script(parts: &[&str]) -> NamedTempFile {
    let mut script = NamedTempFile::new().expect("file");
    parts.iter().for_each(|part| script.write_all(part.as_bytes()).expect("written"));
    script
}

const BOUNDED: &str = ", 'scan.bounded.mode' = 'latest-offset'";
const ROW: &str = "id INT NOT NULL, name STRING, city STRING";
const TIME: &str = "ts AS TO_TIMESTAMP_LTZ(id, 0), WATERMARK FOR ts AS ts - INTERVAL '1' DAY";

/// Counts the rows of a table, which are updated, in windows of event time.
fn windows_of(table: &str) -> String {
    format!(
        "INSERT INTO windows SELECT '{table}', UNIX_TIMESTAMP(CAST(window_start AS STRING)), COUNT(*), COUNT(DISTINCT city)
           FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '500' SECOND)) GROUP BY window_start, window_end;\n"
    )
}

fn counted(servers: &str) -> String {
    format!(
        "CREATE TABLE counted (id INT NOT NULL, city STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka',
           'topic' = 'counted', 'key.format' = 'json', 'value.format' = 'json', 'scan.bounded.mode' = 'latest-offset',
           'properties.bootstrap.servers' = '{servers}');\n"
    )
}

#[test]
fn changes_are_read_and_written() {
    let broker = broker::Broker::start();
    let servers = broker.servers();
    topics::create(servers, "people", 2);
    fill(servers);
    let keyed = format!("{ROW}, part STRING METADATA FROM 'partition' VIRTUAL, PRIMARY KEY (id) NOT ENFORCED, {TIME}");
    let people = table("people", "people", &keyed, BOUNDED, servers);
    let few = ["298,n298,new", "299,n299,new", "300,n300,third", "500,n500,old"];
    let cities = ["new,300,150", "old,500,250", "third,1,0"];
    let expected = |rows: &[&str]| rows.iter().map(|row| ((*row).to_owned(), 1)).collect();
    let read = script(&[
        &people,
        &print("few", ROW),
        &print("cities", "city STRING, people BIGINT, part BIGINT"),
        "INSERT INTO few SELECT id, name, city FROM people WHERE id BETWEEN 298 AND 301 OR id IN (450, 500);\n",
        "INSERT INTO cities SELECT city, COUNT(*), SUM(CAST(part AS BIGINT)) FROM people GROUP BY city;\n",
    ]);
    for parallelism in [1, 3] {
        let printed = run(read.path(), parallelism, &[]);
        assert_eq!(sums(&printed, "few> "), expected(&few), "{printed}");
        assert_eq!(sums(&printed, "cities> "), expected(&cities), "{printed}");
    }
    // Written as changes and as versions, and read again, the rows are the same.
    let copies = ", 'key.fields' = 'id', 'key.format' = 'json', 'sink.topic.partitions' = '3'";
    let latest = format!(
        "CREATE TABLE latest ({ROW}, PRIMARY KEY (id) NOT ENFORCED, {TIME}) WITH ('connector' = 'upsert-kafka', 'topic' = 'latest',
           'key.format' = 'json', 'value.format' = 'json', 'scan.bounded.mode' = 'latest-offset',
           'properties.bootstrap.servers' = '{servers}');\n"
    );
    // A row whose city changes comes and goes with other counts: the latest of its key counts.
    let counted = counted(servers);
    let copy = script(&[
        &people,
        &table("copies", "copies", ROW, copies, servers),
        &latest,
        "INSERT INTO copies SELECT id, name, city FROM people;\n",
        "INSERT INTO latest SELECT id, name, city FROM people;\n",
        &counted,
        "INSERT INTO counted SELECT p.id, p.city, c.n FROM people p
           LEFT JOIN (SELECT city, COUNT(*) AS n FROM people GROUP BY city) c ON p.city = c.city;\n",
    ]);
    run(copy.path(), 2, &[]);
    let again = script(&[
        &table("copies", "copies", ROW, BOUNDED, servers),
        &latest,
        &print("of_changes", "city STRING, people BIGINT"),
        &print("of_versions", "city STRING, people BIGINT"),
        "INSERT INTO of_changes SELECT city, COUNT(*) FROM copies GROUP BY city;\n",
        "INSERT INTO of_versions SELECT city, COUNT(*) FROM latest GROUP BY city;\n",
        &counted,
        &print("of_counted", "city STRING, n BIGINT, people BIGINT"),
        "INSERT INTO of_counted SELECT city, n, COUNT(*) FROM counted GROUP BY city, n;\n",
        &people,
        &print("windows", "source STRING, s BIGINT, people BIGINT, cities BIGINT"),
        &windows_of("people"),
        &windows_of("latest"),
    ]);
    let printed = run(again.path(), 2, &[]);
    for name in ["of_changes> ", "of_versions> "] {
        assert_eq!(sums(&printed, name), expected(&["new,300", "old,500", "third,1"]), "{printed}");
    }
    assert_eq!(sums(&printed, "of_counted> "), expected(&["new,300,300", "old,500,500", "third,1,1"]), "{printed}");
    // Results of windows stay.
    let mut windows: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("windows> ")).collect();
    windows.sort_unstable();
    assert_eq!(windows, ["latest,0,301,2", "latest,500,500,1", "people,0,301,2", "people,500,500,1"], "{printed}");
}
