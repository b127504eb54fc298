//! Jobs whose state moves. All of them pass rows on with the time at which they are due.

/// Rows that come all the time, per second. A fiftieth of the events are persons, three are auctions, the
/// others bids.
pub(super) const STEADY_EVENTS_PER_S: u64 = 4000;
/// Events for each person of the generator.
const EVENTS_OF_PERSON: u64 = 50;
/// Keys among those of the state that the steady rows have.
const STEADY_KEYS: u64 = 2000;
/// The first number of a person.
const FIRST_KEY: u64 = 1000;
/// The time of a row in milliseconds since 1970.
const DUE_MS: &str = "EXTRACT(EPOCH FROM dateTime) * 1000 + EXTRACT(MILLISECOND FROM dateTime)";

/// The table from which state comes to be, if it ends.
pub(super) const FILL: &str = "source fill";

/// What a job does with its rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Query {
    /// Steady rows pass; rows with keys of `key_bytes` are counted in a window that stays open.
    Count { keys: u64, key_bytes: u64, keys_per_s: u64 },
    /// The same, but the steady rows pass through tasks by key: one row comes out for each key and 10 ms.
    StatefulMap { keys: u64, key_bytes: u64, keys_per_s: u64 },
    /// Query 8 of Nexmark as an aggregate: persons who have opened auctions within 20 minutes. Steady rows
    /// pass beside it.
    Nexmark8 { events_per_s: u64 },
}

impl Query {
    /// Rows of the table from which state comes to be, if it ends.
    pub(super) fn filling_rows(self) -> Option<u64> {
        match self {
            Query::Count { keys, .. } | Query::StatefulMap { keys, .. } => Some(keys),
            Query::Nexmark8 { .. } => None,
        }
    }

    /// The statements. Steady rows go to a table with these options. `now_ms` is in the first window.
    pub(super) fn sql(self, steady_table: &str, now_ms: u64) -> String {
        let declared = format!(
            "CREATE TABLE bids (WATERMARK FOR dateTime AS dateTime) WITH ({});
             CREATE TABLE steady (due_ms BIGINT) WITH ({steady_table});
             CREATE TABLE results (k STRING, n BIGINT) WITH ('connector' = 'blackhole');",
            nexmark("bid", STEADY_EVENTS_PER_S)
        );
        let as_they_come = format!("INSERT INTO steady SELECT {DUE_MS} FROM bids;");
        match self {
            Query::Count { keys, key_bytes, keys_per_s } => {
                format!("{declared} {as_they_come} {}", counted(keys, key_bytes, keys_per_s))
            }
            Query::StatefulMap { keys, key_bytes, keys_per_s } => format!(
                "{declared} {}
                 CREATE VIEW timed AS SELECT {} AS k, dateTime AS ts, {DUE_MS} AS due_ms FROM bids;
                 INSERT INTO steady SELECT MAX(due_ms) FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '0.01' SECOND))
                   GROUP BY k, window_start, window_end;",
                counted(keys, key_bytes, keys_per_s),
                steady_key(key_bytes)
            ),
            Query::Nexmark8 { events_per_s } => format!(
                "{declared} {as_they_come}
                 CREATE TABLE persons (WATERMARK FOR dateTime AS dateTime) WITH ({});
                 CREATE TABLE auctions (WATERMARK FOR dateTime AS dateTime) WITH ({});
                 CREATE VIEW both AS SELECT id AS person, name, 0 AS auctions, dateTime AS ts FROM persons
                   UNION ALL SELECT seller AS person, CAST(NULL AS STRING) AS name, 1 AS auctions, dateTime AS ts FROM auctions;
                 INSERT INTO results SELECT MAX(name), SUM(auctions)
                   FROM TABLE(TUMBLE(TABLE both, DESCRIPTOR(ts), INTERVAL '20' MINUTE, INTERVAL '{}' SECOND))
                   GROUP BY person, window_start, window_end HAVING MAX(name) IS NOT NULL AND SUM(auctions) > 0;",
                nexmark("person", events_per_s),
                nexmark("auction", events_per_s),
                // A window begins now, so that none ends while the job is observed.
                now_ms / 1000 % 1200,
            ),
        }
    }
}

/// Counts keys of their own, each once, and the keys of the steady rows.
fn counted(keys: u64, key_bytes: u64, keys_per_s: u64) -> String {
    format!(
        "CREATE TABLE fill (WATERMARK FOR dateTime AS dateTime) WITH ({}, 'number-of-rows' = '{}');
         CREATE VIEW keyed AS SELECT {} AS k, dateTime AS ts FROM fill
           UNION ALL SELECT {} AS k, dateTime AS ts FROM bids;
         INSERT INTO results SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE keyed, DESCRIPTOR(ts), INTERVAL '20' HOUR))
           GROUP BY k, window_start, window_end;",
        nexmark("person", keys_per_s * EVENTS_OF_PERSON),
        keys * EVENTS_OF_PERSON,
        key("id", key_bytes),
        steady_key(key_bytes)
    )
}

fn steady_key(key_bytes: u64) -> String {
    key(&format!("MOD(auction, {STEADY_KEYS}) + {FIRST_KEY}"), key_bytes)
}

/// A key of about this size.
fn key(number: &str, bytes: u64) -> String {
    format!("CONCAT(CAST({number} AS STRING), REPEAT('k', {bytes}))")
}

fn nexmark(table: &str, events_per_s: u64) -> String {
    format!("'connector' = 'nexmark', 'table' = '{table}', 'rows-per-second' = '{events_per_s}'")
}
