"""Runs scripts with the binary and in DuckDB, and compares their rows."""

from __future__ import annotations

import csv
import io
import math
import re
import subprocess
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
from oracle_sql import Table, duck, duck_type

import anabranch

LIMIT_S = 100
#: Rows of a query that are compared with each other one by one.
CLOSE_ROWS_MAX = 1000
STREAMING, BATCH = ["--set", "execution.runtime-mode=streaming"], ["--final"]
#: So little memory that state is on disk.
DISK = ["--set", "state-backend=disk", "--set", "state-bytes=3 kb"]
#: Ways of running that must not change a result. Each backend, parallelism and mode meets each other one, in two seeds.
WAYS = [
    ["--parallelism", "1", *BATCH],
    ["--parallelism", "3", "--set", "batch-rows=100", *STREAMING, *DISK],
    ["--parallelism", "3", *BATCH, *DISK],
    ["--parallelism", "1", "--set", "batch-rows=20", "--set", "epoch-interval=1 ms", *STREAMING],
]

Value = str | int | float | Decimal | bool | datetime | date | None
Rows = Counter[tuple[Value, ...]]


class FailedError(AssertionError):
    """The binary ended with an error."""


def run(file: Path, *arguments: str) -> str:
    line = [str(anabranch.program()), "run", str(file), "--quiet", *arguments]
    ended = subprocess.run(line, capture_output=True, text=True, check=False, timeout=LIMIT_S, cwd=file.parent)
    if ended.returncode != 0 and "state-bytes" in ended.stderr and arguments[-1].startswith("state-bytes"):
        # Static tables, sessions and frames must fit into memory.
        return run(file, *arguments[: arguments.index("state-backend=disk") + 1])
    if ended.returncode != 0:
        raise FailedError(f"{' '.join(line)}\n{ended.stderr}")
    return ended.stdout


def read(text: str, kind: str) -> Value:
    """A value that a print table shows."""
    if text == "NULL":
        return None
    if kind == "DOUBLE":
        return float(text) + 0.0
    if kind.startswith("DECIMAL"):
        return Decimal(text)
    if kind.startswith("TIMESTAMP"):
        return datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=None)
    if kind == "DATE":
        return date.fromisoformat(text)
    if kind == "BOOLEAN":
        return text.lower() == "true"
    return without_zeros(text) if kind == "STRING" else int(text)


def without_zeros(text: str) -> str:
    """A time as text has as many digits as its type here, and as many as it needs in DuckDB."""
    return re.sub(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d*?)0*(\+00)?$", r"\1\2", text).removesuffix(".").removesuffix("+00")


def plain(value: object, kind: str) -> Value:
    """A value of DuckDB."""
    if isinstance(value, str):
        return without_zeros(value)
    return value + 0.0 if isinstance(value, float) and kind == "DOUBLE" else value  # type: ignore[return-value]


def printed(text: str, tables: list[Table]) -> dict[str, Rows]:
    """The rows of print tables. Those of an updating result count by their signs."""
    rows: dict[str, Rows] = {table.name: Counter() for table in tables}
    types = {table.name: table.types for table in tables}
    for name, sign, fields in records(text):
        rows[name][tuple(map(read, fields, types[name]))] += sign
    for name, of in rows.items():
        taken = [row for row, count in of.items() if count < 0]
        assert not taken, f"{name}: rows are taken back that were not there, such as {taken[:3]}"
    return {name: +of for name, of in rows.items()}


def records(text: str) -> list[tuple[str, int, list[str]]]:
    found = []
    for line in text.splitlines():
        parts = re.fullmatch(r"(\w+)> ([+-] )?(.*)", line)
        if parts:  # What SET says is not a row.
            fields = next(csv.reader(io.StringIO(parts[3])), [""])
            found.append((parts[1], -1 if parts[2] == "- " else 1, fields))
    return found


def database() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute("SET threads = 1; SET TimeZone = 'UTC'; SET integer_division = true; SET error_on_division_by_zero = false")
    # NULL is the least value.
    made.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    made.execute("CREATE MACRO to_timestamp_ltz(ms, digits) AS make_timestamp_ms(ms)")
    return made


def answers(of: duckdb.DuckDBPyConnection, statements: list[str], sinks: list[Table]) -> dict[str, Rows]:
    """What DuckDB writes to the tables. The statements are in its words but for windows, quotes and types."""
    for table in sinks:
        columns = ", ".join(f'"{name}" {duck_type(kind)}' for name, kind in table.columns.items())
        of.execute(f'CREATE TABLE "{table.name}" ({columns})')
    for statement in statements:
        try:
            of.execute(duck(statement))
        except duckdb.Error as error:
            raise ValueError(f"DuckDB: {error}\n{statement}") from error
    found = {}
    for table in sinks:
        rows = of.execute(f'SELECT * FROM "{table.name}"').fetchall()
        found[table.name] = Counter(tuple(map(plain, row, table.types)) for row in rows)
    return found


def is_close(row: tuple[Value, ...], other: tuple[Value, ...]) -> bool:
    """Whether two rows differ only in the last digits of DOUBLE values: a sum of them depends on the order of its rows."""
    return all(
        one == two or (isinstance(one, float) and isinstance(two, float) and math.isclose(one, two, rel_tol=1e-12))
        for one, two in zip(row, other, strict=True)
    )


def without_pairs(
    missing: list[tuple[Value, ...]], further: list[tuple[Value, ...]]
) -> tuple[list[tuple[Value, ...]], list[tuple[Value, ...]]]:
    """What is left of both once each row is taken out with one that is close to it."""
    left = missing[CLOSE_ROWS_MAX:]
    for row in missing[:CLOSE_ROWS_MAX]:
        close = next((index for index, other in enumerate(further) if is_close(row, other)), None)
        if close is None:
            left.append(row)
        else:
            del further[close]
    return left, further


def differences(rows: dict[str, Rows], wanted: dict[str, Rows]) -> str:
    """What is missing and what should not be there; nothing if both are equal."""
    found = []
    for name, of in wanted.items():
        missing, further = without_pairs(list((of - rows[name]).elements()), list((rows[name] - of).elements()))
        if missing or further:
            found.append(
                f"{name}: of {of.total()} rows {len(missing)} are missing, such as {missing[:4]}; "
                f"{len(further)} should not be there, such as {further[:4]}"
            )
    return "\n".join(found)
