//! Rows with a time to live: an arriving row is paired with the rows that are present.

use super::*;
use crate::keyed_state::TimeToLive;

const TTL_MS: [i64; 2] = [800, 1_600];

fn operator(way: Way, disk_bytes: Option<usize>, wall_ms: i64) -> StreamJoin {
    let spec = spec(way);
    let side = |side: StreamSideSpec, ms| StreamSideSpec { time_to_live_ms: Some(ms), ..side };
    let spec = StreamJoinSpec { left: side(spec.left, TTL_MS[0]), right: side(spec.right, TTL_MS[1]), ..spec };
    let mut join = StreamJoin::new(&spec, &Functions::default(), &options(disk_bytes)).expect("an operator");
    join.processing_time(wall_ms).expect("a time");
    join
}

/// A present row, its count, and the time of its last arrival.
type Kept = (Row, i64, i64);

fn forget(kept: &mut [Vec<Kept>; 2], times: &[TimeToLive; 2]) -> usize {
    let before = kept[0].len() + kept[1].len();
    for (side, times) in kept.iter_mut().zip(times) {
        side.retain(|(.., time)| !times.is_over(*time));
    }
    before - kept[0].len() - kept[1].len()
}

/// The rows of a batch, some of which retract present rows.
fn drawn(kept: &[Kept], updating: bool, below: &mut impl FnMut(usize) -> usize) -> Vec<(Row, i64)> {
    let mut of_batch: Vec<(Row, i64)> = Vec::new();
    for _ in 0..below(6) {
        let gone = below(kept.len().max(1));
        let mut some = |end: usize| Some(below(end)).filter(|_| below(9) > 0);
        let row = (some(6).map(|k| k as i64), some(3).map(|t| TEXTS[t]), some(3).map(|n| n as i64));
        let taken = |(row, weight, _): &&Kept| {
            let of_row = of_batch.iter().filter(|(other, _)| other == row);
            weight + of_row.map(|(_, weight)| weight).sum::<i64>() > 0
        };
        match kept.get(gone).filter(taken).filter(|_| updating && below(5) < 2) {
            Some((row, ..)) => of_batch.push((*row, -1)),
            None => of_batch.push((row, 1)),
        }
    }
    of_batch
}

/// Returns how many rows were forgotten.
fn run(seed: u64, disk_bytes: Option<usize>) -> usize {
    let mut rng = Rng::new(seed);
    let mut below = |end: usize| rng.below(end as u64) as usize;
    let updating = [below(2) == 0, below(2) == 0];
    let way = Way { kind: StreamJoinKind::Inner, filter: below(2) == 0, nulls_equal: below(4) == 0, updating };
    let (mut wall_ms, mut times) = (10_000, TTL_MS.map(|ms| TimeToLive::new(ms, &options(None))));
    times.iter_mut().for_each(|times| _ = times.advance(wall_ms));
    let mut now = operator(way, disk_bytes, wall_ms);
    let (mut integral, mut expected) = (BTreeMap::new(), BTreeMap::<String, i64>::new());
    let (mut kept, mut files, mut forgotten) = ([Vec::<Kept>::new(), Vec::new()], Files::default(), 0);
    let mut then = (kept.clone(), integral.clone(), expected.clone());
    for _ in 0..80 {
        match below(10) {
            0 => {
                files.take(&mut now, below(2) == 0);
                then = (kept.clone(), integral.clone(), expected.clone());
            }
            1 if !files.is_empty() => {
                now = operator(way, disk_bytes, wall_ms);
                let goes_on = below(2) == 0;
                files.restore(&mut now, goes_on, &mut below);
                (kept, integral, expected) = then.clone();
                forgotten += forget(&mut kept, &times);
            }
            2 | 3 => {
                wall_ms += below(900) as i64;
                now.processing_time(wall_ms).expect("a time");
                // Both sides are looked through when it is time for one of them.
                if times.iter_mut().fold(false, |is_time, times| times.advance(wall_ms) | is_time) {
                    forgotten += forget(&mut kept, &times);
                }
            }
            _ => {
                let side = below(2);
                let of_batch = drawn(&kept[side], updating[side], &mut below);
                let current = times[side].current();
                for (row, weight) in &of_batch {
                    for (other, copies, _) in &kept[1 - side] {
                        let (l, r) = if side == 0 { (row, other) } else { (other, row) };
                        for (pair, one) in results(way, &[*l], &[*r]) {
                            *expected.entry(pair).or_default() += weight * copies * one;
                        }
                    }
                    // A row that may be retracted is present once.
                    match kept[side].iter_mut().find(|(other, ..)| updating[side] && other == row) {
                        Some((_, copies, time)) => (*copies, *time) = (*copies + weight, current),
                        // Only rows with a key are kept.
                        None if row.0.is_some() || way.nulls_equal => kept[side].push((*row, *weight, current)),
                        None => {}
                    }
                }
                expected.retain(|_, weight| *weight != 0);
                kept[side].retain(|(_, copies, _)| *copies != 0);
                add(&mut integral, &mut now, side, batch(&of_batch, updating[side]));
            }
        }
        assert_eq!(integral, expected, "seed {seed}, {way:?}, {disk_bytes:?}");
    }
    forgotten
}

#[test]
fn rows_are_forgotten_after_their_time() {
    let forgotten: usize = (1..=120).map(|seed| run(seed, None)).sum();
    assert!(forgotten > 1_200, "{forgotten}");
}

#[test]
fn rows_on_disk_are_forgotten_too() {
    (1..=60).for_each(|seed| _ = run(seed, Some([1_000, 40_000, 1 << 30][seed as usize % 3])));
}

/// A retracted row retracts its pairs if the rows of these pairs are still present.
#[test]
fn a_forgotten_row_that_is_taken_back_takes_its_pairs_back() {
    let way = Way { kind: StreamJoinKind::Left, filter: false, nulls_equal: false, updating: [true, true] };
    let mut join = operator(way, None, 10_000);
    let (left, right, mut integral) = ((Some(1), Some("a"), Some(1)), (Some(1), Some("b"), Some(2)), BTreeMap::new());
    add(&mut integral, &mut join, 0, batch(&[(left, 1)], true));
    add(&mut integral, &mut join, 1, batch(&[(right, 1)], true));
    let pair = integral.clone();
    assert_eq!(pair, results(way, &[left], &[right]));
    join.processing_time(13_000).expect("a time");
    assert_eq!((join.side(JoinSide::Left).live, join.side(JoinSide::Right).live), (0, 1));
    add(&mut integral, &mut join, 0, batch(&[(left, -1)], true));
    assert_eq!(integral, BTreeMap::new());
    add(&mut integral, &mut join, 0, batch(&[(left, 1)], true));
    assert_eq!(integral, pair, "it does not count less than once");
}
