//! Whole-number literals are INT as elements of arrays, and as keys and values of maps.

use datafusion_sql::sqlparser::ast::{
    Array, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value,
};

/// Casts whole numbers to INT, if they fit, in `ARRAY[...]`, `MAP[...]` and the arguments of array functions.
pub(super) fn narrow_elements(expr: &mut Expr) {
    match expr {
        // The parser represents a map by an array of its keys and values.
        Expr::Array(Array { elem, .. }) => elem.iter_mut().for_each(narrow),
        Expr::Function(function) if is_of_arrays(&function.name.to_string()) => {
            let FunctionArguments::List(list) = &mut function.args else { return };
            for arg in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg {
                    narrow(arg);
                }
            }
        }
        _ => {}
    }
}

/// `ARRAY_AGG` is an aggregate.
fn is_of_arrays(name: &str) -> bool {
    let name = name.to_uppercase();
    name.starts_with("ARRAY_") && name != "ARRAY_AGG"
}

fn narrow(expr: &mut Expr) {
    if !is_int(expr) {
        return;
    }
    let number = std::mem::replace(expr, Expr::value(Value::Null));
    let data_type = DataType::Int(None);
    *expr = Expr::Cast { kind: CastKind::Cast, expr: Box::new(number), data_type, array: false, format: None };
}

fn is_int(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_int(expr),
        Expr::Value(value) => matches!(&value.value, Value::Number(number, _) if number.parse::<i32>().is_ok()),
        _ => false,
    }
}
