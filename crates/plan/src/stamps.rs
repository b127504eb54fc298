//! Stamps: values that sources add to their rows. These are the time of reading a row, and the watermark
//! before it.

use std::sync::Arc;

use anabranch_dataflow::{current_watermark_field, processing_time_field};
use arrow::datatypes::Field;
use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::Expr;
use datafusion_expr::expr::Placeholder;

use crate::rel::Rel;
use crate::walk::Walk;
use crate::{current_watermark, processing_time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    ProcessingTime,
    Watermark,
}

impl Stamp {
    const ALL: [Stamp; 2] = [Stamp::ProcessingTime, Stamp::Watermark];

    pub(crate) fn field(self) -> Field {
        match self {
            Stamp::ProcessingTime => processing_time_field(),
            Stamp::Watermark => current_watermark_field(),
        }
    }

    /// The placeholder that stands for it in an expression.
    pub(crate) fn placeholder(self) -> Expr {
        let field = self.field();
        Expr::Placeholder(Placeholder::new_with_field(field.name().clone(), Some(Arc::new(field))))
    }

    /// The index that stands for it where a column is given by its index.
    pub(crate) fn index(self) -> usize {
        usize::MAX - self as usize
    }

    /// The stamp that a placeholder represents.
    pub(crate) fn of_placeholder(placeholder: &Placeholder) -> Option<Stamp> {
        Stamp::ALL.into_iter().find(|stamp| *stamp.field().name() == placeholder.id)
    }

    /// The stamp with this index.
    pub(crate) fn at(index: usize) -> Option<Stamp> {
        Stamp::ALL.into_iter().find(|stamp| stamp.index() == index)
    }
}

/// The stamps that a query reads.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReadStamps {
    /// `PROCTIME()`.
    pub(crate) clock: bool,
    /// `CURRENT_WATERMARK`.
    pub(crate) watermark: bool,
}

impl ReadStamps {
    pub(crate) fn of_plan(plan: &Rel) -> ReadStamps {
        ReadStamps { clock: processing_time::is_read(plan), watermark: current_watermark::is_read(plan) }
    }

    /// The stamps, in the order of their columns.
    pub(crate) fn stamps(self) -> impl Iterator<Item = Stamp> {
        let clock = self.clock.then_some(Stamp::ProcessingTime);
        clock.into_iter().chain(self.watermark.then_some(Stamp::Watermark))
    }
}

/// Replaces `PROCTIME()` and `CURRENT_WATERMARK` by placeholders.
pub(crate) fn with_placeholders(expr: &Expr) -> Result<Expr> {
    let replaced = expr.clone().walk_up(&mut |expr| {
        if processing_time::is_stamp(&expr) {
            return Ok(Transformed::yes(Stamp::ProcessingTime.placeholder()));
        }
        Ok(match current_watermark::column_of(&expr) {
            Some(column) => Transformed::yes(column),
            None => Transformed::no(expr),
        })
    })?;
    Ok(replaced.data)
}
