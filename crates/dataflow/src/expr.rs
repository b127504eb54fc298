//! Scalar expressions over the columns of a batch.

use std::fmt;

use arrow_schema::{DataType, Field, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::Literal;
use crate::decimal::{as_decimal, decimal_result};
use crate::list::List;
use crate::sql_name::sql_name;

/// An expression with one value per row. Types are resolved: operands of a binary operator have equal types
/// (or types that the operator combines, such as timestamp and interval), and every cast is explicit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Expr {
    /// Input column by index.
    Column(usize),
    /// A constant.
    Literal(Literal),
    /// `left op right`.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// Boolean negation.
    Not(Box<Expr>),
    /// Arithmetic negation.
    Negative(Box<Expr>),
    /// Whether the operand is null.
    IsNull(Box<Expr>),
    /// Conversion to another type; a value that does not fit is an error, or null if `safe`.
    Cast {
        /// Operand.
        expr: Box<Expr>,
        /// Target type.
        to: DataType,
        /// Null instead of an error.
        safe: bool,
    },
    /// `expr LIKE pattern`.
    Like {
        /// Operand.
        expr: Box<Expr>,
        /// Pattern with `%` and `_`.
        pattern: Box<Expr>,
        /// `NOT LIKE`.
        negated: bool,
        /// `ILIKE`.
        case_insensitive: bool,
    },
    /// `expr IN (list)`.
    InList {
        /// Operand.
        expr: Box<Expr>,
        /// Candidates.
        list: Vec<Expr>,
        /// `NOT IN`.
        negated: bool,
    },
    /// `CASE [operand] WHEN .. THEN .. ELSE .. END`.
    Case {
        /// Operand compared with each WHEN, if given.
        operand: Option<Box<Expr>>,
        /// WHEN and THEN pairs.
        branches: Vec<(Expr, Expr)>,
        /// ELSE; null if absent.
        otherwise: Option<Box<Expr>>,
    },
    /// A scalar function of DataFusion's library, by name.
    Call {
        /// Name in the function registry.
        function: String,
        /// Arguments.
        args: Vec<Expr>,
        /// Type of the result, as planned.
        returns: DataType,
        /// Whether the arguments of some row may make it fail.
        fails: bool,
        /// Whether it may have another value each time: `RANDOM()`, `UUID()`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        varies: bool,
    },
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants are SQL's operators")]
pub enum BinaryOp {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
    Plus,
    Minus,
    Multiply,
    Divide,
    Modulo,
    And,
    Or,
    IsDistinctFrom,
    IsNotDistinctFrom,
    RegexMatch,
    RegexIMatch,
    RegexNotMatch,
    RegexNotIMatch,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    BitwiseShiftLeft,
    BitwiseShiftRight,
    StringConcat,
}

/// An expression with the name and type of its output column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedExpr {
    /// Output column.
    pub name: String,
    /// Expression.
    pub expr: Expr,
    /// Type of the output column.
    pub data_type: DataType,
    /// Whether the output column can be null.
    pub nullable: bool,
}

impl NamedExpr {
    /// An expression with the name and type of a field.
    #[must_use]
    pub fn with_field(expr: Expr, field: &Field) -> Self {
        let (name, data_type) = (field.name().clone(), field.data_type().clone());
        NamedExpr { name, expr, data_type, nullable: field.is_nullable() }
    }

    /// The output column.
    #[must_use]
    pub fn field(&self) -> Field {
        Field::new(&self.name, self.data_type.clone(), self.nullable)
    }
}

