//! Scalar expressions over the columns of a batch.

use std::fmt;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

/// An expression that gives one value per row. Types are resolved: operands of a binary operator have equal types
/// (or types that the operator takes together, like timestamp and interval), and every cast is explicit.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// An expression with the name and type of the column that it makes.
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

impl Expr {
    /// Calls `visit` with the index of every column that the expression reads.
    pub fn for_each_column(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Expr::Column(index) => visit(*index),
            Expr::Literal(_) => {}
            Expr::Binary { left, right, .. } => {
                left.for_each_column(visit);
                right.for_each_column(visit);
            }
            Expr::Not(expr) | Expr::Negative(expr) | Expr::IsNull(expr) | Expr::Cast { expr, .. } => {
                expr.for_each_column(visit);
            }
            Expr::Like { expr, pattern, .. } => {
                expr.for_each_column(visit);
                pattern.for_each_column(visit);
            }
            Expr::InList { expr, list, .. } => {
                expr.for_each_column(visit);
                list.iter().for_each(|e| e.for_each_column(visit));
            }
            Expr::Case { operand, branches, otherwise } => {
                operand.iter().chain(otherwise).for_each(|e| e.for_each_column(visit));
                for (when, then) in branches {
                    when.for_each_column(visit);
                    then.for_each_column(visit);
                }
            }
            Expr::Call { args, .. } => args.iter().for_each(|e| e.for_each_column(visit)),
        }
    }
}

impl BinaryOp {
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
