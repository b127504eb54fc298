//! Columns that are in the keys of records alone.

use std::io::Write as _;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tempfile::NamedTempFile;

use super::run;
use crate::{broker, topics};

#[test]
fn columns_of_the_key_are_read_from_it_and_written_to_it_alone() {
    let broker = broker::shared();
    let servers = broker.servers();
    topics::create(servers, "visits", 2);
    let table = |name: &str, columns: &str, options: &str| {
        format!(
            "CREATE TABLE {name} ({columns}) WITH ('connector' = 'kafka', 'topic' = 'visits', 'scan.bounded.mode' = 'latest-offset',
               'properties.bootstrap.servers' = '{servers}', {options});\n"
        )
    };
    let print = |name: &str, columns: &str| {
        format!("CREATE TABLE {name} ({columns}) WITH ('connector' = 'print', 'print-identifier' = '{name}');\n")
    };
    let script = |parts: &[&str]| {
        let mut script = NamedTempFile::new().expect("file");
        parts.iter().for_each(|part| script.write_all(part.as_bytes()).expect("written"));
        script
    };
    let visits = table(
        "visits",
        "k_id INT, page STRING, k_region STRING, id BIGINT",
        "'key.format' = 'json', 'key.fields' = 'k_id;k_region', 'key.fields-prefix' = 'k_', 'value.format' = 'json',
           'value.fields-include' = 'EXCEPT_KEY', 'on-malformed' = 'skip'",
    );
    let write =
        script(&[&visits, "INSERT INTO visits VALUES (1, 'a', 'eu', 10), (2, 'b', NULL, 20), (3, NULL, 'us', 30);\n"]);
    run(write.path(), 2, &[]);
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", servers).create().expect("producer");
    for (key, value) in
        [("{\"id\":4,\"region\":\"eu\"}", Some("{}")), ("{\"id\":5}", None), ("no", Some("{\"id\":60}"))]
    {
        let record = BaseRecord::to("visits").partition(0).key(key);
        let record = value.iter().fold(record, |record, value| record.payload(*value));
        producer.send(record).map_err(|(error, _)| error).expect("taken");
    }
    producer.flush(Duration::from_secs(60)).expect("flush");
    let read = script(&[
        &visits,
        &table("texts", "text STRING", "'format' = 'raw', 'on-malformed' = 'skip'"),
        &print("all", "id INT, page STRING, region STRING, number BIGINT"),
        &print("ids", "id INT"),
        &print("values", "text STRING"),
        "INSERT INTO `all` SELECT * FROM visits;\n",
        "INSERT INTO ids SELECT k_id FROM visits WHERE k_region = 'eu';\n",
        "INSERT INTO `values` SELECT * FROM texts;\n",
    ]);
    let printed = run(read.path(), 1, &[]);
    let lines = |prefix: &str| {
        let mut lines: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix(prefix)).collect();
        lines.sort_unstable();
        lines
    };
    // A record without a value, and one whose key is none, are no rows.
    assert_eq!(lines("all> "), ["1,a,eu,10", "2,b,NULL,20", "3,NULL,us,30", "4,NULL,eu,NULL"], "{printed}");
    assert_eq!(lines("ids> "), ["1", "4"], "{printed}");
    let values: Vec<String> = lines("values> ").iter().map(|line| line.replace('"', "")).collect();
    assert!(values.contains(&"{page:a,id:10}".to_owned()), "{printed}");
}
