//! Joins of two streams: both sides are exchanged by key, and each is kept for the other.

use std::collections::BTreeMap;

use anabranch_dataflow::{
    ExchangeKind, ExpirySpec, Expr, NamedExpr, OperatorSpec, Port, StreamJoinKind, StreamJoinSpec, StreamSideSpec,
    sql_name,
};
use anabranch_functions::Zone;
use anabranch_model::{Error, Result};
use arrow::datatypes::{Field, Schema};
use datafusion_common::{JoinType, NullEquality};
use datafusion_expr::Expr as Logical;

use super::expr::convert;
use super::join::{add_condition, both, needed_of_sides};
use super::join_times::{Bounds, TimedSide, Times, plain_time};
use super::over::RowColumns;
use super::rank::key_name;
use super::stream::{LogicalColumn, Stream};
use super::window_join::{WindowedSide, joined_windows};
use super::windowed::{WindowColumn, Windowed};
use super::{Lowering, Needed, Want, columns_of, same_values};
use crate::maps::has_map;
use crate::rel::{Columns, Join, Rel};
use crate::varying::check_repeatable;
use crate::window_assign::EVENT_TIME;
use crate::zones::is_instant;

const JOIN: &str = "join";

/// One side: the chain before the join, with the keys first.
pub(super) struct Side {
    pub(super) stream: Stream,
    /// The columns of its rows, without the weight.
    pub(super) fields: Vec<Field>,
    /// The indexes in `fields` of the side's logical columns.
    pub(super) places: BTreeMap<usize, usize>,
    columns: Vec<LogicalColumn>,
    /// Logical columns that are keys.
    keys: Vec<usize>,
    unique: Option<Vec<usize>>,
    pub(super) times: Times,
    /// The windows of the rows before the join.
    windowed: Option<Windowed>,
}

/// The join's condition over the rows of both sides.
pub(super) fn condition(
    filter: Option<&Logical>,
    (left, left_side): (&Rel, &Side),
    (right, right_side): (&Rel, &Side),
) -> Result<Option<Expr>> {
    let Some(filter) = filter else { return Ok(None) };
    if left_side.stream.weight.is_some() || right_side.stream.weight.is_some() {
        check_repeatable(filter)?;
    }
    let columns = both(left, right)?;
    let left_len = left.width();
    let column = |index: usize| match index.checked_sub(left_len) {
        None => left_side.places.get(&index).copied(),
        Some(index) => right_side.places.get(&index).map(|place| place + left_side.fields.len()),
    };
    let converted = convert(filter, &columns, &|index| {
        let place = column(index).ok_or_else(|| Error::internal("a column of a join's condition was not needed"))?;
        Ok(Expr::Column(place))
    });
    converted.map(Some)
}

