//! What sources add to their rows: the time at which they have read them, and the watermark before them.

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

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    ProcessingTime,
    Watermark,
}

impl Stamp {
    const ALL: [Stamp; 2] = [Stamp::ProcessingTime, Stamp::Watermark];

    /// Its column.
    pub(crate) fn field(self) -> Field {
        match self {
            Stamp::ProcessingTime => processing_time_field(),
            Stamp::Watermark => current_watermark_field(),
        }
    }

    /// Stands for it in an expression, in place of a column's name.
    pub(crate) fn placeholder(self) -> Expr {
        let field = self.field();
        Expr::Placeholder(Placeholder::new_with_field(field.name().clone(), Some(Arc::new(field))))
    }

    /// In place of a column's index.
    pub(crate) fn index(self) -> usize {
        usize::MAX - self as usize
    }

    /// What a placeholder stands for.
    pub(crate) fn of(placeholder: &Placeholder) -> Option<Stamp> {
        Stamp::ALL.into_iter().find(|stamp| *stamp.field().name() == placeholder.id)
    }

    /// What has this index.
    pub(crate) fn at(index: usize) -> Option<Stamp> {
        Stamp::ALL.into_iter().find(|stamp| stamp.index() == index)
    }
}

/// Which of them a query reads.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reads {
    /// `PROCTIME()`.
    pub(crate) clock: bool,
    /// `CURRENT_WATERMARK`.
    pub(crate) watermark: bool,
}

impl Reads {
    pub(crate) fn of(plan: &Rel) -> Reads {
        Reads { clock: processing_time::is_read(plan), watermark: current_watermark::is_read(plan) }
    }

    /// In the order of their columns.
    pub(crate) fn stamps(self) -> impl Iterator<Item = Stamp> {
        let clock = self.clock.then_some(Stamp::ProcessingTime);
        clock.into_iter().chain(self.watermark.then_some(Stamp::Watermark))
    }
}

/// The expression with a placeholder in place of each call.
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
