//! Functions between texts and dates or times.

use arrow::array::{ArrayRef, StringViewArray};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use chrono::{DateTime, NaiveDateTime, NaiveTime, TimeDelta};
use datafusion_common::Result;
use datafusion_expr::ReturnFieldArgs;

use crate::arguments::{Arguments, Column, primitives, try_primitives, try_texts};
use crate::calendar::within_years;
use crate::call::ZoneUse;
use crate::date_pattern::{Library, Pattern, Use, read_date, read_sql};
use crate::definition::{Definition, Kind, Returns, failure, function};
use crate::moment::{Moments, instant, moments};
use crate::zone::{Twice, Zone};

const TEXT: &[&[Kind]] = &[&[Kind::Text], &[Kind::Text, Kind::Text]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    function(
        "date_format",
        &[&[Kind::Text, Kind::Text], &[Kind::Moment, Kind::Text]],
        Returns::Of(|args| {
            let is_text = args.arg_fields.first().is_some_and(|field| field.data_type().is_string());
            let library = if is_text { Library::Text } else { Library::Time };
            checked(args, 1, library, Use::WriteLocal, DataType::Utf8View)
        }),
        date_format,
    )
    .reads_local_time()
    .fails_if(|call| !call.is_constant(1)),
    function(
        "to_date",
        TEXT,
        Returns::Of(|args| checked(args, 1, Library::Text, Use::Read, DataType::Date32)),
        to_date,
    )
    .reads_local_time(),
    function(
        "to_timestamp",
        TEXT,
        Returns::Of(|args| {
            checked(args, 1, Library::Time, Use::Read, DataType::Timestamp(TimeUnit::Millisecond, None))
        }),
        to_timestamp,
    ),
    // Of a text in UTC or a zone, or of milliseconds since 1970.
    function(
        "to_timestamp_ltz",
        &[&[Kind::Text], &[Kind::Integer], &[Kind::Text, Kind::Text], &[Kind::Text, Kind::Text, Kind::Text]],
        Returns::Of(|args| checked(args, 1, Library::Time, Use::Read, instant())),
        to_timestamp_ltz,
    )
    .never_fails(),
    function(
        "unix_timestamp",
        TEXT,
        Returns::Of(|args| checked(args, 1, Library::Text, Use::Read, DataType::Int64)),
        |a| unix_timestamp(a, 0, None),
    )
    .in_zone(ZoneUse::First("unix_timestamp_in")),
    function(
        "from_unixtime",
        &[&[Kind::Integer], &[Kind::Integer, Kind::Text]],
        Returns::Of(|args| checked(args, 1, Library::Text, Use::Write, DataType::Utf8View)),
        |a| from_unixtime(a, 0, None),
    )
    .in_zone(ZoneUse::First("from_unixtime_in")),
    // The same in the time zone before the other arguments, a constant that the planner writes.
    function(
        "unix_timestamp_in",
        &[&[Kind::Text, Kind::Text], &[Kind::Text, Kind::Text, Kind::Text]],
        Returns::BigInt,
        |a| unix_timestamp(a, 1, Some(zone_of_call(a)?)),
    ),
    function(
        "from_unixtime_in",
        &[&[Kind::Text, Kind::Integer], &[Kind::Text, Kind::Integer, Kind::Text]],
        Returns::Text,
        |a| from_unixtime(a, 1, Some(zone_of_call(a)?)),
    ),
    function("convert_tz", &[&[Kind::Text, Kind::Text, Kind::Text]], Returns::Text, convert_tz),
];

/// The type of a result, if the pattern is one, or is none that is known when the query is planned.
fn checked(
    args: &ReturnFieldArgs,
    pattern: usize,
    library: Library,
    purpose: Use,
    data_type: DataType,
) -> Result<DataType> {
    let constant = args.scalar_arguments.get(pattern).copied().flatten().and_then(|value| value.try_as_str().flatten());
    constant.map_or(Ok(()), |pattern| Pattern::parse(pattern, library, purpose).map(drop))?;
    Ok(data_type)
}

