use std::time::Duration;

use anabranch_dataflow::ConnectorSpec;

use super::super::client;
use super::*;

/// The table of topic `t` with these further options.
pub(in super::super) fn parse(extra: &[(&str, &str)]) -> Result<Table> {
    let base = [("topic", "t"), ("properties.bootstrap.servers", "localhost:9092")];
    let spec = ConnectorSpec::new("kafka", &[&base, extra].concat());
    let mut options = Options::new(&spec);
    let table = Table::parse(&mut options)?;
    options.finish()?;
    Ok(table)
}

fn error(extra: &[(&str, &str)]) -> String {
    match parse(extra) {
        Ok(table) => panic!("{extra:?} was taken as {table:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn little_needs_to_be_said() {
    let table = parse(&[]).expect("a topic and servers are enough");
    assert_eq!(table.subscription.text(), "topic t");
    assert_eq!(table.startup, Bound::Earliest);
    assert_eq!(table.end, None);
    assert_eq!(table.group, None);
    assert_eq!((table.discovers, table.watch_interval), (true, Duration::from_secs(10)));
    assert_eq!(table.connection_timeout, Duration::from_secs(30));
    assert_eq!(table.single_topic().expect("one topic"), "t");
}

#[test]
fn several_topics_are_sorted_and_can_only_be_read() {
    let table = parse(&[("topic", "b; a ;b")]).expect("topics");
    assert_eq!(table.subscription.text(), "topic a, b");
    assert!(table.single_topic().is_err());
}

#[test]
fn topics_of_a_pattern_can_only_be_read() {
    let like = |extra: &[(&str, &str)]| {
        let base = [("topic-pattern", "orders-.*|clicks"), ("properties.bootstrap.servers", "localhost:9092")];
        Table::parse(&mut Options::new(&ConnectorSpec::new("kafka", &[&base, extra].concat())))
    };
    let table = like(&[]).expect("a pattern");
    let pattern = table.subscription.pattern().expect("a pattern");
    for (topic, matches) in
        [("orders-", true), ("orders-eu", true), ("clicks", true), ("clicks2", false), ("my-orders-eu", false)]
    {
        assert_eq!(pattern.matches(topic), matches, "{topic}");
    }
    let all = like(&[("topic-pattern", ".*")]).expect("a pattern");
    assert!(!all.subscription.pattern().expect("a pattern").matches("__consumer_offsets"));
    assert!(table.single_topic().expect_err("not written").to_string().contains("topics like 'orders-.*|clicks'"));
    let offsets =
        [("scan.startup.mode", "specific-offsets"), ("scan.startup.specific-offsets", "partition:0,offset:1")];
    for (extra, message) in [
        (offsets.as_slice(), "'specific-offsets', but the topics are not named"),
        (&[("topic", "t")], "options 'topic' and 'topic-pattern' are given"),
        (
            &[("scan.bounded.mode", "specific-offsets"), ("scan.bounded.specific-offsets", "partition:0,offset:1")],
            "'scan.bounded.mode' is 'specific-offsets', but the topics are not named",
        ),
        (&[("topic-pattern", "(orders")], "which is no regular expression: unclosed group"),
        (&[("topic-pattern", "a)|(b")], "which is no regular expression: unopened group"),
        (&[("topic-pattern", "")], "option 'topic-pattern' is empty"),
    ] {
        let error = like(extra).expect_err("refused").to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn modes_are_read() {
    let table = parse(&[("scan.startup.mode", "timestamp"), ("scan.startup.timestamp-millis", "17")]).expect("time");
    assert_eq!(table.startup, Bound::Timestamp { ms: 17 });
    let table = parse(&[("scan.startup.mode", "group-offsets"), ("properties.group.id", "g")]).expect("group");
    assert_eq!((table.startup, table.group.as_deref()), (Bound::Group, Some("g")));
    let table = parse(&[("scan.bounded.mode", "latest-offset")]).expect("bounded");
    assert_eq!(table.end, Some(Bound::Latest));
    assert!(!table.discovers, "what is bounded gets no new partitions");
    let table = parse(&[("scan.topic-partition-discovery.interval", "0")]).expect("no discovery");
    assert_eq!((table.discovers, table.watch_interval), (false, Duration::from_secs(10)));
}

#[test]
fn wrong_options_say_what_would_be_right() {
    for (extra, expected) in [
        (&[("topic", " ; ")][..], "names no topic"),
        (&[("topic", "a b")], "cannot be the name of a topic"),
        (&[("properties.bootstrap.servers", "")], "add 'properties.bootstrap.servers'"),
        (&[("scan.startup.mode", "timestamp")], "add 'scan.startup.timestamp-millis'"),
        (&[("scan.startup.timestamp-millis", "17")], "add 'scan.startup.mode' = 'timestamp'"),
        (&[("scan.startup.mode", "group-offsets")], "add 'properties.group.id'"),
        (&[("scan.startup.mode", "newest")], "'earliest-offset'"),
        (&[("scan.startup.mode", "specific-offsets")], "add 'scan.startup.specific-offsets'"),
        (&[("scan.startup.specific-offsets", "partition:0,offset:1")], "add 'scan.startup.mode' = 'specific-offsets'"),
        (
            &[("scan.bounded.mode", "specific-offsets"), ("scan.bounded.specific-offsets", "0:1")],
            "write 'partition:0,offset:42",
        ),
        (&[("scan.bounded.timestamp-millis", "17")], "add 'scan.bounded.mode' = 'timestamp'"),
        (&[("scan.bounded.mode", "group-offsets")], "'scan.bounded.mode' is 'group-offsets'"),
        (&[("key.format", "raw")], "name the columns of the key"),
        (&[("sink.topic.partitions", "0")], "less than 1"),
        (&[("properties.key.descrambler", "x")], "'properties.key.descrambler' = 'x' is refused"),
        (&[("key.fields", "k"), ("value.fields-include", "EXCEPT_KEY")], "'key.format' = 'json'"),
        (&[("key.fields", "k_a"), ("key.fields-prefix", "k_")], "needs 'value.fields-include' = 'EXCEPT_KEY'"),
        (
            &[
                ("key.fields", "k_a;b"),
                ("key.format", "json"),
                ("key.fields-prefix", "k_"),
                ("value.fields-include", "EXCEPT_KEY"),
            ],
            "is 'k_', but 'key.fields' names 'b'",
        ),
        (&[("properties.acks", "several")], "'properties.acks' = 'several' is refused"),
        (&[("scan.startup.mod", "latest-offset")], "did you mean 'scan.startup.mode'"),
    ] {
        let error = error(extra);
        assert!(error.contains(expected), "{extra:?}: {error}");
    }
}

#[test]
fn properties_overrule_defaults_but_not_bookkeeping() {
    let table = parse(&[
        ("properties.queued.min.messages", "10"),
        ("properties.queued.max.messages.kbytes", "77"),
        ("properties.linger.ms", "77"),
        ("properties.fetch.max.wait.ms", "77"),
        ("properties.max.request.size", "77000"),
        ("properties.max.poll.records", "77"),
        ("sink.transactional-id-prefix", "mine"),
        ("value.fields-include", "EXCEPT_KEY"),
        ("properties.enable.auto.commit", "true"),
        ("properties.delivery.report.only.error", "false"),
    ])
    .expect("properties");
    let (reader, writer) = (table.consumer_config(), table.producer_config());
    assert_eq!(reader.get("queued.min.messages"), Some("10"));
    assert_eq!(reader.get("queued.max.messages.kbytes"), Some("77"));
    assert_eq!(reader.get("fetch.wait.max.ms"), Some("77"));
    assert_eq!(writer.get("message.max.bytes"), Some("77000"));
    assert_eq!(reader.get("enable.auto.commit"), Some("false"));
    assert_eq!(writer.get("linger.ms"), Some("77"));
    assert_eq!(writer.get("delivery.report.only.error"), Some("true"));
}

#[test]
fn no_request_of_a_transaction_takes_longer_than_the_transaction() {
    let times = |extra: &[(&str, &str)]| {
        let table = parse(extra).expect("properties");
        client::transactional_producer(&table, "any").expect("the client takes them");
        let config = table.transaction_config("any");
        ["transaction.timeout.ms", "message.timeout.ms", "socket.timeout.ms"]
            .map(|name| config.get(name).expect("set").parse::<u64>().expect("milliseconds"))
    };
    assert_eq!(times(&[]), [120_000, 120_000, 10_000]);
    assert_eq!(times(&[("properties.transaction.timeout.ms", "5000")]), [5_000, 5_000, 5_000]);
    assert_eq!(times(&[("sink.delivery.timeout", "3 s")]), [3_000, 3_000, 3_000]);
    let slow = [("sink.delivery.timeout", "20 s"), ("properties.socket.timeout.ms", "60000")];
    assert_eq!(times(&slow), [20_000, 20_000, 20_000]);
    assert_eq!(times(&[("properties.message.timeout.ms", "700")]), [120_000, 700, 10_000]);
}
