//! Finds the event times of a query: columns that a watermark accompanies.
//!
//! The planner marks a table's event-time column and passes the mark on with the column, even where the
//! watermark no longer accompanies the rows: in the rows of a join's static side, and in the results of an
//! aggregation, which are emitted when their window ends. So this module traces a marked column to its
//! origin.

use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Expr, JoinType};

use crate::lower::{bounded_number, first_by, row_number};
use crate::processing_time::is_call;
use crate::rel::{Aggregate, Filter, Join, Over, Project, Rel};
use crate::table::static_sides;
use crate::window_assign::{EVENT_TIME, WINDOW_COLUMNS};

/// The origin of an event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventTime {
    /// The records, or windows of earlier rows.
    Record,
    /// `window_time` of the rows' windows. It stays an event time in an aggregation.
    Window,
    /// `PROCTIME()` of the records.
    Processing,
    /// `window_time` of windows of processing time.
    ProcessingWindow,
}

impl EventTime {
    /// Whether it stays an event time where rows are emitted at the end of their windows.
    fn is_of_window(self) -> bool {
        matches!(self, EventTime::Window | EventTime::ProcessingWindow)
    }

    pub(crate) fn by_clock(self) -> bool {
        matches!(self, EventTime::Processing | EventTime::ProcessingWindow)
    }

    fn of_records(self) -> EventTime {
        if self.by_clock() { EventTime::Processing } else { EventTime::Record }
    }
}

/// The kind of event time of a column. `None`: it is none.
pub(crate) fn event_time_of(plan: &Rel, index: usize) -> Option<EventTime> {
    match plan {
        Rel::Project(projection) => of_projection(projection, index),
        Rel::Filter(filter) => {
            // A top-N emits rows when others replace them, so their processing time changes, unless they are
            // the first rows by processing time. A top-N of windows emits rows when the windows end.
            let stays = |time: &EventTime| {
                let of_window = numbered(&filter.input).is_some_and(numbers_windows);
                time.is_of_window() || !of_window && !time.by_clock() || are_first_by_time(filter)
            };
            event_time_of(&filter.input, index).filter(|time| bounded_number(filter).is_none() || stays(time))
        }
        Rel::Sort(sort) => event_time_of(&sort.input, index),
        Rel::Limit(limit) => event_time_of(&limit.input, index),
        // The optimizer found that the query has no rows.
        Rel::Values(values) => {
            let is_marked = values.columns.field(index).metadata().contains_key(EVENT_TIME);
            (is_marked && values.rows.is_empty()).then_some(EventTime::Record)
        }
        Rel::Unnest(unnest) if index < unnest.input.width() => event_time_of(&unnest.input, index),
        Rel::Temporal(join) if index < join.left.width() => event_time_of(&join.left, index),
        Rel::Assign(assign) => {
            let inputs = assign.input.width();
            match index.checked_sub(inputs) {
                None => event_time_of(&assign.input, index).map(EventTime::of_records),
                Some(column) => {
                    let kind = if assign.by_clock { EventTime::ProcessingWindow } else { EventTime::Window };
                    (WINDOW_COLUMNS.get(column) == Some(&"window_time")).then_some(kind)
                }
            }
        }
        Rel::Aggregate(aggregate) => of_aggregate(aggregate, index),
        Rel::Distinct(distinct) => event_time_of(&distinct.input, index).filter(|time| time.is_of_window()),
        Rel::Over(window) if index < window.input.width() => event_time_of(&window.input, index),
        Rel::Join(join) => of_join(join, index),
        Rel::Union(union) => {
            let all = union.inputs.iter().map(|input| event_time_of(input, index)).collect::<Option<Vec<_>>>()?;
            let by_clock = all.iter().filter(|time| time.by_clock()).count();
            match by_clock {
                0 => Some(EventTime::Record),
                inputs if inputs == all.len() => Some(EventTime::Processing),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether a filter keeps the first row of each key in the order of a time.
fn are_first_by_time(filter: &Filter) -> bool {
    bounded_number(filter).is_some_and(|(limit, _)| limit == 1) && numbered(&filter.input).and_then(first_by).is_some()
}

/// The numbering below a filter on row numbers.
fn numbered(plan: &Rel) -> Option<&Over> {
    match plan {
        Rel::Over(window) => Some(window),
        Rel::Project(projection) => numbered(&projection.input),
        _ => None,
    }
}

/// Whether a column of a window is a partition key of the numbering.
fn numbers_windows(window: &Over) -> bool {
    fn is_of_window(plan: &Rel, index: usize) -> bool {
        match plan {
            Rel::Project(projection) => match &projection.exprs[index] {
                Expr::Column(column) => {
                    let place = projection.input.columns().find(column);
                    place.is_some_and(|place| is_of_window(&projection.input, place))
                }
                _ => false,
            },
            Rel::Assign(assign) => index >= assign.input.width(),
            Rel::Filter(_) | Rel::Over(_) => {
                let input = plan.inputs()[0];
                index < input.width() && is_of_window(input, index)
            }
            _ => false,
        }
    }
    let input = &window.input;
    row_number(window).is_some_and(|call| {
        call.params.partition_by.iter().any(|key| match key {
            Expr::Column(column) => input.columns().find(column).is_some_and(|place| is_of_window(input, place)),
            _ => false,
        })
    })
}

fn of_projection(projection: &Project, index: usize) -> Option<EventTime> {
    let expr = projection.exprs.get(index)?;
    // Event times originate in the projection of a declared table.
    if projection.event_time == Some(projection.columns.id(index)) {
        return Some(EventTime::Record);
    }
    if is_call(expr) {
        return Some(EventTime::Processing);
    }
    of_column(expr, &projection.input)
}

fn of_aggregate(aggregate: &Aggregate, index: usize) -> Option<EventTime> {
    // Each grouping set has the columns of the window.
    let keys = grouping_set_to_exprlist(&aggregate.group_expr).ok()?;
    let key = *keys.get(index)?;
    of_column(key, &aggregate.input).filter(|time| time.is_of_window())
}

/// The static side of a join does not keep its order. The sides of a join of two streams keep it if the
/// condition bounds the distance of their event times, which lowering checks.
fn of_join(join: &Join, index: usize) -> Option<EventTime> {
    let left = join.left.width();
    let (left_static, right_static) = static_sides(&join.left, &join.right);
    let of_streams = !left_static && !right_static;
    let keeps_left = of_streams || right_static && join.join_type != JoinType::Right;
    let keeps_right = of_streams || left_static && !keeps_left;
    match join.join_type {
        JoinType::RightSemi | JoinType::RightAnti => event_time_of(&join.right, index),
        _ if index < left && keeps_left => event_time_of(&join.left, index),
        _ if index >= left && keeps_right => event_time_of(&join.right, index - left),
        _ => None,
    }
}

fn of_column(expr: &Expr, input: &Rel) -> Option<EventTime> {
    match expr {
        Expr::Column(column) => event_time_of(input, input.columns().find(column)?),
        _ => None,
    }
}
