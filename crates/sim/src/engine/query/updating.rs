//! Queries whose results are updated, and some whose rows wait for event time in other ways than windows.
//!
//! The results of each are determined by its rows, or by its rows and event time, in whatever order they
//! come: ranks are by total orders, and sums are of whole numbers. Aggregates of no rows are left out: where
//! tables end they are a row, over a stream they are none.

use super::Query;

const STREAMING: &str = "SET 'execution.runtime-mode' = 'streaming';\n";
const MINI_BATCHES: &str = "SET 'execution.runtime-mode' = 'streaming';
SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '100 ms';
SET 'table.exec.mini-batch.size' = '20';
";

const fn of_rows(name: &'static str, inserts: &'static [(&'static str, &'static str)]) -> Query {
    Query { name, settings: STREAMING, inserts, of_rows: true }
}

const fn of_time(name: &'static str, inserts: &'static [(&'static str, &'static str)]) -> Query {
    Query { name, settings: STREAMING, inserts, of_rows: false }
}

const GROUPS: &[(&str, &str)] = &[
    (
        "k STRING, n BIGINT, t BIGINT, low BIGINT, high BIGINT",
        "SELECT k, COUNT(*), SUM(v), MIN(v), MAX(id) FROM events GROUP BY k",
    ),
    ("v BIGINT, n BIGINT", "SELECT v, COUNT(DISTINCT k) FROM more GROUP BY v HAVING MOD(COUNT(*), 2) = 0"),
];

const GROUPS_OF_GROUPS: &[(&str, &str)] = &[
    (
        "n BIGINT, groups BIGINT, low BIGINT, high BIGINT, d BIGINT",
        "SELECT n, COUNT(*), MIN(t), MAX(t), COUNT(DISTINCT k)
         FROM (SELECT k, MOD(v, 5) AS m, COUNT(*) AS n, SUM(v) AS t FROM both GROUP BY k, MOD(v, 5)) GROUP BY n",
    ),
    (
        "groups BIGINT, t BIGINT, high BIGINT",
        "SELECT COUNT(*), SUM(n), MAX(n) FROM (SELECT k, v, COUNT(*) AS n FROM both GROUP BY k, v) HAVING COUNT(*) > 0",
    ),
];

