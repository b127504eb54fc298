//! Window joins: the rows of both sides have the same windows, and the joined rows belong to them too, as in
//! Flink.

use anabranch_dataflow::StreamJoinKind;
use datafusion_expr::Expr as Logical;

use super::join_times::plain_time;
use super::stream::{LogicalColumn, Stream, minus_ms};
use super::windowed::{WindowColumn, Windowed};
use crate::rel::Columns;

/// A side of a join with its windows.
pub(super) struct WindowedSide<'a> {
    pub(super) index: &'a Columns,
    pub(super) columns: &'a [LogicalColumn],
    pub(super) windowed: Option<&'a Windowed>,
}

/// The windows of joined rows, and the logical columns that are window columns.
pub(super) struct JoinedWindows {
    windowed: Windowed,
    columns: Vec<(usize, WindowColumn)>,
}

/// The windows of joined rows, if the keys are the start and the end of the same windows on both sides. The
/// window columns of a padded side are ordinary columns.
pub(super) fn joined_windows(
    kind: StreamJoinKind,
    keys: &[(&Logical, &Logical)],
    [left, right]: [&WindowedSide<'_>; 2],
) -> Option<JoinedWindows> {
    let (of_left, of_right) = (left.windowed?, right.windowed?);
    let windows = |side: &Windowed| (side.window, side.earlier_ms, side.time_type.clone(), side.zone.clone());
    if windows(of_left) != windows(of_right) {
        return None;
    }
    let role = |side: &WindowedSide<'_>, key: &Logical| {
        let column = plain_time(key, side.index)?;
        side.columns.get(column)?.window
    };
    let equal = |of: WindowColumn| keys.iter().any(|(l, r)| role(left, l) == Some(of) && role(right, r) == Some(of));
    if !equal(WindowColumn::Start) || !equal(WindowColumn::End) {
        return None;
    }
    let (pads_left, pads_right) = kind.pads();
    let of_side = |side: &WindowedSide<'_>, first: usize| {
        let roles = side.columns.iter().enumerate();
        roles.filter_map(|(column, of)| Some((first + column, of.window?))).collect::<Vec<_>>()
    };
    let mut columns = Vec::new();
    if !pads_right {
        columns.extend(of_side(left, 0));
    }
    if !pads_left && kind.gives_pairs() {
        columns.extend(of_side(right, left.columns.len()));
    }
    Some(JoinedWindows { windowed: of_left.clone(), columns })
}

impl Stream {
    /// Assigns joined rows to windows, if they are append-only and leave the join before the windows end.
    pub(super) fn belong_to(&mut self, JoinedWindows { windowed, columns }: JoinedWindows) {
        let value = |(column, of): &(usize, WindowColumn)| match of {
            WindowColumn::End => self.columns[*column].value.clone().map(|end| (*column, end)),
            _ => None,
        };
        let Some((column, end)) = columns.iter().find_map(value) else { return };
        let in_time = self.times.get(&column).is_some_and(|ms| *ms < 0);
        if !in_time || self.weight.is_some() {
            return;
        }
        for (column, of) in columns {
            self.columns[column].window = Some(of);
        }
        self.window = Some(Windowed { time: minus_ms(end, 1), assigned: true, ..windowed });
    }
}
