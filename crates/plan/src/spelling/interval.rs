//! Checks and normalizes intervals. An interval needs a unit. DataFusion needs the unit of each field in an
//! interval of several fields.

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{BinaryOperator, DateTimeField, Expr, Interval, Spanned, UnaryOperator, Value};

use super::forms::call;
use super::timestamp_add;
use crate::place::at;

/// The fields of an interval: the separator before each in a text, and the limit of its value after the first
/// field.
const FIELDS: [(DateTimeField, char, u64); 4] = [
    (DateTimeField::Day, ' ', u64::MAX),
    (DateTimeField::Hour, ' ', 24),
    (DateTimeField::Minute, ':', 60),
    (DateTimeField::Second, ':', 60),
];

pub(super) fn normalize(expr: &mut Expr) -> Result<()> {
    let place = at(expr.span().start);
    let Expr::Interval(interval) = expr else { return Ok(()) };
    // The precision does not affect the value.
    (interval.leading_precision, interval.fractional_seconds_precision) = (None, None);
    count_months(interval);
    let shown = interval.value.to_string();
    match (&interval.leading_field, &interval.last_field) {
        (Some(first), Some(last)) => {
            let text = match interval.value.as_ref() {
                Expr::Value(value) => with_units(&value.value, singular(first), singular(last)),
                _ => None,
            };
            let text = text.ok_or_else(|| {
                Error::user(format!("INTERVAL {shown} {first} TO {last} is not a valid interval"))
                    .at(place)
                    .remedy("write for example INTERVAL '1 10:30' DAY TO MINUTE, '10:30:05.5' HOUR TO SECOND or '1-6' YEAR TO MONTH")
            })?;
            let value = Box::new(Expr::value(Value::SingleQuotedString(text)));
            let (leading_field, last_field) = (None, None);
            let (leading_precision, fractional_seconds_precision) = (None, None);
            *interval = Interval { value, leading_field, leading_precision, last_field, fractional_seconds_precision };
            Ok(())
        }
        (None, _) if !shown.contains(char::is_alphabetic) => Err(Error::user(format!("INTERVAL {shown} has no unit"))
            .at(place)
            .remedy(format!("write for example INTERVAL {shown} SECOND"))),
        _ => Ok(()),
    }
}

/// Converts quarters to months.
fn count_months(interval: &mut Interval) {
    let is_quarter =
        |field: &DateTimeField| ["QUARTER", "QUARTERS"].contains(&field.to_string().to_uppercase().as_str());
    if interval.last_field.is_some() || !interval.leading_field.as_ref().is_some_and(is_quarter) {
        return;
    }
    if let Expr::Value(value) = interval.value.as_mut()
        && let Value::SingleQuotedString(text) = &mut value.value
        && let Some(months) = text.trim().parse::<i32>().ok().and_then(|quarters| quarters.checked_mul(3))
    {
        *text = months.to_string();
        interval.leading_field = Some(DateTimeField::Month);
    }
}

/// `time + INTERVAL '1' HOUR * n` becomes the time n hours later.
pub(super) fn multiplied(expr: &Expr) -> Option<Expr> {
    let Expr::BinaryOp { left, op: op @ (BinaryOperator::Plus | BinaryOperator::Minus), right } = expr else {
        return None;
    };
    let (time, (unit, count)) = match (product(right), product(left)) {
        (Some(product), None) => (left, product),
        (None, Some(product)) if *op == BinaryOperator::Plus => (right, product),
        _ => return None,
    };
    let count = match op {
        BinaryOperator::Minus => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(count) },
        _ => count,
    };
    let (name, args) = timestamp_add(&unit.to_string(), &count, time);
    Some(call(name, args))
}

/// The unit and the number of units of a multiplied interval.
fn product(expr: &Expr) -> Option<(&DateTimeField, Expr)> {
    let Expr::BinaryOp { left, op: BinaryOperator::Multiply, right } = unnested(expr) else { return None };
    let (interval, times) = match (unnested(left), unnested(right)) {
        (Expr::Interval(interval), _) => (interval, right),
        (_, Expr::Interval(interval)) => (interval, left),
        _ => return None,
    };
    let Interval { value, leading_field, last_field: None, .. } = interval else { return None };
    let Expr::Value(value) = value.as_ref() else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let one: i32 = text.trim().parse().ok()?;
    let one = Expr::value(Value::Number(one.to_string(), false));
    let times = Box::new(Expr::Nested(times.clone()));
    let count =
        Expr::BinaryOp { left: times, op: BinaryOperator::Multiply, right: Box::new(Expr::Nested(Box::new(one))) };
    Some((singular(leading_field.as_ref()?), Expr::Nested(Box::new(count))))
}

