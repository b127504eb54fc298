//! Join of several streams by the same keys over all rows so far, as the symmetric hash join of Wilschut and
//! Apers (1991) for any number of inputs (Viglas, Naughton and Burger, 2003): a batch of one input is joined
//! with the rows of all other inputs, then kept. So the state is only the rows of the inputs. A chain of
//! binary joins would also keep their pairs; here these are computed again when they are needed.
//!
//! A batch is extended by the rows of one further input at a time ([`product`]), in pieces. A condition is
//! evaluated as soon as all inputs that it reads are joined. Rows whose key another input lacks are dropped
//! first.
//!
//! An input may be outer: a key that has no rows in it appears with NULL for its columns. This depends on the
//! key alone, so the tables show it. A batch that adds the first rows of a key, or removes the last ones,
//! retracts or emits the rows with NULL.
//!
//! The rows of all inputs, in memory and on disk, are in `join_tables`.

mod gathered;
mod product;
mod succession;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, MultiJoinSpec};
use anabranch_model::Result;
use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{DataType, SchemaRef};

use self::gathered::Condition;
use self::product::{Expansion, Origin};
use crate::join_tables::{Brought, Results, Role, Side, SideRows, SideShape, Tables, in_order, taken};
use crate::{Functions, Operator, Output, State};

pub(crate) use succession::goes_on;

pub(crate) struct MultiJoin {
    inputs: Vec<JoinInput>,
    conditions: Vec<Condition>,
    /// Input and column of each column of the output.
    output: Vec<(usize, usize)>,
    tables: Tables,
    /// Rows whose product with the rows of all other inputs has yet to be emitted.
    origins: VecDeque<Origin>,
    /// The rows whose product is being emitted.
    expansion: Option<Expansion>,
    results: Results,
    /// Parts of a batch that have yet to be joined: not all of its keys fit into memory at once.
    divided: VecDeque<(usize, SideRows)>,
}

/// An input, and how its rows are joined.
struct JoinInput {
    outer: bool,
    /// Types of its columns after the keys.
    values: Vec<DataType>,
    /// The other inputs, in the order in which rows of this one are joined with them.
    order: Vec<usize>,
    /// Conditions to evaluate for rows of this input alone, and after each step.
    due: Vec<Vec<usize>>,
}

/// The operator, and the schema of its output.
pub(crate) fn build(
    spec: &MultiJoinSpec,
    functions: &Functions,
    options: &JobOptions,
) -> Result<(Box<dyn Operator>, SchemaRef)> {
    let join = MultiJoin::new(spec, functions, options)?;
    let schema = Arc::clone(&join.results.schema);
    Ok((Box::new(join), schema))
}

impl MultiJoin {
    pub(crate) fn new(spec: &MultiJoinSpec, functions: &Functions, options: &JobOptions) -> Result<MultiJoin> {
        let conditions = spec.conditions.iter().map(|predicate| Condition::new(&predicate.condition, spec, functions));
        let shapes = spec.inputs.iter().enumerate().map(|(number, input)| SideShape {
            spec: &input.side,
            role: Role::Plain,
            table: if number == 0 { String::new() } else { format!("input {}", number + 1) },
            fields: input.side.schema.fields().iter().map(|field| field.as_ref().clone()).collect(),
            gives_pairs: true,
        });
        Ok(MultiJoin {
            inputs: (0..spec.inputs.len()).map(|input| JoinInput::new(spec, input)).collect(),
            conditions: conditions.collect::<Result<_>>()?,
            output: spec.output.iter().map(|column| spec.place(*column)).collect(),
            tables: Tables::of_sides(shapes.collect(), spec.keys, spec.nulls_equal, options)?,
            origins: VecDeque::new(),
            expansion: None,
            results: Results::new(Arc::new(spec.output_schema()), spec.is_updating()),
            divided: VecDeque::new(),
        })
    }

    /// Keeps a batch, and begins to join it.
    fn take_in(&mut self, input: usize, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        self.tables.end_restore()?;
        let (rows, without) = self.tables.with_keys(input, batch)?;
        if let Some(without) = without.filter(|_| self.appears_alone(input)) {
            // They have no matches, and so appear with NULL for all other inputs.
            self.origins.push_back(Origin::of_rows(input, without, None));
        }
        self.join(input, rows, out)
    }

    /// Whether rows of an input appear with NULL for all others.
    fn appears_alone(&self, input: usize) -> bool {
        self.inputs.iter().enumerate().all(|(number, joined)| joined.outer == (number != input))
    }

