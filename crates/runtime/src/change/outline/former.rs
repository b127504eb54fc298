//! Descriptions by earlier versions that differ from those of this version. The results of `SUM` and `AVG` of DECIMAL
//! had fewer digits; their state is converted when it is restored.

use anabranch_dataflow::DECIMAL_DIGITS_MAX;

use super::Part;

const DECIMAL: &str = "Decimal128(";

/// Replaces descriptions by an earlier version with those of this version.
pub(crate) fn convert(then: &mut [Part], now: &[Part]) {
    for part in then {
        let through = part.lineage.iter_mut().flat_map(|lineage| &mut lineage.through);
        for description in std::iter::once(&mut part.description).chain(through) {
            *description = as_now(description, now.iter().map(|part| &*part.description)).to_owned();
        }
    }
}

/// This version's description of what an earlier version may have described as `then`; `then` itself if there is none.
fn as_now<'a>(then: &'a str, mut now: impl Iterator<Item = &'a str> + Clone) -> &'a str {
    match now.clone().any(|now| now == then) {
        true => then,
        false => now.find(|now| is_former(then, now)).unwrap_or(then),
    }
}

/// Whether two descriptions differ only in the former digits of `SUM` and `AVG` of DECIMAL.
fn is_former(then: &str, now: &str) -> bool {
    let (then, now): (Vec<&str>, Vec<&str>) = (then.split(DECIMAL).collect(), now.split(DECIMAL).collect());
    if then.len() != now.len() || then[0] != now[0] {
        return false;
    }
    (1..now.len()).all(|at| match (digits(then[at]), digits(now[at])) {
        (Some((before, rest_before)), Some((after, rest_after))) => {
            rest_before == rest_after && (before == after || is_former_result(now[at - 1], before, after))
        }
        _ => false,
    })
}

/// Whether an aggregate, named at the end of `text`, had a result of digits `before`, which now has digits `after`.
fn is_former_result(text: &str, (_, before): (u8, i8), (precision, after): (u8, i8)) -> bool {
    let is = |function: &str| {
        [format!("{function}() "), format!("{function}(distinct ) ")].iter().any(|of| text.ends_with(of))
    };
    let most = DECIMAL_DIGITS_MAX as i8;
    precision == DECIMAL_DIGITS_MAX
        && match (is("sum"), is("avg")) {
            (true, _) => before == after,
            // Four more than the argument's, but at most all.
            (_, true) => after == (before - 4).max(6) || (before == most && after >= most - 4),
            _ => false,
        }
}

/// Precision and scale, and the rest of the text.
fn digits(text: &str) -> Option<((u8, i8), &str)> {
    let (digits, rest) = text.split_once(')')?;
    let (precision, scale) = digits.split_once(", ")?;
    Some(((precision.parse().ok()?, scale.parse().ok()?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(then: &str, now: &str, is: bool) {
        assert_eq!(is_former(then, now), is, "{then} {now}");
        let now = [now, "state 1: x"];
        assert_eq!(as_now(then, now.into_iter()), if is { now[0] } else { then });
    }

    #[test]
    fn sums_and_means_are_recognized_with_the_digits_that_they_had() {
        check("a [count() Int64, sum() Decimal128(20, 2)]", "a [count() Int64, sum() Decimal128(38, 2)]", true);
        check("[sum(distinct ) Decimal128(20, 2), c]", "[sum(distinct ) Decimal128(38, 2), c]", true);
        check("[avg() Decimal128(14, 6), c]", "[avg() Decimal128(38, 6), c]", true);
        check("[avg() Decimal128(24, 14), c]", "[avg() Decimal128(38, 10), c]", true);
        check("[avg() Decimal128(38, 38), c]", "[avg() Decimal128(38, 36), c]", true);
        check(
            "[k Decimal128(5, 1)]: [sum() Decimal128(20, 2)]",
            "[k Decimal128(5, 1)]: [sum() Decimal128(38, 2)]",
            true,
        );
        // Other scales, arguments, functions, keys.
        check("[sum() Decimal128(20, 2)]", "[sum() Decimal128(38, 3)]", false);
        check("[avg() Decimal128(14, 6)]", "[avg() Decimal128(38, 7)]", false);
        check("[max() Decimal128(20, 2)]", "[max() Decimal128(38, 2)]", false);
        check("[k Decimal128(5, 1)]: []", "[k Decimal128(38, 1)]: []", false);
        check("[sum() Decimal128(20, 2)]", "[sum() Int64]", false);
        check("[sum() Decimal128(20, 2), count() Int64]", "[sum() Decimal128(38, 2), max() Int64]", false);
    }
}
