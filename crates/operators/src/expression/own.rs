//! Our own physical expressions, where SQL differs from the library's kernels or ours are faster.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use anabranch_dataflow::BinaryOp;
use anabranch_functions::Matcher;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{and_kleene, not, or_kleene, prep_null_mask_filter};
use arrow::datatypes::{DataType, Schema};
use datafusion_common::{Result, internal_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::{cast, decimal, float};

/// What an [`OwnExpr`] computes from its operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kernel {
    /// `a AND b`, with `b` evaluated only where `a` is not false.
    And,
    /// `a OR b`, with `b` evaluated only where `a` is not true.
    Or,
    /// A comparison of floating-point numbers.
    Float(BinaryOp),
    /// Whether a text equals a constant that is short enough to be inlined in its view, or with `negated`
    /// whether it differs.
    Short { view: u128, negated: bool },
    /// Whether a text matches a pattern, or with `negated` whether it does not.
    Match { matcher: Arc<Matcher>, negated: bool },
    /// Arithmetic of exact numbers, one of them DECIMAL.
    Decimal(BinaryOp),
    /// A conversion in which SQL differs from the library; NULL instead of an error if `safe`.
    Cast { safe: bool },
}

/// A kernel over other expressions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnExpr {
    kernel: Kernel,
    args: Vec<Arc<dyn PhysicalExpr>>,
    data_type: DataType,
}

impl OwnExpr {
    pub(super) fn over(kernel: Kernel, args: Vec<Arc<dyn PhysicalExpr>>, data_type: DataType) -> Arc<dyn PhysicalExpr> {
        Arc::new(OwnExpr { kernel, args, data_type })
    }

    /// Evaluates `AND` or `OR`. The right operand is evaluated only for rows in which the left one does not
    /// decide, so it cannot fail for others.
    fn connect(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let [left, right] = self.args.as_slice() else { return internal_err!("AND and OR have two operands") };
        let rows = batch.num_rows();
        let left = left.evaluate(batch)?.into_array(rows)?;
        let truths = left.as_boolean();
        let decided = if self.kernel == Kernel::And { not(truths)? } else { truths.clone() };
        let open = match decided.null_count() {
            0 => not(&decided)?,
            _ => not(&prep_null_mask_filter(&decided))?,
        };
        if !open.has_true() {
            return Ok(ColumnarValue::Array(left));
        }
        let right = right.evaluate_selection(batch, &open)?.into_array(rows)?;
        let both: fn(&BooleanArray, &BooleanArray) -> _ =
            if self.kernel == Kernel::And { and_kleene } else { or_kleene };
        Ok(ColumnarValue::Array(Arc::new(both(truths, right.as_boolean())?)))
    }

    fn operands(&self, batch: &RecordBatch) -> Result<Vec<ColumnarValue>> {
        self.args.iter().map(|arg| arg.evaluate(batch)).collect()
    }
}

/// Applies a kernel over arrays: of one row if all operands are constant.
pub(super) fn over_arrays(
    operands: &[ColumnarValue],
    kernel: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let constant = operands.iter().all(|operand| matches!(operand, ColumnarValue::Scalar(_)));
    let arrays = ColumnarValue::values_to_arrays(operands)?;
    let result = kernel(&arrays)?;
    Ok(if constant {
        ColumnarValue::Scalar(datafusion_common::ScalarValue::try_from_array(&result, 0)?)
    } else {
        ColumnarValue::Array(result)
    })
}

/// Compares views instead of texts: equal short texts have equal views.
fn equal_short(texts: &ArrayRef, view: u128, negated: bool) -> Result<ArrayRef> {
    let Some(texts) = texts.as_string_view_opt() else { return internal_err!("the texts have no views") };
    let views = texts.views();
    let equal = BooleanBuffer::collect_bool(views.len(), |row| (views[row] == view) != negated);
    Ok(Arc::new(BooleanArray::new(equal, texts.nulls().cloned())))
}

fn matches(matcher: &Matcher, texts: &ArrayRef, negated: bool) -> Result<ArrayRef> {
    let Some(texts) = texts.as_string_view_opt() else { return internal_err!("the texts have no views") };
    let found = matcher.matches(texts);
    Ok(Arc::new(if negated { not(&found)? } else { found }))
}

impl PhysicalExpr for OwnExpr {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        match self.kernel {
            Kernel::Decimal(_) | Kernel::Cast { safe: true } => Ok(true),
            _ => self.args.iter().try_fold(false, |nullable, arg| Ok(nullable | arg.nullable(schema)?)),
        }
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match &self.kernel {
            Kernel::And | Kernel::Or => self.connect(batch),
            Kernel::Float(op) => float::compare(*op, &self.operands(batch)?),
            Kernel::Short { view, negated } => over_arrays(&self.operands(batch)?, |arrays| match arrays {
                [array] => equal_short(array, *view, *negated),
                _ => internal_err!("a text is compared with one constant"),
            }),
            Kernel::Match { matcher, negated } => over_arrays(&self.operands(batch)?, |arrays| match arrays {
                [array] => matches(matcher, array, *negated),
                _ => internal_err!("a text is matched with one pattern"),
            }),
            Kernel::Decimal(op) => over_arrays(&self.operands(batch)?, |arrays| match arrays {
                [left, right] => decimal::arithmetic(*op, left, right, &self.data_type),
                _ => internal_err!("arithmetic has two operands"),
            }),
            Kernel::Cast { safe } => over_arrays(&self.operands(batch)?, |arrays| match arrays {
                [array] => cast::convert(array, &self.data_type, *safe),
                _ => internal_err!("a cast has one operand"),
            }),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.args.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, args: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(OwnExpr::over(self.kernel.clone(), args, self.data_type.clone()))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for OwnExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}(", self.kernel)?;
        for (index, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg}", if index == 0 { "" } else { ", " })?;
        }
        write!(f, ") AS {}", self.data_type)
    }
}