/// The pattern of each row; a constant one is parsed once.
struct Patterns {
    texts: Option<Column<StringViewArray>>,
    default: &'static str,
    library: Library,
    purpose: Use,
    last: Option<(String, Pattern)>,
}

impl Patterns {
    fn new(arguments: &Arguments, index: usize, default: &'static str, library: Library, purpose: Use) -> Self {
        let texts = (index < arguments.len()).then(|| arguments.text(index));
        Patterns { texts, default, library, purpose, last: None }
    }

    fn get(&mut self, row: usize) -> Result<Option<&Pattern>> {
        let text = match &self.texts {
            Some(texts) => texts.get(row),
            None => Some(self.default),
        };
        let Some(text) = text else { return Ok(None) };
        let last = match self.last.take() {
            Some(last) if last.0 == text => last,
            _ => (text.to_owned(), Pattern::parse(text, self.library, self.purpose)?),
        };
        Ok(Some(&self.last.insert(last).1))
    }

    fn are_given(&self) -> bool {
        self.texts.is_some()
    }
}

fn date_format(arguments: &Arguments) -> Result<ArrayRef> {
    let is_text = arguments.array(0).data_type().is_string();
    let library = if is_text { Library::Text } else { Library::Time };
    let mut patterns = Patterns::new(arguments, 1, "", library, Use::WriteLocal);
    if is_text {
        let text = arguments.text(0);
        return try_texts(arguments, |row, out| {
            let Some(pattern) = patterns.get(row)? else { return Ok(None) };
            let time = text.get(row).filter(|text| text.contains(' ')).and_then(read_sql);
            Ok(time.map(|time| pattern.write(time, 0, out)))
        });
    }
    let times = Moments::new(arguments, 0)?;
    // Rows that follow each other often have the same text.
    let is_one_pattern = arguments.is_constant(1);
    let mut last: Option<(i64, u32)> = None;
    let mut text = String::new();
    try_texts(arguments, |row, out| {
        let Some(pattern) = patterns.get(row)? else { return Ok(None) };
        let Some((seconds, nanos)) = times.since_epoch(row) else { return Ok(None) };
        let span = pattern.span(seconds, nanos);
        if !is_one_pattern || last != Some(span) {
            let Some(time) = times.get(row) else { return Ok(None) };
            text.clear();
            pattern.write(time, 0, &mut text);
            last = Some(span);
        }
        out.push_str(&text);
        Ok(Some(()))
    })
}

fn zone_of_call(arguments: &Arguments) -> Result<Zone> {
    Zone::known(arguments.text(0).get(0).unwrap_or_default())
}

/// The time in each text by its pattern, or in SQL's form, and the offset of the zone in it; NULL if the text
/// does not match. The text is the argument `first`.
fn read(
    arguments: &Arguments,
    first: usize,
    library: Library,
) -> impl FnMut(usize) -> Result<Option<(NaiveDateTime, Option<i64>)>> {
    let text = arguments.text(first);
    let mut patterns = Patterns::new(arguments, first + 1, "", library, Use::Read);
    move |row| {
        let Some(text) = text.get(row) else { return Ok(None) };
        let plain = |time: NaiveDateTime| (time, None);
        if !patterns.are_given() {
            return Ok(read_sql(text).map(plain));
        }
        let Some(pattern) = patterns.get(row)? else { return Ok(None) };
        Ok(pattern.read_zoned(text).or_else(|| read_sql(text).filter(|_| text.contains(' ')).map(plain)))
    }
}

/// A zone in the text has no effect, as in Flink.
fn to_timestamp(arguments: &Arguments) -> Result<ArrayRef> {
    let mut read = read(arguments, 0, Library::Time);
    moments(arguments, |row| Ok(read(row)?.map(|(time, _)| time)))
}

