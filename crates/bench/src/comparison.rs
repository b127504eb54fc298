//! Which programs are compared for which workload.

pub(crate) mod changes;
pub(crate) mod cluster;
pub(crate) mod coordination;
pub(crate) mod kafka;
pub(crate) mod kills;
pub(crate) mod moves;
pub(crate) mod network;
pub(crate) mod shapes;
pub(crate) mod state;
pub(crate) mod workers;

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{LatencySummary, Result};

use crate::contestant::{Contestant, RunResult, program};
use crate::limit::json::FieldScan;
use crate::measure::{Measurement, measure};
use crate::report::{Section, Table};
use crate::workload::{AdEvents, Keys, LogLines, PATTERN};
use crate::{engine, limit, peer, pingpong};

/// Tasks per stage where only one parallelism is measured.
const PARALLELISM: u32 = 2;

/// Sizes of workloads and number of runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Events of the main job; lines of grep.
    pub(crate) events: u64,
    /// Keys of the keyed count.
    pub(crate) keys: u64,
    /// The larger number of distinct keys.
    pub(crate) distinct_keys: u64,
    /// Rounds of the noise floor.
    pub(crate) rounds: u32,
    /// How often a workload is read in one run where checkpoints are measured.
    pub(crate) repeat: u64,
    /// Measured runs of each program.
    pub(crate) repetitions: u32,
    /// How long each latency is measured.
    pub(crate) latency_duration: Duration,
    /// Seed of the workloads.
    pub(crate) seed: u64,
}

impl Scale {
    /// The scale of published results: about a minute. Runs are short and many, because the machine's speed
    /// varies.
    pub(crate) fn full(seed: u64) -> Self {
        Scale {
            events: 2_000_000,
            keys: 10_000_000,
            distinct_keys: 1_000_000,
            rounds: 50_000,
            repeat: 30,
            repetitions: 15,
            latency_duration: Duration::from_secs(6),
            seed,
        }
    }

    /// A quick run of some seconds.
    pub(crate) fn quick(seed: u64) -> Self {
        Scale {
            events: 100_000,
            keys: 2_000_000,
            rounds: 5_000,
            repeat: 10,
            repetitions: 3,
            latency_duration: Duration::from_millis(1500),
            ..Scale::full(seed)
        }
    }
}

/// The main job over JSON text.
pub(crate) fn main_job(scale: Scale) -> Result<Section> {
    let events = Arc::new(AdEvents::generate(scale.events, scale.seed)?);
    let shared = || Arc::clone(&events);
    let (serde, sonic, fields, scan, cut) = (shared(), shared(), shared(), shared(), shared());
    let mut contestants = vec![
        program("limit: by hand, serde_json", move || limit::main_job::main_job(&serde, limit::json::serde_json)),
        program("limit: by hand, sonic-rs", move || limit::main_job::main_job(&sonic, limit::json::sonic)),
        program("floor: fields by hand, unchecked", move || {
            let (scan, mut ad_at) = (FieldScan::new(), 0);
            limit::main_job::main_job(&fields, |record| scan.parse(record, &mut ad_at))
        }),
        program("floor: cut into records only", move || limit::newline::cut(&cut.json)),
        program("floor: newline scan only", move || limit::newline::scan(&scan.json)),
    ];
    contestants.extend(timely_and_engine(&events, peer::timely::main_job, engine::main_job)?);
    let bytes = events.json.bytes().len() as u64 / events.count().max(1);
    section(
        "Main job: JSON, filter, join, count per campaign and 10 s window",
        format!("{} events of {bytes} bytes in memory, one per line.", events.count()),
        contestants,
        2,
        scale,
    )
}

/// The main job over columns.
pub(crate) fn typed(scale: Scale) -> Result<Section> {
    let events = Arc::new(AdEvents::generate(scale.events, scale.seed)?);
    let by_hand = Arc::clone(&events);
    section(
        "Main job over columns: filter, join, count per campaign and 10 s window",
        format!("{} events as Arrow batches: nothing to parse.", events.count()),
        vec![
            program("limit: by hand, columns", move || limit::typed::main_job(&by_hand)),
            engine::typed(&events, 1)?,
            engine::typed(&events, 2)?,
        ],
        1,
        scale,
    )
}

