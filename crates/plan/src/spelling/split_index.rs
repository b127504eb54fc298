//! `SPLIT_INDEX(text, separator, index)`: the part of a text at an index that counts from 0, and NULL where there is
//! none. The library's `split_part` counts from 1, from the end if negative, and gives an empty text where there is no
//! part, so the number of separators decides first.

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion_sql::sqlparser::ast::{BinaryOperator, CaseWhen, Expr, Function, UnaryOperator, Value};

use super::call;

/// The call in terms of the library's functions.
pub(super) fn split_index(
    function: &Function,
    text: &Expr,
    separator: &Expr,
    index: &Expr,
    place: &str,
) -> Result<Expr> {
    let wrong = |what: &str, remedy: &str| Err(Error::user(what).at(place.to_string()).remedy(remedy));
    if is_negative(index) {
        return wrong("the index of SPLIT_INDEX is negative", "count from 0, the first part");
    }
    if is_text(separator, "") {
        return wrong("the separator of SPLIT_INDEX is empty", "use SUBSTRING for single characters");
    }
    let empty = || Expr::value(Value::SingleQuotedString(String::new()));
    let part = |text: Expr| {
        let position = binary(index.clone(), BinaryOperator::Plus, number("1"));
        call(function, "split_part", vec![text, separator.clone(), position])
    };
    if is_number(index, "0") {
        // Every text but the empty one has a first part.
        return Ok(part(call(function, "nullif", vec![text.clone(), empty()])));
    }
    let length = |text: Expr| call(function, "octet_length", vec![text]);
    let without = call(function, "replace", vec![text.clone(), separator.clone(), empty()]);
    let removed = binary(length(text.clone()), BinaryOperator::Minus, length(without));
    let removed = Expr::Nested(Box::new(removed));
    let each = call(function, "nullif", vec![length(separator.clone()), number("0")]);
    let separators = binary(removed, BinaryOperator::Divide, each);
    let exists =
        CaseWhen { condition: binary(index.clone(), BinaryOperator::LtEq, separators), result: part(text.clone()) };
    let mut conditions = vec![exists];
    if !matches!(index, Expr::Value(_)) {
        let negative = binary(index.clone(), BinaryOperator::Lt, number("0"));
        let nothing = binary(text.clone(), BinaryOperator::Eq, empty());
        let condition = binary(negative, BinaryOperator::Or, nothing);
        conditions.insert(0, CaseWhen { condition, result: Expr::value(Value::Null) });
    }
    Ok(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions,
        else_result: None,
    })
}

fn number(text: &str) -> Expr {
    Expr::value(Value::Number(text.into(), false))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn is_negative(index: &Expr) -> bool {
    match index {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            matches!(expr.as_ref(), Expr::Value(value) if matches!(value.value, Value::Number(..)))
        }
        _ => false,
    }
}

fn is_number(expr: &Expr, wanted: &str) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::Number(text, _) if text == wanted))
}

fn is_text(expr: &Expr, wanted: &str) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::SingleQuotedString(text) if text == wanted))
}
