//! Columns of maps: their entries, and new ones of picked keys and values.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, MapArray, StructArray};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use datafusion_common::Result;

use crate::arguments::Arguments;
use crate::array::build::{ElementAt, Ends, part, range};
use crate::array::keys::Keys;
use crate::definition::failure;

/// An argument that is a map.
pub(super) struct Maps<'a> {
    arguments: &'a Arguments<'a>,
    argument: usize,
    array: &'a MapArray,
    /// The keys and values of all rows: a slice of a longer column has those of other rows too.
    keys: ArrayRef,
    values: ArrayRef,
}

impl<'a> Maps<'a> {
    pub(super) fn new(arguments: &'a Arguments<'a>, argument: usize) -> Result<Self> {
        let array = arguments.array(argument).as_map_opt().ok_or_else(|| failure("a MAP is expected"))?;
        let (keys, values) = (part(array.keys(), array.value_offsets()), part(array.values(), array.value_offsets()));
        Ok(Maps { arguments, argument, array, keys, values })
    }

    /// The keys of all rows.
    pub(super) fn keys(&self) -> &ArrayRef {
        &self.keys
    }

    /// The values of all rows.
    pub(super) fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// The places of a row's entries in `keys` and `values`; `None` for NULL.
    pub(super) fn range(&self, row: usize) -> Option<Range<usize>> {
        let row = self.arguments.index(self.argument, row);
        self.array.is_valid(row).then(|| range(self.array.value_offsets(), row))
    }
}

/// Entries with more keys than this find equal ones in a tree.
const FEW: usize = 16;

/// The keys and values that were picked for a column.
#[derive(Default)]
pub(super) struct Entries {
    keys: Vec<ElementAt>,
    values: Vec<ElementAt>,
    /// Where the entries of the row start.
    start: usize,
}

impl Entries {
    /// Entries of all rows.
    fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (ElementAt, ElementAt)> {
        self.keys.iter().copied().zip(self.values.iter().copied())
    }

    pub(super) fn push(&mut self, key: ElementAt, value: ElementAt) {
        self.keys.push(key);
        self.values.push(value);
    }

    /// Gives an entry another value.
    fn replace(&mut self, entry: usize, value: ElementAt) {
        self.values[entry] = value;
    }

    /// Adds entries to the row. An entry with a key that the row has replaces its value.
    pub(super) fn add(&mut self, keys: &Keys, entries: impl ExactSizeIterator<Item = (ElementAt, ElementAt)>) {
        let mut known = Known::new(keys, self, entries.len());
        for (key, value) in entries {
            match known.find(self, key) {
                Some(entry) => self.replace(entry, value),
                None => self.push(key, value),
            }
        }
    }

    /// Adds those entries whose keys the row does not have. The places of the keys are those of the values.
    pub(super) fn add_new(&mut self, keys: &Keys, entries: impl ExactSizeIterator<Item = ElementAt>) {
        let mut known = Known::new(keys, self, entries.len());
        for place in entries {
            if known.find(self, place).is_none() {
                self.push(place, place);
            }
        }
    }

    fn truncate(&mut self) {
        self.keys.truncate(self.start);
        self.values.truncate(self.start);
    }
}

/// The keys of a row.
struct Known<'a> {
    keys: &'a Keys,
    /// Entries by their keys, if there may be many.
    tree: Option<BTreeMap<arrow::row::Row<'a>, usize>>,
}

impl<'a> Known<'a> {
    fn new(keys: &'a Keys, entries: &Entries, more: usize) -> Self {
        let before = entries.start..entries.len();
        let tree = (before.len() + more > FEW)
            .then(|| before.filter_map(|entry| Some((keys.comparable(entries.keys[entry])?, entry))).collect());
        Known { keys, tree }
    }

    /// The entry of the row that has a key. If there is none, the key becomes known as that of the next
    /// entry.
    fn find(&mut self, entries: &Entries, key: ElementAt) -> Option<usize> {
        let Some(tree) = &mut self.tree else {
            return (entries.start..entries.len()).find(|entry| self.keys.equal(entries.keys[*entry], key));
        };
        let row = self.keys.comparable(key)?;
        match tree.entry(row) {
            std::collections::btree_map::Entry::Occupied(known) => Some(*known.get()),
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(entries.len());
                None
            }
        }
    }
}

/// A column of maps made of keys and values of the arguments: `pick` adds a row's entries, or returns `None`
/// for NULL. `sources` are the keys and the values that the places refer to.
pub(super) fn maps(
    arguments: &Arguments,
    sources: &[(&ArrayRef, &ArrayRef)],
    mut pick: impl FnMut(usize, &mut Entries) -> Result<Option<()>>,
) -> Result<ArrayRef> {
    let (mut entries, mut ends) = (Entries::default(), Ends::default());
    for row in 0..arguments.rows {
        entries.start = entries.len();
        let valid = pick(row, &mut entries)?.is_some();
        if !valid {
            entries.truncate();
        }
        ends.push(entries.len(), valid)?;
    }
    let (keys, values): (Vec<&dyn Array>, Vec<&dyn Array>) =
        sources.iter().map(|(keys, values)| (keys.as_ref(), values.as_ref())).unzip();
    finish(arguments, ends, interleave(&keys, &entries.keys)?, interleave(&values, &entries.values)?)
}

/// The column with such entries.
pub(super) fn finish(arguments: &Arguments, ends: Ends, keys: ArrayRef, values: ArrayRef) -> Result<ArrayRef> {
    if keys.null_count() > 0 {
        return Err(failure("a key of a MAP is NULL; use COALESCE(key, ...), or leave the row out with WHERE"));
    }
    let DataType::Map(field, ordered) = arguments.returns else {
        return Err(failure(format!("{} is not a MAP", arguments.returns)));
    };
    let DataType::Struct(fields) = field.data_type() else {
        return Err(failure(format!("{field} has no entries")));
    };
    let (offsets, nulls) = ends.buffers();
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, Some(nulls), *ordered)?))
}
