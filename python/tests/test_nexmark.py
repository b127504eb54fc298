"""Each query of `examples/nexmark` gives the rows that DuckDB gives over the same events."""

from __future__ import annotations

import csv
import subprocess
from collections import Counter
from datetime import datetime
from pathlib import Path

import duckdb
import pytest
from nexmark_oracle import QUERIES

import anabranch

EXAMPLES = Path(__file__).parents[2] / "examples" / "nexmark"
#: 25 s of event time. No two events have the same time.
EVENTS, RATE = 10_000, 400
SEEDS = (1, 7)
WAYS: tuple[tuple[str, ...], ...] = (
    ("--parallelism", "1"),
    ("--parallelism", "3", "--set", "batch-rows=100", "--set", "execution.runtime-mode=streaming"),
)
LIMIT_S = 60

Rows = Counter[tuple[str, ...]]


def options(seed: int) -> list[str]:
    given = {"events.num": EVENTS, "first-event.rate": RATE, "next-event.rate": RATE, "seed": seed, "partitions": 3}
    return [part for name, value in given.items() for part in ("--option", f"datagen.{name}={value}")]


def run(file: Path, *arguments: str) -> str:
    line = [str(anabranch.program()), "run", str(file), "--quiet", *arguments]
    ended = subprocess.run(line, capture_output=True, text=True, check=False, timeout=LIMIT_S, cwd=file.parent)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module", params=SEEDS)
def events(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, duckdb.DuckDBPyConnection]:
    """A seed, and its events in DuckDB, read from files that our own sink writes."""
    seed: int = request.param
    folder = tmp_path_factory.mktemp(f"seed{seed}")
    declarations = (EXAMPLES / "q0.sql").read_text().split("CREATE TABLE nexmark_q0")[0]
    columns = {
        "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
        "`dateTime` TIMESTAMP(3), extra STRING",
        "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3), "
        "expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING",
        "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING",
    }
    for kind, of in columns.items():
        declarations += f"CREATE TABLE all_{kind} ({of}) WITH ('connector' = 'filesystem', 'path' = '{folder / kind}', "
        declarations += f"'format' = 'parquet');\nINSERT INTO all_{kind} SELECT * FROM {kind};\n"
    script = folder / "events.sql"
    script.write_text(declarations)
    run(script, *options(seed))
    database = duckdb.connect()
    for kind in columns:
        database.execute(f"CREATE TABLE {kind} AS SELECT * FROM read_parquet('{folder / kind}/*')")
    counts = database.execute("SELECT (SELECT count(*) FROM person), (SELECT count(*) FROM auction), (SELECT count(*) FROM bid)")
    assert counts.fetchall() == [(EVENTS // 50, EVENTS * 3 // 50, EVENTS * 46 // 50)]
    return seed, database


def shown(value: object) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.") + f"{value.microsecond // 1000:03}"
    return "NULL" if value is None else str(value)


def expected(database: duckdb.DuckDBPyConnection, query: int) -> Rows:
    return Counter(tuple(map(shown, row)) for row in database.execute(QUERIES[query]).fetchall())


def printed(text: str, query: int) -> Rows:
    """The rows of a print table. Rows of an updating result count by their signs."""
    rows: Rows = Counter()
    prefix = f"nexmark_q{query}> "
    for line in text.splitlines():
        assert line.startswith(prefix), line
        record = line.removeprefix(prefix)
        sign = {"+ ": 1, "- ": -1}.get(record[:2])
        (fields,) = csv.reader([record if sign is None else record[2:]])
        rows[tuple(fields)] += 1 if sign is None else sign
    assert all(count >= 0 for count in rows.values()), "rows are taken back that were not there"
    return +rows


def check(query: int, rows: Rows, wanted: Rows) -> None:
    missing, further = list((wanted - rows).elements()), list((rows - wanted).elements())
    assert not missing and not further, (  # noqa: PT018 - both belong to one message
        f"query {query}: of {wanted.total()} rows {len(missing)} are missing, such as {missing[:3]}; "
        f"{len(further)} should not be there, such as {further[:3]}"
    )


PRINTED = [query for query in QUERIES if query not in (10, 12) and (EXAMPLES / f"q{query}.sql").exists()]


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("query", PRINTED)
def test_query(events: tuple[int, duckdb.DuckDBPyConnection], query: int, way: int, tmp_path: Path) -> None:
    seed, database = events
    arguments = ["--option", f"nexmark_q{query}.connector=print", *options(seed), *WAYS[way]]
    if query == 13:
        side = tmp_path / "side_input.csv"
        side.write_text("".join(f"{key},value {key}\n" for key in range(1200)))
        arguments += ["--option", f"side_input.path={side}"]
    wanted = expected(database, query)
    assert wanted, "a query without rows shows nothing"
    check(query, printed(run(EXAMPLES / f"q{query}.sql", *arguments), query), wanted)


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("exactly_once", [False, True])
def test_query_10(events: tuple[int, duckdb.DuckDBPyConnection], way: int, exactly_once: bool, tmp_path: Path) -> None:
    """Files in folders of their minutes, all of which are complete at the end."""
    seed, database = events
    arguments = ["--option", f"nexmark_q10.path={tmp_path / 'bid'}", *options(seed), *WAYS[way]]
    if exactly_once:
        arguments += ["--set", f"checkpoint-directory={tmp_path / 'checkpoints'}", "--set", "checkpoint-interval=200 ms"]
    run(EXAMPLES / "q10.sql", *arguments)
    rows: Rows = Counter()
    folders = list((tmp_path / "bid").glob("dt=*/hm=*"))
    for folder in folders:
        assert (folder / "_SUCCESS").exists(), folder
        values = tuple(part.partition("=")[2].replace("%3A", ":") for part in folder.parts[-2:])
        for file in folder.glob("part-*.csv"):
            rows.update((*record, *values) for record in csv.reader(file.read_text().splitlines()))
    assert len(folders) == 1, "25 s of one minute"
    check(10, rows, expected(database, 10))
