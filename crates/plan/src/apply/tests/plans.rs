//! The plans of dependent joins.

use arrow::datatypes::DataType;
use datafusion_common::JoinType;
use datafusion_expr::{Expr, cast, grouping_set, lit};

use super::{call, col, of, outer, table};
use crate::apply::apply;
use crate::functions::Functions;
use crate::rel::{Col, Output, Rel, computed, named};

fn max_x() -> Output {
    computed("max(t.x)", call("max", vec![col("t.x")]))
}

fn applied(right: Rel, kind: JoinType, on: Vec<Expr>) -> Rel {
    apply(table("o"), right, kind, on, &Functions::new()).expect("a plan")
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
    let rows = rows.and_then(|rows| rows.project([computed("one", lit(1_i64))])).expect("rows");
    check(
        rows,
        JoinType::LeftSemi,
        vec![],
        "
        LeftSemi Join: Filter: t.k = o.k
          Get: o
          Project: Int64(1) AS one, t.k
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
    let rows = rows.project([computed("x", col("t.x") + lit(1_i64))]).expect("rows");
    let x = of(&rows, "x").expr();
    check(
        rows,
        JoinType::LeftSemi,
        vec![col("o.x").eq(x)],
        "
        LeftSemi Join: Filter: t.k = o.k AND o.x = x
          Get: o
          Project: t.x + Int64(1) AS x, t.k
            Get: t",
    );
}

#[test]
fn a_maximum_is_a_left_join() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.aggregate([], [max_x()]).expect("rows");
    check(
        rows.called("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Project: o.id, o.k, o.x, max(t.x)
          Left Join: Filter: o.k = t.k
            Get: o
            Project: max(t.x), t.k
              Aggregate: groupBy=[[t.k]], aggr=[[max(t.x)]]
                Get: t",
    );
}

#[test]
fn a_number_of_rows_is_zero_without_a_match() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.aggregate([], [computed("n", call("count", vec![lit(1_i64)]))]).expect("rows");
    let rows = rows.clone().project([computed("n", of(&rows, "n").expr() + outer("o.x"))]).expect("rows");
    check(
        rows.called("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Project: o.id, o.k, o.x, CASE WHEN $found IS NULL THEN Int64(0) + o.x ELSE n#1 + o.x END AS n#2
          Left Join: Filter: o.k = k
            Get: o
            Project: t.k AS k, n#3 AS n#1, Boolean(true) AS $found
              Project: t.k, n#3
                Aggregate: groupBy=[[t.k]], aggr=[[count(Int64(1)) AS n#3]]
                  Get: t",
    );
}

#[test]
fn a_column_of_both_queries_is_computed_after_the_join() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.project([computed("y", col("t.x") + outer("o.x")), computed("z", outer("o.x"))]).expect("rows");
    check(
        rows.clone().called("v").expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Project: o.id, o.k, o.x, t.x + o.x AS y, o.x AS z
          Inner Join: Filter: t.k = o.k
            Get: o
            Project: t.k, t.x
              Get: t",
    );
    let y = of(&rows, "y").expr();
    check(
        rows.called("v").expect("rows"),
        JoinType::Left,
        vec![y.gt(lit(2_i64))],
        "
        Project: o.id, o.k, o.x, x + o.x AS y, CASE WHEN $found IS NOT NULL THEN o.x END AS z
          Left Join: Filter: k = o.k AND x + o.x > Int64(2)
            Get: o
            Project: t.k AS k, t.x AS x, Boolean(true) AS $found
              Project: t.k, t.x
                Get: t",
    );
}

#[test]
fn an_aggregate_of_lower_rows_reads_the_domain() {
    let rows = table("t").filter(col("t.k").lt(outer("o.k"))).expect("rows");
    let rows = rows.aggregate([], [computed("n", call("count", vec![lit(1_i64)]))]).expect("rows");
    check(
        rows.called("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Project: o.id, o.k#1, o.x, CASE WHEN $found IS NULL THEN Int64(0) ELSE n#1 END AS n#2
          Left Join: Filter: o.k#1 IS NOT DISTINCT FROM $o.k#1
            Get: o
            Project: n#2 AS n#1, $o.k#2 AS $o.k#1, Boolean(true) AS $found
              Project: n#2, $o.k#2
                Aggregate: groupBy=[[$o.k#2]], aggr=[[count(Int64(1)) AS n#2]]
                  Inner Join: Filter: t.k < $o.k#2
                    Distinct
                      Project: o.k#2 AS $o.k#2
                        Get: o
                    Get: t",
    );
}

#[test]
fn first_rows_of_each_key_are_numbered() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.sort([col("t.x").sort(true, true)]).limit(None, Some(lit(1_i64)));
    check(rows.called("v").expect("rows"), JoinType::Inner, vec![], "
        Inner Join: Filter: t.k = o.k
          Get: o
          Project: t.id, t.k, t.x
            Project: t.id, t.k, t.x
              Filter: $number <= Int64(1)
                Over: row_number() PARTITION BY [t.k] ORDER BY [t.x ASC NULLS FIRST] ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW AS $number
                  Get: t");
    let rows = table("t").filter(col("t.k").lt(outer("o.k"))).expect("rows");
    let rows = rows.sort([col("t.x").sort(true, true)]).limit(None, Some(lit(1_i64)));
    check(rows.called("v").expect("rows"), JoinType::Inner, vec![], "
        Project: o.id, o.k#1, o.x, t.id, t.k, t.x
          Inner Join: Filter: o.k#1 IS NOT DISTINCT FROM $o.k
            Get: o
            Project: t.id, t.k, t.x, $o.k
              Project: t.id, t.k, t.x, $o.k
                Filter: $number <= Int64(1)
                  Over: row_number() PARTITION BY [$o.k] ORDER BY [t.x ASC NULLS FIRST] ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW AS $number
                    Inner Join: Filter: t.k < $o.k
                      Distinct
                        Project: o.k#2 AS $o.k
                          Get: o
                      Get: t");
}

#[test]
fn a_union_has_the_keys_of_its_inputs() {
    let part = |name: &str| {
        let rows = table(name).filter(col(&format!("{name}.k")).eq(outer("o.k"))).expect("rows");
        rows.project([named("x", col(&format!("{name}.x")))]).expect("rows")
    };
    let rows = Rel::union(vec![part("t").into(), part("s").into()]).expect("rows");
    check(
        rows.clone().called("v").expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Project: o.id, o.k, o.x, x
          Inner Join: Filter: o.k = $match#1
            Get: o
            Project: x, $match#1
              Union: x, $match#1
                Project: t.x, t.k AS $match#2
                  Project: t.x, t.k
                    Get: t
                Project: s.x, s.k AS $match#3
                  Project: s.x, s.k
                    Get: s",
    );
    check(
        rows.distinct().called("v").expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Project: o.id, o.k, o.x, x
          Inner Join: Filter: o.k = $match#1
            Get: o
            Project: x, $match#1
              Distinct
                Project: x, $match#1
                  Union: x, $match#1
                    Project: t.x, t.k AS $match#2
                      Project: t.x, t.k
                        Get: t
                    Project: s.x, s.k AS $match#3
                      Project: s.x, s.k
                        Get: s",
    );
}

#[test]
fn both_sides_of_a_join_have_conditions() {
    let side =
        |name: &str, column: &str| table(name).filter(col(&format!("{name}.k")).eq(outer(column))).expect("rows");
    let on = vec![col("t.x").eq(col("s.x") + outer("o.id"))];
    let inner = side("t", "o.k").join(side("s", "o.x"), JoinType::Inner, on.clone()).expect("rows");
    check(
        inner.project([named("id", col("t.id"))]).and_then(|rows| rows.called("v")).expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Project: o.id, o.k, o.x, t.id
          Inner Join: Filter: t.k = o.k AND s.k = o.x AND t.x = s.x + o.id
            Get: o
            Project: t.id, t.k, s.k, t.x, s.x
              Cross Join:
                Get: t
                Get: s",
    );
    let left = side("t", "o.k").join(side("s", "o.x"), JoinType::Left, on).expect("rows");
    check(left.project([named("id", col("t.id"))]).and_then(|rows| rows.called("v")).expect("rows"), JoinType::Inner, vec![], "
        Project: o.id#1, o.k#1, o.x#1, t.id
          Inner Join: Filter: o.id#1 = $o.id#1 AND o.k#1 IS NOT DISTINCT FROM $o.k#1 AND o.x#1 IS NOT DISTINCT FROM $o.x#1
            Get: o
            Project: t.id, $o.id#1, $o.k#1, $o.x#1
              Project: t.id, t.k, t.x, s.id, s.k, s.x, $o.id#1, $o.k#1, $o.x#1
                Left Join: Filter: t.x = s.x + $o.id#1 AND $o.id#1 = $o.id#2 AND $o.k#1 IS NOT DISTINCT FROM $o.k#2 AND $o.x#1 IS NOT DISTINCT FROM $o.x#2
                  Inner Join: Filter: t.k = $o.k#1
                    Distinct
                      Project: o.id#2 AS $o.id#1, o.k#2 AS $o.k#1, o.x#2 AS $o.x#1
                        Get: o
                    Get: t
                  Inner Join: Filter: s.k = $o.x#2
                    Distinct
                      Project: o.id#3 AS $o.id#2, o.k#3 AS $o.k#2, o.x#3 AS $o.x#2
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
        rows.called("v").expect("rows"),
        JoinType::Inner,
        vec![],
        "
        Project: o.id, o.k#1, o.x, t.id, t.k, t.x
          Inner Join: Filter: o.k#1 IS NOT DISTINCT FROM $o.k#1
            Get: o
            Project: t.id, t.k, t.x, $o.k#1
              LeftSemi Join: Filter: t.x = s.x AND $o.k#1 IS NOT DISTINCT FROM $o.k#2
                Cross Join:
                  Distinct
                    Project: o.k#2 AS $o.k#1
                      Get: o
                  Get: t
                Inner Join: Filter: s.k = $o.k#2
                  Distinct
                    Project: o.k#3 AS $o.k#2
                      Get: o
                  Get: s",
    );
}

#[test]
fn rows_of_constants_need_no_join() {
    let one = Rel::one_row().project([computed("y", outer("o.k") + lit(1_i64))]).expect("rows");
    check(
        one.clone().called("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Project: o.id, o.k, o.x, o.k + Int64(1) AS y
          Get: o",
    );
    let y = of(&one, "y").expr();
    check(
        one,
        JoinType::LeftAnti,
        vec![y.eq(col("o.x"))],
        "
        Filter: o.k + Int64(1) = o.x IS NOT TRUE
          Get: o",
    );
    let rows = vec![vec![lit(1_i64), outer("o.k")], vec![lit(2_i64), outer("o.x")]];
    let rows = Rel::values(rows).and_then(|rows| rows.called("v")).expect("rows");
    check(
        rows,
        JoinType::Inner,
        vec![],
        "
        Project: o.id, o.k, o.x, column1, CASE $row WHEN Int32(0) THEN o.k ELSE o.x END AS column2
          Inner Join: Filter: Boolean(true)
            Get: o
            Project: column1, $row
              Values: (Int64(1), Int32(0)), (Int64(2), Int32(1))",
    );
}

#[test]
fn a_condition_on_an_aggregate_reads_the_domain() {
    let rows = table("t").filter(col("t.k").eq(outer("o.k"))).expect("rows");
    let rows = rows.aggregate([], [computed("n", call("count", vec![lit(1_i64)]))]).expect("rows");
    let rows = rows.clone().filter(of(&rows, "n").expr().lt(lit(2_i64))).expect("rows");
    check(
        rows,
        JoinType::LeftSemi,
        vec![],
        "
        LeftSemi Join: Filter: o.k#1 IS NOT DISTINCT FROM $o.k#1
          Get: o
          Filter: n#1 < Int64(2)
            Project: CASE WHEN $found IS NULL THEN Int64(0) ELSE n#2 END AS n#1, $o.k#1
              Left Join: Filter: $o.k#1 IS NOT DISTINCT FROM $o.k#2
                Distinct
                  Project: o.k#2 AS $o.k#1
                    Get: o
                Project: $o.k#3 AS $o.k#2, n#1 AS n#2, Boolean(true) AS $found
                  Aggregate: groupBy=[[$o.k#3]], aggr=[[count(Int64(1)) AS n#1]]
                    Inner Join: Filter: t.k = $o.k#3
                      Distinct
                        Project: o.k#3 AS $o.k#3
                          Get: o
                      Get: t",
    );
}

#[test]
fn keys_of_other_types_read_the_domain() {
    let number = cast(col("t.k"), DataType::Float64);
    let rows = table("t").filter(number.eq(outer("o.id"))).expect("rows");
    let rows = rows.aggregate([], [max_x()]).expect("rows");
    check(
        rows.called("v").expect("rows"),
        JoinType::Left,
        vec![],
        "
        Project: o.id#1, o.k, o.x, max(t.x)
          Left Join: Filter: o.id#1 = $o.id
            Get: o
            Project: max(t.x), $o.id
              Aggregate: groupBy=[[$o.id]], aggr=[[max(t.x)]]
                Inner Join: Filter: CAST(t.k AS Float64) = $o.id
                  Distinct
                    Project: o.id#2 AS $o.id
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
    let refused = apply(left, right, JoinType::Left, Vec::new(), &Functions::new());
    refused.expect_err("an error").to_string()
}

#[test]
fn totals_of_grouping_sets_are_refused() {
    let rows = table("t").filter(col("t.k").lt(outer("o.k"))).expect("rows");
    let sets = grouping_set(vec![vec![col("t.k")], vec![]]);
    let rows = rows.aggregate([sets], [max_x()]).expect("rows");
    let error = refusal(table("o"), rows);
    assert!(error.contains("in a place that is not supported"), "{error}");
}

#[test]
fn values_that_vary_are_not_computed_twice() {
    let rand = Functions::new().scalar("rand").expect("a function").call(Vec::new());
    let rows = [named("id", col("s.id")), computed("r", rand)];
    let rows = table("s").project(rows).and_then(|rows| rows.called("o")).expect("rows");
    let sums = |read: &str| {
        let Col { id, field, .. } = of(&rows, read);
        let read = cast(Expr::OuterReferenceColumn(field, id), DataType::Int64);
        table("t").filter(read.lt(col("t.k"))).and_then(|rows| rows.aggregate([], [max_x()])).expect("rows")
    };
    let error = refusal(rows.clone(), sums("r"));
    assert!(error.contains("columns whose values differ at each evaluation"), "{error}");
    let joined = apply(rows.clone(), sums("id"), JoinType::Left, vec![], &Functions::new());
    assert!(joined.is_ok(), "{joined:?}");
}
