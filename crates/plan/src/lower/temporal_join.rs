//! Joins with the version of a row at an event time. The versions are the rows of the right side. If the
//! right side selects the latest row of each key, as a table of versions does, all of its rows are used as
//! versions.

use anabranch_dataflow::{ExpirySpec, Expr, StreamJoinKind, StreamJoinSpec};
use anabranch_model::{Error, Result};
use datafusion_expr::utils::{conjunction, split_conjunction};
use datafusion_expr::{BinaryExpr, Expr as Logical, Operator};

use super::group_aggregate::weight_of;
use super::join::{add_condition, needed_of_sides};
use super::join_times::{Times, plain_time};
use super::rank::{bounded_number, row_number};
use super::stream::{LogicalColumn, Stream};
use super::stream_join::Side;
use super::{Lowering, Needed, Want, columns_of, same_values};
use crate::maps::shown;
use crate::rel::{Columns, Filter, Over, Project, Rel};
use crate::settings::RuntimeMode;
use crate::table::Table;
use crate::temporal_join::{TemporalJoin, VersionTimes};
use crate::versions::ORDER;

impl Lowering<'_> {
    pub(super) fn temporal_join(&mut self, join: &TemporalJoin, needed: &Needed) -> Result<Stream> {
        let Some(VersionTimes { time, valid_from }) = &join.times else { return self.lookup_join(join, needed) };
        let (left, right) = (join.left.as_ref(), join.right.as_ref());
        let indexes = [left.columns(), right.columns()];
        let (pairs, rest) = equal_columns(join, indexes)?;
        let (left_keys, right_keys): (Vec<&Logical>, Vec<&Logical>) = pairs.into_iter().unzip();
        let filter = conjunction(rest);
        let mut wanted = needed_of_sides(needed, left);
        wanted[0].extend(columns_of([time], indexes[0])?);
        wanted[1].extend(columns_of([valid_from], indexes[1])?);
        add_condition(&mut wanted, filter.as_ref(), indexes)?;
        // In batch mode too, the operators below emit rows as event time advances.
        let by_clock = self.by_clock;
        self.by_clock = by_clock.or((self.mode == RuntimeMode::Batch).then_some(false));
        let [of_left, of_right] = wanted.map(Want::columns);
        let left_side = self.side_of_join(left, &left_keys, &of_left)?;
        let are_versions = takes_latest(right, plain_time(valid_from, indexes[1]));
        let right_side = self.side_of_join(right, &right_keys, &Want { versions: are_versions, ..of_right })?;
        self.by_clock = by_clock;
        if right_side.stream.weight.is_some() && !are_versions {
            return Err(no_versions());
        }
        if left_side.stream.weight.is_some() {
            return Err(Error::user("FOR SYSTEM_TIME AS OF joins append-only rows, but these rows are updated")
                .remedy("join before you aggregate, or join without FOR SYSTEM_TIME AS OF"));
        }
        let time = time_of(time, &left_side, indexes[0])?;
        let valid_from = time_of(valid_from, &right_side, indexes[1])?;
        let spec = StreamJoinSpec {
            kind: if join.outer { StreamJoinKind::Left } else { StreamJoinKind::Inner },
            keys: left_keys.len(),
            nulls_equal: false,
            filter: super::stream_join::condition(filter.as_ref(), (left, &left_side), (right, &right_side))?,
            left: left_side.spec(Some(ExpirySpec { time, after_ms: 0 })),
            right: right_side.spec(None),
            output: Vec::new(),
            delay_ms: 0,
            versions: Some(valid_from),
            zone: None,
        };
        // A row leaves when event time has reached its own.
        let is_time = |column: &usize| left_side.places.get(column) == Some(&time);
        let times: Times =
            left_side.times.iter().filter(|(column, _)| is_time(column)).map(|(c, ms)| (*c, *ms)).collect();
        let mut next = self.joined(spec, left_side, right_side, needed);
        (next.has_event_time, next.times, next.waits) = (true, times, true);
        Ok(next)
    }

    /// Lowers the selection of the latest row of each key to all versions. A version that fails the rest of
    /// the condition is a deletion, with weight -1.
    pub(super) fn versions(&mut self, filter: &Filter, rest: Option<&Logical>, want: &Want) -> Result<Stream> {
        let index = filter.input.columns();
        let mut below = columns_of(rest, index)?;
        below.extend(&want.columns);
        let mut stream = self.wanted(&filter.input, &want.of_input(below))?;
        let Some(rest) = rest else { return Ok(stream) };
        let weight = Expr::Case {
            operand: None,
            branches: vec![(stream.expr(rest, index)?, Expr::number(1))],
            otherwise: Some(Box::new(Expr::number(-1))),
        };
        stream.materialize_with(weight_of(weight));
        Ok(stream)
    }

    /// Lowers a numbering of rows that are all used as versions. Each row had the number 1 when it arrived.
    pub(super) fn unnumbered(&mut self, window: &Over, needed: &Needed) -> Result<Stream> {
        let inputs = window.input.width();
        let below = needed.iter().copied().filter(|column| *column < inputs).collect();
        let mut stream = self.plan(&window.input, &below)?;
        if stream.weight.is_some() {
            return Err(no_versions());
        }
        stream.assign_windows()?;
        (stream.window, stream.unique) = (None, None);
        let one = Expr::number(1);
        stream.columns.push(LogicalColumn { value: Some(one), ..LogicalColumn::absent(window.columns.field(inputs)) });
        Ok(stream)
    }
}

