//! Notices about options, each with what it says to do.

use anabranch_operators::testing::TestHost;

use super::harness::{Outside, Reader, process, records, table};

fn notices(host: &TestHost) -> Vec<String> {
    host.notices.lock().unwrap().clone()
}

#[test]
fn a_start_that_is_not_flinks_is_told_until_the_table_says_where_it_starts() {
    let outside = Outside::shared();
    outside.create_topic("unsaid", 1);
    outside.produce("unsaid", 0, &records(0..10));
    let open = |options: &[(&str, &str)]| {
        let host = process(true, None);
        let mut reader = Reader::open_at(table("unsaid", options), host.clone());
        reader.read_until("all rows", |reader| reader.count() == 10);
        (notices(&host), reader.source.positions().expect("positions"))
    };
    let group = ("properties.group.id", "unsaid");
    let (told, positions) = open(&[group]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("Flink would begin at the offsets of group 'unsaid'"), "{told:?}");
    assert!(told[0].contains("set 'scan.startup.mode' to 'group-offsets' or 'earliest-offset'"), "{told:?}");
    for mode in ["group-offsets", "earliest-offset"] {
        assert_eq!(open(&[group, ("scan.startup.mode", mode)]).0, [""; 0], "{mode}");
    }
    assert_eq!(open(&[]).0, [""; 0], "no group");
    // A job that resumes goes on at its positions.
    let host = process(true, None);
    Reader::open_at_from(table("unsaid", &[group]), host.clone(), Some(&positions));
    assert_eq!(notices(&host), [""; 0]);
}

#[test]
fn properties_of_the_java_client_that_have_no_effect_are_told() {
    let outside = Outside::shared();
    outside.create_topic("java", 1);
    outside.produce("java", 0, &records(0..10));
    let java = [
        ("properties.zookeeper.connect", "localhost:2181"),
        ("properties.key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer"),
    ];
    let host = process(true, None);
    let mut reader = Reader::open_at(table("java", &java), host.clone());
    reader.read_until("all rows", |reader| reader.count() == 10);
    let told = notices(&host);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("'properties.key.deserializer', 'properties.zookeeper.connect'"), "{told:?}");
    assert!(told[0].contains("leave them out"), "{told:?}");
}
