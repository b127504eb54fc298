use anabranch_model::{Epoch, ErrorKind, Incarnation, StageId, TaskId};

use super::*;

fn local(place: &str) -> Store {
    Store::open(place, &Access::default()).expect("store")
}

#[test]
fn one_caller_at_most_writes_a_new_object() {
    let folder = tempfile::tempdir().expect("folder");
    let store = local(folder.path().to_str().expect("text"));
    let wins: usize = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8_u8)
            .map(|racer| {
                let store = store.clone();
                scope.spawn(move || usize::from(store.put_new("log/1", vec![racer; 100].into()).expect("put")))
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().expect("no panic")).sum()
    });
    assert_eq!(wins, 1);
    let content = store.get("log/1").expect("get").expect("there");
    assert!(content.len() == 100 && content.iter().all(|byte| *byte == content[0]));
    assert_eq!(store.list("log").expect("list"), ["log/1"]);
    store.delete("log/1").expect("delete");
    store.delete("log/1").expect("delete again");
    assert_eq!(store.get("log/1").expect("get"), None);
}

/// That it is not there does not mean that it is empty: the log would begin anew, or an entry count as never
/// written.
#[test]
fn a_directory_that_was_moved_away_is_not_an_empty_one() {
    let folder = tempfile::tempdir().expect("folder");
    let (place, away) = (folder.path().join("checkpoints"), folder.path().join("away"));
    let store = local(place.to_str().expect("text"));
    assert_eq!(store.get("log/1").expect("nothing yet"), None);
    assert_eq!(store.list("log").expect("nothing yet"), Vec::<String>::new());
    assert!(store.put_new("log/1", vec![1].into()).expect("put"));
    std::fs::rename(&place, &away).expect("moved");
    for is_mount_point in [false, true] {
        if is_mount_point {
            std::fs::create_dir(&place).expect("an empty folder");
        }
        assert!(store.get("log/1").is_err() && store.get("log/2").is_err());
        assert!(store.list("log").is_err());
        assert!(store.put_new("log/2", vec![2].into()).is_err());
    }
    std::fs::remove_dir(&place).expect("removed");
    std::fs::rename(&away, &place).expect("moved back");
    assert_eq!(store.list("log").expect("list"), ["log/1"]);
    assert!(store.put_new("log/2", vec![2].into()).expect("put"));
}

#[test]
fn damage_is_distinguished_from_absence() {
    let folder = tempfile::tempdir().expect("folder");
    let store = local(&format!("file://{}", folder.path().display()));
    let blob = store.put("state/a", Bytes::from_static(b"content")).expect("put");
    assert_eq!(store.get_blob(&blob).expect("get"), "content");
    for (content, expected) in [("contenT", "checksum"), ("cont", "4 bytes, 7 were written")] {
        std::fs::write(folder.path().join("state/a"), content).expect("write");
        let error = store.get_blob(&blob).expect_err("damaged").to_string();
        assert!(error.contains(expected) && error.contains("state/a"), "{error}");
    }
    store.delete("state/a").expect("delete");
    assert!(store.get_blob(&blob).expect_err("missing").to_string().contains("is missing"));
}

/// Files of state written through a store with copies, and what is left of them.
struct Copied {
    remote: tempfile::TempDir,
    nearby: tempfile::TempDir,
}

impl Copied {
    fn new() -> Copied {
        Copied { remote: tempfile::tempdir().expect("folder"), nearby: tempfile::tempdir().expect("folder") }
    }

    /// A directory in the role of a remote object store.
    fn store(&self, place: &str) -> Store {
        let objects = object_store::local::LocalFileSystem::new_with_prefix(self.remote.path()).expect("directory");
        Store::new(Arc::new(objects), place).with_copies(self.nearby.path()).expect("copies")
    }

    fn copies(&self) -> Vec<PathBuf> {
        let folders = std::fs::read_dir(self.nearby.path().join("copies")).expect("copies");
        let files = folders.flat_map(|folder| std::fs::read_dir(folder.expect("entry").path()).expect("folder"));
        let mut files: Vec<PathBuf> = files.map(|file| file.expect("entry").path()).collect();
        files.sort();
        files
    }
}

#[test]
fn an_intact_copy_replaces_the_remote_file_and_a_damaged_one_does_not() {
    let copied = Copied::new();
    let store = copied.store("s3://far/away");
    let blob = store.put("state/a", Bytes::from_static(b"content")).expect("put");
    store.put("manifests/m", Bytes::from_static(b"text")).expect("put");
    let [copy] = copied.copies().try_into().expect("only state is copied");

    let again = copied.store("s3://far/away");
    std::fs::remove_file(copied.remote.path().join("state/a")).expect("removed");
    assert_eq!(again.get_blob(&blob).expect("from the copy"), "content");
    for damage in ["contenT", "cont"] {
        std::fs::write(&copy, damage).expect("damaged");
        assert!(again.get_blob(&blob).expect_err("no copy counts").to_string().contains("is missing"));
    }
    std::fs::write(copied.remote.path().join("state/a"), "content").expect("restored");
    assert_eq!(again.get_blob(&blob).expect("from afar"), "content");
    assert_eq!(std::fs::read(&copy).expect("copied again"), b"content");
}

