//! The values of records: rows in a format, or changes of rows.

use anabranch_model::Result;
use arrow::datatypes::SchemaRef;

use crate::Options;
use crate::format::Format;
use crate::format::debezium::{self, DebeziumOptions};

/// The values of a table's records.
#[derive(Clone, Debug)]
pub(super) enum ValueFormat {
    Rows(Format),
    Changes(DebeziumOptions),
}

impl ValueFormat {
    pub(super) fn read(options: &mut Options<'_>) -> Result<ValueFormat> {
        let name = if options.string("value.format").is_some() { "value.format" } else { "format" };
        if options.string(name) == Some(debezium::NAME) {
            return DebeziumOptions::read(options, name).map(ValueFormat::Changes);
        }
        options.ignore(&["format"]);
        Format::required(options, name).map(ValueFormat::Rows)
    }

    /// Fails if the format cannot hold these columns.
    pub(super) fn check(&self, columns: &SchemaRef) -> Result<()> {
        let all: Vec<usize> = (0..columns.fields().len()).collect();
        match self {
            ValueFormat::Rows(format) => format.decoder(columns, &all).map(drop),
            ValueFormat::Changes(changes) => changes.decoder(columns, &all, Vec::new(), false).map(drop),
        }
    }

    /// Whether records are changes of rows.
    pub(super) fn has_changes(&self) -> bool {
        matches!(self, ValueFormat::Changes(_))
    }
}