impl Expr {
    /// The operands.
    #[must_use]
    pub fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Column(_) | Expr::Literal(_) => Vec::new(),
            Expr::Binary { left, right, .. } => vec![left, right],
            Expr::Not(expr) | Expr::Negative(expr) | Expr::IsNull(expr) | Expr::Cast { expr, .. } => vec![expr],
            Expr::Like { expr, pattern, .. } => vec![expr, pattern],
            Expr::InList { expr, list, .. } => std::iter::once(expr.as_ref()).chain(list).collect(),
            Expr::Case { operand, branches, otherwise } => {
                let branches = branches.iter().flat_map(|(when, then)| [when, then]);
                let ends = operand.iter().chain(otherwise).map(AsRef::as_ref);
                ends.chain(branches).collect()
            }
            Expr::Call { args, .. } => args.iter().collect(),
        }
    }

    /// The operands, to change them.
    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Expr::Column(_) | Expr::Literal(_) => Vec::new(),
            Expr::Binary { left, right, .. } => vec![left, right],
            Expr::Not(expr) | Expr::Negative(expr) | Expr::IsNull(expr) | Expr::Cast { expr, .. } => vec![expr],
            Expr::Like { expr, pattern, .. } => vec![expr, pattern],
            Expr::InList { expr, list, .. } => std::iter::once(expr.as_mut()).chain(list).collect(),
            Expr::Case { operand, branches, otherwise } => {
                let branches = branches.iter_mut().flat_map(|(when, then)| [when, then]);
                let ends = operand.iter_mut().chain(otherwise).map(AsMut::as_mut);
                ends.chain(branches).collect()
            }
            Expr::Call { args, .. } => args.iter_mut().collect(),
        }
    }

    /// Calls `visit` with the index of every column that the expression reads.
    pub fn for_each_column(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Expr::Column(index) => visit(*index),
            other => other.children().into_iter().for_each(|child| child.for_each_column(visit)),
        }
    }

    /// The expression with its columns at other places.
    #[must_use]
    pub fn with_columns_at(&self, place: &dyn Fn(usize) -> usize) -> Expr {
        fn move_columns(expr: &mut Expr, place: &dyn Fn(usize) -> usize) {
            match expr {
                Expr::Column(index) => *index = place(*index),
                other => other.children_mut().into_iter().for_each(|child| move_columns(child, place)),
            }
        }
        let mut moved = self.clone();
        move_columns(&mut moved, place);
        moved
    }

    /// Whether a value of a column may make the expression fail: a division, a number that does not fit, or a
    /// function that may. Such an expression is evaluated only for rows that pass the conditions around it.
    /// `column` returns the types of columns. If it does not know one, the expression may fail.
    #[must_use]
    pub fn may_fail(&self, column: &dyn Fn(usize) -> Option<DataType>) -> bool {
        let data_type = |expr: &Expr| expr.data_type(column);
        let fails = match self {
            Expr::Binary { op, left, right } if op.is_arithmetic() => {
                arithmetic_fails(*op, data_type(left), data_type(right), right)
            }
            Expr::Binary { op, right, .. } if op.is_regex() => !matches!(right.as_ref(), Expr::Literal(_)),
            Expr::Negative(expr) => data_type(expr).is_none_or(|data_type| !data_type.is_floating()),
            Expr::Cast { expr, to, safe } => !safe && data_type(expr).is_none_or(|from| cast_fails(&from, to)),
            Expr::Call { fails, .. } => *fails,
            _ => false,
        };
        fails || self.children().into_iter().any(|child| child.may_fail(column))
    }

    /// Whether the expression may have another value each time it is evaluated for a row.
    #[must_use]
    pub fn varies(&self) -> bool {
        matches!(self, Expr::Call { varies: true, .. }) || self.children().into_iter().any(Expr::varies)
    }

    /// The type of the values, if it can be told from the types of columns.
    pub fn data_type(&self, column: &dyn Fn(usize) -> Option<DataType>) -> Option<DataType> {
        match self {
            Expr::Column(index) => column(*index),
            Expr::Literal(literal) => Some(literal.data_type.clone()),
            Expr::Binary { op, left, right } if op.is_arithmetic() => {
                let (left, right) = (left.data_type(column)?, right.data_type(column)?);
                decimal_result(*op, &left, &right).or_else(|| (left == right).then_some(left))
            }
            Expr::Negative(expr) => expr.data_type(column),
            Expr::Cast { to, .. } => Some(to.clone()),
            Expr::Case { branches, .. } => branches.first()?.1.data_type(column),
            Expr::Call { returns, .. } => Some(returns.clone()),
            Expr::Not(_) | Expr::IsNull(_) | Expr::Like { .. } | Expr::InList { .. } => Some(DataType::Boolean),
            Expr::Binary { .. } => None,
        }
    }

    /// Whether the expression is a number other than zero and minus one, by which every whole number can be
    /// divided.
    fn divides_all(&self) -> bool {
        match self {
            Expr::Literal(literal) => literal.as_number().is_some_and(|number| number != 0.0 && number != -1.0),
            Expr::Cast { expr, to, .. } => to.is_numeric() && !to.is_floating() && expr.divides_all(),
            _ => false,
        }
    }

    /// The conjunction of these conditions, as a shallow tree; `None` if there are none.
    #[must_use]
    pub fn all(conditions: Vec<Expr>) -> Option<Expr> {
        Expr::balanced(BinaryOp::And, conditions)
    }

    /// The operands connected by one associative operator, as a shallow tree; `None` if there are none.
    #[must_use]
    pub fn balanced(op: BinaryOp, mut operands: Vec<Expr>) -> Option<Expr> {
        while operands.len() > 1 {
            let mut rest = operands.into_iter();
            let mut joined = Vec::new();
            while let Some(left) = rest.next() {
                joined.push(match rest.next() {
                    Some(right) => Expr::Binary { op, left: Box::new(left), right: Box::new(right) },
                    None => left,
                });
            }
            operands = joined;
        }
        operands.pop()
    }

    /// The operands of a chain of one operator, from left to right: `a AND b AND c` has three.
    #[must_use]
    pub fn chain(&self, of: BinaryOp) -> Vec<&Expr> {
        let (mut operands, mut rest) = (Vec::new(), vec![self]);
        while let Some(expr) = rest.pop() {
            match expr {
                Expr::Binary { op, left, right } if *op == of => rest.extend([right.as_ref(), left]),
                other => operands.push(other),
            }
        }
        operands
    }
}

