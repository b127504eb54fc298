"""Each golden query over tables that end gives DuckDB's rows, over rows by chance of which some are late."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from oracle_data import Kind, fill, load
from oracle_hunt import check
from oracle_run import BATCH, WAYS, FailedError, answers, database, differences, printed, run
from oracle_sql import script
from oracle_subqueries import FEW, compare_cases
from oracle_subqueries import compare as compare_subqueries
from oracle_subquery_cases import REFUSED_AT_MOST
from oracle_subquery_cases import TABLES as CASE_TABLES

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
#: Each seed runs in two of the ways, and one that is given in all.
SEEDS = [int(os.environ["ANABRANCH_SEED"])] if os.environ.get("ANABRANCH_SEED") else [1, 2]
#: Queries that are not compared, and why.
WITHOUT = {
    "arrays": "functions of arrays, which tests/flink compares",
    "current_watermark": "how far event time has come when a row is read is known to the reader alone",
    "elements_and_fields": "Python has no times after the year 9999",
    "exact_numbers": "DECIMAL is divided and rounded as in Flink, and tests/flink compares that",
    "first_row_by_processing_time": "the clock decides",
    "late_rows": "some of the drawn tables have no late rows, and a query without rows shows nothing",
    "maps": "functions of maps, which tests/flink compares",
    "maps_of_a_static_table": "print tables show maps in another way",
    "order_by": "the clock decides the order of some rows",
    "processing_time": "the clock decides",
    "rows_by_place": "conversions to rows, which tests/flink compares",
    "shared_source": "its dead letters are rows of its results",
    "sums_in_any_order": "sums of other rows are beyond BIGINT",
    "updating_lists": "ARRAY_AGG(DISTINCT x) has NULL where results are final, as in Flink, and not where they are updated",
    "updating_numbers": "the means of DECIMAL have Flink's digits",
    "values_as_text": "texts of values are Flink's",
    "zone_window_join": "DuckDB has no windows in time zones",
    "zone_windows": "DuckDB has no windows in time zones",
    "zeros_in_conditions": "DuckDB asks such conditions of the rows before it groups them",
}
#: Generated tables have so many rows at most.
ROWS_MAX = 4_000
#: As a stream, an aggregate of no rows gives none, and rows may be late.
FINAL = ["batch_windows", "global_aggregate_of_a_bounded_table", "values"]
#: Queries whose rows differ without an event time.
TIMED = ("OVER", "SYSTEM_TIME", "INTERVAL '0")
QUERIES = sorted(path.stem for path in GOLDEN.glob("*.sql") if not path.stem.startswith("error_"))


def may_be_late(name: str) -> bool:
    """Whether rows of a query's files may be late, where nothing says which ones are."""
    text = (GOLDEN / f"{name}.sql").read_text()
    return "WATERMARK FOR" in text and "'filesystem'" in text and "lateness" not in text


def test_list_of_queries_that_are_not_compared() -> None:
    assert set(WITHOUT) <= set(QUERIES)
    assert {path.stem for path in GOLDEN.glob("*.duckdb")} <= set(QUERIES) - set(WITHOUT)


def twin(name: str) -> tuple[list[str], list[str]]:
    """What a golden query has in DuckDB's words: macros that it needs, and statements in the place of its own."""
    file = GOLDEN / f"{name}.duckdb"
    parts = [part for part in file.read_text().split(";\n") if part.strip()] if file.exists() else []
    macros = [part for part in parts if "CREATE MACRO" in part]
    return macros, [part for part in parts if part not in macros]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [name for name in QUERIES if name not in WITHOUT])
def test_query(name: str, seed: int, tmp_path: Path) -> None:
    compare(name, seed, tmp_path, WAYS if len(SEEDS) == 1 else WAYS[2 * seed - 2 : 2 * seed], drop_late=True)


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in WITHOUT and may_be_late(name)])
def test_no_row_is_late_in_batch_mode(name: str, tmp_path: Path) -> None:
    compare(name, SEEDS[0], tmp_path, [way for way in WAYS if BATCH[0] in way], drop_late=False)


