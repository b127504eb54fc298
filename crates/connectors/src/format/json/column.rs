//! Columns under construction: a tree of nodes, filled slot by slot.
//!
//! A value is written to the slot of its row (or of its element, in a list) and may be overwritten. So the
//! last of two equal keys wins. A malformed record costs nothing, because the next record overwrites its
//! slot.

mod finish;
mod unique;

use anabranch_model::{Error, Result};
use arrow::array::make_view;
use arrow::datatypes::{DataType, Fields};

use super::keys::Keys;
use super::kind::ValueKind;
use crate::format::lanes::Lanes;
use crate::format::view::EXTRA;

/// The index of a node in [`Columns`].
pub(super) type ColumnId = usize;

/// The record itself: the root of the tree.
pub(super) const ROOT: ColumnId = 0;

/// All nodes of a schema, and the text they share.
pub(super) struct Columns {
    nodes: Vec<Node>,
    /// Text that the input does not contain literally: strings with escapes, decoded binary.
    extra: Vec<u8>,
}

/// One node: a column of the schema, a field of a struct, the elements of a list.
pub(super) struct Node {
    /// Its name with those of its parents, for messages.
    pub(super) path: String,
    pub(super) nullable: bool,
    pub(super) kind: ValueKind,
    data_type: DataType,
    validity: Validity,
    values: Values,
    object: Option<Object>,
}

/// The values of a node.
enum Values {
    /// Views of strings or binary: buffer 0 is the input, buffer 1 the extra text.
    Views(Vec<u128>),
    /// All types that fit into an `i64`: booleans, integers (`u64` by its bits), dates, timestamps.
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Decimals(Vec<i128>),
    /// Strings or binary stored consecutively.
    Bytes {
        ends: Ends,
        data: Vec<u8>,
    },
    /// The elements of a list, or the entries of a map.
    List {
        ends: Ends,
        element: ColumnId,
    },
    Struct,
}

/// The keys of an object that the query needs.
struct Object {
    /// Nodes of its fields, in the order of the schema.
    fields: Vec<ColumnId>,
    keys: Keys,
    /// For each field, the number of the object in which it was last seen.
    seen: Vec<u64>,
    /// Number of the object being read.
    number: u64,
}

/// The end of each slot's elements in the shared list; they start at the end of the slot before.
struct Ends(Vec<i32>);

impl Default for Ends {
    fn default() -> Self {
        Ends(vec![0])
    }
}

impl Ends {
    fn start(&self, slot: usize) -> usize {
        self.0.get(slot).map_or(0, |end| *end as usize)
    }

    fn set(&mut self, slot: usize, end: usize) {
        self.0.truncate(slot + 1);
        self.0.push(end as i32);
    }
}

/// Which slots have a value. Takes no memory until the first null.
#[derive(Default)]
struct Validity {
    bits: Vec<u8>,
    any_null: bool,
}

impl Validity {
    #[cold]
    fn set_null(&mut self, slot: usize) {
        self.any_null = true;
        if slot / 8 >= self.bits.len() {
            self.bits.resize(slot / 8 + 1, u8::MAX);
        }
        self.bits[slot / 8] &= !(1 << (slot % 8));
    }

    #[inline(always)]
    fn set_valid(&mut self, slot: usize) {
        if self.any_null
            && let Some(byte) = self.bits.get_mut(slot / 8)
        {
            *byte |= 1 << (slot % 8);
        }
    }
}

#[inline(always)]
fn put<T: Copy + Default>(values: &mut Vec<T>, slot: usize, value: T) {
    if slot == values.len() {
        values.push(value);
    } else {
        replace(values, slot, value);
    }
}

#[cold]
fn replace<T: Copy + Default>(values: &mut Vec<T>, slot: usize, value: T) {
    if slot > values.len() {
        values.resize(slot + 1, T::default());
    }
    values[slot] = value;
}

impl Columns {
    /// The tree for a schema. An unsupported type is an error that names the column.
    pub(super) fn new(fields: &Fields) -> Result<Self> {
        let mut columns = Columns { nodes: Vec::new(), extra: Vec::new() };
        columns.add("", &DataType::Struct(fields.clone()), false)?;
        Ok(columns)
    }