fn unnested(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unnested(inner),
        other => other,
    }
}

fn singular(field: &DateTimeField) -> &DateTimeField {
    match field {
        DateTimeField::Years => &DateTimeField::Year,
        DateTimeField::Months => &DateTimeField::Month,
        DateTimeField::Days => &DateTimeField::Day,
        DateTimeField::Hours => &DateTimeField::Hour,
        DateTimeField::Minutes => &DateTimeField::Minute,
        DateTimeField::Seconds => &DateTimeField::Second,
        other => other,
    }
}

/// `1 10:30` from DAY to MINUTE is `1 DAY 10 HOUR 30 MINUTE`. `None`: the text has another form.
fn with_units(value: &Value, first: &DateTimeField, last: &DateTimeField) -> Option<String> {
    let Value::SingleQuotedString(text) = value else { return None };
    let (sign, text) = match text.trim().strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.trim().trim_start_matches('+')),
    };
    let whole =
        |text: &str| (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?;
    if (first, last) == (&DateTimeField::Year, &DateTimeField::Month) {
        let (years, months) = text.split_once('-')?;
        let (years, months): (u64, u64) = (whole(years)?, whole(months)?);
        return (months < 12).then(|| format!("{sign}{years} YEAR {sign}{months} MONTH"));
    }
    let place = |field: &DateTimeField| FIELDS.iter().position(|(of, ..)| of == field);
    let fields = FIELDS.get(place(first)?..=place(last)?).filter(|fields| fields.len() > 1)?;
    let (mut parts, mut rest) = (Vec::new(), text);
    for (number, (field, _, most)) in fields.iter().enumerate() {
        let end = fields.get(number + 1).map(|(_, separator, _)| *separator);
        let (own, following) = match end {
            Some(separator) => rest.split_once(separator)?,
            None => (rest, ""),
        };
        let (digits, fraction) = match own.split_once('.') {
            Some((digits, fraction)) if *field == DateTimeField::Second => {
                (digits, Some(whole(fraction).map(|_| fraction)?))
            }
            _ => (own, None),
        };
        let value = whole(digits).filter(|value| number == 0 || value < most)?;
        let fraction = fraction.map_or_else(String::new, |fraction| format!(".{fraction}"));
        parts.push(format!("{sign}{value}{fraction} {field}"));
        rest = following;
    }
    Some(parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_several_fields_have_the_unit_of_each() {
        use DateTimeField::{Day, Hour, Minute, Month, Second, Year};
        let of = |text: &str, first, last| with_units(&Value::SingleQuotedString(text.to_owned()), &first, &last);
        assert_eq!(of("1 10", Day, Hour).as_deref(), Some("1 DAY 10 HOUR"));
        assert_eq!(
            of("-400 23:59:59.125", Day, Second).as_deref(),
            Some("-400 DAY -23 HOUR -59 MINUTE -59.125 SECOND")
        );
        assert_eq!(of("90:30", Minute, Second).as_deref(), Some("90 MINUTE 30 SECOND"));
        assert_eq!(of("+2-11", Year, Month).as_deref(), Some("2 YEAR 11 MONTH"));
        for (text, first, last) in [
            ("1", Day, Hour),
            ("1 24", Day, Hour),
            ("1:2", Day, Hour),
            ("1 2:3", Day, Hour),
            ("1.5 2", Day, Hour),
            ("1:60", Minute, Second),
            ("1:", Minute, Second),
            ("1:2.", Minute, Second),
            ("1:2", Second, Minute),
            ("1-12", Year, Month),
            ("1-2", Year, Day),
            ("", Day, Second),
            ("99999999999999999999 1", Day, Hour),
        ] {
            assert_eq!(of(text, first, last), None, "{text}");
        }
    }
}
