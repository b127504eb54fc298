//! Join of two streams over all rows so far, as the symmetric hash join of Wilschut and Apers (1991): a batch
//! of one side is joined with the rows of the other side, then kept.
//!
//! Rows that are emitted without a match (outer and anti joins), or once for all matches (semi joins), have a
//! count of their matches. A batch of the other side that raises a count from zero, or lowers it to zero,
//! retracts or emits rows.
//!
//! If the condition bounds the distance of the event times of a pair, a row expires when the watermark shows
//! that no later row can match it. Rows without a match are then emitted, once and for all.
//!
//! A side may have versions of rows (`versions`): then a row of the other side is joined when the watermark
//! reaches it, with the version that is valid at its time.
//!
//! A batch may have any number of matches. They are emitted in pieces, between which the chain passes its
//! output on.
//!
//! The rows of both sides, in memory and on disk, are in `join_tables`.

mod pairs;
mod succession;
mod versions;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, StreamJoinKind, StreamJoinSpec};
use anabranch_model::{EventTime, Result};
use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::SchemaRef;

use self::pairs::Pending;
use self::versions::Versions;
use crate::join_tables::{Brought, Results, Role, Side, SideRows, SideShape, Tables, taken};
use crate::operator::RESULT_ROWS;
use crate::{CompiledExpr, Functions, Operator, Output, State};

pub(crate) use succession::goes_on;

pub(crate) struct StreamJoin {
    joined_schema: SchemaRef,
    filter: Option<CompiledExpr>,
    kind: StreamJoinKind,
    output: Vec<usize>,
    gives_pairs: bool,
    /// The rows of the left and of the right side.
    tables: Tables,
    /// The batch whose matches are being emitted.
    pending: Option<Pending>,
    results: Results,
    /// Rows that are emitted because they have expired, with their weights.
    leaving: Vec<(JoinSide, Vec<(usize, i64)>)>,
    /// The watermark to emit after them.
    passing: Option<EventTime>,
    /// How far the emitted watermarks are behind those of the inputs.
    delay_ms: i64,
    /// The versions, if right rows are versions.
    versions: Option<Versions>,
    /// Parts of a batch that have yet to be joined: not all of its keys fit into memory at once.
    divided: VecDeque<(JoinSide, SideRows)>,
}

/// One of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JoinSide {
    Left,
    Right,
}

/// The operator, and the schema of its output.
pub(crate) fn build(
    spec: &StreamJoinSpec,
    functions: &Functions,
    options: &JobOptions,
) -> Result<(Box<dyn Operator>, SchemaRef)> {
    let join = StreamJoin::new(spec, functions, options)?;
    let schema = Arc::clone(&join.results.schema);
    Ok((Box::new(join), schema))
}

impl StreamJoin {
    pub(crate) fn new(spec: &StreamJoinSpec, functions: &Functions, options: &JobOptions) -> Result<Self> {
        let (pads_left, pads_right) = spec.kind.pads();
        let waits = !spec.is_updating();
        let padded = |pads: bool| match pads {
            true if waits => Role::UnmatchedAtEnd,
            true => Role::Padded,
            false => Role::Plain,
        };
        let left = match spec.kind {
            _ if spec.versions.is_some() => Role::UnmatchedAtEnd,
            StreamJoinKind::LeftSemi => Role::Matched,
            StreamJoinKind::LeftAnti if waits => Role::UnmatchedAtEnd,
            StreamJoinKind::LeftAnti => Role::Unmatched,
            StreamJoinKind::Inner | StreamJoinKind::Left | StreamJoinKind::Right | StreamJoinKind::Full => {
                padded(pads_left)
            }
        };
        let (joined_schema, gives_pairs) = (Arc::new(spec.joined_schema()), spec.kind.gives_pairs());
        let fields: Vec<_> = joined_schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        let (of_left, of_right) = fields.split_at(spec.left.schema.fields().len());
        let shape = |spec, role, table: &str, fields: &[_]| SideShape {
            spec,
            role,
            table: table.to_owned(),
            fields: fields.to_vec(),
            gives_pairs,
        };
        let left = shape(&spec.left, left, "", of_left);
        let right = shape(&spec.right, padded(pads_right), "right", of_right);
        Ok(StreamJoin {
            filter: spec.filter.as_ref().map(|f| CompiledExpr::new(f, &joined_schema, functions)).transpose()?,
            joined_schema,
            output: spec.output.clone(),
            gives_pairs,
            tables: Tables::of_sides(vec![left, right], spec.keys, spec.nulls_equal, options)?,
            kind: spec.kind,
            versions: spec.versions.map(Versions::new),
            pending: None,
            results: Results::new(Arc::new(spec.output_schema()), spec.is_updating()),
            leaving: Vec::new(),
            passing: None,
            delay_ms: spec.delay_ms,
            divided: VecDeque::new(),
        })
    }

