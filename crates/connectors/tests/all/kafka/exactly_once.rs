//! Writing exactly once: readers of committed records see a checkpoint's records once, whatever happens
//! between prepare and commit. Readers of uncommitted records also see records of aborted transactions.

use anabranch_model::{Clock, Epoch, SystemClock};
use anabranch_operators::{Committable, Former, Sink};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::harness::{
    BOUNDED, Outside, PATIENCE, Reader, open_exact, open_exact_at, open_renamed, open_sink, process, records, rows,
    table, table_at,
};
use crate::broker::Broker;

const UNCOMMITTED: (&str, &str) = ("properties.isolation.level", "read_uncommitted");

/// What readers of committed records see when no transaction is open any more.
fn committed(topic: &str) -> Vec<i64> {
    Outside::shared().settle(topic);
    committed_now(topic)
}

fn committed_now(topic: &str) -> Vec<i64> {
    Reader::read_to_end(table(topic, &[BOUNDED]), 0, 1).sorted_ids()
}

fn uncommitted(topic: &str) -> Vec<i64> {
    Reader::read_to_end(table(topic, &[BOUNDED, UNCOMMITTED]), 0, 1).sorted_ids()
}

/// Writes ten rows in an epoch and prepares it.
fn prepare(sink: &mut dyn Sink, epoch: u64) -> Committable {
    let first = i64::try_from(epoch).unwrap() * 10;
    sink.write(&rows(first..first + 10)).unwrap();
    sink.prepare_commit(Epoch(epoch)).unwrap().unwrap()
}

fn ids(epochs: &[u64]) -> Vec<i64> {
    epochs.iter().flat_map(|epoch| (0..10).map(move |row| i64::try_from(*epoch).unwrap() * 10 + row)).collect()
}

#[test]
fn nothing_is_sent_before_its_commit_and_nothing_twice() {
    Outside::shared().create_topic("exact", 2);
    let mut sink = open_exact(table("exact", &[]), 0, 1, "exact").unwrap();
    let one = prepare(sink.as_mut(), 1);
    assert_eq!(uncommitted("exact"), ids(&[]));
    sink.commit(&one).unwrap();
    assert_eq!(committed("exact"), ids(&[1]));
    // The answer to the commit was lost. The same writer, another one and a later one repeat the commit.
    sink.commit(&one).unwrap();
    let two = prepare(sink.as_mut(), 2);
    drop(sink);
    let mut other = open_exact(table("exact", &[]), 1, 3, "exact").unwrap();
    other.commit(&one).unwrap();
    other.commit(&two).unwrap();
    let mut third = open_exact(table("exact", &[]), 2, 3, "exact").unwrap();
    third.commit(&two).unwrap();
    third.commit(&one).unwrap();
    assert_eq!(committed("exact"), ids(&[1, 2]));
    assert_eq!(uncommitted("exact"), ids(&[1, 2]), "what is skipped is not even tried");
}

#[test]
fn tasks_and_scopes_do_not_stand_in_each_others_way() {
    Outside::shared().create_topic("scopes", 1);
    for (task, scope) in [(0, "a"), (1, "a"), (0, "b")] {
        let mut sink = open_exact(table("scopes", &[]), task, 2, scope).unwrap();
        let one = prepare(sink.as_mut(), 1);
        sink.commit(&one).unwrap();
    }
    assert_eq!(committed("scopes").len(), 30);
}

#[test]
fn keys_and_partitions_are_kept() {
    Outside::shared().create_topic("exact-keyed", 4);
    let options = [("key.fields", "name"), ("sink.partitioner", "round-robin")];
    let mut sink = open_exact(table("exact-keyed", &options), 0, 1, "keyed").unwrap();
    sink.write(&rows(0..40)).unwrap();
    let prepared = sink.prepare_commit(Epoch(1)).unwrap().unwrap();
    open_exact(table("exact-keyed", &options), 0, 1, "keyed").unwrap().commit(&prepared).unwrap();
    Outside::shared().settle("exact-keyed");
    let reader = Reader::read_to_end(table("exact-keyed", &[BOUNDED]), 0, 1);
    assert_eq!(reader.sorted_ids(), (0..40).collect::<Vec<_>>());
    assert!(reader.ids.values().all(|ids| ids.len() == 10), "{:?}", reader.ids);
    for (partition, ids) in &reader.ids {
        assert!(ids.iter().all(|id| *id % 4 == i64::from(partition.0)) && ids.is_sorted(), "{:?}", reader.ids);
    }
}

