//! Options of a table of files.

use std::path::PathBuf;
use std::time::Duration;

use anabranch_dataflow::ConnectorSpec;
use anabranch_model::{Error, Result};

use super::input::Compression;
use super::partitions::Partitions;
use crate::Options;
use crate::format::Format;

#[derive(Clone, Debug)]
pub(super) enum FileFormat {
    Text(Format),
    Parquet,
}

impl FileFormat {
    /// The extension of the files' names.
    pub(super) fn extension(&self) -> &'static str {
        match self {
            FileFormat::Text(Format::Json(_)) => "json",
            FileFormat::Text(Format::Csv(_)) => "csv",
            FileFormat::Text(Format::Raw(_)) => "txt",
            FileFormat::Parquet => "parquet",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct FileOptions {
    pub(super) path: PathBuf,
    pub(super) format: FileFormat,
    /// Compression of all text files; `None`: by each file's extension.
    pub(super) compression: Option<Compression>,
    /// If given, the table is followed.
    pub(super) monitor_interval: Option<Duration>,
    /// Size of a file at which the sink completes it.
    pub(super) rolling_bytes: u64,
    /// Age of a file at which the sink completes it.
    pub(super) rolling_interval: Duration,
    /// If given, the table is partitioned: a folder for each combination of values of some columns.
    pub(super) partitions: Option<Partitions>,
}

impl FileOptions {
    pub(super) fn read(spec: &ConnectorSpec) -> Result<Self> {
        let mut options = Options::new(spec);
        let path = options.required("path")?;
        let format = match options.required("format")? {
            "parquet" => FileFormat::Parquet,
            word if Format::NAMES.contains(&word) => FileFormat::Text(Format::required(&mut options, "format")?),
            other => {
                return Err(Error::user(format!("option 'format' is '{other}', which is no format of files"))
                    .remedy(format!("use '{}' or 'parquet'", Format::NAMES.join("', '"))));
            }
        };
        let choices = [("none", Compression::None), ("gzip", Compression::Gzip), ("zstd", Compression::Zstd)];
        let compression = options.choice("compression", &choices)?;
        if matches!(format, FileFormat::Parquet) && compression.is_some() {
            return Err(Error::user(
                "option 'compression' applies to text only: Parquet files name their own compression",
            )
            .remedy("leave the option out"));
        }
        // Flink's names. In Flink, tasks check at this interval whether a file is old enough. Ours check at
        // the end of each epoch.
        options.duration("sink.rolling-policy.check-interval")?;
        // The number of files does not affect the rows. Small files are not merged, and idle files are
        // completed by the rolling interval.
        options.ignore(&["auto-compaction", "compaction.file-size", "sink.rolling-policy.inactivity-interval"]);
        let rolling_bytes = match options.bytes("sink.rolling-policy.file-size")? {
            None => options.bytes("sink.rolling-size")?,
            size => size,
        };
        let rolling_interval = match options.duration("sink.rolling-policy.rollover-interval")? {
            None => options.duration("sink.rolling-interval")?,
            interval => interval,
        };
        let read = FileOptions {
            path: local_path(path)?,
            compression,
            format,
            monitor_interval: options.duration("source.monitor-interval")?.map(|d| d.max(Duration::from_millis(1))),
            rolling_bytes: rolling_bytes.unwrap_or(128 << 20),
            rolling_interval: rolling_interval.unwrap_or(Duration::from_secs(60)),
            partitions: Partitions::read(&mut options)?,
        };
        options.finish()?;
        Ok(read)
    }
}

/// The path of an option, which may be written as a URL of a file.
fn local_path(path: &str) -> Result<PathBuf> {
    let path = path.strip_prefix("file://").unwrap_or(path);
    match path.split_once("://") {
        Some((scheme, _)) if !scheme.contains('/') => Err(Error::user(format!(
            "connector 'filesystem' reads and writes local files only, but 'path' is '{path}'"
        ))
        .remedy(format!(
            "copy the files of '{scheme}://' to a local folder, or mount the remote storage as a local folder"
        ))),
        _ => Ok(path.into()),
    }
}
