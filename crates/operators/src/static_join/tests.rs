//! Every kind of join against nested loops.

use anabranch_dataflow::{BinaryOp, Expr};
use anabranch_model::Rng;
use arrow::array::{AsArray, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type};

use super::*;
use crate::Element;

type Row = (Option<String>, i64);

fn side(prefix: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new(format!("{prefix}_key"), DataType::Utf8View, true),
        Field::new(format!("{prefix}_n"), DataType::Int64, false),
    ]))
}

fn batch(schema: &SchemaRef, rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.0.clone()).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|r| Some(r.1)).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns).expect("batch")
}

/// Texts of a form: that begin alike, that begin differently, that are short.
fn text(form: u64, key: u64) -> String {
    match form % 3 {
        0 => format!("a key of some length {key}"),
        1 => format!("{key:04}: a key of some length"),
        _ => format!("key {key}"),
    }
}

fn rows(rng: &mut Rng, form: u64, count: u64, keys: u64) -> Vec<Row> {
    let row = |rng: &mut Rng| {
        let key = rng.below(keys);
        ((key != 2).then(|| text(form, key)), rng.below(50) as i64)
    };
    (0..count).map(|_| row(rng)).collect()
}

/// The definition: pairs with equal, non-null keys that satisfy the filter.
fn expected(kind: JoinKind, probe: &[Row], build: &[Row], filtered: bool) -> Vec<(i64, Option<i64>)> {
    let mut joined = Vec::new();
    for left in probe {
        let matches: Vec<i64> = build
            .iter()
            .filter(|right| left.0.is_some() && left.0 == right.0 && (!filtered || left.1 < right.1))
            .map(|right| right.1)
            .collect();
        match kind {
            JoinKind::LeftSemi if !matches.is_empty() => joined.push((left.1, None)),
            JoinKind::LeftAnti if matches.is_empty() => joined.push((left.1, None)),
            JoinKind::LeftSemi | JoinKind::LeftAnti => {}
            JoinKind::Left if matches.is_empty() => joined.push((left.1, None)),
            _ => joined.extend(matches.into_iter().map(|n| (left.1, Some(n)))),
        }
    }
    joined
}

fn check(seed: u64, kind: JoinKind, unique: bool, filtered: bool) {
    let mut rng = Rng::new(seed);
    let one_sided = matches!(kind, JoinKind::LeftSemi | JoinKind::LeftAnti);
    let less =
        |l, r| Expr::Binary { op: BinaryOp::Lt, left: Box::new(Expr::Column(l)), right: Box::new(Expr::Column(r)) };
    let spec = StaticJoinSpec {
        kind,
        probe_keys: vec![Expr::Column(0)],
        build_keys: vec![Expr::Column(0)],
        filter: filtered.then(|| less(1, 3)),
        probe_schema: side("probe"),
        build_schema: side("build"),
        output: if one_sided { vec![1] } else { vec![1, 3] },
    };
    let mut build = rows(&mut rng, seed, 200, 60);
    if unique {
        build.sort();
        build.dedup_by(|a, b| a.0 == b.0);
    }
    let mut join = StaticJoin::new(&spec, &Functions::default(), usize::MAX).expect("valid");
    for chunk in build.chunks(70) {
        join.side_batch(batch(&side("build"), chunk)).expect("side");
    }
    join.side_end().expect("side end");
    for _ in 0..5 {
        let probe = rows(&mut rng, seed, 100, 90);
        let mut out = Output::default();
        join.batch(batch(&side("probe"), &probe), &mut out).expect("join");
        let mut joined = Vec::new();
        for element in out.drain() {
            let Element::Batch(batch) = element else { continue };
            assert_eq!(batch.schema(), *join.schema());
            let left = batch.column(0).as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                let right = (!one_sided).then(|| batch.column(1).as_primitive::<Int64Type>());
                let right = right.filter(|r| r.is_valid(row)).map(|r| r.value(row));
                joined.push((left.value(row), right));
            }
        }
        let expected = expected(kind, &probe, &build, filtered);
        assert_eq!(joined, expected, "seed {seed} {kind:?} unique {unique} filtered {filtered}");
    }
}

#[test]
fn equals_nested_loops_for_every_kind() {
    for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::LeftSemi, JoinKind::LeftAnti] {
        for (unique, filtered) in [(false, false), (true, false), (false, true), (true, true)] {
            for seed in 0..6 {
                check(seed, kind, unique, filtered);
            }
        }
    }
}

