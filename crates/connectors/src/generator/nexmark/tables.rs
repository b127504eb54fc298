//! Events as columns.
//!
//! The table of all kinds has a column for each kind, a row of that kind's fields, and may also be read by
//! single fields (`bid.price`). Values that the query does not need are not generated.

use std::cell::OnceCell;
use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{
    ArrayBuilder, ArrayRef, Int32Array, Int64Array, StringViewArray, StringViewBuilder, StructArray,
    TimestampMillisecondArray, make_view,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use super::events::{Auction, Bid, Channel, Events, Shape};

/// Kinds of events, by their number in `event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    Person,
    Auction,
    Bid,
}

const KINDS: [EventKind; 3] = [EventKind::Person, EventKind::Auction, EventKind::Bid];

impl EventKind {
    fn of_event(event: u64, shape: &Shape) -> EventKind {
        match event % shape.turn() {
            at if at < shape.persons => EventKind::Person,
            at if at < shape.persons + shape.auctions => EventKind::Auction,
            _ => EventKind::Bid,
        }
    }

    /// The first event of the kind in a turn, and the number of its events.
    fn share(self, shape: &Shape) -> (u64, u64) {
        match self {
            EventKind::Person => (0, shape.persons),
            EventKind::Auction => (shape.persons, shape.auctions),
            EventKind::Bid => (shape.persons + shape.auctions, shape.bids),
        }
    }

    /// Number of the event that is row `row` of the kind's table.
    pub(super) fn event_of_row(self, row: u64, shape: &Shape) -> u64 {
        let (begin, count) = self.share(shape);
        let count = count.max(1);
        (row / count).saturating_mul(shape.turn()).saturating_add(begin + row % count)
    }

    /// The number of events of the kind among the first `events` events.
    pub(super) fn rows_within(self, events: u64, shape: &Shape) -> u64 {
        let (begin, count) = self.share(shape);
        events / shape.turn() * count + (events % shape.turn()).saturating_sub(begin).min(count)
    }

