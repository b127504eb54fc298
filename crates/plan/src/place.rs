//! Converts errors of the parser and of DataFusion to errors with place and remedy.

use anabranch_dataflow::sql_names;
use anabranch_model::{Error, nearest};
use datafusion_common::{Column, DataFusionError, SchemaError, Span};
use datafusion_sql::sqlparser::parser::ParserError;
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::rel::without_numbers;

/// `line 3, column 7`, with which every error of a statement begins.
pub(crate) fn place(line: u64, column: u64) -> String {
    format!("line {line}, column {column}")
}

/// [`place`] of a token. Empty if it is unknown: the error then gets the place of its statement.
pub(crate) fn at(location: Location) -> String {
    if location.line == 0 { String::new() } else { place(location.line, location.column) }
}

/// Adds the place of a part of the statement, if it is known.
pub(crate) fn at_span(error: Error, span: Option<Span>) -> Error {
    match span {
        Some(span) => error.at(place(span.start.line, span.start.column)),
        None => error,
    }
}

/// Adds the statement's place to an error without a place.
pub(crate) fn or_at(error: Error, line: u64, column: u64) -> Error {
    if error.to_string().starts_with("line ") { error } else { error.at(place(line, column)) }
}

/// [`or_at`] for an error of planning.
pub(crate) fn or_start(error: DataFusionError, start: Location) -> DataFusionError {
    let error = planning_error(error);
    through(if start.line == 0 { error } else { or_at(error, start.line, start.column) })
}

/// An error of the parser. Its message ends with the place.
pub(crate) fn syntax_error(error: &ParserError) -> Error {
    let message = match error {
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => message.clone(),
        ParserError::RecursionLimitExceeded => {
            return Error::user("the statement is nested too deeply").remedy("split it with views or WITH");
        }
    };
    let Some((text, position)) = message.rsplit_once(" at Line: ") else {
        return Error::user(format!("syntax error: {message}"));
    };
    let text = text.strip_prefix("sql parser error: ").unwrap_or(text);
    // Refusals of the dialect itself are no syntax errors.
    let error = match text.ends_with("not supported yet") {
        true => Error::user(text),
        false => Error::user(format!("syntax error: {}", lower_first(text))),
    };
    match position.split_once(", Column: ") {
        Some((line, column)) if line != "0" => error.at(format!("line {line}, column {}", column.trim())),
        _ => error,
    }
}

/// An error of planning. DataFusion's diagnostic provides the place, if there is one.
pub(crate) fn planning_error(error: DataFusionError) -> Error {
    let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    let hint = error.diagnostic().map(|d| d.message.clone());
    let error = translate(error, hint);
    match span {
        Some(span) if !error.to_string().starts_with("line ") => error.at(place(span.start.line, span.start.column)),
        _ => error,
    }
}

/// The name of an unknown function, and its place.
pub(crate) fn unknown_function(error: &DataFusionError) -> Option<(String, Option<String>)> {
    let name = error.message().split_once("Invalid function '")?.1.split_once('\'')?.0.to_string();
    let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    Some((name, span.map(|span| place(span.start.line, span.start.column))))
}

/// The name of an unknown column, and its place.
pub(crate) fn unknown_column(error: &DataFusionError) -> Option<(String, Option<String>)> {
    let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    let mut inner = error;
    while let DataFusionError::Diagnostic(_, next) | DataFusionError::Context(_, next) = inner {
        inner = next.as_ref();
    }
    let DataFusionError::SchemaError(error, _) = inner else { return None };
    let SchemaError::FieldNotFound { field, .. } = error.as_ref() else { return None };
    Some((field.flat_name(), span.map(|span| place(span.start.line, span.start.column))))
}

/// Wraps an error of ours as an error of DataFusion.
pub(crate) fn through(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn translate(error: DataFusionError, hint: Option<String>) -> Error {
    match error {
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => translate(*inner, hint),
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(first) => planning_error(first),
            None => Error::internal("an empty collection of errors"),
        },
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => Error::user(other.to_string()),
        },
        DataFusionError::SchemaError(error, _) => schema_error(&error),
        DataFusionError::NotImplemented(message) => not_supported(&tidy(&message)),
        DataFusionError::Internal(message) => {
            let message = tidy(&message);
            let message = without_report(&message);
            let mixed = message.strip_prefix("Failed to coerce types ");
            // The types in this message are the user's.
            let ordered = message.strip_prefix("Cannot run range queries on datatype: ");
            let by_types =
                mixed.map(types_do_not_fit).or_else(|| wrong_number(message)).or_else(|| wrong_argument(message));
            let by_types = by_types.or_else(|| ordered.map(|_| no_range()));
            by_types.unwrap_or_else(|| Error::internal(message.to_owned()))
        }
        DataFusionError::SQL(error, _) => syntax_error(&error),
        DataFusionError::Plan(message) => plan_message(&message, hint.as_deref()),
        other => {
            let text = tidy(&other.strip_backtrace());
            // A call may be refused after type coercion.
            refused_call(&text).or_else(|| constant_refused(&text)).unwrap_or_else(|| Error::user(text))
        }
    }
}

