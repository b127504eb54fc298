//! Partitions with a time to live, against the rows that each has had since it was last forgotten.

use super::*;
use crate::keyed_state::TimeToLive;

const TTL_MS: i64 = 800;

fn mortal(frame: Frame, time: Option<usize>, disk: Option<usize>, wall_ms: i64) -> Over {
    let spec = OverSpec { time_to_live_ms: Some(TTL_MS), ..spec(frame, time) };
    let mut over = Over::new(&spec, &Functions::default(), &options(disk)).expect("valid");
    over.processing_time(wall_ms).expect("a time");
    over
}

/// The rows of each partition since it was last forgotten, and the time of its last row; rows that wait; the
/// watermark.
#[derive(Clone)]
struct Expected {
    partitions: BTreeMap<Option<&'static str>, (Vec<Row>, i64)>,
    waiting: Vec<Row>,
    watermark: i64,
}

impl Expected {
    fn new() -> Expected {
        Expected { partitions: BTreeMap::new(), waiting: Vec::new(), watermark: i64::MIN }
    }

    /// Returns how many partitions are forgotten.
    fn forget(&mut self, times: &TimeToLive) -> usize {
        let before = self.partitions.len();
        self.partitions.retain(|_, (_, written)| !times.is_over(*written));
        before - self.partitions.len()
    }

    /// The results of rows that are next in their order.
    fn emit(&mut self, rows: &[Row], frame: Frame, now: i64) -> Found {
        for row in rows {
            let partition = self.partitions.entry(row.0).or_default();
            partition.0.push(*row);
            partition.1 = partition.1.max(now);
        }
        let number_of = |row: &Row| rows.iter().any(|of| of.4 == row.4);
        let mut found = Found::new();
        for (of, _) in self.partitions.values() {
            let new = (0..of.len()).filter(|row| number_of(&of[*row]));
            found.extend(new.map(|row| (of[row].4, result(row, of, frame))));
        }
        found
    }

    fn fire(&mut self, watermark: i64, frame: Frame, now: i64) -> Found {
        self.watermark = self.watermark.max(watermark);
        let (mut due, left) =
            std::mem::take(&mut self.waiting).into_iter().partition::<Vec<Row>, _>(|row| row.1 <= Some(self.watermark));
        self.waiting = left;
        due.sort_by_key(|row| row.1);
        self.emit(&due, frame, now)
    }
}

/// Returns how many partitions were forgotten.
fn run(seed: u64, frame: Frame, time: Option<usize>, on_disk: bool) -> usize {
    let mut rng = Rng::new(seed);
    let disk = |rng: &mut Rng| if on_disk { Some([100, 4_000, 20_000][rng.below(3) as usize]) } else { None };
    let (mut wall_ms, mut times) = (10_000, TimeToLive::new(TTL_MS, &options(None)));
    times.advance(wall_ms);
    let (mut bytes, mut files, mut forgotten, mut next) = (disk(&mut rng), Files::default(), 0, 0);
    let (mut over, mut expected) = (mortal(frame, time, bytes, wall_ms), Expected::new());
    let mut then = expected.clone();
    for step in 0..90_i64 {
        let (mut out, mut found) = (Output::default(), Found::new());
        let mut results = Found::new();
        match rng.below(12) {
            0 => {
                files.take(&mut over, rng.below(3) == 0);
                then = expected.clone();
            }
            1 if !files.is_empty() => {
                bytes = disk(&mut rng);
                over = mortal(frame, time, bytes, wall_ms);
                files.restore(&mut over, false, &mut |len| rng.below(len as u64) as usize);
                over.restored(EventTime(then.watermark)).expect("restored");
                if rng.below(2) == 0 {
                    over.goes_on();
                } else {
                    files = Files::default();
                    files.take(&mut over, false);
                }
                expected = then.clone();
                forgotten += expected.forget(&times);
            }
            2 => {
                let mut former = std::mem::replace(&mut over, mortal(frame, time, bytes, wall_ms));
                over.succeed(&mut former).expect("of the same kind");
            }
            3 | 4 => {
                wall_ms += rng.below(900) as i64;
                over.processing_time(wall_ms).expect("a time");
                if times.advance(wall_ms) {
                    forgotten += expected.forget(&times);
                }
            }
            5 | 6 if time.is_some() => {
                let watermark = step * 2 - rng.below(5) as i64;
                fire(&mut over, watermark, &mut found);
                results = expected.fire(watermark, frame, times.current());
            }
            _ => {
                let rows: Vec<Row> = (0..rng.below(6))
                    .map(|_| {
                        next += 1;
                        let at = step * 2 + rng.below(12) as i64;
                        let value = (rng.below(5) > 0).then(|| rng.below(9) as i64);
                        (KEYS[rng.below(4) as usize], Some(at), value, TEXTS[rng.below(4) as usize], next)
                    })
                    .collect();
                over.batch(batch(&rows), &mut out).expect("rows");
                match time {
                    Some(_) => {
                        let watermark = expected.watermark;
                        expected.waiting.extend(rows.into_iter().filter(|row| row.1 > Some(watermark)));
                    }
                    None => results = expected.emit(&rows, frame, times.current()),
                }
            }
        }
        read(&mut out, &mut found);
        assert_eq!(found, results, "seed {seed}, {frame:?}, {bytes:?}, step {step}");
    }
    forgotten
}

