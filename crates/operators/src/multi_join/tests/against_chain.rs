//! The state and the cost of a chain of joins of two streams, for the same rows.

use super::*;
use crate::stream_join::StreamJoin;

/// Two joins of two streams, which give the same rows.
struct Chain {
    first: StreamJoin,
    second: StreamJoin,
}

impl Chain {
    fn new() -> Chain {
        let of = spec(&Way::inner(3, false)).chain.last;
        let first = StreamJoinSpec { left: side(false), output: vec![0, 1, 2, 3, 4, 5], ..of.clone() };
        let join = |spec| StreamJoin::new(spec, &Functions::default(), &options(None)).expect("an operator");
        Chain { first: join(&first), second: join(&of) }
    }

    fn add(&mut self, input: usize, rows: RecordBatch) -> Vec<RecordBatch> {
        if input == 2 {
            return pieces(&mut self.second, 1, rows);
        }
        let pairs = pieces(&mut self.first, input, rows);
        pairs.into_iter().flat_map(|pairs| pieces(&mut self.second, 0, pairs)).collect()
    }
}

/// Rows of the state of an operator.
fn state_rows(join: &mut dyn Operator) -> usize {
    let changes = join.state().expect("state").snapshot(false).expect("a snapshot");
    changes.iter().flat_map(|change| &change.rows).map(RecordBatch::num_rows).sum()
}

fn rows_of(key: i64, numbers: std::ops::Range<i64>) -> RecordBatch {
    let row = |number| ((Some(key), Some(TEXTS[0]), Some(number)), 1);
    batch(&numbers.map(row).collect::<Vec<_>>(), false)
}

/// Many rows of two inputs match each other, and no row of the third one does.
#[test]
fn state_is_as_large_as_the_inputs_where_pairs_are_many() {
    let (mut join, mut chain) = (on(&Way::inner(3, false), None), Chain::new());
    for key in 0..10 {
        for input in [0, 1] {
            assert!(pieces(&mut join, input, rows_of(key, 0..100)).is_empty());
            assert!(chain.add(input, rows_of(key, 0..100)).is_empty());
        }
    }
    assert_eq!(state_rows(&mut join), 2000);
    assert_eq!((state_rows(&mut chain.first), state_rows(&mut chain.second)), (2000, 100_000));
    let (one, of_chain) = (join.tables.size_bytes(), chain.first.size_bytes() + chain.second.size_bytes());
    assert!(one * 20 < of_chain, "{one} and {of_chain} bytes");
}