/// Search for a pattern.
pub(crate) fn grep(scale: Scale) -> Result<Section> {
    let log = Arc::new(LogLines::generate(scale.events, scale.seed));
    let (by_line, whole) = (Arc::clone(&log), Arc::clone(&log));
    let mut contestants = vec![
        program("limit: by hand, line by line", move || limit::grep::by_line(&by_line)),
        program("floor: by hand, whole text at once", move || limit::grep::whole(&whole)),
    ];
    contestants.extend(timely_and_engine(&log, peer::timely::grep, engine::grep)?);
    let bytes = log.text.bytes().len() as u64 / log.text.count().max(1);
    section(
        "Grep",
        format!("`{PATTERN}` in {} lines of {bytes} bytes; one in a hundred matches.", log.text.count()),
        contestants,
        1,
        scale,
    )
}

/// Keyed count, for each number of distinct keys.
pub(crate) fn grouping(scale: Scale) -> Result<Vec<Section>> {
    [100, scale.distinct_keys].into_iter().map(|distinct| grouping_of(scale, distinct)).collect()
}

fn grouping_of(scale: Scale, distinct: u64) -> Result<Section> {
    let keys = Arc::new(Keys::generate(scale.keys, distinct, scale.seed));
    let by_hand = Arc::clone(&keys);
    let mut contestants =
        vec![program("limit: by hand, linear probing", move || limit::keyed_count::keyed_count(&by_hand))];
    contestants.extend(timely_and_engine(&keys, peer::timely::keyed_count, engine::grouping)?);
    section(
        &format!("Grouping: count per key, {} distinct keys", keys.distinct),
        format!("{} `int64` keys, uniform; the peers exchange them by key.", keys.count),
        contestants,
        1,
        scale,
    )
}

/// The noise floor under every latency.
pub(crate) fn latency(scale: Scale) -> Result<Section> {
    let timer_rounds = scale.rounds / 20;
    let latencies = vec![
        pingpong::channel(scale.rounds)?,
        pingpong::condition(scale.rounds)?,
        pingpong::timer(timer_rounds, Duration::from_millis(1))?,
        pingpong::timer(timer_rounds / 10 + 1, Duration::from_millis(10))?,
    ];
    Ok(Section {
        title: "Latency: noise floor of the machine".into(),
        note: "The time that the operating system needs to pass a message between two threads, and to wake one by a timer.".into(),
        table: Table::Latencies(latencies),
    })
}

/// Latency of grouping at half of the rate that the engine reaches, for several buffer timeouts.
pub(crate) fn grouping_latency(scale: Scale) -> Result<Section> {
    let keys = Arc::new(Keys::generate(scale.keys, scale.distinct_keys, scale.seed));
    let comparison = measure(&mut [engine::grouping(&keys, PARALLELISM)?], scale.repetitions.min(3))?;
    let most_per_s: f64 = comparison.measurements.iter().map(Measurement::events_per_s).sum();
    let rows_per_s = (most_per_s / 2.0) as u64;
    let mut rows = Vec::new();
    for timeout in ["0 ms", "10 ms", "50 ms"] {
        let paced = engine::latency(&keys, PARALLELISM, timeout, rows_per_s.max(1), scale.latency_duration)?;
        let name = format!("buffer timeout {timeout}");
        let (latency, million_per_s) = (quantiles(paced.latency), paced.rows_per_s / 1e6);
        let value = format!("{latency} at {million_per_s:.2} M/s; read late p99 {} µs", paced.read_late_p99_us);
        rows.push((name, value));
    }
    Ok(Section {
        title: "Latency of grouping".into(),
        note: format!(
            "From a key's reading to its counting after the exchange, parallelism {PARALLELISM}, {} distinct keys, at \
             half of {:.2} million rows per second. Keys come every 0.5 ms; a reader that is scheduled late reads late.",
            keys.distinct,
            most_per_s / 1e6
        ),
        table: Table::Values(rows),
    })
}

/// The cost of checkpoints.
pub(crate) fn checkpoints(scale: Scale) -> Result<Vec<Section>> {
    let repetitions = scale.repetitions.min(5);
    let scale = Scale { repetitions, ..scale };
    let note = |what: &str| {
        format!("{what}, for some seconds, parallelism {PARALLELISM}; the limit is the same job without checkpoints.")
    };
    let log = LogLines::generate(scale.events, scale.seed);
    let grep = engine::durable_grep(&log, PARALLELISM, scale.repeat)?;
    let mut sections = vec![section("Cost of checkpoints: grep", note("Lines as above"), grep, 1, scale)?];
    for distinct in [100, scale.distinct_keys] {
        let keys = Keys::generate(scale.keys, distinct, scale.seed);
        let title = format!("Cost of checkpoints: grouping, {distinct} distinct keys");
        let grouping = engine::durable_grouping(&keys, PARALLELISM, scale.repeat)?;
        sections.push(section(&title, note("Keys as above"), grouping, 1, scale)?);
    }
    let main_job = engine::durable_main_job(scale.events * scale.repeat / 2, PARALLELISM)?;
    sections.push(section(
        "Cost of checkpoints: main job",
        note("JSON events from the generator"),
        main_job,
        1,
        scale,
    )?);
    Ok(sections)
}

