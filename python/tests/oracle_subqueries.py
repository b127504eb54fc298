"""Queries with subqueries by chance, compared with DuckDB: `python oracle_subqueries.py SEED` runs seeds until one fails."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
from oracle_data import load, write
from oracle_queries import Query
from oracle_run import BATCH, WAYS, FailedError, Rows, answers, database, differences, printed, run
from oracle_scopes import Relation, Scope
from oracle_sql import Table, script
from oracle_subquery_cases import CASES
from oracle_subquery_cases import TABLES as CASE_TABLES

NUMBER, TEXT, TRUTH = "BIGINT", "STRING", "BOOLEAN"
#: The tables have columns of the same names on purpose.
TABLES = "".join(
    f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '$DATA/{name}.json', 'format' = 'json');\n"
    for name, columns in {"x": "k INT, a INT, b STRING", "y": "k INT, a INT, b STRING", "z": "k INT, a INT, c INT NOT NULL"}.items()
)
COLUMNS = {
    "x": {"k": NUMBER, "a": NUMBER, "b": TEXT},
    "y": {"k": NUMBER, "a": NUMBER, "b": TEXT},
    "z": {"k": NUMBER, "a": NUMBER, "c": NUMBER},
}
#: In streaming mode its rows are updated.
UPDATED = "(SELECT k, MAX(a) AS a, COUNT(*) AS n FROM y GROUP BY k)"
OPERATORS = ["=", "<>", "<", "<=", ">", ">="]
#: Levels of subqueries.
LEVELS_MAX = 3
#: Queries of a script.
OF_A_SCRIPT = 10
#: The tables have few rows, so batches have fewer.
FEW = [[re.sub("batch-rows=.*", "batch-rows=1", part) for part in way] for way in WAYS]
#: What the planner says of a query that it does not take.
REFUSAL = re.compile(r"^error: line (\d+), column \d+: (.*)", re.MULTILINE)
OUR_FAULT = "internal error"


@dataclass
class Subqueries:
    """Draws queries."""

    rng: random.Random
    #: So many further subqueries may come.
    left: int
    aliases: int = 0
    #: Tables of WITH that are known here.
    tables: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Depths of the queries whose columns were read.
    read: list[int] = field(default_factory=list)
    #: An aggregate of all rows may have none. It then gives no row in streaming mode.
    may_lack_rows: bool = False
    #: Conditions in our words and in DuckDB's.
    words: list[tuple[str, str]] = field(default_factory=list)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def alias(self, used: list[Relation], own: str | None = None) -> str:
        """A name for a relation. It may be the name of another table."""
        taken = {of.name for of in used}
        others = [name for name in COLUMNS if name not in taken]
        if own is not None and own not in taken and self.chance(0.5):
            return own
        if others and self.chance(0.12):
            return self.rng.choice(others)
        self.aliases += 1
        return f"t{self.aliases}"

    def room(self, scope: Scope) -> bool:
        return self.left > 0 and scope.depth < LEVELS_MAX

    # Values and conditions of a scope.

    def literal(self, kind: str) -> str:
        return str(self.rng.randrange(4)) if kind == NUMBER else f"'{self.rng.choice('abc')}'"

    def column(self, kind: str, scope: Scope, *, own: bool | None = None) -> str | None:
        """A column, of this query if `own`, of one around it if not."""
        found = list(scope.names(kind))
        if own is None:
            own = self.chance(0.65)
            if len({depth == scope.depth for _, depth in found}) == 1:
                own = found[0][1] == scope.depth
        found = [(name, depth) for name, depth in found if (depth == scope.depth) == own]
        if not found:
            return None
        bare = [of for of in found if "." not in of[0]]
        name, depth = self.rng.choice(bare if bare and self.chance(0.3) else found)
        self.read.append(depth)
        return name

    def aggregate(self, kind: str, grouped: Scope) -> str:
        """An aggregate. Its argument reads a column of this query: that of outer columns alone belongs to a query around it."""
        scope = replace(grouped, keys=None)
        function = self.rng.choice(["MIN", "MAX"] if kind == TEXT else ["MIN", "MAX", "SUM", "COUNT", "COUNT(DISTINCT", "COUNT(*)", "MAX"])
        of = kind if not function.startswith("COUNT") else self.rng.choice([NUMBER, TEXT])
        argument = self.column(of, scope, own=True)
        if argument is None:
            return "COUNT(*)" if kind == NUMBER else self.literal(kind)
        if function != "COUNT(*)" and self.chance(0.25):
            way = self.rng.choice(["COALESCE({}, {})", "CASE WHEN {1} THEN {0} END", "{} + {}"][: 3 if of == NUMBER else 2])
            argument = way.format(argument, self.value(TRUTH if "WHEN" in way else of, scope, 1))
        if function == "COUNT(*)":
            return function
        text = f"{function} {argument})" if "(" in function else f"{function}({argument})"
        return f"{text} FILTER (WHERE {self.condition(scope, 0)})" if self.chance(0.08) else text

    def leaf(self, kind: str, scope: Scope) -> str:
        if scope.keys is not None and self.chance(0.6):
            return self.aggregate(kind, scope)
        return (self.column(kind, scope) if self.chance(0.9) else None) or self.literal(kind)

    def value(self, kind: str, scope: Scope, levels: int = 2) -> str:
        if kind == TRUTH:
            return self.condition(scope, levels)
        if self.room(scope) and self.chance(0.3):
            return self.scalar(kind, scope)
        if levels == 0 or self.chance(0.5):
            return self.leaf(kind, scope)
        one, two = self.value(kind, scope, levels - 1), self.value(kind, scope, levels - 1)
        way = self.rng.choice(["case", "COALESCE({}, {})", "NULLIF({}, {})", "({} + {})", "({} - {})"][: 5 if kind == NUMBER else 3])
        return f"CASE WHEN {self.condition(scope, levels - 1)} THEN {one} ELSE {two} END" if way == "case" else way.format(one, two)

    def kind(self, scope: Scope) -> str:
        return TEXT if self.chance(0.2) and any(True for _ in scope.names(TEXT)) else NUMBER

    def condition(self, scope: Scope, levels: int = 2) -> str:
        if self.room(scope) and self.chance(0.5):
            return self.asked(scope)
        if levels > 0 and self.chance(0.5):
            way = self.rng.choice(["({} AND {})", "({} OR {})", "({} OR {})", "(NOT {})", "({} IS NOT TRUE)", "({} IS NULL)"])
            return way.format(*(self.condition(scope, levels - 1) for _ in range(way.count("{}"))))
        kind = self.kind(scope)
        if self.chance(0.2):
            return f"({self.leaf(kind, scope)} IS {self.rng.choice(['', 'NOT '])}NULL)"
        if self.chance(0.2):
            way = self.rng.choice(["({} BETWEEN {} AND {})", "({} IN ({}, {}))", "({} NOT IN ({}, {}))"])
            return way.format(self.leaf(kind, scope), self.value(kind, scope, 0), self.value(kind, scope, 0))
        return f"({self.leaf(kind, scope)} {self.rng.choice([*OPERATORS, 'IS NOT DISTINCT FROM'])} {self.leaf(kind, scope)})"

    def asked(self, scope: Scope) -> str:
        """A condition with a subquery."""
        kind = self.kind(scope)
        negated = self.rng.choice(["", "NOT "])
        form = self.rng.choice(["exists", "exists", "in", "in", "rows", "any", "all", "scalar"])
        if form == "exists":
            return f"({negated}EXISTS ({self.query(scope, [self.kind(scope)], star=True)}))"
        if form == "scalar":
            return f"({self.value(kind, scope, 1)} {self.rng.choice(OPERATORS)} {self.scalar(kind, scope)})"
        one = self.value(kind, scope, 1)
        if form == "in":
            return f"({one} {negated}IN ({self.query(scope, [kind])}))"
        if form == "rows":
            two, query = self.leaf(NUMBER, scope), self.query(scope, [kind, NUMBER])
            ours = f"(({one}, {two}) {negated}IN ({query}))"
            if scope.keys is None:
                self.words.append((ours, self.rows_in(one, two, negated, query)))
            return ours
        word = self.rng.choice(["ANY", "SOME"]) if form == "any" else "ALL"
        return f"({one} {self.rng.choice(OPERATORS)} {word} ({self.query(scope, [kind])}))"

    def rows_in(self, one: str, two: str, negated: str, query: str) -> str:
        """Whether a subquery has a row of two values, in words for DuckDB: it has no such IN where the subquery reads outer columns."""
        self.aliases += 1
        first, second = f"p{self.aliases}", f"q{self.aliases}"
        equal = f"{first} = {one} AND {second} = {two}"
        there = f"EXISTS (SELECT 1 FROM ({query}) AS r{self.aliases}({first}, {second}) WHERE "
        yes, no = ("FALSE", "TRUE") if negated else ("TRUE", "FALSE")
        return f"(CASE WHEN {there}{equal}) THEN {yes} WHEN {there}({equal}) IS NULL) THEN NULL ELSE {no} END)"

    def scalar(self, kind: str, scope: Scope) -> str:
        return f"({self.query(scope, [kind], one=True)})"

    # Queries.

    def some_columns(self) -> dict[str, str]:
        kinds = {"k": NUMBER, "a": NUMBER, "b": TEXT, "c": NUMBER}
        return {name: kinds[name] for name in self.rng.sample(list(kinds), self.rng.choice([1, 2, 2, 3]))}

    def derived(self, outer: Scope | None, used: list[Relation]) -> tuple[str, Relation]:
        """A subquery in FROM."""
        columns = self.some_columns()
        name = self.alias(used)
        if self.chance(0.1):
            rows = [", ".join(self.value(kind, outer, 0) if outer else self.literal(kind) for kind in columns.values()) for _ in range(2)]
            text = f"(VALUES {', '.join(f'({row})' for row in rows)}) AS {name}({', '.join(columns)})"
        elif self.chance(0.4):
            text = f"({self.query(outer, list(columns.values()))}) AS {name}({', '.join(columns)})"
        else:
            text = f"({self.query(outer, list(columns.values()), names=list(columns))}) AS {name}"
        return text, Relation(name, columns)

    def relation(self, outer: Scope | None, used: list[Relation]) -> tuple[str, Relation]:
        if self.left > 0 and (outer is None or self.room(outer)) and self.chance(0.2):
            return self.derived(outer, used)
        if self.chance(0.12) and "y" not in self.tables:
            name = self.alias(used)
            return f"{UPDATED} AS {name}", Relation(name, {"k": NUMBER, "a": NUMBER, "n": NUMBER})
        known = COLUMNS | self.tables
        table = self.rng.choice([*known, *self.tables, *self.tables])
        name = self.alias(used, table)
        return (table if name == table else f"{table} AS {name}"), Relation(name, known[table])

    def relations(self, scope: Scope) -> str:
        """What follows FROM. Its columns come into the scope."""
        text, first = self.relation(scope.outer, scope.relations)
        scope.relations.append(first)
        comma = False
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2] if scope.depth else [0, 0, 1, 1, 1, 2])):
            if self.room(scope) and self.chance(0.25):
                around = Scope(scope.outer, scope.depth, [], list(scope.relations), dict(scope.merged))
                form = self.rng.choice([", LATERAL {}", " CROSS JOIN LATERAL {}", " LEFT JOIN LATERAL {} ON TRUE"])
                if comma:
                    form = ", LATERAL {}"
                right, of = self.derived(around, scope.relations)
                text += form.format(right)
                scope.relations.append(of)
                comma = comma or form.startswith(",")
                continue
            right, of = self.relation(scope.outer, scope.relations)
            if comma or self.chance(0.2):
                text += f", {right}"
                scope.relations.append(of)
                comma = True
                continue
            text += self.joined(scope, right, of)
        return text

    def joined(self, scope: Scope, right: str, of: Relation) -> str:
        """What joins a further relation by JOIN."""
        side = self.rng.choice(["", "", "LEFT ", "LEFT ", "RIGHT ", "FULL "])
        shared = {name: kind for name, kind in of.columns.items() if name in scope.relations[0].columns}
        usual = len(scope.relations) == 1 and shared
        scope.relations.append(of)
        if usual and self.chance(0.2):
            if self.chance(0.5):
                scope.merged |= shared
                return f" NATURAL {side}JOIN {right}"
            name = self.rng.choice(list(shared))
            scope.merged[name] = shared[name]
            return f" {side}JOIN {right} USING ({name})"
        if not side and self.chance(0.1):
            return f" CROSS JOIN {right}"
        lefts = [name for name, depth in self.of(scope, scope.relations[:-1]) if depth == scope.depth]
        rights = [name for name, depth in self.of(scope, [of]) if depth == scope.depth]
        conditions = []
        if lefts and rights and self.chance(0.9):
            operator = self.rng.choice(["=", "=", "=", "=", "=", "<", "IS NOT DISTINCT FROM"])
            conditions.append(f"{self.rng.choice(lefts)} {operator} {self.rng.choice(rights)}")
        if not conditions or self.chance(0.35):
            conditions.append(self.condition(scope, 1))
        return f" {side}JOIN {right} ON {' AND '.join(conditions)}"

    def of(self, scope: Scope, relations: list[Relation]) -> list[tuple[str, int]]:
        """Names of numbers of some relations, with their relations."""
        return [(name, depth) for name, depth in scope.names(NUMBER) if name.split(".")[0] in {of.name for of in relations} and "." in name]

    def linked(self, scope: Scope) -> str | None:
        """A condition on a column of a query around this one."""
        kind = self.kind(scope)
        own = self.column(kind, scope, own=True)
        other = self.column(kind, scope, own=False) if own else None
        if other is None:
            return None
        first = f"{own} {self.rng.choice(['=', '=', '=', '<', '<>', '>=', 'IS NOT DISTINCT FROM'])} {other}"
        return f"({first} OR {self.condition(scope, 0)})" if self.chance(0.15) else first

    def block(self, scope: Scope, kinds: list[str], names: list[str], form: str, *, star: bool = False) -> str:
        """One SELECT: `plain`, `distinct`, `grouped`, or the aggregates of `all` rows."""
        start = len(self.read)
        tables = self.relations(scope)
        conditions = [self.linked(scope)] if scope.outer and self.chance(0.75) else []
        if self.chance(0.4 if scope.depth else 0.6):
            conditions.append(self.condition(scope))
        where = f" WHERE {self.rng.choice([' AND ', ' AND ', ' OR ']).join(filter(None, conditions))}" if any(conditions) else ""
        by = ""
        if form == "all":
            scope.keys = set()
            certain = not where and tables in COLUMNS and tables not in self.tables
            self.may_lack_rows |= not certain and min(self.read[start:], default=scope.depth) >= scope.depth
        elif form == "grouped":
            possible = [of for of in scope.own() if of[0] is None or of[1] not in scope.merged]
            keys = self.rng.sample(possible, min(len(possible), self.rng.choice([1, 1, 2])))
            scope.keys = {(relation, column) for relation, column, _ in keys}
            bare = [
                column if relation is None or (scope.alone(column) and self.chance(0.3)) else f"{relation}.{column}"
                for relation, column, _ in keys
            ]
            by = f" GROUP BY {', '.join(bare)}"
        if star and form == "plain" and self.chance(0.7):
            outputs = [self.rng.choice(["*", "1", "NULL"])]
        else:
            values = [self.value(kind, scope) for kind in kinds]
            if form == "all" and kinds[0] != TRUTH and self.chance(0.6):
                values[0] = self.aggregate(kinds[0], scope)
            outputs = [f"{value} AS {name}" for value, name in zip(values, names, strict=True)]
        having = f" HAVING {self.condition(scope, 1)}" if form in ("grouped", "all") and self.chance(0.25) else ""
        if form == "all" and not having and not re.search(r"^(MIN|MAX|SUM|COUNT)\(", outputs[0]):
            # What the outputs read may be no aggregate of this query.
            having = f" HAVING COUNT(*) {self.rng.choice(['>= 0', '> 0', '<> 1'])}"
        return f"SELECT {'DISTINCT ' if form == 'distinct' else ''}{', '.join(outputs)} FROM {tables}{where}{by}{having}"

    def query(self, outer: Scope | None, kinds: list[str], *, names: list[str] | None = None, one: bool = False, star: bool = False) -> str:
        """A query with columns of these types. `one`: it has one row at most. `star`: its columns do not matter."""
        self.left -= 1
        depth = 0 if outer is None else outer.depth + 1
        names = names or [f"v{number}" for number in range(len(kinds))]
        tables = dict(self.tables)
        before = self.common_table(outer) if self.left > 0 and self.chance(0.12) else ""
        forms = (
            ["all"] * 6 + ["plain", "plain", "grouped", "distinct", "set"]
            if one
            else ["plain"] * 6 + ["distinct", "grouped", "grouped", "all", "all", "set"]
        )
        form = self.rng.choice(forms)
        if form == "set":
            parts = []
            for _ in range(2):
                scope = Scope(outer, depth, names)
                parts.append(self.block(scope, kinds, names, self.rng.choice(["plain", "plain", "distinct", "grouped", "all"])))
            text = f" {self.rng.choice(['UNION', 'UNION ALL', 'UNION ALL', 'INTERSECT', 'EXCEPT'])} ".join(parts)
        else:
            scope = Scope(outer, depth, names)
            text = self.block(scope, kinds, names, form, star=star)
        if (one and form != "all") or (not star and self.chance(0.1)):
            # Rows that this order does not distinguish are equal.
            order = [f"{place + 1}{self.rng.choice([' ASC', ' DESC'])}" for place in range(len(kinds))]
            first = self.leaf(NUMBER, scope) if form in ("plain", "grouped") and self.chance(0.5) else ""
            order = [f"{first}{self.rng.choice([' ASC', ' DESC'])}", *order] if "." in first else order
            offset = f" OFFSET {self.rng.randrange(1, 3)}" if self.chance(0.2) else ""
            text += f" ORDER BY {', '.join(order)} LIMIT {1 if one else self.rng.randrange(1, 4)}{offset}"
        self.tables = tables
        return before + text

    def common_table(self, outer: Scope | None) -> str:
        """WITH and a table. It may hide a table of the same name."""
        self.aliases += 1
        name = self.rng.choice([*COLUMNS, *[f"w{self.aliases}"] * 7])
        columns = self.some_columns()
        text = f"WITH {name} AS ({self.query(outer, list(columns.values()), names=list(columns))}) "
        self.tables = {**self.tables, name: columns}
        return text


@dataclass
class Asked(Query):
    """A query, and the same for DuckDB."""

    theirs: str
    may_lack_rows: bool


def draw(seed: str, name: str) -> Asked:
    """The query of a seed. It has a subquery."""
    rng = random.Random(seed)
    while True:
        writer = Subqueries(rng, rng.choice([2, 2, 2, 3, 3, 4, 5]))
        kinds = rng.choices([NUMBER, NUMBER, TEXT, TRUTH], k=rng.choice([1, 2, 3]))
        columns = {f"c{number}": kind for number, kind in enumerate(kinds)}
        sql = writer.query(None, kinds, names=list(columns))
        if re.search(r"\((SELECT|WITH)", sql.replace(UPDATED, "")):
            theirs = sql
            for ours, of in reversed(writer.words):
                theirs = theirs.replace(ours, of)
            return Asked(name, [], sql, columns, theirs, writer.may_lack_rows)


def drawn_rows(rng: random.Random, table: Table) -> list[dict[str, Any]]:
    """Few rows. A third of the values that may be NULL are."""
    values: dict[str, list[object]] = {"INT": [0, 1, 1, 2, 3], "STRING": ["a", "b", "c"]}

    def value(name: str, kind: str) -> object:
        return None if name not in table.not_null and rng.random() < 1 / 3 else rng.choice(values[kind])

    count = rng.choice([0, 1, 2, 3, 4, 5, 6, 8])
    return [{name: value(name, kind) for name, kind in table.columns.items()} for _ in range(count)]


@dataclass
class Comparison:
    """Queries that run as one job, and what came of them."""

    folder: Path
    #: Statements that declare the tables.
    tables: str
    #: Queries that the planner does not take, by what it says.
    refused: dict[str, list[str]] = field(default_factory=dict)
    #: Queries that DuckDB does not take, by what it says.
    dropped: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def answer(self, duck: duckdb.DuckDBPyConnection, query: Asked) -> Rows | None:
        sinks = [script(query.table()).tables[query.name]]
        try:
            return answers(duck, [f"INSERT INTO {query.name} {query.theirs}"], sinks)[query.name]
        except ValueError as error:
            self.dropped[str(error).splitlines()[0]] += 1
            return None

    def compare(self, way: list[str], queries: list[Asked], wanted: dict[str, Rows]) -> None:
        """Runs the queries. Those that the planner refuses are left out. If the job fails, each runs alone."""
        queries = list(queries)
        while queries:
            declared = (self.tables.replace("$DATA", str(self.folder)) + "".join(query.table() + ";\n" for query in queries)).splitlines()
            file = self.folder / "script.sql"
            file.write_text("\n".join([*declared, *(f"{query.statements()[0]};" for query in queries)]))
            try:
                found = printed(run(file, *way), [script(query.table()).tables[query.name] for query in queries])
            except (AssertionError, subprocess.TimeoutExpired) as error:
                refusal = REFUSAL.search(str(error)) if isinstance(error, FailedError) else None
                place = int(refusal[1]) - 1 - len(declared) if refusal else -1
                if refusal and 0 <= place < len(queries) and OUR_FAULT not in str(error):
                    # Each query is a line.
                    refused = queries.pop(place)
                    self.refused.setdefault(re.sub(r"'[^']*'", "'...'", refusal[2]), []).append(f"{refused.name} {refused.sql}")
                elif len(queries) > 1:
                    for query in queries:
                        self.compare(way, [query], wanted)
                    return
                else:
                    self.report(queries.pop(), way, str(error))
                continue
            for query in queries:
                if different := differences(found, {query.name: wanted[query.name]}):
                    self.report(query, way, different)
            return

    def report(self, query: Asked, way: list[str], what: str) -> None:
        self.wrong.append(f"{query.name}, {' '.join(way)}\n{query.sql}\n{what}")


def compare(seed: int, folder: Path, ways: list[list[str]], only: str | None = None) -> Comparison:
    """Runs the queries of a seed in each way."""
    comparison = Comparison(folder, TABLES)
    tables = script(TABLES).tables
    rng = random.Random(seed)
    rows = {name: drawn_rows(rng, table) for name, table in tables.items()}
    duck = database()
    for name, table in tables.items():
        write(folder / f"{name}.json", table, rows[name])
        load(duck, table, rows[name], folder)
    queries = [draw(f"{seed}.{number}", f"q{number}") for number in range(OF_A_SCRIPT)]
    wanted = {
        query.name: found for query in queries if only in (None, query.name) and (found := comparison.answer(duck, query)) is not None
    }
    for way in ways:
        # In streaming mode, an aggregate of no rows has none.
        final = BATCH[0] in way
        of = [query for query in queries if query.name in wanted and (final or (all(rows.values()) and not query.may_lack_rows))]
        comparison.compare(way, of, wanted)
    return comparison


def compare_cases(folder: Path, way: list[str]) -> Comparison:
    """Runs the fixed cases."""
    comparison = Comparison(folder, CASE_TABLES)
    queries, wanted = [], {}
    for number, (kinds, sql, rows) in enumerate(CASES):
        query = Asked(f"q{number}", [], sql, {f"c{place}": kind for place, kind in enumerate(kinds)}, sql, may_lack_rows=False)
        queries.append(query)
        wanted[query.name] = Counter(rows)
    comparison.compare(way, queries, wanted)
    return comparison


def main() -> None:
    seed = int(sys.argv[1])
    only = sys.argv[2] if len(sys.argv) > 2 else None
    while True:
        with tempfile.TemporaryDirectory() as folder:
            found = compare(seed, Path(folder), FEW, only)
        print(f"seed {seed}", *(f"  refused: {what}: {queries[0]}" for what, queries in found.refused.items()), sep="\n", flush=True)
        if found.wrong or only:
            sys.exit("\n\n".join(found.wrong))
        seed += 1


if __name__ == "__main__":
    main()
