//! Lowers window table functions, see [`super`].

use anabranch_model::{Error, Result};
use datafusion_expr::ExprSchemable;

use super::join_times::plain_time;
use super::stream::Stream;
use super::stream_join::late_times;
use super::windowed::Windowed;
use super::{Lowering, Needed, Want, columns_of};
use crate::maps::shown;
use crate::place::planning_error;
use crate::rel::Rel;
use crate::window_assign::WindowAssign;

impl Lowering<'_> {
    pub(super) fn assign(&mut self, assign: &WindowAssign, want: &Want) -> Result<Stream> {
        let needed = &want.columns;
        let inputs = assign.input.width();
        let index = assign.input.columns();
        let mut below = columns_of(std::iter::once(&assign.time).chain(&assign.partition), index)?;
        below.extend(needed.iter().filter(|index| **index < inputs));
        let stream = self.plan_by(assign.by_clock, &assign.input, &below)?;
        let mut stream = self.rows_in_batch(stream)?;
        if stream.weight.is_some() && assign.by_clock {
            return Err(Error::user("windows of processing time need append-only rows, but these rows are updated")
                .remedy("use windows of event time, or read an append-only table"));
        }
        if !stream.has_event_time {
            return Err(Error::user("a window needs a table with a watermark").remedy("declare WATERMARK FOR"));
        }
        let column = plain_time(&assign.time, index);
        if column.and_then(|column| stream.times.get(&column)).is_none_or(|ms| *ms > 0) {
            return Err(Error::user(format!("'{}' is no longer an event-time column", shown(&assign.time))).remedy(
                "a join of two streams keeps it if the condition bounds its distance from an event time of the other \
                 side: a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts",
            ));
        }
        // The columns of an earlier window are ordinary columns from here on.
        stream.times = late_times(std::mem::take(&mut stream.times), &stream.columns, stream.zone.as_deref());
        stream.leave_window()?;
        let time = stream.expr(&assign.time, index)?;
        let time_type = assign.time.get_type(index).map_err(planning_error)?;
        let mut partition = Vec::new();
        for (number, key) in assign.partition.iter().enumerate() {
            partition.push(stream.column(format!("$session_key_{number}"), key, index)?);
        }
        let (zone, places) = (assign.zone.as_deref(), self.origins.present.clone());
        stream.set_window(Windowed::lazily(assign.window, time, time_type, partition, zone, places), assign);
        match stream.open_sessions().is_some() && !want.sessions {
            true => self.session_rows(stream),
            false => Ok(stream),
        }
    }

    /// Lowers the input of windows or window functions over processing time or event time.
    pub(super) fn plan_by(&mut self, by_clock: bool, input: &Rel, needed: &Needed) -> Result<Stream> {
        let outer = self.by_clock.replace(by_clock);
        if outer.is_some_and(|outer| outer != by_clock) {
            return Err(Error::user("windows of event time and of processing time are combined")
                .remedy("use one of them for both, or write the results of the first windows to a table"));
        }
        let stream = self.plan(input, needed);
        self.by_clock = outer;
        stream
    }
}
