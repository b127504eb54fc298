//! SQL values as JSON: `JSON_OBJECT`, `JSON_ARRAY`, `JSON_STRING`. Members of objects are in the order of
//! their names, as in Flink.

use std::collections::BTreeMap;
use std::fmt::Write;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, ListArray,
    MapArray, StringViewArray, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Field, Float64Type, Int64Type};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, NaiveDateTime};
use datafusion_common::Result;
use datafusion_expr::ReturnFieldArgs;

use super::scan::Scanner;
use super::write::{Writer, comma, number, quoted};
use crate::arguments::{Arguments, try_texts};
use crate::array::build::{part, range};
use crate::array::types::refused;
use crate::definition::failure;
use crate::moment::per_second;

/// The word before a value that is the text of a JSON document.
const DOCUMENT: &str = "JSON";
/// The word before a value that another call has built.
const BUILT: &str = "BUILT";
/// The first argument if members and elements that are NULL are left out.
pub(super) const ABSENT: &str = "ABSENT";

/// Values of one column.
pub(super) enum Values {
    Null,
    Text(StringViewArray),
    Boolean(BooleanArray),
    Whole(Int64Array),
    Float(Float64Array),
    Decimal(Decimal128Array),
    /// Number of units per second since 1970, and whether it is an instant.
    Time(Int64Array, i64, bool),
    Bytes(BinaryArray),
    /// With the elements of these lists only.
    List(ListArray, Box<Values>),
    Map(MapArray, StringViewArray, Box<Values>),
    /// With the fields in the order of their names.
    Row(StructArray, Vec<(String, Values)>),
}

/// Whether values of a type have a form in JSON.
fn check(data_type: &DataType) -> Result<()> {
    use DataType::{Binary, BinaryView, Boolean, Decimal128, LargeBinary, Null, Timestamp};
    match data_type {
        DataType::List(item) => check(item.data_type()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields[0].data_type().is_string() => check(fields[1].data_type()),
            _ => Err(refused("the keys of a JSON object are texts; CAST the map AS MAP<STRING, ...>")),
        },
        DataType::Struct(fields) => fields.iter().try_for_each(|field| check(field.data_type())),
        Null | Boolean | Timestamp(..) | Decimal128(..) | Binary | LargeBinary | BinaryView => Ok(()),
        number if number.is_integer() || number.is_floating() => Ok(()),
        text if text.is_string() => Ok(()),
        _ => Err(refused("a DATE, a TIME or an INTERVAL has no form in JSON; CAST it AS STRING")),
    }
}

/// The type of the results; an error if an argument has no form in JSON.
pub(super) fn text_type(args: &ReturnFieldArgs) -> Result<DataType> {
    args.arg_fields.iter().try_for_each(|field: &std::sync::Arc<Field>| check(field.data_type()))?;
    Ok(DataType::Utf8View)
}

