//! The plans of dependent joins.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_common::{Column, JoinType};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, col, grouping_set, lit};

use super::{Names, call, from, outer, table};
use crate::apply::apply;
use crate::functions::Functions;

fn applied(right: LogicalPlan, kind: JoinType, on: Vec<Expr>) -> LogicalPlan {
    apply(table("o"), right, kind, on, &Functions::new(), &Names::default()).expect("a plan")
}

#[track_caller]
fn check(right: LogicalPlanBuilder, kind: JoinType, on: Vec<Expr>, expected: &str) {
    let plan = applied(right.build().expect("a subquery"), kind, on);
    let shown = plan.display_indent().to_string();
    let expected: Vec<&str> =
        expected.lines().skip(1).map(|line| line.strip_prefix("        ").unwrap_or("")).collect();
    assert_eq!(shown.trim(), expected.join("\n").trim(), "\n{shown}");
}

#[test]
fn exists_is_a_semi_join() {
    let rows = from(table("t")).filter(col("t.k").eq(outer("o.k")).and(col("t.x").gt(lit(1_i64))));
    let rows = rows.and_then(|rows| rows.project([lit(1_i64)])).expect("rows");
    check(
        rows,
        JoinType::LeftSemi,
        vec![],
        "
        LeftSemi Join:  Filter: t.k = o.k
          TableScan: o
          Projection: Int64(1), t.k
            Filter: t.x > Int64(1)
              TableScan: t",
    );
}

#[test]
fn not_exists_with_an_order() {
    let rows = from(table("t")).filter(col("t.k").lt(outer("o.k"))).expect("rows");
    check(
        rows,
        JoinType::LeftAnti,
        vec![],
        "
        LeftAnti Join:  Filter: t.k < o.k
          TableScan: o
          TableScan: t",
    );
}

#[test]
fn in_compares_a_column_whose_name_is_that_of_another() {
    let rows = from(table("t")).filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.project([(col("t.x") + lit(1_i64)).alias("x")]).expect("rows");
    check(
        rows,
        JoinType::LeftSemi,
        vec![col("o.x").eq(Expr::Column(Column::new_unqualified("x")))],
        "
        LeftSemi Join:  Filter: t.k = o.k AND o.x = $match
          TableScan: o
          Projection: x AS $match, t.k
            Projection: t.x + Int64(1) AS x, t.k
              TableScan: t",
    );
}