    fn fields(self, nullable: bool) -> Fields {
        use DataType::{Int64, Timestamp, Utf8View};
        let time = Timestamp(TimeUnit::Millisecond, None);
        let columns: Vec<(&str, DataType)> = match self {
            EventKind::Person => vec![
                ("id", Int64),
                ("name", Utf8View),
                ("emailAddress", Utf8View),
                ("creditCard", Utf8View),
                ("city", Utf8View),
                ("state", Utf8View),
                ("dateTime", time),
                ("extra", Utf8View),
            ],
            EventKind::Auction => vec![
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
            EventKind::Bid => vec![
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
            EventKind::Person => "person",
            EventKind::Auction => "auction",
            EventKind::Bid => "bid",
        }
    }

    /// The columns `wanted` of events of this kind.
    pub(super) fn columns(self, events: &Events, texts: &Texts, rows: &Places, wanted: &[usize]) -> Vec<ArrayRef> {
        let column = |index: &usize, other: &dyn Fn(usize) -> ArrayRef| match self.fields(true)[*index].name().as_str()
        {
            "dateTime" => rows.times(rows.numbers.iter().map(|number| events.time_ms(*number))),
            _ => other(*index),
        };
        match self {
            EventKind::Person => {
                let id = || rows.integers(rows.numbers.iter().map(|number| events.person_id(*number)));
                let persons = OnceCell::new();
                let of_person = |index| {
                    let all =
                        persons.get_or_init(|| rows.numbers.iter().map(|n| events.person(*n)).collect::<Vec<_>>());
                    match index {
                        1 => rows.texts(all, |r, text| text.push_str(&r.name)),
                        2 => rows.texts(all, |r, text| text.push_str(&r.email)),
                        3 => rows.texts(all, |r, text| text.push_str(&r.credit_card)),
                        4 => rows.texts(all, |r, text| text.push_str(r.city)),
                        5 => rows.texts(all, |r, text| text.push_str(r.state)),
                        _ => rows.texts(all, |r, text| text.push_str(&r.extra)),
                    }
                };
                let other = |index| if index == 0 { id() } else { of_person(index) };
                wanted.iter().map(|index| column(index, &other)).collect()
            }
            EventKind::Auction => {
                let id = || rows.integers(rows.numbers.iter().map(|number| events.auction_id(*number)));
                let (numbers, texts) = (OnceCell::new(), OnceCell::new());
                let all = || rows.numbers.iter().map(|number| events.auction(*number)).collect::<Vec<Auction>>();
                let auctions = || numbers.get_or_init(all);
                let all = || auctions().iter().map(|auction| events.auction_texts(auction)).collect::<Vec<_>>();
                let texts = || texts.get_or_init(all);
                let other = |index| match index {
                    0 => id(),
                    1 => rows.texts(texts(), |r, text| text.push_str(&r.item)),
                    2 => rows.texts(texts(), |r, text| text.push_str(&r.description)),
                    3 => rows.integers(auctions().iter().map(|r| r.initial_bid)),
                    4 => rows.integers(auctions().iter().map(|r| r.reserve)),
                    6 => rows.times(auctions().iter().map(|r| r.expires_ms)),
                    7 => rows.integers(auctions().iter().map(|r| r.seller)),
                    8 => rows.integers(auctions().iter().map(|r| r.category)),
                    _ => rows.texts(texts(), |r, text| text.push_str(&r.extra)),
                };
                wanted.iter().map(|index| column(index, &other)).collect()
            }
            EventKind::Bid => {
                let bids = OnceCell::new();
                let bids = || bids.get_or_init(|| rows.numbers.iter().map(|n| events.bid(*n)).collect::<Vec<Bid>>());
                let other = |index| match index {
                    0 => rows.integers(bids().iter().map(|r| r.auction)),
                    1 => rows.integers(bids().iter().map(|r| r.bidder)),
                    2 => rows.integers(bids().iter().map(Bid::price)),
                    3 => rows.views(bids().iter().map(|r| texts.names[r.channel.index()]), &[]),
                    4 => {
                        let (views, buffer) = texts.urls(events);
                        rows.views(bids().iter().map(|r| views[r.channel.index()]), std::slice::from_ref(buffer))
                    }
                    _ => rows.texts(bids(), |r, text| events.bid_extra(r, text)),
                };
                wanted.iter().map(|index| column(index, &other)).collect()
            }
        }
    }
}

/// Texts that bids share.
pub(super) struct Texts {
    /// The name of each channel.
    names: Vec<u128>,
    /// The address of each channel.
    urls: OnceCell<(Vec<u128>, Buffer)>,
}

impl Texts {
    pub(super) fn new() -> Self {
        let name = |channel: Channel| {
            let mut text = String::new();
            channel.name(&mut text);
            // Names have at most 12 bytes, which are stored in the view itself.
            make_view(text.as_bytes(), 0, 0)
        };
        Texts { names: Channel::all().map(name).collect(), urls: OnceCell::new() }
    }

    fn urls(&self, events: &Events) -> &(Vec<u128>, Buffer) {
        self.urls.get_or_init(|| {
            let (mut views, mut all) = (Vec::new(), String::new());
            for channel in Channel::all() {
                let begin = all.len();
                events.url(channel, &mut all);
                views.push(make_view(&all.as_bytes()[begin..], 0, begin as u32));
            }
            (views, Buffer::from_vec(all.into_bytes()))
        })
    }
}

/// Events of one kind among the rows of a batch.
pub(super) struct Places {
    /// The numbers of the events.
    numbers: Vec<u64>,
    /// The row of each event. Other rows are NULL. `None`: the rows are exactly these events.
    rows: Option<(Vec<u32>, NullBuffer)>,
}

impl Places {
    /// Rows that are all events of one kind.
    pub(super) fn dense(numbers: Vec<u64>) -> Self {
        Places { numbers, rows: None }
    }

    /// The rows of a kind.
    fn among(numbers: &[u64], kinds: &[EventKind], kind: EventKind) -> Self {
        let own = || (0..kinds.len()).filter(|row| kinds[*row] == kind);
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(kinds.len(), |row| kinds[row] == kind));
        Places {
            numbers: own().map(|row| numbers[row]).collect(),
            rows: Some((own().map(|row| row as u32).collect(), nulls)),
        }
    }

    fn nulls(&self) -> Option<NullBuffer> {
        self.rows.as_ref().map(|(_, nulls)| nulls.clone())
    }

    /// The value of each row.
    fn spread<T: Copy + Default>(&self, values: impl Iterator<Item = T>) -> Vec<T> {
        let Some((rows, nulls)) = &self.rows else { return values.collect() };
        let mut spread = vec![T::default(); nulls.len()];
        for (row, value) in rows.iter().zip(values) {
            spread[*row as usize] = value;
        }
        spread
    }

    fn integers(&self, values: impl Iterator<Item = i64>) -> ArrayRef {
        Arc::new(Int64Array::new(self.spread(values).into(), self.nulls()))
    }

    fn times(&self, values: impl Iterator<Item = i64>) -> ArrayRef {
        Arc::new(TimestampMillisecondArray::new(self.spread(values).into(), self.nulls()))
    }

    fn views(&self, views: impl Iterator<Item = u128>, buffers: &[Buffer]) -> ArrayRef {
        let views = ScalarBuffer::from(self.spread(views));
        // Each view refers to a text in the buffers.
        Arc::new(StringViewArray::new(views, buffers.to_vec(), self.nulls()))
    }

    /// A column of text that is written for each event.
    fn texts<T>(&self, events: &[T], write: impl Fn(&T, &mut String)) -> ArrayRef {
        let length = self.rows.as_ref().map_or(events.len(), |(_, nulls)| nulls.len());
        let mut column = StringViewBuilder::with_capacity(length);
        let mut text = String::new();
        for (index, event) in events.iter().enumerate() {
            let row = self.rows.as_ref().map_or(index, |(rows, _)| rows[index] as usize);
            while column.len() < row {
                column.append_null();
            }
            text.clear();
            write(event, &mut text);
            column.append_value(&text);
        }
        while column.len() < length {
            column.append_null();
        }
        Arc::new(column.finish())
    }
}

/// Columns of the table of all kinds.
pub(super) fn all_kinds_schema() -> SchemaRef {
    let kinds = KINDS.iter().map(|kind| Field::new(kind.column_name(), DataType::Struct(kind.fields(true)), true));
    Arc::new(Schema::new(
        [Field::new("event_type", DataType::Int32, false)].into_iter().chain(kinds).collect::<Fields>(),
    ))
}

/// The columns of the table of all kinds, and the fields of its rows as columns.
pub(super) fn all_kinds_fields() -> SchemaRef {
    let whole = all_kinds_schema();
    let fields = KINDS.iter().flat_map(|kind| {
        let name = |field: &Arc<Field>| format!("{}.{}", kind.column_name(), field.name());
        kind.fields(true).iter().map(|f| f.as_ref().clone().with_name(name(f))).collect::<Vec<_>>()
    });
    Arc::new(Schema::new(whole.fields().iter().map(|f| f.as_ref().clone()).chain(fields).collect::<Vec<_>>()))
}

/// Columns of the table of all kinds, by their indexes in [`all_kinds_fields`].
pub(super) fn all_kinds_columns(
    events: &Events,
    texts: &Texts,
    shape: &Shape,
    numbers: &[u64],
    wanted: &[usize],
) -> Result<Vec<ArrayRef>> {
    let kinds: Vec<EventKind> = numbers.iter().map(|number| EventKind::of_event(*number, shape)).collect();
    let mut columns: Vec<Option<ArrayRef>> = vec![None; wanted.len()];
    let mut first = 1 + KINDS.len();
    for (index, kind) in KINDS.into_iter().enumerate() {
        let fields = kind.fields(true);
        let own = first..first + fields.len();
        first = own.end;
        let positions: Vec<usize> = (0..wanted.len())
            .filter(|position| wanted[*position] == 1 + index || own.contains(&wanted[*position]))
            .collect();
        if positions.is_empty() {
            continue;
        }
        let rows = Places::among(numbers, &kinds, kind);
        let single: Vec<usize> =
            positions.iter().filter_map(|position| wanted[*position].checked_sub(own.start)).collect();
        let mut single = kind.columns(events, texts, &rows, &single).into_iter();
        for position in positions {
            columns[position] = if wanted[position] == 1 + index {
                let all: Vec<usize> = (0..fields.len()).collect();
                let all = kind.columns(events, texts, &rows, &all);
                Some(Arc::new(StructArray::try_new(fields.clone(), all, rows.nulls())?))
            } else {
                single.next()
            };
        }
    }
    let types = || Arc::new(Int32Array::from_iter_values(kinds.iter().map(|kind| *kind as i32))) as ArrayRef;
    Ok(columns.into_iter().map(|column| column.unwrap_or_else(types)).collect())
}
