//! `MIN` and `MAX`, and `FIRST_VALUE` and `LAST_VALUE` of append-only rows. Over append-only rows one value
//! per group is enough. Where rows may be retracted, `MIN` and `MAX` keep all values in order.

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_dataflow::sql_name;
use anabranch_model::{Error, Result};
use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray, downcast_primitive, new_null_array,
};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field};
use arrow::row::{OwnedRow, RowConverter, SortField};

use super::accumulator::{Accumulator, InputRows};

use super::entries::Entries;
use super::readings::{Readings, ReplayStep};
use crate::keyed_state::narrow;

/// Which value comes first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ordered {
    Ascending,
    Descending,
    /// The value that arrived first.
    Arrival,
    /// The value that arrived last.
    LastArrival,
}

pub(crate) fn accumulator(argument: &DataType, order: Ordered, retracts: bool) -> Result<Box<dyn Accumulator>> {
    macro_rules! of_primitive {
        ($t:ty) => {
            Box::new(Extreme::<$t> { values: Vec::new(), known: Vec::new(), order, data_type: argument.clone() })
        };
    }
    if retracts {
        let (entries, encoding) = (Entries::new(argument, false)?, Encoding::new(argument, order)?);
        return Ok(Box::new(Sorted { entries, encoding, sorted: BTreeSet::new(), bytes: 0 }));
    }
    Ok(downcast_primitive! {
        argument => (of_primitive),
        _ => Box::new(ExtremeRows { rows: Vec::new(), bytes: 0, encoding: Encoding::new(argument, order)? }),
    })
}

/// The extreme of each group, for numbers and times.
struct Extreme<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    /// For each group: whether it has a value.
    known: Vec<bool>,
    order: Ordered,
    data_type: DataType,
}

impl<T: ArrowPrimitiveType> Extreme<T> {
    #[inline]
    fn add(&mut self, group: usize, value: T::Native) {
        let best = self.values[group];
        let is_first = match self.order {
            Ordered::Ascending => value.is_lt(best),
            Ordered::Descending => value.is_gt(best),
            Ordered::Arrival => false,
            Ordered::LastArrival => true,
        };
        if is_first || !self.known[group] {
            (self.values[group], self.known[group]) = (value, true);
        }
    }

    fn values(&self, groups: &[usize]) -> ArrayRef {
        let value = |group: &usize| self.known[*group].then(|| self.values[*group]);
        let values: PrimitiveArray<T> = groups.iter().map(value).collect();
        Arc::new(values.with_data_type(self.data_type.clone()))
    }
}

impl<T: ArrowPrimitiveType> Accumulator for Extreme<T> {
    fn resize(&mut self, groups: usize) {
        self.values.resize(groups, T::Native::default());
        self.known.resize(groups, false);
    }

    fn update(&mut self, rows: &InputRows<'_>) -> Result<()> {
        let values = rows.values[0].as_primitive::<T>().values();
        rows.for_each(|row, group, _| self.add(group, values[row]));
        Ok(())
    }

    fn running(&mut self, rows: &InputRows<'_>, readings: &Readings) -> Result<ArrayRef> {
        let values = rows.values[0].as_primitive::<T>().values();
        let mut results = Vec::with_capacity(readings.len());
        rows.replay(readings, |step| match step {
            ReplayStep::Row { row, group, .. } => self.add(group, values[row]),
            ReplayStep::Read { group } => results.push(self.known[group].then(|| self.values[group])),
        });
        let results: PrimitiveArray<T> = results.into_iter().collect();
        Ok(Arc::new(results.with_data_type(self.data_type.clone())))
    }

    fn results(&self, groups: &[usize]) -> Result<ArrayRef> {
        Ok(self.values(groups))
    }

    fn state_fields(&self, name: &str) -> Vec<Field> {
        vec![Field::new(format!("{name}[value]"), self.data_type.clone(), true)]
    }

