//! Windows that an updating aggregate handles: windows over updating rows, and windows with results before
//! their end or after it. The aggregate groups by the window columns.

use std::collections::BTreeMap;

use anabranch_dataflow::{EmissionSpec, Expr, NamedExpr, Window};
use anabranch_model::Result;

use super::Lowering;
use super::session_rows::emitted_once;
use super::stream::Stream;
use super::windowed::{WindowColumn, Windowed};
use crate::rel::{Aggregate, Columns};
use crate::settings::RuntimeMode;

/// How the results of windows are emitted.
pub(super) struct Emission {
    /// The event time of the windows, an additional key.
    pub(super) key: NamedExpr,
    pub(super) spec: EmissionSpec,
    /// The windows, and the window column of each key of the aggregation.
    windowed: Windowed,
    columns: BTreeMap<usize, WindowColumn>,
}

impl Lowering<'_> {
    /// The emission of the windows, if the rows or the options require an updating aggregate. The windows are
    /// then assigned, and their columns become ordinary keys.
    pub(super) fn emission(
        &self,
        aggregate: &Aggregate,
        below: &Columns,
        stream: &mut Stream,
    ) -> Result<Option<Emission>> {
        let is_final = stream.bounded && self.mode != RuntimeMode::Streaming;
        let (early, lateness_ms) = match self.table.emission.filter(|_| !is_final) {
            Some(emission) => emission,
            None if stream.weight.is_some() => (false, 0),
            None => return Ok(None),
        };
        let keys = aggregate.group_expr.iter().map(|key| stream.plain_column(key, below));
        let keys: Vec<Option<usize>> =
            keys.map(|key| key.filter(|column| stream.window_column(*column).is_some())).collect();
        let Some(windowed) = stream.window.as_ref().filter(|windowed| {
            let are_rows = !windowed.has_columns || windowed.assigned || stream.weight.is_some();
            are_rows && keys.iter().any(Option::is_some)
        }) else {
            return Ok(None);
        };
        if matches!(windowed.window, Window::Session { .. }) {
            return Err(emitted_once());
        }
        stream.assign_windows()?;
        let Some(windowed) = stream.window.take() else { return Ok(None) };
        let window_of = |key: &Option<usize>| key.and_then(|column| stream.columns[column].window);
        let columns = keys.iter().enumerate().filter_map(|(index, key)| Some((index, window_of(key)?))).collect();
        stream.columns.iter_mut().for_each(|column| column.window = None);
        let (expr, data_type) = (windowed.time.clone(), windowed.time_type.clone());
        let key = NamedExpr { name: "window_time".into(), expr, data_type, nullable: false };
        let spec = EmissionSpec { time: aggregate.group_expr.len(), lateness_ms, early };
        Ok(Some(Emission { key, spec, windowed, columns }))
    }
}

impl Stream {
    /// After an aggregation that emits each window once, the window columns are event times.
    pub(super) fn follow(&mut self, emission: Emission) {
        let Emission { spec, windowed, columns, .. } = emission;
        if !spec.is_once() {
            return;
        }
        let lags = columns.iter().map(|(index, column)| Some((*index, windowed.lag_ms(*column)?)));
        self.times = lags.flatten().collect();
        for (index, column) in columns {
            self.columns[index].window = Some(column);
        }
        self.window = Some(Windowed { time: Expr::Column(spec.time), assigned: false, ..windowed });
        self.has_event_time = true;
    }
}
