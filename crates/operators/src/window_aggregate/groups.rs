//! Groups with their accumulators: the state of one pane.

use std::ops::Range;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_expr::{EmitTo, GroupsAccumulator};

use super::function::AggregateFunctions;
use crate::expression::runtime_error;
use crate::key_table::KeyTable;

/// What a batch adds to a pane: keys, and arguments or states of each function.
pub(super) struct Input {
    /// Number of rows: without keys and aggregates there is no column to count.
    pub(super) rows: usize,
    pub(super) keys: Vec<ArrayRef>,
    /// Per function: its arguments if `filters` is given, else its state columns.
    pub(super) grouped: Vec<Vec<ArrayRef>>,
    /// Per function: its filter. `None` as a whole for states.
    pub(super) filters: Option<Vec<Option<BooleanArray>>>,
}

/// Keys of groups with a list of columns per function: states or results. No columns if there is no group,
/// because not every accumulator can emit zero groups.
#[derive(Clone, Default)]
pub(super) struct Grouped {
    pub(super) len: usize,
    pub(super) keys: Vec<ArrayRef>,
    pub(super) values: Vec<Vec<ArrayRef>>,
}

pub(super) struct Groups {
    keys: KeyTable,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// Number of groups for which the accumulators have room. It is less than the number of keys only while
    /// states are being taken back.
    room: usize,
    /// Whether the state of a group may be of any size.
    varies: bool,
    /// The keys that the last snapshot took, if the next one is likely to have the same.
    taken_keys: Option<Vec<ArrayRef>>,
    hashes: Vec<u64>,
    ids: Vec<usize>,
}

impl Input {
    /// Only these rows.
    pub(super) fn take(&self, rows: Vec<u32>) -> Result<Input> {
        let rows = UInt32Array::from(rows);
        let pick = |columns: &[ArrayRef]| -> Result<Vec<ArrayRef>> {
            columns.iter().map(|c| Ok(take(c, &rows, None)?)).collect()
        };
        let filter = |filter: &Option<BooleanArray>| -> Result<Option<BooleanArray>> {
            let Some(filter) = filter else { return Ok(None) };
            Ok(Some(BooleanArray::from(take(filter, &rows, None)?.to_data())))
        };
        let filters = self.filters.as_ref().map(|f| f.iter().map(filter).collect::<Result<_>>()).transpose()?;
        let grouped = self.grouped.iter().map(|columns| pick(columns)).collect::<Result<_>>()?;
        Ok(Input { rows: rows.len(), keys: pick(&self.keys)?, grouped, filters })
    }

    pub(super) fn filter(&self, function: usize) -> Option<&BooleanArray> {
        self.filters.as_ref().and_then(|f| f[function].as_ref())
    }
}

