//! Flink's JSON functions have a grammar of their own. They become calls of plain functions.

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, UnaryOperator, Value, WindowType,
};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::Token;

use super::is_keyword;
use crate::spelling::plain_function;

type Parsed<T = Expr> = Result<T, ParserError>;

/// Parses a call of `JSON_VALUE`, `JSON_EXISTS`, `JSON_QUERY`, `JSON_OBJECT`, `JSON_ARRAY`, `JSON_OBJECTAGG`
/// or `JSON_ARRAYAGG`, if it follows.
pub(super) fn parse_call(parser: &mut Parser) -> Option<Parsed> {
    if parser.peek_nth_token_ref(1).token != Token::LParen {
        return None;
    }
    let Token::Word(word) = &parser.peek_token_ref().token else { return None };
    let parse: fn(&mut Parser) -> Parsed<Vec<Expr>> = match word.value.to_uppercase().as_str() {
        "JSON_VALUE" => value_clauses,
        "JSON_EXISTS" => exists_clauses,
        "JSON_QUERY" => query_clauses,
        "JSON_OBJECT" => return Some(built(parser, "NULL", key)),
        "JSON_ARRAY" => return Some(built(parser, "ABSENT", |_| Ok(None))),
        "JSON_OBJECTAGG" => return Some(gathered(parser, "NULL")),
        "JSON_ARRAYAGG" => return Some(gathered(parser, "ABSENT")),
        _ => return None,
    };
    Some(call(parser, parse))
}

/// Parses `[NOT] JSON [VALUE | OBJECT | ARRAY | SCALAR]` after `expr IS`, if it follows.
pub(super) fn parse_is_json(parser: &mut Parser, expr: &Expr) -> Option<Parsed> {
    if !parser.peek_keyword(Keyword::IS) {
        return None;
    }
    let negated = is_keyword(parser, 1, Keyword::NOT);
    if !is_keyword(parser, 1 + usize::from(negated), Keyword::JSON) {
        return None;
    }
    (0..2 + usize::from(negated)).for_each(|_| drop(parser.next_token()));
    let kinds = ["VALUE", "OBJECT", "ARRAY", "SCALAR"];
    let kind = kinds.into_iter().find(|kind| accept(parser, kind)).unwrap_or("VALUE");
    let call = plain_function(Ident::new("is_json"), vec![expr.clone(), text(kind)]);
    Some(Ok(match negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(call) },
        false => call,
    }))
}

/// Parses a call with a name, a document and a path. The clauses become additional arguments.
fn call(parser: &mut Parser, clauses: fn(&mut Parser) -> Parsed<Vec<Expr>>) -> Parsed {
    let name = parser.parse_identifier()?;
    parser.expect_token(&Token::LParen)?;
    let document = parser.parse_expr()?;
    parser.expect_token(&Token::Comma)?;
    let Token::SingleQuotedString(path) = parser.peek_token_ref().token.clone() else {
        return parser.expected_ref("a JSON path as a text in quotes", parser.peek_token_ref());
    };
    parser.next_token();
    let mut args = vec![document, text(&path)];
    args.extend(clauses(parser)?);
    parser.expect_token(&Token::RParen)?;
    Ok(plain_function(name, args))
}

/// `[RETURNING type] [NULL | ERROR | DEFAULT value ON EMPTY] [... ON ERROR]`.
fn value_clauses(parser: &mut Parser) -> Parsed<Vec<Expr>> {
    let returning = if accept(parser, "RETURNING") { Some(returned_type(parser)?) } else { None };
    let clauses = behaviours(parser, |parser| {
        Ok(match accept(parser, "DEFAULT") {
            true => Some(("", parser.parse_expr()?)),
            false if accept(parser, "NULL") => Some(("", Expr::value(Value::Null))),
            false if accept(parser, "ERROR") => Some(("STOPS", Expr::value(Value::Null))),
            false => None,
        })
    })?;
    if returning.is_none() && clauses.iter().all(Option::is_none) {
        return Ok(Vec::new());
    }
    let stops = |clause: &Option<(&str, Expr)>| clause.as_ref().is_some_and(|(word, _)| *word == "STOPS");
    let stopping = match (stops(&clauses[0]), stops(&clauses[1])) {
        (true, true) => "EMPTY ERROR",
        (true, false) => "EMPTY",
        (false, true) => "ERROR",
        (false, false) => "",
    };
    let data_type = returning.unwrap_or(DataType::String(None));
    let default = |clause: Option<(&str, Expr)>| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(clause.map_or_else(|| Expr::value(Value::Null), |(_, value)| value)),
        data_type: data_type.clone(),
        array: false,
        format: None,
    };
    Ok(clauses.into_iter().map(default).chain([text(stopping)]).collect())
}

fn returned_type(parser: &mut Parser) -> Parsed<DataType> {
    match parser.parse_data_type()? {
        DataType::String(_) | DataType::Varchar(_) | DataType::Char(_) => Ok(DataType::String(None)),
        taken @ (DataType::Int(None) | DataType::Integer(None) | DataType::Double(_) | DataType::Boolean) => Ok(taken),
        other => Err(ParserError::ParserError(format!(
            "JSON_VALUE does not return {other}; use RETURNING with STRING, INTEGER, DOUBLE or BOOLEAN, and CAST"
        ))),
    }
}

