//! Moves conditions above a join and in its `ON`.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, ExprSchema, JoinType, NullEquality, Result, ScalarValue};
use datafusion_expr::utils::{can_hash, conjunction, disjunction, split_binary_owned, split_conjunction_owned};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use super::{filtered, over, replaced};
use crate::passes::fold::simplify;
use crate::rel::{Columns, Join, Rel, joined_columns};
use crate::rewrite::InputColumns;
use crate::varying::varies;

/// The sides to which a condition above the join can move: sides that are not padded with NULL.
fn unpadded(kind: JoinType) -> [bool; 2] {
    match kind {
        JoinType::Inner => [true, true],
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => [true, false],
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => [false, true],
        JoinType::Full => [false, false],
    }
}

/// The sides to which a condition of `ON` can move: sides whose rows without a match are dropped.
fn unkept(kind: JoinType) -> [bool; 2] {
    match kind {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => [true, true],
        JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => [false, true],
        JoinType::Right | JoinType::RightAnti | JoinType::RightMark => [true, false],
        JoinType::Full => [false, false],
    }
}

/// Moves conditions above a join and in its `ON` to the sides, to the keys or into `ON`.
pub(super) fn push(mut join: Join, above: Vec<Expr>) -> Result<Transformed<Rel>> {
    let of_on = join.filter.take().map_or_else(Vec::new, split_conjunction_owned);
    if above.is_empty() && of_on.is_empty() {
        return Ok(Transformed::no(Rel::Join(join)));
    }
    let padded = join.join_type;
    let mut join = without_padding(join, &above)?;
    let sides = Sides([join.left.columns(), join.right.columns()]);
    let (open, allowed) = (unpadded(join.join_type), unkept(join.join_type));
    let mut moved = Moved::default();
    let count_above = above.len();
    for condition in above {
        match sides.only(&condition).filter(|side| open[*side]) {
            Some(side) => moved.push_side(condition, side),
            None => {
                moved.add_alternatives(&condition, &sides, open);
                match join.join_type == JoinType::Inner && !varies(&condition) {
                    true => moved.push_on(condition),
                    false => moved.kept.push(condition),
                }
            }
        }
    }
    for condition in of_on {
        match sides.only(&condition).filter(|side| allowed[*side]) {
            Some(side) => moved.push_side(condition, side),
            None => {
                moved.add_alternatives(&condition, &sides, allowed);
                moved.push_on(condition);
            }
        }
    }
    let keys = take_keys(&mut moved.on, &join, &sides)?;
    let found_keys = !keys.pairs.is_empty();
    join.on.extend(keys.pairs);
    join.null_equality = keys.nulls;
    let sides = Sides([join.left.columns(), join.right.columns()]);
    for condition in inferred(&join, &sides, &moved.of_matches)? {
        if let Some(side) = sides.only(&condition).filter(|side| allowed[*side]) {
            moved.sides[side].push(condition);
        }
    }
    let Moved { sides: [left, right], on, kept, .. } = moved;
    // A node that is not reported as changed is lost below a changed one.
    let changed =
        found_keys || join.join_type != padded || !left.is_empty() || !right.is_empty() || kept.len() < count_above;
    join.filter = conjunction(on);
    join.left = over(left, join.left);
    join.right = over(right, join.right);
    Ok(Transformed::new_transformed(filtered(kept, Rel::Join(join)), changed))
}

/// Removes padding if a condition above the join drops all padded rows.
fn without_padding(join: Join, above: &[Expr]) -> Result<Join> {
    let drops = |side: &Rel| -> Result<bool> {
        let nulls = side.columns().iter().map(|col| {
            let null = ScalarValue::try_new_null(col.field.data_type())?;
            Ok((col.id.clone(), Expr::Literal(null, None)))
        });
        let nulls = nulls.collect::<Result<BTreeMap<Column, Expr>>>()?;
        let scope = InputColumns::of_columns(&join.columns);
        for condition in above.iter().filter(|condition| !condition.is_volatile()) {
            if !condition.column_refs().into_iter().any(|column| nulls.contains_key(column)) {
                continue;
            }
            let of_padded = simplify(replaced(condition.clone(), &nulls)?, &scope)?.data;
            let truth = of_padded.as_literal();
            if truth.is_some_and(|truth| truth.is_null() || *truth == ScalarValue::Boolean(Some(false))) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let kind = match join.join_type {
        JoinType::Left if drops(&join.right)? => JoinType::Inner,
        JoinType::Right if drops(&join.left)? => JoinType::Inner,
        JoinType::Full => match (drops(&join.left)?, drops(&join.right)?) {
            (true, true) => JoinType::Inner,
            (true, false) => JoinType::Left,
            (false, true) => JoinType::Right,
            (false, false) => JoinType::Full,
        },
        _ => return Ok(join),
    };
    let columns = joined_columns(join.left.columns(), join.right.columns(), kind)?;
    Ok(Join { join_type: kind, columns, ..join })
}

/// The keys that were found.
struct Keys {
    pairs: Vec<(Expr, Expr)>,
    nulls: NullEquality,
}

/// Moves comparisons of the two sides from `on` to the keys. `IS NOT DISTINCT FROM` gives keys only if no
/// other condition does, because all keys of a join treat NULL alike.
fn take_keys(on: &mut Vec<Expr>, join: &Join, sides: &Sides) -> Result<Keys> {
    let (kinds, of_join) = match join.on.is_empty() {
        true => ([Operator::Eq, Operator::IsNotDistinctFrom].as_slice(), NullEquality::NullEqualsNothing),
        false if join.null_equality == NullEquality::NullEqualsNull => ([].as_slice(), join.null_equality),
        false => ([Operator::Eq].as_slice(), join.null_equality),
    };
    for kind in kinds {
        let (mut pairs, mut others) = (Vec::new(), Vec::new());
        for condition in std::mem::take(on) {
            match sides.key(&condition, *kind)? {
                Some(pair) => pairs.push(pair),
                None => others.push(condition),
            }
        }
        *on = others;
        if !pairs.is_empty() {
            let nulls = match kind {
                Operator::Eq => NullEquality::NullEqualsNothing,
                _ => NullEquality::NullEqualsNull,
            };
            return Ok(Keys { pairs, nulls });
        }
    }
    Ok(Keys { pairs: Vec::new(), nulls: of_join })
}

/// The columns of both sides.
struct Sides<'a>([&'a Columns; 2]);