#[test]
fn a_writer_that_was_replaced_is_fenced() {
    Outside::shared().create_topic("fenced", 1);
    let mut zombie = open_exact_at(table("fenced", &[]), "fenced", process(false, None)).unwrap();
    let one = prepare(zombie.as_mut(), 1);
    zombie.commit(&one).unwrap();
    let mut next = open_exact(table("fenced", &[]), 0, 1, "fenced").unwrap();
    let two = prepare(next.as_mut(), 2);
    next.commit(&two).unwrap();
    let late = prepare(zombie.as_mut(), 3);
    let error = zombie.commit(&late).unwrap_err().to_string();
    assert!(error.contains("topic fenced") && error.contains("another writer has taken over"), "{error}");
    assert!(error.contains("anabranch/fenced/results/0") && error.contains("only one instance"), "{error}");
    let three = prepare(next.as_mut(), 3);
    next.commit(&three).unwrap();
    assert_eq!(committed("fenced"), ids(&[1, 2, 3]));
}

/// Two processes start at once. The one that lost the job initializes its transactions last.
#[test]
fn a_writer_whose_job_is_its_own_takes_its_transactions_back() {
    Outside::shared().create_topic("owned", 1);
    let owner = || process(true, Some(1));
    let one = prepare(open_exact_at(table("owned", &[]), "owned", owner()).unwrap().as_mut(), 1);
    let mut winner = open_exact_at(table("owned", &[]), "owned", owner()).unwrap();
    let mut loser = open_exact_at(table("owned", &[]), "owned", process(false, Some(1))).unwrap();
    winner.commit(&one).unwrap();
    let error = loser.commit(&one).unwrap_err().to_string();
    assert!(error.contains("another writer has taken over"), "{error}");
    let two = prepare(winner.as_mut(), 2);
    winner.commit(&two).unwrap();
    assert_eq!(committed("owned"), ids(&[1, 2]));
}

#[test]
fn a_job_that_resumes_behind_its_results_is_refused() {
    Outside::shared().create_topic("ahead", 1);
    let open = |after| open_exact_at(table("ahead", &[]), "ahead", process(true, Some(after)));
    let mut sink = open(0).unwrap();
    for epoch in [3, 5] {
        let prepared = prepare(sink.as_mut(), epoch);
        sink.commit(&prepared).unwrap();
    }
    drop(sink);
    drop(open(5).unwrap());
    let error = open(3).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("topic ahead has results up to epoch 5"), "{error}");
    assert!(error.contains("the job resumes after epoch 3"), "{error}");
    assert!(error.contains("put the newest one back instead"), "{error}");
}

/// A process was killed in the middle of a transaction. Readers continue as soon as the next process has
/// started.
#[test]
fn a_transaction_that_was_left_open_ends_with_the_next_start() {
    let topic = "left-open";
    Outside::shared().create_topic(topic, 1);
    let dead = transactional(crate::broker::shared().servers(), "anabranch/left/results/0");
    dead.begin_transaction().unwrap();
    send(&dead, topic, 10..15);
    send(&Outside::shared().producer, topic, 0..3);
    assert_eq!(committed_now(topic), ids(&[]), "the open transaction is in the way");
    let _sink = open_exact(table(topic, &[]), 0, 1, "left").unwrap();
    assert_eq!(committed(topic), [0, 1, 2]);
}

/// The scopes that a job had before it skipped damaged checkpoints, and the number of its tasks then.
fn former(scopes: &[&str], tasks: u32) -> Former {
    Former { scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(), tasks }
}

