//! The time for which a join of two streams needs its rows.
//!
//! A stream knows for some columns how far later rows may be behind the watermark ([`Stream::times`]). If the
//! condition of a join bounds the distance of two such columns, a row expires once all later rows of the
//! other side are beyond its bound. The same bounds limit how old the columns of a pair may be.
//!
//! [`Stream::times`]: super::stream::Stream::times

use std::collections::BTreeMap;

use anabranch_dataflow::ExpirySpec;
use arrow::datatypes::DataType;
use datafusion_expr::utils::split_conjunction;
use datafusion_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator};

use super::stream::LogicalColumn;
use super::windowed::WindowColumn;
use crate::rel::Columns;
use crate::window_table::literal_interval_ms;

/// For columns of a stream, the lag in milliseconds: later rows have values greater than the watermark minus
/// the lag.
pub(super) type Times = BTreeMap<usize, i64>;

/// Bounds of the distance of two columns of a pair, right minus left, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Distance {
    least: Option<i64>,
    most: Option<i64>,
}

/// The bounds of a join, by its left and its right column.
#[derive(Default)]
pub(super) struct Bounds(BTreeMap<(usize, usize), Distance>);

/// A side of a join with its times.
pub(super) struct TimedSide<'a> {
    pub(super) index: &'a Columns,
    pub(super) columns: &'a [LogicalColumn],
    pub(super) times: &'a Times,
}

/// A column of one side plus a length in milliseconds.
struct Shifted {
    of_left: bool,
    column: usize,
    ms: i64,
}

impl Bounds {
    /// Adds the bounds of equal keys.
    pub(super) fn add_keys(&mut self, keys: &[(&Expr, &Expr)], left: &TimedSide, right: &TimedSide) {
        for (left_key, right_key) in keys {
            if let (Some(l), Some(r)) = (plain_time(left_key, left.index), plain_time(right_key, right.index)) {
                self.add(l, r, Distance { least: Some(0), most: Some(0) });
            }
        }
    }

    /// Adds the bounds of a condition.
    pub(super) fn add_condition(&mut self, condition: &Expr, left: &TimedSide, right: &TimedSide) {
        for part in split_conjunction(condition) {
            match part {
                Expr::BinaryExpr(BinaryExpr { left: a, op, right: b }) => self.compare(a, *op, b, left, right),
                Expr::Between(Between { expr, negated: false, low, high }) => {
                    self.compare(expr, Operator::GtEq, low, left, right);
                    self.compare(expr, Operator::LtEq, high, left, right);
                }
                _ => {}
            }
        }
    }

    fn compare(&mut self, a: &Expr, op: Operator, b: &Expr, left: &TimedSide, right: &TimedSide) {
        let (Some(a), Some(b)) = (shifted(a, left, right), shifted(b, left, right)) else { return };
        let (l, r, op) = match (a.of_left, b.of_left) {
            (true, false) => (a, b, op),
            (false, true) => match op.swap() {
                Some(op) => (b, a, op),
                None => return,
            },
            _ => return,
        };
        // `l + l.ms op r + r.ms`. Fractions of a millisecond are rounded to the looser bound.
        let apart = l.ms - r.ms;
        let (least, most) = match op {
            Operator::Lt | Operator::LtEq => (Some(apart), None),
            Operator::Gt | Operator::GtEq => (None, Some(apart)),
            Operator::Eq => (Some(apart), Some(apart)),
            _ => return,
        };
        self.add(l.column, r.column, Distance { least, most });
    }

    fn add(&mut self, left: usize, right: usize, apart: Distance) {
        let bound = self.0.entry((left, right)).or_default();
        bound.least = bound.least.max(apart.least);
        bound.most = [bound.most, apart.most].into_iter().flatten().min();
    }

    /// Keeps the bounds of the left and right columns for which `keeps` is true.
    pub(super) fn retain(&mut self, keeps: impl Fn(usize, usize) -> bool) {
        self.0.retain(|(l, r), _| keeps(*l, *r));
    }

    /// The expiry of the rows of both sides, by logical columns. Only bounds of the left columns for which
    /// `counts` is true are used.
    pub(super) fn expiries(
        &self,
        left: &Times,
        right: &Times,
        counts: impl Fn(usize) -> bool,
    ) -> [Option<ExpirySpec>; 2] {
        let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
        for ((l, r), apart) in self.0.iter().filter(|((l, _), _)| counts(*l)) {
            let (Some(left_lag), Some(right_lag)) = (left.get(l), right.get(r)) else { continue };
            if let Some(most) = apart.most {
                of_left.push((most + right_lag + left_lag, ExpirySpec { time: *l, after_ms: most + right_lag }));
            }
            if let Some(least) = apart.least {
                of_right.push((left_lag - least + right_lag, ExpirySpec { time: *r, after_ms: left_lag - least }));
            }
        }
        let shortest = |all: Vec<(i64, ExpirySpec)>| all.into_iter().min_by_key(|(ms, _)| *ms).map(|(_, spec)| spec);
        [shortest(of_left), shortest(of_right)]
    }

