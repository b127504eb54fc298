//! `ARRAY_AGG` and `LISTAGG`, and `FIRST_VALUE` and `LAST_VALUE` of rows that may be retracted: the values of
//! each group, in order of arrival.
//!
//! A retraction removes the first occurrence of its value, as in Flink. Each distinct value is stored once,
//! for all groups, and lists contain its number.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use anabranch_dataflow::{AggregateSpec, Expr};
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StringArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, is_not_null, take};
use arrow::datatypes::{DataType, Field, FieldRef};

use super::accumulator::{Accumulator, InputRows};
use crate::hash_keys;
use crate::key_table::KeyTable;
use crate::keyed_state::{SPARSE_MIN, narrow};

/// What is computed from the list.
enum ListResult {
    First,
    Last,
    Array(FieldRef),
    Text { separator: String, data_type: DataType },
}

pub(super) struct Lists {
    result: ListResult,
    value_type: DataType,
    values: KeyTable,
    /// The ids of the values of each group.
    lists: Vec<VecDeque<u32>>,
    /// Values that were retracted before they arrived, by group and value.
    owed: BTreeMap<(usize, u32), i64>,
    /// Length of all lists.
    len: usize,
}

impl Lists {
    /// The accumulator of a function. `None` for functions of other kinds.
    pub(super) fn for_function(spec: &AggregateSpec, argument: &DataType) -> Result<Option<Lists>> {
        let result = match (spec.function.as_str(), &spec.data_type) {
            ("first_value", _) => ListResult::First,
            ("last_value", _) => ListResult::Last,
            ("array_agg", DataType::List(item)) => ListResult::Array(Arc::clone(item)),
            ("string_agg", data_type) => {
                let separator = match spec.args.get(1) {
                    Some(Expr::Literal(literal)) => literal.as_text().unwrap_or_default().to_owned(),
                    _ => return Err(Error::internal(format!("{spec} has no constant separator"))),
                };
                ListResult::Text { separator, data_type: data_type.clone() }
            }
            _ => return Ok(None),
        };
        let values = KeyTable::by_id(vec![argument.clone()])?;
        let (lists, owed) = (Vec::new(), BTreeMap::new());
        Ok(Some(Lists { result, value_type: argument.clone(), values, lists, owed, len: 0 }))
    }

    fn intern(&mut self, values: &ArrayRef) -> Result<Vec<u32>> {
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(std::slice::from_ref(values), values.len(), &mut hashes)?;
        self.values.intern(std::slice::from_ref(values), &hashes, &mut ids)?;
        ids.into_iter().map(narrow).collect()
    }

    fn add(&mut self, group: usize, value: u32, weight: i64) {
        for _ in 0..weight {
            match self.owed.get_mut(&(group, value)) {
                Some(1) => _ = self.owed.remove(&(group, value)),
                Some(owed) => *owed -= 1,
                None => {
                    self.lists[group].push_back(value);
                    self.len += 1;
                }
            }
        }
        for _ in weight..0 {
            match self.lists[group].iter().position(|item| *item == value) {
                Some(index) => {
                    self.lists[group].remove(index);
                    self.len -= 1;
                }
                None => *self.owed.entry((group, value)).or_default() += 1,
            }
        }
    }

    /// Removes the values that are in no list, once they are the majority.
    fn remove_dead(&mut self) -> Result<()> {
        if self.values.len() <= 2 * (self.len + self.owed.len()) + SPARSE_MIN {
            return Ok(());
        }
        let mut used = vec![false; self.values.len()];
        let ids = self.lists.iter().flatten().chain(self.owed.keys().map(|(_, value)| value));
        ids.for_each(|id| used[*id as usize] = true);
        let kept: Vec<usize> = (0..used.len()).filter(|id| used[*id]).collect();
        let values = self.column(&kept)?;
        self.values = KeyTable::by_id(vec![self.value_type.clone()])?;
        let mut numbers = vec![0; used.len()];
        kept.iter().zip(self.intern(&values)?).for_each(|(old, new)| numbers[*old] = new);
        self.lists.iter_mut().flatten().for_each(|id| *id = numbers[*id as usize]);
        let owed = std::mem::take(&mut self.owed).into_iter();
        self.owed = owed.map(|((group, id), count)| ((group, numbers[id as usize]), count)).collect();
        Ok(())
    }

    /// The values with these ids.
    fn column(&self, ids: &[usize]) -> Result<ArrayRef> {
        let mut columns = self.values.keys_of(ids)?;
        columns.pop().ok_or_else(|| Error::internal("values without their column"))
    }

    /// The lists, with values instead of ids.
    fn arrays(&self, lists: &[Vec<usize>], item: FieldRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let values = self.column(&lists.iter().flatten().copied().collect::<Vec<_>>())?;
        let values = if values.data_type() == item.data_type() { values } else { cast(&values, item.data_type())? };
        let offsets = OffsetBuffer::from_lengths(lists.iter().map(Vec::len));
        Ok(Arc::new(ListArray::try_new(item, offsets, values, nulls)?))
    }

    fn lists_of(&self, groups: &[usize]) -> Vec<Vec<usize>> {
        groups.iter().map(|group| self.lists[*group].iter().map(|id| *id as usize).collect()).collect()
    }

