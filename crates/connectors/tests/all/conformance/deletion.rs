//! Files that are deleted from a folder that is followed.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::FilesystemConnector;
use anabranch_dataflow::ConnectorSpec;
use anabranch_operators::{Connector, Polled, Source};
use arrow::datatypes::{DataType, Field, Schema};
use tempfile::TempDir;

use crate::suite::resume::positions;
use crate::suite::{context, row_texts, source_spec};

/// The rows that come until nothing more does for a while, and how many partitions are closed.
fn read(source: &mut dyn Source) -> (Vec<String>, usize) {
    let (mut rows, mut closed, mut pending) = (Vec::new(), 0, 0);
    while pending < 3 {
        match source.poll(Duration::from_millis(30)).unwrap() {
            Polled::Rows(batch) => rows.extend(row_texts(&batch.batch)),
            Polled::Closed(_) => closed += 1,
            Polled::Pending => pending += 1,
            other => assert!(matches!(other, Polled::Opened { .. }), "{other:?}"),
        }
    }
    (rows, closed)
}

#[test]
fn a_deleted_file_of_a_followed_folder_has_ended() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_str().unwrap();
    let spec =
        ConnectorSpec::new("filesystem", &[("path", path), ("format", "json"), ("source.monitor-interval", "10 ms")]);
    for (name, text) in [("a.json", "{\"id\": 1}\n{\"id\""), ("b.json", "{\"id\": 2}\n")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let ids = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let reader = source_spec(&spec, &ids, &[0]);
    let mut source = FilesystemConnector.source(&reader, &context(0, 1), None).unwrap();
    assert_eq!(read(source.as_mut()), (vec!["1".to_owned(), "2".to_owned()], 0));
    fs::remove_file(folder.path().join("a.json")).unwrap();
    // A file that was not opened yet is deleted before its first turn.
    let mut late = FilesystemConnector.source(&reader, &context(0, 1), None).unwrap();
    fs::remove_file(folder.path().join("b.json")).unwrap();
    fs::write(folder.path().join("c.json"), "{\"id\": 3}\n").unwrap();
    assert_eq!(read(source.as_mut()), (vec!["3".to_owned()], 2));
    assert_eq!(read(late.as_mut()), (vec!["3".to_owned()], 1));
    // What is gone is forgotten.
    for source in [&source, &late] {
        let positions = positions(source.as_ref());
        assert_eq!(positions.len(), 1);
        assert!(
            positions[0].0.starts_with("c.json inode ") && positions[0].1.starts_with("byte 10 line 2 "),
            "{positions:?}"
        );
    }
    FilesystemConnector.source(&reader, &context(0, 1), Some(&source.positions().unwrap())).unwrap();
}
