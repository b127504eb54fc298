"""Queries that planners of SQL have answered wrongly, with the right answers. Most have subqueries."""

from __future__ import annotations

from oracle_run import Value

TABLES = """CREATE VIEW shop AS SELECT * FROM (VALUES (1, 'Ulm'), (2, 'Bonn'), (3, CAST(NULL AS STRING))) AS v(id, city);
CREATE VIEW sale AS SELECT * FROM (VALUES (1, 'a', 5), (1, 'b', NULL), (2, 'a', 7), (NULL, NULL, 1)) AS v(shop, item, qty);
CREATE VIEW item AS SELECT * FROM (VALUES ('a', 3), ('b', NULL), ('c', 9)) AS v(item, price);
CREATE VIEW t AS SELECT k, CAST(d AS DECIMAL(20, 4)) AS d, n, CAST(NULL AS INT) AS i
  FROM (VALUES ('p', 1.2345, 5000000000), ('q', 1.2345, 5000000000)) AS v(k, d, n);
CREATE VIEW q AS SELECT * FROM t WHERE k = 'q';
CREATE VIEW rounded AS SELECT k, CAST(d AS DECIMAL(20, 2)) AS d FROM t;
"""

#: A shop's items that another shop sells.
ELSEWHERE = "FROM sale x JOIN sale y ON x.item = y.item WHERE y.shop = s.id AND x.shop <> s.id"
OF_SHOP = "FROM sale x WHERE x.shop = s.id"
#: Values of table `t`, each with what it is in all rows.
VALUES: dict[str, tuple[Value, ...]] = {
    "CAST(d AS DECIMAL(20, 2)) = 1.23": (True,),
    "CAST(d AS INT) = 1": (True,),
    "CASE WHEN CAST(d AS DECIMAL(20, 2)) = 1.23 THEN TRUE ELSE FALSE END": (True,),
    "TRY_CAST(n AS INT) > 10": (None,),
    "i NOT IN (1) OR i NOT IN (2)": (None,),
    "i IN (1) AND i IN (2)": (None,),
}
#: Types of the columns, a query, its rows.
CASES: list[tuple[list[str], str, list[tuple[Value, ...]]]] = [
    # A condition twice, the other way round the second time.
    (["STRING"], "SELECT k FROM t WHERE k = 'q' AND 'q' = k", [("q",)]),
    (["STRING"], "SELECT k FROM q WHERE 'q' = k", [("q",)]),
    (["STRING"], "SELECT k FROM t GROUP BY k HAVING k = 'q' AND 'q' = k", [("q",)]),
    (["STRING"], "SELECT a.k FROM t a JOIN t b ON a.k = b.k AND a.k = 'q' AND 'q' = a.k", [("q",)]),
    (["STRING"], "SELECT k FROM t WHERE k >= 'p' AND 'p' < k", [("q",)]),
    (["STRING", "STRING"], "SELECT a.k, b.k FROM t a LEFT JOIN q b ON a.k = b.k AND 'q' = a.k", [("p", None), ("q", "q")]),
    (["STRING", "STRING"], "SELECT a.k, b.k FROM q a RIGHT JOIN t b ON a.k = b.k AND 'q' = b.k", [(None, "p"), ("q", "q")]),
    # Conversions that lose digits.
    *((["BOOLEAN"], f"SELECT {text} FROM q", [value]) for text, value in VALUES.items()),
    (["STRING"], "SELECT k FROM q WHERE CAST(d AS DECIMAL(20, 2)) = 1.23 AND CAST(d AS INT) = 1", [("q",)]),
    (["STRING"], "SELECT k FROM rounded WHERE d = 1.23", [("p",), ("q",)]),
    (["STRING"], "SELECT a.k FROM q a JOIN t b ON a.k = b.k AND CAST(b.d AS INT) = 1", [("q",)]),
    (["STRING", "BIGINT"], "SELECT k, COUNT(*) FILTER (WHERE CAST(d AS INT) = 1) FROM t GROUP BY k", [("p", 1), ("q", 1)]),
    # The tables of a subquery share a column.
    (["INT"], f"SELECT id FROM shop s WHERE EXISTS (SELECT 1 {ELSEWHERE})", [(1,), (2,)]),
    (["INT"], f"SELECT id FROM shop s WHERE NOT EXISTS (SELECT 1 {ELSEWHERE})", [(3,)]),
    (["INT"], f"SELECT id FROM shop s WHERE 'a' IN (SELECT x.item {ELSEWHERE})", [(1,), (2,)]),
    (["INT", "BIGINT"], f"SELECT id, (SELECT COUNT(*) {ELSEWHERE}) FROM shop s", [(1, 1), (2, 1), (3, 0)]),
    # A column that is never NULL is it where an outer join has no match.
    (
        ["INT", "BOOLEAN"],
        "SELECT z.k, z.c NOT IN (SELECT t1.n FROM item) "
        "FROM (VALUES (0, 9)) AS z(k, c) LEFT JOIN (SELECT COUNT(*) AS n FROM item) t1 ON t1.n = z.c",
        [(0, None)],
    ),
    # A subquery in an aggregate of HAVING, and an aggregate before IN.
    (
        ["STRING"],
        "SELECT item FROM sale GROUP BY item HAVING SUM(CASE WHEN shop IN (SELECT id FROM shop) THEN 1 ELSE 0 END) > 0",
        [("a",), ("b",)],
    ),
    (["BOOLEAN"], "SELECT MAX(id) IN (SELECT price FROM item) FROM shop", [(True,)]),
    # A column that tables share, beside that of one of them.
    (
        ["INT", "INT"],
        "SELECT k, a.k FROM (VALUES (1), (2)) AS a(k) FULL JOIN (VALUES (2), (3)) AS b(k) USING (k)",
        [(1, 1), (2, 2), (3, None)],
    ),
    # An aggregate of all rows has a row where there are none.
    (["INT"], f"SELECT id FROM shop s WHERE EXISTS (SELECT COUNT(*) {OF_SHOP})", [(1,), (2,), (3,)]),
    (["INT"], f"SELECT id FROM shop s WHERE NOT EXISTS (SELECT MAX(qty) {OF_SHOP})", []),
    (["INT"], f"SELECT id FROM shop s WHERE 0 IN (SELECT COUNT(*) {OF_SHOP})", [(3,)]),
    (["INT"], f"SELECT id FROM shop s WHERE EXISTS (SELECT 1 {OF_SHOP} HAVING COUNT(*) = 0)", [(3,)]),
    (
        ["INT", "BIGINT"],
        f"SELECT id, (SELECT COUNT(*) {OF_SHOP} HAVING COUNT(*) <> 1) FROM shop s",
        [(1, 2), (2, None), (3, 0)],
    ),
    # WITH in a subquery.
    (
        ["INT", "INT"],
        f"SELECT id, (WITH w AS (SELECT qty {OF_SHOP}) SELECT MAX(qty) FROM w) FROM shop s",
        [(1, 5), (2, 7), (3, None)],
    ),
    (["INT"], f"SELECT id FROM shop s WHERE EXISTS (WITH w AS (SELECT qty {OF_SHOP}) SELECT 1 FROM w)", [(1,), (2,)]),
    # A condition on the query around, below an outer join.
    (
        ["INT", "BIGINT"],
        "SELECT id, (SELECT COUNT(*) FROM item i LEFT JOIN (SELECT * FROM sale WHERE sale.shop = s.id) x ON x.item = i.item) FROM shop s",
        [(1, 3), (2, 3), (3, 3)],
    ),
    # Columns that are merged come first, and keep the order of the tables.
    (
        ["STRING", "INT", "INT"],
        "SELECT * FROM (VALUES ('z', 1), ('a', 2)) s(k, x) LEFT JOIN (VALUES ('a', 10)) b(k, y) USING (k)",
        [("z", 1, None), ("a", 2, 10)],
    ),
    (
        ["STRING", "INT", "INT"],
        "SELECT * FROM (VALUES ('z', 1), ('a', 2)) s(k, x) NATURAL LEFT JOIN (VALUES ('a', 10)) b(k, y)",
        [("z", 1, None), ("a", 2, 10)],
    ),
    # First rows that are none.
    (
        ["INT", "STRING"],
        "SELECT id, (SELECT item FROM sale WHERE qty > 9 ORDER BY qty LIMIT 1) FROM shop",
        [(1, None), (2, None), (3, None)],
    ),
    (["BOOLEAN"], "SELECT 9 < ALL (SELECT shop FROM sale WHERE shop > 5 ORDER BY shop LIMIT 2) FROM shop WHERE id = 1", [(True,)]),
    # An output has the name of another column.
    (["INT"], "SELECT v.shop * -1 AS qty FROM sale v WHERE v.qty > 1 ORDER BY v.qty LIMIT 1", [(-1,)]),
    # A table that is grouped already.
    (
        ["INT", "BIGINT"],
        "SELECT t.shop, (SELECT COUNT(*) FROM item i WHERE i.item = t.item AND i.price < t.q) "
        "FROM (SELECT shop, item, SUM(qty) AS q FROM sale GROUP BY shop, item) t",
        [(1, 1), (1, 0), (2, 1), (None, 0)],
    ),
]
#: Type and query. The planner or the job may refuse these, but not by an error of our own.
REFUSED_AT_MOST = [
    ("BIGINT", "SELECT CAST(12340 AS DECIMAL(6, -1)) FROM shop"),
    ("INT", "SELECT id FROM shop WHERE id <> ALL(ARRAY[1, 2])"),
    ("INT", "SELECT id FROM (SELECT id, ARRAY[id, 2] AS several FROM shop) s WHERE id = ANY(several)"),
    ("INT", "SELECT id FROM (SELECT id, ARRAY[id, 2] AS several FROM shop) s WHERE id <> ALL(several)"),
    # A value that is none: the job stops.
    ("STRING", "SELECT k FROM t WHERE CAST(n AS INT) > 10"),
]