#[test]
fn a_maximum_is_a_left_join() {
    let rows = from(table("t")).filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.aggregate(Vec::<Expr>::new(), [call("max", vec![col("t.x")])]).expect("rows");
    check(
        rows.alias("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Projection: o.id, o.k, o.x, v.max(t.x)
          Left Join:  Filter: o.k = t.k
            TableScan: o
            Projection: max(t.x) AS max(t.x), t.k
              Aggregate: groupBy=[[t.k]], aggr=[[max(t.x)]]
                TableScan: t",
    );
}

#[test]
fn a_number_of_rows_is_zero_without_a_match() {
    let rows = from(table("t")).filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.aggregate(Vec::<Expr>::new(), [call("count", vec![lit(1_i64)]).alias("n")]).expect("rows");
    let rows = rows.project([(col("n") + outer("o.x")).alias("n")]).expect("rows");
    check(
        rows.alias("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Projection: o.id, o.k, o.x, CASE WHEN $found IS NULL THEN Int64(0) + o.x ELSE $match + o.x END AS n
          Left Join:  Filter: o.k = t.k
            TableScan: o
            Projection: $match, t.k, Boolean(true) AS $found
              Projection: $match, t.k
                Projection: n AS $match, t.k
                  Aggregate: groupBy=[[t.k]], aggr=[[count(Int64(1)) AS n]]
                    TableScan: t",
    );
}

#[test]
fn a_column_of_both_queries_is_computed_after_the_join() {
    let rows = from(table("t")).filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.project([(col("t.x") + outer("o.x")).alias("y"), outer("o.x").alias("z")]).expect("rows");
    check(
        rows.clone().alias("v").expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Projection: o.id, o.k, o.x, t.x + o.x AS y, o.x AS z
          Inner Join:  Filter: t.k = o.k
            TableScan: o
            Projection: t.k, t.x
              Projection: t.k, t.x
                TableScan: t",
    );
    check(
        rows.alias("v").expect("rows"),
        JoinType::Left,
        vec![col("v.y").gt(lit(2_i64))],
        "
        Projection: o.id, o.k, o.x, t.x + o.x AS y, CASE WHEN $found IS NOT NULL THEN o.x END AS z
          Left Join:  Filter: t.k = o.k AND t.x + o.x > Int64(2)
            TableScan: o
            Projection: t.k, t.x, Boolean(true) AS $found
              Projection: t.k, t.x
                Projection: t.k, t.x
                  TableScan: t",
    );
}

#[test]
fn an_aggregate_of_lower_rows_reads_the_domain() {
    let rows = from(table("t")).filter(col("t.k").lt(outer("o.k"))).expect("rows");
    let rows = rows.aggregate(Vec::<Expr>::new(), [call("count", vec![lit(1_i64)]).alias("n")]).expect("rows");
    check(
        rows.alias("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Projection: o.id, o.k, o.x, CASE WHEN $found IS NULL THEN Int64(0) ELSE v.n END AS n
          Left Join:  Filter: o.k IS NOT DISTINCT FROM $domain.$o.k
            TableScan: o
            Projection: v.n, $domain.$o.k, Boolean(true) AS $found
              Projection: n AS n, $domain.$o.k
                Aggregate: groupBy=[[$domain.$o.k]], aggr=[[count(Int64(1)) AS n]]
                  Inner Join:  Filter: t.k < $domain.$o.k
                    SubqueryAlias: $domain
                      Distinct:
                        Projection: o.k AS $o.k
                          TableScan: o
                    TableScan: t",
    );
}

#[test]
fn first_rows_of_each_key_are_numbered() {
    let rows = from(table("t")).filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.sort([col("t.x").sort(true, true)]).and_then(|rows| rows.limit(0, Some(1))).expect("rows");
    check(rows.alias("v").expect("rows"), JoinType::Inner, vec![], "
        Inner Join:  Filter: v.k = o.k
          TableScan: o
          Projection: t.id AS id, t.k AS k, t.x AS x
            Projection: t.id, t.k, t.x
              Filter: $number <= Int64(1)
                WindowAggr: windowExpr=[[row_number() PARTITION BY [t.k] ORDER BY [t.x ASC NULLS FIRST] ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW AS $number]]
                  TableScan: t");
    let rows = from(table("t")).filter(col("t.k").lt(outer("o.k"))).expect("rows");
    let rows = rows.sort([col("t.x").sort(true, true)]).and_then(|rows| rows.limit(0, Some(1))).expect("rows");
    check(rows.alias("v").expect("rows"), JoinType::Inner, vec![], "
        Projection: o.id, o.k, o.x, v.id, v.k, v.x
          Inner Join:  Filter: o.k IS NOT DISTINCT FROM $domain.$o.k
            TableScan: o
            Projection: t.id AS id, t.k AS k, t.x AS x, $domain.$o.k
              Projection: t.id, t.k, t.x, $domain.$o.k
                Filter: $number <= Int64(1)
                  WindowAggr: windowExpr=[[row_number() PARTITION BY [$domain.$o.k] ORDER BY [t.x ASC NULLS FIRST] ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW AS $number]]
                    Inner Join:  Filter: t.k < $domain.$o.k
                      SubqueryAlias: $domain
                        Distinct:
                          Projection: o.k AS $o.k
                            TableScan: o
                      TableScan: t");
}

#[test]
fn a_union_has_the_keys_of_its_inputs() {
    let part = |name: &str| {
        let rows = from(table(name)).filter(col(format!("{name}.k")).eq(outer("o.k"))).expect("rows");
        rows.project([col(format!("{name}.x"))]).and_then(LogicalPlanBuilder::build).expect("rows")
    };
    let rows = from(part("t")).union(part("s")).expect("rows");
    check(
        rows.clone().alias("v").expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Projection: o.id, o.k, o.x, v.x
          Inner Join:  Filter: o.k = $match
            TableScan: o
            Projection: x AS x, $match
              Projection: x, $match
                Union
                  Projection: t.x, t.k AS $match
                    Projection: t.x, t.k
                      TableScan: t
                  Projection: s.x, s.k AS $match
                    Projection: s.x, s.k
                      TableScan: s",
    );
    check(
        rows.distinct().and_then(|rows| rows.alias("v")).expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Projection: o.id, o.k, o.x, v.x
          Inner Join:  Filter: o.k = $match
            TableScan: o
            Projection: x AS x, $match
              Distinct:
                Projection: x, $match
                  Projection: x, $match
                    Union
                      Projection: t.x, t.k AS $match
                        Projection: t.x, t.k
                          TableScan: t
                      Projection: s.x, s.k AS $match
                        Projection: s.x, s.k
                          TableScan: s",
    );
}

#[test]
fn both_sides_of_a_join_have_conditions() {
    let side = |name: &str, column: &str| {
        let rows = from(table(name)).filter(col(format!("{name}.k")).eq(outer(column))).expect("rows");
        rows.build().expect("rows")
    };
    let on = vec![col("t.x").eq(col("s.x") + outer("o.id"))];
    let inner = from(side("t", "o.k")).join_on(side("s", "o.x"), JoinType::Inner, on.clone()).expect("rows");
    check(
        inner.project([col("t.id")]).and_then(|rows| rows.alias("v")).expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Projection: o.id, o.k, o.x, v.id
          Inner Join:  Filter: t.k = o.k AND s.k = o.x AND t.x = s.x + o.id
            TableScan: o
            Projection: t.id AS id, s.k, s.x, t.k, t.x
              Projection: t.id, s.k, s.x, t.k, t.x
                Cross Join:
                  TableScan: t
                  TableScan: s",
    );
    let left = from(side("t", "o.k")).join_on(side("s", "o.x"), JoinType::Left, on).expect("rows");
    check(left.project([col("t.id")]).and_then(|rows| rows.alias("v")).expect("rows"), JoinType::Inner, vec![], "
        Projection: o.id, o.k, o.x, v.id
          Inner Join:  Filter: o.id = $domain.$o.id AND o.k IS NOT DISTINCT FROM $domain.$o.k AND o.x IS NOT DISTINCT FROM $domain.$o.x
            TableScan: o
            Projection: t.id AS id, $domain.$o.id, $domain.$o.k, $domain.$o.x
              Projection: t.id, $domain.$o.id, $domain.$o.k, $domain.$o.x
                Projection: t.id, t.k, t.x, s.id, s.k, s.x, $domain.$o.id, $domain.$o.k, $domain.$o.x
                  Left Join:  Filter: t.x = s.x + $domain.$o.id AND $domain.$o.id = $domain_2.$o.id AND $domain.$o.k IS NOT DISTINCT FROM $domain_2.$o.k AND $domain.$o.x IS NOT DISTINCT FROM $domain_2.$o.x
                    Inner Join:  Filter: t.k = $domain.$o.k
                      SubqueryAlias: $domain
                        Distinct:
                          Projection: o.id AS $o.id, o.k AS $o.k, o.x AS $o.x
                            TableScan: o
                      TableScan: t
                    Inner Join:  Filter: s.k = $domain_2.$o.x
                      SubqueryAlias: $domain_2
                        Distinct:
                          Projection: o.id AS $o.id, o.k AS $o.k, o.x AS $o.x
                            TableScan: o
                      TableScan: s");
}

#[test]
fn a_semi_join_within_exists_is_an_inner_join() {
    let of_s = from(table("s")).filter(col("s.k").eq(outer("o.k"))).and_then(LogicalPlanBuilder::build).expect("rows");
    let rows = from(table("t")).join_on(of_s, JoinType::LeftSemi, vec![col("t.x").eq(col("s.x"))]).expect("rows");
    check(
        rows.clone(),
        JoinType::LeftSemi,
        vec![],
        "
        LeftSemi Join:  Filter: s.k = o.k
          TableScan: o
          Inner Join:  Filter: t.x = s.x
            TableScan: t
            TableScan: s",
    );
    check(
        rows.alias("v").expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Projection: o.id, o.k, o.x, v.id, v.k, v.x
          Inner Join:  Filter: o.k IS NOT DISTINCT FROM $domain.$o.k
            TableScan: o
            Projection: t.id AS id, t.k AS k, t.x AS x, $domain.$o.k
              LeftSemi Join:  Filter: t.x = s.x AND $domain.$o.k IS NOT DISTINCT FROM $domain_2.$o.k
                Cross Join:
                  SubqueryAlias: $domain
                    Distinct:
                      Projection: o.k AS $o.k
                        TableScan: o
                  TableScan: t
                Inner Join:  Filter: s.k = $domain_2.$o.k
                  SubqueryAlias: $domain_2
                    Distinct:
                      Projection: o.k AS $o.k
                        TableScan: o
                  TableScan: s",
    );
}

#[test]
fn rows_of_constants_need_no_join() {
    let one = LogicalPlanBuilder::empty(true).project([(outer("o.k") + lit(1_i64)).alias("y")]).expect("rows");
    check(
        one.clone().alias("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Projection: o.id, o.k, o.x, o.k + Int64(1) AS y
          TableScan: o",
    );
    check(
        one,
        JoinType::LeftAnti,
        vec![col("y").eq(col("o.x"))],
        "
        Filter: o.k + Int64(1) = o.x IS NOT TRUE
          TableScan: o",
    );
    let rows = vec![vec![lit(1_i64), outer("o.k")], vec![lit(2_i64), outer("o.x")]];
    let rows = LogicalPlanBuilder::values(rows).and_then(|rows| rows.alias("v")).expect("rows");
    check(
        rows,
        JoinType::Inner,
        vec![],
        "
        Projection: o.id, o.k, o.x, v.column1, CASE $row WHEN Int32(0) THEN o.k ELSE o.x END AS column2
          Inner Join:  Filter: Boolean(true)
            TableScan: o
            Projection: column1 AS column1, $row
              Projection: column1, column2 AS $row
                Values: (Int64(1), Int32(0)), (Int64(2), Int32(1))",
    );
}

#[test]
fn a_condition_on_an_aggregate_reads_the_domain() {
    let rows = from(table("t")).filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.aggregate(Vec::<Expr>::new(), [call("count", vec![lit(1_i64)]).alias("n")]).expect("rows");
    let rows = rows.filter(col("n").lt(lit(2_i64))).expect("rows");
    check(
        rows,
        JoinType::LeftSemi,
        vec![],
        "
        LeftSemi Join:  Filter: o.k IS NOT DISTINCT FROM $domain_2.$o.k
          TableScan: o
          Filter: n < Int64(2)
            Projection: CASE WHEN $found IS NULL THEN Int64(0) ELSE n END AS n, $domain_2.$o.k
              Left Join:  Filter: $domain_2.$o.k IS NOT DISTINCT FROM $domain.$o.k
                SubqueryAlias: $domain_2
                  Distinct:
                    Projection: o.k AS $o.k
                      TableScan: o
                Projection: $domain.$o.k, n, Boolean(true) AS $found
                  Aggregate: groupBy=[[$domain.$o.k]], aggr=[[count(Int64(1)) AS n]]
                    Inner Join:  Filter: t.k = $domain.$o.k
                      SubqueryAlias: $domain
                        Distinct:
                          Projection: o.k AS $o.k
                            TableScan: o
                      TableScan: t",
    );
}

#[test]
fn keys_of_other_types_read_the_domain() {
    let number = cast(col("t.k"), DataType::Float64);
    let rows = from(table("t")).filter(number.eq(outer("o.id"))).expect("rows");
    let rows = rows.aggregate(Vec::<Expr>::new(), [call("max", vec![col("t.x")])]).expect("rows");
    check(
        rows.alias("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Projection: o.id, o.k, o.x, v.max(t.x)
          Left Join:  Filter: o.id = $domain.$o.id
            TableScan: o
            Projection: max(t.x) AS max(t.x), $domain.$o.id
              Aggregate: groupBy=[[$domain.$o.id]], aggr=[[max(t.x)]]
                Inner Join:  Filter: CAST(t.k AS Float64) = $domain.$o.id
                  SubqueryAlias: $domain
                    Distinct:
                      Projection: o.id AS $o.id
                        TableScan: o
                  TableScan: t",
    );
}

#[test]
fn a_limit_below_a_condition_is_of_numbered_rows() {
    let rows = from(table("t")).filter(col("t.k").eq(outer("o.k"))).and_then(|rows| rows.limit(0, Some(1)));
    let rows = rows.expect("rows");
    check(
        rows.clone(),
        JoinType::LeftSemi,
        vec![],
        "
        LeftSemi Join:  Filter: t.k = o.k
          TableScan: o
          TableScan: t",
    );
    check(rows, JoinType::LeftSemi, vec![col("t.x").eq(col("o.x"))], "
        LeftSemi Join:  Filter: t.k = o.k AND t.x = o.x
          TableScan: o
          Projection: t.id, t.k, t.x
            Filter: $number <= Int64(1)
              WindowAggr: windowExpr=[[row_number() PARTITION BY [t.k] ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW AS $number]]
                TableScan: t");
}

/// The message of the error that a subquery gives.
fn refusal(left: LogicalPlan, right: LogicalPlanBuilder) -> String {
    let right = right.build().expect("a subquery");
    let refused = apply(left, right, JoinType::Left, Vec::new(), &Functions::new(), &Names::default());
    refused.expect_err("an error").to_string()
}

#[test]
fn totals_of_grouping_sets_are_refused() {
    let rows = from(table("t")).filter(col("t.k").lt(outer("o.k"))).expect("rows");
    let sets = grouping_set(vec![vec![col("t.k")], vec![]]);
    let rows = rows.aggregate([sets], [call("max", vec![col("t.x")])]).expect("rows");
    let error = refusal(table("o"), rows);
    assert!(error.contains("in a place that is not supported"), "{error}");
}

#[test]
fn values_that_vary_are_not_computed_twice() {
    let rand = Functions::new().scalar("rand").expect("a function").call(Vec::new());
    let with_rand = |of: &str| {
        let rows = from(table("s")).project([col("s.id"), rand.clone().alias("r")]).and_then(|rows| rows.alias("o"));
        let read = Expr::OuterReferenceColumn(
            Arc::new(Field::new("id", DataType::Int64, false)),
            Column::from_qualified_name(of),
        );
        let sums = from(table("t")).filter(cast(read, DataType::Int64).lt(col("t.k"))).expect("rows");
        let sums = sums.aggregate(Vec::<Expr>::new(), [call("max", vec![col("t.x")])]).expect("rows");
        (rows.and_then(LogicalPlanBuilder::build).expect("rows"), sums)
    };
    let (rows, sums) = with_rand("o.r");
    let error = refusal(rows, sums);
    assert!(error.contains("columns that have another value at each evaluation"), "{error}");
    let (rows, sums) = with_rand("o.id");
    let joined = apply(rows, sums.build().expect("rows"), JoinType::Left, vec![], &Functions::new(), &Names::default());
    assert!(joined.is_ok(), "{joined:?}");
}