    /// The times of the joined rows, for the left and the right columns. `waits_by`: for each side that emits
    /// rows without a match at their expiry, the column that defines the expiry. The other columns of these
    /// rows have no bound.
    pub(super) fn times(&self, left: &TimedSide, right: &TimedSide, waits_by: [Option<usize>; 2]) -> [Times; 2] {
        let mut found = [Times::new(), Times::new()];
        let mut add = |side: usize, column: usize, ms: i64| {
            if waits_by[side].is_some_and(|only| only != column) {
                return;
            }
            let known = found[side].entry(column).or_insert(ms);
            *known = ms.min(*known);
        };
        for ((l, r), apart) in &self.0 {
            let (Some(left_lag), Some(right_lag)) = (left.times.get(l), right.times.get(r)) else { continue };
            if let Some(most) = apart.most {
                add(0, *l, *left_lag.max(&(right_lag + most)));
            }
            if let Some(least) = apart.least {
                add(1, *r, *right_lag.max(&(left_lag - least)));
            }
        }
        for (times, side) in found.iter_mut().zip([left, right]) {
            add_window_columns(times, side);
        }
        found
    }
}

/// The end of a window, or its last millisecond, bounds the other columns of the window.
fn add_window_columns(times: &mut Times, side: &TimedSide) {
    let role = |column: usize| side.columns.get(column).and_then(|column| column.window);
    let bounds =
        times.iter().find(|(column, _)| matches!(role(**column), Some(WindowColumn::End | WindowColumn::Time)));
    let Some((known, ms)) = bounds.map(|(column, ms)| (*column, *ms)) else { return };
    for (column, lag) in side.times {
        if role(*column).is_some() && !times.contains_key(column) {
            times.insert(*column, ms + lag - side.times[&known]);
        }
    }
}

/// The column of one side that an expression shifts by a constant.
fn shifted(expr: &Expr, left: &TimedSide, right: &TimedSide) -> Option<Shifted> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left: a, op: op @ (Operator::Plus | Operator::Minus), right: b }) => {
            let (operand, ms) = match (literal_interval_ms(a), literal_interval_ms(b)) {
                (None, Some(ms)) => (a, if *op == Operator::Plus { ms } else { -ms }),
                (Some(ms), None) if *op == Operator::Plus => (b, ms),
                _ => return None,
            };
            let operand = shifted(operand, left, right)?;
            Some(Shifted { ms: operand.ms + ms, ..operand })
        }
        _ => {
            let column = |side: &TimedSide| plain_time(expr, side.index);
            match (column(left), column(right)) {
                (Some(column), None) => Some(Shifted { of_left: true, column, ms: 0 }),
                (None, Some(column)) => Some(Shifted { of_left: false, column, ms: 0 }),
                _ => None,
            }
        }
    }
}

/// The timestamp column that an expression names, or casts to a finer unit.
pub(super) fn plain_time(expr: &Expr, index: &Columns) -> Option<usize> {
    match expr {
        Expr::Column(column) => index.find(column),
        Expr::Cast(cast) => match (cast.expr.get_type(index).ok()?, cast.field.data_type()) {
            (DataType::Timestamp(from, zone), DataType::Timestamp(to, to_zone)) if from <= *to && zone == *to_zone => {
                plain_time(&cast.expr, index)
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows without a match, emitted at the end of their window, may have any time in it, though a pair has a
    /// closer bound.
    #[test]
    fn rows_without_a_match_are_bounded_by_the_column_that_they_wait_by_alone() {
        let index = crate::rel::Columns::default();
        let times = Times::from([(0, 0), (1, -1)]);
        let side = TimedSide { index: &index, columns: &[], times: &times };
        let mut bounds = Bounds::default();
        bounds.add(0, 0, Distance { least: Some(-60_000), most: Some(60_000) });
        bounds.add(1, 1, Distance { least: Some(0), most: Some(0) });
        let [left, _] = bounds.expiries(&times, &times, |_| true);
        assert_eq!(left, Some(ExpirySpec { time: 1, after_ms: -1 }));
        let [of_pairs, _] = bounds.times(&side, &side, [None, None]);
        assert_eq!(of_pairs, Times::from([(0, 60_000), (1, -1)]));
        let [of_all, of_right] = bounds.times(&side, &side, [Some(1), None]);
        assert_eq!(of_all, Times::from([(1, -1)]));
        assert_eq!(of_right, of_pairs);
    }
}