/// A retraction has the event time of the retracted row, which does not say until when the row was valid.
fn no_versions() -> Error {
    Error::user("FOR SYSTEM_TIME AS OF needs versions of rows, but these rows are updated").remedy(
        "name a table of connector 'upsert-kafka', an append-only table, a table of changes with a primary key, or a view of an append-only table \
         that selects the latest row of each key: ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) with n = 1, where ts is its event time",
    )
}

/// The index of an event time in the rows of a side.
fn time_of(time: &Logical, side: &Side, index: &Columns) -> Result<usize> {
    let column = plain_time(time, index).filter(|column| side.times.get(column).is_some_and(|ms| *ms <= 0));
    column.and_then(|column| side.places.get(&column).copied()).ok_or_else(|| {
        Error::user(format!("'{}' is no longer an event-time column", shown(time)))
            .remedy("FOR SYSTEM_TIME AS OF needs the column for which WATERMARK is declared, of rows as they come")
    })
}

/// Whether a plan selects the latest row of each key by this column, or by the order of records.
fn takes_latest(plan: &Rel, time: Option<usize>) -> bool {
    match plan {
        Rel::Project(projection) => takes_latest(&projection.input, time.and_then(|time| source_of(projection, time))),
        Rel::Filter(filter) => {
            matches!(bounded_number(filter), Some((1, _))) && numbers_latest_first(&filter.input, time)
        }
        _ => false,
    }
}

fn numbers_latest_first(plan: &Rel, time: Option<usize>) -> bool {
    match plan {
        Rel::Project(projection) => {
            numbers_latest_first(&projection.input, time.and_then(|time| source_of(projection, time)))
        }
        Rel::Over(window) => {
            let index = window.input.columns();
            let order = row_number(window).map(|call| call.params.order_by.as_slice());
            let Some([by]) = order else { return false };
            let column = same_values(&by.expr, index);
            let is_of_records = column.is_some_and(|c| window.input.columns().field(c).name() == ORDER);
            !by.asc && (column.is_some() && column == time || is_of_records)
        }
        _ => false,
    }
}

/// The column of a projection's input that has the values of this column.
fn source_of(projection: &Project, column: usize) -> Option<usize> {
    let below = projection.input.columns();
    same_values(projection.exprs.get(column)?, below)
}

/// The key of the versioned rows. `Some(None)`: no key is declared. `None`: the key is not among the columns.
pub(crate) fn version_key(plan: &Rel) -> Option<Option<Vec<usize>>> {
    match plan {
        Rel::Project(projection) => {
            let below = projection.input.columns();
            let kept = |column: usize| projection.exprs.iter().position(|e| same_values(e, below) == Some(column));
            match version_key(&projection.input)? {
                Some(key) => key.into_iter().map(kept).collect::<Option<_>>().map(Some),
                None => Some(None),
            }
        }
        Rel::Filter(filter) => version_key(&filter.input),
        Rel::Over(window) => {
            let index = window.input.columns();
            let keys = row_number(window)?.params.partition_by.iter().map(|key| same_values(key, index));
            keys.collect::<Option<_>>().map(Some)
        }
        Rel::Get(scan) => {
            let key = Table::of_scan(scan).ok()?.key();
            let place = |column: &usize| match &scan.projection {
                Some(columns) => columns.iter().position(|own| own == column),
                None => Some(*column),
            };
            let key: Vec<usize> = key.iter().map(place).collect::<Option<_>>()?;
            Some(Some(key).filter(|key| !key.is_empty()))
        }
        _ => Some(None),
    }
}

/// Pairs of equal columns by which versions are found, and the rest of the condition.
pub(super) type Condition<'a> = (Vec<(&'a Logical, &'a Logical)>, Vec<Logical>);

pub(super) fn equal_columns<'a>(join: &'a TemporalJoin, [left, right]: [&Columns; 2]) -> Result<Condition<'a>> {
    let key: Vec<usize> = join.key.iter().filter_map(|key| same_values(key, right)).collect();
    let reads_only = |index: &Columns, expr: &Logical| {
        let columns = expr.column_refs();
        !columns.is_empty() && columns.into_iter().all(|column| index.find(column).is_some())
    };
    let (mut pairs, mut rest, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for condition in split_conjunction(&join.condition) {
        let pair = match condition {
            Logical::BinaryExpr(BinaryExpr { left: l, op: Operator::Eq, right: r }) => match (l.as_ref(), r.as_ref()) {
                (l, r) if reads_only(left, l) && reads_only(right, r) => Some((l, r)),
                (l, r) if reads_only(right, l) && reads_only(left, r) => Some((r, l)),
                _ => None,
            },
            _ => None,
        };
        let column = pair.and_then(|(_, theirs)| same_values(theirs, right));
        let is_key = column.is_some_and(|column| key.contains(&column) && !found.contains(&column));
        match pair {
            Some(pair) if key.is_empty() || is_key => {
                pairs.push(pair);
                found.extend(column);
            }
            _ => rest.push(condition.clone()),
        }
    }
    match pairs.is_empty() || key.len() > found.len() {
        true => Err(Error::user("the condition of FOR SYSTEM_TIME AS OF does not compare the key of the versions")
            .remedy("compare the columns of the primary key, or of PARTITION BY, with = in ON")),
        false => Ok((pairs, rest)),
    }
}