/// A process was killed in the middle of a transaction, and its checkpoint is damaged: the job resumes from
/// an older one, with fewer tasks and another scope.
#[test]
fn transactions_that_were_left_open_under_former_scopes_end_with_the_next_start() {
    let topic = "left-renamed";
    Outside::shared().create_topic(topic, 1);
    let open = ["anabranch/renamed/results/3", "anabranch/renamed-2/results/0"].map(|id| {
        let dead = transactional(crate::broker::shared().servers(), id);
        dead.begin_transaction().unwrap();
        send(&dead, topic, 10..15);
        dead
    });
    send(&Outside::shared().producer, topic, 0..3);
    assert_eq!(committed_now(topic), ids(&[]), "the open transactions are in the way");
    let former = former(&["renamed", "renamed-2"], 4);
    let _sink = open_renamed(table(topic, &[]), "renamed-3", former, process(true, Some(5))).unwrap();
    assert_eq!(committed(topic), [0, 1, 2]);
    for dead in open {
        dead.commit_transaction(PATIENCE).unwrap_err();
    }
}

#[test]
fn what_was_committed_under_a_former_scope_is_not_committed_again() {
    let topic = "committed-before";
    Outside::shared().create_topic(topic, 1);
    let mut sink = open_exact(table(topic, &[]), 0, 2, "before").unwrap();
    let one = prepare(sink.as_mut(), 1);
    let mut other = open_exact(table(topic, &[]), 1, 2, "before").unwrap();
    let one_of_other = prepare(other.as_mut(), 1);
    // The checkpoint of epoch 1 is whole. That of epoch 2 is damaged; its results are visible.
    let two = prepare(sink.as_mut(), 2);
    for committable in [&one, &two] {
        sink.commit(committable).unwrap();
    }
    drop((sink, other));
    let open = |scope: &str| {
        let former = former(&["before"], 2);
        open_renamed(table(topic, &[]), scope, former, process(true, Some(1))).unwrap()
    };
    // Killed before its first checkpoint, the job starts once more under another scope.
    for scope in ["before-3", "before-4"] {
        let mut sink = open(scope);
        sink.commit(&one).unwrap();
        sink.commit(&one_of_other).unwrap();
    }
    let mut expected = ids(&[1, 1, 2]);
    expected.sort_unstable();
    assert_eq!(committed(topic), expected, "once from each task");
    // Epoch 2 is repeated, perhaps with other records, so it is written again.
    let mut sink = open("before-5");
    sink.commit(&one).unwrap();
    let again = prepare(sink.as_mut(), 2);
    sink.commit(&again).unwrap();
    let mut expected = ids(&[1, 1, 2, 2]);
    expected.sort_unstable();
    assert_eq!(committed(topic), expected);
}

#[test]
fn an_epoch_that_was_committed_with_other_records_is_not_taken_for_done() {
    Outside::shared().create_topic("diverged", 1);
    let mut sink = open_exact(table("diverged", &[]), 0, 1, "diverged").unwrap();
    let one = prepare(sink.as_mut(), 1);
    sink.commit(&one).unwrap();
    drop(sink);
    let mut sink = open_exact(table("diverged", &[]), 0, 1, "diverged").unwrap();
    sink.write(&rows(0..3)).unwrap();
    let other = sink.prepare_commit(Epoch(1)).unwrap().unwrap();
    let error = sink.commit(&other).unwrap_err().to_string();
    assert!(error.contains("topic diverged") && error.contains("other records have been committed"), "{error}");
    assert!(error.contains("anabranch/diverged/results/0") && error.contains("a new scope"), "{error}");
    assert_eq!(committed("diverged"), ids(&[1]));
}

/// A producer with the connector's transactional id, in the place of one that was killed.
fn transactional(servers: &str, id: &str) -> BaseProducer {
    let mut config = ClientConfig::new();
    // Longer than any test waits, so that the broker's timeout does not end the transaction.
    config.set("bootstrap.servers", servers).set("transactional.id", id).set("transaction.timeout.ms", "600000");
    let producer: BaseProducer = config.create().unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    producer
}

