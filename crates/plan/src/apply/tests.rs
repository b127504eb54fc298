//! The plans of dependent joins. And their rows, which are compared with those of nested loops.

mod chance;
mod plans;
mod rows;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::Column;
use datafusion_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion_expr::{Expr, WindowFrame, WindowFunctionDefinition};

use super::Fresh;
use crate::functions::Functions;
use crate::rel::Rel;
use crate::table::row_of;

#[derive(Default)]
struct Names(RefCell<BTreeSet<String>>);

impl Fresh for Names {
    fn fresh(&self, base: &str) -> String {
        let mut taken = self.0.borrow_mut();
        let names = std::iter::once(base.to_owned()).chain((2..).map(|number| format!("{base}_{number}")));
        let name = names.into_iter().find(|name| !taken.contains(name)).expect("a name");
        taken.insert(name.clone());
        name
    }
}

/// A table of whole numbers. `id` is never NULL.
fn table(name: &str) -> Rel {
    let fields = ["id", "k", "x"].map(|column| Field::new(column, DataType::Int64, column != "id"));
    row_of(name, &Arc::new(Schema::new(fields.to_vec()))).expect("a table")
}

/// A column of the query around.
fn outer(name: &str) -> Expr {
    let nullable = !name.ends_with(".id");
    let column = Column::from_qualified_name(name);
    Expr::OuterReferenceColumn(Arc::new(Field::new(&column.name, DataType::Int64, nullable)), column)
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