#[test]
fn partitions_are_forgotten_and_begin_anew() {
    for (on_disk, seeds) in [(false, 1..=30), (true, 31..=60)] {
        for frame in FRAMES.into_iter().filter(|frame| !frame.ends_by_time()) {
            let by_time: usize = seeds.clone().map(|seed| run(seed, frame, Some(1), on_disk)).sum();
            let as_they_come: usize = match frame {
                Frame::Rows { .. } => seeds.clone().map(|seed| run(seed, frame, None, on_disk)).sum(),
                Frame::Range { .. } => 100,
            };
            assert!(by_time.min(as_they_come) > 60, "{by_time} and {as_they_come} forgotten, {frame:?}");
        }
    }
}

#[test]
fn what_lives_for_a_time_stays_flat() {
    for (frame, disk) in [(FRAMES[1], None), (FRAMES[3], None), (FRAMES[1], Some(20_000)), (FRAMES[3], Some(20_000))] {
        let mut over = mortal(frame, None, disk, 10_000);
        let mut files = Files::default();
        let mut most = [0, 0];
        for step in 0..1200_i64 {
            let name: &'static str = format!("a key that comes once: {step}").leak();
            let rows: Vec<Row> =
                (0..3).map(|row| (Some(name), None, Some(row), TEXTS[row as usize], step * 3 + row)).collect();
            over.batch(batch(&rows), &mut Output::default()).expect("rows");
            over.processing_time(10_000 + step * 20).expect("a time");
            if step % 10 == 0 {
                files.take(&mut over, false);
            }
            let half = usize::from(step >= 600);
            most[half] = over.state.size_bytes().max(most[half]);
        }
        assert!(most[1] <= most[0] * 5 / 4, "{most:?} bytes, {frame:?}, {disk:?}");
        if disk.is_none() {
            assert!(over.state.keys.len() < 300, "{} partitions", over.state.keys.len());
        }
    }
}

#[test]
fn a_checkpoint_goes_on_with_a_time_to_live_or_without() {
    for frame in FRAMES.into_iter().filter(|frame| !frame.ends_by_time()) {
        for disk in [None, Some(4_000)] {
            let (mut over, mut files) = (operator(frame, Some(1), disk), Files::default());
            let mut expected = Expected::new();
            // 0: without a time to live, 1: with one, 2: without again. Nothing is forgotten.
            for (way, first) in [(0, 0), (1, 40), (2, 80)] {
                let rows: Vec<Row> = (first..first + 20)
                    .map(|number| {
                        (KEYS[number as usize % 4], Some(number), Some(number % 7), TEXTS[number as usize % 3], number)
                    })
                    .collect();
                over.batch(batch(&rows), &mut Output::default()).expect("rows");
                expected.waiting.extend(rows);
                let mut found = Found::new();
                fire(&mut over, first + 20, &mut found);
                assert_eq!(found, expected.fire(first + 20, frame, 0), "{frame:?}, {disk:?}, {way}");
                files.take(&mut over, false);
                over = if way == 0 { mortal(frame, Some(1), disk, 10_000) } else { operator(frame, Some(1), disk) };
                files.restore(&mut over, false, &mut |len| len / 2);
                over.restored(EventTime(first + 20)).expect("restored");
                files = Files::default();
                files.take(&mut over, false);
            }
        }
    }
}
