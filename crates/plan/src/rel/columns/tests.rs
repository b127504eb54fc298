use std::cell::Cell;
use std::sync::Arc;

use super::*;
use crate::steps::plan_statements;
use crate::{Catalog, PlanOptions, TableResolver};
use anabranch_dataflow::{ConnectorSpec, TableTraits};
use arrow::datatypes::{DataType, Field, SchemaRef};

thread_local! {
    /// The number of columns compared with the one searched for.
    pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
}

struct Anything;

impl TableResolver for Anything {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> anabranch_model::Result<TableTraits> {
        Ok(TableTraits {
            bounded: true,
            readable: true,
            writable: true,
            max_readers: None,
            schema: None,
            ..TableTraits::default()
        })
    }
}

/// The number of column comparisons while a query with `count` columns `column(0)`, `column(1)`, ... is
/// lowered.
fn compared(count: usize, column: impl Fn(usize) -> String) -> usize {
    let list = |item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(", ");
    let columns = list(&|index| format!("c{index} BIGINT"));
    let sql = format!(
        "CREATE TABLE t ({columns}) WITH ('connector' = 'any'); CREATE TABLE r ({columns}) WITH ('connector' = 'any');
         INSERT INTO r SELECT {} FROM t;",
        list(&column)
    );
    COMPARED.set(0);
    plan_statements(&sql, &mut Catalog::new(), &Anything, &PlanOptions::default()).expect("planned");
    COMPARED.get()
}

#[test]
fn each_column_of_a_wide_query_is_found_by_its_name() {
    let forms: [fn(usize) -> String; 4] =
        [|i| format!("c{i}"), |i| format!("c{i} + 1"), |i| format!("ABS(c{i})"), |i| format!("SUM(c{i})")];
    for form in forms {
        let (narrow, wide) = (compared(50, form), compared(200, form));
        assert!(narrow >= 50, "{}: {narrow} comparisons", form(0));
        assert!(wide <= 4 * narrow, "{}: {narrow} comparisons for 50 columns, {wide} for 200", form(0));
    }
}

#[test]
fn columns_of_one_name_are_two_columns() {
    let field = |name: &str| Arc::new(Field::new(name, DataType::Int64, true));
    let (one, other) = (fresh("x"), fresh("x"));
    assert_eq!((name_of(&one), name_of(&other)), ("x", "x"));
    assert!(ColId::parse(&one) < ColId::parse(&other));
    let columns = Columns::new(vec![Col::new(other.clone(), field("x")), Col::new(one.clone(), field("x"))]);
    let columns = columns.expect("columns").called_as(&TableReference::bare("t"));
    assert_eq!([&one, &other].map(|column| columns.find(column)), [Some(1), Some(0)]);
    assert_eq!(columns.written(&one), Some(Column::new(Some("t"), "x")));
    assert_eq!(columns.find(&Column::new_unqualified("x")), None);
    assert!(Columns::new(vec![Col::new(one.clone(), field("x")), Col::new(one, field("x"))]).is_err());
}

#[test]
fn texts_have_no_numbers() {
    let sum = Expr::Column(fresh("a b")) + Expr::Column(fresh("ä"));
    assert_eq!(without_numbers(&sum.to_string()), "a b + ä");
    assert_eq!(without_numbers("a.b"), "a.b");
}