impl Sides<'_> {
    fn has(&self, side: usize, column: &Column) -> bool {
        self.0[side].has(column)
    }

    /// The only side that a condition reads. `None`, too, if its value varies.
    fn only(&self, condition: &Expr) -> Option<usize> {
        self.reads_only(condition).filter(|_| !varies(condition))
    }

    fn reads_only(&self, expr: &Expr) -> Option<usize> {
        let read = expr.column_refs();
        let side = self.side_of(read.iter().next()?)?;
        read.iter().all(|column| self.has(side, column)).then_some(side)
    }

    fn type_of(&self, column: &Column) -> Option<&DataType> {
        let field = self.0[self.side_of(column)?].field_from_column(column);
        field.ok().map(|field| field.data_type())
    }

    /// The values of the left and the right side that a condition compares by this operator.
    fn key(&self, condition: &Expr, by: Operator) -> Result<Option<(Expr, Expr)>> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return Ok(None) };
        let pair = match (self.reads_only(left), self.reads_only(right)) {
            (Some(0), Some(1)) => (left, right),
            (Some(1), Some(0)) => (right, left),
            _ => return Ok(None),
        };
        let is_hashed = can_hash(&pair.0.get_type(self.0[0])?) && can_hash(&pair.1.get_type(self.0[1])?);
        Ok((*op == by && is_hashed).then(|| (pair.0.as_ref().clone(), pair.1.as_ref().clone())))
    }

    fn side_of(&self, column: &Column) -> Option<usize> {
        (0..2).find(|side| self.has(*side, column))
    }
}

/// The new places of the conditions.
#[derive(Default)]
struct Moved {
    sides: [Vec<Expr>; 2],
    on: Vec<Expr>,
    /// Above the join.
    kept: Vec<Expr>,
    /// Conditions that hold for both rows of each match.
    of_matches: Vec<Expr>,
}

impl Moved {
    fn push_side(&mut self, condition: Expr, side: usize) {
        self.of_matches.push(condition.clone());
        self.sides[side].push(condition);
    }

    fn push_on(&mut self, condition: Expr) {
        self.of_matches.push(condition.clone());
        self.on.push(condition);
    }

    /// Of `(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4)`, each side gets the alternatives on its own
    /// columns.
    fn add_alternatives(&mut self, condition: &Expr, sides: &Sides, allowed: [bool; 2]) {
        if !matches!(condition, Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. })) {
            return;
        }
        for side in (0..2).filter(|side| allowed[*side]) {
            if let Some(part) = part_of(condition, sides, side) {
                self.sides[side].push(part);
            }
        }
    }
}

/// The part of a condition on one side, if each alternative has one.
fn part_of(condition: &Expr, sides: &Sides, side: usize) -> Option<Expr> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            let alternatives = split_binary_owned(condition.clone(), Operator::Or);
            let parts: Option<Vec<Expr>> = alternatives.iter().map(|of| part_of(of, sides, side)).collect();
            disjunction(parts?)
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => {
            let parts = split_conjunction_owned(condition.clone());
            conjunction(parts.iter().filter_map(|part| part_of(part, sides, side)))
        }
        condition => (sides.only(condition) == Some(side)).then(|| condition.clone()),
    }
}

/// Transfers conditions to the equal columns of the other side.
fn inferred(join: &Join, sides: &Sides, of_matches: &[Expr]) -> Result<Vec<Expr>> {
    // Equal floating-point numbers may differ: 0.0 and -0.0.
    let is_exact = |column: &Column| sides.type_of(column).is_some_and(|of| !of.is_floating());
    let pairs = join.on.iter().filter_map(|(left, right)| left.try_as_col().zip(right.try_as_col()));
    let pairs: Vec<(&Column, &Column)> = pairs.filter(|(left, _)| is_exact(left)).collect();
    let mut inferred = Vec::new();
    for condition in of_matches.iter().filter(|condition| !condition.is_volatile()) {
        let mut others = BTreeMap::new();
        for column in condition.column_refs() {
            let equal = pairs.iter().find(|(left, right)| column == *left || column == *right);
            if let Some((left, right)) = equal {
                let other = if column == *left { *right } else { *left };
                others.insert(column.clone(), Expr::Column(other.clone()));
            }
        }
        if !others.is_empty() {
            inferred.push(replaced(condition.clone(), &others)?);
        }
    }
    Ok(inferred)
}