impl Values {
    fn new(array: &ArrayRef) -> Result<Values> {
        Ok(match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Boolean(array.as_boolean().clone()),
            DataType::Timestamp(unit, zone) => {
                let times = cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
                Values::Time(times, per_second(*unit), zone.is_some())
            }
            DataType::Decimal128(..) => Values::Decimal(array.as_primitive::<Decimal128Type>().clone()),
            DataType::List(_) => {
                let list = array.as_list::<i32>().clone();
                let items = Values::new(&part(list.values(), list.value_offsets()))?;
                Values::List(list, Box::new(items))
            }
            DataType::Map(..) => {
                let map = array.as_map().clone();
                let (keys, values) = (part(map.keys(), map.value_offsets()), part(map.values(), map.value_offsets()));
                let keys = cast(&keys, &DataType::Utf8View)?.as_string_view().clone();
                let values = Values::new(&values)?;
                Values::Map(map, keys, Box::new(values))
            }
            DataType::Struct(fields) => {
                let row = array.as_struct().clone();
                let named = fields.iter().zip(row.columns());
                let named = named.map(|(field, column)| Ok((field.name().clone(), Values::new(column)?)));
                let mut named = named.collect::<Result<Vec<_>>>()?;
                named.sort_by(|a, b| a.0.encode_utf16().cmp(b.0.encode_utf16()));
                Values::Row(row, named)
            }
            data_type if data_type.is_integer() => {
                Values::Whole(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            data_type if data_type.is_floating() => {
                Values::Float(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
            }
            data_type if data_type.is_string() => {
                Values::Text(cast(array, &DataType::Utf8View)?.as_string_view().clone())
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                Values::Bytes(cast(array, &DataType::Binary)?.as_binary::<i32>().clone())
            }
            other => return Err(failure(format!("{other} has no form in JSON"))),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Values::Null => true,
            Values::Text(values) => values.is_null(row),
            Values::Boolean(values) => values.is_null(row),
            Values::Whole(values) | Values::Time(values, ..) => values.is_null(row),
            Values::Float(values) => values.is_null(row),
            Values::Decimal(values) => values.is_null(row),
            Values::Bytes(values) => values.is_null(row),
            Values::List(values, _) => values.is_null(row),
            Values::Map(values, ..) => values.is_null(row),
            Values::Row(values, _) => values.is_null(row),
        }
    }

    fn write(&self, row: usize, out: &mut String) -> Result<()> {
        if self.is_null(row) {
            out.push_str("null");
            return Ok(());
        }
        match self {
            Values::Null => {}
            Values::Text(values) => quoted(values.value(row), out),
            Values::Boolean(values) => out.push_str(if values.value(row) { "true" } else { "false" }),
            // Writing into a text does not fail.
            Values::Whole(values) => drop(write!(out, "{}", values.value(row))),
            Values::Float(values) => write_float(values.value(row), out),
            Values::Decimal(values) => number(&values.value_as_string(row), out),
            Values::Time(values, per_second, zone) => write_time(values.value(row), *per_second, *zone, out)?,
            Values::Bytes(values) => {
                out.push('"');
                STANDARD.encode_string(values.value(row), out);
                out.push('"');
            }
            Values::List(lists, items) => {
                out.push('[');
                for item in range(lists.value_offsets(), row) {
                    comma(out);
                    items.write(item, out)?;
                }
                out.push(']');
            }
            Values::Map(maps, keys, values) => {
                let mut entries: Vec<usize> = range(maps.value_offsets(), row).collect();
                entries.sort_by(|a, b| keys.value(*a).encode_utf16().cmp(keys.value(*b).encode_utf16()));
                let member = |row: &usize| Named { name: keys.value(*row), values, row: *row };
                write_members(entries.iter().map(member), out)?;
            }
            Values::Row(_, fields) => {
                write_members(fields.iter().map(|(name, values)| Named { name, values, row }), out)?;
            }
        }
        Ok(())
    }
}

/// A member of an object, whose value is in a row of a column.
struct Named<'a> {
    name: &'a str,
    values: &'a Values,
    row: usize,
}

fn write_members<'a>(members: impl Iterator<Item = Named<'a>>, out: &mut String) -> Result<()> {
    out.push('{');
    for Named { name, values, row } in members {
        comma(out);
        quoted(name, out);
        out.push(':');
        values.write(row, out)?;
    }
    out.push('}');
    Ok(())
}

/// A number as Java's `BigDecimal` of the text that `Double` has. An infinity or NaN is a text.
fn write_float(value: f64, out: &mut String) {
    if !value.is_finite() {
        let infinite = if value > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" };
        out.push_str(if value.is_nan() { "\"NaN\"" } else { infinite });
        return;
    }
    let is_plain = value == 0.0 || (1e-3..1e7).contains(&value.abs());
    if is_plain {
        return number(&format!("{value:?}"), out);
    }
    let text = format!("{value:e}");
    // Java has at least two digits.
    number(&if text.contains('.') { text } else { format!("{value:.1e}") }, out);
}

fn write_time(value: i64, per_second: i64, zone: bool, out: &mut String) -> Result<()> {
    let nanos = value.rem_euclid(per_second) * (1_000_000_000 / per_second);
    let time = DateTime::from_timestamp(value.div_euclid(per_second), u32::try_from(nanos).unwrap_or(0));
    let time: NaiveDateTime = time.ok_or_else(|| failure("a time is out of range"))?.naive_utc();
    let _ = write!(out, "\"{}", time.format("%Y-%m-%dT%H:%M:%S"));
    if nanos > 0 {
        let _ = write!(out, ".{}", format!("{nanos:09}").trim_end_matches('0'));
    }
    out.push_str(if zone { "Z\"" } else { "\"" });
    Ok(())
}

/// Values of objects or arrays.
pub(super) enum Member {
    Value(Box<Values>),
    /// The texts of documents.
    Document(StringViewArray),
    Built(StringViewArray),
}

impl Member {
    /// `word` says what the values are.
    pub(super) fn new(word: &str, array: &ArrayRef) -> Result<Member> {
        let texts = || -> Result<StringViewArray> { Ok(cast(array, &DataType::Utf8View)?.as_string_view().clone()) };
        Ok(match word {
            DOCUMENT => Member::Document(texts()?),
            BUILT => Member::Built(texts()?),
            _ => Member::Value(Box::new(Values::new(array)?)),
        })
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        match self {
            Member::Value(values) => values.is_null(row),
            Member::Document(texts) | Member::Built(texts) => texts.is_null(row),
        }
    }