    #[cfg(test)]
    pub(crate) fn size_bytes(&self) -> usize {
        self.tables.size_bytes()
    }

    fn side(&self, side: JoinSide) -> &Side {
        &self.tables.rows.sides[side as usize]
    }

    fn side_mut(&mut self, side: JoinSide) -> &mut Side {
        &mut self.tables.rows.sides[side as usize]
    }

    /// Keeps a batch, and begins to join it.
    fn take_in(&mut self, side: JoinSide, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        self.tables.end_restore()?;
        let (rows, without) = self.tables.with_keys(side as usize, batch)?;
        let has_no_version = self.versions.is_some() && self.kind == StreamJoinKind::Inner;
        if let Some(without) = without.filter(|_| self.side(side).role.shows_unmatched() && !has_no_version) {
            self.emit_alone(side, &without.columns, without.weights, out)?;
        }
        self.join(side, rows, out)
    }

    /// Joins rows whose keys are not NULL.
    fn join(&mut self, side: JoinSide, rows: SideRows, out: &mut Output) -> Result<()> {
        let (rows, keys) = match self.tables.bring_rows(rows)? {
            Brought::All(rows, keys) => (rows, keys),
            Brought::Halves(halves) => {
                halves.into_iter().rev().for_each(|half| self.divided.push_front((side, half)));
                return Ok(());
            }
        };
        self.index_versions()?;
        let ids = self.tables.add(side as usize, &rows, &keys)?;
        if let Some(versions) = &mut self.versions {
            return match side {
                JoinSide::Left => Ok(()),
                JoinSide::Right => {
                    let right = &mut self.tables.rows.sides[JoinSide::Right as usize];
                    versions.add(right, (&keys, &ids), &rows.columns, &rows.weights)
                }
            };
        }
        let mut pending = Pending::new(side, rows, keys, ids);
        if pending.takes_back() {
            pending.put_in_order()?;
            let (rows, weights) = pending.hidden(self.side(side));
            self.emit_alone(side, &taken(&pending.columns, &rows)?, weights, out)?;
        }
        pending.begin(self.side(opposite(side)));
        self.pending = Some(pending);
        self.emit_more(out).map(|_| ())
    }

    /// Emits rows of one side that have no match, or for a semi join those that have one.
    fn emit_alone(&mut self, side: JoinSide, columns: &[ArrayRef], weights: Vec<i64>, out: &mut Output) -> Result<()> {
        let rows = weights.len();
        if rows == 0 {
            return Ok(());
        }
        let nulls = |side: &Side| -> Vec<ArrayRef> {
            side.types.iter().map(|data_type| new_null_array(data_type, rows)).collect()
        };
        let joined: Vec<ArrayRef> = match side {
            JoinSide::Left => columns.iter().cloned().chain(nulls(self.side(JoinSide::Right))).collect(),
            JoinSide::Right => nulls(self.side(JoinSide::Left)).into_iter().chain(columns.iter().cloned()).collect(),
        };
        self.emit(&joined, weights, out)
    }

