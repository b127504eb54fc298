//! The product of rows of one input with the rows of all others, a piece at a time.
//!
//! A row of a piece consists of a row of the first input and one row of each input joined so far. A piece is
//! extended by the rows of the next input with the same keys, and each extended piece is processed to the end
//! before the next extension. So there is one piece for each input, and the output has the order of the first
//! input.

use anabranch_model::Result;

use super::gathered::Gathered;
use super::{MultiJoin, has_row, next_row};
use crate::Output;
use crate::join_tables::{Side, SideRows};
use crate::operator::RESULT_ROWS;

/// Stands for the missing row of an outer input.
pub(super) const MISSING: usize = usize::MAX;

/// Rows of one input that are joined with those of all others.
pub(super) struct Origin {
    pub(super) input: usize,
    /// The rows stand for the missing rows of the input.
    pub(super) is_missing: bool,
    pub(super) rows: SideRows,
    /// The key of each row. `None`: the rows have no matches.
    pub(super) keys: Option<Vec<usize>>,
}

/// A product that is being computed.
pub(super) struct Expansion {
    pub(super) origin: Origin,
    /// Pieces with rows of one input, of two, and so on.
    levels: Vec<Level>,
}

/// A piece, and where it is extended next.
struct Level {
    piece: JoinedRows,
    /// The row of the piece that is extended next.
    row: usize,
    /// The row of the next input with which it is extended. `None`: there are no more.
    next: Option<usize>,
    /// Whether the row of the piece has been extended before.
    is_extended: bool,
}

/// Rows of several inputs.
#[derive(Default)]
pub(super) struct JoinedRows {
    /// Rows of the first input.
    pub(super) rows: Vec<u64>,
    /// Rows of the others, in the order in which they are joined.
    pub(super) met: Vec<Vec<usize>>,
    pub(super) weights: Vec<i64>,
}

impl Origin {
    pub(super) fn of_rows(input: usize, rows: SideRows, keys: Option<Vec<usize>>) -> Origin {
        Origin { input, is_missing: false, rows, keys }
    }
}

impl JoinedRows {
    /// Keeps these rows only.
    pub(super) fn keep(&mut self, kept: &[usize]) {
        let JoinedRows { rows, met, weights } = self;
        *rows = kept.iter().map(|row| rows[*row]).collect();
        *weights = kept.iter().map(|row| weights[*row]).collect();
        met.iter_mut().for_each(|met| *met = kept.iter().map(|row| met[*row]).collect());
    }

    /// The rows at these indices, each with a row of a further input.
    fn extended(&self, places: &[usize], others: Vec<usize>, side: &Side) -> JoinedRows {
        let weight = |(index, other): (&usize, &usize)| {
            let times = if *other == MISSING { 1 } else { side.weight(*other) };
            self.weights[*index] * times
        };
        let weights = places.iter().zip(&others).map(weight).collect();
        let mut met: Vec<Vec<usize>> =
            self.met.iter().map(|met| places.iter().map(|index| met[*index]).collect()).collect();
        met.push(others);
        JoinedRows { rows: places.iter().map(|index| self.rows[*index]).collect(), met, weights }
    }
}

impl Level {
    /// The next rows of the piece, each with a row of the input for its key.
    fn extend(&mut self, keys: Option<&[usize]>, side: &Side, outer: bool) -> JoinedRows {
        let (mut places, mut others) = (Vec::new(), Vec::new());
        while self.row < self.piece.rows.len() && places.len() < RESULT_ROWS {
            match self.next {
                Some(found) => {
                    places.push(self.row);
                    others.push(found);
                    self.next = next_row(side, side.after(found));
                    self.is_extended = true;
                }
                None => {
                    if outer && !self.is_extended {
                        places.push(self.row);
                        others.push(MISSING);
                    }
                    self.row += 1;
                    self.begin(keys, side);
                }
            }
        }
        self.piece.extended(&places, others, side)
    }

