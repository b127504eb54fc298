//! The queries that are simulated, and the contents of their tables.

mod updating;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_dataflow::{ConnectorSpec, OperatorSpec, Plan, TableTraits};
use anabranch_model::{Result, Rng};
use anabranch_operators::Connector;
use anabranch_plan::{Catalog, PlanOptions, TableResolver, plan_script};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::SchemaRef;

use self::updating::UPDATING;
use super::outside::Shared;
use super::tables::{Readers, Tables};
use super::truth::Reference;

/// Parallelisms that jobs are started with.
pub(crate) const PARALLELISM_MAX: u32 = 3;

const TABLES: &str = "
CREATE TABLE events (id BIGINT, k STRING, v BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '2' SECOND)
  WITH ('connector' = 'log');
CREATE TABLE more (id BIGINT, k STRING, v BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '2' SECOND)
  WITH ('connector' = 'log');
CREATE TABLE broken (id BIGINT, k STRING, v BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '2' SECOND)
  WITH ('connector' = 'log', 'on-malformed' = 'dead-letter', 'dead-letter.table' = 'dead',
    'scan.watermark.lateness' = 'partition', 'scan.watermark.late-table' = 'late');
CREATE TABLE late (id BIGINT, k STRING, v BIGINT, at TIMESTAMP(3)) WITH ('connector' = 'log');
CREATE TABLE dead (of STRING, place STRING, error STRING, record STRING) WITH ('connector' = 'log');
CREATE TABLE dims (k STRING, label STRING, factor BIGINT) WITH ('connector' = 'log');
CREATE VIEW both AS SELECT k, v, at FROM events UNION ALL SELECT k, v * 3, at FROM more;
CREATE VIEW firsts AS SELECT v, at FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY v ORDER BY at) AS n FROM events) WHERE n = 1;
";

/// Name, and columns and query of each insert.
const QUERIES: [(&str, &[(&str, &str)]); 9] = [
    ("filter and project", &[("id BIGINT, w BIGINT", "SELECT id, v * 2 FROM events WHERE v % 3 <> 0")]),
    ("union", &[("id BIGINT, k STRING", "SELECT id, k FROM events UNION ALL SELECT id + 1000000, k FROM more WHERE v > 5")]),
    (
        "tumbling windows",
        &[(
            "s TIMESTAMP(3), k STRING, n BIGINT, t BIGINT, low BIGINT, high BIGINT",
            "SELECT window_start, k, COUNT(*), SUM(v), MIN(v), MAX(id)
             FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(at), INTERVAL '3' SECOND)) GROUP BY k, window_start, window_end",
        )],
    ),
    (
        "hopping windows",
        &[(
            "e TIMESTAMP(3), k STRING, n BIGINT, d BIGINT, mean DOUBLE",
            "SELECT window_end, k, COUNT(*), COUNT(DISTINCT v), AVG(v)
             FROM TABLE(HOP(TABLE events, DESCRIPTOR(at), INTERVAL '2' SECOND, INTERVAL '6' SECOND))
             GROUP BY k, window_start, window_end",
        )],
    ),
    (
        "windows without keys over a union",
        &[(
            "s TIMESTAMP(3), n BIGINT, t BIGINT",
            "SELECT window_start, COUNT(k), SUM(v)
             FROM TABLE(TUMBLE(TABLE both, DESCRIPTOR(at), INTERVAL '2' SECOND)) GROUP BY window_start, window_end",
        )],
    ),
    (
        "global aggregates",
        &[
            ("n BIGINT, t BIGINT, high BIGINT", "SELECT COUNT(*), SUM(v), MAX(id) FROM events"),
            ("k STRING, n BIGINT", "SELECT k, COUNT(DISTINCT v) FROM more GROUP BY k"),
        ],
    ),
    (
        "static join",
        &[("id BIGINT, label STRING, w BIGINT", "SELECT e.id, d.label, e.v * d.factor FROM events e JOIN dims d ON e.k = d.k")],
    ),
    (
        "join, then windows",
        &[(
            "label STRING, e TIMESTAMP(3), n BIGINT",
            "SELECT d.label, window_end, COUNT(*)
             FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(at), INTERVAL '4' SECOND)) e JOIN dims d ON e.k = d.k
             GROUP BY d.label, window_start, window_end",
        )],
    ),
    (
        "dead letters, late rows, and windows of windows",
        &[(
            "e TIMESTAMP(3), high BIGINT",
            "SELECT window_end, MAX(n) FROM
             (SELECT window_start, window_end, k, COUNT(*) AS n
              FROM TABLE(TUMBLE(TABLE broken, DESCRIPTOR(at), INTERVAL '3' SECOND)) GROUP BY k, window_start, window_end)
             GROUP BY window_start, window_end",
        )],
    ),
];

/// From this seed on, every second one has a query whose results may be updated.
pub const UPDATING_FROM: u64 = 100_001;
/// The first one after these.
pub(crate) const UPDATING_TO: u64 = 1_000_001;

/// A query of several inserts.
struct Query {
    name: &'static str,
    settings: &'static str,
    /// Columns and query of each insert.
    inserts: &'static [(&'static str, &'static str)],
    /// Its results depend on the rows alone, not on event time.
    of_rows: bool,
}

/// Planned queries.
#[derive(Debug)]
pub struct Queries {
    stay: Vec<Planned>,
    updating: Vec<Planned>,
}

/// One query, planned for each parallelism.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) name: &'static str,
    plans: Vec<Plan>,
    /// Where the results are of rows alone: a plan that gives the results of tables that end, once.
    ending: Option<Plan>,
}

