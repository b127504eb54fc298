use anabranch_dataflow::BinaryOp;
use arrow::array::{Int64Array, StringViewArray};
use arrow::datatypes::Field;

use super::*;

fn column(index: usize) -> Box<Expr> {
    Box::new(Expr::Column(index))
}

/// The error of an expression over a row ('x#1', the greatest number, 0).
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
    assert!(said.starts_with("CAST(name AS BIGINT): 'x#1' is no BIGINT"), "{said}");
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
    let expr = Expr::Binary { op: BinaryOp::Eq, left: column(0), right: Box::new(Expr::text("#0")) };
    assert_eq!(text_of(&expr, &schema), "(a = '#0')");
}

fn evaluate(expr: &Expr, columns: Vec<(&str, ArrayRef)>) -> ArrayRef {
    let batch = RecordBatch::try_from_iter(columns).expect("batch");
    let mut compiled = CompiledExpr::new(expr, &batch.schema(), &Functions::default()).expect("compiles");
    compiled.evaluate(&batch).expect("evaluates")
}

fn binary(op: BinaryOp, left: Box<Expr>, right: Box<Expr>) -> Expr {
    Expr::Binary { op, left, right }
}

#[test]
fn short_and_long_texts_are_compared_alike() {
    use arrow::array::StringViewArray;
    let texts = [Some("view"), None, Some("views"), Some(""), Some("twelve bytes"), Some("thirteen here")];
    let column_of_texts: ArrayRef = Arc::new(StringViewArray::from(texts.to_vec()));
    // A part of a column, as filters and limits make it.
    let (part, parts) = (column_of_texts.slice(1, 5), &texts[1..]);
    for text in ["view", "views", "", "twelve bytes", "thirteen here", "vie"] {
        for (op, negated) in [(BinaryOp::Eq, false), (BinaryOp::NotEq, true)] {
            let expr = binary(op, column(0), Box::new(Expr::text(text)));
            let result = evaluate(&expr, vec![("t", Arc::clone(&part))]);
            let expected: BooleanArray = parts.iter().map(|of| of.map(|of| (of == text) != negated)).collect();
            assert_eq!(result.as_boolean(), &expected, "{text:?} {op:?}");
        }
    }
}

#[test]
fn floats_are_compared_as_java_compares_them() {
    use arrow::array::Float64Array;
    let left: ArrayRef = Arc::new(Float64Array::from(vec![0.0, f64::NAN, 1.0, f64::NAN]));
    let right: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, f64::NAN, f64::NAN, 1.0]));
    for (op, expected) in [
        (BinaryOp::Eq, [true, false, false, false]),
        (BinaryOp::NotEq, [false, true, true, true]),
        (BinaryOp::Lt, [false; 4]),
        (BinaryOp::GtEq, [true, false, false, false]),
        (BinaryOp::IsDistinctFrom, [false, true, true, true]),
    ] {
        let columns = vec![("l", Arc::clone(&left)), ("r", Arc::clone(&right))];
        let result = evaluate(&binary(op, column(0), column(1)), columns);
        assert_eq!(result.as_boolean(), &BooleanArray::from(expected.to_vec()), "{op:?}");
    }
}

#[test]
fn the_right_operand_is_evaluated_where_the_left_one_does_not_decide() {
    let number = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let columns = || {
        vec![
            ("a", number(vec![Some(10), Some(10), Some(10), None])),
            ("b", number(vec![Some(0), Some(3), None, Some(2)])),
        ]
    };
    let literal = |number: i64| Box::new(Expr::number(number));
    let zero = binary(BinaryOp::Eq, column(1), literal(0));
    let large = binary(BinaryOp::Gt, Box::new(binary(BinaryOp::Divide, column(0), column(1))), literal(2));
    let either = binary(BinaryOp::Or, Box::new(zero.clone()), Box::new(large.clone()));
    let result = evaluate(&either, columns());
    assert_eq!(result.as_boolean(), &BooleanArray::from(vec![Some(true), Some(true), None, None]));
    let both = binary(BinaryOp::And, Box::new(Expr::Not(Box::new(zero))), Box::new(large));
    let result = evaluate(&both, columns());
    assert_eq!(result.as_boolean(), &BooleanArray::from(vec![Some(false), Some(true), None, None]));
}

#[test]
fn the_least_number_cannot_be_negated() {
    let least: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN]));
    let batch = RecordBatch::try_from_iter([("n", least)]).expect("batch");
    let negated = Expr::Negative(column(0));
    let mut compiled = CompiledExpr::new(&negated, &batch.schema(), &Functions::default()).expect("compiles");
    let error = compiled.evaluate(&batch).expect_err("there is no such number").to_string();
    assert!(error.starts_with("-n: a number is out of range"), "{error}");
}

#[test]
fn floats_as_text_are_javas() {
    use arrow::array::Float64Array;
    let values = [1.0, -0.0, 1e7, 123_456.75, 0.001, 0.00012, 1.5e300, f64::NAN, f64::NEG_INFINITY];
    let expected = ["1.0", "-0.0", "1.0E7", "123456.75", "0.001", "1.2E-4", "1.5E300", "NaN", "-Infinity"];
    let values: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
    let text = Expr::Cast { expr: column(0), to: DataType::Utf8View, safe: false };
    let result = evaluate(&text, vec![("x", values)]);
    assert!(result.as_string_view().iter().flatten().eq(expected));
}

#[test]
fn elements_outside_of_a_slice_cannot_make_a_cast_fail() {
    let mut lists = arrow::array::ListBuilder::new(arrow::array::StringViewBuilder::new());
    lists.append_value([Some("no number")]);
    lists.append_value([Some("1"), None]);
    let slice: ArrayRef = Arc::new(lists.finish().slice(1, 1));
    let to = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
    let cast = |to: DataType| Expr::Cast { expr: column(0), to, safe: false };
    let numbers = evaluate(&cast(to), vec![("a", Arc::clone(&slice))]);
    let shown = arrow::util::display::array_value_to_string(&numbers, 0).expect("shown");
    assert_eq!(shown, "[1, ]");
    let text = evaluate(&cast(DataType::Utf8View), vec![("a", slice)]);
    assert_eq!(text.as_string_view().value(0), "[1, NULL]");
}

/// Where a row was made NULL, its elements are still there.
#[test]
fn elements_behind_null_are_not_converted() {
    use arrow::array::{Int32Array, ListArray, StringViewArray};
    use arrow::buffer::{NullBuffer, OffsetBuffer};
    let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["x", "y", "7"]));
    let nulls = NullBuffer::from(vec![false, true]);
    let arrays = ListArray::new(item(DataType::Utf8View), OffsetBuffer::from_lengths([2, 1]), texts, Some(nulls));
    let numbers = Expr::Cast { expr: column(0), to: DataType::List(item(DataType::Int32)), safe: false };
    let result = evaluate(&numbers, vec![("a", Arc::new(arrays))]);
    assert!(result.is_null(0));
    assert_eq!(result.as_list::<i32>().value(1).as_ref(), &Int32Array::from(vec![7]));
}
