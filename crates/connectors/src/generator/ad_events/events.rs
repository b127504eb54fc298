//! Generates the events: draws them first, then writes them as columns or as JSON.

use std::sync::Arc;

use anabranch_model::{Error, PartitionId, Result, Rng};
use anabranch_operators::{Malformed, Rows};
use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringViewArray, UInt32Array};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;

use super::catalog::{AD_TYPES, Catalog, EVENT_TYPES};
use crate::columns::conform;
use crate::format::json::write_signed;
use crate::format::{Decode, batch};
use crate::generator::{Generate, Request};

/// Damages JSON records: one in this number of rows of the table.
pub(super) struct Damage {
    pub(super) every: Option<u64>,
}

impl Damage {
    fn hits(&self, row: u64) -> bool {
        self.every.is_some_and(|every| (row + 1).is_multiple_of(every))
    }
}

/// The generator of events.
pub(super) struct AdEvents {
    pub(super) catalog: Catalog,
    /// The texts of each of the seven columns that an event's indexes refer to; none for the time.
    pub(super) texts: [StringViewArray; 7],
    pub(super) seed: u64,
    pub(super) out_of_orderness_ms: u64,
    pub(super) damage: Damage,
    pub(super) table: String,
    pub(super) schema: SchemaRef,
    /// Index among all columns of each column of `schema`.
    pub(super) columns: Vec<usize>,
    pub(super) decoder: Option<Box<dyn Decode>>,
}

/// One event: indexes into the catalog.
struct Event {
    user: u32,
    page: u32,
    ad: u32,
    ad_type: u32,
    event_type: u32,
    time_ms: i64,
}

impl AdEvents {
    fn draw(&self, request: &Request) -> impl Iterator<Item = Event> + '_ {
        let timeline = request.timeline;
        // Partitions and rows start their sequences of random numbers far apart.
        let start = Rng::new(self.seed ^ u64::from(request.partition).rotate_left(32)).next_u64();
        let spread = self.out_of_orderness_ms + 1;
        request.rows().zip(request.first..).map(move |(row, index)| {
            let mut rng = Rng::new(start.wrapping_add(index.wrapping_mul(0xd134_2543_de82_ef95)));
            let (who, what) = (rng.next_u64(), rng.next_u64());
            let jitter = ((what >> 32) * spread) >> 32;
            Event {
                ad: pick(who & 0xffff_ffff, 32, self.catalog.ads.len()),
                user: pick((who >> 32) & 0xffff, 16, self.catalog.users.len()),
                page: pick(who >> 48, 16, self.catalog.pages.len()),
                ad_type: pick(what & 0xffff, 16, AD_TYPES.len()),
                event_type: pick((what >> 16) & 0xffff, 16, EVENT_TYPES.len()),
                time_ms: timeline.time_ms(row) - jitter as i64,
            }
        })
    }

    /// One of the seven columns.
    fn column(&self, events: &[Event], column: usize) -> Result<ArrayRef> {
        let index: fn(&Event) -> u32 = match column {
            0 | 6 => |e| e.user,
            1 => |e| e.page,
            2 => |e| e.ad,
            3 => |e| e.ad_type,
            4 => |e| e.event_type,
            _ => return Ok(Arc::new(Int64Array::from_iter_values(events.iter().map(|e| e.time_ms)))),
        };
        let indexes = UInt32Array::from_iter_values(events.iter().map(index));
        Ok(take(&self.texts[column], &indexes, None)?)
    }

    fn rows(&self, request: &Request) -> Result<Rows> {
        let events: Vec<_> = self.draw(request).collect();
        let columns = self.columns.iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| conform(self.column(&events, *column)?, field));
        let batch = batch(&self.schema, columns.collect::<Result<_>>()?, request.count)?;
        Ok(Rows { partition: PartitionId(request.partition), batch, malformed: Vec::new() })
    }

    /// The events as JSON records.
    fn records(&self, request: &Request) -> Result<BinaryArray> {
        let mut bytes = Vec::with_capacity(request.count * 264);
        let mut offsets = Vec::with_capacity(request.count + 1);
        offsets.push(0_i32);
        for (event, row) in self.draw(request).zip(request.rows()) {
            let start = bytes.len();
            self.write_json(&event, &mut bytes);
            if self.damage.hits(row) {
                bytes.truncate(start + (bytes.len() - start) * 2 / 3);
            }
            let end = i32::try_from(bytes.len());
            offsets.push(end.map_err(|_| Error::user("a batch takes more than 2 GiB").remedy("lower 'batch-rows'"))?);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(BinaryArray::new(offsets, Buffer::from_vec(bytes), None))
    }

    fn write_json(&self, event: &Event, bytes: &mut Vec<u8>) {
        let catalog = &self.catalog;
        write_text("{\"user_id\":\"", &catalog.users[event.user as usize], bytes);
        write_text("\",\"page_id\":\"", &catalog.pages[event.page as usize], bytes);
        write_text("\",\"ad_id\":\"", &catalog.ads[event.ad as usize], bytes);
        write_text("\",\"ad_type\":\"", AD_TYPES[event.ad_type as usize], bytes);
        write_text("\",\"event_type\":\"", EVENT_TYPES[event.event_type as usize], bytes);
        write_text("\",\"event_time\":", "", bytes);
        write_signed(event.time_ms, bytes);
        write_text(",\"ip_address\":\"", &catalog.addresses[event.user as usize], bytes);
        write_text("\"}", "", bytes);
    }
}

impl Generate for AdEvents {
    fn generate(&mut self, request: &Request) -> Result<Rows> {
        if self.decoder.is_none() {
            return self.rows(request);
        }
        let records = self.records(request)?;
        let Some(decoder) = &mut self.decoder else { return Err(Error::internal("records without a decoder")) };
        let decoded = decoder.decode(&records)?;
        let report = |(index, error)| Malformed {
            place: format!("{} partition {} row {}", self.table, request.partition, request.first + index as u64),
            error,
            record: records.value(index).to_vec(),
        };
        let malformed = decoded.malformed.into_iter().map(report).collect();
        Ok(Rows { partition: PartitionId(request.partition), batch: decoded.batch, malformed })
    }
}

/// Maps `bits` random bits to `0..choices`.
#[inline]
fn pick(random: u64, bits: u32, choices: usize) -> u32 {
    ((random * choices as u64) >> bits) as u32
}

#[inline]
fn write_text(before: &str, value: &str, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(before.as_bytes());
    bytes.extend_from_slice(value.as_bytes());
}
