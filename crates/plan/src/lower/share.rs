//! Common subexpressions are computed once, by a projection before the expressions that read them.

use std::collections::HashMap;

use anabranch_dataflow::{BinaryOp, Expr, NamedExpr};
use arrow::datatypes::{DataType, Field};

/// An expression over the columns of some rows.
pub(super) struct Read<'e> {
    pub(super) expr: &'e mut Expr,
    /// Whether it is evaluated on each row. An aggregate with FILTER evaluates it on some rows only.
    pub(super) always: bool,
}

/// Extracts common subexpressions of `reads` into projections. Afterwards `reads` read the last of these.
/// Empty: no costly subexpression is repeated.
pub(super) fn share(reads: &mut [Read<'_>], columns: &[Field]) -> Vec<Vec<NamedExpr>> {
    let Some(mut computed) = Sharing::new(reads, columns).and_then(|sharing| sharing.extract(reads)) else {
        return Vec::new();
    };
    // Common subexpressions may have common subexpressions themselves.
    let mut again: Vec<Read> =
        computed.iter_mut().map(|column| Read { expr: &mut column.expr, always: true }).collect();
    let mut all = share(&mut again, columns);
    all.push(computed);
    all
}

/// How often an expression is read.
#[derive(Clone, Copy, Default)]
struct Count {
    times: usize,
    /// Whether it is evaluated on each row.
    always: bool,
}

struct Sharing<'c> {
    columns: &'c [Field],
    counts: HashMap<Expr, Count>,
}