impl Lowering<'_> {
    pub(super) fn stream_join(&mut self, join: &Join, needed: &Needed) -> Result<Stream> {
        let (kind, swapped) = kind(join)?;
        let (left, right) = (join.left.as_ref(), join.right.as_ref());
        let (left, right) = if swapped { (right, left) } else { (left, right) };
        let indexes = [left.columns(), right.columns()];
        let pairs = join.on.iter().map(|(l, r)| if swapped { (r, l) } else { (l, r) });
        let (left_keys, right_keys): (Vec<&Logical>, Vec<&Logical>) = pairs.unzip();
        let mut wanted = needed_of_sides(needed, left);
        add_condition(&mut wanted, join.filter.as_ref(), indexes)?;
        let [of_left, of_right] = wanted.map(Want::columns);
        let left_side = self.side_of_join(left, &left_keys, &of_left)?;
        let right_side = self.side_of_join(right, &right_keys, &of_right)?;
        let filter = condition(join.filter.as_ref(), (left, &left_side), (right, &right_side))?;
        let mut spec = StreamJoinSpec {
            kind,
            keys: left_keys.len(),
            nulls_equal: join.null_equality == NullEquality::NullEqualsNull,
            filter,
            left: left_side.spec(None),
            right: right_side.spec(None),
            output: Vec::new(),
            delay_ms: 0,
            versions: None,
            zone: None,
        };
        let keys: Vec<(&Logical, &Logical)> = left_keys.into_iter().zip(right_keys).collect();
        let mut times = bound(&mut spec, join, &keys, [(&left_side, indexes[0]), (&right_side, indexes[1])]);
        for (side, plan) in [(&mut spec.left, left), (&mut spec.right, right)] {
            side.time_to_live_ms = self.time_to_live_of(plan).filter(|_| side.expiry.is_none());
        }
        let marks = join.columns.fields().iter().map(|field| field.metadata().contains_key(EVENT_TIME));
        let marked: Vec<bool> = marks.collect();
        let late = times.iter().filter(|(column, _)| needed.contains(column) && marked[**column]);
        spec.delay_ms = late.map(|(_, ms)| *ms).max().unwrap_or(0).max(0);
        times.values_mut().for_each(|ms| *ms -= spec.delay_ms);
        let windows =
            joined_windows(spec.kind, &keys, [&left_side.windows(indexes[0]), &right_side.windows(indexes[1])]);
        let mut next = self.joined(spec, left_side, right_side, needed);
        (next.has_event_time, next.times) = (!times.is_empty(), times);
        if let Some(windows) = windows {
            next.belong_to(windows);
        }
        Ok(next)
    }

    /// Lowers one side of a join.
    pub(super) fn side_of_join(&mut self, plan: &Rel, keys: &[&Logical], want: &Want) -> Result<Side> {
        let index = plan.columns();
        let mut needed = columns_of(keys.iter().copied(), index)?;
        needed.extend(&want.columns);
        let mut stream = self.wanted(plan, &want.of_input(needed))?;
        stream.assign_windows()?;
        stream.stamps = Vec::new();
        let windowed = stream.window.take();
        let mut rows = RowColumns::default();
        for (number, key) in keys.iter().enumerate() {
            rows.exprs.push(stream.compared(key_name(key, number + 1, index)?, key, index, "the join")?);
        }
        let mut places = BTreeMap::new();
        for column in &want.columns {
            let logical = &stream.columns[*column];
            if has_map(&logical.data_type) {
                let found = sql_name(&logical.data_type);
                let what = format!("column '{}' is {found}, which a join of two streams cannot keep", logical.name);
                return Err(Error::user(what).remedy("join without it, or select the values of the map"));
            }
            places.insert(*column, rows.column(logical.needed()?));
        }
        let columns = stream.columns.clone();
        let (unique, times) = (stream.unique.take(), std::mem::take(&mut stream.times));
        let key_columns = keys.iter().filter_map(|key| same_values(key, index)).collect();
        let mut exprs = rows.exprs;
        let fields = exprs.iter().map(NamedExpr::field).collect();
        exprs.extend(stream.carried_weight(exprs.len()));
        stream.project(exprs, false);
        stream.columns.clear();
        Ok(Side { stream, fields, places, columns, keys: key_columns, unique, times, windowed })
    }

    /// The chain that begins with the join.
    pub(super) fn joined(&mut self, mut spec: StreamJoinSpec, left: Side, right: Side, needed: &Needed) -> Stream {
        let stage = self.keyed_stage(JOIN, spec.keys == 0);
        let (pads_left, pads_right) = spec.kind.pads();
        let left_len = left.fields.len();
        let mut columns: Vec<(LogicalColumn, Option<usize>)> = Vec::new();
        for (index, column) in left.columns.iter().enumerate() {
            columns.push((column.clone(), left.places.get(&index).copied()));
        }
        for (index, column) in right.columns.iter().enumerate().filter(|_| spec.kind.gives_pairs()) {
            columns.push((column.clone(), right.places.get(&index).map(|place| place + left_len)));
        }
        let padded = |index: usize| if index < left.columns.len() { pads_right } else { pads_left };
        let outputs = columns.into_iter().enumerate().map(|(index, (column, place))| {
            let place = place.filter(|_| needed.contains(&index));
            let value = place.map(|place| match spec.output.iter().position(|own| *own == place) {
                Some(found) => Expr::Column(found),
                None => {
                    spec.output.push(place);
                    Expr::Column(spec.output.len() - 1)
                }
            });
            LogicalColumn { value, window: None, nullable: column.nullable || padded(index), ..column }
        });
        let outputs: Vec<LogicalColumn> = outputs.collect();
        let unique = unique_of_pairs(&spec, &left, &right);
        let mut next = left.stream.in_stage(stage);
        next.bounded = left.stream.bounded && right.stream.bounded;
        next.waits = left.stream.waits || right.stream.waits;
        next.zone = next.zone.or_else(|| right.stream.zone.clone());
        let kind = ExchangeKind::Hash { keys: (0..spec.keys).collect() };
        let (from_left, from_right) = (self.close(left.stream), self.close(right.stream));
        let mut next = next.fed_by(from_left, Port::Main, kind.clone()).fed_by(from_right, Port::Second, kind);
        next.physical = spec.output_schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        next.weight = spec.is_updating().then_some(spec.output.len());
        (next.columns, next.unique) = (outputs, unique);
        next.operators.push(OperatorSpec::StreamJoin(spec));
        next
    }
}