/// Keeps the parser's name of an unsupported form of expression.
fn not_supported(message: &str) -> Error {
    let form = message.split_once("Unsupported ast node").and_then(|(_, rest)| rest.split_once(": "));
    let form = form.map(|(_, form)| form.split([' ', '(', '{']).next().unwrap_or(form).to_uppercase());
    Error::user(form.map_or_else(|| format!("not supported yet: {message}"), |form| format!("{form} is not supported")))
}

fn no_range() -> Error {
    Error::user("RANGE ... PRECEDING does not support this ORDER BY")
        .remedy("order by an event time, or write ROWS BETWEEN")
}

fn types_do_not_fit(types: &str) -> Error {
    Error::user(format!("incompatible types: {types}")).remedy("convert one of them: CAST(x AS type)")
}

/// The error of a function of ours, whose message says how it is called.
fn refused_call(message: &str) -> Option<Error> {
    if let Some((before, _)) = message.split_once("' user-defined coercion failed with: Execution error: ") {
        let (_, function) = before.rsplit_once("Function '")?;
        let error = Error::user(format!("{} does not take values of these types together", function.to_uppercase()));
        return Some(error.remedy("convert them to one type with CAST"));
    }
    let (_, said) = message.split_once("coercion failed with: Error during planning: ")?;
    let said = said.split(". No function matches").next().unwrap_or(said);
    types_refused(said).or_else(|| {
        let (what, form) = said.split_once("; ").unwrap_or((said, ""));
        Some(Error::user(what.to_owned()).remedy(form.to_owned()))
    })
}

/// The error of a function that takes other types.
fn types_refused(message: &str) -> Option<Error> {
    let (_, rest) = message.split_once("nsupported argument types ")?;
    let (types, function) = rest.split_once(" for function ")?;
    let error = Error::user(format!("{} does not take {types}", function.trim().to_uppercase()));
    usage(function.trim()).map(|usage| error.remedy(usage))
}

/// The error of a function of DataFusion that takes another number of arguments.
fn wrong_number(message: &str) -> Option<Error> {
    let (_, rest) = message.split_once("Function '")?;
    let (function, rest) = rest.split_once('\'')?;
    let (_, rest) = rest.split_once(" expects ")?;
    let (takes, rest) = rest.split_once(" argument")?;
    let (_, rest) = rest.split_once("received ")?;
    let given = rest.split(|c: char| !c.is_ascii_digit()).next().filter(|given| !given.is_empty())?;
    let error = Error::user(format!("{} does not take {}", function.to_uppercase(), counted(given, "argument")));
    Some(error.remedy(usage(function).unwrap_or_else(|| format!("give it {}", counted(takes, "argument")))))
}

