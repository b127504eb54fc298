//! Advertisement events as in the Yahoo streaming benchmark: 100 campaigns of 10 advertisements each, and a
//! stream of views, clicks and purchases of them.
//!
//! With `'format' = 'json'` the events are encoded as JSON and decoded again, so that a job over them does
//! the same work as a job over a log. Without, only the columns that the query needs are generated.

mod catalog;
mod events;

use std::sync::Arc;

use anabranch_dataflow::{ConnectorSpec, SourceSpec, TableTraits};
use anabranch_model::{Error, PartitionId, Result};
use anabranch_operators::{Connector, Positions, Rows, Source, TaskContext};
use arrow::array::{ArrayRef, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::load::{Load, NOMINAL_RATE};
use super::paced::PacedSource;
use super::{Generate, Request};
use crate::Options;
use crate::columns::{conform, match_columns};
use crate::format::{Format, batch, source_schema};

use catalog::Catalog;
use events::{AdEvents, Damage};

/// The stream of events. Columns: `user_id`, `page_id`, `ad_id`, `ad_type`, `event_type`, `event_time`
/// (milliseconds since the Unix epoch), `ip_address`.
#[derive(Debug, Default)]
pub struct AdEventsConnector;

/// The bounded table of each advertisement's campaign. Columns: `ad_id`, `campaign_id`.
#[derive(Debug, Default)]
pub struct AdCampaignsConnector;

struct AdEventsOptions {
    load: Load,
    out_of_orderness_ms: u64,
    damage: Damage,
    format: Option<Format>,
}

fn event_schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8View, false);
    Arc::new(Schema::new(vec![
        text("user_id"),
        text("page_id"),
        text("ad_id"),
        text("ad_type"),
        text("event_type"),
        Field::new("event_time", DataType::Int64, false),
        text("ip_address"),
    ]))
}

fn campaign_schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8View, false);
    Arc::new(Schema::new(vec![text("ad_id"), text("campaign_id")]))
}

impl AdEventsOptions {
    fn read(spec: &ConnectorSpec) -> Result<Self> {
        let mut options = Options::new(spec);
        let load = Load::read(&mut options)?;
        let jitter = options.duration("out-of-orderness")?.unwrap_or_default();
        let damage = Damage { every: options.number("malformed-every")? };
        let format = Format::optional(&mut options, "format")?;
        if !matches!(format, None | Some(Format::Json(_))) {
            return Err(Error::user("connector 'ad_events' supports only the format 'json'")
                .remedy("use 'format' = 'json', or omit the option"));
        }
        if damage.every.is_some() && format.is_none() {
            return Err(Error::user("option 'malformed-every' damages JSON records, and the table has no format")
                .remedy("add 'format' = 'json'"));
        }
        if damage.every == Some(0) {
            return Err(Error::user("option 'malformed-every' is 0").remedy("give at least 1, or omit it"));
        }
        options.finish()?;
        // The jitter is drawn from 32 bits, which are 49 days.
        let out_of_orderness_ms = u64::try_from(jitter.as_millis()).unwrap_or(u64::MAX).min(u64::from(u32::MAX));
        Ok(AdEventsOptions { load, out_of_orderness_ms, damage, format })
    }
}

impl Connector for AdEventsConnector {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let options = AdEventsOptions::read(spec)?;
        match_columns(&event_schema(), columns, "ad_events")?;
        Ok(options.load.traits(event_schema()))
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let options = AdEventsOptions::read(&spec.connector)?;
        let schema = source_schema(spec)?;
        let columns = match_columns(&event_schema(), &schema, "ad_events")?;
        let decoder = options.format.map(|format| format.decoder(&spec.declared, &spec.projection)).transpose()?;
        let catalog = Catalog::new(options.load.seed);
        let generator = AdEvents {
            texts: catalog.texts(),
            catalog,
            seed: options.load.seed,
            out_of_orderness_ms: options.out_of_orderness_ms,
            damage: options.damage,
            table: spec.table.clone(),
            schema,
            columns,
            decoder,
        };
        Ok(Box::new(PacedSource::open(generator, options.load, &spec.table, context, from)?))
    }
}

/// The load of the table of campaigns, one row per advertisement.
fn campaign_load(spec: &ConnectorSpec) -> Result<Load> {
    let mut options = Options::new(spec);
    let seed = options.number("seed")?.unwrap_or(1);
    options.finish()?;
    let (time_rate, variant) = (NOMINAL_RATE, String::new());
    Ok(Load {
        rate: None,
        events: Some(catalog::ADS as u64),
        seed,
        partitions: 1,
        start_ms: Some(0),
        time_rate,
        variant,
    })
}

impl Connector for AdCampaignsConnector {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        match_columns(&campaign_schema(), columns, "ad_campaigns")?;
        Ok(campaign_load(spec)?.traits(campaign_schema()))
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let load = campaign_load(&spec.connector)?;
        let schema = source_schema(spec)?;
        let columns = match_columns(&campaign_schema(), &schema, "ad_campaigns")?;
        let generator = AdCampaigns { catalog: Catalog::new(load.seed), schema, columns };
        Ok(Box::new(PacedSource::open(generator, load, &spec.table, context, from)?))
    }
}

struct AdCampaigns {
    catalog: Catalog,
    schema: SchemaRef,
    columns: Vec<usize>,
}

impl Generate for AdCampaigns {
    fn generate(&mut self, request: &Request) -> Result<Rows> {
        let columns = self.columns.iter().zip(self.schema.fields()).map(|(column, field)| {
            let text = request.rows().map(|ad| match column {
                0 => &self.catalog.ads[ad as usize],
                _ => self.catalog.campaign_of(ad as usize),
            });
            let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(text));
            conform(array, field)
        });
        let batch = batch(&self.schema, columns.collect::<Result<_>>()?, request.count)?;
        Ok(Rows { partition: PartitionId(request.partition), batch, malformed: Vec::new() })
    }
}

#[cfg(test)]
mod tests;
