//! Lowers rows that are repeated.

use anabranch_dataflow::{Expr, NamedExpr, OperatorSpec, RepeatSpec};
use anabranch_model::{Error, Result};

use super::stream::Stream;
use super::{Lowering, Needed};
use crate::copies::Copies;

impl Lowering<'_> {
    /// Lowers the repetition of rows by their last column.
    pub(super) fn copies(&mut self, copies: &Copies, needed: &Needed) -> Result<Stream> {
        let mut below = needed.clone();
        below.insert(copies.number());
        let mut stream = self.plan(&copies.input, &below)?;
        stream.leave_window()?;
        stream.stamps.clear();
        stream.unique = None;
        let number =
            stream.columns.pop().ok_or_else(|| Error::internal("rows without a number of copies"))?.needed()?;
        let mut exprs: Vec<NamedExpr> = Vec::new();
        for column in &mut stream.columns {
            if let Some(value) = column.value.take() {
                column.value = Some(Expr::Column(exprs.len()));
                exprs.push(column.named(&value));
            }
        }
        let carried = stream.carried_weight(exprs.len());
        let weight = carried.is_some().then_some(exprs.len());
        exprs.extend(carried);
        let last = exprs.len();
        exprs.push(number);
        stream.project(exprs, false);
        stream.physical.pop();
        stream.operators.push(OperatorSpec::Repeat(RepeatSpec { copies: last, weight }));
        Ok(stream)
    }
}
