//! The logical node of a window table function: its input with `window_start`, `window_end` and `window_time`.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use anabranch_dataflow::Window;
use arrow::datatypes::{DataType, Field};
use datafusion_common::{DFSchema, DFSchemaRef, Result, internal_err};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, UserDefinedLogicalNodeCore};

use crate::zones::without_zone;

/// Key of the field metadata that marks an event-time attribute: a column whose values a watermark accompanies.
pub(crate) const EVENT_TIME: &str = "anabranch.event_time";

/// The columns that a window table function adds, in order.
pub(crate) const WINDOW_COLUMNS: [&str; 3] = ["window_start", "window_end", "window_time"];
/// Their names below a window of GROUP BY, whose query cannot name them: its input may have columns called as those of a table function.
pub(crate) const GROUP_WINDOW_COLUMNS: [&str; 3] = ["$window_start", "$window_end", "$window_time"];

/// The node; see the module.
#[derive(Debug)]
pub(crate) struct WindowAssign {
    pub(crate) window: Window,
    /// The event-time column, over the input.
    pub(crate) time: Expr,
    /// What divides the rows, over the input: each value has sessions of its own.
    pub(crate) partition: Vec<Expr>,
    /// The time is processing time.
    pub(crate) by_clock: bool,
    /// The time zone in which windows of instants are aligned. `None`: UTC.
    pub(crate) zone: Option<String>,
    /// What the columns of windows are called: [`WINDOW_COLUMNS`] or [`GROUP_WINDOW_COLUMNS`].
    names: [&'static str; 3],
    pub(crate) input: Arc<LogicalPlan>,
    schema: DFSchemaRef,
}

impl WindowAssign {
    pub(crate) fn new(
        (window, names): (Window, [&'static str; 3]),
        time: Expr,
        partition: Vec<Expr>,
        by_clock: bool,
        input: LogicalPlan,
    ) -> Result<Self> {
        WindowAssign {
            window,
            time,
            partition,
            by_clock,
            zone: None,
            names,
            input: Arc::new(input),
            schema: Arc::new(DFSchema::empty()),
        }
        .with_columns()
    }

    /// The same in the time zone of a session. The bounds of windows of instants are local times there.
    pub(crate) fn in_zone(&self, zone: &str) -> Result<Self> {
        let is_instant = matches!(self.time.get_type(self.input.schema())?, DataType::Timestamp(_, Some(_)));
        WindowAssign {
            window: self.window,
            time: self.time.clone(),
            partition: self.partition.clone(),
            by_clock: self.by_clock,
            zone: is_instant.then(|| zone.to_owned()),
            names: self.names,
            input: Arc::clone(&self.input),
            schema: Arc::clone(&self.schema),
        }
        .with_columns()
    }

    /// Adds the columns of windows to those of the input.
    fn with_columns(mut self) -> Result<Self> {
        let input = &self.input;
        let data_type: DataType = self.time.get_type(input.schema())?;
        let mut fields: Vec<_> =
            input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect();
        let bound_type = if self.zone.is_some() { without_zone(&data_type) } else { data_type.clone() };
        for name in self.names {
            let mut field = Field::new(name, bound_type.clone(), false);
            if name == self.names[2] {
                field = Field::new(name, data_type.clone(), false)
                    .with_metadata([(EVENT_TIME.to_string(), "true".to_string())].into());
            }
            fields.push((None, Arc::new(field)));
        }
        self.schema = Arc::new(DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?);
        Ok(self)
    }

    fn rank(&self) -> String {
        let mut text = format!("{} over {}", self.window, self.time);
        for (place, key) in self.partition.iter().enumerate() {
            text.push_str(&format!("{}{key}", if place == 0 { " by " } else { ", " }));
        }
        if let Some(zone) = &self.zone {
            text.push_str(&format!(" in {zone}"));
        }
        text
    }
}

impl PartialEq for WindowAssign {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank() && self.names == other.names && self.input == other.input
    }
}

impl Eq for WindowAssign {}

impl PartialOrd for WindowAssign {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        self.rank().partial_cmp(&other.rank()).filter(|order| *order != Ordering::Equal)
    }
}

impl Hash for WindowAssign {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        self.input.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for WindowAssign {
    fn name(&self) -> &str {
        "WindowAssign"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        std::iter::once(&self.time).chain(&self.partition).cloned().collect()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let mut prevented: HashSet<String> = self.names.iter().map(ToString::to_string).collect();
        if matches!(self.window, Window::Session { .. }) {
            // Fewer rows make other sessions, unless all rows of a key are dropped.
            let is_key = |name: &str| self.partition.iter().any(|key| matches!(key, Expr::Column(c) if c.name == name));
            // 0.0 and -0.0 are one key, but a condition may distinguish them.
            let columns = self.input.schema().fields().iter();
            let others = columns.filter(|field| !is_key(field.name()) || field.data_type().is_floating());
            prevented.extend(others.map(|field| field.name().clone()));
        }
        prevented
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "WindowAssign: {}", self.rank())
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut exprs = exprs.into_iter();
        match (exprs.next(), <[LogicalPlan; 1]>::try_from(inputs)) {
            (Some(time), Ok([input])) => {
                let assign = WindowAssign::new((self.window, self.names), time, exprs.collect(), self.by_clock, input)?;
                match self.zone.as_deref() {
                    Some(zone) => assign.in_zone(zone),
                    None => Ok(assign),
                }
            }
            _ => internal_err!("WindowAssign has a time and one input"),
        }
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // The time column and the keys are among `expressions`.
        let inputs = self.input.schema().fields().len();
        Some(vec![output_columns.iter().copied().filter(|index| *index < inputs).collect()])
    }
}
