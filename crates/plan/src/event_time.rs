//! Finds the time attributes of a query: its columns of event time, which a watermark accompanies, and its
//! columns of processing time.
//!
//! The planner marks the event-time column of a table, and passes the mark on with the column. A column keeps
//! the mark even where the watermark no longer accompanies its rows. Such rows are those of the static side
//! of a join, and the results of an aggregation, which are emitted when their windows end. So this module
//! traces a column to its origin.

use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Expr, JoinType};

use crate::lower::{bounded_number, first_by, row_number};
use crate::processing_time::is_call;
use crate::rel::{Aggregate, Filter, Join, Over, Project, Rel};
use crate::table::static_sides;
use crate::window_assign::{EVENT_TIME, WINDOW_COLUMNS};

/// The origin of a time attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeAttribute {
    /// The event time of a record, or `window_time` of an earlier window of event time.
    Record,
    /// `window_time` of the row's window of event time.
    Window,
    /// `PROCTIME()` of a record, or `window_time` of an earlier window of processing time.
    Processing,
    /// `window_time` of the row's window of processing time.
    ProcessingWindow,
}

impl TimeAttribute {
    /// Whether it stays a time attribute where rows are emitted at the ends of their windows, such as in an
    /// aggregation.
    fn is_of_window(self) -> bool {
        matches!(self, TimeAttribute::Window | TimeAttribute::ProcessingWindow)
    }

    pub(crate) fn is_processing_time(self) -> bool {
        matches!(self, TimeAttribute::Processing | TimeAttribute::ProcessingWindow)
    }

    /// What it is after rows are assigned to new windows: a time of records.
    fn of_records(self) -> TimeAttribute {
        if self.is_processing_time() { TimeAttribute::Processing } else { TimeAttribute::Record }
    }
}

/// The time attribute that a column of a plan is. `None`: the column is no time attribute.
pub(crate) fn time_attribute_of(plan: &Rel, index: usize) -> Option<TimeAttribute> {
    match plan {
        Rel::Project(projection) => of_projection(projection, index),
        Rel::Filter(filter) => {
            // A top-N of windows emits rows at the ends of their windows. Another top-N retracts rows, and a
            // row and its retraction have different processing times. The first row of each key is never
            // retracted.
            let stays = |time: &TimeAttribute| {
                let of_window = over_below(&filter.input).is_some_and(numbers_rows_of_windows);
                time.is_of_window() || !of_window && !time.is_processing_time() || keeps_first_by_time(filter)
            };
            time_attribute_of(&filter.input, index).filter(|time| bounded_number(filter).is_none() || stays(time))
        }
        Rel::Sort(sort) => time_attribute_of(&sort.input, index),
        Rel::Limit(limit) => time_attribute_of(&limit.input, index),
        // The optimizer found that the query has no rows.
        Rel::Values(values) => {
            let is_marked = values.columns.field(index).metadata().contains_key(EVENT_TIME);
            (is_marked && values.rows.is_empty()).then_some(TimeAttribute::Record)
        }
        Rel::Unnest(unnest) if index < unnest.input.width() => time_attribute_of(&unnest.input, index),
        Rel::Temporal(join) if index < join.left.width() => time_attribute_of(&join.left, index),
        Rel::Assign(assign) => {
            let inputs = assign.input.width();
            match index.checked_sub(inputs) {
                None => time_attribute_of(&assign.input, index).map(TimeAttribute::of_records),
                Some(column) => {
                    let kind = if assign.by_clock { TimeAttribute::ProcessingWindow } else { TimeAttribute::Window };
                    (WINDOW_COLUMNS.get(column) == Some(&"window_time")).then_some(kind)
                }
            }
        }
        Rel::Aggregate(aggregate) => of_aggregate(aggregate, index),
        Rel::Distinct(distinct) => time_attribute_of(&distinct.input, index).filter(|time| time.is_of_window()),
        Rel::Over(window) if index < window.input.width() => time_attribute_of(&window.input, index),
        Rel::Join(join) => of_join(join, index),
        Rel::Union(union) => {
            let all = union.inputs.iter().map(|input| time_attribute_of(input, index)).collect::<Option<Vec<_>>>()?;
            let processing_times = all.iter().filter(|time| time.is_processing_time()).count();
            match processing_times {
                0 => Some(TimeAttribute::Record),
                inputs if inputs == all.len() => Some(TimeAttribute::Processing),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether a filter passes only the first row of each key by a time attribute (`ROW_NUMBER() = 1`).
fn keeps_first_by_time(filter: &Filter) -> bool {
    bounded_number(filter).is_some_and(|(limit, _)| limit == 1)
        && over_below(&filter.input).and_then(first_by).is_some()
}

/// The `OVER` operator of a plan, below projections. If a filter on row numbers is above, this operator
/// computes the numbers.
fn over_below(plan: &Rel) -> Option<&Over> {
    match plan {
        Rel::Over(window) => Some(window),
        Rel::Project(projection) => over_below(&projection.input),
        _ => None,
    }
}

/// Whether `ROW_NUMBER` numbers the rows of each window: its partition keys include a column of the window.
fn numbers_rows_of_windows(window: &Over) -> bool {
    fn is_of_window(plan: &Rel, index: usize) -> bool {
        match plan {
            Rel::Project(projection) => match &projection.exprs[index] {
                Expr::Column(column) => {
                    let index = projection.input.columns().find(column);
                    index.is_some_and(|index| is_of_window(&projection.input, index))
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
            Expr::Column(column) => input.columns().find(column).is_some_and(|index| is_of_window(input, index)),
            _ => false,
        })
    })
}

fn of_projection(projection: &Project, index: usize) -> Option<TimeAttribute> {
    let expr = projection.exprs.get(index)?;
    // Event times originate in the projection of a declared table.
    if projection.event_time == Some(projection.columns.id(index)) {
        return Some(TimeAttribute::Record);
    }
    if is_call(expr) {
        return Some(TimeAttribute::Processing);
    }
    of_column(expr, &projection.input)
}

fn of_aggregate(aggregate: &Aggregate, index: usize) -> Option<TimeAttribute> {
    // Each grouping set has the columns of the window.
    let keys = grouping_set_to_exprlist(&aggregate.group_expr).ok()?;
    let key = *keys.get(index)?;
    of_column(key, &aggregate.input).filter(|time| time.is_of_window())
}

/// The time attribute that a column of a join is.
///
/// A column of the static side is no time attribute, because the rows of the join are emitted in the order of
/// the other side. A RIGHT JOIN of a stream with a static right side has no time attribute. A column of a
/// join of two streams stays one if the condition bounds the distance of the event times of both sides.
/// Lowering checks this.
fn of_join(join: &Join, index: usize) -> Option<TimeAttribute> {
    let left = join.left.width();
    let (left_static, right_static) = static_sides(&join.left, &join.right);
    let of_streams = !left_static && !right_static;
    let keeps_left = of_streams || right_static && join.join_type != JoinType::Right;
    let keeps_right = of_streams || left_static && !keeps_left;
    match join.join_type {
        JoinType::RightSemi | JoinType::RightAnti => time_attribute_of(&join.right, index),
        _ if index < left && keeps_left => time_attribute_of(&join.left, index),
        _ if index >= left && keeps_right => time_attribute_of(&join.right, index - left),
        _ => None,
    }
}

fn of_column(expr: &Expr, input: &Rel) -> Option<TimeAttribute> {
    match expr {
        Expr::Column(column) => time_attribute_of(input, input.columns().find(column)?),
        _ => None,
    }
}
