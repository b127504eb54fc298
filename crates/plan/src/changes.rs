//! Tables whose records are changes of rows: each says which row comes or goes. Where a row that is taken
//! back would have another event time, or other metadata, than when it came, they are read as versions. So
//! are those whose first changes are not read: of a row that never came there is no version to take back,
//! while a count of its group would be too low for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{TableTraits, WEIGHT, weight_field};
use arrow::datatypes::{Schema, SchemaRef};

use crate::rel::Get;
use crate::table::Table;

/// The columns of a scan of changes: the weight, which the connector has under this key, follows those that
/// are declared.
pub(crate) fn with_weight(declared: &SchemaRef, key: &str, metadata: &mut BTreeMap<usize, String>) -> SchemaRef {
    metadata.insert(declared.fields().len(), key.to_owned());
    let fields = declared.fields().iter().cloned().chain([Arc::new(weight_field())]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Decides how records that are changes are read: those with a primary key of columns in them as versions, if
/// there is an event time, if the first changes are not read, or metadata that a record which takes a row
/// back does not have in common with the one that brought it.
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
    /// The place of the weight among the columns of a scan, if the records are changes.
    pub(crate) fn weight(&self) -> Option<usize> {
        self.traits.changes?;
        self.physical.index_of(WEIGHT).ok()
    }

    /// The places of the primary key in the output of a scan of changes: there is at most one row of each key
    /// at a time.
    pub(crate) fn unique_in(&self, scan: &Get) -> Option<Vec<usize>> {
        self.weight().filter(|_| !self.primary_key.is_empty())?;
        let place = |key: &String| scan.columns.fields().iter().position(|field| field.name() == key);
        self.primary_key.iter().map(place).collect()
    }
}