    fn add(&mut self, path: &str, data_type: &DataType, nullable: bool) -> Result<ColumnId> {
        let kind = ValueKind::new(path, data_type)?;
        let id = self.nodes.len();
        let values = Values::new(&kind);
        self.nodes.push(Node {
            path: path.to_owned(),
            nullable,
            kind,
            data_type: data_type.clone(),
            validity: Validity::default(),
            values,
            object: None,
        });
        match data_type {
            DataType::Struct(fields) => {
                let mut children = Vec::with_capacity(fields.len());
                for field in fields {
                    let name = if path.is_empty() { field.name().clone() } else { format!("{path}.{}", field.name()) };
                    let child = self.add(&name, field.data_type(), field.is_nullable())?;
                    children.push((field.name().as_bytes().into(), child));
                }
                self.nodes[id].object = Some(Object::new(path, children)?);
            }
            DataType::List(field) => {
                let element = self.add(&format!("{path}[]"), field.data_type(), field.is_nullable())?;
                self.nodes[id].values = Values::List { ends: Ends::default(), element };
            }
            // An entry is a struct of a key and a value.
            DataType::Map(entry, _) => {
                let element = self.add(path, entry.data_type(), false)?;
                self.nodes[id].values = Values::List { ends: Ends::default(), element };
            }
            _ => {}
        }
        Ok(id)
    }

    /// Makes room for `rows` rows of a new batch.
    pub(super) fn begin(&mut self, rows: usize) {
        for id in self.children(ROOT) {
            match &mut self.nodes[id].values {
                Values::Views(values) => values.reserve(rows),
                Values::Integers(values) => values.reserve(rows),
                Values::Floats(values) => values.reserve(rows),
                Values::Decimals(values) => values.reserve(rows),
                Values::Bytes { ends, .. } | Values::List { ends, .. } => ends.0.reserve(rows),
                Values::Struct => {}
            }
        }
    }

    pub(super) fn column(&self, id: ColumnId) -> &Node {
        &self.nodes[id]
    }

    fn children(&self, id: ColumnId) -> Vec<ColumnId> {
        self.nodes[id].object.iter().flat_map(|object| &object.fields).copied().collect()
    }

    /// Starts reading an object into `id`: none of its fields has been seen.
    #[inline(always)]
    pub(super) fn begin_object(&mut self, id: ColumnId) {
        if let Some(object) = &mut self.nodes[id].object {
            object.number += 1;
        }
    }

    /// The position of a key among the fields of `id`.
    pub(super) fn field(&self, id: ColumnId, key: &[u8]) -> Option<usize> {
        self.nodes[id].object.as_ref()?.keys.find(key)
    }

    /// The position of the key of `len` bytes at `key` among the fields of `id`.
    ///
    /// # Safety
    /// As for [`Keys::find_short`].
    #[inline(always)]
    pub(super) unsafe fn short_field<L: Lanes>(&self, id: ColumnId, key: *const u8, len: usize) -> Option<usize> {
        // SAFETY: same contract.
        unsafe { self.nodes[id].object.as_ref()?.keys.find_short::<L>(key, len) }
    }

    /// Marks a field of `id` as seen or not; returns its node and whether it was seen in this object before.
    #[inline(always)]
    pub(super) fn mark_seen(&mut self, id: ColumnId, field: usize, seen: bool) -> Option<(ColumnId, bool)> {
        let object = self.nodes[id].object.as_mut()?;
        let before = std::mem::replace(&mut object.seen[field], if seen { object.number } else { 0 });
        Some((object.fields[field], before == object.number))
    }

    /// Node of field `field` of `id`, and whether it has been seen in this object; `None` after the last
    /// field.
    pub(super) fn seen(&self, id: ColumnId, field: usize) -> Option<(ColumnId, bool)> {
        let object = self.nodes[id].object.as_ref()?;
        let child = object.fields.get(field)?;
        Some((*child, object.seen[field] == object.number))
    }

    /// Ends the object in `slot` of `id`, which had `count` of its fields: the others become null. False if
    /// one of them must not be null.
    #[inline(always)]
    pub(super) fn end_object(&mut self, id: ColumnId, slot: usize, count: usize) -> bool {
        let complete = self.nodes[id].object.as_ref().is_some_and(|object| object.fields.len() == count);
        if !complete && !self.set_absent(id, slot) {
            return false;
        }
        self.set_valid(id, slot);
        true
    }

    #[inline(never)]
    fn set_absent(&mut self, id: ColumnId, slot: usize) -> bool {
        let mut field = 0;
        while let Some((child, seen)) = self.seen(id, field) {
            if !seen {
                if !self.nodes[child].nullable {
                    return false;
                }
                self.set_null(child, slot);
            }
            field += 1;
        }
        true
    }

    #[inline(always)]
    pub(super) fn set_valid(&mut self, id: ColumnId, slot: usize) {
        self.nodes[id].validity.set_valid(slot);
    }