def compare(name: str, seed: int, tmp_path: Path, ways: list[list[str]], *, drop_late: bool) -> None:
    """Runs a golden query in each way, and fails unless its rows are DuckDB's. `drop_late`: files lose rows that are late."""
    print(f"seed {seed}")
    rng = random.Random(f"{name} {seed}")
    text = (GOLDEN / f"{name}.sql").read_text()
    of = script(text)
    sinks = [table for table in of.tables.values() if table.options["connector"] == "collect"]
    files = [table for table in of.tables.values() if table.options["connector"] == "filesystem"]
    generated = [table for table in of.tables.values() if table not in sinks and table not in files]
    kind = Kind(60, 60_000 if "MINUTE" in text else 4_000, not any(word in text for word in TIMED), " OVER " in text)
    rows = fill(rng, files, tmp_path / "data", kind, drop_late=drop_late)
    options = [part for table in sinks for part in ("--option", f"{table.name}.connector=print")]
    late = [table for table in files if table.watermark and drop_late]
    options += [part for table in late for part in ("--option", f"{table.name}.scan.watermark.lateness=partition")]
    options += [part for table in generated for part in ("--option", f"{table.name}.seed={seed}")]
    rows_max = [table for table in generated if int(table.options.get("number-of-rows", "0")) > ROWS_MAX]
    options += [part for table in rows_max for part in ("--option", f"{table.name}.number-of-rows={ROWS_MAX}")]
    file = tmp_path / f"{name}.sql"
    file.write_text(text.replace("$DATA", str(tmp_path / "data")))
    duck = database()
    macros, statements = twin(name)
    for macro in macros:
        duck.execute(macro)
    for table in files:
        load(duck, table, rows[table.name], tmp_path)
    if generated:
        # Our own sink writes their rows.
        columns = {table.name: {**table.columns, **dict.fromkeys(table.computed, "TIMESTAMP_LTZ(3)")} for table in generated}
        declared = "".join(part + ";\n" for part in text.split(";\n") if "CREATE TABLE" in part and "'collect'" not in part)
        for table in generated:
            typed = ", ".join(f"`{column}` {kind}" for column, kind in columns[table.name].items())
            target = f"'connector' = 'filesystem', 'path' = '{tmp_path / table.name}', 'format' = 'parquet'"
            declared += (
                f"CREATE TABLE all_{table.name} ({typed}) WITH ({target});\nINSERT INTO all_{table.name} SELECT * FROM {table.name};\n"
            )
        export = tmp_path / "export.sql"
        export.write_text(declared.replace("$DATA", str(tmp_path / "data")))
        run(export, *[part for part in options if "connector=print" not in part and part != "--option" for part in ("--option", part)])
        for table in generated:
            duck.execute(f"CREATE TABLE \"{table.name}\" AS SELECT * FROM read_parquet('{tmp_path / table.name}/*')")
    wanted = answers(duck, statements or of.statements, sinks)
    assert all(wanted.values()), "a query without rows shows nothing"
    for way in ways:
        if name in FINAL and BATCH[0] not in way:
            continue
        # Much state in so little memory takes long.
        given = [part.replace("state-bytes=3 kb", "state-bytes=32 kb") for part in way] if generated else way
        found = differences(printed(run(file, *options, *given), sinks), wanted)
        assert not found, f"{' '.join(way)}\n{found}"


#: Scripts of queries by chance, half of them in each pair of ways.
BY_CHANCE = SEEDS if len(SEEDS) == 1 else range(8)


@pytest.mark.parametrize("seed", BY_CHANCE)
def test_queries_by_chance(seed: int, tmp_path: Path) -> None:
    print(f"seed {seed}")
    ways = WAYS if len(SEEDS) == 1 else WAYS[2 * (seed % 2) :][:2]
    wrong = check(seed, tmp_path, ways)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("way", [WAYS[0], WAYS[3]], ids=["batch", "streaming"])
def test_cases_of_subqueries(way: list[str], tmp_path: Path) -> None:
    found = compare_cases(tmp_path, way)
    assert not found.refused
    assert not found.wrong, "\n\n".join(found.wrong)


@pytest.mark.parametrize(("kind", "sql"), REFUSED_AT_MOST)
def test_query_without_an_internal_error(kind: str, sql: str, tmp_path: Path) -> None:
    file = tmp_path / "script.sql"
    file.write_text(f"{CASE_TABLES}CREATE TABLE result (c {kind}) WITH ('connector' = 'print');\nINSERT INTO result {sql};\n")
    try:
        run(file, *WAYS[0])
    except FailedError as error:
        assert "internal error" not in str(error)  # noqa: PT017


#: Scripts of subqueries by chance, whose plans are not too large for a debug build. Each runs in one pair of ways.
SUBQUERIES = SEEDS if len(SEEDS) == 1 else [17, 20, 25, 26]


@pytest.mark.parametrize("seed", SUBQUERIES)
def test_subqueries_by_chance(seed: int, tmp_path: Path) -> None:
    print(f"seed {seed}")
    found = compare_subqueries(seed, tmp_path, FEW if len(SEEDS) == 1 else FEW[2 * (seed % 2) :][:2])
    assert not found.wrong, "\n\n".join(found.wrong)