    fn state(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.values(groups)])
    }

    fn restore(&mut self, groups: &[usize], state: &[ArrayRef]) -> Result<()> {
        let values = state.first().and_then(|values| values.as_primitive_opt::<T>());
        let values = values.ok_or_else(|| Error::internal("a state without its values"))?;
        for (row, group) in groups.iter().enumerate() {
            (self.values[*group], self.known[*group]) = (values.value(row), values.is_valid(row));
        }
        Ok(())
    }

    fn keep(&mut self, groups: &[usize]) -> Result<()> {
        self.values = groups.iter().map(|group| self.values[*group]).collect();
        self.known = groups.iter().map(|group| self.known[*group]).collect();
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.known.capacity()
    }
}

/// Encodes values as bytes (Arrow's row format). The value that is first by `order` has the smallest bytes.
pub(crate) struct Encoding {
    data_type: DataType,
    order: Ordered,
    converter: RowConverter,
    null: OwnedRow,
}

impl Encoding {
    pub(crate) fn new(data_type: &DataType, order: Ordered) -> Result<Encoding> {
        let options = SortOptions { descending: order == Ordered::Descending, nulls_first: false };
        let converter = RowConverter::new(vec![SortField::new_with_options(data_type.clone(), options)]);
        let converter = converter.map_err(|error| {
            Error::user(format!("values of type {} have no order: {error}", sql_name(data_type)))
                .remedy("use a column of another type")
        })?;
        let null = converter.convert_columns(&[new_null_array(data_type, 1)])?.row(0).owned();
        Ok(Encoding { data_type: data_type.clone(), order, converter, null })
    }

    pub(crate) fn rows(&self, values: &ArrayRef) -> Result<arrow::row::Rows> {
        Ok(self.converter.convert_columns(std::slice::from_ref(values))?)
    }

    /// The values that follow each other in `bytes`, given the end of each and whether it is not NULL.
    pub(crate) fn values_of(&self, bytes: &[u8], ends: &[(usize, bool)]) -> Result<ArrayRef> {
        let mut begin = 0;
        self.values(ends.iter().map(|(end, is_there)| {
            let value = &bytes[std::mem::replace(&mut begin, *end)..*end];
            is_there.then_some(value)
        }))
    }

    pub(crate) fn values<'a>(&self, rows: impl Iterator<Item = Option<&'a [u8]>>) -> Result<ArrayRef> {
        let parser = self.converter.parser();
        let rows = rows.map(|row| row.map_or(self.null.row(), |row| parser.parse(row)));
        let mut columns = self.converter.convert_rows(rows)?;
        columns.pop().ok_or_else(|| Error::internal("a row without its column"))
    }
}

/// The extreme of each group, for texts and other types.
struct ExtremeRows {
    rows: Vec<Option<Box<[u8]>>>,
    /// Bytes of all values.
    bytes: usize,
    encoding: Encoding,
}

impl ExtremeRows {
    fn add(&mut self, group: usize, row: &[u8]) {
        let best = &mut self.rows[group];
        let is_first = |best: &[u8]| match self.encoding.order {
            Ordered::Ascending | Ordered::Descending => row < best,
            Ordered::Arrival => false,
            Ordered::LastArrival => true,
        };
        if best.as_ref().is_none_or(|best| is_first(best)) {
            self.bytes += row.len();
            self.bytes -= best.replace(row.into()).map_or(0, |former| former.len());
        }
    }
}

impl Accumulator for ExtremeRows {
    fn resize(&mut self, groups: usize) {
        self.rows.resize(groups, None);
    }

    fn update(&mut self, rows: &InputRows<'_>) -> Result<()> {
        let encoded = self.encoding.rows(&rows.values[0])?;
        rows.for_each(|row, group, _| self.add(group, encoded.row(row).data()));
        Ok(())
    }

