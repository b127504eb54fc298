//! Converts scans to sources: the columns to decode, and the event time.

use std::sync::Arc;

use anabranch_dataflow::{Lateness, OnLate, SourceSpec, WatermarkSpec};
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field};
use datafusion_common::Column;
use datafusion_expr::Expr as LogicalExpr;

use super::expr::{convert, unknown};
use super::stream::{LogicalColumn, Stream};
use super::{Lowering, Needed, Want};
use crate::place::planning_error;
use crate::processing_time::is_read_by;
use crate::rel::{Get, Rel};
use crate::rewrite::with_values;
use crate::settings::RuntimeMode;
use crate::stamps::{ReadStamps, Stamp, with_placeholders};
use crate::table::Table;
use crate::varying::varies;

impl Lowering<'_> {
    pub(super) fn scan(&mut self, scan: &Get, want: &Want) -> Result<Stream> {
        let needed = &want.columns;
        let table = plain_scan(scan, want.is_lookup)?;
        // From an index in the scan to an index in the record.
        let declared_index = |index: usize| scan.projection.as_ref().map_or(index, |projection| projection[index]);
        let planned =
            table.watermark.as_ref().map(|watermark| watermark.in_zone(self.table.zone, self.catalog)).transpose()?;
        let event_time = planned.as_deref().map(|plan| event_time(table, plan)).transpose()?;
        let mut projection: Needed = needed.iter().map(|index| declared_index(*index)).collect();
        projection.extend(event_time.iter().flat_map(|(_, _, reads)| reads));
        projection.extend(table.weight());
        let on_late = if self.by_clock == Some(true) { OnLate::Drop } else { self.on_late(table)? };
        let reads = self.reads_of(event_time.as_ref().map(|(expr, ..)| expr));
        // Late rows are written with all columns.
        let is_whole = on_late != OnLate::Drop;
        if is_whole {
            projection.extend(0..table.physical.fields().len());
        }
        if projection.is_empty() {
            // A count of rows still needs one column: the cheapest.
            projection.insert(narrowest(table));
        }
        let projection: Vec<usize> = projection.into_iter().collect();
        let decoded_index = |declared: usize| decoded_index(&projection, declared);
        let watermark = match event_time {
            _ if self.by_clock == Some(true) => Some(by_clock(projection.len())),
            Some((expr, plan, _)) => Some(self.watermark(table, (&expr, plan), &projection)?),
            None => None,
        };
        let mut physical: Vec<Field> = projection.iter().map(|index| table.physical.field(*index).clone()).collect();
        let column = |(index, field): (usize, &Arc<Field>)| {
            let decoded = needed.contains(&index).then(|| decoded_index(declared_index(index))).transpose()?;
            Ok(LogicalColumn { value: decoded.map(anabranch_dataflow::Expr::Column), ..LogicalColumn::absent(field) })
        };
        let columns = scan.columns.fields().iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        let weight = table.weight().map(decoded_index).transpose()?;
        let source = SourceSpec {
            table: table.name.clone(),
            connector: table.spec.clone(),
            declared: table.physical.clone(),
            projection,
            metadata: table.metadata.clone(),
            key: if table.traits.versions.is_some() { table.key() } else { Vec::new() },
            columns: Vec::new(),
            watermark,
            on_malformed: self.on_malformed(table)?,
            on_late,
            reads_clock: reads.clock,
            reads_watermark: reads.watermark,
        };
        let decoded = physical.len();
        let stamps: Vec<(Stamp, usize)> = reads.stamps().zip(decoded..).collect();
        physical.extend(stamps.iter().map(|(stamp, _)| stamp.field()));
        let (label, own) = self.source_label(&source);
        let mut stream = Stream::of_source(source, physical, columns);
        stream.source_places.clone_from(&self.origins.present);
        (stream.bounded, stream.row_fields) = (table.traits.bounded, table.traits.row_fields && !is_whole);
        (stream.weight, stream.unique) = (weight, table.unique_in(scan));
        stream.stamps = stamps;
        if self.by_clock != Some(true) {
            stream.times.extend(event_time_place(table, scan).map(|column| (column, 0)));
        }
        let most = table.traits.max_readers.unwrap_or(u32::MAX);
        check_own(&label, own, most)?;
        stream.label = Some(label);
        let of_table = own.or(table.options.scan_parallelism);
        stream.tasks_max = of_table.or(table.traits.max_readers).map(|tasks| tasks.min(most));
        stream.parallelism = of_table.unwrap_or(self.parallelism).min(most).max(1);
        Ok(stream)
    }

    /// The stamps that the source of a table with this event time adds to its rows.
    fn reads_of(&self, event_time: Option<&LogicalExpr>) -> ReadStamps {
        ReadStamps {
            clock: self.reads.clock || event_time.is_some_and(is_read_by),
            // With processing time there is no watermark.
            watermark: self.reads.watermark && self.by_clock != Some(true),
        }
    }

    /// The watermark of a table with this event-time expression.
    fn watermark(
        &self,
        table: &Table,
        (time, scan): (&LogicalExpr, &Rel),
        projection: &[usize],
    ) -> Result<WatermarkSpec> {
        if varies(time) {
            let column = table.watermark.as_ref().map_or("", |watermark| &watermark.column);
            return Err(Error::user(format!("the event time '{column}' has another value at each evaluation"))
                .remedy("use a column of the record; for windows by the time of reading, a column AS PROCTIME() needs no watermark"));
        }
        let place = |index| match Stamp::at(index) {
            Some(Stamp::ProcessingTime) => Ok(projection.len()),
            Some(Stamp::Watermark) => Err(unknown(Stamp::Watermark)),
            None => decoded_index(projection, scan_column(scan, index)),
        };
        let column = |index| place(index).map(anabranch_dataflow::Expr::Column);
        let time = with_placeholders(time).map_err(planning_error)?;
        // In batch mode no source holds another one back.
        let at_end = self.mode == RuntimeMode::Batch;
        Ok(WatermarkSpec {
            time: convert(&time, scan.columns(), &column)?,
            delay_ms: table.watermark.as_ref().map_or(0, |w| w.delay_ms),
            idle_timeout_ms: table.options.idle_timeout_ms.or(self.table.idle_timeout_ms).filter(|_| !at_end),
            lateness: table.options.lateness,
            by_clock: false,
            at_end,
            alignment: table.options.alignment.clone().filter(|_| !at_end),
        })
    }
}