/// From SQL text to a running job.
fn startup(scale: Scale) -> Result<Section> {
    Ok(Section {
        title: "Start of a job".into(),
        note: "A query of one filter and one projection over memory, in a process that runs already.".into(),
        table: Table::Latencies(engine::startup(PARALLELISM, scale.rounds / 100 + 1)?.into()),
    })
}

/// [`startup`] and [`planning`].
pub(crate) fn starts(scale: Scale, add: &mut dyn FnMut(Section) -> Result<()>) -> Result<()> {
    add(startup(scale)?)?;
    add(planning(scale)?)
}

/// From SQL text to a plan, of queries that are not small.
fn planning(scale: Scale) -> Result<Section> {
    Ok(Section {
        title: "SQL text to plan".into(),
        note: "Whole files: their tables and views are declared each time. Nothing runs.".into(),
        table: Table::Latencies(engine::planning(scale.rounds / 1_000 + 1)?),
    })
}

/// Memory that the main job needs on top of its input.
pub(crate) fn memory(scale: Scale) -> Result<Section> {
    let events = Arc::new(AdEvents::generate(scale.events, scale.seed)?);
    let bytes = engine::memory(&events, PARALLELISM)?;
    Ok(Section {
        title: "Memory".into(),
        note: "Largest resident memory while the main job runs over JSON, minus that before it started.".into(),
        table: Table::Values(vec![(
            format!("main job, parallelism {PARALLELISM}"),
            format!("{:.1} MB", bytes as f64 / 1e6),
        )]),
    })
}

fn quantiles(LatencySummary { p50_us, p99_us, p999_us, max_us, .. }: LatencySummary) -> String {
    format!("p50 {p50_us} µs, p99 {p99_us} µs, p99.9 {p999_us} µs, max {max_us} µs")
}

/// Timely and the engine, each with one thread and with two.
fn timely_and_engine<W: Send + Sync + 'static>(
    workload: &Arc<W>,
    timely: fn(&Arc<W>, usize) -> Result<RunResult>,
    engine: fn(&Arc<W>, u32) -> Result<Contestant>,
) -> Result<Vec<Contestant>> {
    let mut contestants = Vec::new();
    for (workers, plural) in [(1, ""), (2, "s")] {
        let workload = Arc::clone(workload);
        contestants
            .push(program(format!("peer: timely, {workers} worker{plural}"), move || timely(&workload, workers)));
    }
    for parallelism in [1, 2] {
        contestants.push(engine(workload, parallelism)?);
    }
    Ok(contestants)
}

