//! `MIN`, `MAX`, `FIRST_VALUE` and `LAST_VALUE` over frames: rows leave a frame in the order in which they
//! entered it.
//!
//! `MIN` keeps only the values that no later value undercuts: the first of them is the minimum, and a value
//! is added and removed once. None of this is in snapshots, because the rows of frames are.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray, downcast_primitive};
use arrow::datatypes::DataType;
use arrow::row::Rows as Encoded;

use crate::group_aggregate::accumulator::{Accumulator, InputRows};
use crate::group_aggregate::extreme::{Encoding, Ordered};
use crate::group_aggregate::readings::{Readings, ReplayStep};

pub(super) fn accumulator(function: &str, argument: &DataType) -> Result<Option<Box<dyn Accumulator>>> {
    let selection = match function {
        "min" => Selection::Least,
        "max" => Selection::Greatest,
        "first_value" => Selection::First,
        "last_value" => Selection::Last,
        _ => return Ok(None),
    };
    macro_rules! of_primitive {
        ($t:ty) => {
            Box::new(Fifo { lists: Vec::new(), selection, values: Plain::<$t>(argument.clone(), Vec::new()), bytes: 0 })
        };
    }
    Ok(Some(downcast_primitive! {
        argument => (of_primitive),
        _ => {
            let encoding = Encoding::new(argument, Ordered::Ascending)?;
            let values = Bytes { encoding, read: Vec::new(), ends: Vec::new() };
            Box::new(Fifo { lists: Vec::new(), selection, values, bytes: 0 })
        }
    }))
}

/// Which value is the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Selection {
    Least,
    Greatest,
    First,
    Last,
}

/// Values of a type.
trait FrameValues: Send {
    type Item: Send;
    type Column;

    fn column(&self, values: &ArrayRef) -> Result<Self::Column>;
    fn item(column: &Self::Column, row: usize) -> Self::Item;
    fn compare(a: &Self::Item, b: &Self::Item) -> Ordering;
    /// Adds a result.
    fn read(&mut self, item: Option<&Self::Item>);
    /// Takes the results that were added.
    fn take(&mut self) -> Result<ArrayRef>;
    fn bytes(item: &Self::Item) -> usize;
}

/// Numbers and times, with their type.
struct Plain<T: ArrowPrimitiveType>(DataType, Vec<Option<T::Native>>);

impl<T: ArrowPrimitiveType> FrameValues for Plain<T> {
    type Item = T::Native;
    type Column = PrimitiveArray<T>;

    fn column(&self, values: &ArrayRef) -> Result<PrimitiveArray<T>> {
        let values = values.as_primitive_opt::<T>();
        values.cloned().ok_or_else(|| Error::internal("a frame of values of another type"))
    }

    fn item(column: &PrimitiveArray<T>, row: usize) -> T::Native {
        column.value(row)
    }

    fn compare(a: &T::Native, b: &T::Native) -> Ordering {
        a.compare(*b)
    }

    fn read(&mut self, item: Option<&T::Native>) {
        self.1.push(item.copied());
    }

    fn take(&mut self) -> Result<ArrayRef> {
        let values: PrimitiveArray<T> = std::mem::take(&mut self.1).into_iter().collect();
        Ok(Arc::new(values.with_data_type(self.0.clone())))
    }

    fn bytes(_: &T::Native) -> usize {
        size_of::<T::Native>()
    }
}

/// Texts and values of other types.
struct Bytes {
    encoding: Encoding,
    read: Vec<u8>,
    ends: Vec<(usize, bool)>,
}

impl FrameValues for Bytes {
    type Item = Box<[u8]>;
    type Column = Encoded;

    fn column(&self, values: &ArrayRef) -> Result<Encoded> {
        self.encoding.rows(values)
    }

    fn item(column: &Encoded, row: usize) -> Box<[u8]> {
        column.row(row).data().into()
    }

    fn compare(a: &Box<[u8]>, b: &Box<[u8]>) -> Ordering {
        a.cmp(b)
    }

    fn read(&mut self, item: Option<&Box<[u8]>>) {
        self.read.extend_from_slice(item.map_or(&[], |item| item));
        self.ends.push((self.read.len(), item.is_some()));
    }

    fn take(&mut self) -> Result<ArrayRef> {
        let values = self.encoding.values_of(&self.read, &self.ends)?;
        self.read.clear();
        self.ends.clear();
        Ok(values)
    }

    fn bytes(item: &Box<[u8]>) -> usize {
        size_of::<Box<[u8]>>() + item.len()
    }
}

struct Fifo<V: FrameValues> {
    /// The values of each group that are, or may become, results.
    lists: Vec<VecDeque<V::Item>>,
    selection: Selection,
    values: V,
    /// Bytes of the values.
    bytes: usize,
}

impl<V: FrameValues> Fifo<V> {
    fn add(&mut self, group: usize, item: V::Item) {
        let list = &mut self.lists[group];
        let beaten = match self.selection {
            Selection::Least => Some(Ordering::Greater),
            Selection::Greatest => Some(Ordering::Less),
            Selection::First | Selection::Last => None,
        };
        if let Some(beaten) = beaten {
            while list.back().is_some_and(|last| V::compare(last, &item) == beaten) {
                self.bytes -= list.pop_back().as_ref().map_or(0, V::bytes);
            }
        }
        self.bytes += V::bytes(&item);
        list.push_back(item);
    }

    /// Removes a value that leaves the frame, unless a later value has already displaced it.
    fn remove(&mut self, group: usize, item: &V::Item) {
        let list = &mut self.lists[group];
        if list.front().is_some_and(|first| V::compare(first, item) == Ordering::Equal) {
            self.bytes -= list.pop_front().as_ref().map_or(0, V::bytes);
        }
    }
}

impl<V: FrameValues> Accumulator for Fifo<V> {
    fn resize(&mut self, groups: usize) {
        self.lists.resize_with(groups, VecDeque::new);
    }

    fn update(&mut self, rows: &InputRows<'_>) -> Result<()> {
        self.running(rows, &Readings::default()).map(|_| ())
    }

    fn running(&mut self, rows: &InputRows<'_>, readings: &Readings) -> Result<ArrayRef> {
        let column = self.values.column(&rows.values[0])?;
        rows.replay(readings, |step| match step {
            ReplayStep::Row { row, group, weight } if weight > 0 => self.add(group, V::item(&column, row)),
            ReplayStep::Row { row, group, .. } => self.remove(group, &V::item(&column, row)),
            ReplayStep::Read { group } => {
                let Fifo { lists, selection, values, .. } = self;
                values.read(if *selection == Selection::Last { lists[group].back() } else { lists[group].front() });
            }
        });
        self.values.take()
    }

    fn keep(&mut self, groups: &[usize]) -> Result<()> {
        self.lists = groups.iter().map(|group| std::mem::take(&mut self.lists[*group])).collect();
        self.bytes = self.lists.iter().flatten().map(V::bytes).sum();
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.lists.capacity() * size_of::<VecDeque<V::Item>>() + self.bytes
    }
}