impl Groups {
    pub(super) fn new(key_types: Vec<DataType>, functions: &AggregateFunctions) -> Result<Self> {
        Ok(Groups {
            keys: KeyTable::new(key_types)?,
            accumulators: functions.accumulators()?,
            room: 0,
            varies: functions.states_vary(),
            taken_keys: None,
            hashes: Vec::new(),
            ids: Vec::new(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn size_bytes(&self) -> usize {
        let taken = self.taken_keys.iter().flatten().map(|column| column.get_array_memory_size()).sum::<usize>();
        self.keys.size_bytes() + taken + self.accumulators.iter().map(|a| a.size()).sum::<usize>()
    }

    /// Adds rows, or states of the same groups from elsewhere.
    pub(super) fn update(&mut self, input: &Input) -> Result<()> {
        self.keys.intern_rows(&input.keys, input.rows, &mut self.hashes, &mut self.ids)?;
        let total = self.keys.len();
        self.room = total;
        for (i, accumulator) in self.accumulators.iter_mut().enumerate() {
            let updated = match &input.filters {
                Some(filters) => accumulator.update_batch(&input.grouped[i], &self.ids, filters[i].as_ref(), total),
                None => accumulator.merge_batch(&input.grouped[i], &self.ids, total),
            };
            updated.map_err(|e| runtime_error(&e))?;
        }
        Ok(())
    }

    pub(super) fn merge(&mut self, states: &Grouped) -> Result<()> {
        if states.len == 0 {
            return Ok(());
        }
        self.update(&Input {
            rows: states.len,
            keys: states.keys.clone(),
            grouped: states.values.clone(),
            filters: None,
        })
    }

    /// Adds the one group of an aggregate without keys over no rows.
    pub(super) fn add_empty_group(&mut self, functions: &AggregateFunctions) -> Result<()> {
        self.keys.intern(&[], &[0], &mut self.ids)?;
        self.room = self.keys.len();
        // One row that the filter excludes: the group exists, and no accumulator has a value for it.
        let filter = BooleanArray::from(vec![false]);
        for (accumulator, types) in self.accumulators.iter_mut().zip(functions.argument_types()) {
            let row: Vec<ArrayRef> = types.iter().map(|t| arrow::array::new_null_array(t, 1)).collect();
            accumulator.update_batch(&row, &[0], Some(&filter), 1).map_err(|e| runtime_error(&e))?;
        }
        Ok(())
    }

    /// Takes the states out; the accumulators are empty afterwards.
    pub(super) fn states(&mut self) -> Result<Grouped> {
        let len = self.len();
        if len == 0 {
            return Ok(Grouped::default());
        }
        self.check_room()?;
        let states = self.accumulators.iter_mut().map(|a| a.state(EmitTo::All).map_err(|e| runtime_error(&e)));
        let values = states.collect::<Result<_>>()?;
        let keys = match self.taken_keys.take().filter(|keys| keys.first().is_some_and(|column| column.len() == len)) {
            Some(keys) => keys,
            None => self.keys.keys()?,
        };
        self.room = 0;
        Ok(Grouped { len, values, keys })
    }

    /// Remembers the keys that a snapshot took, because the next one is likely to have the same.
    pub(super) fn remember(&mut self, keys: &[ArrayRef]) {
        self.taken_keys = Some(keys.to_vec());
    }

    /// Puts back the states of the groups with these ids, which [`Groups::states`] has returned. The keys
    /// were kept, so nothing is looked up.
    pub(super) fn take_back(&mut self, states: &Grouped, ids: Range<usize>) -> Result<()> {
        self.room = self.room.max(ids.end);
        self.ids.clear();
        self.ids.extend(ids);
        for (accumulator, state) in self.accumulators.iter_mut().zip(&states.values) {
            accumulator.merge_batch(state, &self.ids, self.room).map_err(|e| runtime_error(&e))?;
        }
        Ok(())
    }

    /// Whether the state of a group may be of any size.
    pub(super) fn varies(&self) -> bool {
        self.varies
    }

    /// Number of groups whose states [`Groups::take_back`] adds without taking more memory.
    pub(super) fn room(&self) -> usize {
        if self.varies { 0 } else { self.room }
    }

    fn check_room(&self) -> Result<()> {
        match self.room == self.len() {
            true => Ok(()),
            false => Err(Error::internal("states of groups are read while some of them are not there")),
        }
    }

    /// Takes the results out; the accumulators are empty afterwards.
    pub(super) fn results(&mut self) -> Result<Grouped> {
        let len = self.len();
        if len == 0 {
            return Ok(Grouped::default());
        }
        self.check_room()?;
        self.room = 0;
        let results =
            self.accumulators.iter_mut().map(|a| Ok(vec![a.evaluate(EmitTo::All).map_err(|e| runtime_error(&e))?]));
        Ok(Grouped { len, values: results.collect::<Result<_>>()?, keys: self.keys.keys()? })
    }

    /// Removes the keys, after [`Groups::states`] or [`Groups::results`] has emptied the accumulators.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        (self.room, self.taken_keys) = (0, None);
    }
}

impl Grouped {
    /// A range of the rows, without copying them.
    pub(super) fn slice(&self, rows: Range<usize>) -> Grouped {
        let slice = |columns: &[ArrayRef]| columns.iter().map(|c| c.slice(rows.start, rows.len())).collect();
        let values = self.values.iter().map(|columns| slice(columns)).collect();
        Grouped { len: rows.len(), keys: slice(&self.keys), values }
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.values_bytes() + self.keys.iter().map(|c| c.get_array_memory_size()).sum::<usize>()
    }

    pub(super) fn values_bytes(&self) -> usize {
        self.values.iter().flatten().map(|c| c.get_array_memory_size()).sum()
    }
}
