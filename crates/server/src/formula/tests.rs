use super::*;

const COLUMNS: [&str; 3] = ["queue_rows", "lag_ms", "rate"];

fn evaluate(expression: &str, of: &[(&str, [f64; 2])]) -> Vec<f64> {
    let mut formula = Formula::new(expression, &COLUMNS).expect("a formula");
    let value = |column: &str| of.iter().find(|(name, _)| *name == column).expect("a column").1.to_vec();
    let columns: Vec<Vec<f64>> = formula.columns().map(value).collect();
    formula.evaluate(&columns, 2).expect("values")
}

#[test]
fn an_expression_reads_the_columns_that_it_names() {
    let of = [("queue_rows", [10.0, 20.0]), ("lag_ms", [600.0, 100.0]), ("rate", [f64::NAN, 2.0])];
    let weighted = "queue_rows * CASE WHEN lag_ms > 500 THEN 4 ELSE 1 END";
    assert_eq!(evaluate(weighted, &of), [40.0, 20.0]);
    assert_eq!(evaluate("queue_rows", &of), [10.0, 20.0]);
    assert_eq!(evaluate("7", &of), [7.0, 7.0]);
    assert_eq!(evaluate("COALESCE(rate, -1)", &of), [-1.0, 2.0]);
    let values = evaluate("rate + 1", &of);
    assert!(values[0].is_nan() && (values[1] - 3.0).abs() < 1e-9, "{values:?}");
    let formula = Formula::new("lag_ms / 2", &COLUMNS).expect("a formula");
    assert_eq!(formula.columns().collect::<Vec<_>>(), ["lag_ms"]);
}

#[test]
fn what_is_no_number_per_operator_is_refused() {
    for (expression, expected) in [
        ("queue_row", "queue_rows"),
        ("SUM(queue_rows)", "no aggregates"),
        ("queue_rows; DROP TABLE metrics", "expression \"queue_rows; DROP TABLE metrics\""),
        ("TRUE AND", "expression"),
        ("ARRAY[1]", "expression"),
    ] {
        let error =
            Formula::new(expression, &COLUMNS).err().unwrap_or_else(|| panic!("taken: {expression}")).to_string();
        assert!(error.contains(expected), "{expression}: {error}");
    }
}

#[test]
fn an_expression_is_taken_without_its_semicolon() {
    let error = Formula::new("lag_ms / 2;", &COLUMNS).err().expect("refused").to_string();
    assert!(error.contains("leave out the semicolon"), "{error}");
    Formula::new("lag_ms / 2", &COLUMNS).expect("the remedy helps");
}
