//! `JSON_VALUE`, `JSON_EXISTS`, `JSON_QUERY` and `IS JSON`: a path is parsed once per batch, documents are
//! read in place. `JSON_OBJECT`, `JSON_ARRAY` and `JSON_STRING` write values, `JSON_ARRAYAGG` and
//! `JSON_OBJECTAGG` those of groups.

mod build;
mod gathered;
mod path;
mod scan;
mod write;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Float64Type, Int32Type};
use datafusion_common::Result;
use datafusion_expr::ReturnFieldArgs;

use self::path::Path;
use self::scan::{Kind as Json, Scanner, Selection, kind};
use crate::arguments::{Arguments, booleans, texts, try_booleans, try_primitives, try_texts};
use crate::definition::{Definition, Kind, Returns, failure, function};

const PATH: &[Kind] = &[Kind::Text, Kind::Text];

pub(crate) const DEFINITIONS: &[Definition] = &[
    // The document, the path, what is given for an empty result and for an error, and which of the two stop
    // the job.
    function(
        "json_value",
        &[PATH, &[Kind::Text, Kind::Text, Kind::Any, Kind::Any, Kind::Text]],
        Returns::Of(value_type),
        json_value,
    )
    .fails_if(|call| !call.returns.is_string() || (call.len() > 4 && call.text(4) != Some(""))),
    function("json_exists", &[PATH, &[Kind::Text, Kind::Text, Kind::Text]], Returns::Boolean, json_exists)
        .fails_if(|call| call.stops(2)),
    // The document, the path, the wrapper, and what is given for an empty result and for an error.
    function(
        "json_query",
        &[PATH, &[Kind::Text, Kind::Text, Kind::Text, Kind::Text, Kind::Text]],
        Returns::Text,
        json_query,
    )
    .fails_if(|call| call.stops(3) || call.stops(4)),
    function("is_json", &[PATH], Returns::Boolean, is_json).never_fails(),
    function("json_object", &[&[Kind::Any]], Returns::Of(build::text_type), build::object).variadic(),
    function("json_array", &[&[Kind::Any]], Returns::Of(build::text_type), build::array).variadic(),
    function("$json_arrayagg", &[&[Kind::Text, Kind::Text, Kind::Any]], Returns::Of(build::text_type), gathered::array),
    function("$json_objectagg", &[&[Kind::Any]], Returns::Of(build::text_type), gathered::object),
    function("json_string", &[&[Kind::Any]], Returns::Of(build::text_type), build::string),
    function("json_quote", &[&[Kind::Text]], Returns::Text, json_quote).never_fails(),
    function("json_unquote", &[&[Kind::Text]], Returns::Text, json_unquote).never_fails(),
];

/// What is wrong with a path of `JSON_VALUE`, `JSON_EXISTS` or `JSON_QUERY`.
///
/// # Errors
///
/// Names the path, what is wrong, and what can be written.
pub fn check_json_path(path: &str) -> std::result::Result<(), String> {
    Path::parse(path).map(|_| ())
}

/// The values that a path selects in one document.
enum Selected<'a> {
    /// A value that is not null.
    One(&'a str),
    /// The values of a path that may select several.
    Many,
    Empty,
    /// Why there is no answer.
    Error(&'static str),
}

/// The path of a call, and its last selection.
struct Finder<'a> {
    path: Path,
    selection: Selection<'a>,
}

impl<'a> Finder<'a> {
    fn new(arguments: &Arguments) -> Result<Self> {
        if !arguments.is_constant(1) {
            return Err(failure("a JSON path is a constant text"));
        }
        let column = arguments.text(1);
        let path = column.get(0).ok_or_else(|| failure("a JSON path is not NULL"))?;
        Ok(Finder { path: Path::parse(path).map_err(failure)?, selection: Selection::default() })
    }

