//! Followed files that are renamed, replaced, emptied and deleted: each line comes once, whatever its file is
//! called.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::FilesystemConnector;
use anabranch_dataflow::ConnectorSpec;
use anabranch_model::Result;
use anabranch_operators::testing::TestHost;
use anabranch_operators::{Connector, Polled, Positions, Source, TaskContext};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tempfile::TempDir;

use crate::suite::{context, row_texts, source_spec};

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("line", DataType::Utf8View, false)]))
}

fn open(path: &Path, parallelism: u32, from: Option<&Positions>) -> Vec<Box<dyn Source>> {
    let options = [("path", path.to_str().unwrap()), ("format", "raw"), ("source.monitor-interval", "5 ms")];
    let reader = source_spec(&ConnectorSpec::new("filesystem", &options), &columns(), &[0]);
    let task = |index| FilesystemConnector.source(&reader, &context(index, parallelism), from).unwrap();
    (0..parallelism).map(task).collect()
}

/// The rows of the tasks until none has more for a while, sorted.
fn read(sources: &mut [Box<dyn Source>]) -> Vec<String> {
    let mut lines = Vec::new();
    for source in sources {
        let mut pending = 0;
        while pending < 3 {
            match source.poll(Duration::from_millis(20)).unwrap() {
                Polled::Rows(rows) => lines.extend(row_texts(&rows.batch)),
                Polled::Pending => pending += 1,
                _ => {}
            }
        }
    }
    lines.sort();
    lines
}

