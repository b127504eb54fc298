//! Tables whose records are changes: each record adds or retracts a row. With a primary key, such a table is
//! read as versions in two cases:
//!
//! * The retraction of a row may have another event time or other metadata than the row.
//! * The first changes are not read. The retraction of a row that was never read would make a count too low
//!   for ever. Read as versions, there is no version of that row to remove.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{TableTraits, WEIGHT, weight_field};
use arrow::datatypes::{Schema, SchemaRef};

use crate::rel::Get;
use crate::table::Table;

/// The columns of a scan of changes: the declared columns, and the weight, which the connector provides under
/// this key.
pub(crate) fn with_weight(declared: &SchemaRef, key: &str, metadata: &mut BTreeMap<usize, String>) -> SchemaRef {
    metadata.insert(declared.fields().len(), key.to_owned());
    let fields = declared.fields().iter().cloned().chain([Arc::new(weight_field())]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Decides whether a table of changes is read as changes or as versions. It is read as versions if it has a
/// primary key in its records, and an event time, a start after its first changes, or metadata that may
/// differ between a row and its retraction.
pub(crate) fn changes_or_versions<'a>(
    traits: &mut TableTraits,
    has_key: bool,
    has_event_time: bool,
    mut metadata: impl Iterator<Item = &'a str>,
) {
    let Some(changes) = traits.changes else { return };
    let differ = has_event_time || changes.begins_later.is_some() || metadata.any(|key| !changes.kept.contains(&key));
    match has_key && differ {
        true => traits.changes = None,
        false => traits.versions = None,
    }
}

impl Table {
    /// The index of the weight in a scan, if the records are changes.
    pub(crate) fn weight(&self) -> Option<usize> {
        self.traits.changes?;
        self.physical.index_of(WEIGHT).ok()
    }

    /// The indexes of the primary key in the output of a scan of changes, which has at most one row of each
    /// key at a time.
    pub(crate) fn unique_in(&self, scan: &Get) -> Option<Vec<usize>> {
        self.weight().filter(|_| !self.primary_key.is_empty())?;
        let index_of = |key: &String| scan.columns.fields().iter().position(|field| field.name() == key);
        self.primary_key.iter().map(index_of).collect()
    }
}
