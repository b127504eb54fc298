//! Converts Flink's aggregates to DataFusion's.

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{DuplicateTreatment, Expr, Function, FunctionArguments, Ident, Spanned};

use super::{call, plain_function, text};

/// The call that replaces this one, if another does.
pub(super) fn replacement(name: &str, args: &[Expr], function: &Function) -> Result<Option<Expr>> {
    Ok(match (name, args) {
        ("LISTAGG", [value]) => Some(call(function, "string_agg", vec![value.clone(), text(",")])),
        ("LISTAGG", [value, separator]) => Some(call(function, "string_agg", vec![value.clone(), separator.clone()])),
        // An exact number is also an approximation.
        ("APPROX_COUNT_DISTINCT", [value]) => Some(distinct(call(function, "count", vec![value.clone()]))),
        ("PERCENTILE", [value, share]) => {
            let values = call(function, "array_agg", vec![value.clone()]);
            Some(plain_function(Ident::with_span(function.span(), "$percentile"), vec![values, share.clone()]))
        }
        ("PERCENTILE", _) => {
            let error = Error::user("PERCENTILE takes a number and a share here");
            return Err(error.remedy("write PERCENTILE(x, 0.5); rows count once each, without a frequency"));
        }
        ("COUNT", [_, _, ..]) if is_distinct(function) => {
            return Err(Error::user("COUNT(DISTINCT ...) takes one value").remedy(
                "select the distinct rows first: SELECT k, COUNT(*) FROM (SELECT DISTINCT k, a, b FROM t) GROUP BY k",
            ));
        }
        _ => None,
    })
}

fn distinct(mut call: Expr) -> Expr {
    if let Expr::Function(function) = &mut call
        && let FunctionArguments::List(list) = &mut function.args
    {
        list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
    }
    call
}

fn is_distinct(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    list.duplicate_treatment == Some(DuplicateTreatment::Distinct)
}