    /// Finds the first row of the next input for the current row of the piece.
    fn begin(&mut self, keys: Option<&[usize]>, side: &Side) {
        let row = self.piece.rows.get(self.row);
        let key = row.and_then(|row| keys.map(|keys| keys[*row as usize]));
        (self.next, self.is_extended) = (key.and_then(|key| next_row(side, side.first(key))), false);
    }

    fn is_done(&self) -> bool {
        self.row >= self.piece.rows.len()
    }
}

impl MultiJoin {
    /// Computes and emits the next piece. Returns false if there was none.
    pub(super) fn emit_more(&mut self, out: &mut Output) -> Result<bool> {
        let Some(mut expansion) = self.expansion.take() else {
            let Some(origin) = self.origins.pop_front() else { return Ok(false) };
            let piece = self.first_piece(&origin);
            let mut expansion = Expansion { origin, levels: Vec::new() };
            self.pass_on(&mut expansion, piece, out)?;
            self.expansion = Some(expansion).filter(|expansion| !expansion.levels.is_empty());
            return Ok(true);
        };
        let step = expansion.levels.len();
        if let Some(mut level) = expansion.levels.pop() {
            let next = self.inputs[expansion.origin.input].order[step - 1];
            let keys = expansion.origin.keys.as_deref();
            let piece = level.extend(keys, &self.tables.rows.sides[next], self.inputs[next].outer);
            if level.is_done() {
                // Only the extended piece is still needed: this frees memory before the next level begins.
                level.piece = JoinedRows::default();
            }
            expansion.levels.push(level);
            self.pass_on(&mut expansion, piece, out)?;
        }
        while expansion.levels.last().is_some_and(Level::is_done) {
            expansion.levels.pop();
        }
        self.expansion = Some(expansion).filter(|expansion| !expansion.levels.is_empty());
        Ok(true)
    }

    /// The rows whose key exists in all other inputs, outer ones excepted.
    fn first_piece(&self, origin: &Origin) -> JoinedRows {
        let needed: Vec<&Side> = (0..self.inputs.len())
            .filter(|input| *input != origin.input && !self.inputs[*input].outer)
            .map(|input| &self.tables.rows.sides[input])
            .collect();
        let weights = &origin.rows.weights;
        let is_there = |row: &usize| match &origin.keys {
            Some(keys) => weights[*row] != 0 && needed.iter().all(|side| has_row(side, keys[*row])),
            None => needed.is_empty(),
        };
        let rows: Vec<usize> = (0..weights.len()).filter(is_there).collect();
        let weights = rows.iter().map(|row| weights[*row]).collect();
        JoinedRows { rows: rows.into_iter().map(|row| row as u64).collect(), met: Vec::new(), weights }
    }

    /// Extends the rows of a piece that satisfy the conditions, or emits them once they have a row of each
    /// input.
    fn pass_on(&mut self, expansion: &mut Expansion, mut piece: JoinedRows, out: &mut Output) -> Result<()> {
        let origin = &expansion.origin;
        let step = piece.met.len();
        let input = &self.inputs[origin.input];
        let mut gathered = Gathered::default();
        for condition in &input.due[step] {
            if !piece.rows.is_empty() {
                let condition = &mut self.conditions[*condition];
                condition.keep_those(origin, &mut piece, &mut gathered, &self.tables, &input.order)?;
            }
        }
        if piece.rows.is_empty() {
            return Ok(());
        }
        if let Some(next) = input.order.get(step) {
            let mut level = Level { piece, row: 0, next: None, is_extended: false };
            level.begin(origin.keys.as_deref(), &self.tables.rows.sides[*next]);
            expansion.levels.push(level);
            return Ok(());
        }
        let mut columns = Vec::with_capacity(self.output.len());
        for (origin_input, column) in &self.output {
            columns.push(gathered.column((*origin_input, *column), origin, &piece, &self.tables, &input.order)?);
        }
        self.results.emit(columns, piece.weights, out)
    }
}