    fn texts(&self, groups: &[usize], separator: &str, data_type: &DataType) -> Result<ArrayRef> {
        let lists = self.lists_of(groups);
        let values = self.column(&lists.iter().flatten().copied().collect::<Vec<_>>())?;
        let values = cast(&values, &DataType::Utf8)?;
        let mut words = values.as_string::<i32>().iter();
        let text = |list: &Vec<usize>| {
            let words: Vec<&str> = words.by_ref().take(list.len()).flatten().collect();
            (!list.is_empty()).then(|| words.join(separator))
        };
        let texts: ArrayRef = Arc::new(lists.iter().map(text).collect::<StringArray>());
        Ok(cast(&texts, data_type)?)
    }

    /// The value at one end of each list.
    fn ends(&self, groups: &[usize], end: impl Fn(&VecDeque<u32>) -> Option<&u32>) -> Result<ArrayRef> {
        let found: Vec<Option<usize>> =
            groups.iter().map(|group| end(&self.lists[*group]).map(|id| *id as usize)).collect();
        let values = self.column(&found.iter().flatten().copied().collect::<Vec<_>>())?;
        let mut next = 0..;
        let places: UInt32Array = found.iter().map(|id| id.and_then(|_| next.next())).collect();
        Ok(take(&values, &places, None)?)
    }

    fn item(&self) -> FieldRef {
        Arc::new(Field::new("item", self.value_type.clone(), true))
    }
}

impl Accumulator for Lists {
    fn resize(&mut self, groups: usize) {
        self.lists.resize_with(groups, VecDeque::new);
    }

    fn update(&mut self, rows: &InputRows<'_>) -> Result<()> {
        let values = &rows.values[0];
        let ids = self.intern(values)?;
        // Only `ARRAY_AGG` keeps NULL.
        let counts: Option<BooleanArray> = match self.result {
            ListResult::Array(_) => None,
            _ => Some(is_not_null(values)?),
        };
        for (row, group) in
            rows.groups.iter().enumerate().filter(|(row, _)| counts.as_ref().is_none_or(|counts| counts.value(*row)))
        {
            self.add(*group, ids[row], rows.weights.map_or(1, |weights| weights[row]));
        }
        self.remove_dead()
    }

    fn results(&self, groups: &[usize]) -> Result<ArrayRef> {
        match &self.result {
            ListResult::First => self.ends(groups, VecDeque::front),
            ListResult::Last => self.ends(groups, VecDeque::back),
            ListResult::Text { separator, data_type } => self.texts(groups, separator, data_type),
            ListResult::Array(item) => {
                let nulls = groups.iter().map(|group| !self.lists[*group].is_empty()).collect();
                self.arrays(&self.lists_of(groups), Arc::clone(item), Some(nulls))
            }
        }
    }

    fn state_fields(&self, name: &str) -> Vec<Field> {
        ["values", "owed"]
            .map(|part| Field::new(format!("{name}[{part}]"), DataType::List(self.item()), false))
            .to_vec()
    }

    fn state(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        let owed = |group: &usize| {
            let of_group = self.owed.range((*group, 0)..=(*group, u32::MAX));
            of_group.flat_map(|((_, id), count)| (0..*count).map(|_| *id as usize)).collect()
        };
        let owed: Vec<Vec<usize>> = groups.iter().map(owed).collect();
        Ok(vec![self.arrays(&self.lists_of(groups), self.item(), None)?, self.arrays(&owed, self.item(), None)?])
    }

    fn restore(&mut self, groups: &[usize], state: &[ArrayRef]) -> Result<()> {
        let lists = |column: usize| {
            let lists = state.get(column).and_then(|lists| lists.as_list_opt::<i32>());
            lists.ok_or_else(|| Error::internal("a state without its lists"))
        };
        let (values, owed) = (lists(0)?, lists(1)?);
        let (ids, owed_ids) = (self.intern(values.values())?, self.intern(owed.values())?);
        let range = |offsets: &[i32], row: usize| offsets[row] as usize..offsets[row + 1] as usize;
        for (row, group) in groups.iter().enumerate() {
            self.len -= std::mem::take(&mut self.lists[*group]).len();
            let former: Vec<_> = self.owed.range((*group, 0)..=(*group, u32::MAX)).map(|(key, _)| *key).collect();
            former.into_iter().for_each(|key| _ = self.owed.remove(&key));
            self.lists[*group] = ids[range(values.value_offsets(), row)].iter().copied().collect();
            self.len += self.lists[*group].len();
            for id in &owed_ids[range(owed.value_offsets(), row)] {
                *self.owed.entry((*group, *id)).or_default() += 1;
            }
        }
        Ok(())
    }

    fn keep(&mut self, groups: &[usize]) -> Result<()> {
        self.lists = groups.iter().map(|group| std::mem::take(&mut self.lists[*group])).collect();
        self.len = self.lists.iter().map(VecDeque::len).sum();
        let places: BTreeMap<usize, usize> = groups.iter().enumerate().map(|(new, old)| (*old, new)).collect();
        let owed = std::mem::take(&mut self.owed).into_iter();
        self.owed = owed.filter_map(|((group, id), count)| Some(((*places.get(&group)?, id), count))).collect();
        self.remove_dead()
    }

    fn size_bytes(&self) -> usize {
        let lists = self.lists.capacity() * size_of::<VecDeque<u32>>() + self.len * 2 * size_of::<u32>();
        self.values.size_bytes() + lists + self.owed.len() * 2 * size_of::<((usize, u32), i64)>()
    }
}
