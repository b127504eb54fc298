//! Topics of changes of rows, as Debezium writes them: read as tables whose rows are updated, and written.

use std::io::Write as _;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tempfile::NamedTempFile;

use super::versions::sums;
use super::{output, run};
use crate::{broker, topics};

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
    let broker = broker::shared();
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

/// Records of rates of currencies, each of a time: as the database says it, and not as the rows do.
fn fill_rates(servers: &str) {
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", servers).create().expect("producer");
    let row = |of: Option<(&str, i32)>| {
        of.map_or_else(|| "null".into(), |(k, rate)| format!(r#"{{"k":"{k}","rate":{rate}}}"#))
    };
    let records = [
        (10, "r", None, Some(("EUR", 100))),
        (10, "r", None, Some(("USD", 90))),
        (20, "u", Some(("EUR", 100)), Some(("EUR", 110))),
        (30, "d", Some(("USD", 90)), None),
        // Another key, and a row of which the database does not say what it was.
        (40, "u", Some(("EUR", 110)), Some(("GBP", 120))),
        (50, "u", None, Some(("GBP", 125))),
    ];
    for (second, op, before, after) in records {
        let (before, after) = (row(before), row(after));
        let source = format!(r#"{{"db":"bank","table":"rates","ts_ms":{},"lsn":{second}}}"#, second * 1000);
        let value =
            format!(r#"{{"before":{before},"after":{after},"source":{source},"op":"{op}","ts_ms":{second}001}}"#);
        producer.send(BaseRecord::<str, _>::to("rates").payload(&value)).map_err(|(error, _)| error).expect("taken");
    }
    for (id, second) in (1..).zip([15, 25, 35, 45, 55]) {
        for k in ["EUR", "USD", "GBP"] {
            let value = format!(r#"{{"id":{id},"k":"{k}","ts":"1970-01-01 00:00:{second}"}}"#);
            producer
                .send(BaseRecord::<str, _>::to("orders").payload(&value))
                .map_err(|(error, _)| error)
                .expect("taken");
        }
    }
    producer.flush(Duration::from_secs(60)).expect("flush");
}

/// As in Flink's documentation of versioned tables: the database says from when on a row is valid.
#[test]
fn changes_with_a_key_and_a_time_are_versions() {
    let broker = broker::shared();
    let servers = broker.servers();
    topics::create(servers, "rates", 1);
    topics::create(servers, "orders", 1);
    fill_rates(servers);
    let columns = "k STRING, rate INT, at TIMESTAMP_LTZ(3) METADATA FROM 'value.source.timestamp' VIRTUAL, db STRING METADATA FROM 'value.source.database' VIRTUAL,
        more MAP<STRING, STRING> METADATA FROM 'value.source.properties' VIRTUAL, read_at TIMESTAMP_LTZ(3) METADATA FROM 'value.ingestion-timestamp' VIRTUAL,
        place BIGINT METADATA FROM 'offset' VIRTUAL, PRIMARY KEY (k) NOT ENFORCED, WATERMARK FOR at AS at";
    let orders = format!(
        "CREATE TABLE orders (id INT, k STRING, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'orders', 'format' = 'json',
           'properties.bootstrap.servers' = '{servers}'{BOUNDED});\n"
    );
    let read = script(&[
        "SET 'table.local-time-zone' = 'UTC';\n",
        &table("rates", "rates", columns, BOUNDED, servers),
        &orders,
        &print("latest", "k STRING, rate INT, at STRING, db STRING, more STRING, read_at STRING, place BIGINT"),
        &print("joined", "id INT, k STRING, rate INT"),
        "INSERT INTO latest SELECT k, rate, CAST(at AS STRING), db, more['lsn'], CAST(read_at AS STRING), place FROM rates;\n",
        "INSERT INTO joined SELECT o.id, o.k, r.rate FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k;\n",
    ]);
    let latest = "GBP,125,1970-01-01 00:00:50.000,bank,50,1970-01-01 00:00:50.001,5";
    let joined = ["1,EUR,100", "1,USD,90", "2,EUR,110", "2,USD,90", "3,EUR,110", "4,GBP,120", "5,GBP,125"];
    for parallelism in [1, 2] {
        let printed = run(read.path(), parallelism, &[]);
        assert_eq!(sums(&printed, "latest> "), [(latest.to_owned(), 1)].into(), "{printed}");
        let mut rows: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("joined> ")).collect();
        rows.sort_unstable();
        assert_eq!(rows, joined, "{printed}");
    }
    // Without a key, nothing says which row goes with which other one.
    let without = columns.replace(" PRIMARY KEY (k) NOT ENFORCED,", "");
    let read = script(&[
        &table("rates", "rates", &without, BOUNDED, servers),
        &print("latest", "k STRING, place BIGINT"),
        "INSERT INTO latest SELECT k, place FROM rates;\n",
    ]);
    let failed = String::from_utf8_lossy(&output(read.path(), 1, &[]).stderr).into_owned();
    assert!(failed.contains("column 'at'") && failed.contains("PRIMARY KEY"), "{failed}");
}

/// A change after the start may take back a row that came before it, which no count knows. Each remedy of the
/// message is tried.
#[test]
fn changes_that_are_not_read_from_the_first_need_a_key() {
    let broker = broker::Broker::start();
    let servers = broker.servers();
    topics::create(servers, "people", 2);
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", servers).create().expect("producer");
    (0..10).for_each(|id| produce(&producer, id, "c", None, Some("old")));
    (0..4).for_each(|id| produce(&producer, id, "d", Some("old"), None));
    produce(&producer, 4, "u", Some("old"), Some("new"));
    (20..23).for_each(|id| produce(&producer, id, "c", None, Some("new")));
    producer.flush(Duration::from_secs(60)).expect("flush");
    let later = ", 'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:5;partition:1,offset:5'";
    let cities = |columns: &str, options: &str| {
        script(&[
            &table("people", "people", columns, &format!("{BOUNDED}{options}"), servers),
            &print("cities", "city STRING, people BIGINT"),
            "INSERT INTO cities SELECT city, COUNT(*) FROM people GROUP BY city;\n",
        ])
    };
    let refused = output(cities(ROW, later).path(), 1, &[]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{error}");
    assert!(
        error.contains("its option 'scan.startup.mode' skips the first changes: later changes may retract rows"),
        "{error}"
    );
    assert!(
        error.contains("PRIMARY KEY (...) NOT ENFORCED") && error.contains("read it from its beginning"),
        "{error}"
    );
    let expected = |rows: &[&str]| rows.iter().map(|row| ((*row).to_owned(), 1)).collect();
    let keyed = format!("{ROW}, PRIMARY KEY (id) NOT ENFORCED");
    let printed = run(cities(&keyed, later).path(), 2, &[]);
    assert_eq!(sums(&printed, "cities> "), expected(&["new,4"]), "{printed}");
    let printed = run(cities(ROW, "").path(), 2, &[]);
    assert_eq!(sums(&printed, "cities> "), expected(&["new,4", "old,5"]), "{printed}");
}
