//! Metadata columns: they hold metadata of a table's records.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{ConnectorSpec, sql_name};
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::statement::{ColumnDefinition, ColumnKind};

/// The indexes of metadata columns among the stored columns, with their keys.
pub(crate) fn metadata_columns(columns: &[ColumnDefinition]) -> BTreeMap<usize, String> {
    let stored = columns.iter().filter(|column| !matches!(column.kind, ColumnKind::Computed(_)));
    let key_of = |(index, column): (usize, &ColumnDefinition)| match &column.kind {
        ColumnKind::Metadata { key, .. } => Some((index, key.clone())),
        ColumnKind::Physical { .. } | ColumnKind::Computed(_) => None,
    };
    stored.enumerate().filter_map(key_of).collect()
}

/// The columns of the records' content.
pub(crate) fn content_of(columns: &SchemaRef, metadata: &BTreeMap<usize, String>) -> SchemaRef {
    if metadata.is_empty() {
        return Arc::clone(columns);
    }
    let fields = columns.fields().iter().enumerate().filter(|(index, _)| !metadata.contains_key(index));
    Arc::new(Schema::new(fields.map(|(_, field)| Arc::clone(field)).collect::<Vec<_>>()))
}

/// The written columns of a table.
pub(crate) struct Written {
    pub(crate) columns: SchemaRef,
    /// The metadata columns among them, with their keys.
    pub(crate) metadata: BTreeMap<usize, String>,
    /// A metadata column that is not virtual but cannot be written.
    pub(crate) unwritable: Option<String>,
}

/// Selects the content, and the metadata columns that are not virtual and whose key the connector writes.
pub(crate) fn written_columns(
    physical: &SchemaRef,
    columns: &[ColumnDefinition],
    metadata: &BTreeMap<usize, String>,
    writable: &[&str],
) -> Written {
    let is_virtual = |name: &str| {
        let found = columns.iter().find(|column| column.name.value == name);
        found.is_some_and(|column| matches!(column.kind, ColumnKind::Metadata { is_virtual: true, .. }))
    };
    let mut written = Written { columns: Arc::clone(physical), metadata: BTreeMap::new(), unwritable: None };
    let mut kept = Vec::new();
    for (index, field) in physical.fields().iter().enumerate() {
        if let Some(key) = metadata.get(&index) {
            if is_virtual(field.name()) {
                continue;
            }
            if !writable.contains(&key.as_str()) {
                written.unwritable.get_or_insert(field.name().clone());
                continue;
            }
            written.metadata.insert(kept.len(), key.clone());
        }
        kept.push(Arc::clone(field));
    }
    if kept.len() < physical.fields().len() {
        written.columns = Arc::new(Schema::new(kept));
    }
    written
}

/// Checks that a column can hold the metadata of this key.
pub(crate) fn check_metadata(column: &Field, key: &str, known: Option<&SchemaRef>, of: &ConnectorSpec) -> Result<()> {
    let Some(known) = known else {
        return Err(Error::user(format!("a table of connector '{of}' has no metadata: column '{}'", column.name()))
            .remedy("omit the column"));
    };
    let Some((_, field)) = known.column_with_name(key) else {
        let names: Vec<&str> = known.fields().iter().map(|field| field.name().as_str()).collect();
        return Err(Error::user(format!("connector '{of}' has no metadata '{key}' for column '{}'", column.name()))
            .remedy(format!("use one of: {}", names.join(", "))));
    };
    let (is, declared) = (field.data_type(), column.data_type());
    let is_time = |data_type: &DataType| matches!(data_type, DataType::Timestamp(..));
    let is_wider = is.is_integer() && declared.is_integer() && declared.primitive_width() >= is.primitive_width();
    let is_text = is.is_integer() && declared.is_string();
    let fits = is == declared || is_wider || is_text || is_time(is) && is_time(declared);
    if !fits {
        let (is, declared) = (sql_name(is), sql_name(declared));
        return Err(Error::user(format!("metadata '{key}' is {is}, but column '{}' is {declared}", column.name()))
            .remedy(format!("declare it as {is}, and CAST it in the query")));
    }
    if field.is_nullable() && !column.is_nullable() {
        return Err(Error::user(format!("metadata '{key}' can be NULL, but column '{}' is NOT NULL", column.name()))
            .remedy("declare it without NOT NULL"));
    }
    Ok(())
}
