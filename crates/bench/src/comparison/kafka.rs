//! What reading from Kafka costs, beside a consumer that only counts.

use std::sync::Arc;

use anabranch_model::Result;

use super::{PARALLELISM, Scale};
use crate::broker::Broker;
use crate::contestant::program;
use crate::engine::Topic;
use crate::measure::{Comparison, measure};
use crate::report::{Section, Table};
use crate::workload::{Shape, shaped};
use crate::{engine, limit};

/// The jobs of the table: over memory, and over Kafka.
const JOBS: [(&str, usize, usize); 2] = [("blackhole", 1, 3), ("windowed aggregate", 2, 4)];

/// Reading from a topic, and memory while a backlog is read. Without a broker the sections say why nothing
/// was measured.
pub(crate) fn kafka(scale: Scale) -> Result<Vec<Section>> {
    let broker = match broker() {
        Ok(broker) => broker,
        Err(reason) => return Ok(vec![not_measured(reason)]),
    };
    let lines = Arc::new(shaped(Shape::Compact, scale.events / 2, scale.seed));
    let servers = broker.servers().to_owned();
    let one = Topic::fill(&servers, "bench-one", 1, &lines)?;
    let two = Topic::fill(&servers, "bench-two", PARALLELISM, &lines)?;
    let memory = two.memory(PARALLELISM)?;
    let count = lines.count();
    let mut contestants = vec![
        program("limit: consumer of librdkafka", move || limit::kafka::count(&servers, "bench-one", count)),
        engine::dropped_from_memory(&lines)?,
        engine::shapes(Shape::Compact, &lines)?,
        one.dropped()?,
        one.windowed()?,
    ];
    let comparison = measure(&mut contestants, scale.repetitions.min(7))?;
    let bytes = lines.bytes().len() as u64 / count.max(1);
    let note = format!(
        "{count} JSON records of {bytes} bytes in one partition, parallelism 1, broker on the same machine but not counted. The limit takes \
         records from librdkafka and counts them. CPU time beside that of the limit and the same job over memory together: {}.",
        beside_limit(&comparison)
    );
    let values = vec![(
        format!("windowed aggregate, parallelism {PARALLELISM}, defaults"),
        format!("{:.1} MB", memory as f64 / 1e6),
    )];
    Ok(vec![
        Section { title: "Kafka".into(), note, table: Table::Contestants { comparison, limits: 1 } },
        Section {
            title: "Kafka: memory while a backlog is read".into(),
            note: "Largest resident memory while the job runs, less that before it started.".into(),
            table: Table::Values(values),
        },
    ])
}

/// What each job over Kafka costs, divided by what its two parts cost.
fn beside_limit(comparison: &Comparison) -> String {
    let cost = |index: usize| comparison.measurements[index].cpu_s_per_million_median();
    let ratios = JOBS.map(|(name, memory, kafka)| format!("{name} {:.2}", cost(kafka) / (cost(0) + cost(memory))));
    ratios.join(", ")
}

/// A broker, or in a line why there is none.
pub(super) fn broker() -> std::result::Result<Broker, String> {
    Broker::try_start().map_err(|reason| reason.lines().next().unwrap_or_default().to_owned())
}

/// The options of a table that writes into a topic.
pub(super) fn sink(servers: &str, topic: &str) -> String {
    format!(
        "'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json', \
         'sink.topic.partitions' = '1', 'sink.delivery-guarantee' = 'at-least-once'"
    )
}

fn not_measured(reason: String) -> Section {
    Section {
        title: "Kafka".into(),
        note: "Reading from a topic, beside a consumer that only counts.".into(),
        table: Table::Values(vec![("not measured".into(), reason)]),
    }
}
