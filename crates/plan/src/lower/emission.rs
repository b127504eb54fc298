//! Results of windows that are emitted before their window ends, or that late rows change: an updating aggregate by the columns of the
//! window.

use anabranch_dataflow::{EmissionSpec, NamedExpr, Window};
use anabranch_model::Result;
use datafusion_expr::Aggregate;

use super::Lowering;
use super::column_index::ColumnIndex;
use super::session_rows::emitted_once;
use super::stream::Stream;
use super::windowed::WindowColumn;
use crate::settings::RuntimeMode;

impl Lowering<'_> {
    /// The key by which such results are emitted, if options ask for them, and when that is. Each row has the columns of its window then,
    /// which are columns like others.
    pub(super) fn emission(
        &self,
        aggregate: &Aggregate,
        below: &ColumnIndex,
        stream: &mut Stream,
    ) -> Result<Option<(NamedExpr, EmissionSpec)>> {
        let Some((early, lateness_ms)) = self.table.emission else { return Ok(None) };
        if stream.bounded && self.mode != RuntimeMode::Streaming {
            return Ok(None);
        }
        let columns = aggregate.group_expr.iter().filter_map(|key| stream.plain_column(key, below));
        let columns: Vec<WindowColumn> = columns.filter_map(|column| stream.columns[column].window).collect();
        let Some(windowed) =
            stream.window.as_ref().filter(|windowed| (!windowed.settled || windowed.assigned) && !columns.is_empty())
        else {
            return Ok(None);
        };
        if matches!(windowed.window, Window::Session { .. }) {
            return Err(emitted_once());
        }
        stream.settle_window()?;
        let Some(windowed) = stream.window.take() else { return Ok(None) };
        stream.columns.iter_mut().for_each(|column| column.window = None);
        let (expr, data_type) = (windowed.time, windowed.time_type);
        let key = NamedExpr { name: "window_time".into(), expr, data_type, nullable: false };
        Ok(Some((key, EmissionSpec { time: 0, lateness_ms, early })))
    }
}
