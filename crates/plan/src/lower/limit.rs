//! Lowers `LIMIT` without `ORDER BY`: the first rows that arrive. Of an updating stream, the first rows in
//! the order of their columns.

use anabranch_dataflow::{BinaryOp, Expr, LimitSpec, NamedExpr, OperatorSpec, RankSpec};
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Schema};

use super::stream::Stream;
use super::{Lowering, Needed};
use crate::rel::{Bounds, Limit};

const LIMIT: &str = "limit";

impl Lowering<'_> {
    pub(super) fn limit(&mut self, limit: &Limit, needed: &Needed) -> Result<Stream> {
        let spec = spec(limit)?;
        let mut stream = self.plan(&limit.input, needed)?;
        stream.leave_window()?;
        stream.stamps.clear();
        stream.materialize();
        if stream.weight.is_some() {
            return self.some_rows(stream, spec);
        }
        let mut next = self.exchange_by(Vec::new(), stream, LIMIT);
        next.operators.push(OperatorSpec::Limit(spec));
        Ok(next)
    }

    /// The first rows of an updating stream.
    fn some_rows(&mut self, mut stream: Stream, spec: LimitSpec) -> Result<Stream> {
        if stream.physical.len() == 1 {
            // No column is needed: a constant column stands for the rows.
            let row = Expr::truth(true);
            let row = NamedExpr { name: "row".into(), expr: row, data_type: DataType::Boolean, nullable: false };
            let exprs = std::iter::once(row).chain(stream.carried_weight(1)).collect();
            stream.project(exprs, false);
        }
        let mut fields = stream.physical.clone();
        fields.pop();
        let (columns, width) = (std::mem::take(&mut stream.columns), fields.len());
        let rank = RankSpec {
            keys: 0,
            order: Vec::new(),
            limit: spec.skip.saturating_add(spec.fetch),
            latest: false,
            schema: Schema::new(fields).into(),
            updating: true,
            output: (0..width).collect(),
            number: (spec.skip > 0).then(|| "number".to_owned()),
            window: None,
            time_to_live_ms: self.table.time_to_live_ms,
            zone: None,
        };
        let mut next = self.ranked(stream, rank, columns, None);
        if spec.skip > 0 {
            let skipped = Expr::number(i64::try_from(spec.skip).unwrap_or(i64::MAX));
            let (left, right) = (Box::new(Expr::Column(width)), Box::new(skipped));
            next.filter(&Expr::Binary { op: BinaryOp::Gt, left, right });
        }
        Ok(next)
    }
}

fn spec(limit: &Limit) -> Result<LimitSpec> {
    match limit.bounds() {
        Some(Bounds { skip, fetch: Some(fetch) }) => Ok(LimitSpec { skip: skip as u64, fetch: fetch as u64 }),
        Some(Bounds { fetch: None, .. }) => Err(Error::user("OFFSET without LIMIT is not supported")
            .remedy("add LIMIT: a stream without an end has no last row")),
        None => Err(Error::user("LIMIT and OFFSET must be whole numbers of at least 0").remedy("write LIMIT 10")),
    }
}
