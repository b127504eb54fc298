//! Tables of files in a folder.

use std::fs;
use std::path::Path;

use anabranch_connectors::FilesystemConnector;
use anabranch_dataflow::ConnectorSpec;

use crate::rows::schema;
use crate::suite::drain;

/// The declaration of a table.
pub(super) fn table(path: &Path, options: &[(&str, &str)]) -> ConnectorSpec {
    ConnectorSpec::new("filesystem", &[&[("path", path.to_str().unwrap())], options].concat())
}

/// The rows that readers see.
pub(super) fn visible(table: &ConnectorSpec) -> Vec<String> {
    let all: Vec<_> = (0..schema().fields().len()).collect();
    let drained = drain(&FilesystemConnector, table, &schema(), &all, 1);
    assert_eq!(drained.malformed, []);
    drained.sorted()
}

/// The names of the files, sorted.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
