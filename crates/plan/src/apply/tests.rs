//! The plans of dependent joins, and their rows, which are compared with nested loops.

mod chance;
mod plans;
mod rows;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion_expr::{Expr, WindowFrame, WindowFunctionDefinition};

use crate::functions::Functions;
use crate::rel::{Col, Rel};
use crate::table::row_of;

thread_local! {
    static TABLES: RefCell<BTreeMap<String, Rel>> = RefCell::default();
}

/// A table of whole numbers. `id` is never NULL.
fn table(name: &str) -> Rel {
    let fields = ["id", "k", "x"].map(|column| Field::new(column, DataType::Int64, column != "id"));
    let rows = || row_of(name, &Arc::new(Schema::new(fields.to_vec())));
    TABLES.with(|tables| tables.borrow_mut().entry(name.to_owned()).or_insert_with(rows).clone())
}

/// A column of a plan.
fn of(plan: &Rel, name: &str) -> Col {
    plan.columns().iter().find(|col| col.field.name() == name).expect("a column").clone()
}

/// A column of a table: `t.k`.
fn col(name: &str) -> Expr {
    let (table_name, name) = name.split_once('.').expect("a table");
    of(&table(table_name), name).expr()
}

/// A column of the outer query.
fn outer(name: &str) -> Expr {
    let (table_name, name) = name.split_once('.').expect("a table");
    let Col { id, field, .. } = of(&table(table_name), name);
    Expr::OuterReferenceColumn(field, id)
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    Functions::new().aggregate(name).expect("an aggregate").call(args)
}

fn row_number(partition: Vec<Expr>, order: Vec<Expr>) -> Expr {
    let params = WindowFunctionParams {
        args: Vec::new(),
        partition_by: partition,
        order_by: order.into_iter().map(|expr| expr.sort(true, true)).collect(),
        window_frame: WindowFrame::new(Some(true)),
        filter: None,
        null_treatment: None,
        distinct: false,
    };
    let fun = WindowFunctionDefinition::WindowUDF(Functions::new().row_number());
    Expr::from(WindowFunction { fun, params })
}