#[test]
fn a_join_goes_on_with_the_static_side_of_another_one() {
    let spec = |kind| StaticJoinSpec {
        kind,
        probe_keys: vec![Expr::Column(0)],
        build_keys: vec![Expr::Column(0)],
        filter: None,
        probe_schema: side("probe"),
        build_schema: side("build"),
        output: vec![1, 3],
    };
    let join = |kind| StaticJoin::new(&spec(kind), &Functions::default(), usize::MAX).expect("valid");
    let mut former = join(JoinKind::Inner);
    former.side_batch(batch(&side("build"), &[(Some("a".into()), 7)])).expect("side");
    assert!(former.static_side().is_none(), "it is not complete");
    former.side_end().expect("side end");
    let mut next = join(JoinKind::Left);
    next.take_static_side(former.static_side().expect("complete")).expect("the same table");
    let mut out = Output::default();
    next.batch(batch(&side("probe"), &[(Some("a".into()), 1), (Some("b".into()), 2)]), &mut out).expect("join");
    let Some(Element::Batch(joined)) = out.drain().next() else { panic!("no rows") };
    assert_eq!(joined.column(1).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(7), None]);
    let mut other = StaticJoinSpec { build_schema: side("other"), ..spec(JoinKind::Inner) };
    other.output = vec![1];
    let mut other = StaticJoin::new(&other, &Functions::default(), usize::MAX).expect("valid");
    assert!(other.take_static_side(next.static_side().expect("complete")).is_err());
}

#[test]
fn an_empty_table_matches_nothing() {
    for (kind, rows_out) in
        [(JoinKind::Inner, 0), (JoinKind::Left, 2), (JoinKind::LeftSemi, 0), (JoinKind::LeftAnti, 2)]
    {
        let spec = StaticJoinSpec {
            kind,
            probe_keys: vec![Expr::Column(0)],
            build_keys: vec![Expr::Column(0)],
            filter: None,
            probe_schema: side("probe"),
            build_schema: side("build"),
            output: vec![1],
        };
        let mut join = StaticJoin::new(&spec, &Functions::default(), usize::MAX).expect("valid");
        join.side_end().expect("side end");
        let mut out = Output::default();
        join.batch(batch(&side("probe"), &[(Some("a".into()), 1), (None, 2)]), &mut out).expect("join");
        let rows: usize = out.drain().map(|e| if let Element::Batch(b) = e { b.num_rows() } else { 0 }).sum();
        assert_eq!(rows, rows_out, "{kind:?}");
    }
}

#[test]
fn many_matches_leave_in_pieces() {
    let spec = StaticJoinSpec {
        kind: JoinKind::Left,
        probe_keys: vec![Expr::Column(0)],
        build_keys: vec![Expr::Column(0)],
        filter: None,
        probe_schema: side("probe"),
        build_schema: side("build"),
        output: vec![1, 3],
    };
    let mut join = StaticJoin::new(&spec, &Functions::default(), usize::MAX).expect("valid");
    let build: Vec<_> = (0..5000).map(|i| (Some("a".into()), i)).collect();
    join.side_batch(batch(&side("build"), &build)).expect("side");
    join.side_end().expect("side end");
    let probe: Vec<_> = (0..100).map(|i| ((i % 10 > 0).then(|| "a".into()), i)).collect();
    let mut out = Output::default();
    join.batch(batch(&side("probe"), &probe), &mut out).expect("join");
    let mut sizes = Vec::new();
    loop {
        let pieces: Vec<_> = out.drain().map(|e| if let Element::Batch(b) = e { b.num_rows() } else { 0 }).collect();
        assert!(pieces.len() <= 1, "a piece passes before the next one is made");
        sizes.extend(pieces);
        if !join.more(&mut out).expect("more") {
            break;
        }
    }
    assert_eq!(sizes.iter().sum::<usize>(), 90 * 5000 + 10);
    assert!(sizes.iter().all(|rows| *rows <= RESULT_ROWS), "{sizes:?}");
}

#[test]
fn a_table_beyond_the_bound_stops_the_job_with_a_remedy() {
    let spec = StaticJoinSpec {
        kind: JoinKind::Inner,
        probe_keys: vec![Expr::Column(0)],
        build_keys: vec![Expr::Column(0)],
        filter: None,
        probe_schema: side("probe"),
        build_schema: side("build"),
        output: vec![1, 3],
    };
    let mut join = StaticJoin::new(&spec, &Functions::default(), 10_000).expect("valid");
    let build: Vec<_> = (0..100).map(|i| (Some("a".into()), i)).collect();
    let error = (0..100).find_map(|_| join.side_batch(batch(&side("build"), &build)).err()).expect("the bound is kept");
    assert!(error.to_string().contains("state-bytes"), "{error}");
}

#[test]
fn equal_texts_of_the_static_side_are_stored_once_if_many_are_equal() {
    let column = |texts: &dyn Fn(usize) -> Option<String>| -> ArrayRef {
        Arc::new((0..10_000).map(texts).collect::<StringViewArray>())
    };
    let repeated = column(&|row| (row % 7 != 0).then(|| format!("one of a hundred campaigns: {}", row % 100)));
    let once = with_equal_texts_once(&repeated);
    assert_eq!(&once, &repeated);
    let views = once.as_string_view().views();
    assert!(
        (100..9_900)
            .filter(|row| once.is_valid(row % 100) && once.is_valid(*row))
            .all(|row| views[row] == views[row % 100])
    );
    assert!(once.get_array_memory_size() < repeated.get_array_memory_size());
    for others in [column(&|row| Some(format!("an identifier of its own: {row}"))), Arc::new(Int64Array::from(vec![1]))]
    {
        assert!(Arc::ptr_eq(&with_equal_texts_once(&others), &others));
    }
}