/// `1 argument`, `3 arguments`.
pub(crate) fn counted(number: impl std::fmt::Display, what: &str) -> String {
    let number = number.to_string();
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// How a function is called.
fn usage(function: &str) -> Option<String> {
    let doc = anabranch_functions::describe(function)?;
    Some(format!("write {}, with CAST where a type differs", doc.signatures.join(" or ")))
}

/// Removes DataFusion's request to report the error as a bug.
fn without_report(message: &str) -> &str {
    message.split("\nThis issue was likely caused by").next().unwrap_or(message).trim_end()
}

/// The error of a unary function of DataFusion, whose message lists all accepted types.
fn wrong_argument(message: &str) -> Option<Error> {
    let (before, after) = message.split_once("' failed to match any signature")?;
    let (_, function) = before.rsplit_once("Function '")?;
    let (_, given) = after.split_once("(DataType: ")?;
    let given = given.split(").").next().unwrap_or(given);
    let function = function.to_uppercase();
    let kind = match given.split('(').next() {
        Some("Struct") => "ROW",
        Some("List") => "ARRAY",
        Some("Map") => "MAP",
        _ => given,
    };
    let error = Error::user(format!("{function} does not take a value of type {kind}"));
    Some(match kind {
        "STRING" => error.remedy(format!("convert it: {function}(CAST(x AS DOUBLE))")),
        _ => error.remedy("give it numbers"),
    })
}

fn plan_message(message: &str, hint: Option<&str>) -> Error {
    let message = tidy(message);
    if let Some(error) = wrong_argument(&message) {
        return error;
    }
    if let Some((_, operation)) = message.split_once("annot get result type for temporal operation ") {
        let shown = operation.split(": ").next().unwrap_or(operation);
        return Error::user(format!("{shown} is not supported"))
            .remedy("add the product to a time: ts + INTERVAL '1' DAY * n, or TIMESTAMPADD(DAY, n, ts)");
    }
    if let Some((what, candidates)) = message.split_once("\n\tCandidate functions:") {
        if let Some(error) = refused_call(what) {
            return error;
        }
        let what = what.split(". No function matches").next().unwrap_or(what);
        let function = candidates.trim_start().split('(').next().unwrap_or_default();
        if let Some(usage) = usage(function) {
            return Error::user(format!("{} does not take these arguments", function.to_uppercase())).remedy(usage);
        }
        let candidates: Vec<&str> = candidates.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        return Error::user(lower_first(what)).remedy(format!("it can be called as {}", candidates.join(" or ")));
    }
    let hint = hint.map(tidy);
    let hint = hint.as_deref();
    if let Some(error) = operation_refused(&message).or_else(|| operation_refused(hint?)) {
        return error;
    }
    // If both exist, the diagnostic is for users and the message for developers.
    match hint {
        Some(hint) if !hint.is_empty() => {
            Error::user(lower_first(hint)).remedy(message.lines().next().unwrap_or_default().to_string())
        }
        _ => Error::user(lower_first(&message)),
    }
}

/// The error of an operation, a condition or a call with unsuitable types.
fn operation_refused(message: &str) -> Option<Error> {
    let arithmetic = message.split_once("annot coerce arithmetic expression ");
    let arithmetic =
        arithmetic.and_then(|(_, rest)| rest.split_once(" to valid types")).map(|(operation, _)| operation);
    let compared = message.split_once("annot infer common argument type for comparison operation ");
    if let Some(operation) = arithmetic.or(compared.map(|(_, rest)| rest.lines().next().unwrap_or(rest))) {
        let error = Error::user(format!("incompatible types: {operation}"));
        return Some(error.remedy("convert one of them: CAST(x AS type)"));
    }
    if let Some((_, rest)) = message.split_once("non-boolean predicate '") {
        let (_, given) = rest.rsplit_once(" returning ")?;
        return Some(Error::user(format!("the condition is {given}, not BOOLEAN")).remedy("compare it: x = ..."));
    }
    types_refused(message)
}

/// The error of a constant that does not fit a type.
fn constant_refused(message: &str) -> Option<Error> {
    let (value, data_type) = message.strip_prefix("Can't cast value ")?.split_once(" to type ")?;
    let error = Error::user(format!("{value} does not fit {data_type}"));
    Some(error.remedy("TRY_CAST gives NULL for a value that does not fit"))
}

fn schema_error(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            // Names that begin with a dollar sign are the planner's.
            let known: Vec<&str> =
                valid_fields.iter().map(Column::name).filter(|name| !name.starts_with('$')).collect();
            column_not_found(&field.flat_name(), field.name(), &known)
        }
        SchemaError::AmbiguousReference { field } => {
            Error::user(format!("column '{}' is in more than one table", field.name()))
                .remedy(format!("write it with its table: t.{}", field.name()))
        }
        SchemaError::DuplicateQualifiedField { qualifier, .. } => same_name(qualifier.table()),
        SchemaError::DuplicateUnqualifiedField { name } => {
            Error::user(format!("two columns have the name '{name}'")).remedy("give one another name with AS")
        }
    }
}

/// The error for two tables of one FROM with the same name or alias.
pub(crate) fn same_name(name: &str) -> Error {
    Error::user(format!("two tables of one FROM have the name '{name}'"))
        .remedy("give each its own alias: FROM t1 AS a, t2 AS b")
}

/// The error for an unknown column. `written`: the whole name. `last`: its last part. `known`: the known
/// columns.
pub(crate) fn column_not_found(written: &str, last: &str, known: &[&str]) -> Error {
    let error = Error::user(format!("there is no column '{written}'"));
    if known.is_empty() {
        return error.remedy("a constant expression is needed here");
    }
    let mut shown = known.iter().take(20).copied().collect::<Vec<_>>().join(", ");
    if known.len() > 20 {
        shown.push_str(", ...");
    }
    match nearest(last, known.iter().copied()) {
        Some(near) => error.remedy(format!("did you mean {near}? The columns are: {shown}")),
        None => error.remedy(format!("the columns are: {shown}")),
    }
}

/// Prefixes of DataFusion's messages, the outermost first.
const LIBRARY_BEGINNINGS: [&str; 6] = [
    "Execution error: ",
    "Arrow error: ",
    "Error during planning: ",
    "Cast error: ",
    "Parser error: ",
    "Invalid argument error: ",
];

fn tidy(message: &str) -> String {
    let message = message.split("\n\nbacktrace:").next().unwrap_or(message);
    let begun = LIBRARY_BEGINNINGS.iter().fold(message, |text, begin| text.strip_prefix(begin).unwrap_or(text));
    sql_names(&without_numbers(begun.trim_end()))
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        // A word in capitals is SQL, not the beginning of a sentence.
        Some(first) if !chars.as_str().starts_with(|c: char| c.is_uppercase()) => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_string(),
    }
}
