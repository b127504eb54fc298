"""Queries by chance, over the tables of `TABLES`. They are in words that DuckDB has too, but for windows."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from oracle_expressions import BIGINT, BOOLEAN, DECIMAL, DOUBLE, SECONDS, STRING, TIME, TYPES, Expressions

TABLES = """
CREATE TABLE t (id BIGINT, k BIGINT, s STRING, v BIGINT, d DECIMAL(10, 2), x DOUBLE, b BOOLEAN, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/t', 'format' = 'json', 'scan.watermark.lateness' = 'partition');
CREATE TABLE u (id BIGINT, k BIGINT, s STRING, w BIGINT, x DOUBLE, us TIMESTAMP(3), WATERMARK FOR us AS us - INTERVAL '8' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/u', 'format' = 'json', 'scan.watermark.lateness' = 'partition');
CREATE TABLE r (k BIGINT, name STRING, n BIGINT, q DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '$DATA/r.json', 'format' = 'json');
"""


@dataclass
class Rows:
    """What may be in FROM."""

    sql: str
    columns: dict[str, str]
    #: The column of event time.
    time: str | None = None
    #: Rows are not taken back.
    stay: bool = True
    #: No two rows have the same event time.
    unique: bool = False
    #: There are rows.
    some: bool = False
    window: bool = False

    def of(self, kind: str) -> list[str]:
        return [name for name, of in self.columns.items() if of == kind]


BASE = [
    Rows("t", {"id": BIGINT, "k": BIGINT, "s": STRING, "v": BIGINT, "d": DECIMAL, "x": DOUBLE, "b": BOOLEAN, "ts": TIME}, "ts", some=True),
    Rows("u", {"id": BIGINT, "k": BIGINT, "s": STRING, "w": BIGINT, "x": DOUBLE, "us": TIME}, "us", unique=True, some=True),
    Rows("r", {"k": BIGINT, "name": STRING, "n": BIGINT, "q": DECIMAL}, some=True),
]


@dataclass
class Writer(Expressions):
    """Draws queries."""

    #: Names of views begin with it.
    name: str
    aliases: int = 0
    views: list[str] = field(default_factory=list)

    def alias(self) -> str:
        self.aliases += 1
        return f"a{self.aliases}"

    def some_columns(self, of: dict[str, str], least: int = 1, most: int = 4) -> list[str]:
        return self.rng.sample(list(of), min(len(of), self.rng.randrange(least, most + 1)))

    # Queries: each gives a SELECT, and what is known of its rows.

    def rows(self, depth: int) -> Rows:
        """A table, a view or a query in parentheses."""
        if depth == 0:
            return self.rng.choice(BASE)
        made = self.query(depth)
        if self.chance(0.15):
            return self.view(made)
        return replace(made, sql=f"({made.sql})")

    def view(self, of: Rows) -> Rows:
        name = f"{self.name}_v{len(self.views)}"
        self.views.append(f"CREATE VIEW {name} AS {of.sql}")
        return replace(of, sql=name)

    def query(self, depth: int) -> Rows:
        ways = [
            self.projection, self.projection, self.aggregation, self.aggregation, self.join, self.join, self.filter_by_rows,
            self.set_operation, self.distinct, self.windows, self.windows, self.windows, self.interval_join, self.window_join,
            self.first_rows, self.first_by_time, self.limit, self.over, self.grouping_sets, self.scalar,
        ]  # fmt: skip
        return self.rng.choice(ways)(depth - 1)

    def projection(self, depth: int) -> Rows:
        of = self.rows(depth)
        chosen = {}
        outputs = []
        kept_time = of.time is not None and self.chance(0.7)
        for number in range(self.rng.randrange(1, 4)):
            kind = self.rng.choice(TYPES)
            outputs.append(f"{self.expression(kind, of.columns)} AS c{number}")
            chosen[f"c{number}"] = kind
        for name in self.some_columns(of.columns, 0, 2):
            if name not in chosen and name != of.time:
                outputs.append(name)
                chosen[name] = of.columns[name]
        if kept_time and of.time:
            outputs.append(of.time)
            chosen[of.time] = TIME
        where = f" WHERE {self.condition(of.columns)}" if self.chance(0.6) else ""
        sql = f"SELECT {', '.join(outputs)} FROM {of.sql} AS {self.alias()}{where}"
        return Rows(sql, chosen, of.time if kept_time else None, of.stay, of.unique and kept_time, of.some and not where, of.window)

    def aggregates(self, of: dict[str, str]) -> dict[str, tuple[str, str]]:
        """Aggregates by their names, with their types."""
        made = {}
        for number in range(self.rng.randrange(1, 4)):
            function = self.rng.choice(["COUNT(*)", "COUNT", "COUNT(DISTINCT", "SUM", "SUM(DISTINCT", "MIN", "MAX", "AVG"])
            kind = self.rng.choice(
                {"SUM": [BIGINT, DOUBLE, DECIMAL], "SUM(DISTINCT": [BIGINT, DECIMAL], "AVG": [DOUBLE]}.get(
                    function, [BIGINT, STRING, DECIMAL, DOUBLE, TIME]
                )
            )
            argument = self.expression(kind, of, 1)
            text = function if "*" in function else f"{function} {argument})" if "(" in function else f"{function}({argument})"
            if self.chance(0.25):
                text += f" FILTER (WHERE {self.condition(of)})"
            result = BIGINT if "COUNT" in function else "DECIMAL(38,2)" if "SUM" in function and kind == DECIMAL else kind
            made[f"g{number}"] = (text, result)
        return made

    def keys(self, of: Rows, most: int = 2) -> dict[str, tuple[str, str]]:
        made = {}
        for number in range(self.rng.randrange(most + 1)):
            kind = self.rng.choice([BIGINT, BIGINT, STRING, BOOLEAN, DECIMAL, DOUBLE])
            columns = of.of(kind)
            text = self.rng.choice(columns) if columns and self.chance(0.7) else self.expression(kind, of.columns, 1)
            if not any(name in text for name in of.columns):
                continue
            made[f"k{number}"] = (text, kind)
        return made

    def aggregation(self, depth: int) -> Rows:
        of = self.rows(depth)
        keys, aggregates = self.keys(of), self.aggregates(of.columns)
        if not keys and not of.some:
            return self.distinct(depth)
        outputs = ", ".join(f"{text} AS {name}" for name, (text, _) in {**keys, **aggregates}.items())
        where = f" WHERE {self.condition(of.columns)}" if keys and self.chance(0.3) else ""
        by = f" GROUP BY {', '.join(text for text, _ in keys.values())}" if keys else ""
        having = (
            f" HAVING {self.rng.choice(['COUNT(*) > 1', 'COUNT(*) BETWEEN 2 AND 9', 'MAX(' + next(iter(of.columns)) + ') IS NOT NULL'])}"
            if keys and self.chance(0.3)
            else ""
        )
        kinds = {name: kind for name, (_, kind) in {**keys, **aggregates}.items()}
        return Rows(
            f"SELECT {outputs} FROM {of.sql} AS {self.alias()}{where}{by}{having}",
            kinds,
            stay=False,
            some=of.some and not where and not having,
        )

    def grouping_sets(self, depth: int) -> Rows:
        of = self.rows(depth)
        # The columns of a window must be in all groupings.
        columns = {name: kind for name, kind in of.columns.items() if kind != TIME}
        if len(columns) < 2:
            return self.distinct(depth)
        keys, aggregates = self.some_columns(columns, 2, 3), self.aggregates(of.columns)
        kind = self.rng.choice(["ROLLUP", "CUBE", "SETS"])
        sets = f"GROUPING SETS (({', '.join(keys)}), ({keys[0]}))" if kind == "SETS" else f"{kind} ({', '.join(keys)})"
        outputs = [f"{name} AS o{number}" for number, name in enumerate(keys)] + [
            f"{text} AS {name}" for name, (text, _) in aggregates.items()
        ]
        outputs.append(f"GROUPING({', '.join(keys)}) AS gs")
        kinds = {f"o{number}": of.columns[name] for number, name in enumerate(keys)} | {name: its for name, (_, its) in aggregates.items()}
        # A grouping without keys has a row also where there are none.
        where = "" if of.some else " HAVING COUNT(*) > 0"
        return Rows(
            f"SELECT {', '.join(outputs)} FROM {of.sql} AS {self.alias()} GROUP BY {sets}{where}", {**kinds, "gs": BIGINT}, stay=False
        )

    def sides(self, depth: int) -> tuple[Rows, str, Rows, str, dict[str, str], dict[str, tuple[str, str]]]:
        """Two inputs with their aliases, the columns of both, and what is selected of them."""
        left, right, one, two = self.rows(depth), self.rows(self.rng.randrange(depth + 1)), self.alias(), self.alias()
        both = {f"{one}.{name}": kind for name, kind in left.columns.items()} | {
            f"{two}.{name}": kind for name, kind in right.columns.items()
        }
        return left, one, right, two, both, {f"j{number}": (name, both[name]) for number, name in enumerate(self.some_columns(both, 2, 5))}

    def equality(self, left: Rows, one: str, right: Rows, two: str) -> str | None:
        kinds = [kind for kind in (BIGINT, STRING, BOOLEAN, DECIMAL) if left.of(kind) and right.of(kind)]
        if not kinds:
            return None
        kind = self.rng.choice(kinds[:2])
        return f"{one}.{self.rng.choice(left.of(kind))} = {two}.{self.rng.choice(right.of(kind))}"

    def join(self, depth: int) -> Rows:
        left, one, right, two, both, chosen = self.sides(depth)
        equality = self.equality(left, one, right, two)
        kind = self.rng.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        conditions = [equality] if equality else []
        if not equality or self.chance(0.3):
            conditions.append(self.condition(both))
        where = f" WHERE {self.condition(both)}" if self.chance(0.3) else ""
        outputs = ", ".join(f"{text} AS {name}" for name, (text, _) in chosen.items())
        sql = f"SELECT {outputs} FROM {left.sql} AS {one} {kind} {right.sql} AS {two} ON {' AND '.join(conditions)}{where}"
        return Rows(sql, {name: its for name, (_, its) in chosen.items()}, stay=False)

    def filter_by_rows(self, depth: int) -> Rows:
        left, one, right, two, both, _ = self.sides(depth)
        negated = self.rng.choice(["", "NOT "])
        equality = self.equality(left, one, right, two)
        chosen = self.some_columns(left.columns, 1, 4)
        if equality is None or self.chance(0.5):
            extra = f" AND {self.condition(both)}" if self.chance(0.3) else ""
            condition = f"{negated}EXISTS (SELECT 1 FROM {right.sql} AS {two} WHERE {equality or self.condition(both)}{extra})"
        else:
            mine, other = equality.split(" = ")
            condition = f"{mine} {negated}IN (SELECT {other} FROM {right.sql} AS {two})"
        if self.chance(0.3):
            condition += f" AND {self.condition({f'{one}.{name}': kind for name, kind in left.columns.items()})}"
        sql = f"SELECT {', '.join(f'{one}.{name}' for name in chosen)} FROM {left.sql} AS {one} WHERE {condition}"
        return Rows(sql, {name: left.columns[name] for name in chosen}, stay=False)

    def set_operation(self, depth: int) -> Rows:
        operation = self.rng.choice(["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
        kinds = [self.rng.choice([BIGINT, BIGINT, STRING, DECIMAL, TIME]) for _ in range(self.rng.randrange(1, 4))]
        branches, inputs = [], []
        for _ in range(self.rng.choice([2, 2, 3])):
            of = self.rows(depth)
            inputs.append(of)
            outputs = ", ".join(f"{self.expression(kind, of.columns, 1)} AS c{number}" for number, kind in enumerate(kinds))
            where = f" WHERE {self.condition(of.columns)}" if self.chance(0.3) else ""
            branches.append(f"SELECT {outputs} FROM {of.sql} AS {self.alias()}{where}")
        return Rows(f" {operation} ".join(branches), {f"c{number}": kind for number, kind in enumerate(kinds)}, stay=False)

    def distinct(self, depth: int) -> Rows:
        of = self.rows(depth)
        chosen = self.some_columns(of.columns, 1, 3)
        return Rows(
            f"SELECT DISTINCT {', '.join(chosen)} FROM {of.sql} AS {self.alias()}", {name: of.columns[name] for name in chosen}, stay=False
        )

    def timed(self, depth: int) -> Rows:
        """Rows with an event time, which are not taken back."""
        for _ in range(4):
            of = self.rows(depth)
            if of.time and of.stay and of.window:
                columns = [name for name in of.columns if name not in ("window_start", "window_end", "window_time")]
                kinds = {name: of.columns[name] for name in columns} | {"wt": TIME}
                return Rows(f"(SELECT {', '.join([*columns, 'window_time AS wt'])} FROM {of.sql} AS {self.alias()})", kinds, "wt")
            if of.time and of.stay:
                return of
        return self.rng.choice(BASE[:2])

    def window(self, of: Rows) -> str:
        length = self.rng.choice([2, 4, 10])
        times = self.rng.choice([1, 2, 3])
        data = f"TABLE {of.sql}" if not of.sql.startswith("(") else of.sql
        call = {
            "TUMBLE": SECONDS.format(length),
            "HOP": f"{SECONDS.format(length)}, {SECONDS.format(length * times)}",
            "CUMULATE": f"{SECONDS.format(length)}, {SECONDS.format(length * times)}",
        }
        function = self.rng.choice(list(call))
        offset = f", {SECONDS.format(1)}" if self.chance(0.1) else ""
        return f"TABLE({function}({data}, DESCRIPTOR({of.time}), {call[function]}{offset}))"

    def windows(self, depth: int) -> Rows:
        of = self.timed(depth)
        if self.chance(0.25):
            return self.session(of)
        if self.chance(0.25):
            chosen = [name for name in self.some_columns(of.columns) if name != of.time]
            outputs = [*chosen, "window_start", "window_end", "window_time"]
            kinds = {name: of.columns.get(name, TIME) for name in outputs}
            where = f" WHERE {self.condition(of.columns)}" if self.chance(0.4) else ""
            return Rows(f"SELECT {', '.join(outputs)} FROM {self.window(of)}{where}", kinds, window=True)
        keys, aggregates = self.keys(of), self.aggregates(of.columns)
        outputs = [f"{text} AS {name}" for name, (text, _) in {**keys, **aggregates}.items()] + [
            "window_start",
            "window_end",
            "window_time",
        ]
        where = f" WHERE {self.condition(of.columns)}" if self.chance(0.3) else ""
        by = ", ".join([text for text, _ in keys.values()] + ["window_start", "window_end", "window_time"])
        having = " HAVING COUNT(*) > 1" if self.chance(0.2) else ""
        sql = f"SELECT {', '.join(outputs)} FROM {self.window(of)}{where} GROUP BY {by}{having}"
        kinds = {name: kind for name, (_, kind) in {**keys, **aggregates}.items()} | dict.fromkeys(
            ["window_start", "window_end", "window_time"], TIME
        )
        return Rows(sql, kinds, "window_time" if self.chance(0.5) else None, window=True)

    def session(self, of: Rows) -> Rows:
        keys = self.rng.sample(of.of(BIGINT) + of.of(STRING), min(self.rng.randrange(3), len(of.of(BIGINT) + of.of(STRING))))
        if of.sql.startswith("("):
            of = self.view(replace(of, sql=of.sql[1:-1]))
        by = f" PARTITION BY {keys[0]}" if len(keys) == 1 else f" PARTITION BY ({', '.join(keys)})" if keys else ""
        aggregates = self.aggregates(of.columns)
        outputs = [f"{key} AS p{number}" for number, key in enumerate(keys)] + [
            f"{text} AS {name}" for name, (text, _) in aggregates.items()
        ]
        outputs += ["window_start", "window_end", "window_time"]
        grouped = ", ".join([*keys, "window_start", "window_end", "window_time"])
        gap = SECONDS.format(self.rng.choice([1, 3, 6]))
        sql = f"SELECT {', '.join(outputs)} FROM TABLE(SESSION(TABLE {of.sql}{by}, DESCRIPTOR({of.time}), {gap})) GROUP BY {grouped}"
        kinds = {f"p{number}": of.columns[key] for number, key in enumerate(keys)} | {name: kind for name, (_, kind) in aggregates.items()}
        return Rows(sql, kinds | dict.fromkeys(["window_start", "window_end", "window_time"], TIME), "window_time", window=True)

    def interval_join(self, depth: int) -> Rows:
        left, right, one, two = self.timed(depth), self.timed(0), self.alias(), self.alias()
        both = {f"{one}.{name}": kind for name, kind in left.columns.items()} | {
            f"{two}.{name}": kind for name, kind in right.columns.items()
        }
        chosen = {f"j{number}": (name, both[name]) for number, name in enumerate(self.some_columns(both, 2, 5))}
        low, high = self.rng.randrange(-3, 9), self.rng.randrange(0, 9)
        if low + high < 0:
            low = 0
        bounds = (
            f"{one}.{left.time} BETWEEN {two}.{right.time} - {SECONDS.format(low)} AND {two}.{right.time} + {SECONDS.format(high)}".replace(
                "- INTERVAL '-", "+ INTERVAL '"
            )
        )
        equality = self.equality(left, one, right, two)
        on = f"{bounds} AND {equality}" if equality and self.chance(0.7) else bounds
        if self.chance(0.2):
            on += f" AND {self.condition(both)}"
        outputs = ", ".join(f"{text} AS {name}" for name, (text, _) in chosen.items())
        there = f"SELECT * FROM {left.sql} AS {self.alias()} WHERE {left.time} IS NOT NULL"
        other = f"SELECT * FROM {right.sql} AS {self.alias()} WHERE {right.time} IS NOT NULL"
        if self.chance(0.3):
            kinds = dict(left.columns)
            negated = self.rng.choice(["", "NOT "])
            sql = f"SELECT * FROM ({there}) AS {one} WHERE {negated}EXISTS (SELECT 1 FROM ({other}) AS {two} WHERE {on})"
            return Rows(sql, kinds, left.time if self.chance(0.5) else None)
        kind = self.rng.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        kinds = {name: its for name, (_, its) in chosen.items()}
        return Rows(f"SELECT {outputs} FROM ({there}) AS {one} {kind} ({other}) AS {two} ON {on}", kinds)

    def window_join(self, depth: int) -> Rows:
        of = self.timed(min(depth, 1))
        call = self.window(of)
        sides = []
        for _ in range(2):
            keys, aggregates = self.keys(of, 1), self.aggregates(of.columns)
            outputs = ", ".join(
                [f"{text} AS {name}" for name, (text, _) in {**keys, **aggregates}.items()] + ["window_start", "window_end"]
            )
            by = ", ".join([text for text, _ in keys.values()] + ["window_start", "window_end"])
            kinds = {name: kind for name, (_, kind) in {**keys, **aggregates}.items()} | dict.fromkeys(["window_start", "window_end"], TIME)
            sides.append(Rows(f"SELECT {outputs} FROM {call} GROUP BY {by}", kinds))
        one, two = self.alias(), self.alias()
        left, right = sides
        on = f"{one}.window_start = {two}.window_start AND {one}.window_end = {two}.window_end"
        if "k0" in left.columns and left.columns["k0"] == right.columns.get("k0"):
            on += f" AND {one}.k0 = {two}.k0"
        both = {f"{one}.{name}": kind for name, kind in left.columns.items()} | {
            f"{two}.{name}": kind for name, kind in right.columns.items()
        }
        if self.chance(0.3):
            condition = f"{self.rng.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM ({right.sql}) AS {two} WHERE {on})"
            return Rows(f"SELECT * FROM ({left.sql}) AS {one} WHERE {condition}", left.columns, window=True)
        chosen = {f"j{number}": (name, both[name]) for number, name in enumerate(self.some_columns(both, 2, 5))}
        kind = self.rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        outputs = ", ".join(f"{text} AS {name}" for name, (text, _) in chosen.items())
        return Rows(
            f"SELECT {outputs} FROM ({left.sql}) AS {one} {kind} ({right.sql}) AS {two} ON {on}",
            {name: its for name, (_, its) in chosen.items()},
        )

    def order(self, of: dict[str, str]) -> str:
        """An order of all columns, so that equal rows are alike."""
        names = self.rng.sample(list(of), len(of))
        return ", ".join(f"{name} {self.rng.choice(['ASC', 'DESC', 'DESC', 'ASC NULLS LAST', 'DESC NULLS FIRST'])}" for name in names)

    def first_rows(self, depth: int) -> Rows:
        of = self.rows(depth)
        chosen = {name: of.columns[name] for name in self.some_columns(of.columns, 2, 4)}
        by = self.some_columns(chosen, 0, 1)
        windowed = of.window and of.stay and self.chance(0.7) and {"window_start", "window_end"} <= set(of.columns)
        if windowed:
            chosen |= {"window_start": TIME, "window_end": TIME}
            by += ["window_start", "window_end"]
        partition = f"PARTITION BY {', '.join(dict.fromkeys(by))} " if by else ""
        inner, outer = self.alias(), self.alias()
        numbered = (
            f"SELECT {', '.join(chosen)}, ROW_NUMBER() OVER ({partition}ORDER BY {self.order(chosen)}) AS place FROM {of.sql} AS {inner}"
        )
        outputs = self.some_columns({**chosen, "place": BIGINT}, 1, 5)
        sql = f"SELECT {', '.join(outputs)} FROM ({numbered}) AS {outer} WHERE place <= {self.rng.choice([1, 1, 2, 3])}"
        return Rows(sql, {name: chosen.get(name, BIGINT) for name in outputs}, stay=bool(windowed), window=bool(windowed))

    def first_by_time(self, depth: int) -> Rows:
        """The first row of each key, which stays."""
        of = self.timed(depth)
        if not of.unique:
            of = BASE[1]
        by = self.some_columns({name: kind for name, kind in of.columns.items() if name != of.time}, 0, 2)
        partition = f"PARTITION BY {', '.join(by)} " if by else ""
        chosen = self.some_columns(of.columns, 1, 4)
        if of.time and of.time not in chosen and self.chance(0.7):
            chosen.append(of.time)
        number = f"ROW_NUMBER() OVER ({partition}ORDER BY {of.time}) AS place"
        numbered = f"SELECT *, {number} FROM {of.sql} AS {self.alias()} WHERE {of.time} IS NOT NULL"
        sql = f"SELECT {', '.join(chosen)} FROM ({numbered}) AS {self.alias()} WHERE place = 1"
        time = of.time if of.time in chosen else None
        return Rows(sql, {name: of.columns[name] for name in chosen}, time, unique=time is not None)

    def limit(self, depth: int) -> Rows:
        of = self.rows(depth)
        chosen = {name: of.columns[name] for name in self.some_columns(of.columns, 1, 4)}
        offset = f" OFFSET {self.rng.randrange(1, 4)}" if self.chance(0.3) else ""
        limit = self.rng.randrange(1, 6)
        sql = f"SELECT {', '.join(chosen)} FROM {of.sql} AS {self.alias()} ORDER BY {self.order(chosen)} LIMIT {limit}{offset}"
        return Rows(f"SELECT * FROM ({sql}) AS {self.alias()}", chosen, stay=False)

    def over(self, depth: int) -> Rows:
        of = self.timed(depth)
        columns = {name: kind for name, kind in of.columns.items() if name != of.time}
        by = f"PARTITION BY {self.rng.choice(list(columns))} " if columns and self.chance(0.8) else ""
        frames = [
            "",
            f" RANGE BETWEEN {SECONDS.format(self.rng.randrange(1, 9))} PRECEDING AND CURRENT ROW",
            " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        ]
        if of.unique:
            frames += [
                f" ROWS BETWEEN {self.rng.randrange(4)} PRECEDING AND CURRENT ROW",
                " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            ]
        outputs = [f"{name}" for name in self.some_columns(of.columns, 1, 3)]
        kinds = {name: of.columns[name] for name in outputs}
        for number in range(self.rng.randrange(1, 3)):
            kind = self.rng.choice([BIGINT, DECIMAL, BIGINT])
            function = self.rng.choice(["COUNT", "SUM", "MIN", "MAX"])
            over = f"OVER ({by}ORDER BY {of.time}{self.rng.choice(frames)})"
            if of.unique and self.chance(0.3):
                columns_of = of.of(kind) or ["id"]
                text = self.rng.choice(
                    [
                        f"LAG({self.rng.choice(columns_of)}, {self.rng.randrange(1, 3)}) OVER ({by}ORDER BY {of.time})",
                        f"ROW_NUMBER() OVER ({by}ORDER BY {of.time})",
                    ]
                )
                if not of.of(kind):
                    text = f"ROW_NUMBER() OVER ({by}ORDER BY {of.time})"
                result = kind if "LAG" in text else BIGINT
            else:
                text = f"{function}({self.expression(kind, of.columns, 1)}) {over}"
                result = BIGINT if function == "COUNT" else "DECIMAL(38,2)" if function == "SUM" and kind == DECIMAL else kind
            name = f"f{self.aliases}_{number}"
            outputs.append(f"{text} AS {name}")
            kinds[name] = result
        sql = f"SELECT {', '.join(outputs)} FROM (SELECT * FROM {of.sql} AS {self.alias()} WHERE {of.time} IS NOT NULL) AS {self.alias()}"
        return Rows(sql, kinds, of.time if of.time in kinds else None)

    def scalar(self, depth: int) -> Rows:
        of, other = self.rows(depth), self.rng.choice(BASE)
        one = self.alias()
        kind = self.rng.choice([BIGINT, STRING])
        text = self.expression(kind, {f"{one}.{name}": its for name, its in of.columns.items()}, 1)
        chosen = self.some_columns(of.columns, 1, 3)
        value = f"(SELECT {self.rng.choice(['MAX', 'MIN'])}({self.rng.choice(other.of(kind))}) FROM {other.sql})"
        condition = f"{text} {self.rng.choice(['=', '<', '>', '<>'])} {value}"
        sql = f"SELECT {', '.join(f'{one}.{name}' for name in chosen)} FROM {of.sql} AS {one} WHERE {condition}"
        return Rows(sql, {name: of.columns[name] for name in chosen}, stay=False)


@dataclass
class Query:
    """A query into a table of its own, and the views that it needs."""

    name: str
    views: list[str]
    sql: str
    columns: dict[str, str]

    def statements(self) -> list[str]:
        return [*self.views, f"INSERT INTO {self.name} {self.sql}"]

    def table(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        return f"CREATE TABLE {self.name} ({columns}) WITH ('connector' = 'print')"


def draw(seed: str, name: str) -> Query:
    """The query of a seed."""
    writer = Writer(random.Random(seed), name)
    made = writer.query(writer.rng.choice([1, 2, 2, 3]))
    return Query(name, writer.views, made.sql, made.columns)
