//! The values of records: rows in a format, or changes of rows.

use anabranch_model::Result;
use arrow::datatypes::SchemaRef;

use crate::Options;
use crate::format::Format;
use crate::format::debezium::{self, DebeziumOptions};

/// The values of a table's records.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Rows(Format),
    Changes(DebeziumOptions),
}

impl Content {
    /// Reads `value.format` or `format`, with the options of that format.
    pub(super) fn read(options: &mut Options<'_>) -> Result<Content> {
        let name = if options.string("value.format").is_some() { "value.format" } else { "format" };
        if options.string(name) == Some(debezium::NAME) {
            return DebeziumOptions::read(options, name).map(Content::Changes);
        }
        options.ignore(&["format"]);
        Format::required(options, name).map(Content::Rows)
    }

    /// Fails if the format cannot hold these columns.
    pub(super) fn check(&self, columns: &SchemaRef) -> Result<()> {
        let all: Vec<usize> = (0..columns.fields().len()).collect();
        match self {
            Content::Rows(format) => format.decoder(columns, &all).map(drop),
            Content::Changes(changes) => changes.decoder(columns, &all, Vec::new(), false).map(drop),
        }
    }

    /// Whether records are changes of rows.
    pub(super) fn has_changes(&self) -> bool {
        matches!(self, Content::Changes(_))
    }
}
