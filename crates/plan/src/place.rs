//! Converts the parser's and DataFusion's errors to errors with place and remedy.

use anabranch_model::Error;
use datafusion_common::{Column, DataFusionError, SchemaError, Span};
use datafusion_sql::sqlparser::parser::ParserError;
use datafusion_sql::sqlparser::tokenizer::Location;

/// `line 3, column 7`: the beginning of every error of a statement.
pub(crate) fn place(line: u64, column: u64) -> String {
    format!("line {line}, column {column}")
}

/// [`place`] of a token. Empty if it is not known: then the error has the place of its statement.
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

/// Adds the statement's place to an error without a more exact one.
pub(crate) fn or_at(error: Error, line: u64, column: u64) -> Error {
    if error.to_string().starts_with("line ") { error } else { error.at(place(line, column)) }
}

/// An error of the parser: its message ends with the place.
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
    // The dialect's own refusals are no errors of syntax.
    let error = match text.ends_with("not supported yet") {
        true => Error::user(text),
        false => Error::user(format!("syntax error: {}", lower_first(text))),
    };
    match position.split_once(", Column: ") {
        Some((line, column)) if line != "0" => error.at(format!("line {line}, column {}", column.trim())),
        _ => error,
    }
}

/// An error of planning. The place comes from the diagnostic, if DataFusion gives one.
pub(crate) fn planning_error(error: DataFusionError) -> Error {
    let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    let hint = error.diagnostic().map(|d| d.message.clone());
    let error = translate(error, hint);
    match span {
        Some(span) if !error.to_string().starts_with("line ") => error.at(place(span.start.line, span.start.column)),
        _ => error,
    }
}

/// The name of an unknown function in a query, with the error's place.
pub(crate) fn unknown_function(error: &DataFusionError) -> Option<(String, Option<String>)> {
    let name = error.message().split_once("Invalid function '")?.1.split_once('\'')?.0.to_string();
    let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    Some((name, span.map(|span| place(span.start.line, span.start.column))))
}

/// The name of an unknown column in an expression, with the error's place.
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

/// Wraps our own error so that it passes through DataFusion.
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
            let mixed = message.strip_prefix("Failed to coerce types ");
            // Said of expressions whose types are the user's.
            let ordered = message.strip_prefix("Cannot run range queries on datatype: ");
            let by_types = mixed.map(types_do_not_fit).or_else(|| wrong_argument(&message));
            let by_types = by_types.or_else(|| ordered.map(|_| no_range()));
            by_types.unwrap_or_else(|| Error::internal(message))
        }
        DataFusionError::SQL(error, _) => syntax_error(&error),
        DataFusionError::Plan(message) => plan_message(&message, hint.as_deref()),
        other => {
            let text = tidy(&other.strip_backtrace());
            // A call may be refused only after the types of its arguments are coerced.
            refused_call(&text).unwrap_or_else(|| Error::user(text))
        }
    }
}

/// Of a form of expressions, the parser's name is said, without what it is made of.
fn not_supported(message: &str) -> Error {
    let form = message.split_once("Unsupported ast node").and_then(|(_, rest)| rest.split_once(": "));
    let form = form.map(|(_, form)| form.split([' ', '(', '{']).next().unwrap_or(form).to_uppercase());
    Error::user(form.map_or_else(|| format!("not supported yet: {message}"), |form| format!("{form} is not supported")))
}

fn no_range() -> Error {
    Error::user("RANGE ... PRECEDING does not go with this ORDER BY")
        .remedy("order by an event time, or write ROWS BETWEEN")
}

fn types_do_not_fit(types: &str) -> Error {
    Error::user(format!("the types do not fit: {types}")).remedy("convert one of them: CAST(x AS type)")
}

/// The error of one of our own functions, which says how it can be called.
fn refused_call(message: &str) -> Option<Error> {
    if let Some((before, _)) = message.split_once("' user-defined coercion failed with: Execution error: ") {
        let (_, function) = before.rsplit_once("Function '")?;
        let error = Error::user(format!("{} does not take values of these types together", function.to_uppercase()));
        return Some(error.remedy("convert them to one type with CAST"));
    }
    let (_, said) = message.split_once("coercion failed with: Error during planning: ")?;
    let said = said.split(". No function matches").next().unwrap_or(said);
    let (what, form) = said.split_once("; ").unwrap_or((said, ""));
    Some(Error::user(what.to_owned()).remedy(form.to_owned()))
}