/// `[TRUE | FALSE | UNKNOWN | ERROR ON ERROR]`.
fn exists_clauses(parser: &mut Parser) -> Parsed<Vec<Expr>> {
    let Some(word) = ["TRUE", "FALSE", "UNKNOWN", "ERROR"].into_iter().find(|word| accept(parser, word)) else {
        return Ok(Vec::new());
    };
    parser.expect_keywords(&[Keyword::ON, Keyword::ERROR])?;
    Ok(vec![text(word)])
}

/// `[wrapper WRAPPER] [NULL | ERROR | EMPTY ARRAY | EMPTY OBJECT ON EMPTY] [... ON ERROR]`.
fn query_clauses(parser: &mut Parser) -> Parsed<Vec<Expr>> {
    if accept(parser, "RETURNING") {
        match parser.parse_data_type()? {
            DataType::String(_) | DataType::Varchar(_) => {}
            other => {
                return Err(ParserError::ParserError(format!("JSON_QUERY does not return {other}; it returns STRING")));
            }
        }
    }
    let wrapper = wrapper(parser)?;
    let clauses = behaviours(parser, |parser| {
        Ok(match accept(parser, "EMPTY") {
            true if accept(parser, "ARRAY") => Some("EMPTY ARRAY"),
            true => {
                expect(parser, "OBJECT")?;
                Some("EMPTY OBJECT")
            }
            false => ["NULL", "ERROR"].into_iter().find(|word| accept(parser, word)),
        })
    })?;
    if wrapper == "WITHOUT" && clauses.iter().all(Option::is_none) {
        return Ok(Vec::new());
    }
    let clauses = clauses.into_iter().map(|clause| clause.unwrap_or("NULL"));
    Ok(std::iter::once(wrapper).chain(clauses).map(text).collect())
}

fn wrapper(parser: &mut Parser) -> Parsed<&'static str> {
    let kind = if accept(parser, "WITHOUT") {
        "WITHOUT"
    } else if accept(parser, "WITH") {
        let conditional = accept(parser, "CONDITIONAL");
        let _ = !conditional && accept(parser, "UNCONDITIONAL");
        if conditional { "CONDITIONAL" } else { "UNCONDITIONAL" }
    } else {
        return Ok("WITHOUT");
    };
    let _ = accept(parser, "ARRAY");
    expect(parser, "WRAPPER")?;
    Ok(kind)
}

/// Parses the behaviours ON EMPTY and ON ERROR. `one` parses a single behaviour, if it follows.
fn behaviours<T>(parser: &mut Parser, one: impl Fn(&mut Parser) -> Parsed<Option<T>>) -> Parsed<[Option<T>; 2]> {
    let mut behaviours = [None, None];
    while let Some(behaviour) = one(parser)? {
        parser.expect_keyword(Keyword::ON)?;
        let of_error = accept(parser, "ERROR");
        if !of_error {
            expect(parser, "EMPTY")?;
        }
        let slot = &mut behaviours[usize::from(of_error)];
        if slot.is_some() {
            let event = if of_error { "ERROR" } else { "EMPTY" };
            return Err(ParserError::ParserError(format!("ON {event} is given twice")));
        }
        *slot = Some(behaviour);
    }
    Ok(behaviours)
}

/// Parses a call of `JSON_OBJECT` or `JSON_ARRAY`. The arguments of the plain function are the treatment of
/// NULL, and for each member its key, if it has one, the kind of its value, and the value.
fn built(parser: &mut Parser, of_null: &str, key: fn(&mut Parser) -> Parsed<Option<Expr>>) -> Parsed {
    let name = parser.parse_identifier()?;
    parser.expect_token(&Token::LParen)?;
    let (mut of_null, mut members) = (of_null.to_owned(), Vec::new());
    loop {
        let clause = ["NULL", "ABSENT"].into_iter().find(|word| is_clause(parser, word));
        if let Some(word) = clause {
            (0..3).for_each(|_| drop(parser.next_token()));
            word.clone_into(&mut of_null);
            break;
        }
        if parser.peek_token_ref().token == Token::RParen && members.is_empty() {
            break;
        }
        if !members.is_empty() && !parser.consume_token(&Token::Comma) {
            break;
        }
        members.extend(key(parser)?);
        let (word, value) = kind_of(parser.parse_expr()?);
        members.extend([text(word), value]);
    }
    parser.expect_token(&Token::RParen)?;
    Ok(plain_function(name, std::iter::once(text(&of_null)).chain(members).collect()))
}

