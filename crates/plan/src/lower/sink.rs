//! The end of a query: writes its rows to a table.

use anabranch_dataflow::{SinkSpec, Updates};
use anabranch_model::{Error, Result};

use super::query_text::query_text;
use super::stream::Stream;
use super::{Lowering, Output, Want};
use crate::settings::RuntimeMode;

impl Lowering<'_> {
    pub(super) fn output(&mut self, output: &Output) -> Result<()> {
        let fields = output.plan.columns().fields();
        let mut want = Want::columns((0..fields.len()).collect());
        if matches!(output.updates, Updates::Upserted | Updates::Shown) && self.mode != RuntimeMode::Batch {
            // The sink may drop a row whose NOT NULL column is NULL.
            let stays = |column: &usize| output.sink.schema.field(*column).is_nullable() || !self.table.drop_nulls;
            want.may_vary =
                (0..fields.len()).filter(|column| !output.sink.key.contains(column)).filter(stays).collect();
        }
        let mut stream = self.wanted(&output.plan, &want)?;
        stream.shape_for_sink(&output.sink.schema)?;
        if self.mode == RuntimeMode::Batch && !stream.bounded {
            return Err(Error::user("'execution.runtime-mode' = 'batch' needs bounded tables")
                .remedy("SET 'execution.runtime-mode' = 'automatic'"));
        }
        let key = &output.sink.key;
        if output.updates == Updates::Upserted
            && output.deduplicates
            && let Some(weight) = stream.weight_of_conflicts(key)
        {
            if let Some(varies) = &stream.varies {
                return Err(Error::user(format!("{varies} would have another value when a row is retracted"))
                    .remedy("declare the columns that identify the rows of the query as the table's primary key"));
            }
            stream = self.latest_of_keys(stream, weight, key);
        }
        if self.mode == RuntimeMode::Batch {
            if output.updates != Updates::Refused {
                check_sink(output, &stream)?;
            }
            stream = self.final_rows(stream)?;
        }
        check_sink(output, &stream)?;
        if let Some(parallelism) = output.parallelism.filter(|p| *p != stream.parallelism) {
            let kind = stream.divided_for_sink(&output.sink.key);
            stream = self.exchange(stream, kind, parallelism, format!("sink {}", output.sink.table));
            stream.tasks_max = Some(parallelism);
        }
        stream.require_values(&output.sink, self.table.drop_nulls);
        let updating = stream.weight.is_some();
        let id = self.close(stream);
        let stage = &mut self.lowered.stages[id.0 as usize];
        stage.sink = Some(SinkSpec { updating, ..output.sink.clone() });
        stage.origin.sink.extend(output.place);
        stage.query = Some(query_text(&output.plan)?);
        Ok(())
    }
}

/// Checks that the table can take the rows.
fn check_sink(output: &Output, stream: &Stream) -> Result<()> {
    let (table, key) = (&output.sink.table, &output.sink.key);
    if stream.weight.is_none() || matches!(output.updates, Updates::Written | Updates::Shown) {
        return Ok(());
    }
    if output.updates == Updates::Refused {
        return Err(Error::user(format!(
            "the results are updated, but table '{table}' ('{}') cannot change written rows",
            output.sink.connector.connector
        ))
        .remedy(
            "write to a table of connector 'upsert-kafka', 'jdbc' with a primary key, 'print' or 'blackhole', or group by a window: add \
             window_start, window_end of FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) to GROUP BY",
        ));
    }
    if stream.is_unique_by(key) {
        return Ok(());
    }
    let names = |columns: &[usize]| {
        columns.iter().map(|column| output.sink.schema.field(*column).name().as_str()).collect::<Vec<_>>().join(", ")
    };
    let error =
        Error::user(format!("the primary key ({}) of '{table}' does not identify the rows of the query", names(key)));
    let declared = match &stream.unique {
        Some(unique) => format!("declare PRIMARY KEY ({}) NOT ENFORCED: these columns identify a row", names(unique)),
        None => {
            "select all columns of GROUP BY, and all columns that the last join compares, and declare them as the primary key"
                .to_owned()
        }
    };
    let latest = "; or write ON CONFLICT DO DEDUPLICATE, so that the table has the latest row of each key";
    Err(error.remedy(declared + if output.deduplicates { "" } else { latest }))
}
