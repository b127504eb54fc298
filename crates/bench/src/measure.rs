//! Measures contestants side by side: A B C, A B C, ... so that other load on the machine affects all of them
//! equally. The measure is the processor time of the whole process and of the processes that it has started
//! and that have ended; wall time is shown beside it.
//!
//! Processor time depends on neighbours too: on a shared machine the same instructions take up to twice as
//! long when the core's other half is busy. So contestants are compared within a round, when the machine was
//! in about the same state, and a loop of fixed work in every round shows how much the machine's speed
//! varied.

use std::time::Instant;

use anabranch_model::{Error, HASH_SEED, Result, hash_u64};

use crate::contestant::{Contestant, RunResult};

/// One run.
#[derive(Clone, Copy, Debug)]
struct Sample {
    cpu_s: f64,
    wall_s: f64,
}

/// All runs of all contestants.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    /// In the order of the contestants.
    pub(crate) measurements: Vec<Measurement>,
    /// Processor time of the slowest round's fixed work over that of the fastest: 1 on a quiet machine.
    pub(crate) machine_spread: f64,
}

/// All runs of one contestant.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// Name of the contestant.
    pub(crate) name: String,
    /// The result of each run.
    pub(crate) result: RunResult,
    samples: Vec<Sample>,
}

impl Measurement {
    /// Processor seconds per million records, median of the runs.
    pub(crate) fn cpu_s_per_million_median(&self) -> f64 {
        self.per_million(median(self.samples.iter().map(|sample| sample.cpu_s)))
    }

    /// Processor seconds per million records, best of the runs.
    pub(crate) fn cpu_s_per_million_min(&self) -> f64 {
        self.per_million(self.samples.iter().map(|sample| sample.cpu_s).fold(f64::INFINITY, f64::min))
    }

    /// Processor time over that of `other`, median of the rounds.
    pub(crate) fn cpu_ratio_median(&self, other: &Measurement) -> f64 {
        median(self.samples.iter().zip(&other.samples).map(|(sample, other)| sample.cpu_s / other.cpu_s))
    }

    /// Records per second of wall time, median of the runs.
    pub(crate) fn events_per_s(&self) -> f64 {
        self.result.events as f64 / median(self.samples.iter().map(|sample| sample.wall_s))
    }

    /// A measurement with these processor times, each of them the wall time too.
    #[cfg(test)]
    pub(crate) fn of(name: &str, result: RunResult, cpu_s: &[f64]) -> Self {
        let samples = cpu_s.iter().map(|s| Sample { cpu_s: *s, wall_s: *s }).collect();
        Measurement { name: name.into(), result, samples }
    }

    fn per_million(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.result.events as f64
    }
}

/// Runs every contestant once unmeasured and then `repetitions` times, alternating. Fails if answers differ.
pub(crate) fn measure(contestants: &mut [Contestant], repetitions: u32) -> Result<Comparison> {
    let mut measurements: Vec<Measurement> = Vec::with_capacity(contestants.len());
    for contestant in contestants.iter_mut() {
        let name = contestant.name.clone();
        let result = contestant.run().map_err(|error| error.at(name.clone()))?;
        measurements.push(Measurement { name, result, samples: Vec::new() });
    }
    check_agreement(&measurements)?;
    let (mut slowest_s, mut fastest_s) = (0.0_f64, f64::INFINITY);
    for _ in 0..repetitions {
        let fixed_s = fixed_work_cpu_s()?;
        (slowest_s, fastest_s) = (slowest_s.max(fixed_s), fastest_s.min(fixed_s));
        for (contestant, measurement) in contestants.iter_mut().zip(&mut measurements) {
            let (wall, cpu_before_s) = (Instant::now(), used_cpu_s()?);
            let result = contestant.run().map_err(|error| error.at(measurement.name.clone()))?;
            let sample = Sample { cpu_s: used_cpu_s()? - cpu_before_s, wall_s: wall.elapsed().as_secs_f64() };
            if result != measurement.result {
                return Err(Error::internal(format!("one run gave {:?}, another {result:?}", measurement.result))
                    .at(measurement.name.clone()));
            }
            measurement.samples.push(sample);
        }
    }
    Ok(Comparison { measurements, machine_spread: slowest_s / fastest_s })
}

