//! The plans of dependent joins.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_common::{Column, JoinType};
use datafusion_expr::{Expr, cast, col, grouping_set, lit};

use super::{Names, call, outer, table};
use crate::apply::apply;
use crate::functions::Functions;
use crate::rel::Rel;

fn applied(right: Rel, kind: JoinType, on: Vec<Expr>) -> Rel {
    apply(table("o"), right, kind, on, &Functions::new(), &Names::default()).expect("a plan")
}

#[track_caller]
fn check(right: Rel, kind: JoinType, on: Vec<Expr>, expected: &str) {
    let plan = applied(right, kind, on);
    let shown = plan.to_string();
    let expected: Vec<&str> =
        expected.lines().skip(1).map(|line| line.strip_prefix("        ").unwrap_or("")).collect();
    assert_eq!(shown.trim(), expected.join("\n").trim(), "\n{shown}");
}

#[test]
fn exists_is_a_semi_join() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k")).and(col("t.x").gt(lit(1_i64))));
    let rows = rows.and_then(|rows| rows.project([lit(1_i64)])).expect("rows");
    check(
        rows,
        JoinType::LeftSemi,
        vec![],
        "
        LeftSemi Join: Filter: t.k = o.k
          Get: o
          Project: Int64(1), t.k
            Filter: t.x > Int64(1)
              Get: t",
    );
}

#[test]
fn not_exists_with_an_order() {
    let rows = table("t").filter(col("t.k").lt(outer("o.k"))).expect("rows");
    check(
        rows,
        JoinType::LeftAnti,
        vec![],
        "
        LeftAnti Join: Filter: t.k < o.k
          Get: o
          Get: t",
    );
}

#[test]
fn in_compares_a_column_whose_name_is_that_of_another() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.project([(col("t.x") + lit(1_i64)).alias("x")]).expect("rows");
    check(
        rows,
        JoinType::LeftSemi,
        vec![col("o.x").eq(Expr::Column(Column::new_unqualified("x")))],
        "
        LeftSemi Join: Filter: t.k = o.k AND o.x = $match
          Get: o
          Project: x AS $match, t.k
            Project: t.x + Int64(1) AS x, t.k
              Get: t",
    );
}

#[test]
fn a_maximum_is_a_left_join() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.aggregate([], [call("max", vec![col("t.x")])]).expect("rows");
    check(
        rows.rename("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Project: o.id, o.k, o.x, v.max(t.x)
          Left Join: Filter: o.k = t.k
            Get: o
            Project: max(t.x) AS max(t.x), t.k
              Aggregate: groupBy=[[t.k]], aggr=[[max(t.x)]]
                Get: t",
    );
}

#[test]
fn a_number_of_rows_is_zero_without_a_match() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.aggregate([], [call("count", vec![lit(1_i64)]).alias("n")]).expect("rows");
    let rows = rows.project([(col("n") + outer("o.x")).alias("n")]).expect("rows");
    check(
        rows.rename("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Project: o.id, o.k, o.x, CASE WHEN $found IS NULL THEN Int64(0) + o.x ELSE $match + o.x END AS n
          Left Join: Filter: o.k = t.k
            Get: o
            Project: $match, t.k, Boolean(true) AS $found
              Project: $match, t.k
                Project: n AS $match, t.k
                  Aggregate: groupBy=[[t.k]], aggr=[[count(Int64(1)) AS n]]
                    Get: t",
    );
}

#[test]
fn a_column_of_both_queries_is_computed_after_the_join() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.project([(col("t.x") + outer("o.x")).alias("y"), outer("o.x").alias("z")]).expect("rows");
    check(
        rows.clone().rename("v").expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Project: o.id, o.k, o.x, t.x + o.x AS y, o.x AS z
          Inner Join: Filter: t.k = o.k
            Get: o
            Project: t.k, t.x
              Project: t.k, t.x
                Get: t",
    );
    check(
        rows.rename("v").expect("rows"),
        JoinType::Left,
        vec![col("v.y").gt(lit(2_i64))],
        "
        Project: o.id, o.k, o.x, t.x + o.x AS y, CASE WHEN $found IS NOT NULL THEN o.x END AS z
          Left Join: Filter: t.k = o.k AND t.x + o.x > Int64(2)
            Get: o
            Project: t.k, t.x, Boolean(true) AS $found
              Project: t.k, t.x
                Project: t.k, t.x
                  Get: t",
    );
}

