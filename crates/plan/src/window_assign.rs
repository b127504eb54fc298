//! The operator of a window table function: adds `window_start`, `window_end` and `window_time` to its input.

use std::collections::HashMap;
use std::sync::Arc;

use anabranch_dataflow::Window;
use arrow::datatypes::{DataType, Field};
use datafusion_common::{Column, Result};
use datafusion_expr::{Expr, ExprSchemable};

use crate::rel::{Col, Columns, Rel, fresh, name_of};
use crate::zones::without_zone;

/// The key of the field metadata that marks an event-time column, which a watermark accompanies.
pub(crate) const EVENT_TIME: &str = "anabranch.event_time";

/// The columns that a window table function adds, in order.
pub(crate) const WINDOW_COLUMNS: [&str; 3] = ["window_start", "window_end", "window_time"];
/// Their names for a window of GROUP BY. No query can write them, so they never collide with columns of a
/// window table function below.
pub(crate) const GROUP_WINDOW_COLUMNS: [&str; 3] = ["$window_start", "$window_end", "$window_time"];

/// The operator; see the module.
#[derive(Clone, Debug)]
pub(crate) struct WindowAssign {
    pub(crate) window: Window,
    /// The event-time column, over the input.
    pub(crate) time: Expr,
    /// The keys of sessions, over the input.
    pub(crate) partition: Vec<Expr>,
    /// Whether the time is processing time.
    pub(crate) by_clock: bool,
    /// The time zone in which windows of instants are aligned. `None`: UTC.
    pub(crate) zone: Option<String>,
    pub(crate) input: Arc<Rel>,
    /// The columns of the input and of the windows, named [`WINDOW_COLUMNS`] or [`GROUP_WINDOW_COLUMNS`].
    pub(crate) columns: Arc<Columns>,
}

impl WindowAssign {
    pub(crate) fn new(
        (window, names): (Window, [&'static str; 3]),
        time: Expr,
        partition: Vec<Expr>,
        by_clock: bool,
        input: Rel,
    ) -> Result<Self> {
        WindowAssign { window, time, partition, by_clock, zone: None, input: Arc::new(input), columns: Arc::default() }
            .with_added(names.map(fresh))
    }

    /// The operator in the time zone of a session, where the bounds of windows of instants are local times.
    pub(crate) fn in_zone(&self, zone: &str) -> Result<Self> {
        let is_instant = matches!(self.time.get_type(self.input.columns())?, DataType::Timestamp(_, Some(_)));
        WindowAssign { zone: is_instant.then(|| zone.to_owned()), ..self.clone() }.with_columns()
    }

    /// Derives the columns: those of the input and of the windows.
    pub(crate) fn with_columns(self) -> Result<Self> {
        let inputs = self.columns.len() - WINDOW_COLUMNS.len();
        let added = std::array::from_fn(|place| self.columns.id(inputs + place));
        self.with_added(added)
    }

    fn with_added(mut self, [start, end, time]: [Column; 3]) -> Result<Self> {
        let below = self.input.columns();
        let data_type = self.time.get_type(below)?;
        let bound_type = if self.zone.is_some() { without_zone(&data_type) } else { data_type.clone() };
        let col = |id: Column, data_type: &DataType, metadata: HashMap<String, String>| {
            let field = Field::new(name_of(&id), data_type.clone(), false).with_metadata(metadata);
            Col::new(id, Arc::new(field))
        };
        let mark = HashMap::from([(EVENT_TIME.to_owned(), "true".to_owned())]);
        let bounds = [start, end].map(|id| col(id, &bound_type, HashMap::new()));
        self.columns = below.with(bounds.into_iter().chain([col(time, &data_type, mark)]))?;
        Ok(self)
    }

    /// Whether a condition on a column of the input can move below the assignment of windows.
    pub(crate) fn lets_pass(&self, column: &Column) -> bool {
        let Some(place) = self.input.columns().find(column) else { return false };
        if !self.window.follows_rows() {
            return true;
        }
        // Dropping rows changes sessions, unless all rows of a key are dropped. 0.0 and -0.0 are one key, but
        // a condition may distinguish them.
        let is_key = self.partition.iter().any(|key| matches!(key, Expr::Column(key) if key == column));
        is_key && !self.input.columns().field(place).data_type().is_floating()
    }
}
