//! The store over a real S3 server.

use crate::s3::{Server, shared};
use anabranch_state::{Access, Store};
use bytes::Bytes;

fn access() -> Access {
    Access::new(Server::variables())
}

fn store(prefix: &str) -> Store {
    Store::open(&shared().place(prefix), &access()).expect("store")
}

#[test]
fn objects_are_written_read_listed_and_removed() {
    let store = store("basics");
    assert_eq!(store.get("log/1").expect("get"), None);
    let blob = store.put("state/a b/1-2.0.arrow", Bytes::from_static(b"content")).expect("put");
    store.put("state/b", Bytes::new()).expect("put");
    store.put("other/c", Bytes::new()).expect("put");
    assert_eq!(store.list("state").expect("list"), ["state/a b/1-2.0.arrow", "state/b"]);
    assert_eq!(store.get_blob(&blob).expect("get"), "content");
    assert!(store.written_ms("state/b").expect("head").expect("there") > 1_700_000_000_000);
    std::fs::write(shared().file("basics/state/a b/1-2.0.arrow"), "contenT").expect("damaged");
    assert!(store.get_blob(&blob).expect_err("damaged").to_string().contains("checksum"));
    store.delete("state/b").expect("delete");
    store.delete("state/b").expect("delete again");
    assert_eq!(store.written_ms("state/b").expect("head"), None);
    assert_eq!(store.list("state").expect("list").len(), 1);
}

#[test]
fn of_racing_writers_one_writes_a_new_object() {
    // Each with a separate client, as processes have.
    let stores: Vec<Store> = (0..8).map(|_| store("race")).collect();
    for round in 0..20 {
        let name = format!("log/{round:012}.json");
        let won: Vec<u8> = std::thread::scope(|scope| {
            let racers: Vec<_> = stores
                .iter()
                .zip(0_u8..)
                .map(|(store, racer)| {
                    let name = &name;
                    scope.spawn(move || store.put_new(name, vec![racer; 1000].into()).expect("put").then_some(racer))
                })
                .collect();
            racers.into_iter().filter_map(|racer| racer.join().expect("no panic")).collect()
        });
        let [winner] = won[..] else { panic!("round {round}: won by {won:?}") };
        assert_eq!(stores[0].get(&name).expect("get").expect("there"), vec![winner; 1000]);
    }
}

#[test]
fn large_objects_go_in_parts() {
    let store = store("large");
    let content: Bytes = (0..40_u32 << 18).flat_map(u32::to_le_bytes).collect::<Vec<u8>>().into();
    assert_eq!(content.len(), 40 << 20);
    let blob = store.put("state/large", content.clone()).expect("put");
    assert!(store.get_blob(&blob).expect("get") == content, "the parts differ from what was written");
    std::fs::write(shared().file("large/state/large"), &content[..20 << 20]).expect("cut");
    assert!(store.get_blob(&blob).is_err(), "half of it passes for the whole");
}

#[test]
fn wrong_credentials_and_places_are_reported_without_repeating_them() {
    let wrong = [("AWS_ACCESS_KEY_ID", "anabranch"), ("AWS_SECRET_ACCESS_KEY", "hush-hush")];
    let wrong = Access::new(wrong.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let store = Store::open(&shared().place("denied"), &wrong).expect("no request yet");
    for error in [store.put_new("log/1", Bytes::new()).expect_err("denied"), store.list("log").expect_err("denied")] {
        let error = error.to_string();
        assert!(error.contains("refuses the credentials") && error.contains("AWS_SECRET_ACCESS_KEY"), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }
    let elsewhere = shared().place("").replace("/checkpoints/", "/no-such-bucket/a");
    let store = Store::open(&elsewhere, &access()).expect("no request yet");
    let error = store.put_new("log/1", Bytes::new()).expect_err("no bucket").to_string();
    assert!(error.contains("no-such-bucket/a/log/1") && error.contains("NoSuchBucket"), "{error}");
}

#[test]
fn a_restore_may_read_local_copies() {
    let nearby = tempfile::tempdir().expect("folder");
    let open = || store("copied").with_copies(nearby.path()).expect("copies");
    let blob = open().put("state/a", Bytes::from_static(b"content")).expect("put");
    std::fs::remove_file(shared().file("copied/state/a")).expect("removed");
    assert_eq!(open().get_blob(&blob).expect("from the copy"), "content");
    assert!(store("copied").get_blob(&blob).is_err());
}