impl Queries {
    /// Plans all queries.
    pub fn plan() -> Result<Queries> {
        let stays = |(name, inserts)| Planned::new(&Query { name, settings: "", inserts, of_rows: false });
        Ok(Queries {
            stay: QUERIES.into_iter().map(stays).collect::<Result<_>>()?,
            updating: UPDATING.iter().map(Planned::new).collect::<Result<_>>()?,
        })
    }

    pub(crate) fn draw(&self, rng: &mut Rng, seed: u64) -> &Planned {
        let is_updating = (UPDATING_FROM..UPDATING_TO).contains(&seed) && (seed - UPDATING_FROM).is_multiple_of(2);
        let queries = if is_updating { &self.updating } else { &self.stay };
        &queries[rng.below(queries.len() as u64) as usize]
    }
}

impl Planned {
    fn new(query: &Query) -> Result<Planned> {
        let mut inserts = String::new();
        for (number, (columns, query)) in query.inserts.iter().enumerate() {
            inserts += &format!(
                "CREATE TABLE results{number} ({columns}) WITH ('connector' = 'log'); INSERT INTO results{number} {query};\n"
            );
        }
        let plan = |settings: &str, parallelism| -> Result<Plan> {
            let options = PlanOptions { parallelism: Some(parallelism), ..PlanOptions::default() };
            let sql = format!("{settings}{TABLES}{inserts}");
            let planned = plan_script(&sql, &mut Catalog::new(), &Resolver, &options)?;
            planned.plan.ok_or_else(|| anabranch_model::Error::internal("there is an INSERT, but no plan"))
        };
        let plans = (1..=PARALLELISM_MAX).map(|parallelism| plan(query.settings, parallelism));
        Ok(Planned {
            name: query.name,
            plans: plans.collect::<Result<_>>()?,
            ending: query.of_rows.then(|| plan("", 1)).transpose()?,
        })
    }

    pub(crate) fn at(&self, parallelism: u32) -> &Plan {
        &self.plans[parallelism as usize - 1]
    }

    /// Whether rows of results may be taken back.
    pub(crate) fn is_updating(&self) -> bool {
        self.at(1).stages.iter().any(|stage| stage.sink.as_ref().is_some_and(|sink| sink.updating))
    }

    /// Whether rows of one side of a join appear once event time says that no match will follow. Where the
    /// other side is idle, event time passes it by, and when does not follow from positions.
    pub(crate) fn waits_for_no_match(&self) -> bool {
        let waits = |operator: &OperatorSpec| match operator {
            OperatorSpec::StreamJoin(join) => join.kind.gives_unmatched() != (false, false),
            _ => false,
        };
        self.at(1).stages.iter().flat_map(|stage| &stage.operators).any(waits)
    }

    /// What results are compared with.
    pub(crate) fn reference(&self) -> Reference {
        match &self.ending {
            Some(plan) => Reference { plan: plan.clone(), ends: true },
            None => Reference { plan: self.at(1).clone(), ends: false },
        }
    }
}

struct Resolver;

impl TableResolver for Resolver {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let tables =
            Tables { shared: Shared::new(0), process: 0, contents: Arc::default(), readers: Readers::default() };
        tables.describe(spec, columns)
    }
}

/// One partition of a table.
#[derive(Debug)]
pub(crate) struct Partition {
    /// All columns.
    pub(crate) rows: RecordBatch,
    /// Rows that cannot be decoded.
    pub(crate) malformed: BTreeSet<usize>,
}

/// Partitions by table.
pub(crate) type Contents = BTreeMap<&'static str, Vec<Partition>>;

const KEYS: [&str; 6] = ["alder", "birch", "cedar", "dogwood", "elm", "fir"];

/// Draws the tables' contents.
pub(crate) fn contents(rng: &mut Rng, late_rows: bool) -> Result<Contents> {
    let mut contents = Contents::new();
    let mut id = 0;
    for table in ["events", "more", "broken"] {
        let partitions = (0..1 + rng.below(3)).map(|_| events(rng, &mut id, table == "broken", late_rows));
        contents.insert(table, partitions.collect::<Result<_>>()?);
    }
    let known = 3 + rng.below(3) as usize;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(StringViewArray::from_iter_values(KEYS.iter().take(known)))),
        ("label", Arc::new(StringViewArray::from_iter_values((0..known).map(|i| format!("label {}", i % 3))))),
        ("factor", Arc::new(Int64Array::from_iter_values(0..known as i64))),
    ];
    let dims = Partition { rows: RecordBatch::try_from_iter(columns)?, malformed: BTreeSet::new() };
    contents.insert("dims", vec![dims]);
    Ok(contents)
}

/// Events whose times are out of order within the delay of the watermark, so that none is late; with
/// `late_rows`, sometimes beyond it.
fn events(rng: &mut Rng, id: &mut i64, broken: bool, late_rows: bool) -> Result<Partition> {
    let count = rng.below(120);
    let (mut ids, mut keys, mut values, mut times, mut malformed) = (vec![], vec![], vec![], vec![], BTreeSet::new());
    let mut latest = rng.below(4_000) as i64;
    for row in 0..count as usize {
        *id += 1;
        latest += rng.below(200) as i64;
        ids.push(*id);
        keys.push((rng.below(12) > 0).then(|| KEYS[rng.below(6) as usize]));
        values.push(rng.below(20) as i64);
        let behind = if late_rows && rng.below(8) == 0 { 8_000 } else { 1_999 };
        times.push(latest - rng.below(behind) as i64);
        if broken && rng.below(8) == 0 {
            malformed.insert(row);
        }
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(ids))),
        ("k", Arc::new(StringViewArray::from(keys))),
        ("v", Arc::new(Int64Array::from(values))),
        ("at", Arc::new(TimestampMillisecondArray::from(times))),
    ];
    Ok(Partition { rows: RecordBatch::try_from_iter(columns)?, malformed })
}
