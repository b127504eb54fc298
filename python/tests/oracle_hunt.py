"""Queries by chance, compared with DuckDB: `python oracle_hunt.py SEED` draws scripts from SEED on, until one fails."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from oracle_data import Kind, fill, load
from oracle_queries import TABLES, Query, draw
from oracle_run import WAYS, FailedError, Rows, answers, database, differences, printed, run
from oracle_sql import script

#: Queries that run as one job.
OF_A_SCRIPT = 10
#: Valid queries that the planner refuses. They say so with a place, and count as nothing here.
REFUSED = [
    "is no longer an event-time column",
    "OVER needs ORDER BY of the event time",
    "several windows of CUMULATE have the same window_start",
    "a grouping lacks the window's column",
    "between SESSION and its GROUP BY",
]
#: A query with more rows is left out.
ROWS_MAX = 20_000


def check(seed: int, folder: Path, ways: list[list[str]], only: str | None = None) -> list[str]:
    """Runs the queries of a seed, and returns what is wrong."""
    tables = script(TABLES).tables
    rng = random.Random(seed)
    rows = fill(rng, [tables["t"], tables["r"]], folder / "data", Kind(50, 3_000, untimed=True))
    # The time of each row is another one, so rows have an order.
    rows |= {"u": fill(rng, [tables["u"]], folder / "data", Kind(50, 3_000, unique=True))["u"]}
    duck = database()
    for table in tables.values():
        load(duck, table, rows[table.name], folder)
    queries = [draw(f"{seed}.{number}", f"q{number}") for number in range(OF_A_SCRIPT)]
    queries = [query for query in queries if only in (None, query.name)]
    sinks = {query.name: script(query.table()).tables[query.name] for query in queries}
    wanted: dict[str, Rows] = {}
    for query in queries:
        wanted |= answers(duck, query.statements(), [sinks[query.name]])
    queries = [query for query in queries if wanted[query.name].total() <= ROWS_MAX]

    def compare(of: list[Query], way: list[str]) -> str:
        file = folder / "script.sql"
        parts = [query.table() for query in of] + [part for query in of for part in query.statements()]
        file.write_text((TABLES + "".join(part + ";\n" for part in parts)).replace("$DATA", str(folder / "data")))
        rows = printed(run(file, *way), [sinks[query.name] for query in of])
        return differences(rows, {query.name: wanted[query.name] for query in of})

    wrong = []
    for way in ways:
        try:
            found = compare(queries, way)
            alone = [query for query in queries if f"{query.name}: " in found]
        except (FailedError, AssertionError):
            alone = queries
        for query in alone:
            try:
                found = compare([query], way) or (found if len(alone) < len(queries) else "")
            except (FailedError, AssertionError) as error:
                found = "" if any(text in str(error) for text in REFUSED) else str(error)
            if found:
                text = ";\n".join(query.statements())
                wrong.append(f"seed {seed}, {query.name}, {' '.join(way)}\n{text}\n{found}")
    return wrong


def main() -> None:
    seed = int(sys.argv[1])
    only = sys.argv[2] if len(sys.argv) > 2 else None
    while True:
        print(f"seed {seed}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            wrong = check(seed, Path(folder), WAYS, only)
        if wrong or only:
            sys.exit("\n\n".join(wrong))
        seed += 1


if __name__ == "__main__":
    main()