/// Whether some operands of these types have no result.
fn arithmetic_fails(op: BinaryOp, left: Option<DataType>, right: Option<DataType>, divisor: &Expr) -> bool {
    let (Some(left), Some(right)) = (left, right) else { return true };
    let divides = matches!(op, BinaryOp::Divide | BinaryOp::Modulo);
    if left.is_floating() && right.is_floating() {
        return false;
    }
    // A DECIMAL with too many digits is NULL.
    let exact = decimal_result(op, &left, &right).is_some();
    if divides { !((exact || left.is_integer()) && divisor.divides_all()) } else { !exact }
}

/// Whether some value of one type has none in the other.
fn cast_fails(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp};
    match (from, to) {
        (from, to) if from == to => false,
        (DataType::List(from), DataType::List(to)) => cast_fails(from.data_type(), to.data_type()),
        (DataType::Map(from, _), DataType::Map(to, _)) => match (from.data_type(), to.data_type()) {
            (DataType::Struct(from), DataType::Struct(to)) => {
                from.iter().zip(to).any(|(from, to)| cast_fails(from.data_type(), to.data_type()))
            }
            _ => true,
        },
        // Bytes may be no UTF-8.
        (from, to) if to.is_string() => from.is_binary(),
        (Boolean, to) => !to.is_numeric() || to.is_decimal(),
        (Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Decimal128(..), Float32 | Float64) => false,
        (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => false,
        (Int8 | Int16 | Int32 | Int64, Decimal128(..)) | (Decimal128(..), Decimal128(..)) => {
            let whole = |data_type: &DataType| match as_decimal(data_type) {
                Some(Decimal128(precision, scale)) => i32::from(precision) - i32::from(scale),
                _ => i32::MAX,
            };
            let scale = |data_type: &DataType| match data_type {
                Decimal128(_, scale) => *scale,
                _ => 0,
            };
            // Rounding may add a digit.
            whole(from) + i32::from(scale(from) > scale(to)) > whole(to)
        }
        (Date32, Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _)) => false,
        (Timestamp(from, _), Timestamp(to, _)) => from < to,
        _ => true,
    }
}

impl BinaryOp {
    /// `+`, `-`, `*`, `/` and `%`.
    #[must_use]
    pub fn is_arithmetic(self) -> bool {
        use BinaryOp::{Divide, Minus, Modulo, Multiply, Plus};
        matches!(self, Plus | Minus | Multiply | Divide | Modulo)
    }

    fn is_regex(self) -> bool {
        use BinaryOp::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
        matches!(self, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch)
    }

    fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Eq => "=",
            BinaryOp::NotEq => "<>",
            BinaryOp::Lt => "<",
            BinaryOp::LtEq => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::GtEq => ">=",
            BinaryOp::Plus => "+",
            BinaryOp::Minus => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::Modulo => "%",
            BinaryOp::And => "AND",
            BinaryOp::Or => "OR",
            BinaryOp::IsDistinctFrom => "IS DISTINCT FROM",
            BinaryOp::IsNotDistinctFrom => "IS NOT DISTINCT FROM",
            BinaryOp::RegexMatch => "~",
            BinaryOp::RegexIMatch => "~*",
            BinaryOp::RegexNotMatch => "!~",
            BinaryOp::RegexNotIMatch => "!~*",
            BinaryOp::BitwiseAnd => "&",
            BinaryOp::BitwiseOr => "|",
            BinaryOp::BitwiseXor => "^",
            BinaryOp::BitwiseShiftLeft => "<<",
            BinaryOp::BitwiseShiftRight => ">>",
            BinaryOp::StringConcat => "||",
        }
    }
}

