//! The rows that leave against the first ones of all, with snapshots and restored operators.

use anabranch_model::Rng;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;

use super::*;
use crate::Element;
use crate::keyed_state::files::Files;

fn run(seed: u64, spec: LimitSpec) {
    let mut rng = Rng::new(seed);
    let (mut limit, mut files) = (Limit::new(spec), Files::default());
    let (mut next, mut found) = (0_i64, Vec::new());
    for _ in 0..30 {
        let numbers: Int64Array = (next..next + rng.below(4) as i64).collect();
        next += numbers.len() as i64;
        let schema = Arc::new(Schema::new(vec![number("n")]));
        let mut out = Output::default();
        limit.batch(RecordBatch::try_new(schema, vec![Arc::new(numbers)]).expect("a batch"), &mut out).expect("rows");
        for element in out.drain() {
            let Element::Batch(rows) = element else { continue };
            found.extend_from_slice(rows.column(0).as_primitive::<Int64Type>().values());
        }
        if rng.below(2) > 0 {
            continue;
        }
        files.take(&mut limit, rng.below(3) == 0);
        match rng.below(3) {
            0 => {
                limit = Limit::new(spec);
                files.restore(&mut limit, false, &mut |len| rng.below(len as u64) as usize);
                limit.restored(EventTime::MIN).expect("restored");
                if rng.below(2) == 0 {
                    limit.goes_on();
                } else {
                    files = Files::default();
                    files.take(&mut limit, false);
                }
            }
            1 => {
                let mut former = std::mem::replace(&mut limit, Limit::new(spec));
                limit.succeed(&mut former).expect("of the same kind");
            }
            _ => {}
        }
    }
    let LimitSpec { skip, fetch } = spec;
    let expected: Vec<i64> = (0..next).skip(skip as usize).take(usize::try_from(fetch).unwrap_or(usize::MAX)).collect();
    assert_eq!(found, expected, "seed {seed}, {spec}");
}

#[test]
fn the_first_rows_leave_and_no_others() {
    for seed in 1..=30 {
        for (skip, fetch) in [(0, 1), (0, 10), (3, 5), (20, 1000), (1000, 1), (2, u64::MAX)] {
            run(seed, LimitSpec { skip, fetch });
        }
    }
}

#[test]
fn once_all_rows_have_left_snapshots_have_nothing_new() {
    let mut limit = Limit::new(LimitSpec { skip: 0, fetch: 2 });
    for (step, rows) in [1, 1, 0, 0].into_iter().enumerate() {
        let schema = Arc::new(Schema::new(vec![number("n")]));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![0; 1]))]).expect("a batch");
        limit.batch(batch, &mut Output::default()).expect("rows");
        let change = limit.snapshot(false).expect("a snapshot").remove(0);
        assert_eq!(change.rows.iter().map(RecordBatch::num_rows).sum::<usize>(), rows, "step {step}");
    }
}