pub(super) const UPDATING: &[Query] = &[
    of_rows("groups", GROUPS),
    of_rows("groups of groups", GROUPS_OF_GROUPS),
    Query { name: "groups, by mini-batches", settings: MINI_BATCHES, inserts: GROUPS, of_rows: true },
    Query { name: "groups of groups, by mini-batches", settings: MINI_BATCHES, inserts: GROUPS_OF_GROUPS, of_rows: true },
    of_rows(
        "distinct rows",
        &[
            ("k STRING, v BIGINT", "SELECT DISTINCT k, v FROM both"),
            ("n BIGINT", "SELECT DISTINCT n FROM (SELECT k, COUNT(*) AS n FROM both GROUP BY k)"),
        ],
    ),
    of_rows(
        "grouping sets",
        &[(
            "k STRING, m BIGINT, n BIGINT, t BIGINT",
            "SELECT k, m, COUNT(*), SUM(v) FROM (SELECT k, v, MOD(v, 4) AS m FROM both)
             GROUP BY GROUPING SETS ((k, m), (k), ()) HAVING COUNT(*) > 0",
        )],
    ),
    of_rows(
        "joins of streams",
        &[
            ("a BIGINT, b BIGINT, k STRING", "SELECT e.id, m.id, e.k FROM events e JOIN more m ON e.k = m.k AND e.v = m.v"),
            (
                "k STRING, n BIGINT, t BIGINT",
                "SELECT e.k, COUNT(*), SUM(m.v) FROM events e JOIN more m ON e.k = m.k AND e.v < m.v GROUP BY e.k",
            ),
        ],
    ),
    of_rows(
        "left join",
        &[(
            "a BIGINT, b BIGINT, v BIGINT",
            "SELECT e.id, m.id, m.v FROM events e LEFT JOIN more m ON e.k = m.k AND e.v = m.v AND MOD(e.id + m.id, 3) <> 0",
        )],
    ),
    of_rows(
        "full join",
        &[
            ("a BIGINT, b BIGINT", "SELECT e.id, m.id FROM events e FULL JOIN more m ON e.k = m.k AND e.v = m.v"),
            (
                "k STRING, n BIGINT, m BIGINT",
                "SELECT e.k, e.n, m.n FROM (SELECT k, COUNT(*) AS n FROM events GROUP BY k) e
                 FULL JOIN (SELECT k, MAX(v) AS n FROM more WHERE v > 3 GROUP BY k) m ON e.k = m.k",
            ),
        ],
    ),
    of_rows(
        "rows with and without a match",
        &[
            (
                "id BIGINT, k STRING",
                "SELECT id, k FROM events e WHERE EXISTS (SELECT 1 FROM more m WHERE m.k = e.k AND m.v = e.v AND MOD(m.id, 2) = 0)",
            ),
            (
                "id BIGINT, k STRING",
                "SELECT id, k FROM events e WHERE NOT EXISTS (SELECT 1 FROM more m WHERE m.k = e.k AND m.v = e.v)",
            ),
            (
                "v BIGINT, n BIGINT",
                "SELECT v, COUNT(*) FROM more WHERE v NOT IN
                 (SELECT n FROM (SELECT k, COUNT(*) AS n FROM events WHERE k IS NOT NULL GROUP BY k)) GROUP BY v",
            ),
        ],
    ),
    of_rows(
        "first rows",
        &[
            (
                "k STRING, n BIGINT, id BIGINT, v BIGINT",
                "SELECT k, n, id, v FROM
                 (SELECT k, id, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS n FROM events) WHERE n <= 3",
            ),
            (
                "k STRING, id BIGINT",
                "SELECT k, id FROM
                 (SELECT k, id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, id DESC) AS n FROM more) WHERE n <= 2",
            ),
        ],
    ),
    of_rows(
        "first rows of groups",
        &[
            (
                "k STRING, n BIGINT, v BIGINT, c BIGINT",
                "SELECT k, n, v, c FROM (SELECT k, v, c, ROW_NUMBER() OVER (PARTITION BY k ORDER BY c DESC, v) AS n FROM
                 (SELECT k, v, COUNT(*) AS c FROM both GROUP BY k, v)) WHERE n <= 2",
            ),
            (
                "k STRING, c BIGINT",
                "SELECT k, c FROM (SELECT k, c, ROW_NUMBER() OVER (ORDER BY c DESC, k) AS n FROM
                 (SELECT k, COUNT(*) AS c FROM both WHERE k IS NOT NULL GROUP BY k)) WHERE n <= 3",
            ),
        ],
    ),
    of_rows(
        "newest rows",
        &[(
            "k STRING, n BIGINT, t BIGINT",
            "SELECT k, COUNT(*), SUM(id) FROM
             (SELECT k, v, id, ROW_NUMBER() OVER (PARTITION BY k, v ORDER BY id DESC) AS n FROM events) WHERE n = 1 GROUP BY k",
        )],
    ),
    of_rows(
        "set operations",
        &[
            ("k STRING, v BIGINT", "SELECT k, v FROM events INTERSECT SELECT k, v FROM more"),
            ("k STRING, v BIGINT", "SELECT k, v FROM events EXCEPT SELECT k, v FROM more"),
            ("k STRING, v BIGINT", "SELECT k, v FROM events UNION SELECT k, v FROM more WHERE v > 9"),
        ],
    ),
    of_rows(
        "set operations by count",
        &[
            ("k STRING, v BIGINT", "SELECT k, v FROM events INTERSECT ALL SELECT k, v FROM more"),
            ("k STRING, v BIGINT", "SELECT k, v FROM events EXCEPT ALL SELECT k, v FROM more"),
        ],
    ),
    of_rows(
        "values of subqueries",
        &[
            (
                "k STRING, n BIGINT",
                "SELECT k, COUNT(*) FROM events WHERE v > (SELECT MIN(n) FROM
                 (SELECT k, COUNT(*) AS n FROM more GROUP BY k)) GROUP BY k",
            ),
            ("id BIGINT", "SELECT id FROM events WHERE v = (SELECT MAX(v) FROM more WHERE MOD(id, 3) = 1)"),
        ],
    ),
    of_rows(
        "groups with labels",
        &[(
            "label STRING, n BIGINT, t BIGINT",
            "SELECT d.label, COUNT(*), SUM(e.n) FROM (SELECT k, v, COUNT(*) AS n FROM both GROUP BY k, v) e
             LEFT JOIN dims d ON e.k = d.k GROUP BY d.label",
        )],
    ),
    of_time(
        "joins in time",
        &[
            (
                "a BIGINT, b BIGINT",
                "SELECT e.id, m.id FROM events e JOIN more m
                 ON e.k = m.k AND m.at BETWEEN e.at - INTERVAL '1' SECOND AND e.at + INTERVAL '2' SECOND",
            ),
            (
                "a BIGINT, b BIGINT",
                "SELECT e.id, m.id FROM events e FULL JOIN more m
                 ON e.k = m.k AND e.v = m.v AND m.at BETWEEN e.at - INTERVAL '2' SECOND AND e.at + INTERVAL '1' SECOND",
            ),
        ],
    ),
    of_time(
        "windows without a match",
        &[(
            "k STRING, e TIMESTAMP(3), n BIGINT, m BIGINT",
            "SELECT COALESCE(e.k, m.k), COALESCE(e.window_end, m.window_end), e.n, m.n FROM
             (SELECT k, window_start, window_end, COUNT(*) AS n
              FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(at), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end) e
             FULL JOIN
             (SELECT k, window_start, window_end, MAX(v) AS n
              FROM TABLE(TUMBLE(TABLE more, DESCRIPTOR(at), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end) m
             ON e.k = m.k AND e.window_start = m.window_start AND e.window_end = m.window_end",
        )],
    ),
    of_time(
        "groups of windows",
        &[(
            "n BIGINT, windows BIGINT, high BIGINT",
            "SELECT n, COUNT(*), MAX(t) FROM
             (SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS t
              FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(at), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end)
             GROUP BY n",
        )],
    ),
    of_time(
        "rows without a match in time, counted",
        &[(
            "k STRING, n BIGINT, m BIGINT",
            "SELECT e.k, COUNT(*), COUNT(m.id) FROM events e LEFT JOIN more m
             ON e.k = m.k AND m.at BETWEEN e.at AND e.at + INTERVAL '1' SECOND GROUP BY e.k",
        )],
    ),
    of_time(
        "sessions, and first rows of windows",
        &[
            (
                "k STRING, s TIMESTAMP(3), e TIMESTAMP(3), n BIGINT",
                "SELECT k, window_start, window_end, COUNT(*) FROM
                 TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(at), INTERVAL '0.5' SECOND))
                 GROUP BY k, window_start, window_end",
            ),
            (
                "s TIMESTAMP(3), n BIGINT, id BIGINT",
                "SELECT window_start, n, id FROM (SELECT window_start, id,
                   ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, id) AS n
                 FROM TABLE(TUMBLE(TABLE more, DESCRIPTOR(at), INTERVAL '2' SECOND))) WHERE n <= 3",
            ),
        ],
    ),
    of_time(
        "the first row of each key",
        &[
            (
                "k STRING, at TIMESTAMP(3)",
                "SELECT k, at FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at) AS n FROM both) WHERE n = 1",
            ),
            (
                "v BIGINT, s TIMESTAMP(3), n BIGINT",
                "SELECT MOD(v, 3), window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE firsts, DESCRIPTOR(at), INTERVAL '2' SECOND))
                 GROUP BY MOD(v, 3), window_start, window_end",
            ),
        ],
    ),
    of_time(
        "sums over the last seconds",
        &[(
            "id BIGINT, n BIGINT, t BIGINT",
            "SELECT id, COUNT(*) OVER w, SUM(v) OVER w FROM events
             WINDOW w AS (PARTITION BY k ORDER BY at RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW)",
        )],
    ),
];