    fn running(&mut self, rows: &InputRows<'_>, readings: &Readings) -> Result<ArrayRef> {
        let encoded = self.encoding.rows(&rows.values[0])?;
        // The values lie in one buffer, one after the other.
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(readings.len()));
        rows.replay(readings, |step| match step {
            ReplayStep::Row { row, group, .. } => self.add(group, encoded.row(row).data()),
            ReplayStep::Read { group } => {
                bytes.extend_from_slice(self.rows[group].as_deref().unwrap_or_default());
                ends.push((bytes.len(), self.rows[group].is_some()));
            }
        });
        self.encoding.values_of(&bytes, &ends)
    }

    fn results(&self, groups: &[usize]) -> Result<ArrayRef> {
        self.encoding.values(groups.iter().map(|group| self.rows[*group].as_deref()))
    }

    fn state_fields(&self, name: &str) -> Vec<Field> {
        vec![Field::new(format!("{name}[value]"), self.encoding.data_type.clone(), true)]
    }

    fn state(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.results(groups)?])
    }

    fn restore(&mut self, groups: &[usize], state: &[ArrayRef]) -> Result<()> {
        let values = state.first().ok_or_else(|| Error::internal("a state without its values"))?;
        let encoded = self.encoding.rows(values)?;
        for (row, group) in groups.iter().enumerate() {
            let next: Option<Box<[u8]>> = values.is_valid(row).then(|| encoded.row(row).data().into());
            self.bytes += next.as_ref().map_or(0, |next| next.len());
            self.bytes -= std::mem::replace(&mut self.rows[*group], next).map_or(0, |former| former.len());
        }
        Ok(())
    }

    fn keep(&mut self, groups: &[usize]) -> Result<()> {
        self.rows = groups.iter().map(|group| self.rows[*group].take()).collect();
        self.bytes = self.rows.iter().flatten().map(|row| row.len()).sum();
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.bytes + self.rows.capacity() * size_of::<Option<Box<[u8]>>>()
    }
}

/// All values of each group, in order.
struct Sorted {
    entries: Entries,
    encoding: Encoding,
    /// Groups with the values that occur in them.
    sorted: BTreeSet<(u32, Box<[u8]>)>,
    /// Bytes of the values.
    bytes: usize,
}

impl Sorted {
    fn set(&mut self, group: usize, value: &[u8], is_there: bool) -> Result<()> {
        let pair = (narrow(group)?, value.into());
        let has_changed = if is_there { self.sorted.insert(pair) } else { self.sorted.remove(&pair) };
        match is_there {
            _ if !has_changed => {}
            true => self.bytes += value.len(),
            false => self.bytes -= value.len(),
        }
        Ok(())
    }

    fn first(&self, group: u32) -> Option<&[u8]> {
        let from = (group, Box::default());
        let (owner, first) = self.sorted.range(from..).next()?;
        (*owner == group).then_some(first)
    }
}

impl Accumulator for Sorted {
    fn resize(&mut self, _groups: usize) {}

    fn update(&mut self, rows: &InputRows<'_>) -> Result<()> {
        let encoded = self.encoding.rows(&rows.values[0])?;
        for change in self.entries.update(rows)? {
            self.set(change.group, encoded.row(change.row).data(), change.is_there)?;
        }
        Ok(())
    }

    fn results(&self, groups: &[usize]) -> Result<ArrayRef> {
        let groups = groups.iter().map(|group| narrow(*group)).collect::<Result<Vec<_>>>()?;
        self.encoding.values(groups.into_iter().map(|group| self.first(group)))
    }

    fn keep(&mut self, groups: &[usize]) -> Result<()> {
        self.entries.keep(groups)?;
        let (groups, values, _) = self.entries.with_ids(&self.entries.all())?;
        let encoded = self.encoding.rows(&values)?;
        self.sorted.clear();
        self.bytes = 0;
        groups.into_iter().enumerate().try_for_each(|(row, group)| self.set(group, encoded.row(row).data(), true))
    }

    fn size_bytes(&self) -> usize {
        // The nodes of the tree are about two thirds full.
        self.entries.size_bytes() + self.bytes + self.sorted.len() * (2 * size_of::<(u32, Box<[u8]>)>() + 16)
    }

    fn value_field(&self) -> Option<Field> {
        Some(self.entries.value_field())
    }

    fn entries(&mut self) -> Option<&mut Entries> {
        Some(&mut self.entries)
    }

    fn entries_restored(&mut self, changed: &[(usize, i64)]) -> Result<()> {
        let ids: Vec<usize> = changed.iter().map(|(id, _)| *id).collect();
        let (groups, values, weights) = self.entries.with_ids(&ids)?;
        let encoded = self.encoding.rows(&values)?;
        for (row, (_, before)) in changed.iter().enumerate() {
            if (*before > 0) != (weights.value(row) > 0) {
                self.set(groups[row], encoded.row(row).data(), weights.value(row) > 0)?;
            }
        }
        Ok(())
    }
}
