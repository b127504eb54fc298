//! Options of a table of files.

use std::path::PathBuf;
use std::time::Duration;

use anabranch_dataflow::ConnectorSpec;
use anabranch_model::{Error, Result};

use crate::Options;
use crate::format::Format;

/// What the files hold.
#[derive(Clone, Debug)]
pub(super) enum FileFormat {
    Text(Format),
    Parquet,
}

impl FileFormat {
    /// End of the files' names.
    pub(super) fn extension(&self) -> &'static str {
        match self {
            FileFormat::Text(Format::Json(_)) => "json",
            FileFormat::Text(Format::Csv(_)) => "csv",
            FileFormat::Text(Format::Raw) => "txt",
            FileFormat::Parquet => "parquet",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct FileOptions {
    pub(super) path: PathBuf,
    pub(super) format: FileFormat,
    /// Given: the table is followed.
    pub(super) monitor_interval: Option<Duration>,
    pub(super) rolling_bytes: u64,
    pub(super) rolling_interval: Duration,
}

impl FileOptions {
    pub(super) fn read(spec: &ConnectorSpec) -> Result<Self> {
        let mut options = Options::new(spec);
        let path = options.required("path")?;
        let format = match options.required("format")? {
            "parquet" => FileFormat::Parquet,
            "json" | "csv" | "raw" => FileFormat::Text(Format::required(&mut options, "format")?),
            other => {
                return Err(Error::user(format!("option 'format' is '{other}', which is no format of files"))
                    .remedy("use 'json', 'csv', 'raw' or 'parquet'"));
            }
        };
        let read = FileOptions {
            path: path.strip_prefix("file://").unwrap_or(path).into(),
            format,
            monitor_interval: options.duration("source.monitor-interval")?.map(|d| d.max(Duration::from_millis(1))),
            rolling_bytes: options.bytes("sink.rolling-size")?.unwrap_or(128 << 20),
            rolling_interval: options.duration("sink.rolling-interval")?.unwrap_or(Duration::from_secs(60)),
        };
        options.finish()?;
        Ok(read)
    }
}