#[test]
fn an_aggregate_of_lower_rows_reads_the_domain() {
    let rows = table("t").filter(col("t.k").lt(outer("o.k"))).expect("rows");
    let rows = rows.aggregate([], [call("count", vec![lit(1_i64)]).alias("n")]).expect("rows");
    check(
        rows.rename("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Project: o.id, o.k, o.x, CASE WHEN $found IS NULL THEN Int64(0) ELSE v.n END AS n
          Left Join: Filter: o.k IS NOT DISTINCT FROM $domain.$o.k
            Get: o
            Project: v.n, $domain.$o.k, Boolean(true) AS $found
              Project: n AS n, $domain.$o.k
                Aggregate: groupBy=[[$domain.$o.k]], aggr=[[count(Int64(1)) AS n]]
                  Inner Join: Filter: t.k < $domain.$o.k
                    Rename: $domain
                      Distinct
                        Project: o.k AS $o.k
                          Get: o
                    Get: t",
    );
}

#[test]
fn first_rows_of_each_key_are_numbered() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.sort([col("t.x").sort(true, true)]).map(|rows| rows.limit(None, Some(lit(1_i64)))).expect("rows");
    check(rows.rename("v").expect("rows"), JoinType::Inner, vec![], "
        Inner Join: Filter: v.k = o.k
          Get: o
          Project: t.id AS id, t.k AS k, t.x AS x
            Project: t.id, t.k, t.x
              Filter: $number <= Int64(1)
                Over: row_number() PARTITION BY [t.k] ORDER BY [t.x ASC NULLS FIRST] ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW AS $number
                  Get: t");
    let rows = table("t").filter(col("t.k").lt(outer("o.k"))).expect("rows");
    let rows = rows.sort([col("t.x").sort(true, true)]).map(|rows| rows.limit(None, Some(lit(1_i64)))).expect("rows");
    check(rows.rename("v").expect("rows"), JoinType::Inner, vec![], "
        Project: o.id, o.k, o.x, v.id, v.k, v.x
          Inner Join: Filter: o.k IS NOT DISTINCT FROM $domain.$o.k
            Get: o
            Project: t.id AS id, t.k AS k, t.x AS x, $domain.$o.k
              Project: t.id, t.k, t.x, $domain.$o.k
                Filter: $number <= Int64(1)
                  Over: row_number() PARTITION BY [$domain.$o.k] ORDER BY [t.x ASC NULLS FIRST] ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW AS $number
                    Inner Join: Filter: t.k < $domain.$o.k
                      Rename: $domain
                        Distinct
                          Project: o.k AS $o.k
                            Get: o
                      Get: t");
}

#[test]
fn a_union_has_the_keys_of_its_inputs() {
    let part = |name: &str| {
        let rows = table(name).filter(col(format!("{name}.k")).eq(outer("o.k"))).expect("rows");
        rows.project([col(format!("{name}.x"))]).expect("rows")
    };
    let rows = Rel::union(vec![part("t").into(), part("s").into()]).expect("rows");
    check(
        rows.clone().rename("v").expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Project: o.id, o.k, o.x, v.x
          Inner Join: Filter: o.k = $match
            Get: o
            Project: x AS x, $match
              Project: x, $match
                Union
                  Project: t.x, t.k AS $match
                    Project: t.x, t.k
                      Get: t
                  Project: s.x, s.k AS $match
                    Project: s.x, s.k
                      Get: s",
    );
    check(
        rows.distinct().rename("v").expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Project: o.id, o.k, o.x, v.x
          Inner Join: Filter: o.k = $match
            Get: o
            Project: x AS x, $match
              Distinct
                Project: x, $match
                  Project: x, $match
                    Union
                      Project: t.x, t.k AS $match
                        Project: t.x, t.k
                          Get: t
                      Project: s.x, s.k AS $match
                        Project: s.x, s.k
                          Get: s",
    );
}

#[test]
fn both_sides_of_a_join_have_conditions() {
    let side = |name: &str, column: &str| table(name).filter(col(format!("{name}.k")).eq(outer(column))).expect("rows");
    let on = vec![col("t.x").eq(col("s.x") + outer("o.id"))];
    let inner = side("t", "o.k").join(side("s", "o.x"), JoinType::Inner, on.clone()).expect("rows");
    check(
        inner.project([col("t.id")]).and_then(|rows| rows.rename("v")).expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Project: o.id, o.k, o.x, v.id
          Inner Join: Filter: t.k = o.k AND s.k = o.x AND t.x = s.x + o.id
            Get: o
            Project: t.id AS id, s.k, s.x, t.k, t.x
              Project: t.id, s.k, s.x, t.k, t.x
                Cross Join:
                  Get: t
                  Get: s",
    );
    let left = side("t", "o.k").join(side("s", "o.x"), JoinType::Left, on).expect("rows");
    check(left.project([col("t.id")]).and_then(|rows| rows.rename("v")).expect("rows"), JoinType::Inner, vec![], "
        Project: o.id, o.k, o.x, v.id
          Inner Join: Filter: o.id = $domain.$o.id AND o.k IS NOT DISTINCT FROM $domain.$o.k AND o.x IS NOT DISTINCT FROM $domain.$o.x
            Get: o
            Project: t.id AS id, $domain.$o.id, $domain.$o.k, $domain.$o.x
              Project: t.id, $domain.$o.id, $domain.$o.k, $domain.$o.x
                Project: t.id, t.k, t.x, s.id, s.k, s.x, $domain.$o.id, $domain.$o.k, $domain.$o.x
                  Left Join: Filter: t.x = s.x + $domain.$o.id AND $domain.$o.id = $domain_2.$o.id AND $domain.$o.k IS NOT DISTINCT FROM $domain_2.$o.k AND $domain.$o.x IS NOT DISTINCT FROM $domain_2.$o.x
                    Inner Join: Filter: t.k = $domain.$o.k
                      Rename: $domain
                        Distinct
                          Project: o.id AS $o.id, o.k AS $o.k, o.x AS $o.x
                            Get: o
                      Get: t
                    Inner Join: Filter: s.k = $domain_2.$o.x
                      Rename: $domain_2
                        Distinct
                          Project: o.id AS $o.id, o.k AS $o.k, o.x AS $o.x
                            Get: o
                      Get: s");
}

#[test]
fn a_semi_join_within_exists_is_an_inner_join() {
    let of_s = table("s").filter(col("s.k").eq(outer("o.k"))).expect("rows");
    let rows = table("t").join(of_s, JoinType::LeftSemi, vec![col("t.x").eq(col("s.x"))]).expect("rows");
    check(
        rows.clone(),
        JoinType::LeftSemi,
        vec![],
        "
        LeftSemi Join: Filter: s.k = o.k
          Get: o
          Inner Join: Filter: t.x = s.x
            Get: t
            Get: s",
    );
    check(
        rows.rename("v").expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Project: o.id, o.k, o.x, v.id, v.k, v.x
          Inner Join: Filter: o.k IS NOT DISTINCT FROM $domain.$o.k
            Get: o
            Project: t.id AS id, t.k AS k, t.x AS x, $domain.$o.k
              LeftSemi Join: Filter: t.x = s.x AND $domain.$o.k IS NOT DISTINCT FROM $domain_2.$o.k
                Cross Join:
                  Rename: $domain
                    Distinct
                      Project: o.k AS $o.k
                        Get: o
                  Get: t
                Inner Join: Filter: s.k = $domain_2.$o.k
                  Rename: $domain_2
                    Distinct
                      Project: o.k AS $o.k
                        Get: o
                  Get: s",
    );
}

#[test]
fn rows_of_constants_need_no_join() {
    let one = Rel::one_row().project([(outer("o.k") + lit(1_i64)).alias("y")]).expect("rows");
    check(
        one.clone().rename("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Project: o.id, o.k, o.x, o.k + Int64(1) AS y
          Get: o",
    );
    check(
        one,
        JoinType::LeftAnti,
        vec![col("y").eq(col("o.x"))],
        "
        Filter: o.k + Int64(1) = o.x IS NOT TRUE
          Get: o",
    );
    let rows = vec![vec![lit(1_i64), outer("o.k")], vec![lit(2_i64), outer("o.x")]];
    let rows = Rel::values(rows).and_then(|rows| rows.rename("v")).expect("rows");
    check(
        rows,
        JoinType::Inner,
        vec![],
        "
        Project: o.id, o.k, o.x, v.column1, CASE $row WHEN Int32(0) THEN o.k ELSE o.x END AS column2
          Inner Join: Filter: Boolean(true)
            Get: o
            Project: column1 AS column1, $row
              Project: column1, column2 AS $row
                Values: (Int64(1), Int32(0)), (Int64(2), Int32(1))",
    );
}

#[test]
fn a_condition_on_an_aggregate_reads_the_domain() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.aggregate([], [call("count", vec![lit(1_i64)]).alias("n")]).expect("rows");
    let rows = rows.filter(col("n").lt(lit(2_i64))).expect("rows");
    check(
        rows,
        JoinType::LeftSemi,
        vec![],
        "
        LeftSemi Join: Filter: o.k IS NOT DISTINCT FROM $domain_2.$o.k
          Get: o
          Filter: n < Int64(2)
            Project: CASE WHEN $found IS NULL THEN Int64(0) ELSE n END AS n, $domain_2.$o.k
              Left Join: Filter: $domain_2.$o.k IS NOT DISTINCT FROM $domain.$o.k
                Rename: $domain_2
                  Distinct
                    Project: o.k AS $o.k
                      Get: o
                Project: $domain.$o.k, n, Boolean(true) AS $found
                  Aggregate: groupBy=[[$domain.$o.k]], aggr=[[count(Int64(1)) AS n]]
                    Inner Join: Filter: t.k = $domain.$o.k
                      Rename: $domain
                        Distinct
                          Project: o.k AS $o.k
                            Get: o
                      Get: t",
    );
}

#[test]
fn keys_of_other_types_read_the_domain() {
    let number = cast(col("t.k"), DataType::Float64);
    let rows = table("t").filter(number.eq(outer("o.id"))).expect("rows");
    let rows = rows.aggregate([], [call("max", vec![col("t.x")])]).expect("rows");
    check(
        rows.rename("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Project: o.id, o.k, o.x, v.max(t.x)
          Left Join: Filter: o.id = $domain.$o.id
            Get: o
            Project: max(t.x) AS max(t.x), $domain.$o.id
              Aggregate: groupBy=[[$domain.$o.id]], aggr=[[max(t.x)]]
                Inner Join: Filter: CAST(t.k AS Float64) = $domain.$o.id
                  Rename: $domain
                    Distinct
                      Project: o.id AS $o.id
                        Get: o
                  Get: t",
    );
}

#[test]
fn a_limit_below_a_condition_is_of_numbered_rows() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k"))).map(|rows| rows.limit(None, Some(lit(1_i64))));
    let rows = rows.expect("rows");
    check(
        rows.clone(),
        JoinType::LeftSemi,
        vec![],
        "
        LeftSemi Join: Filter: t.k = o.k
          Get: o
          Get: t",
    );
    check(
        rows,
        JoinType::LeftSemi,
        vec![col("t.x").eq(col("o.x"))],
        "
        LeftSemi Join: Filter: t.k = o.k AND t.x = o.x
          Get: o
          Project: t.id, t.k, t.x
            Filter: $number <= Int64(1)
              Over: row_number() PARTITION BY [t.k] ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW AS $number
                Get: t",
    );
}

/// The message of the error that a subquery gives.
fn refusal(left: Rel, right: Rel) -> String {
    let refused = apply(left, right, JoinType::Left, Vec::new(), &Functions::new(), &Names::default());
    refused.expect_err("an error").to_string()
}

#[test]
fn totals_of_grouping_sets_are_refused() {
    let rows = table("t").filter(col("t.k").lt(outer("o.k"))).expect("rows");
    let sets = grouping_set(vec![vec![col("t.k")], vec![]]);
    let rows = rows.aggregate([sets], [call("max", vec![col("t.x")])]).expect("rows");
    let error = refusal(table("o"), rows);
    assert!(error.contains("in a place that is not supported"), "{error}");
}

#[test]
fn values_that_vary_are_not_computed_twice() {
    let rand = Functions::new().scalar("rand").expect("a function").call(Vec::new());
    let with_rand = |of: &str| {
        let rows = table("s").project([col("s.id"), rand.clone().alias("r")]).and_then(|rows| rows.rename("o"));
        let read = Expr::OuterReferenceColumn(
            Arc::new(Field::new("id", DataType::Int64, false)),
            Column::from_qualified_name(of),
        );
        let sums = table("t").filter(cast(read, DataType::Int64).lt(col("t.k"))).expect("rows");
        let sums = sums.aggregate([], [call("max", vec![col("t.x")])]).expect("rows");
        (rows.expect("rows"), sums)
    };
    let (rows, sums) = with_rand("o.r");
    let error = refusal(rows, sums);
    assert!(error.contains("columns that have another value at each evaluation"), "{error}");
    let (rows, sums) = with_rand("o.id");
    let joined = apply(rows, sums, JoinType::Left, vec![], &Functions::new(), &Names::default());
    assert!(joined.is_ok(), "{joined:?}");
}