#[test]
fn copies_are_removed_when_they_are_not_needed() {
    let copied = Copied::new();
    let store = copied.store("s3://far/away");
    for name in ["state/a", "state/b", "state/c"] {
        store.put(name, Bytes::from_static(b"content")).expect("put");
    }
    store.delete("state/a").expect("deleted");
    assert_eq!(copied.copies().len(), 2);
    store.keep_copies(|name| name == "state/c");
    let left = copied.copies();
    assert!(left.len() == 1 && left[0].ends_with("c"), "{left:?}");

    // A job that is gone, and one that is not.
    let gone = copied.store("s3://far/gone").put("state/a", Bytes::from_static(b"old")).expect("put");
    let folder = copied.copies().into_iter().find(|path| path.ends_with("a")).expect("copied");
    let folder = std::fs::File::open(folder.parent().expect("folder")).expect("open");
    folder.set_modified(std::time::UNIX_EPOCH).expect("long ago");
    let other = copied.store("s3://far/other");
    assert_eq!(copied.copies(), left);
    assert_eq!(other.get_blob(&gone).expect("from afar"), "old");
}

#[test]
fn copies_are_found_by_task_with_the_newest_of_each() {
    let copied = Copied::new();
    let store = copied.store("s3://far/away");
    for name in ["1-5-2.0-0.arrow", "2-3-2.0-0-17.arrow", "2-3-2.1-0+1.arrow", "1-9-2.1-0.arrow", "other", "1-2.arrow"]
    {
        store.put(&format!("state/{name}"), Bytes::from_static(b"content")).expect("put");
    }
    copied.store("s3://far/empty");
    let task = |index| {
        let task = TaskId { stage: StageId(2), index };
        CopiedTask { task, incarnation: Incarnation(2), epoch: Epoch(3) }
    };
    let expected = LocalCopies { folder: store.copies_name(), tasks: vec![task(0), task(1)] };
    assert_eq!(LocalCopies::find(copied.nearby.path()).expect("found"), [expected]);

    store.delete_copy("state/2-3-2.1-0+1.arrow");
    assert_eq!(copied.copies().len(), 5);
    store.remove_copies();
    assert_eq!(copied.copies().len(), 0);
    assert_eq!(store.list("state").expect("listed").len(), 6, "the files stay");
    store.put("state/1-5-2.0-0.arrow", Bytes::from_static(b"content")).expect("put");
    assert_eq!(copied.copies().len(), 1);
}

#[test]
fn sizes_are_checked_without_reading() {
    let copied = Copied::new();
    let store = copied.store("s3://far/away");
    let put = |name: &str| store.put(name, Bytes::from_static(b"content")).expect("put");
    let blobs = [put("state/a"), put("prepared/a")];
    assert_eq!(store.check_sizes(blobs.iter()).expect("as written"), Some(()));
    std::fs::write(copied.remote.path().join("state/a"), "contenT").expect("written");
    assert_eq!(store.check_sizes(blobs.iter()).expect("of the same size"), Some(()));
    std::fs::write(copied.remote.path().join("state/a"), "cont").expect("written");
    let error = store.check_sizes(blobs.iter()).expect_err("cut");
    assert!(error.kind() == ErrorKind::Damaged && error.to_string().contains("4 bytes, 7 were written"), "{error}");
    std::fs::remove_file(copied.remote.path().join("state/a")).expect("removed");
    let error = store.check_sizes(blobs.iter()).expect_err("missing");
    assert!(error.kind() == ErrorKind::Damaged && error.to_string().contains("is missing"), "{error}");
    let folder = tempfile::tempdir().expect("folder");
    let directory = local(folder.path().to_str().expect("text"));
    assert_eq!(directory.check_sizes(blobs.iter()).expect("no error"), None);
}

#[test]
fn a_directory_needs_no_copies() {
    let folder = tempfile::tempdir().expect("folder");
    let nearby = folder.path().join("nearby");
    let store = local(folder.path().join("jobs").to_str().expect("text")).with_copies(&nearby).expect("store");
    store.put("state/a", Bytes::new()).expect("put");
    assert!(!nearby.exists());
}

#[test]
fn of_a_refused_request_only_the_code_is_reported() {
    let message = |status: &str, code: &str| {
        let body = format!("<Error><Code>{code}</Code><AWSAccessKeyId>AKIA1</AWSAccessKeyId></Error>");
        let long = "x".repeat(600);
        let said = format!("request {long} - Server returned non-2xx status code: {status}: \n{body}");
        let said = if code == "SlowDown" { said.replace(&long, "") } else { said };
        failed("read", "s3://b/a", &object_store::Error::Generic { store: "S3", source: said.into() }).to_string()
    };
    for code in CREDENTIALS {
        let error = message("400 Bad Request", code);
        assert!(error.contains("refuses the credentials") && !error.contains("AKIA1"), "{error}");
    }
    let error = message("429 Too Many Requests", "SlowDown");
    assert!(error.contains("429 Too Many Requests (SlowDown)") && !error.contains("AKIA1"), "{error}");
}

#[test]
fn the_memory_of_one_object_is_used_for_the_next() {
    let folder = tempfile::tempdir().expect("folder");
    let store = Store::open(folder.path().to_str().expect("text"), &Access::default()).expect("store");
    let put = |name: &str, bytes: usize| store.put(name, vec![7; bytes].into()).expect("put");
    let (large, small) = (put("state/1.arrow", 100_000), put("state/2.arrow", 50_000));
    let first = store.get_blob(&large).expect("as written");
    let place = first.as_ptr();
    let room = first.try_into_mut().map(Vec::from).expect("no other holds it");
    let second = store.get_blob_in(&small, room).expect("as written");
    assert_eq!((second.as_ptr(), second.len()), (place, 50_000));
    assert_eq!(second, vec![7; 50_000]);
}