impl Side {
    pub(super) fn spec(&self, expiry: Option<ExpirySpec>) -> StreamSideSpec {
        StreamSideSpec {
            schema: Schema::new(self.fields.clone()).into(),
            updating: self.stream.weight.is_some(),
            expiry,
            time_to_live_ms: None,
        }
    }

    fn windows<'a>(&'a self, index: &'a Columns) -> WindowedSide<'a> {
        WindowedSide { index, columns: &self.columns, windowed: self.windowed.as_ref() }
    }

    /// The time zone of a logical column that is a local time of windows.
    fn zone_of(&self, column: usize) -> Option<&str> {
        self.stream.zone.as_deref().filter(|_| !is_instant(&self.columns[column].data_type))
    }
}

/// Adds a lag to `window_time` of windows of local time. When clocks are set back, a local time occurs twice,
/// and its instant is the first of the two.
pub(super) fn late_times(mut times: Times, columns: &[LogicalColumn], zone: Option<&str>) -> Times {
    if let Some(zone) = zone.and_then(Zone::parse) {
        let is_last = |column: usize| columns[column].window == Some(WindowColumn::Time);
        times.iter_mut().filter(|(column, _)| is_last(**column)).for_each(|(_, ms)| *ms += zone.repeated_ms());
    }
    times
}

