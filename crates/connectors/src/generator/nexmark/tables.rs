//! Events as columns.

use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{
    ArrayRef, Int32Array, Int64Array, StringViewArray, StringViewBuilder, StructArray, TimestampMillisecondArray,
    UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use super::events::{AUCTIONS_IN_TURN, BIDS_IN_TURN, Bid, EVENTS_IN_TURN, Events, PERSONS_IN_TURN};

/// Kinds of events, by their number in `event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Person,
    Auction,
    Bid,
}

const KINDS: [Kind; 3] = [Kind::Person, Kind::Auction, Kind::Bid];

impl Kind {
    fn of_event(event: u64) -> Kind {
        match event % EVENTS_IN_TURN {
            at if at < PERSONS_IN_TURN => Kind::Person,
            at if at < PERSONS_IN_TURN + AUCTIONS_IN_TURN => Kind::Auction,
            _ => Kind::Bid,
        }
    }

    /// The first event of the kind in a turn, and the number of its events.
    fn share(self) -> (u64, u64) {
        match self {
            Kind::Person => (0, PERSONS_IN_TURN),
            Kind::Auction => (PERSONS_IN_TURN, AUCTIONS_IN_TURN),
            Kind::Bid => (PERSONS_IN_TURN + AUCTIONS_IN_TURN, BIDS_IN_TURN),
        }
    }

    /// Number of the event that is row `row` of the kind's table.
    pub(super) fn event_of_row(self, row: u64) -> u64 {
        let (begin, count) = self.share();
        (row / count).saturating_mul(EVENTS_IN_TURN).saturating_add(begin + row % count)
    }

    /// How many of the first `events` events are of the kind.
    pub(super) fn rows_within(self, events: u64) -> u64 {
        let (begin, count) = self.share();
        events / EVENTS_IN_TURN * count + (events % EVENTS_IN_TURN).saturating_sub(begin).min(count)
    }

    fn fields(self, nullable: bool) -> Fields {
        use DataType::{Int64, Timestamp, Utf8View};
        let time = Timestamp(TimeUnit::Millisecond, None);
        let columns: Vec<(&str, DataType)> = match self {
            Kind::Person => vec![
                ("id", Int64),
                ("name", Utf8View),
                ("emailAddress", Utf8View),
                ("creditCard", Utf8View),
                ("city", Utf8View),
                ("state", Utf8View),
                ("dateTime", time),
                ("extra", Utf8View),
            ],
            Kind::Auction => vec![
                ("id", Int64),
                ("itemName", Utf8View),
                ("description", Utf8View),
                ("initialBid", Int64),
                ("reserve", Int64),
                ("dateTime", time.clone()),
                ("expires", time),
                ("seller", Int64),
                ("category", Int64),
                ("extra", Utf8View),
            ],
            Kind::Bid => vec![
                ("auction", Int64),
                ("bidder", Int64),
                ("price", Int64),
                ("channel", Utf8View),
                ("url", Utf8View),
                ("dateTime", time),
                ("extra", Utf8View),
            ],
        };
        columns.into_iter().map(|(name, data_type)| Field::new(name, data_type, nullable)).collect()
    }

    /// Columns of a table of this kind alone.
    pub(super) fn schema(self) -> SchemaRef {
        Arc::new(Schema::new(self.fields(false)))
    }

    fn column_name(self) -> &'static str {
        match self {
            Kind::Person => "person",
            Kind::Auction => "auction",
            Kind::Bid => "bid",
        }
    }

    /// The columns `wanted` of events of this kind.
    pub(super) fn columns(self, events: &Events, numbers: &[u64], wanted: &[usize]) -> Vec<ArrayRef> {
        match self {
            Kind::Person => {
                let rows: Vec<_> = numbers.iter().map(|number| events.person(*number)).collect();
                let column = |index: &usize| match index {
                    0 => integers(&rows, |r| r.id),
                    1 => texts(&rows, |r| &r.name),
                    2 => texts(&rows, |r| &r.email),
                    3 => texts(&rows, |r| &r.credit_card),
                    4 => texts(&rows, |r| r.city),
                    5 => texts(&rows, |r| r.state),
                    6 => times(&rows, |r| r.time_ms),
                    _ => texts(&rows, |r| &r.extra),
                };
                wanted.iter().map(column).collect()
            }
            Kind::Auction => {
                let rows: Vec<_> = numbers.iter().map(|number| events.auction(*number)).collect();
                let column = |index: &usize| match index {
                    0 => integers(&rows, |r| r.id),
                    1 => texts(&rows, |r| &r.item),
                    2 => texts(&rows, |r| &r.description),
                    3 => integers(&rows, |r| r.initial_bid),
                    4 => integers(&rows, |r| r.reserve),
                    5 => times(&rows, |r| r.time_ms),
                    6 => times(&rows, |r| r.expires_ms),
                    7 => integers(&rows, |r| r.seller),
                    8 => integers(&rows, |r| r.category),
                    _ => texts(&rows, |r| &r.extra),
                };
                wanted.iter().map(column).collect()
            }
            Kind::Bid => {
                let rows: Vec<_> = numbers.iter().map(|number| events.bid(*number)).collect();
                let column = |index: &usize| match index {
                    0 => integers(&rows, |r| r.auction),
                    1 => integers(&rows, |r| r.bidder),
                    2 => integers(&rows, |r| r.price),
                    3 => written(&rows, Bid::channel),
                    4 => written(&rows, |r, text| events.url(r, text)),
                    5 => times(&rows, |r| r.time_ms),
                    _ => written(&rows, Bid::extra),
                };
                wanted.iter().map(column).collect()
            }
        }
    }
}

/// Columns of the table of all kinds.
pub(super) fn all_kinds_schema() -> SchemaRef {
    let kinds = KINDS.iter().map(|kind| Field::new(kind.column_name(), DataType::Struct(kind.fields(true)), true));
    Arc::new(Schema::new(
        [Field::new("event_type", DataType::Int32, false)].into_iter().chain(kinds).collect::<Fields>(),
    ))
}

/// One column of the table of all kinds.
pub(super) fn all_kinds_column(events: &Events, numbers: &[u64], column: usize) -> Result<ArrayRef> {
    let Some(index) = column.checked_sub(1) else {
        let types = numbers.iter().map(|number| Kind::of_event(*number) as i32);
        return Ok(Arc::new(Int32Array::from_iter_values(types)));
    };
    let kind = KINDS[index];
    let fields = kind.fields(true);
    let own: Vec<u64> = numbers.iter().copied().filter(|number| Kind::of_event(*number) == kind).collect();
    let mut places = 0..;
    let indexes = numbers.iter().map(|number| if Kind::of_event(*number) == kind { places.next() } else { None });
    let indexes: UInt32Array = indexes.collect();
    let wanted: Vec<_> = (0..fields.len()).collect();
    let columns = kind.columns(events, &own, &wanted);
    Ok(take(&StructArray::try_new(fields, columns, None)?, &indexes, None)?)
}

fn integers<T>(rows: &[T], of: impl Fn(&T) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
}

fn times<T>(rows: &[T], of: impl Fn(&T) -> i64) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(of)))
}

fn texts<T>(rows: &[T], of: impl Fn(&T) -> &str) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(rows.iter().map(of)))
}

/// A column of text that is written for each row.
fn written<T>(rows: &[T], write: impl Fn(&T, &mut String)) -> ArrayRef {
    let mut column = StringViewBuilder::with_capacity(rows.len());
    let mut text = String::new();
    for row in rows {
        text.clear();
        write(row, &mut text);
        column.append_value(&text);
    }
    Arc::new(column.finish())
}
