"""Queries by chance over fields of rows give what they give over columns: an access to a field is moved towards the tables."""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from oracle_run import BATCH, STREAMING, printed, run
from oracle_sql import script

#: Queries of one script.
QUERIES = 25
SEEDS = [int(os.environ["ANABRANCH_SEED"])] if os.environ.get("ANABRANCH_SEED") else [1, 2, 3]
#: Few names, so that many columns are computed under the name of another one.
NAMES = ["a", "b", "k", "x", "y"]
TYPES = {"S": "STRING", "I": "BIGINT"}
#: The fields of a row, by their types.
FIELDS = {"I": "k", "S": "a"}
COLUMNS = {"a": "S", "b": "S", "n": "I", "x": "R", "y": "R"}


@dataclass
class Both:
    """The same text of SQL over rows, and over a column for each field."""

    rows: str
    flat: str

    def within(self, text: str) -> Both:
        return Both(text.format(self.rows), text.format(self.flat))


Columns = list[tuple[str, str]]


def expression(rng: random.Random, columns: Columns, kind: str) -> Both | None:
    """A column or a field of this type, or a function of it. `None`: there is none."""
    found = [Both(name, name) for name, of in columns if of == kind]
    if kind != "R":
        found += [Both(f"{name}.{FIELDS[kind]}", f"{name}_{FIELDS[kind]}") for name, of in columns if of == "R"]
    if not found:
        return None
    functions = {"S": ["UPPER({})", "{} || 'w'", "COALESCE({}, 'none')"], "I": ["{} + 1", "COALESCE({}, 7)"], "R": []}
    return rng.choice(found).within(rng.choice(["{}", "{}", *functions[kind]]))


def items(rng: random.Random, columns: Columns, kinds: list[str], names: list[str]) -> tuple[Both, Columns] | None:
    """A list of columns of these types."""
    rows, flat, out = [], [], []
    for name, kind in zip(names, kinds, strict=True):
        value = expression(rng, columns, kind)
        if value is None:
            return None
        rows.append(f"{value.rows} AS {name}")
        parts = [(f"{value.flat}_{part}", f"{name}_{part}") for part in FIELDS.values()] if kind == "R" else [(value.flat, name)]
        flat += [f"{of} AS {to}" for of, to in parts]
        out.append((name, kind))
    return Both(", ".join(rows), ", ".join(flat)), out


def query(rng: random.Random, depth: int, kinds: list[str]) -> tuple[Both, Columns]:
    """A query with columns of these types over queries of so many levels."""
    while True:
        source, columns = Both("trips", "flat"), list(COLUMNS.items())
        if depth > 0:
            below = rng.choices("SIR", k=rng.randint(2, 4))
            inner, columns = query(rng, depth - 1, below)
            source = Both(f"({inner.rows}) AS q{depth}", f"({inner.flat}) AS q{depth}")
        selected = items(rng, columns, kinds, rng.sample(NAMES, len(kinds)))
        kind = rng.choice("SI")
        value = expression(rng, columns, kind)
        if selected is None or value is None:
            continue
        condition = value.within(" WHERE {} " + {"S": "<> 'QQ'", "I": "> 3"}[kind]) if rng.random() < 0.4 else Both("", "")
        text = Both(
            *(
                f"SELECT {list_} FROM {of}{where}"
                for list_, of, where in ((selected[0].rows, source.rows, condition.rows), (selected[0].flat, source.flat, condition.flat))
            )
        )
        if rng.random() < 0.2:
            other, _ = query(rng, max(depth - 1, 0), kinds)
            text = Both(f"{text.rows} UNION ALL {other.rows}", f"{text.flat} UNION ALL {other.flat}")
        return text, selected[1]


def tables(rng: random.Random, folder: Path) -> str:
    """The declarations of the two tables, whose rows are the same."""
    nested, flat = [], []
    for number in range(8):
        row: dict[str, object] = {"a": rng.choice(["abc", "de", None]), "b": rng.choice(["zz", "QQ"]), "n": number}
        both = {name: {"k": rng.randint(1, 9), "a": rng.choice(["p", "qq"])} for name in "xy"}
        parts = {f"{name}_{part}": value for name, of in both.items() for part, value in of.items()}
        missing = number == 5
        nested.append(json.dumps({**row, **both, "x": None if missing else both["x"]}))
        flat.append(json.dumps({**row, **{name: None if missing and name[0] == "x" else value for name, value in parts.items()}}))
    (folder / "nested.json").write_text("\n".join(nested) + "\n")
    (folder / "flat.json").write_text("\n".join(flat) + "\n")
    plain = "a STRING, b STRING, n BIGINT"
    time = ", ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts" if rng.random() < 0.5 else ""
    of_rows = ", ".join(f"{name} ROW<k BIGINT, a STRING>" for name in "xy")
    of_fields = ", ".join(f"{name}_k BIGINT, {name}_a STRING" for name in "xy")
    return "\n".join(
        f"CREATE TABLE {table} ({plain}, {of}{time}) WITH ('connector' = 'filesystem', 'path' = '{folder}/{file}.json', 'format' = 'json');"
        for table, of, file in [("trips", of_rows, "nested"), ("flat", of_fields, "flat")]
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_fields_are_columns(seed: int, tmp_path: Path) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    statements = [tables(rng, tmp_path)]
    for number in range(QUERIES):
        kinds = rng.choices("SI", k=rng.randint(1, 3))
        text, _ = query(rng, rng.randint(1, 3), kinds)
        columns = ", ".join(f"c{place} {TYPES[kind]}" for place, kind in enumerate(kinds))
        for name, of in ((f"rows{number}", text.rows), (f"flat{number}", text.flat)):
            statements.append(f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'print');\nINSERT INTO {name} {of};")
    file = tmp_path / "fields.sql"
    file.write_text("\n".join(statements))
    sinks = [table for table in script(file.read_text()).tables.values() if table.options["connector"] == "print"]
    for way in (BATCH, STREAMING):
        found = printed(run(file, *way), sinks)
        for number in range(QUERIES):
            assert found[f"rows{number}"] == found[f"flat{number}"], f"query {number} of {file.read_text()}"