fn positions(sources: &[Box<dyn Source>]) -> Positions {
    let all: Vec<_> = sources.iter().flat_map(|source| source.positions().unwrap()).collect();
    let union: Positions = all.iter().cloned().collect();
    assert_eq!(union.len(), all.len(), "two tasks tell of one file: {all:?}");
    union
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

struct Logs {
    folder: TempDir,
}

impl Logs {
    fn new() -> Logs {
        Logs { folder: TempDir::new().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

#[test]
fn a_rotated_log_continues_under_its_new_name() {
    for parallelism in [1, 3] {
        let logs = Logs::new();
        append(&logs.at("app.log"), "l1\n");
        let mut sources = open(logs.folder.path(), parallelism, None);
        assert_eq!(read(&mut sources), ["l1"]);
        for (round, rotated) in ["app.log.1", "app.log.2", "app.log.3"].iter().enumerate() {
            // The writer continues for a moment in the renamed file.
            append(&logs.at("app.log"), "before\n");
            fs::rename(logs.at("app.log"), logs.at(rotated)).unwrap();
            append(&logs.at(rotated), "between\n");
            append(&logs.at("app.log"), &format!("new {round}\n"));
            assert_eq!(read(&mut sources), ["before".to_owned(), "between".to_owned(), format!("new {round}")]);
            append(&logs.at(rotated), "late\n");
            assert_eq!(read(&mut sources), ["late"]);
        }
        let from = positions(&sources);
        assert_eq!(from.len(), 4);
        // At another parallelism, and rotated once more meanwhile.
        drop(sources);
        fs::rename(logs.at("app.log"), logs.at("app.log.4")).unwrap();
        append(&logs.at("app.log.4"), "while not running\n");
        append(&logs.at("app.log"), "the newest\n");
        let mut sources = open(logs.folder.path(), 2, Some(&from));
        assert_eq!(read(&mut sources), ["the newest", "while not running"]);
    }
}

#[test]
fn a_log_that_is_moved_out_of_the_table_is_read_to_its_end() {
    let logs = Logs::new();
    let (log, elsewhere) = (logs.at("app.log"), TempDir::new_in(logs.folder.path().parent().unwrap()).unwrap());
    append(&log, "one\n");
    // A folder, and one file as the table.
    let (mut folder, mut file) = (open(logs.folder.path(), 1, None), open(&log, 1, None));
    assert_eq!((read(&mut folder), read(&mut file)), (vec!["one".to_owned()], vec!["one".to_owned()]));
    append(&log, "two\nthree");
    fs::rename(&log, elsewhere.path().join("app.log")).unwrap();
    assert_eq!((read(&mut folder), read(&mut file)), (vec!["two".to_owned()], vec!["two".to_owned()]));
    append(&log, "four\n");
    assert_eq!((read(&mut folder), read(&mut file)), (vec!["four".to_owned()], vec!["four".to_owned()]));
    assert_eq!(positions(&folder).len(), 1, "what is gone is forgotten");
}

#[test]
fn an_emptied_log_begins_anew() {
    let logs = Logs::new();
    let log = logs.at("app.log");
    append(&log, "one\ntwo\n");
    let mut sources = open(logs.folder.path(), 2, None);
    assert_eq!(read(&mut sources), ["one", "two"]);
    fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(0).unwrap();
    append(&log, "1\n");
    assert_eq!(read(&mut sources), ["1"]);
    append(&log, "2\n");
    assert_eq!(read(&mut sources), ["2"]);
    // As long as before, and longer, at the next look: only the first bytes tell.
    let from = positions(&sources);
    for text in ["a\nb\nc\n", "d\ne\nf\ng\nh\n"] {
        fs::write(&log, text).unwrap();
        assert_eq!(read(&mut sources), text.lines().collect::<Vec<_>>());
    }
    let mut resumed = open(logs.folder.path(), 1, Some(&from));
    assert_eq!(read(&mut resumed), ["d", "e", "f", "g", "h"]);
}

#[test]
fn what_takes_the_name_of_a_log_is_another_file() {
    let logs = Logs::new();
    let log = logs.at("app.log");
    append(&log, "one\n");
    let mut sources = open(logs.folder.path(), 2, None);
    assert_eq!(read(&mut sources), ["one"]);
    append(&log, "two\n");
    append(&logs.at(".new"), "one\nthree\nfour\n");
    fs::rename(logs.at(".new"), &log).unwrap();
    assert_eq!(read(&mut sources), ["four", "one", "three", "two"]);
    // File systems give a deleted file's inode to the next one.
    for round in 0..5 {
        fs::remove_file(&log).unwrap();
        append(&log, &format!("one\nround {round}\n"));
        assert_eq!(read(&mut sources), ["one".to_owned(), format!("round {round}")]);
    }
    assert_eq!(positions(&sources).len(), 1);
}

#[test]
fn positions_of_followed_files_are_words_and_those_of_former_versions_are_understood() {
    let logs = Logs::new();
    append(&logs.at("app.log"), "one\ntwo\n");
    append(&logs.at("b.log"), "three\n");
    let old: Positions = [("app.log", "byte 4 line 2"), ("gone.log", "end")]
        .map(|(name, position)| (name.to_owned(), position.to_owned()))
        .into();
    let mut sources = open(logs.folder.path(), 1, Some(&old));
    assert_eq!(read(&mut sources), ["three", "two"]);
    let from = positions(&sources);
    let metadata = fs::metadata(logs.at("app.log")).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    // The name by which event time is kept stays as it was.
    let app = &from["app.log"];
    assert!(app.starts_with(&format!("byte 8 line 3 inode {inode} born ")), "{app}");
    assert!(app.contains(" first 8 hash "), "{app}");
    let (b, _) = from.iter().next_back().unwrap();
    assert!(b.starts_with("b.log inode ") && b.contains(" born "), "{b}");

    append(&logs.at("app.log"), "four\n");
    fs::rename(logs.at("app.log"), logs.at("c.log")).unwrap();
    append(&logs.at("app.log"), "five\n");
    let mut sources = open(logs.folder.path(), 3, Some(&from));
    assert_eq!(read(&mut sources), ["five", "four"]);
    let from = positions(&sources);

    // Copied elsewhere, the files have other inodes; they are the same by their names and first bytes.
    let copy = TempDir::new().unwrap();
    for (name, was) in [("app.log", "c.log"), ("b.log", "b.log")] {
        fs::copy(logs.at(was), copy.path().join(name)).unwrap();
    }
    append(&copy.path().join("b.log"), "six\n");
    let of_b = |(name, _): &(&String, &String)| name.starts_with("b.log");
    let b: Positions = from.iter().filter(of_b).map(|(name, at)| (name.clone(), at.clone())).collect();
    assert_eq!(b.len(), 1);
    fs::remove_file(copy.path().join("app.log")).unwrap();
    assert_eq!(read(&mut open(copy.path(), 2, Some(&b))), ["six"]);
    fs::write(copy.path().join("b.log"), "something else altogether\n").unwrap();
    assert_eq!(read(&mut open(copy.path(), 2, Some(&b))), ["something else altogether"], "b.log had been read");
}

/// Opens a folder at positions; the error if it is refused, and what the user was notified of.
fn resume(folder: &Path, from: &Positions) -> (Result<Vec<Box<dyn Source>>>, Vec<String>) {
    let options = [("path", folder.to_str().unwrap()), ("format", "raw"), ("source.monitor-interval", "5 ms")];
    let reader = source_spec(&ConnectorSpec::new("filesystem", &options), &columns(), &[0]);
    let host = Arc::new(TestHost::default());
    let task = |index| {
        let context = TaskContext { host: host.clone(), ..context(index, 2) };
        FilesystemConnector.source(&reader, &context, Some(from))
    };
    let opened = (0..2).map(task).collect();
    (opened, host.take_notices())
}

#[test]
fn a_log_that_is_deleted_while_the_job_is_down_is_missed_only_if_it_was_not_read() {
    let logs = Logs::new();
    let log = logs.at("app.log");
    append(&log, "one\n");
    append(&logs.at("b.log"), "two\n");
    let mut sources = open(logs.folder.path(), 2, None);
    assert_eq!(read(&mut sources), ["one", "two"]);
    let read_positions = positions(&sources);
    // Resumed, and not read yet: what was known of the end is still known.
    let kept = positions(&open(logs.folder.path(), 3, Some(&read_positions)));
    assert_eq!(kept, read_positions);
    fs::remove_file(&log).unwrap();
    append(&log, "anew\nmore\n");
    let (resumed, told) = resume(logs.folder.path(), &kept);
    assert_eq!(read(&mut resumed.unwrap()), ["anew", "more"]);
    assert!(told.len() == 1 && told[0].contains("app.log is gone"), "once: {told:?}");

    // A line that has no end yet has not been read.
    append(&logs.at("b.log"), "three");
    let mut sources = open(logs.folder.path(), 1, Some(&kept));
    read(&mut sources);
    let unread = positions(&sources);
    fs::remove_file(logs.at("b.log")).unwrap();
    let (resumed, told) = resume(logs.folder.path(), &unread);
    let error = resumed.err().unwrap().to_string();
    assert!(error.contains("b.log is gone, and it had been read to byte 4 line 2 only"), "{error}");
    assert_eq!(told, Vec::<String>::new());
}

/// A header is longer than what tells two files apart by chance.
#[test]
fn a_file_with_the_same_long_header_is_another_one() {
    let logs = Logs::new();
    let header = format!("{}\n", "column,".repeat(100));
    fs::write(logs.at("app.log"), format!("{header}one\n")).unwrap();
    let mut sources = open(logs.folder.path(), 1, None);
    assert_eq!(read(&mut sources).len(), 2);
    let from = positions(&sources);
    let copy = TempDir::new().unwrap();
    fs::write(copy.path().join("app.log"), format!("{header}two\nthree\n")).unwrap();
    assert_eq!(read(&mut open(copy.path(), 1, Some(&from)))[1..], ["three", "two"]);
}

#[test]
fn a_packed_log_in_a_followed_folder_is_read_once() {
    let logs = Logs::new();
    append(&logs.at("app.log"), "now\n");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"old 1\nold 2\n").unwrap();
    let packed = encoder.finish().unwrap();
    let mut sources = open(logs.folder.path(), 2, None);
    assert_eq!(read(&mut sources), ["now"]);
    fs::write(logs.at("app.log.2.gz"), &packed[..packed.len() / 2]).unwrap();
    assert!(read(&mut sources).len() <= 2);
    fs::write(logs.at("app.log.3.gz"), &packed).unwrap();
    assert!(read(&mut sources).len() >= 2);
    fs::remove_file(logs.at("app.log.2.gz")).unwrap();
    assert_eq!(read(&mut sources), Vec::<String>::new());
    let mut resumed = open(logs.folder.path(), 1, Some(&positions(&sources)));
    assert_eq!(read(&mut resumed), Vec::<String>::new());
}