/// Sets the expiry of the rows of both sides, if the condition bounds it. Returns the times of the output, by
/// logical column.
fn bound(
    spec: &mut StreamJoinSpec,
    join: &Join,
    keys: &[(&Logical, &Logical)],
    [(left, left_index), (right, right_index)]: [(&Side, &Columns); 2],
) -> Times {
    // A retraction may come at any time.
    if spec.left.updating || spec.right.updating {
        return Times::new();
    }
    let late = |side: &Side| late_times(side.times.clone(), &side.columns, side.stream.zone.as_deref());
    let (left_times, right_times) = (late(left), late(right));
    let of_left = TimedSide { index: left_index, columns: &left.columns, times: &left_times };
    let of_right = TimedSide { index: right_index, columns: &right.columns, times: &right_times };
    let mut bounds = Bounds::default();
    if !spec.nulls_equal {
        bounds.add_keys(keys, &of_left, &of_right);
    }
    if let Some(filter) = &join.filter {
        bounds.add_condition(filter, &of_left, &of_right);
    }
    let key = |side: usize, column: usize| {
        let index = [left_index, right_index][side];
        let is_key = |(l, r): &(&Logical, &Logical)| plain_time([*l, *r][side], index) == Some(column);
        keys.iter().position(is_key)
    };
    let place = |side: usize, expiry: Option<ExpirySpec>| {
        let ExpirySpec { time, after_ms } = expiry?;
        let place = [left, right][side].places.get(&time).copied().or_else(|| key(side, time))?;
        Some(ExpirySpec { time: place, after_ms })
    };
    // Local times of windows are only compared with local times of the same zone. If there are any, they
    // define the expiry.
    bounds.retain(|l, r| left.zone_of(l) == right.zone_of(r));
    let is_local = |of_left: usize| left.zone_of(of_left).is_some();
    let mut expiries = bounds.expiries(&left_times, &right_times, is_local);
    if expiries.iter().any(Option::is_some) {
        spec.zone.clone_from(&left.stream.zone);
    } else {
        expiries = bounds.expiries(&left_times, &right_times, |of_left| !is_local(of_left));
    }
    let [left_expiry, right_expiry] = expiries;
    let (left_waits, right_waits) = spec.kind.gives_unmatched();
    let waits = |waits: bool, expiry: Option<ExpirySpec>| expiry.filter(|_| waits).map(|expiry| expiry.time);
    let waits_by = [waits(left_waits, left_expiry), waits(right_waits, right_expiry)];
    (spec.left.expiry, spec.right.expiry) = (place(0, left_expiry), place(1, right_expiry));
    if spec.is_updating() {
        return Times::new();
    }
    let [mut times, mut of_right] = bounds.times(&of_left, &of_right, waits_by);
    if left.stream.zone != right.stream.zone {
        // The joined rows do not tell which columns are local times.
        times.retain(|column, _| is_instant(&left.columns[*column].data_type));
        of_right.retain(|column, _| is_instant(&right.columns[*column].data_type));
    }
    if spec.kind.gives_pairs() {
        times.extend(of_right.into_iter().map(|(column, ms)| (column + left.columns.len(), ms)));
    }
    times
}

/// Logical columns that identify a joined row. The join's keys are among them, so all versions of a row are
/// in one task.
fn unique_of_pairs(spec: &StreamJoinSpec, left: &Side, right: &Side) -> Option<Vec<usize>> {
    let is_of_keys =
        |side: &Side| side.unique.as_ref().is_some_and(|unique| unique.iter().all(|c| side.keys.contains(c)));
    let has_keys = |side: &Side, unique: &Vec<usize>| {
        side.keys.len() == spec.keys && side.keys.iter().all(|key| unique.contains(key))
    };
    let of_left = left.unique.clone().filter(|unique| has_keys(left, unique));
    let of_right = right.unique.clone().filter(|unique| has_keys(right, unique));
    let shifted = |unique: Vec<usize>| unique.into_iter().map(|column| column + left.columns.len()).collect();
    let (_, pads_right) = spec.kind.pads();
    match spec.kind {
        kind if !kind.gives_pairs() => of_left,
        // A left row has at most one match.
        _ if is_of_keys(right) && !pads_right && of_left.is_some() => of_left,
        StreamJoinKind::Inner | StreamJoinKind::Right if is_of_keys(left) && of_right.is_some() => {
            of_right.map(shifted)
        }
        // Rows without a match have NULL for the keys of the other side.
        _ if of_left.is_some() && of_right.is_some() => {
            Some(of_left.into_iter().flatten().chain(of_right.map(shifted).unwrap_or_default()).collect())
        }
        _ => None,
    }
}

/// The kind, and whether the sides are swapped.
fn kind(join: &Join) -> Result<(StreamJoinKind, bool)> {
    Ok(match join.join_type {
        JoinType::Inner => (StreamJoinKind::Inner, false),
        JoinType::Left => (StreamJoinKind::Left, false),
        JoinType::Right => (StreamJoinKind::Right, false),
        JoinType::Full => (StreamJoinKind::Full, false),
        JoinType::LeftSemi => (StreamJoinKind::LeftSemi, false),
        JoinType::RightSemi => (StreamJoinKind::LeftSemi, true),
        JoinType::LeftAnti => (StreamJoinKind::LeftAnti, false),
        JoinType::RightAnti => (StreamJoinKind::LeftAnti, true),
        kind @ (JoinType::LeftMark | JoinType::RightMark) => {
            return Err(Error::internal(format!("{kind} is no join of this algebra")));
        }
    })
}
