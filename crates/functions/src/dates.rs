//! Functions between texts and dates or times.

use std::str::FromStr;

use arrow::array::timezone::Tz;
use arrow::array::{ArrayRef, StringViewArray};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use chrono::{DateTime, NaiveDateTime, NaiveTime, TimeZone};
use datafusion_common::Result;

use crate::arguments::{Arguments, Column, try_primitives, try_texts};
use crate::date_pattern::{Pattern, read_date, read_sql};
use crate::definition::{Definition, Kind, Returns, failure, function};
use crate::moment::{Moments, moments};

const TEXT: &[&[Kind]] = &[&[Kind::Text], &[Kind::Text, Kind::Text]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("date_format", &[&[Kind::Text, Kind::Text], &[Kind::Moment, Kind::Text]], Returns::Text, date_format),
    function("to_date", TEXT, Returns::Of(|_| Ok(DataType::Date32)), to_date),
    function("to_timestamp", TEXT, Returns::Of(|_| Ok(DataType::Timestamp(TimeUnit::Millisecond, None))), to_timestamp),
    function("unix_timestamp", TEXT, Returns::BigInt, unix_timestamp),
    function("from_unixtime", &[&[Kind::Integer], &[Kind::Integer, Kind::Text]], Returns::Text, from_unixtime),
    function("convert_tz", &[&[Kind::Text, Kind::Text, Kind::Text]], Returns::Text, convert_tz),
];

/// The pattern of each row; a constant one is parsed once.
struct Patterns {
    texts: Option<Column<StringViewArray>>,
    default: &'static str,
    last: Option<(String, Pattern)>,
}

impl Patterns {
    fn new(arguments: &Arguments, index: usize, default: &'static str) -> Self {
        let texts = (index < arguments.len()).then(|| arguments.text(index));
        Patterns { texts, default, last: None }
    }

    fn get(&mut self, row: usize) -> Result<Option<&Pattern>> {
        let text = match &self.texts {
            Some(texts) => texts.get(row),
            None => Some(self.default),
        };
        let Some(text) = text else { return Ok(None) };
        let last = match self.last.take() {
            Some(last) if last.0 == text => last,
            _ => (text.to_owned(), Pattern::parse(text)?),
        };
        Ok(Some(&self.last.insert(last).1))
    }

    fn are_given(&self) -> bool {
        self.texts.is_some()
    }
}

fn date_format(arguments: &Arguments) -> Result<ArrayRef> {
    let mut patterns = Patterns::new(arguments, 1, "");
    if arguments.array(0).data_type().is_string() {
        let text = arguments.text(0);
        return try_texts(arguments, |row, out| {
            let Some(pattern) = patterns.get(row)? else { return Ok(None) };
            let time = text.get(row).filter(|text| text.contains(' ')).and_then(read_sql);
            Ok(time.map(|time| pattern.write(time, out)))
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
            pattern.write(time, &mut text);
            last = Some(span);
        }
        out.push_str(&text);
        Ok(Some(()))
    })
}

/// The time in each text by its pattern, or in SQL's form; NULL if the text does not match.
fn read(arguments: &Arguments) -> impl FnMut(usize) -> Result<Option<NaiveDateTime>> {
    let (text, mut patterns) = (arguments.text(0), Patterns::new(arguments, 1, ""));
    move |row| {
        let Some(text) = text.get(row) else { return Ok(None) };
        if !patterns.are_given() {
            return Ok(read_sql(text));
        }
        let Some(pattern) = patterns.get(row)? else { return Ok(None) };
        Ok(pattern.read(text).or_else(|| read_sql(text).filter(|_| text.contains(' '))))
    }
}

fn to_timestamp(arguments: &Arguments) -> Result<ArrayRef> {
    moments(arguments, read(arguments))
}

fn to_date(arguments: &Arguments) -> Result<ArrayRef> {
    if arguments.len() > 1 {
        return moments(arguments, read(arguments));
    }
    let text = arguments.text(0);
    moments(arguments, |row| {
        let date = text.get(row).and_then(|text| read_date(text.split(' ').next()?, true));
        Ok(date.map(|date| date.and_time(NaiveTime::MIN)))
    })
}

fn unix_timestamp(arguments: &Arguments) -> Result<ArrayRef> {
    let mut read = read(arguments);
    let text = arguments.text(0);
    let with_pattern = arguments.len() > 1;
    try_primitives::<Int64Type>(arguments.rows, |row| {
        let time = read(row)?.filter(|_| with_pattern || text.get(row).is_some_and(|text| text.contains(' ')));
        Ok(time.map(|time| time.and_utc().timestamp()))
    })
}

fn from_unixtime(arguments: &Arguments) -> Result<ArrayRef> {
    let seconds = arguments.integer(0);
    let mut patterns = Patterns::new(arguments, 1, "yyyy-MM-dd HH:mm:ss");
    try_texts(arguments, |row, out| {
        let (Some(seconds), Some(pattern)) = (seconds.get(row), patterns.get(row)?) else { return Ok(None) };
        let time = DateTime::from_timestamp(seconds, 0)
            .ok_or_else(|| failure(format!("FROM_UNIXTIME: {seconds} seconds since 1970 are out of range")))?;
        pattern.write(time.naive_utc(), out);
        Ok(Some(()))
    })
}

fn zone(name: &str) -> Result<Tz> {
    let offset = name.strip_prefix("GMT").filter(|offset| !offset.is_empty()).unwrap_or(name);
    Tz::from_str(offset)
        .map_err(|_| failure(format!("CONVERT_TZ: unknown time zone '{name}'; use one like Europe/Berlin or +02:00")))
}

fn convert_tz(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, from, to) = (arguments.text(0), arguments.text(1), arguments.text(2));
    let pattern = Pattern::parse("yyyy-MM-dd HH:mm:ss")?;
    try_texts(arguments, |row, out| {
        let (Some(text), Some(from), Some(to)) = (text.get(row), from.get(row), to.get(row)) else { return Ok(None) };
        let Some(time) = read_sql(text).filter(|_| text.contains(' ')) else { return Ok(None) };
        // A time that a change of the clock skips uses the offset before the change.
        let Some(moment) = zone(from)?.from_local_datetime(&time).earliest() else { return Ok(None) };
        pattern.write(moment.with_timezone(&zone(to)?).naive_local(), out);
        Ok(Some(()))
    })
}