fn section(
    title: &str,
    note: String,
    mut contestants: Vec<Contestant>,
    limits: usize,
    scale: Scale,
) -> Result<Section> {
    let comparison = measure(&mut contestants, scale.repetitions).map_err(|error| error.at(title))?;
    Ok(Section { title: title.into(), note, table: Table::Contestants { comparison, limits } })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: Scale = Scale {
        events: 20_000,
        keys: 50_000,
        distinct_keys: 3_000,
        rounds: 100,
        repeat: 2,
        repetitions: 1,
        latency_duration: Duration::from_millis(200),
        seed: 42,
    };

    fn measurements(section: &Section) -> &[Measurement] {
        match &section.table {
            Table::Contestants { comparison, .. } => &comparison.measurements,
            other => panic!("{other:?}"),
        }
    }

    /// All programs answered, and (as [`measure`] checks) equally; the answers are not empty.
    fn check(section: &Section, programs: usize, answers: usize) {
        let measurements = measurements(section);
        assert_eq!(measurements.len(), programs, "{section}");
        let hashes: Vec<u64> = measurements.iter().filter_map(|m| m.result.result_hash).collect();
        assert_eq!(hashes.len(), answers, "{section}");
        assert!(hashes.iter().all(|hash| *hash == hashes[0] && *hash != 0), "{section}");
        assert!(measurements.iter().all(|m| m.cpu_s_per_million_median() > 0.0), "{section}");
    }

    #[test]
    fn programs_of_the_main_job_agree() {
        check(&main_job(TINY).unwrap(), 9, 7);
    }

    #[test]
    fn text_and_columns_give_the_same_answer() {
        let text = main_job(TINY).unwrap();
        let columns = typed(TINY).unwrap();
        assert_eq!(measurements(&text)[0].result, measurements(&columns)[0].result);
    }

    #[test]
    fn programs_of_grep_agree() {
        check(&grep(TINY).unwrap(), 6, 6);
    }

    #[test]
    fn programs_of_grouping_agree() {
        grouping(TINY).unwrap().iter().for_each(|section| check(section, 5, 5));
    }

    #[test]
    fn programs_of_the_network_agree() {
        let sections = network::network(TINY).unwrap();
        sections[..2].iter().for_each(|section| check(section, 3, 3));
        assert_eq!(sections[2].to_string().matches(" ns per row").count(), 4);
    }

    #[test]
    fn programs_of_the_shapes_agree() {
        let sections = shapes::shapes(TINY).collect::<Result<Vec<_>>>().unwrap();
        assert_eq!(sections.len(), 11);
        sections.iter().for_each(|section| check(section, 2, 2));
    }

    #[test]
    fn reading_from_kafka_gives_the_answers_of_memory() {
        let sections = kafka::kafka(TINY).unwrap();
        check(&sections[0], 5, 2);
        assert!(sections[0].note.contains("together: blackhole "), "{}", sections[0].note);
        assert!(sections[1].to_string().contains(" MB"));
    }

    #[test]
    fn latencies_starts_and_memory_are_measured() {
        let text = grouping_latency(TINY).unwrap().to_string();
        assert_eq!(text.matches("buffer timeout").count(), 3, "{text}");
        assert!(!text.contains("p50 0 "), "{text}");
        assert_eq!(startup(TINY).unwrap().to_string().matches("plan").count(), 2);
        assert!(memory(TINY).unwrap().to_string().contains(" MB"));
        assert_eq!(latency(TINY).unwrap().to_string().matches("| two threads").count(), 2);
    }

    #[test]
    fn state_is_measured_in_memory_and_on_disk() {
        let sections = state::on_disk(TINY).unwrap();
        assert_eq!(sections.len(), 3);
        sections[..2].iter().for_each(|section| check(section, 2, 2));
        let memory = state::memory(TINY).unwrap().to_string();
        assert_eq!(memory.matches(" MB").count(), 5, "{memory}");
        let checkpoint = state::large_checkpoint(TINY).unwrap().to_string();
        assert!(checkpoint.contains(" % of the whole") && !checkpoint.contains("p50 0 "), "{checkpoint}");
    }

    /// Where the program has been built, as in a run of all tests.
    #[test]
    fn a_killed_job_comes_back() {
        if engine::program().is_ok() {
            assert_eq!(state::recovery(TINY).unwrap().to_string().matches("| a ").count(), 2);
        }
    }

    #[test]
    fn the_coordination_of_many_workers_is_measured() {
        let text = coordination::coordination(TINY).unwrap().to_string();
        assert_eq!(text.matches("| wait of a cut for its grant, p99").count(), 4, "{text}");
        assert!(text.contains("bound") && text.contains("met"), "{text}");
    }

    /// Where the program has been built, as in a run of all tests.
    #[test]
    fn jobs_of_a_cluster_are_started_and_observed() {
        if engine::program().is_ok() {
            let text = cluster::jobs(TINY).unwrap().to_string();
            assert!(text.contains("2 jobs of 4 tasks") && text.contains("% of a core"), "{text}");
        }
    }

    /// Where the program has been built, as in a run of all tests.
    #[test]
    fn state_that_moves_and_the_memory_that_is_left_are_measured() {
        if engine::program().is_ok() {
            let moved = moves::moves(TINY).next().unwrap().unwrap().to_string();
            assert!(moved.contains("its time over that of copying") && moved.contains("p99 latency"), "{moved}");
            let memory = moves::memory(TINY).unwrap().to_string();
            assert_eq!(memory.matches(" MB").count(), 2, "{memory}");
        }
    }

    #[test]
    fn parts_are_added_and_a_change_is_compared_with_a_checkpoint() {
        let filled = (TINY.events / 2, TINY.latency_duration);
        let parts = changes::parts(TINY, filled).unwrap().to_string();
        assert_eq!(parts.matches(": added p99 latency").count(), 8, "{parts}");
        let beside = changes::beside_checkpoint(TINY, filled).unwrap().to_string();
        assert!(beside.contains("processor time of the change over that of the checkpoint"), "{beside}");
    }

    #[test]
    fn checkpoints_change_no_answer() {
        for section in checkpoints(TINY).unwrap() {
            assert_eq!(measurements(&section).len(), 2, "{section}");
        }
    }

    #[test]
    fn another_seed_gives_another_answer() {
        let hash = |seed| measurements(&typed(Scale { seed, ..TINY }).unwrap())[0].result.result_hash;
        assert_ne!(hash(1), hash(2));
    }
}
