//! Which columns of a query are event times: columns that the watermark of their rows accompanies.
//!
//! The planner propagates the mark of a table's event-time column with the column, even where rows are no longer
//! accompanied by it: in the rows of a join's static side, and in the results of an aggregation, which are emitted when
//! their window ends and not at the time of one of their rows. So a marked column is traced to its origin.

use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Aggregate, Expr, Filter, Join, JoinType, LogicalPlan, Projection, Window};

use crate::lower::{bounded_number, first_by, row_number};
use crate::processing_time::is_call;
use crate::table::static_sides;
use crate::temporal_join::TemporalJoin;
use crate::unnest::Unnest;
use crate::window_assign::{EVENT_TIME, WINDOW_COLUMNS, WindowAssign};

/// The origin of an event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventTime {
    /// The records, or the windows of earlier rows.
    Record,
    /// `window_time` of the rows' windows: it stays an event time when they are aggregated.
    Window,
    /// `PROCTIME()` of the records.
    Processing,
    /// `window_time` of windows of processing time.
    ProcessingWindow,
}

impl EventTime {
    /// Whether it stays an event time where rows are emitted when their windows end.
    fn is_of_window(self) -> bool {
        matches!(self, EventTime::Window | EventTime::ProcessingWindow)
    }

    /// Whether it is processing time.
    pub(crate) fn by_clock(self) -> bool {
        matches!(self, EventTime::Processing | EventTime::ProcessingWindow)
    }

    fn of_records(self) -> EventTime {
        if self.by_clock() { EventTime::Processing } else { EventTime::Record }
    }
}