/// The index of a record's column among the decoded columns.
fn decoded_index(projection: &[usize], declared: usize) -> Result<usize> {
    projection.binary_search(&declared).map_err(|_| Error::internal(format!("column {declared} is not decoded")))
}

/// The table of a scan. It must be readable, unless `is_lookup`: it is looked up by key.
fn plain_scan(scan: &Get, is_lookup: bool) -> Result<&Table> {
    let table = Table::of_scan(scan)?;
    if is_lookup { Ok(table) } else { table.check_readable().map(|()| table) }
}

/// Refuses a number of tasks above the table's number of partitions.
fn check_own(label: &str, own: Option<u32>, most: u32) -> Result<()> {
    let Some(tasks) = own.filter(|own| *own > most) else { return Ok(()) };
    let what = format!("stage '{label}' cannot have {tasks} tasks: its table has {most} partitions");
    Err(Error::user(what).at("option 'stage-parallelism'").remedy(format!("use at most {most}")))
}

/// The event time of a table: its expression, the scan below, and the physical columns that it reads.
fn event_time<'a>(table: &Table, plan: &'a Rel) -> Result<(LogicalExpr, &'a Rel, Needed)> {
    // A physical column has no projection.
    let (mut expr, mut input) = (LogicalExpr::Column(plan.columns().id(0)), plan);
    // The optimizer computes a repeated subexpression in a projection below.
    while let Rel::Project(projection) = input {
        let value = |column: &Column| Some(projection.exprs[projection.columns.find(column)?].clone());
        expr = with_values(expr, &value).map_err(planning_error)?;
        input = projection.input.as_ref();
    }
    if !matches!(input, Rel::Get(_)) {
        let column = table.watermark.as_ref().map_or("", |watermark| &watermark.column);
        return Err(Error::user(format!("the event time '{column}' is too complex"))
            .remedy("compute it by one expression of the record's columns"));
    }
    let mut reads = Needed::new();
    let columns = input.columns();
    for column in expr.column_refs() {
        reads.insert(scan_column(input, columns.place(column)?));
    }
    Ok((expr, input, reads))
}

/// The index of the event time in a scan.
fn event_time_place(table: &Table, scan: &Get) -> Option<usize> {
    let watermark = table.watermark.as_ref()?;
    scan.columns.fields().iter().position(|field| *field.name() == watermark.column)
}

/// The watermark of processing time, which is in this column.
fn by_clock(column: usize) -> WatermarkSpec {
    WatermarkSpec {
        time: anabranch_dataflow::Expr::Column(column),
        delay_ms: 0,
        idle_timeout_ms: None,
        lateness: Lateness::Job,
        by_clock: true,
        at_end: false,
        alignment: None,
    }
}

/// The index in the record of a scan's column.
fn scan_column(plan: &Rel, index: usize) -> usize {
    match plan {
        Rel::Get(Get { projection: Some(projection), .. }) => projection[index],
        _ => index,
    }
}

/// The column that is cheapest to decode.
fn narrowest(table: &Table) -> usize {
    let width = |data_type: &DataType| data_type.primitive_width().unwrap_or(usize::MAX);
    let fields = table.physical.fields().iter().enumerate();
    fields.min_by_key(|(index, field)| (width(field.data_type()), *index)).map_or(0, |(index, _)| index)
}
