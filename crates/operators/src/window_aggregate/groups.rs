//! Groups with their accumulators: the state of one pane.

use anabranch_model::Result;
use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_expr::{EmitTo, GroupsAccumulator};

use super::function::AggregateFunctions;
use crate::expression::runtime_error;
use crate::hash_keys;
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

/// Keys of groups with a list of columns per function: states or results. No columns if there is no group, because not
/// every accumulator can emit zero groups.
#[derive(Clone, Default)]
pub(super) struct Grouped {
    pub(super) len: usize,
    pub(super) keys: Vec<ArrayRef>,
    pub(super) values: Vec<Vec<ArrayRef>>,
}

pub(super) struct Groups {
    keys: KeyTable,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
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
        let (keys, accumulators) = (KeyTable::new(key_types)?, functions.accumulators()?);
        Ok(Groups { keys, accumulators, hashes: Vec::new(), ids: Vec::new() })
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.keys.size_bytes() + self.accumulators.iter().map(|a| a.size()).sum::<usize>()
    }

    /// Adds rows, or states of the same groups from elsewhere.
    pub(super) fn update(&mut self, input: &Input) -> Result<()> {
        hash_keys(&input.keys, input.rows, &mut self.hashes)?;
        self.keys.intern(&input.keys, &self.hashes, &mut self.ids)?;
        let total = self.keys.len();
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

    /// The one group of an aggregate without keys over no rows.
    pub(super) fn add_empty_group(&mut self, functions: &AggregateFunctions) -> Result<()> {
        self.keys.intern(&[], &[0], &mut self.ids)?;
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
        let states = self.accumulators.iter_mut().map(|a| a.state(EmitTo::All).map_err(|e| runtime_error(&e)));
        Ok(Grouped { len, values: states.collect::<Result<_>>()?, keys: self.keys.keys()? })
    }

    /// Copies the states. The keys keep their places, so nothing is looked up.
    pub(super) fn copy_states(&mut self) -> Result<Grouped> {
        let states = self.states()?;
        self.ids.clear();
        self.ids.extend(0..states.len);
        // Accumulators give their states away; they get them back at once.
        for (accumulator, state) in self.accumulators.iter_mut().zip(&states.values) {
            accumulator.merge_batch(state, &self.ids, states.len).map_err(|e| runtime_error(&e))?;
        }
        Ok(states)
    }

    /// Takes the results out; the accumulators are empty afterwards.
    pub(super) fn results(&mut self) -> Result<Grouped> {
        let len = self.len();
        if len == 0 {
            return Ok(Grouped::default());
        }
        let results =
            self.accumulators.iter_mut().map(|a| Ok(vec![a.evaluate(EmitTo::All).map_err(|e| runtime_error(&e))?]));
        Ok(Grouped { len, values: results.collect::<Result<_>>()?, keys: self.keys.keys()? })
    }

    /// Removes the keys, after [`Groups::states`] or [`Groups::results`] has emptied the accumulators.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
    }
}

impl Grouped {
    pub(super) fn size_bytes(&self) -> usize {
        self.keys.iter().chain(self.values.iter().flatten()).map(|c| c.get_array_memory_size()).sum()
    }
}
