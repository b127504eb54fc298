//! Functions over floating point numbers. NULL gives NULL; a value outside of a function's domain gives NaN
//! or an infinity.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::unary;
use arrow::datatypes::Float64Type;
use datafusion_common::Result;

use crate::arguments::{Arguments, primitives};
use crate::definition::{Definition, Kind, Returns, function};

pub(crate) const DEFINITIONS: &[Definition] = &[
    double("sqrt", |a| each(a, f64::sqrt)),
    double("exp", |a| each(a, f64::exp)),
    double("ln", |a| each(a, f64::ln)),
    double("log10", |a| each(a, f64::log10)),
    double("log2", |a| each(a, f64::log2)),
    double("sin", |a| each(a, f64::sin)),
    double("cos", |a| each(a, f64::cos)),
    double("tan", |a| each(a, f64::tan)),
    double("cot", |a| each(a, |x| 1.0 / x.tan())),
    double("asin", |a| each(a, f64::asin)),
    double("acos", |a| each(a, f64::acos)),
    double("atan", |a| each(a, f64::atan)),
    double("sinh", |a| each(a, f64::sinh)),
    double("cosh", |a| each(a, f64::cosh)),
    double("tanh", |a| each(a, f64::tanh)),
    double("degrees", |a| each(a, f64::to_degrees)),
    double("radians", |a| each(a, f64::to_radians)),
    function("atan2", &[&[Kind::Double, Kind::Double]], Returns::Double, |a| both(a, f64::atan2)).never_fails(),
    function("power", &[&[Kind::Double, Kind::Double]], Returns::Double, |a| both(a, f64::powf))
        .never_fails()
        .also(&["pow"]),
    function("log", &[&[Kind::Double], &[Kind::Double, Kind::Double]], Returns::Double, |a| match a.len() {
        1 => each(a, f64::ln),
        _ => both(a, |base, x| x.ln() / base.ln()),
    })
    .never_fails(),
    function("pi", &[&[]], Returns::Double, |a| primitives::<Float64Type>(a.rows, |_| Some(std::f64::consts::PI)))
        .never_fails(),
    function("e", &[&[]], Returns::Double, |a| primitives::<Float64Type>(a.rows, |_| Some(std::f64::consts::E)))
        .never_fails(),
];

const fn double(name: &'static str, evaluate: fn(&Arguments) -> Result<ArrayRef>) -> Definition {
    function(name, &[&[Kind::Double]], Returns::Double, evaluate).never_fails()
}

fn each(arguments: &Arguments, compute: fn(f64) -> f64) -> Result<ArrayRef> {
    Ok(Arc::new(unary::<_, _, Float64Type>(arguments.array(0).as_primitive::<Float64Type>(), compute)))
}

fn both(arguments: &Arguments, compute: fn(f64, f64) -> f64) -> Result<ArrayRef> {
    let (left, right) = (arguments.double(0), arguments.double(1));
    primitives::<Float64Type>(arguments.rows, |row| Some(compute(left.get(row)?, right.get(row)?)))
}
