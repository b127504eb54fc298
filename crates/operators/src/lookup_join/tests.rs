//! The join against nested loops, with answers that come late.

use std::sync::Mutex;

use anabranch_dataflow::{
    BinaryOp, ConnectorSpec, Expr, JoinKind, LookupCache, LookupKey, OperatorSpec, SourceSpec, StaticJoinSpec,
};
use arrow::array::{AsArray, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Int64Type};

use super::*;

/// Keys, and the rows that they wait for.
type Asked = (Vec<i64>, Arc<PendingRows>);

/// A table that answers when it is told to.
#[derive(Clone, Default)]
struct Table {
    rows: Vec<(i64, &'static str)>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Lookup for Table {
    fn request(&mut self, keys: &RecordBatch) -> Result<Arc<PendingRows>> {
        let answer = Arc::<PendingRows>::default();
        let keys = keys.column(0).as_primitive::<Int64Type>();
        assert_eq!(keys.null_count(), 0);
        self.asked.lock().expect("the test asks").push((keys.values().to_vec(), Arc::clone(&answer)));
        Ok(answer)
    }
}

impl Table {
    fn rows(&self, of: impl Fn(i64) -> bool) -> Arc<RecordBatch> {
        let rows: Vec<_> = self.rows.iter().filter(|row| of(row.0)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| Some(row.0)).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| Some(row.1)).collect::<StringViewArray>()),
        ];
        Arc::new(RecordBatch::try_new(declared(), columns).expect("rows"))
    }

    /// Answers the request with this index.
    fn answer(&self, place: usize) {
        let (keys, answer) = self.asked.lock().expect("the test asks")[place].clone();
        answer.complete(Ok(self.rows(|key| keys.contains(&key))));
    }

    /// The index of the last request.
    fn asked(&self) -> usize {
        self.asked.lock().expect("the test asks").len() - 1
    }

    fn keys(&self, place: usize) -> Vec<i64> {
        self.asked.lock().expect("the test asks")[place].0.clone()
    }
}

fn declared() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("name", DataType::Utf8View, true)]))
}

/// Rows (key, number), joined with (id, name) by key = id, of names that are not 'hidden'.
fn join(kind: JoinKind, table: &Table) -> LookupJoin {
    let probe_schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, true),
        Field::new("number", DataType::Int64, false),
    ]));
    let predicate =
        Expr::Binary { op: BinaryOp::NotEq, left: Box::new(Expr::Column(1)), right: Box::new(Expr::text("hidden")) };
    let spec = LookupJoinSpec {
        join: StaticJoinSpec {
            kind,
            probe_keys: vec![Expr::Column(0)],
            build_keys: vec![Expr::Column(0)],
            filter: None,
            probe_schema,
            build_schema: declared(),
            output: vec![1, 3],
        },
        table: SourceSpec::new("t", ConnectorSpec::new("x", &[]), declared()),
        operators: vec![OperatorSpec::Filter { predicate, keep: None }],
        keys: vec![LookupKey { column: 0, key: 0 }],
        cache: LookupCache::None,
        max_retries: 0,
    };
    let mut join = LookupJoin::new(&spec, &Functions::default(), &JobOptions::default()).expect("a join");
    join.take_lookup(Box::new(table.clone())).expect("a table");
    join
}

fn batch(rows: &[(Option<i64>, i64)]) -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("key", Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>())),
        ("number", Arc::new(rows.iter().map(|row| Some(row.1)).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter(columns).expect("a batch")
}

fn joined(join: &mut LookupJoin, rows: RecordBatch) -> Vec<(i64, Option<String>)> {
    let mut out = Output::default();
    join.batch(rows, &mut out).expect("joined");
    let mut all = Vec::new();
    for element in out.drain() {
        let Element::Batch(batch) = element else { panic!("a watermark") };
        let names = batch.column(1).as_string_view().iter().map(|name| name.map(str::to_owned));
        all.extend(batch.column(0).as_primitive::<Int64Type>().values().iter().copied().zip(names));
    }
    all
}

fn named(number: i64, name: &str) -> (i64, Option<String>) {
    (number, Some(name.to_owned()))
}

#[test]
fn rows_keep_their_order_whichever_answer_comes_first() {
    let rows = vec![(1, "a"), (1, "a name that is longer than a view"), (2, "b"), (3, "hidden"), (4, "d")];
    let table = Table { rows, ..Table::default() };
    let mut join = join(JoinKind::Left, &table);
    let first = batch(&[(Some(2), 10), (Some(1), 11), (None, 12), (Some(2), 13), (Some(3), 14), (Some(9), 15)]);
    let second = batch(&[(Some(4), 20)]);
    join.request(&first).expect("asked");
    join.request(&second).expect("asked");
    assert_eq!((table.keys(0), table.keys(1)), (vec![2, 1, 3, 9], vec![4]), "each key once, and no NULL");
    assert!(!join.is_answered());
    table.answer(1);
    assert!(!join.is_answered(), "the first rows wait for theirs");
    table.answer(0);
    assert!(join.is_answered());
    let expected = [
        named(10, "b"),
        named(11, "a"),
        named(11, "a name that is longer than a view"),
        (12, None),
        named(13, "b"),
        (14, None),
        (15, None),
    ];
    assert_eq!(joined(&mut join, first), expected);
    assert!(join.is_answered());
    assert_eq!(joined(&mut join, second), [named(20, "d")]);
}

#[test]
fn rows_whose_keys_are_null_are_not_asked_for_and_find_nothing() {
    let table = Table { rows: vec![(1, "a")], ..Table::default() };
    let mut join = join(JoinKind::Inner, &table);
    let rows = batch(&[(None, 1), (None, 2)]);
    for _ in 0..2 {
        join.request(&rows).expect("asked");
        assert!(join.is_answered() && joined(&mut join, rows.clone()).is_empty());
        join.request(&batch(&[(Some(1), 3)])).expect("asked");
        table.answer(table.asked());
        assert_eq!(joined(&mut join, batch(&[(Some(1), 3)])), [named(3, "a")]);
    }
    assert_eq!(table.asked(), 1);
}

/// A table that is cached as a whole answers with the same rows until it is read again.
#[test]
fn an_answer_with_other_rows_too_is_joined_by_the_keys() {
    let mut table = Table { rows: vec![(1, "a"), (2, "b")], ..Table::default() };
    let mut join = join(JoinKind::Inner, &table);
    let whole = table.rows(|_| true);
    table.rows = vec![(1, "c")];
    let later = table.rows(|_| true);
    for (rows, expected) in [(&whole, "a"), (&whole, "a"), (&later, "c")] {
        let asked = batch(&[(Some(1), 7)]);
        join.request(&asked).expect("asked");
        let (_, answer) = table.asked.lock().expect("the test asks").pop().expect("one");
        answer.complete(Ok(Arc::clone(rows)));
        assert_eq!(joined(&mut join, asked), [named(7, expected)]);
    }
}

#[test]
fn a_table_that_fails_fails_the_rows_that_wait_for_it() {
    let table = Table::default();
    let mut join = join(JoinKind::Left, &table);
    let rows = batch(&[(Some(1), 7)]);
    join.request(&rows).expect("asked");
    let (_, answer) = table.asked.lock().expect("the test asks").pop().expect("one");
    answer.complete(Err(Error::outside("it is gone")));
    let error = join.batch(rows, &mut Output::default()).expect_err("no rows").to_string();
    assert!(error.contains("it is gone"), "{error}");
}