/// The kind of event time of a column; `None` if it is not one.
pub(crate) fn event_time_of(plan: &LogicalPlan, index: usize) -> Option<EventTime> {
    match plan {
        LogicalPlan::Projection(projection) => of_projection(projection, index),
        LogicalPlan::Filter(filter) => {
            // First rows come when others take their place, as rows that are updated: of processing time this is another time, unless they are
            // the first ones by it. Those of windows come when these end.
            let stays = |time: &EventTime| {
                let of_window = numbered(&filter.input).is_some_and(numbers_windows);
                time.is_of_window() || !of_window && !time.by_clock() || are_first_by_time(filter)
            };
            event_time_of(&filter.input, index).filter(|time| bounded_number(filter).is_none() || stays(time))
        }
        LogicalPlan::SubqueryAlias(alias) => event_time_of(&alias.input, index),
        LogicalPlan::Sort(sort) => event_time_of(&sort.input, index),
        LogicalPlan::Limit(limit) => event_time_of(&limit.input, index),
        // What is left of a query that the optimizer knows to have no rows.
        LogicalPlan::EmptyRelation(empty) => {
            let is_marked = empty.schema.field(index).metadata().contains_key(EVENT_TIME);
            (is_marked && !empty.produce_one_row).then_some(EventTime::Record)
        }
        LogicalPlan::TableScan(scan) => {
            let inlined = scan.source.get_logical_plan()?;
            let index = scan.projection.as_ref().map_or(Some(index), |columns| columns.get(index).copied())?;
            event_time_of(&inlined, index)
        }
        LogicalPlan::Extension(extension) => {
            if let Some(unnest) = extension.node.as_any().downcast_ref::<Unnest>() {
                return (index < unnest.input.schema().fields().len()).then(|| event_time_of(&unnest.input, index))?;
            }
            if let Some(join) = extension.node.as_any().downcast_ref::<TemporalJoin>() {
                return (index < join.left.schema().fields().len()).then(|| event_time_of(&join.left, index))?;
            }
            let assign = extension.node.as_any().downcast_ref::<WindowAssign>()?;
            let inputs = assign.input.schema().fields().len();
            match index.checked_sub(inputs) {
                None => event_time_of(&assign.input, index).map(EventTime::of_records),
                Some(column) => {
                    let kind = if assign.by_clock { EventTime::ProcessingWindow } else { EventTime::Window };
                    (WINDOW_COLUMNS.get(column) == Some(&"window_time")).then_some(kind)
                }
            }
        }
        LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate, index),
        LogicalPlan::Distinct(distinct) => event_time_of(distinct.input(), index).filter(|time| time.is_of_window()),
        LogicalPlan::Window(window) if index < window.input.schema().fields().len() => {
            event_time_of(&window.input, index)
        }
        LogicalPlan::Join(join) => of_join(join, index),
        LogicalPlan::Union(union) => {
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

/// Whether a filter lets the first row of each key pass, in the order of a time.
fn are_first_by_time(filter: &Filter) -> bool {
    bounded_number(filter).is_some_and(|(limit, _)| limit == 1) && numbered(&filter.input).and_then(first_by).is_some()
}

/// The numbering of rows below a filter of their numbers.
fn numbered(plan: &LogicalPlan) -> Option<&Window> {
    match plan {
        LogicalPlan::Window(window) => Some(window),
        LogicalPlan::SubqueryAlias(alias) => numbered(&alias.input),
        LogicalPlan::Projection(projection) => numbered(&projection.input),
        _ => None,
    }
}

/// Whether a column of a window divides the rows that are numbered.
#[expect(clippy::disallowed_methods, reason = "one column of each")]
fn numbers_windows(window: &Window) -> bool {
    fn is_of_window(plan: &LogicalPlan, index: usize) -> bool {
        match plan {
            LogicalPlan::Projection(projection) => match projection.expr[index].clone().unalias() {
                Expr::Column(column) => {
                    let place = projection.input.schema().maybe_index_of_column(&column);
                    place.is_some_and(|place| is_of_window(&projection.input, place))
                }
                _ => false,
            },
            LogicalPlan::Extension(extension) => match extension.node.as_any().downcast_ref::<WindowAssign>() {
                Some(assign) => index >= assign.input.schema().fields().len(),
                None => false,
            },
            LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_) | LogicalPlan::Window(_) => {
                let input = plan.inputs()[0];
                index < input.schema().fields().len() && is_of_window(input, index)
            }
            _ => false,
        }
    }
    let input = &window.input;
    row_number(window).is_some_and(|call| {
        call.params.partition_by.iter().any(|key| match key {
            Expr::Column(column) => {
                input.schema().maybe_index_of_column(column).is_some_and(|place| is_of_window(input, place))
            }
            _ => false,
        })
    })
}

fn of_projection(projection: &Projection, index: usize) -> Option<EventTime> {
    let mut expr = projection.expr.get(index)?;
    while let Expr::Alias(alias) = expr {
        // The projection of a declared table: event times originate here.
        if alias.metadata.as_ref().is_some_and(|metadata| metadata.inner().contains_key(EVENT_TIME)) {
            return Some(EventTime::Record);
        }
        expr = &alias.expr;
    }
    if is_call(expr) {
        return Some(EventTime::Processing);
    }
    of_column(expr, &projection.input)
}

fn of_aggregate(aggregate: &Aggregate, index: usize) -> Option<EventTime> {
    // Each of several groupings has the columns of the window.
    let keys = grouping_set_to_exprlist(&aggregate.group_expr).ok()?;
    let key = *keys.get(index)?;
    of_column(key, &aggregate.input).filter(|time| time.is_of_window())
}

/// The rows of a side that is read first do not keep their order. Those of a join of two streams do where its condition bounds how far event
/// times are apart, which is known when the plan is lowered.
fn of_join(join: &Join, index: usize) -> Option<EventTime> {
    let left = join.left.schema().fields().len();
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

#[expect(clippy::disallowed_methods, reason = "one column")]
fn of_column(expr: &Expr, input: &LogicalPlan) -> Option<EventTime> {
    match expr {
        Expr::Column(column) => event_time_of(input, input.schema().maybe_index_of_column(column)?),
        _ => None,
    }
}