    pub(super) fn write(&self, row: usize, out: &mut String) -> Result<()> {
        match self {
            Member::Value(values) => values.write(row, out)?,
            Member::Document(texts) | Member::Built(texts) if texts.is_null(row) => out.push_str("null"),
            Member::Built(texts) => out.push_str(texts.value(row)),
            Member::Document(texts) => {
                let text = texts.value(row);
                let document = Scanner::new(text).document();
                let written = document.and_then(|document| Writer::default().value(document, out));
                written.map_err(|_| {
                    let shown: String = text.chars().take(60).collect();
                    failure(format!(
                        "JSON('{shown}') is no JSON; leave JSON(...) out for a text, or test it with IS JSON"
                    ))
                })?;
            }
        }
        Ok(())
    }
}

/// The members of a call: each is a word, which says what the value is, and the value.
struct Members<'a> {
    arguments: &'a Arguments<'a>,
    members: BTreeMap<usize, Member>,
    absent: bool,
}

impl<'a> Members<'a> {
    /// Values are at these places, and their words before them.
    fn new(arguments: &'a Arguments<'a>, places: impl Iterator<Item = usize>) -> Result<Members<'a>> {
        let member = |place: usize| Ok((place, Member::new(&word(arguments, place - 1), arguments.array(place))?));
        let members = places.map(member).collect::<Result<_>>()?;
        Ok(Members { arguments, members, absent: word(arguments, 0) == ABSENT })
    }

    /// Whether a value is left out.
    fn is_absent(&self, place: usize, row: usize) -> bool {
        self.absent && self.members[&place].is_null(self.arguments.index(place, row))
    }

    fn write(&self, place: usize, row: usize, out: &mut String) -> Result<()> {
        self.members[&place].write(self.arguments.index(place, row), out)
    }
}

/// An argument that is a word.
pub(super) fn word(arguments: &Arguments, place: usize) -> String {
    arguments.text(place).get(0).unwrap_or_default().to_owned()
}

/// Takes what becomes of NULL, and for each member its key, its word and its value.
pub(super) fn object(arguments: &Arguments) -> Result<ArrayRef> {
    let places = (0..).map(|member| 3 * member + 3).take_while(|place| *place < arguments.len());
    let members = Members::new(arguments, places.clone())?;
    // Of members with the same key the last one counts.
    let mut by_key: BTreeMap<Vec<u16>, (String, Vec<usize>)> = BTreeMap::new();
    for place in places {
        let keys = arguments.text(place - 2);
        let key = keys.get(0).filter(|_| arguments.is_constant(place - 2));
        let key = key.ok_or_else(|| failure("a key of JSON_OBJECT is a constant text"))?;
        let of_key = by_key.entry(key.encode_utf16().collect()).or_insert_with(|| (String::new(), Vec::new()));
        of_key.0.clear();
        quoted(key, &mut of_key.0);
        of_key.1.push(place);
    }
    try_texts(arguments, |row, out| {
        out.push('{');
        for (key, places) in by_key.values() {
            let Some(place) = places.iter().rfind(|place| !members.is_absent(**place, row)) else { continue };
            comma(out);
            out.push_str(key);
            out.push(':');
            members.write(*place, row, out)?;
        }
        out.push('}');
        Ok(Some(()))
    })
}

/// Takes what becomes of NULL, and for each element its word and its value.
pub(super) fn array(arguments: &Arguments) -> Result<ArrayRef> {
    let places: Vec<usize> = (2..arguments.len()).step_by(2).collect();
    let members = Members::new(arguments, places.iter().copied())?;
    try_texts(arguments, |row, out| {
        out.push('[');
        for place in places.iter().filter(|place| !members.is_absent(**place, row)) {
            comma(out);
            members.write(*place, row, out)?;
        }
        out.push(']');
        Ok(Some(()))
    })
}

/// A value as JSON; NULL stays NULL.
pub(super) fn string(arguments: &Arguments) -> Result<ArrayRef> {
    let values = Values::new(arguments.array(0))?;
    try_texts(arguments, |row, out| {
        let row = arguments.index(0, row);
        Ok(if values.is_null(row) { None } else { Some(values.write(row, out)?) })
    })
}