    fn find(&mut self, document: &'a str) -> Selected<'a> {
        self.selection.values.clear();
        self.selection.failed = false;
        let Ok(whole) = Scanner::new(document).select_document(&self.path.steps, &mut self.selection) else {
            return if self.path.lax { Selected::Empty } else { Selected::Error("the text is not JSON") };
        };
        if kind(whole) == Json::Null {
            return Selected::Error("the document is null");
        }
        let missing = Selected::Error("the path leads to no value");
        match (self.path.is_definite(), self.selection.values.last()) {
            (true, Some(value)) if kind(value) != Json::Null => Selected::One(value),
            // A null is no value either.
            (true, _) if self.path.lax => Selected::Empty,
            (true, _) => missing,
            (false, _) if self.selection.failed && !self.path.lax => missing,
            (false, _) => Selected::Many,
        }
    }

    /// The scalar that `JSON_VALUE` takes.
    fn scalar(&mut self, document: &'a str) -> Selected<'a> {
        match self.find(document) {
            Selected::One(value) if kind(value) == Json::Scalar => Selected::One(value),
            Selected::One(_) | Selected::Many if self.path.lax => Selected::Empty,
            Selected::One(_) | Selected::Many => Selected::Error("the value is an array or an object"),
            found => found,
        }
    }
}

fn stopped(name: &str, why: &str, document: &str) -> datafusion_common::DataFusionError {
    let shown: String = document.chars().take(60).collect();
    let more = if shown.len() < document.len() { "..." } else { "" };
    failure(format!("{name} of '{shown}{more}': {why}; NULL ON EMPTY and NULL ON ERROR give NULL"))
}

/// Texts, unless the value for an empty result has another type.
fn value_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let given = args.arg_fields.get(2).map_or(&DataType::Utf8View, |field| field.data_type());
    Ok(if given.is_string() || given.is_null() { DataType::Utf8View } else { given.clone() })
}

fn json_value(arguments: &Arguments) -> Result<ArrayRef> {
    let documents = arguments.text(0);
    let mut finder = Finder::new(arguments)?;
    let fates = Fates::new(arguments)?;
    // The value, or where the default comes from.
    let mut find = |row| {
        let Some(document) = documents.get(row) else { return Ok(None) };
        let (error, default, why) = match finder.scalar(document) {
            Selected::One(value) => return Ok(Some(Ok((document, value)))),
            Selected::Empty => (fates.empty_stops, 2, "the result is empty"),
            Selected::Error(why) => (fates.error_stops, 3, why),
            Selected::Many => (fates.error_stops, 3, "the value is an array"),
        };
        if error { Err(stopped("JSON_VALUE", why, document)) } else { Ok(Some(Err(default))) }
    };
    macro_rules! numbers {
        ($t:ty, $convert:expr) => {{
            let defaults = (arguments.len() > 2).then(|| [arguments.primitive::<$t>(2), arguments.primitive::<$t>(3)]);
            try_primitives::<$t>(arguments.rows, |row| {
                Ok(match find(row)? {
                    None => None,
                    Some(Ok((document, value))) => Some($convert(document, value)?),
                    Some(Err(default)) => defaults.as_ref().and_then(|columns| columns[default - 2].get(row)),
                })
            })
        }};
    }
    match arguments.returns {
        DataType::Int32 => numbers!(Int32Type, to_int),
        DataType::Float64 => numbers!(Float64Type, to_double),
        DataType::Boolean => {
            let defaults = (arguments.len() > 2).then(|| [arguments.boolean(2), arguments.boolean(3)]);
            try_booleans(arguments.rows, |row| {
                Ok(match find(row)? {
                    None => None,
                    Some(Ok((document, value))) => Some(to_boolean(document, value)?),
                    Some(Err(default)) => defaults.as_ref().and_then(|columns| columns[default - 2].get(row)),
                })
            })
        }
        _ => {
            let defaults = (arguments.len() > 2).then(|| [arguments.text(2), arguments.text(3)]);
            try_texts(arguments, |row, out| {
                Ok(match find(row)? {
                    None => None,
                    Some(Ok((_, value))) => {
                        write::scalar(value, out);
                        Some(())
                    }
                    Some(Err(default)) => {
                        let text = defaults.as_ref().and_then(|columns| columns[default - 2].get(row));
                        text.map(|text| out.push_str(text))
                    }
                })
            })
        }
    }
}

/// Which results of `JSON_VALUE` stop the job: a list of `EMPTY` and `ERROR`.
struct Fates {
    empty_stops: bool,
    error_stops: bool,
}

impl Fates {
    fn new(arguments: &Arguments) -> Result<Self> {
        let listed = word(arguments, 4)?;
        let listed = listed.as_deref().unwrap_or_default();
        Ok(Fates { empty_stops: listed.contains("EMPTY"), error_stops: listed.contains("ERROR") })
    }
}

/// A constant word of a call, which the call may leave out.
fn word(arguments: &Arguments, index: usize) -> Result<Option<String>> {
    if index >= arguments.len() {
        return Ok(None);
    }
    if !arguments.is_constant(index) {
        return Err(failure("the behaviour of a JSON function is a constant"));
    }
    Ok(arguments.text(index).get(0).map(str::to_owned))
}

fn unfit(value: &str, returning: &str, document: &str) -> datafusion_common::DataFusionError {
    stopped("JSON_VALUE", &format!("{value} is no {returning}; RETURNING STRING and TRY_CAST convert it"), document)
}

fn to_int(document: &str, value: &str) -> Result<i32> {
    value.parse().map_err(|_| unfit(value, "INTEGER", document))
}

fn to_double(document: &str, value: &str) -> Result<f64> {
    value.parse().map_err(|_| unfit(value, "DOUBLE", document))
}

fn to_boolean(document: &str, value: &str) -> Result<bool> {
    value.parse().map_err(|_| unfit(value, "BOOLEAN", document))
}

fn json_exists(arguments: &Arguments) -> Result<ArrayRef> {
    let documents = arguments.text(0);
    let mut finder = Finder::new(arguments)?;
    let on_error = word(arguments, 2)?.unwrap_or_default();
    try_booleans(arguments.rows, |row| {
        let Some(document) = documents.get(row) else { return Ok(None) };
        match (finder.find(document), on_error.as_str()) {
            (Selected::One(_) | Selected::Many, _) => Ok(Some(true)),
            (Selected::Empty, _) => Ok(Some(false)),
            (Selected::Error(why), "ERROR") => Err(stopped("JSON_EXISTS", why, document)),
            (Selected::Error(_), "UNKNOWN") => Ok(None),
            (Selected::Error(_), other) => Ok(Some(other == "TRUE")),
        }
    })
}

fn json_query(arguments: &Arguments) -> Result<ArrayRef> {
    let documents = arguments.text(0);
    let mut finder = Finder::new(arguments)?;
    let wrapper = word(arguments, 2)?.unwrap_or_default();
    let (on_empty, on_error) = (word(arguments, 3)?.unwrap_or_default(), word(arguments, 4)?.unwrap_or_default());
    let mut writer = write::Writer::default();
    try_texts(arguments, |row, out| {
        let Some(document) = documents.get(row) else { return Ok(None) };
        let found = finder.find(document);
        let is_array = match &found {
            Selected::One(value) => kind(value) == Json::Array,
            _ => matches!(found, Selected::Many),
        };
        let wrap = wrapper == "UNCONDITIONAL" || wrapper == "CONDITIONAL" && !is_array;
        let (fate, why) = match found {
            Selected::One(value) if kind(value) == Json::Scalar && !wrap => match finder.path.lax {
                true => (&on_empty, "the result is empty"),
                false => (&on_error, "the value is no array or object"),
            },
            Selected::One(value) => return written(&mut writer, &[value], false, wrap, out),
            Selected::Many => return written(&mut writer, &finder.selection.values, true, wrap, out),
            Selected::Empty => (&on_empty, "the result is empty"),
            Selected::Error(why) => (&on_error, why),
        };
        match fate.as_str() {
            "ERROR" => return Err(stopped("JSON_QUERY", why, document)),
            "EMPTY ARRAY" => out.push_str("[]"),
            "EMPTY OBJECT" => out.push_str("{}"),
            _ => return Ok(None),
        }
        Ok(Some(()))
    })
}

/// Writes values, in an array if they are `many`, and in another one if it `wraps`.
fn written<'a>(
    writer: &mut write::Writer<'a>,
    values: &[&'a str],
    many: bool,
    wrap: bool,
    out: &mut String,
) -> Result<Option<()>> {
    let brackets = usize::from(many) + usize::from(wrap);
    (0..brackets).for_each(|_| out.push('['));
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        writer.value(value, out).map_err(|_| failure("JSON that was read cannot be read again"))?;
    }
    (0..brackets).for_each(|_| out.push(']'));
    Ok(Some(()))
}

