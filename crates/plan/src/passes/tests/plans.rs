//! The effects of single passes.

use datafusion_sql::sqlparser::parser::Parser;

use super::catalog;
use crate::dialect::AnabranchDialect;
use crate::query::Planner;
use crate::rel::Rel;

/// The plan of a query after a pass.
fn after(pass: &str, text: &str) -> String {
    let catalog = catalog();
    let planner = Planner::new(&catalog);
    let parsed = Parser::new(&AnabranchDialect::default()).try_with_sql(text).and_then(|mut of| of.parse_query());
    let plan = planner.query(parsed.expect("a query")).expect("a plan");
    let mut found = None;
    let observe = &mut |plan: &Rel, of: &super::Pass| {
        if of.name == pass {
            found = Some(plan.to_string());
        }
    };
    planner.optimize_observed(plan, observe).expect("an optimized plan");
    found.expect("a pass of this name")
}

/// The positions of tables in a plan.
fn order(plan: &str) -> Vec<char> {
    plan.lines().filter_map(|line| line.trim().strip_prefix("Project as ")?.chars().next()).collect()
}

#[test]
fn tables_are_joined_in_an_order_in_which_each_has_a_key() {
    let of = |condition: &str| order(&after("connect", &format!("SELECT a.k FROM t a, t b, u c WHERE {condition}")));
    assert_eq!(of("a.k = c.k AND c.n = b.n"), ['a', 'c', 'b']);
    assert_eq!(of("a.n + 1 = c.n AND b.k = c.k AND a.i > 1"), ['a', 'c', 'b']);
    // The written order, if it gives each join a key, or if no order does.
    assert_eq!(of("a.k = b.k AND b.n = c.n"), ['a', 'b', 'c']);
    assert_eq!(of("a.k = b.k AND a.k = c.k"), ['a', 'b', 'c']);
    assert_eq!(of("a.n > c.n AND b.n > c.n"), ['a', 'b', 'c']);
}

#[test]
fn columns_keep_their_order_when_joins_change_theirs() {
    let plan = after("prune", "SELECT * FROM t a, t b, u c WHERE a.k = c.k AND c.n = b.n");
    let first = plan.lines().next().expect("a projection");
    assert!(first.find("b.k").expect("b") < first.find("c.k").expect("c"), "{plan}");
}

#[test]
fn outer_joins_whose_padded_rows_are_dropped_do_not_pad() {
    for (kind, condition, expected) in [
        ("LEFT", "b.n > 1", "Inner"),
        ("LEFT", "a.n > 1", "Left"),
        ("LEFT", "b.n IS NULL", "Left"),
        ("LEFT", "COALESCE(b.n, 1) = 1", "Left"),
        ("LEFT", "b.n > 1 OR a.n > 1", "Left"),
        ("LEFT", "b.n + a.n > 1", "Inner"),
        ("LEFT", "NOT (b.b IS TRUE)", "Left"),
        ("RIGHT", "a.k = 'q'", "Inner"),
        ("RIGHT", "b.k = 'q'", "Right"),
        ("FULL", "a.n > 1", "Left"),
        ("FULL", "b.n > 1", "Right"),
        ("FULL", "a.n > 1 AND b.k = 'q'", "Inner"),
        ("FULL", "a.n > b.n", "Inner"),
        ("FULL", "a.n IS NOT DISTINCT FROM b.n", "Full"),
    ] {
        let plan = after("filters", &format!("SELECT a.k FROM t a {kind} JOIN u b ON a.k = b.k WHERE {condition}"));
        assert!(plan.contains(&format!("{expected} Join: a.k = b.k")), "{kind} {condition}\n{plan}");
    }
}

#[test]
fn what_compares_both_sides_is_a_key() {
    let joined = |on: &str| after("filters", &format!("SELECT a.k FROM t a JOIN u b ON {on}"));
    assert!(joined("a.k = b.k AND a.n < b.n").contains("Inner Join: a.k = b.k Filter: a.n < b.n"));
    assert!(joined("b.n + 1 = a.n").contains("Inner Join: a.n = b.n + "), "{}", joined("b.n + 1 = a.n"));
    assert!(joined("a.k IS NOT DISTINCT FROM b.k").contains("Inner Join: a.k IS NOT DISTINCT FROM b.k"));
    // All keys of a join treat NULL alike.
    let both = joined("a.k IS NOT DISTINCT FROM b.k AND a.n = b.n");
    assert!(both.contains("Inner Join: a.n = b.n Filter: a.k IS NOT DISTINCT FROM b.k"), "{both}");
    // A comparison within one side is no key.
    assert!(!joined("a.n = a.i AND a.k = b.k").contains("Join: a.n = a.i"));
}

#[test]
fn nothing_is_read_that_nobody_wants() {
    let plan = after("prune", "SELECT k FROM (SELECT k, n * 2 AS m, ROW_NUMBER() OVER (ORDER BY n) AS r FROM t)");
    assert!(plan.contains("Get: t [k]"), "{plan}");
    let plan = after("prune", "SELECT c FROM (SELECT k, COUNT(*) AS c, SUM(n) AS s, MIN(d) AS m FROM t GROUP BY k)");
    assert!(plan.contains("Get: t [k]") && !plan.contains("sum("), "{plan}");
    let plan = after("prune", "SELECT k FROM (SELECT * FROM t UNION ALL SELECT * FROM u)");
    assert_eq!(plan.matches(" [k]").count(), 2, "{plan}");
    // An aggregate without keys has one row, whichever columns are read.
    let plan = after("prune", "SELECT 1 FROM (SELECT SUM(n) AS s FROM t)");
    assert!(plan.contains("Aggregate"), "{plan}");
}

#[test]
fn rows_that_are_different_anyway_are_not_grouped_again() {
    let aggregates = |text: &str| after("distinct", text).matches("Aggregate:").count();
    assert_eq!(aggregates("SELECT DISTINCT k, c FROM (SELECT k, COUNT(*) AS c FROM t GROUP BY k)"), 1);
    assert_eq!(aggregates("SELECT DISTINCT c FROM (SELECT k, COUNT(*) AS c FROM t GROUP BY k)"), 2);
    assert_eq!(aggregates("SELECT DISTINCT COUNT(*) FROM t"), 1);
}

#[test]
fn what_has_no_rows_goes() {
    let plan = after("empty", "SELECT k FROM t WHERE 1 = 0 UNION ALL SELECT k FROM u WHERE 1 = 1");
    assert!(!plan.contains("Union") && !plan.contains("Filter") && plan.contains("Get: u"), "{plan}");
    let plan = after("empty", "SELECT a.k FROM t a JOIN (SELECT * FROM u WHERE FALSE) b ON a.k = b.k");
    assert!(plan.contains("no rows") && !plan.contains("Join"), "{plan}");
    let plan = after(
        "empty",
        "SELECT k, COUNT(*), MIN(r) FROM (SELECT k, ROW_NUMBER() OVER (ORDER BY n) AS r FROM t WHERE 1 = 0) GROUP BY k",
    );
    assert!(plan.starts_with("Values: no rows"), "{plan}");
    let plan = after("empty", "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND 1 = 0)");
    assert!(plan.contains("Get: t") && !plan.contains("Join"), "{plan}");
    let plan = after("empty", "SELECT k FROM t WHERE k IN (SELECT k FROM u WHERE 1 = 0)");
    assert!(plan.starts_with("Values: no rows"), "{plan}");
    // An aggregate over no rows has one result.
    let plan = after("empty", "SELECT COUNT(*) FROM t WHERE FALSE");
    assert!(plan.contains("Aggregate") && plan.contains("no rows"), "{plan}");
}