/// Processor time of a loop that depends only on the core's speed: some milliseconds.
fn fixed_work_cpu_s() -> Result<f64> {
    let before_s = process_cpu_s()?;
    std::hint::black_box((0..2_000_000).fold(HASH_SEED, hash_u64));
    Ok(process_cpu_s()? - before_s)
}

fn check_agreement(measurements: &[Measurement]) -> Result<()> {
    let mut answered: Option<&Measurement> = None;
    for measurement in measurements {
        if measurement.result.events != measurements[0].result.events {
            return Err(disagreement(&measurements[0], measurement));
        }
        if measurement.result.result_hash.is_some() {
            let first = *answered.get_or_insert(measurement);
            if first.result.result_hash != measurement.result.result_hash {
                return Err(disagreement(first, measurement));
            }
        }
    }
    Ok(())
}

fn disagreement(a: &Measurement, b: &Measurement) -> Error {
    Error::internal(format!("'{}' gives {:?}, '{}' gives {:?}", a.name, a.result, b.name, b.result))
        .remedy("one of the two programs is wrong: compare their answers row by row on a small workload")
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Processor time used so far by this process, and by those of its children that have ended.
fn used_cpu_s() -> Result<f64> {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place to write to, and the call keeps no reference to it.
    let status = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    if status != 0 {
        return Err(Error::outside(format!("processor time of children: {}", std::io::Error::last_os_error())));
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(process_cpu_s()? + seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

/// Processor time used so far by all threads of this process.
pub(crate) fn process_cpu_s() -> Result<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write a timespec to, and the call keeps no reference to it.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    if status != 0 {
        return Err(Error::outside(format!("processor time: {}", std::io::Error::last_os_error())));
    }
    Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::program;

    fn gives(name: &str, events: u64, result_hash: Option<u64>) -> Contestant {
        program(name, move || Ok(RunResult { events, result_hash }))
    }

    #[test]
    fn answers_must_agree_and_parts_need_none() {
        let agree = measure(&mut [gives("scan", 5, None), gives("a", 5, Some(1)), gives("b", 5, Some(1))], 3).unwrap();
        assert!(agree.measurements.iter().all(|m| m.samples.len() == 3));
        assert!(agree.machine_spread >= 1.0);
        for b in [gives("b", 5, Some(2)), gives("b", 6, Some(1))] {
            let error = measure(&mut [gives("scan", 5, None), gives("a", 5, Some(1)), b], 1).unwrap_err().to_string();
            assert!(error.contains("'b' gives"), "{error}");
        }
    }

    #[test]
    fn an_answer_that_changes_between_runs_is_refused() {
        let mut run = 0;
        let changing = program("changing", move || {
            run += 1;
            Ok(RunResult { events: 1, result_hash: Some(run / 3) })
        });
        assert!(measure(&mut [changing], 3).unwrap_err().to_string().starts_with("changing: "));
    }

    #[test]
    fn ratios_compare_runs_of_the_same_round() {
        let result = RunResult { events: 1, result_hash: None };
        // The machine ran at half speed in the second and third round.
        let a = Measurement::of("a", result, &[1.0, 2.0, 2.0]);
        let b = Measurement::of("b", result, &[3.0, 6.0, 6.0]);
        assert_eq!((b.cpu_ratio_median(&a), a.cpu_ratio_median(&a)), (3.0, 1.0));
    }

    #[test]
    fn contestants_take_turns() {
        let order = std::rc::Rc::new(std::cell::RefCell::new(String::new()));
        let mut contestants: Vec<_> = ["a", "b"]
            .map(|name| {
                let order = order.clone();
                program(name, move || {
                    order.borrow_mut().push_str(name);
                    Ok(RunResult { events: 1, result_hash: None })
                })
            })
            .into();
        measure(&mut contestants, 2).unwrap();
        assert_eq!(*order.borrow(), "ababab");
    }

    #[test]
    fn medians_and_work_done_on_other_threads() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        let before_s = process_cpu_s().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..3_000_000_u64).map(std::hint::black_box).sum::<u64>());
        });
        assert!(process_cpu_s().unwrap() > before_s + 0.001);
    }

    #[test]
    fn children_count_when_they_have_ended() {
        let before_s = used_cpu_s().unwrap() - process_cpu_s().unwrap();
        let status =
            std::process::Command::new("sh").args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]).status();
        assert!(status.unwrap().success());
        assert!(used_cpu_s().unwrap() - process_cpu_s().unwrap() > before_s);
    }
}