/// Whether a text is JSON, or JSON of one kind. NULL is not.
fn is_json(arguments: &Arguments) -> Result<ArrayRef> {
    let text = arguments.text(0);
    let wanted = match word(arguments, 1)?.as_deref() {
        Some("OBJECT") => Some(&[Json::Object][..]),
        Some("ARRAY") => Some(&[Json::Array][..]),
        Some("SCALAR") => Some(&[Json::Scalar, Json::Null][..]),
        _ => None,
    };
    booleans(arguments.rows, |row| {
        let document = text.get(row).and_then(|text| Scanner::new(text).document().ok());
        Some(document.is_some_and(|document| wanted.is_none_or(|kinds| kinds.contains(&kind(document)))))
    })
}

/// A text with quotes, in ASCII. As in Flink, a character beyond the basic plane is not written as JSON wants
/// it.
fn json_quote(arguments: &Arguments) -> Result<ArrayRef> {
    let text = arguments.text(0);
    texts(arguments, |row, out| {
        write::ascii_quoted(text.get(row)?, out);
        Some(())
    })
}

/// A JSON text without quotes; any other text as it is.
fn json_unquote(arguments: &Arguments) -> Result<ArrayRef> {
    let text = arguments.text(0);
    texts(arguments, |row, out| {
        let text = text.get(row)?;
        match Scanner::new(text).document() {
            Ok(document) if text.starts_with('"') && document == text => write::scalar(document, out),
            _ => out.push_str(text),
        }
        Some(())
    })
}