/// As `explain` shows it: columns as `#index`.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = |negated: &bool| if *negated { "NOT " } else { "" };
        match self {
            Expr::Column(index) => write!(f, "#{index}"),
            Expr::Literal(literal) => write!(f, "{literal}"),
            Expr::Binary { op, left, right } => write!(f, "({left} {} {right})", op.symbol()),
            Expr::Not(expr) => write!(f, "NOT {expr}"),
            Expr::Negative(expr) => write!(f, "-{expr}"),
            Expr::IsNull(expr) => write!(f, "{expr} IS NULL"),
            Expr::Cast { expr, to, safe } => {
                write!(f, "{}CAST({expr} AS {})", if *safe { "TRY_" } else { "" }, sql_name(to))
            }
            Expr::Like { expr, pattern, negated, case_insensitive } => {
                write!(f, "{expr} {}{}LIKE {pattern}", not(negated), if *case_insensitive { "I" } else { "" })
            }
            Expr::InList { expr, list, negated } => write!(f, "{expr} {}IN ({})", not(negated), List(list)),
            Expr::Case { operand, branches, otherwise } => {
                f.write_str("CASE")?;
                if let Some(operand) = operand {
                    write!(f, " {operand}")?;
                }
                for (when, then) in branches {
                    write!(f, " WHEN {when} THEN {then}")?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {otherwise}")?;
                }
                f.write_str(" END")
            }
            Expr::Call { function, args, .. } => write!(f, "{function}({})", List(args)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_fail_is_known_by_its_operators() {
        use DataType::{Date32, Decimal128, Float64, Int32, Int64, Utf8View};
        let columns = [Int32, Int64, Float64, Decimal128(10, 2), Utf8View];
        let may_fail = |expr: &Expr| expr.may_fail(&|index| columns.get(index).cloned());
        let column = |index| Box::new(Expr::Column(index));
        let binary = |op, left, right| Expr::Binary { op, left: column(left), right };
        let cast = |from, to, safe| Expr::Cast { expr: column(from), to, safe };
        let number = |number: i64| Box::new(Expr::number(number));
        assert!(may_fail(&binary(BinaryOp::Multiply, 1, column(1))));
        assert!(!may_fail(&binary(BinaryOp::Divide, 2, column(2))));
        assert!(
            !may_fail(&binary(BinaryOp::Multiply, 3, column(1))) && may_fail(&binary(BinaryOp::Divide, 3, column(1)))
        );
        assert!(!may_fail(&binary(BinaryOp::Modulo, 1, number(2))));
        assert!([0, -1].into_iter().all(|divisor| may_fail(&binary(BinaryOp::Divide, 1, number(divisor)))));
        assert!(may_fail(&cast(1, Int32, false)) && !may_fail(&cast(0, Int64, false)));
        assert!(may_fail(&cast(4, Int64, false)) && !may_fail(&cast(1, Utf8View, false)));
        assert!(may_fail(&cast(3, Decimal128(9, 1), false)) && !may_fail(&cast(3, Decimal128(10, 1), false)));
        let list = |element| DataType::List(std::sync::Arc::new(arrow_schema::Field::new("item", element, true)));
        assert!(!cast_fails(&list(Int32), &list(Int64)) && cast_fails(&list(Int64), &list(Int32)));
        assert!(may_fail(&Expr::Not(Box::new(cast(4, Date32, false)))) && !may_fail(&cast(4, Date32, true)));
        let call = |fails| Expr::Call { function: "f".into(), args: vec![], returns: Int64, fails, varies: false };
        assert!(may_fail(&call(true)) && !may_fail(&call(false)));
    }

    #[test]
    fn chains_become_trees_of_little_depth() {
        fn depth(expr: &Expr) -> usize {
            1 + expr.children().into_iter().map(depth).max().unwrap_or(0)
        }
        let columns: Vec<Expr> = (0..1000).map(Expr::Column).collect();
        let all = Expr::all(columns.clone()).expect("not empty");
        assert_eq!(depth(&all), 11);
        assert!(all.chain(BinaryOp::And).into_iter().eq(columns.iter()));
    }
}