    /// Joins rows whose keys are not NULL.
    fn join(&mut self, input: usize, rows: SideRows, out: &mut Output) -> Result<()> {
        let (rows, keys) = match self.tables.bring_rows(rows)? {
            Brought::All(rows, keys) => (rows, keys),
            Brought::Halves(halves) => {
                halves.into_iter().rev().for_each(|half| self.divided.push_front((input, half)));
                return Ok(());
            }
        };
        let outer = self.inputs[input].outer;
        let different: Vec<usize> =
            if outer { keys.iter().copied().collect::<BTreeSet<_>>().into_iter().collect() } else { Vec::new() };
        let side = &self.tables.rows.sides[input];
        let before: Vec<bool> = different.iter().map(|key| has_row(side, *key)).collect();
        let ids = self.tables.add(input, &rows, &keys)?;
        let side = &self.tables.rows.sides[input];
        let after = different.iter().map(|key| has_row(side, *key));
        // Rows with NULL for this input are retracted before its first rows of a key appear, and emitted
        // after its last ones have disappeared.
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for ((key, before), after) in different.iter().zip(before).zip(after) {
            match (before, after) {
                (false, true) => gone.push(*key),
                (true, false) => new.push(*key),
                _ => {}
            }
        }
        let missing = |keys: Vec<usize>, weight: i64| self.without(input, keys, weight);
        let (gone, new) = (missing(gone, -1)?, missing(new, 1)?);
        let rows = match rows.weights.iter().any(|weight| *weight < 0) {
            true => ordered(&rows, &keys, &ids)?,
            false => (rows, keys),
        };
        self.origins.extend(gone);
        self.origins.push_back(Origin::of_rows(input, rows.0, Some(rows.1)));
        self.origins.extend(new);
        self.emit_more(out).map(|_| ())
    }

    /// A row for each of these keys, with NULL for the columns of an input that has no row of the key.
    fn without(&self, input: usize, keys: Vec<usize>, weight: i64) -> Result<Option<Origin>> {
        if keys.is_empty() {
            return Ok(None);
        }
        let mut columns = self.tables.keys.keys_of(&keys)?;
        columns.extend(self.inputs[input].values.iter().map(|data_type| new_null_array(data_type, keys.len())));
        let rows = SideRows { weights: vec![weight; keys.len()], columns };
        Ok(Some(Origin { is_missing: true, ..Origin::of_rows(input, rows, Some(keys)) }))
    }
}

impl JoinInput {
    /// Inputs that complete the most conditions come first, so that few rows are produced.
    fn new(spec: &MultiJoinSpec, input: usize) -> JoinInput {
        let (mut there, mut order) = (BTreeSet::from([input]), Vec::new());
        let due = |there: &BTreeSet<usize>, before: &BTreeSet<usize>| -> Vec<usize> {
            let is_due = |number: &usize| {
                let inputs = &spec.conditions[*number].inputs;
                inputs.is_subset(there) && !inputs.is_subset(before)
            };
            (0..spec.conditions.len()).filter(is_due).collect()
        };
        let alone = |number: &usize| spec.conditions[*number].inputs.is_subset(&there);
        let mut all_due = vec![(0..spec.conditions.len()).filter(alone).collect()];
        while there.len() < spec.inputs.len() {
            let with = |next: usize| there.iter().copied().chain([next]).collect::<BTreeSet<usize>>();
            let rest = (0..spec.inputs.len()).filter(|other| !there.contains(other));
            // Among equals, the first one.
            let next = rest.rev().max_by_key(|next| due(&with(*next), &there).len());
            let Some(next) = next else { break };
            let more = with(next);
            all_due.push(due(&more, &there));
            order.push(next);
            there = more;
        }
        let columns = spec.inputs[input].side.schema.fields().iter();
        let values = columns.skip(spec.keys).map(|field| field.data_type().clone()).collect();
        JoinInput { outer: spec.inputs[input].outer, values, order, due: all_due }
    }
}

fn has_row(side: &Side, key: usize) -> bool {
    next_row(side, side.first(key)).is_some()
}

/// The next existing row in the list of a key, from this one on.
fn next_row(side: &Side, mut row: Option<usize>) -> Option<usize> {
    while let Some(at) = row.filter(|row| side.weight(*row) == 0) {
        row = side.after(at);
    }
    row
}

/// Merges equal rows, and adds up their weights. Retractions come first.
fn ordered(rows: &SideRows, keys: &[usize], ids: &[usize]) -> Result<(SideRows, Vec<usize>)> {
    let order = in_order(ids, &rows.weights);
    let places = order.iter().map(|(row, _)| *row as u64).collect();
    let weights = order.iter().map(|(_, weight)| *weight).collect();
    let keys = order.iter().map(|(row, _)| keys[*row]).collect();
    Ok((SideRows { columns: taken(&rows.columns, &places)?, weights }, keys))
}

impl Operator for MultiJoin {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.take_in(0, &batch, out)
    }

    fn input_batch(&mut self, input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.take_in(input, &batch, out)
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        if self.results.repeat(out)? || self.emit_more(out)? {
            return Ok(true);
        }
        self.tables.remove_dead()?;
        self.tables.keep_to_size(0)?;
        if let Some((input, rows)) = self.divided.pop_front() {
            self.join(input, rows, out)?;
            return Ok(true);
        }
        self.tables.work()?;
        Ok(false)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(&mut self.tables)
    }
}