fn to_timestamp_ltz(arguments: &Arguments) -> Result<ArrayRef> {
    if arguments.array(0).data_type().is_string() {
        let mut read = read(arguments, 0, Library::Time);
        let zones = (arguments.len() > 2).then(|| arguments.text(2));
        return moments(arguments, |row| {
            // A constant pattern is checked when planned. One of a row that is none gives NULL, so the
            // function fails for no value.
            let Ok(Some((local, _))) = read(row) else { return Ok(None) };
            let Some(zones) = &zones else { return Ok(Some(local)) };
            let Some(zone) = zones.get(row).and_then(Zone::parse) else { return Ok(None) };
            let seconds = local.and_utc().timestamp();
            Ok(local.checked_add_signed(TimeDelta::seconds(zone.instant_seconds(seconds, Twice::First) - seconds)))
        });
    }
    let numbers = arguments.integer(0);
    let times = primitives::<Int64Type>(arguments.rows, |row| within_years(numbers.get(row)?))?;
    Ok(arrow::compute::cast(&times, arguments.returns)?)
}

fn to_date(arguments: &Arguments) -> Result<ArrayRef> {
    if arguments.len() > 1 {
        // Of a text with a zone, the date of the instant in UTC.
        let mut read = read(arguments, 0, Library::Text);
        let in_utc = |(time, offset): (NaiveDateTime, Option<i64>)| {
            time.checked_sub_signed(TimeDelta::seconds(offset.unwrap_or(0)))
        };
        return moments(arguments, |row| Ok(read(row)?.and_then(in_utc)));
    }
    let text = arguments.text(0);
    moments(arguments, |row| {
        let date = text.get(row).and_then(|text| read_date(text.split(' ').next()?, true));
        Ok(date.map(|date| date.and_time(NaiveTime::MIN)))
    })
}

fn unix_timestamp(arguments: &Arguments, first: usize, zone: Option<Zone>) -> Result<ArrayRef> {
    let mut read = read(arguments, first, Library::Text);
    let text = arguments.text(first);
    let with_pattern = arguments.len() > first + 1;
    try_primitives::<Int64Type>(arguments.rows, |row| {
        let time = read(row)?.filter(|_| with_pattern || text.get(row).is_some_and(|text| text.contains(' ')));
        Ok(time.map(|(time, offset)| {
            let local = time.and_utc().timestamp();
            match offset {
                Some(offset) => local - offset,
                None => zone.map_or(local, |zone| zone.instant_seconds(local, Twice::Last)),
            }
        }))
    })
}

fn from_unixtime(arguments: &Arguments, first: usize, zone: Option<Zone>) -> Result<ArrayRef> {
    let seconds = arguments.integer(first);
    let mut patterns = Patterns::new(arguments, first + 1, "yyyy-MM-dd HH:mm:ss", Library::Text, Use::Write);
    try_texts(arguments, |row, out| {
        let (Some(seconds), Some(pattern)) = (seconds.get(row), patterns.get(row)?) else { return Ok(None) };
        let local = zone.map_or(seconds, |zone| zone.local_seconds(seconds));
        let time = DateTime::from_timestamp(local, 0)
            .ok_or_else(|| failure(format!("FROM_UNIXTIME: {seconds} seconds since 1970 are out of range")))?;
        pattern.write(time.naive_utc(), local - seconds, out);
        Ok(Some(()))
    })
}

fn zone(name: &str) -> Result<Zone> {
    Zone::parse(name)
        .ok_or_else(|| failure(format!("CONVERT_TZ: unknown time zone '{name}'; use one like Europe/Berlin or +02:00")))
}

fn convert_tz(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, from, to) = (arguments.text(0), arguments.text(1), arguments.text(2));
    let pattern = Pattern::parse("yyyy-MM-dd HH:mm:ss", Library::Text, Use::WriteLocal)?;
    try_texts(arguments, |row, out| {
        let (Some(text), Some(from), Some(to)) = (text.get(row), from.get(row), to.get(row)) else { return Ok(None) };
        let Some(time) = read_sql(text).filter(|_| text.contains(' ')) else { return Ok(None) };
        let instant = zone(from)?.instant_seconds(time.and_utc().timestamp(), Twice::Last);
        let Some(time) = DateTime::from_timestamp(zone(to)?.local_seconds(instant), 0) else { return Ok(None) };
        pattern.write(time.naive_utc(), 0, out);
        Ok(Some(()))
    })
}
