//! Filesystem: tables of files in a folder. A table is read once, or followed as its files grow; a sink
//! writes file by file. docs/connectors.md describes the options.
//!
//! All tasks of a bounded table share one listing of its files. A followed file is identified by its inode,
//! creation time and first bytes. If it is renamed, the reader continues; a file that takes over its name is
//! a new file. If it becomes shorter, the reader starts it again; in a bounded table that is an error.

mod followed;
mod frame;
mod identity;
mod input;
mod lines;
mod listing;
mod options;
mod parquet;
mod partitions;
mod position;
mod sink;
mod source;
mod text;

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::sync::Arc;

use anabranch_dataflow::{ConnectorSpec, LookupJoinSpec, Lookups, SinkSpec, SourceSpec, TableTraits, Visibility};
use anabranch_model::{Error, Result};
use anabranch_operators::{Connector, Lookup, LookupContext, Positions, Sink, Source, TaskContext};
use arrow::datatypes::SchemaRef;

use options::{FileFormat, FileOptions};
use partitions::Partitions;

use crate::lookup::Whole;

/// Tables of files.
#[derive(Debug, Default)]
pub struct FilesystemConnector;

impl Connector for FilesystemConnector {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let options = FileOptions::read(spec)?;
        if columns.fields().is_empty() {
            return Err(Error::user("a table of files needs its columns declared")
                .remedy("write CREATE TABLE name (column TYPE, ...) WITH (...)"));
        }
        if let Some(partitions) = &options.partitions {
            return describe_partitioned(partitions, &options, columns);
        }
        if let FileFormat::Text(format) = &options.format {
            let all: Vec<_> = (0..columns.fields().len()).collect();
            format.line_decoder(columns, &all)?;
        }
        let bounded = options.monitor_interval.is_none();
        let files = if bounded && options.path.exists() { Some(listing::files(&options.path)?.len()) } else { None };
        Ok(TableTraits {
            bounded,
            readable: true,
            // If the path is a file, opening the sink reports that. `false` would mean that the connector
            // cannot write at all.
            writable: true,
            max_readers: files.map(|count| u32::try_from(count.max(1)).unwrap_or(u32::MAX)),
            schema: None,
            lookups: if bounded { Lookups::Whole } else { Lookups::None },
            visibility: Visibility::ByCheckpoint,
            ..TableTraits::default()
        })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let options = FileOptions::read(&spec.connector)?;
        if options.partitions.is_some() {
            return Err(Error::user(format!("table '{}' is partitioned, and cannot be read yet", spec.table)).remedy(
                "declare another table for the same folder, without PARTITIONED BY and without the columns that it names",
            ));
        }
        Ok(Box::new(source::FileSource::open(spec, options, context, from)?))
    }

    fn lookup(&self, spec: &LookupJoinSpec, context: &LookupContext) -> Result<Box<dyn Lookup>> {
        let open = |spec: &SourceSpec, task: &TaskContext| FilesystemConnector.source(spec, task, None);
        Ok(Box::new(Whole::open(spec, context, Box::new(open))?))
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let options = FileOptions::read(&spec.connector)?;
        sink::open(spec, options, context)
    }
}

/// The traits of a partitioned table, which can only be written. It is declared readable so that `source`
/// refuses a read with a remedy.
fn describe_partitioned(partitions: &Partitions, options: &FileOptions, columns: &SchemaRef) -> Result<TableTraits> {
    let others = (0..columns.fields().len()).filter(|index| !partitions.keys.contains(columns.field(*index).name()));
    let own = columns.project(&others.collect::<Vec<_>>()).map_err(|e| Error::internal(format!("columns: {e}")))?;
    if own.fields().is_empty() {
        return Err(Error::user("all columns of the table are named by PARTITIONED BY, so its files have none")
            .remedy("leave out a column there"));
    }
    if let FileFormat::Text(format) = &options.format {
        format.encoder(&Arc::new(own))?;
    }
    let visibility = Visibility::ByCheckpoint;
    Ok(TableTraits { bounded: true, readable: true, writable: true, visibility, ..TableTraits::default() })
}

/// An error of the operating system about a file.
fn io_error(path: &Path, doing: &str, error: &io::Error) -> Error {
    Error::outside(format!("cannot {doing} {}: {error}", path.display()))
}

/// The files and folders in a folder.
fn entries(folder: &Path) -> Result<Vec<DirEntry>> {
    let failed = |e: io::Error| io_error(folder, "list", &e);
    fs::read_dir(folder).map_err(failed)?.map(|entry| entry.map_err(failed)).collect()
}