    /// Makes a slot null, and with it the slots below it.
    pub(super) fn set_null(&mut self, id: ColumnId, slot: usize) {
        let column = &mut self.nodes[id];
        column.validity.set_null(slot);
        match &mut column.values {
            Values::Views(values) => put(values, slot, 0),
            Values::Integers(values) => put(values, slot, 0),
            Values::Floats(values) => put(values, slot, 0.0),
            Values::Decimals(values) => put(values, slot, 0),
            Values::Bytes { ends, .. } | Values::List { ends, .. } => {
                let start = ends.start(slot);
                ends.set(slot, start);
            }
            Values::Struct => {
                for child in self.children(id) {
                    self.set_null(child, slot);
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn set_integer(&mut self, id: ColumnId, slot: usize, value: i64) {
        let column = &mut self.nodes[id];
        if let Values::Integers(values) = &mut column.values {
            put(values, slot, value);
            column.validity.set_valid(slot);
        }
    }

    #[inline(always)]
    pub(super) fn set_float(&mut self, id: ColumnId, slot: usize, value: f64) {
        let column = &mut self.nodes[id];
        if let Values::Floats(values) = &mut column.values {
            put(values, slot, value);
            column.validity.set_valid(slot);
        }
    }

    #[inline(always)]
    pub(super) fn set_decimal(&mut self, id: ColumnId, slot: usize, value: i128) {
        let column = &mut self.nodes[id];
        if let Values::Decimals(values) = &mut column.values {
            put(values, slot, value);
            column.validity.set_valid(slot);
        }
    }

    #[inline(always)]
    pub(super) fn set_view(&mut self, id: ColumnId, slot: usize, view: u128) {
        let column = &mut self.nodes[id];
        if let Values::Views(values) = &mut column.values {
            put(values, slot, view);
            column.validity.set_valid(slot);
        }
    }

    /// Writes bytes that `fill` appends to a buffer: the extra text for a view column, otherwise the column's
    /// buffer.
    pub(super) fn set_bytes<E>(
        &mut self,
        id: ColumnId,
        slot: usize,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let column = &mut self.nodes[id];
        match &mut column.values {
            Values::Views(values) => {
                let start = self.extra.len();
                fill(&mut self.extra)?;
                put(values, slot, make_view(&self.extra[start..], EXTRA, start as u32));
            }
            Values::Bytes { ends, data } => {
                data.truncate(ends.start(slot));
                fill(data)?;
                ends.set(slot, data.len());
            }
            _ => {}
        }
        column.validity.set_valid(slot);
        Ok(())
    }

    /// The nodes of the keys and values of the map `id`, and the slot of the first entry of `slot`.
    pub(super) fn map(&self, id: ColumnId, slot: usize) -> Option<(ColumnId, ColumnId, usize)> {
        let (entry, start) = self.list(id, slot)?;
        match self.nodes[entry].object.as_ref()?.fields.as_slice() {
            [key, value] => Some((*key, *value, start)),
            _ => None,
        }
    }

    /// The node of the list `id`'s elements, and the slot of the first element of `slot`.
    pub(super) fn list(&self, id: ColumnId, slot: usize) -> Option<(ColumnId, usize)> {
        match &self.nodes[id].values {
            Values::List { ends, element } => Some((*element, ends.start(slot))),
            _ => None,
        }
    }

    /// Ends the list or the map in `slot`: its last element is before `end`.
    pub(super) fn set_list(&mut self, id: ColumnId, slot: usize, end: usize) {
        let column = &mut self.nodes[id];
        if let Values::List { ends, .. } = &mut column.values {
            ends.set(slot, end);
            column.validity.set_valid(slot);
        }
    }
}

impl Object {
    fn new(path: &str, fields: Vec<(Box<[u8]>, ColumnId)>) -> Result<Self> {
        let mut names: Vec<&[u8]> = fields.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let name = String::from_utf8_lossy(pair[0]);
            let place = if path.is_empty() { "record".to_owned() } else { format!("column '{path}'") };
            return Err(Error::user(format!("two fields have the name '{name}'"))
                .at(place)
                .remedy("give each field its own name"));
        }
        let keys = Keys::new(fields.iter().map(|(name, _)| &**name));
        let seen = vec![0; fields.len()];
        Ok(Object { fields: fields.into_iter().map(|(_, child)| child).collect(), keys, seen, number: 0 })
    }
}

impl Values {
    fn new(kind: &ValueKind) -> Self {
        match kind {
            ValueKind::Text | ValueKind::BinaryView => Values::Views(Vec::new()),
            ValueKind::Boolean
            | ValueKind::Integer { .. }
            | ValueKind::Unsigned64
            | ValueKind::Date
            | ValueKind::Time(_)
            | ValueKind::Timestamp(_) => Values::Integers(Vec::new()),
            ValueKind::Float32 | ValueKind::Float64 => Values::Floats(Vec::new()),
            ValueKind::Decimal { .. } => Values::Decimals(Vec::new()),
            ValueKind::OwnedText | ValueKind::Binary => Values::Bytes { ends: Ends::default(), data: Vec::new() },
            // The element's node is known once it has been added.
            ValueKind::List | ValueKind::Map => Values::List { ends: Ends::default(), element: ROOT },
            ValueKind::Struct => Values::Struct,
        }
    }
}
