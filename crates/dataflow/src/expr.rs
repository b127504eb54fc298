//! Scalar expressions over the columns of a batch.

use std::fmt;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

/// An expression with one value per row. Types are resolved: operands of a binary operator have equal types (or types
/// that the operator combines, such as timestamp and interval), and every cast is explicit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    },
}

/// A constant: its type, and its value as text in Arrow's cast format (`None` is null).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Literal {
    /// Type.
    pub data_type: DataType,
    /// Value as text.
    pub text: Option<String>,
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

/// Functions that return a value or NULL for all arguments.
const NEVER_FAIL: [&str; 34] = [
    "ascii",
    "btrim",
    "character_length",
    "coalesce",
    "concat",
    "concat_ws",
    "contains",
    "date_part",
    "ends_with",
    "get_field",
    "greatest",
    "initcap",
    "isnan",
    "least",
    "left",
    "levenshtein",
    "lower",
    "ltrim",
    "md5",
    "named_struct",
    "nullif",
    "nvl",
    "octet_length",
    "replace",
    "reverse",
    "right",
    "rtrim",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "starts_with",
    "strpos",
    "upper",
];

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

    /// Calls `visit` with the index of every column that the expression reads.
    pub fn for_each_column(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Expr::Column(index) => visit(*index),
            other => other.children().into_iter().for_each(|child| child.for_each_column(visit)),
        }
    }

    /// Whether a value of a column may make the expression fail: a division, a number that does not fit, or a function
    /// that is not in the list of those that never fail. Such an expression is evaluated only for rows that pass the
    /// conditions around it.
    #[must_use]
    pub fn may_fail(&self) -> bool {
        let fails = match self {
            Expr::Binary { op, left, right } => op.is_arithmetic() && !left.is_float() && !right.is_float(),
            Expr::Negative(_) => true,
            Expr::Cast { to, safe, .. } => !safe && !to.is_string(),
            Expr::Call { function, .. } => NEVER_FAIL.binary_search(&function.as_str()).is_err(),
            _ => false,
        };
        fails || self.children().into_iter().any(Expr::may_fail)
    }

    /// Whether the expression is certainly a floating-point number, whose arithmetic always has a result.
    fn is_float(&self) -> bool {
        match self {
            Expr::Literal(Literal { data_type, .. }) | Expr::Cast { to: data_type, .. } => data_type.is_floating(),
            Expr::Binary { op, left, right } => op.is_arithmetic() && (left.is_float() || right.is_float()),
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

impl BinaryOp {
    /// `+`, `-`, `*`, `/` and `%`.
    #[must_use]
    pub fn is_arithmetic(self) -> bool {
        use BinaryOp::{Divide, Minus, Modulo, Multiply, Plus};
        matches!(self, Plus | Minus | Multiply | Divide | Modulo)
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
        let list = |f: &mut fmt::Formatter<'_>, items: &[Expr]| {
            for (i, item) in items.iter().enumerate() {
                write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
            }
            Ok(())
        };
        let not = |negated: &bool| if *negated { "NOT " } else { "" };
        match self {
            Expr::Column(index) => write!(f, "#{index}"),
            Expr::Literal(Literal { text: None, .. }) => f.write_str("NULL"),
            Expr::Literal(Literal { data_type, text: Some(text) }) if data_type.is_string() => write!(f, "'{text}'"),
            Expr::Literal(Literal { text: Some(text), .. }) => f.write_str(text),
            Expr::Binary { op, left, right } => write!(f, "({left} {} {right})", op.symbol()),
            Expr::Not(expr) => write!(f, "NOT {expr}"),
            Expr::Negative(expr) => write!(f, "-{expr}"),
            Expr::IsNull(expr) => write!(f, "{expr} IS NULL"),
            Expr::Cast { expr, to, safe } => write!(f, "{}CAST({expr} AS {to})", if *safe { "TRY_" } else { "" }),
            Expr::Like { expr, pattern, negated, case_insensitive } => {
                write!(f, "{expr} {}{}LIKE {pattern}", not(negated), if *case_insensitive { "I" } else { "" })
            }
            Expr::InList { expr, list: items, negated } => {
                write!(f, "{expr} {}IN (", not(negated))?;
                list(f, items)?;
                f.write_str(")")
            }
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
            Expr::Call { function, args, .. } => {
                write!(f, "{function}(")?;
                list(f, args)?;
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_fail_is_known_by_its_operators() {
        let column = |index| Box::new(Expr::Column(index));
        let times = |right| Expr::Binary { op: BinaryOp::Multiply, left: column(0), right };
        let cast = |to, safe| Expr::Cast { expr: column(1), to, safe };
        assert!(times(column(1)).may_fail());
        assert!(!times(Box::new(cast(DataType::Float64, true))).may_fail());
        assert!(cast(DataType::Int64, false).may_fail() && !cast(DataType::Utf8View, false).may_fail());
        assert!(Expr::Not(Box::new(cast(DataType::Date32, false))).may_fail());
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

    #[test]
    fn names_of_functions_can_be_searched() {
        assert!(NEVER_FAIL.is_sorted());
    }
}
