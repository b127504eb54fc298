use arrow::array::{Int64Array, StringViewArray};

use super::*;

fn column(index: usize) -> Box<Expr> {
    Box::new(Expr::Column(index))
}

/// What an expression over a row ('x#1', the greatest number, 0) says when it fails.
fn failure(expr: &Expr) -> String {
    let text: ArrayRef = Arc::new(StringViewArray::from(vec!["x#1"]));
    let number = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("name", text), ("price", number(i64::MAX)), ("amount", number(0))])
        .expect("batch");
    let mut compiled = CompiledExpr::new(expr, &batch.schema(), &Functions::default()).expect("compiles");
    compiled.evaluate(&batch).expect_err("it must fail").to_string()
}

#[test]
fn a_failing_expression_is_shown_with_a_remedy() {
    let cast = Expr::Cast { expr: column(0), to: DataType::Int64, safe: false };
    let said = failure(&cast);
    assert!(said.starts_with("CAST(name AS Int64): Cannot cast string 'x#1'"), "{said}");
    assert!(said.ends_with("help: TRY_CAST gives NULL for a value that does not fit"), "{said}");
    let binary = |op, right| Expr::Binary { op, left: column(1), right };
    assert_eq!(
        failure(&binary(BinaryOp::Divide, column(2))),
        "(price / amount): division by zero\n  help: a / NULLIF(b, 0) gives NULL where b is 0"
    );
}

#[test]
fn texts_keep_their_signs_of_numbers() {
    let schema = Schema::new(vec![Field::new("a", DataType::Utf8View, true)]);
    let literal = Literal { data_type: DataType::Utf8View, text: Some("#0".into()) };
    let expr = Expr::Binary { op: BinaryOp::Eq, left: column(0), right: Box::new(Expr::Literal(literal)) };
    assert_eq!(text_of(&expr, &schema), "(a = '#0')");
}