impl<'c> Sharing<'c> {
    /// `None`: no costly subexpression is repeated.
    fn new(reads: &[Read<'_>], columns: &'c [Field]) -> Option<Self> {
        let mut sharing = Sharing { columns, counts: HashMap::new() };
        reads.iter().for_each(|read| sharing.count(read.expr, read.always));
        let Sharing { columns, mut counts } = sharing;
        let type_of = |column: usize| columns.get(column).map(|field| field.data_type().clone());
        counts.retain(|expr, count| {
            count.times > 1 && (count.always || !expr.may_fail(&type_of)) && expr.data_type(&type_of).is_some()
        });
        (!counts.is_empty()).then_some(Sharing { columns, counts })
    }

    fn count(&mut self, expr: &Expr, always: bool) {
        if self.is_worth_it(expr) {
            let count = self.counts.entry(expr.clone()).or_default();
            count.times += 1;
            count.always |= always;
        }
        match expr {
            Expr::Case { operand, branches, otherwise } => {
                operand.iter().for_each(|operand| self.count(operand, always));
                for (place, (when, then)) in branches.iter().enumerate() {
                    self.count(when, always && place == 0);
                    self.count(then, false);
                }
                otherwise.iter().for_each(|otherwise| self.count(otherwise, false));
            }
            Expr::Binary { op: BinaryOp::And | BinaryOp::Or, left, right } => {
                self.count(left, always);
                self.count(right, false);
            }
            // A function may skip an argument.
            Expr::Call { args, .. } => args.iter().for_each(|arg| self.count(arg, false)),
            expr => expr.children().into_iter().for_each(|child| self.count(child, always)),
        }
    }

    /// Whether an expression costs more than storing its values in a column.
    fn is_worth_it(&self, expr: &Expr) -> bool {
        let is_number = |data_type: &DataType| data_type.is_numeric() || data_type.is_temporal();
        let type_of = |column: usize| self.columns.get(column).map(|field| field.data_type().clone());
        let costs = match expr {
            Expr::Call { .. } => !is_field(expr),
            Expr::Like { .. } | Expr::Case { .. } => true,
            Expr::InList { list, .. } => list.len() > 2,
            Expr::Cast { expr, to, .. } => !is_number(to) || !expr.data_type(&type_of).as_ref().is_some_and(is_number),
            _ => false,
        };
        costs && !expr.varies() && reads_column(expr)
    }

    /// Replaces the common subexpressions in `reads` by columns of a projection. Returns the projection. It
    /// also has all other columns that `reads` read.
    fn extract(&self, reads: &mut [Read<'_>]) -> Option<Vec<NamedExpr>> {
        let mut extraction = Extraction { sharing: self, columns: Vec::new(), places: HashMap::new() };
        for read in reads {
            *read.expr = extraction.over(read.expr)?;
        }
        Some(extraction.columns)
    }
}

/// A projection with the common subexpressions.
struct Extraction<'s, 'c> {
    sharing: &'s Sharing<'c>,
    columns: Vec<NamedExpr>,
    places: HashMap<Expr, usize>,
}

impl Extraction<'_, '_> {
    /// The expression over the projection's columns.
    fn over(&mut self, expr: &Expr) -> Option<Expr> {
        match expr {
            Expr::Column(column) => {
                let field = self.sharing.columns.get(*column)?;
                Some(self.column(NamedExpr::with_field(expr.clone(), field)))
            }
            // The source may provide the field instead of the row.
            expr if is_field(expr) || self.sharing.counts.contains_key(expr) => {
                let columns = self.sharing.columns;
                let type_of = |column: usize| columns.get(column).map(|field| field.data_type().clone());
                let (name, data_type) = ("$shared".to_owned(), expr.data_type(&type_of)?);
                Some(self.column(NamedExpr { name, expr: expr.clone(), data_type, nullable: true }))
            }
            expr => {
                let mut over = expr.clone();
                for child in over.children_mut() {
                    *child = self.over(child)?;
                }
                Some(over)
            }
        }
    }

    fn column(&mut self, column: NamedExpr) -> Expr {
        let next = self.columns.len();
        let place = *self.places.entry(column.expr.clone()).or_insert(next);
        if place == next {
            self.columns.push(column);
        }
        Expr::Column(place)
    }
}

pub(super) fn is_field(expr: &Expr) -> bool {
    let Expr::Call { function, args, .. } = expr else { return false };
    function == "get_field" && matches!(args.as_slice(), [Expr::Column(_), Expr::Literal(_)])
}

fn reads_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_)) || expr.children().into_iter().any(reads_column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(function: &str, args: Vec<Expr>, fails: bool) -> Expr {
        Expr::Call { function: function.into(), args, returns: DataType::Utf8View, fails, varies: false }
    }

    fn shared(exprs: &[Expr]) -> (Vec<Vec<String>>, Vec<String>) {
        let columns = [Field::new("a", DataType::Utf8View, true), Field::new("b", DataType::Utf8View, true)];
        let mut exprs = exprs.to_vec();
        let mut reads: Vec<Read> = exprs.iter_mut().map(|expr| Read { expr, always: true }).collect();
        let shown = |of: Vec<NamedExpr>| of.iter().map(|of| of.expr.to_string()).collect();
        let before = share(&mut reads, &columns).into_iter().map(shown).collect();
        (before, exprs.iter().map(Expr::to_string).collect())
    }

    #[test]
    fn what_two_expressions_contain_is_computed_once() {
        let f = call("f", vec![Expr::Column(1)], true);
        let two = [Expr::IsNull(Box::new(f.clone())), f.clone(), Expr::Column(0)];
        let (before, after) = shared(&two);
        assert_eq!(before, [["f(#1)", "#0"]]);
        assert_eq!(after, ["#0 IS NULL", "#0", "#1"]);
        assert_eq!(shared(&[f, Expr::Column(0)]).0, Vec::<Vec<String>>::new());
    }

    #[test]
    fn what_is_shared_may_share_something_itself() {
        let g = call("g", vec![Expr::Column(0)], false);
        let f = call("f", vec![g.clone(), g], false);
        let (before, after) = shared(&[f.clone(), f]);
        assert_eq!(before, [vec!["g(#0)"], vec!["f(#0, #0)"]]);
        assert_eq!(after, ["#0", "#0"]);
    }

    #[test]
    fn what_may_fail_is_computed_early_only_if_each_row_needs_it() {
        let fails = call("f", vec![Expr::Column(0)], true);
        let case = |when: Expr| Expr::Case {
            operand: None,
            branches: vec![(when, fails.clone())],
            otherwise: Some(Box::new(fails.clone())),
        };
        let guarded = case(Expr::IsNull(Box::new(Expr::Column(0))));
        assert_eq!(shared(&[guarded]).0, Vec::<Vec<String>>::new());
        let asked = case(Expr::IsNull(Box::new(fails.clone())));
        assert_eq!(shared(&[asked]).0, [["f(#0)"]]);
    }

    #[test]
    fn what_varies_is_not_shared() {
        let Expr::Call { function, args, returns, fails, .. } = call("random", vec![Expr::Column(0)], false) else {
            unreachable!("a call")
        };
        let random = Expr::Call { function, args, returns, fails, varies: true };
        assert_eq!(shared(&[random.clone(), random]).0, Vec::<Vec<String>>::new());
    }
}