/// The error of one of the library's functions of one argument, which lists all types that it would take.
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
        Some("Boolean") => "BOOLEAN",
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
        let shown = operation.split(": ").next().unwrap_or(operation).replace("Interval(MonthDayNano)", "INTERVAL");
        return Error::user(format!("{shown} is not supported"))
            .remedy("add the product to a time: ts + INTERVAL '1' DAY * n, or TIMESTAMPADD(DAY, n, ts)");
    }
    if message.to_lowercase().starts_with("projections require unique expression names") {
        let name = message.split('"').nth(1).unwrap_or_default();
        let name = if name.contains('(') { name } else { name.rsplit('.').next().unwrap_or(name) };
        return name_comes_twice(name).remedy("give one another name with AS");
    }
    if let Some((what, candidates)) = message.split_once("\n\tCandidate functions:") {
        if let Some(error) = refused_call(what) {
            return error;
        }
        let what = what.split(". No function matches").next().unwrap_or(what);
        let candidates: Vec<&str> = candidates.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        return Error::user(lower_first(what)).remedy(format!("it can be called as {}", candidates.join(" or ")));
    }
    if let Some(hint) = hint.filter(|hint| hint.contains("must appear in GROUP BY")) {
        let column = hint.split('\'').nth(1).unwrap_or(hint);
        return Error::user(format!("column '{column}' is neither in GROUP BY nor in an aggregate"))
            .remedy("add it to GROUP BY, or aggregate it, for example MAX(...)");
    }
    // If both exist, the diagnostic is written for users and the message for developers.
    match hint {
        Some(hint) if !hint.is_empty() => {
            Error::user(lower_first(hint)).remedy(message.lines().next().unwrap_or_default().to_string())
        }
        _ => Error::user(lower_first(&message)),
    }
}

fn name_comes_twice(name: &str) -> Error {
    Error::user(format!("two columns have the name '{name}'"))
}

fn schema_error(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => column_not_found(field, valid_fields),
        SchemaError::AmbiguousReference { field } => {
            Error::user(format!("column '{}' is in more than one table", field.name()))
                .remedy(format!("write it with its table: t.{}", field.name()))
        }
        SchemaError::DuplicateQualifiedField { qualifier, .. } => {
            Error::user(format!("two tables of one FROM are called '{}'", qualifier.table()))
                .remedy(format!("give one another name: FROM {0} AS a, {0} AS b", qualifier.table()))
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            name_comes_twice(name).remedy("give one another name with AS")
        }
    }
}

fn column_not_found(field: &Column, valid: &[Column]) -> Error {
    let error = Error::user(format!("there is no column '{}'", field.flat_name()));
    if valid.is_empty() {
        return error.remedy("a constant expression is needed here");
    }
    // Names that no statement gave begin with a dollar sign.
    let names = valid.iter().map(Column::name).filter(|name| !name.starts_with('$'));
    let names: Vec<String> = names.map(str::to_owned).collect();
    let shown = |names: &[String]| {
        let mut list = names.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
        if names.len() > 20 {
            list.push_str(", ...");
        }
        list
    };
    match nearest(field.name(), names.iter().map(String::as_str)) {
        Some(near) => error.remedy(format!("did you mean {near}? The columns are: {}", shown(&names))),
        None => error.remedy(format!("the columns are: {}", shown(&names))),
    }
}

/// The candidate that a mistyped name most likely means.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    candidates
        .map(|candidate| (distance(&wanted, &candidate.to_lowercase()), candidate))
        .min()
        .filter(|(distance, _)| *distance <= 1.max(wanted.chars().count() / 3))
        .map(|(_, candidate)| candidate)
}

/// Number of letters to change, add, omit, or swap with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let changed = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let swapped = if swapped { table[i - 2][j - 2] + 1 } else { usize::MAX };
                changed.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1).min(swapped)
            };
        }
    }
    table[a.len()][b.len()]
}

fn tidy(message: &str) -> String {
    let message = message.split("\n\nbacktrace:").next().unwrap_or(message);
    let mut text = message.trim_start_matches("Error during planning: ").trim_end().to_string();
    for (arrow, sql) in ARROW_NAMES {
        text = text.replace(arrow, sql);
    }
    text
}

/// Types as the library and as users write them.
const ARROW_NAMES: [(&str, &str); 12] = [
    ("Utf8View", "STRING"),
    ("Utf8", "STRING"),
    ("UInt64", "unsigned BIGINT"),
    ("Int64", "BIGINT"),
    ("Int32", "INT"),
    ("Int16", "SMALLINT"),
    ("Float64", "DOUBLE"),
    ("Float32", "FLOAT"),
    ("Timestamp(ms, \"UTC\")", "TIMESTAMP_LTZ(3)"),
    ("Timestamp(ms)", "TIMESTAMP(3)"),
    ("Timestamp(µs)", "TIMESTAMP(6)"),
    ("Date32", "DATE"),
];

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_that_a_slip_explains() {
        let names = ["cot", "count", "sum"];
        for (typed, meant) in [("cuont", Some("count")), ("COUNT", Some("count")), ("summ", Some("sum")), ("avg", None)]
        {
            assert_eq!(nearest(typed, names.into_iter()), meant, "{typed}");
        }
    }
}
