"""Rows for tables of files: some are out of order, some late, some values are NULL; and the same rows in DuckDB."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
from oracle_sql import Table, duck, duck_type, inner, joined, name_of, words

Row = dict[str, Any]

EPOCH = datetime(1970, 1, 1)
START_MS = 1_767_261_600_000
#: Values of columns that queries compare with constants, or with columns of other tables.
VALUES: dict[str, list[object]] = {
    "item": ["tea", "cup", "pot", "sugar", "spoon", "tea"],
    "customer": ["ann", "bob", "cyd", 'dan "the" üser', ""],
    "kind": ["food", "ware", "fragile"],
    "weight_g": [100, 250, 500, 900],
    "amount": [1, 1, 2, 3, 4, 6],
    "currency": ["EUR", "USD", "GBP", "JPY"],
    "s": ["7", "12", "0", "-3", "x"],
    "line": ["a,b,c", "a", ",,", "", "ä::ö::ü", "a,b"],
    "separator": [",", "::", "b"],
    "place": [0, 1, 2, -1],
    "id": [1, 2, 3, 4, 5, 6, 7, 8],
}


def shown_time(ms: int) -> str:
    time = EPOCH + timedelta(milliseconds=ms)
    return time.strftime("%Y-%m-%d %H:%M:%S.") + f"{time.microsecond // 1000:03}"


def value(rng: random.Random, name: str, kind: str) -> Any:
    """A value of a type, by chance NULL."""
    if rng.random() < 0.08:
        return None
    if kind.startswith("ARRAY<"):
        return [value(rng, "", joined(" ".join(inner(kind)[0]))) for _ in range(rng.randrange(4))]
    if kind.startswith("MAP<"):
        return {key: value(rng, "", joined(" ".join(inner(kind)[1]))) for key in rng.sample(["a", "b", "color", "size"], rng.randrange(4))}
    if kind.startswith("ROW<"):
        return {name_of(of[0]): value(rng, of[0], joined(" ".join(of[1:]))) for of in inner(kind)}
    if name in VALUES and kind in ("STRING", "BIGINT", "INT"):
        return rng.choice(VALUES[name])
    if kind.startswith("DECIMAL"):
        return rng.randrange(-2000, 20000) / 100
    if kind.startswith("TIMESTAMP"):
        return shown_time(START_MS + rng.randrange(100_000))
    simple: dict[str, Any] = {
        "BIGINT": rng.randrange(-4, 13),
        "INT": rng.randrange(-4, 13),
        # Sums of these are exact.
        "DOUBLE": rng.choice([-0.0, 0.0, rng.randrange(-400, 4000) / 8, rng.randrange(8) / 2]),
        "BOOLEAN": rng.random() < 0.7,
        "STRING": rng.choice(["", "a", "b", "tea", "Über", "x%", "z_z", "alder", "birch", "cedar"]),
    }
    return simple[kind]


def time_column(table: Table) -> str | None:
    """The column of the records that event time is computed from."""
    if table.watermark is None:
        return None
    name = table.watermark[0]
    if name not in table.computed:
        return name
    of = [name_of(word) for word in words(table.computed[name])]
    return next((column for column in table.columns if column in of), None) if "." not in of else None


@dataclass
class Kind:
    """What rows there are."""

    rows: int
    step_ms: int
    #: Some rows have no event time.
    untimed: bool = False
    #: No two rows of a table have the same event time.
    unique: bool = False


def partition(rng: random.Random, table: Table, kind: Kind, number: int) -> list[Row]:
    """The rows of one file."""
    made: list[Row] = []
    taken: set[int] = set()
    time, latest = time_column(table), START_MS + rng.randrange(5 * kind.step_ms)
    bound = table.watermark[1] if table.watermark else 0
    for place in range(kind.rows):
        row = {name: value(rng, name, of) for name, of in table.columns.items()}
        for name in table.not_null:
            while row[name] is None:
                row[name] = value(rng, name, table.columns[name])
        if "id" in row and (time is not None or kind.unique):
            row["id"] = 1 + number * kind.rows + place
        if time is not None:
            latest += rng.randrange(kind.step_ms)
            behind = rng.choice([0, 0, rng.randrange(bound + 1), bound, bound + 1, rng.randrange(2 * bound + 1)])
            ms = latest - behind
            if kind.unique:
                ms = ms // 3 * 3 + number
                while ms in taken:
                    ms -= 3
                taken.add(ms)
                latest = max(latest, ms)
            row[time] = ms if table.columns[time] == "BIGINT" else shown_time(ms)
            if kind.untimed and rng.random() < 0.04:
                row[time] = None
        made.append(row)
        if not kind.unique and rng.random() < 0.1:
            made.append(dict(row))
    return made


def in_time(table: Table, rows: list[Row]) -> list[Row]:
    """The rows that are not late: no row before them in the file is later by more than the bound."""
    time = time_column(table)
    if time is None or table.watermark is None:
        return rows
    whole_seconds = "TIMESTAMP(0)" in table.computed.get(table.watermark[0], "").replace(" ", "")
    kept, latest = [], None
    for row in rows:
        if row[time] is not None:
            text = row[time]
            ms = text if isinstance(text, int) else round((datetime.fromisoformat(text) - EPOCH) / timedelta(milliseconds=1))
            ms = ms // 1000 * 1000 if whole_seconds else ms
            if latest is not None and ms < latest - table.watermark[1]:
                continue
            latest = ms if latest is None else max(latest, ms)
        kept.append(row)
    return kept


def write(path: Path, table: Table, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if table.options["format"] == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    if table.options.get("csv.header") == "true":
        lines.writerow(table.columns)
    for row in rows:
        lines.writerow(["" if of is None else str(of).lower() if isinstance(of, bool) else of for of in row.values()])
    path.write_text(text.getvalue())


def fill(rng: random.Random, tables: list[Table], folder: Path, kind: Kind, *, drop_late: bool = True) -> dict[str, list[Row]]:
    """Writes the files of tables, and returns their rows, or those that are not late. Tables of one path have the same records."""
    kept: dict[str, list[Row]] = {table.name: [] for table in tables}
    for place in sorted({table.options["path"] for table in tables}):
        of = [table for table in tables if table.options["path"] == place]
        whole = max(of, key=lambda table: len(table.columns))
        whole = replace(whole, columns={name: text for table in of for name, text in table.columns.items()})
        is_folder = not Path(place).suffix
        for number in range(3 if is_folder else 1):
            path = folder / place.removeprefix("$DATA/")
            made = partition(rng, whole, replace(kind, rows=kind.rows // 3) if is_folder else kind, number)
            if whole.watermark is None and whole.options["format"] == "csv":
                made = [row for row in made if "" not in row.values()]
            write(path / f"{number}.ndjson" if is_folder else path, whole, made)
            for table in of:
                kept[table.name] += in_time(table, made) if drop_late else made
    return kept


def load(database: duckdb.DuckDBPyConnection, table: Table, rows: list[Row], folder: Path) -> None:
    """A table with these rows, and its computed columns."""
    columns = ", ".join(f'"{name}" {duck_type(kind)}' for name, kind in table.columns.items())
    database.execute(f'CREATE TABLE "of {table.name}" ({columns})')
    if rows:
        file = folder / f"{table.name}.rows"
        file.write_text("".join(json.dumps({name: row[name] for name in table.columns}) + "\n" for row in rows))
        kinds = ", ".join(f"'{name}': '{duck_type(kind)}'" for name, kind in table.columns.items())
        database.execute(
            f"""INSERT INTO "of {table.name}" SELECT * FROM read_json('{file}', format = 'newline_delimited', columns = {{{kinds}}})"""
        )
    computed = "".join(f', {duck(text)} AS "{name}"' for name, text in table.computed.items())
    database.execute(f'CREATE VIEW "{table.name}" AS SELECT *{computed} FROM "of {table.name}"')