/// Parses `JSON_OBJECTAGG([KEY] k VALUE v)` or `JSON_ARRAYAGG(v)`, with `FILTER` and `OVER`. `ARRAY_AGG`
/// collects the elements, and a scalar function writes the document. A member of an object is collected as an
/// array of its key and its value.
fn gathered(parser: &mut Parser, of_null: &str) -> Parsed {
    let name = parser.parse_identifier()?;
    parser.expect_token(&Token::LParen)?;
    let is_object = name.value.eq_ignore_ascii_case("JSON_OBJECTAGG");
    let key = if is_object {
        let begins = match &parser.peek_nth_token_ref(1).token {
            Token::Word(next) => !next.value.eq_ignore_ascii_case("VALUE"),
            next => matches!(next, Token::SingleQuotedString(_) | Token::Number(..) | Token::LParen),
        };
        // A column may have the name `KEY` too.
        let _ = begins && accept(parser, "KEY");
        let key = parser.parse_expr()?;
        expect(parser, "VALUE")?;
        Some(key)
    } else {
        None
    };
    let distinct = !is_object && parser.parse_keyword(Keyword::DISTINCT);
    let (word, value) = kind_of(parser.parse_expr()?);
    let clause = ["NULL", "ABSENT"].into_iter().find(|word| is_clause(parser, word));
    if clause.is_some() {
        (0..3).for_each(|_| drop(parser.next_token()));
    }
    parser.expect_token(&Token::RParen)?;
    let of_null = clause.unwrap_or(of_null);
    let has_value = (is_object && of_null == "ABSENT").then(|| Expr::IsNotNull(Box::new(value.clone())));
    let element = match key {
        Some(key) => {
            let data_type = DataType::String(None);
            let key = Expr::Cast { kind: CastKind::Cast, expr: Box::new(key), data_type, array: false, format: None };
            let pair = vec![text("NULL"), text("VALUE"), key, text(word), value];
            plain_function(Ident::with_span(name.span, "json_array"), pair)
        }
        None => value,
    };
    let mut elements = plain_function(Ident::with_span(name.span, "array_agg"), vec![element]);
    if let Expr::Function(aggregate) = &mut elements {
        let filter = filter(parser)?;
        aggregate.filter = match (filter, has_value) {
            (Some(filter), Some(has_value)) => Some(Box::new(Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(filter))),
                op: BinaryOperator::And,
                right: Box::new(has_value),
            })),
            (filter, has_value) => filter.or(has_value).map(Box::new),
        };
        if let FunctionArguments::List(list) = &mut aggregate.args {
            list.duplicate_treatment = distinct.then_some(DuplicateTreatment::Distinct);
        }
        if parser.parse_keyword(Keyword::OVER) {
            aggregate.over = Some(match parser.consume_token(&Token::LParen) {
                true => WindowType::WindowSpec(parser.parse_window_spec()?),
                false => WindowType::NamedWindow(parser.parse_identifier()?),
            });
        }
    }
    Ok(match is_object {
        true => plain_function(Ident::with_span(name.span, "$json_objectagg"), vec![elements]),
        false => {
            let args = vec![text(of_null), text(word), elements];
            plain_function(Ident::with_span(name.span, "$json_arrayagg"), args)
        }
    })
}

/// Parses `FILTER (WHERE condition)`, if it follows.
fn filter(parser: &mut Parser) -> Parsed<Option<Expr>> {
    if !parser.parse_keyword(Keyword::FILTER) {
        return Ok(None);
    }
    let condition = parser.parse_parenthesized(|parser| {
        parser.expect_keyword(Keyword::WHERE)?;
        parser.parse_expr()
    });
    condition.map(Some)
}

/// Whether `word ON NULL` follows.
fn is_clause(parser: &Parser, word: &str) -> bool {
    let is = |place: usize, word: &str| matches!(&parser.peek_nth_token_ref(place).token, Token::Word(next) if next.value.eq_ignore_ascii_case(word));
    is(0, word) && is(1, "ON") && is(2, "NULL")
}

/// `[KEY] 'name' VALUE`.
fn key(parser: &mut Parser) -> Parsed<Option<Expr>> {
    accept(parser, "KEY");
    let Token::SingleQuotedString(name) = parser.peek_token_ref().token.clone() else {
        return parser.expected_ref("a key as a text in quotes", parser.peek_token_ref());
    };
    parser.next_token();
    expect(parser, "VALUE")?;
    Ok(Some(text(&name)))
}

/// The kind of a value: a text that is a document, a document built by another call, or any other value.
fn kind_of(mut value: Expr) -> (&'static str, Expr) {
    while let Expr::Nested(inner) = value {
        value = *inner;
    }
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = &value else {
        return ("VALUE", value);
    };
    match (name.to_string().to_uppercase().as_str(), list.args.as_slice()) {
        ("JSON_OBJECT" | "JSON_ARRAY", _) => ("BUILT", value),
        ("JSON", [FunctionArg::Unnamed(FunctionArgExpr::Expr(document))]) => ("JSON", document.clone()),
        _ => ("VALUE", value),
    }
}

fn accept(parser: &mut Parser, word: &str) -> bool {
    let next = matches!(&parser.peek_token_ref().token, Token::Word(next) if next.value.eq_ignore_ascii_case(word));
    if next {
        parser.next_token();
    }
    next
}

fn expect(parser: &mut Parser, word: &str) -> Parsed<()> {
    if accept(parser, word) { Ok(()) } else { parser.expected_ref(word, parser.peek_token_ref()) }
}

fn text(value: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(value.to_owned()))
}