fn send(producer: &BaseProducer, topic: &str, ids: std::ops::Range<i64>) {
    for record in records(ids).into_iter().flatten() {
        producer.send(BaseRecord::<(), str>::to(topic).partition(0).payload(&record)).map_err(|(e, _)| e).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
}

#[test]
fn a_transaction_that_died_half_way_is_ended_and_written_again() {
    let topic = "half-way";
    Outside::shared().create_topic(topic, 1);
    let mut sink = open_exact(table(topic, &[]), 0, 1, "half").unwrap();
    let one = prepare(sink.as_mut(), 1);
    drop(sink);
    let dying = transactional(crate::broker::shared().servers(), "anabranch/half/results/0");
    dying.begin_transaction().unwrap();
    send(&dying, topic, 10..15);
    assert_eq!(committed_now(topic), ids(&[]));
    let mut next = open_exact(table(topic, &[]), 0, 1, "half").unwrap();
    next.commit(&one).unwrap();
    assert_eq!(committed(topic), ids(&[1]));
    let all = uncommitted(topic);
    assert_eq!(all.len(), 15, "the records of the transaction that died are there, too: {all:?}");
    dying.commit_transaction(PATIENCE).unwrap_err();
    assert_eq!(committed(topic), ids(&[1]));
}

#[test]
fn a_bounded_table_ends_at_markers_and_aborted_records() {
    let topic = "markers";
    let servers = crate::broker::shared().servers();
    Outside::shared().create_topic(topic, 1);
    let end = |aborted: bool, range: std::ops::Range<i64>| {
        let producer = transactional(servers, "markers");
        producer.begin_transaction().unwrap();
        send(&producer, topic, range);
        if aborted {
            producer.abort_transaction(PATIENCE).unwrap();
        } else {
            producer.commit_transaction(PATIENCE).unwrap();
        }
    };
    end(false, 0..10);
    Outside::shared().settle(topic);
    let position = |reader: &Reader| {
        let position = reader.source.positions().unwrap()[&format!("{topic}/0")].clone();
        position.split_once(" topic-id ").expect("the identity of the topic").0.to_owned()
    };
    let reader = Reader::read_to_end(table(topic, &[BOUNDED]), 0, 1);
    assert_eq!(reader.sorted_ids(), (0..10).collect::<Vec<_>>());
    assert_eq!(position(&reader), "11..11", "the last offset is a marker's");
    end(true, 10..20);
    Outside::shared().settle(topic);
    let reader = Reader::read_to_end(table(topic, &[BOUNDED]), 0, 1);
    assert_eq!((reader.count(), position(&reader).as_str()), (10, "22..22"));
    let reader = Reader::read_to_end(table(topic, &[BOUNDED, UNCOMMITTED]), 0, 1);
    assert_eq!((reader.count(), position(&reader).as_str()), (20, "22..22"));

    // The end is in front of the open transaction, and stays there.
    let open = transactional(servers, "open");
    open.begin_transaction().unwrap();
    send(&open, topic, 20..25);
    let mut reader = Reader::open(table(topic, &[BOUNDED]), 0, 1);
    open.commit_transaction(PATIENCE).unwrap();
    reader.read_until("the end", |reader| reader.ended);
    assert_eq!((reader.count(), position(&reader).as_str()), (10, "22..22"));
    assert_eq!(committed(topic), [(0..10).collect::<Vec<_>>(), (20..25).collect()].concat());
}

#[test]
fn an_interval_is_bounded_and_its_error_says_what_helps() {
    Outside::shared().create_topic("bounded-interval", 1);
    let options = [("sink.buffer-bytes", "2 kb")];
    let mut sink = open_exact(table("bounded-interval", &options), 0, 1, "small").unwrap();
    sink.write(&rows(0..10)).unwrap();
    assert!(sink.prepare_commit(Epoch(1)).unwrap().is_some());
    sink.write(&rows(10..20)).unwrap();
    // What is on its way may exceed a small bound.
    let many = rows(20..200_000);
    let error = (0..1000).find_map(|_| sink.write(&many).err()).unwrap().to_string();
    assert!(
        error.contains("topic bounded-interval") && error.contains("of one epoch take more than 67108864 bytes"),
        "{error}"
    );
    assert!(error.contains("raise 'sink.buffer-bytes'"), "{error}");
}

#[test]
fn what_a_broker_refuses_for_good_is_told_at_once() {
    Outside::shared().create_topic("refused", 1);
    let mut sink = open_exact(table("refused", &[("properties.message.max.bytes", "2000")]), 0, 1, "refused").unwrap();
    let long = "x".repeat(3000);
    let name = arrow::array::StringViewArray::from_iter_values([long]);
    let id = arrow::array::Int64Array::from_iter_values([1]);
    let schema = super::harness::schema();
    let batch = arrow::array::RecordBatch::try_new(schema, vec![std::sync::Arc::new(id), std::sync::Arc::new(name)]);
    sink.write(&batch.unwrap()).unwrap();
    let prepared = sink.prepare_commit(Epoch(1)).unwrap().unwrap();
    let clock = SystemClock::new();
    let error = sink.commit(&prepared).unwrap_err().to_string();
    assert!(clock.now().0 < 60_000_000_000, "took {:?}", clock.now());
    assert!(error.contains("topic refused") && error.contains("larger than the client or the topic allows"), "{error}");

    let mut damaged = prepare(open_exact(table("refused", &[]), 0, 1, "refused").unwrap().as_mut(), 2);
    let mut content = damaged.content.to_vec();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    damaged.content = content.into();
    let mut sink = open_exact(table("refused", &[]), 0, 1, "refused").unwrap();
    let error = sink.commit(&damaged).unwrap_err().to_string();
    assert!(error.contains("epoch 2 of sink task 0") && error.contains("its checksum is wrong"), "{error}");
    assert_eq!(committed("refused"), ids(&[]));
}

#[test]
fn a_commit_bridges_an_outage_and_gives_up_in_time() {
    let broker = Broker::start();
    let outside = Outside::new(broker.servers());
    outside.create_topic("exact-bridged", 1);
    let at = |extra: &[(&str, &str)]| table_at(broker.servers(), "exact-bridged", extra);
    let mut sink = open_exact(at(&[]), 0, 1, "bridged").unwrap();
    let one = prepare(sink.as_mut(), 1);
    sink.commit(&one).unwrap();
    let mut hasty = open_exact(at(&[("sink.delivery.timeout", "2 s")]), 1, 2, "bridged").unwrap();
    let hasty_one = prepare(hasty.as_mut(), 1);
    broker.stop();
    // The query continues while no broker answers.
    let two = prepare(sink.as_mut(), 2);
    let clock = SystemClock::new();
    let error = hasty.commit(&hasty_one).unwrap_err().to_string();
    assert!(error.contains("topic exact-bridged") && error.contains("within 2 s"), "{error}");
    assert!(error.contains("'sink.delivery.timeout' says how long to try"), "{error}");
    assert!(clock.now().0 < 60_000_000_000, "gave up after {:?}", clock.now());

    let writer = std::thread::Builder::new().name("commit".into());
    let committing = writer.spawn(move || {
        sink.commit(&two).unwrap();
        sink
    });
    broker.restart();
    drop(committing.unwrap().join().unwrap());
    let read = || {
        outside.settle("exact-bridged");
        Reader::read_to_end(at(&[BOUNDED]), 0, 1).sorted_ids()
    };
    assert_eq!(read(), ids(&[1, 2]));
    // A commit that was given up may be repeated.
    let mut patient = open_exact(at(&[]), 0, 1, "bridged").unwrap();
    patient.commit(&hasty_one).unwrap();
    assert_eq!(read().len(), 30);
}

#[test]
fn without_exactly_once_nothing_waits_for_a_checkpoint() {
    Outside::shared().create_topic("at-least", 1);
    let mut sink = open_sink(table("at-least", &[]), 0, 1).unwrap();
    sink.write(&rows(0..10)).unwrap();
    assert_eq!(sink.prepare_commit(Epoch(1)).unwrap(), None);
    assert_eq!(committed("at-least"), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_table_that_is_now_written_at_least_once_still_shows_what_was_prepared_before() {
    Outside::shared().create_topic("loosened", 2);
    let mut exact = open_exact(table("loosened", &[]), 0, 1, "loosened").unwrap();
    let one = prepare(exact.as_mut(), 1);
    drop(exact);
    let mut loose = open_exact(table("loosened", &[("sink.delivery-guarantee", "at-least-once")]), 0, 1, "loosened");
    let loose = loose.as_mut().unwrap();
    loose.commit(&one).unwrap();
    loose.commit(&one).unwrap();
    loose.write(&rows(20..30)).unwrap();
    assert_eq!(loose.prepare_commit(Epoch(2)).unwrap(), None);
    assert_eq!(committed("loosened"), ids(&[1, 2]), "they do not wait for the checkpoint");
    let strict = open_sink(table("loosened", &[("sink.delivery-guarantee", "exactly-once")]), 0, 1);
    let error = strict.err().unwrap().to_string();
    assert!(error.contains("keeps no checkpoints") && error.contains("checkpoint-directory"), "{error}");
}
