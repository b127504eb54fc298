use std::cell::Cell;
use std::sync::Arc;

use anabranch_dataflow::{ConnectorSpec, TableTraits};
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion_common::TableReference;

use super::*;
use crate::steps::plan_statements;
use crate::{Catalog, PlanOptions, TableResolver};

thread_local! {
    /// How many columns were compared with the one that is looked for.
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

/// The columns that are compared while a query is lowered whose `count` columns are `column(0)`, `column(1)`, ...
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
#[expect(clippy::disallowed_methods, reason = "what it is compared with")]
fn columns_are_those_that_the_library_finds() {
    let field = |name: &str| Arc::new(Field::new(name, DataType::Int64, true));
    let of = |table: &str| Some(TableReference::bare(table));
    let fields = vec![(of("a"), field("x")), (of("b"), field("x")), (None, field("y")), (of("b"), field("z"))];
    let index = Columns::new(fields).expect("columns");
    let schema = index.to_schema().expect("a schema");
    for table in [None, of("a"), of("b"), Some(TableReference::partial("s", "b")), of("c")] {
        for name in ["x", "y", "z", "w"] {
            let column = Column::new(table.clone(), name);
            assert_eq!(index.find(&column), schema.maybe_index_of_column(&column), "{column}");
            assert_eq!(index.place(&column).ok(), schema.maybe_index_of_column(&column), "{column}");
        }
    }
}