    /// Emits rows, given the columns of both sides.
    fn emit(&mut self, joined: &[ArrayRef], weights: Vec<i64>, out: &mut Output) -> Result<()> {
        let columns = self.output.iter().map(|column| Arc::clone(&joined[*column])).collect();
        self.results.emit(columns, weights, out)
    }

    fn keep_to_size(&mut self) -> Result<()> {
        let versions = self.versions.as_ref().map_or(0, Versions::size_bytes);
        self.tables.keep_to_size(versions).map(|_| ())
    }

    /// Reads due rows from the disk. Returns false if there are none.
    fn load_due(&mut self) -> Result<bool> {
        if self.tables.timers.is_none() {
            return Ok(false);
        }
        self.keep_to_size()?;
        let found = self.tables.load_due()?;
        self.index_versions()?;
        Ok(found)
    }

    /// Removes the expired rows of a side, and queues those that are emitted at their expiry.
    fn expire(&mut self, side: JoinSide) {
        let watermark = EventTime(self.tables.watermark);
        let appear = self.side_mut(side).expire(watermark);
        if !appear.is_empty() {
            self.leaving.push((side, appear));
        }
    }

    /// Emits a piece of the rows that have expired, then the watermark. Returns false if nothing was left.
    fn leave(&mut self, out: &mut Output) -> Result<bool> {
        let Some((side, rows)) = self.leaving.last_mut() else {
            if self.passing.is_some() && self.load_due()? {
                self.expire(JoinSide::Left);
                self.expire(JoinSide::Right);
                return Ok(true);
            }
            let Some(watermark) = self.passing.take() else { return Ok(false) };
            self.tables.forget_away();
            out.watermark(match watermark {
                // The end of the input.
                EventTime::MAX => watermark,
                EventTime(ms) => EventTime(ms.saturating_sub(self.delay_ms)),
            });
            return Ok(true);
        };
        let side = *side;
        let (ids, weights): (Vec<usize>, Vec<i64>) =
            rows.split_off(rows.len().saturating_sub(RESULT_ROWS)).into_iter().unzip();
        if rows.is_empty() {
            self.leaving.pop();
        }
        if self.versions.is_some() {
            self.emit_with_versions(&ids, weights, out)?;
            return Ok(true);
        }
        let columns = self.tables.columns_of(side as usize, &ids)?;
        self.emit_alone(side, &columns, weights, out)?;
        Ok(true)
    }
}

fn opposite(side: JoinSide) -> JoinSide {
    match side {
        JoinSide::Left => JoinSide::Right,
        JoinSide::Right => JoinSide::Left,
    }
}

impl Operator for StreamJoin {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.take_in(JoinSide::Left, &batch, out)
    }

    fn input_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.take_in(JoinSide::Right, &batch, out)
    }

    /// Expired rows are emitted before the watermark.
    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.tables.end_restore()?;
        self.index_versions()?;
        self.tables.watermark = self.tables.watermark.max(watermark.0);
        self.expire(JoinSide::Left);
        self.expire(JoinSide::Right);
        self.passing = Some(watermark);
        let reached = self.tables.watermark;
        self.tables.timers.iter_mut().for_each(|timers| timers.reach(reached));
        if self.leaving.is_empty() { self.leave(out).map(|_| ()) } else { Ok(()) }
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        if self.results.repeat(out)? || self.emit_more(out)? || self.leave(out)? {
            return Ok(true);
        }
        // Rows that arrived after their expiry.
        self.expire(JoinSide::Left);
        self.expire(JoinSide::Right);
        if !self.leaving.is_empty() {
            return Ok(true);
        }
        self.sweep_versions();
        self.tables.remove_dead()?;
        self.keep_to_size()?;
        self.index_versions()?;
        if let Some((side, rows)) = self.divided.pop_front() {
            self.join(side, rows, out)?;
            return Ok(true);
        }
        self.tables.work()?;
        Ok(false)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(&mut self.tables)
    }
}
