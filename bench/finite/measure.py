#!/usr/bin/env python3
"""Measures queries over files that end, in Anabranch and in DuckDB with one thread, and writes bench/FINITE.md.

Both are programs that start, read the files, write the result into a file and end; the cost is the processor time of the process. They take turns,
and the results are compared. Needs the package `duckdb`.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

COLUMNS = "user_id BIGINT, kind {text}, amount BIGINT, price DOUBLE, ts TIMESTAMP{precision}, note {text}"
#: What is read: a file for each format, and a small table for the join.
GENERATED = """
COPY (SELECT (hash(i) % 100000)::BIGINT AS user_id, 'kind-' || (hash(i * 7) % 20) AS kind, (hash(i * 3) % 1000)::BIGINT AS amount,
        ((hash(i * 5) % 10000) / 128)::DOUBLE AS price, TIMESTAMP '2024-01-01' + to_milliseconds(i) AS ts, 'a note that nobody reads ' || i AS note
      FROM range({rows}) t(i)) TO '{folder}/events.{format}' (FORMAT {format}{options})
"""
#: Name, our query, DuckDB's if it is another one. The results are files of CSV with the same columns.
QUERIES = {
    "few groups": ("SELECT kind, COUNT(*) AS n, SUM(amount) AS total, MAX(price) AS highest FROM events WHERE amount < 900 GROUP BY kind", None),
    "100,000 groups": ("SELECT user_id, COUNT(*) AS n, SUM(amount) AS total FROM events GROUP BY user_id", None),
    "windows of a second": (
        "SELECT window_start, kind, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end, kind",
        "SELECT date_trunc('second', ts) AS window_start, kind, COUNT(*) AS n FROM events GROUP BY ALL",
    ),
    "join, then groups": (
        "SELECT u.country, COUNT(*) AS n, SUM(e.amount) AS total FROM events AS e JOIN users AS u ON e.user_id = u.user_id GROUP BY u.country",
        None,
    ),
    "distinct": ("SELECT kind, COUNT(DISTINCT user_id) AS users FROM events GROUP BY kind", None),
}
RESULTS = {
    "few groups": "kind STRING, n BIGINT, total BIGINT, highest DOUBLE",
    "100,000 groups": "user_id BIGINT, n BIGINT, total BIGINT",
    "windows of a second": "window_start TIMESTAMP(3), kind STRING, n BIGINT",
    "join, then groups": "country STRING, n BIGINT, total BIGINT",
    "distinct": "kind STRING, users BIGINT",
}
FORMATS = {"parquet": "", "csv": ", HEADER false", "json": ""}
DUCKDB = "import duckdb; duckdb.sql('''{}''')"
BEGIN, END = "<!-- figures -->", "<!-- end of the figures -->"


def generate(folder: Path, rows: int) -> None:
    """Writes the files."""
    for name, options in FORMATS.items():
        duckdb.sql(GENERATED.format(rows=rows, folder=folder, format=name, options=options))
    duckdb.sql(
        f"COPY (SELECT i AS user_id, 'country-' || (hash(i) % 200) AS country FROM range(100000) t(i)) TO '{folder}/users.csv' (FORMAT csv, HEADER false)"
    )


def used(line: list[str]) -> float:
    """Seconds of processor time of a process that ends well."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(line, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            log.seek(0)
            raise RuntimeError(log.read().decode())
    return usage.ru_utime + usage.ru_stime


def ours(program: str, folder: Path, format_: str, query: str, out: Path) -> float:
    """Runs a query in Anabranch."""
    columns = COLUMNS.format(text="STRING", precision="(3)")
    script = f"""
CREATE TABLE events ({columns}, WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '{folder}/events.{format_}', 'format' = '{format_}');
CREATE TABLE users (user_id BIGINT, country STRING) WITH ('connector' = 'filesystem', 'path' = '{folder}/users.csv', 'format' = 'csv');
CREATE TABLE result ({RESULTS[query]}) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv');
INSERT INTO result {QUERIES[query][0]};
"""
    file = folder / "query.sql"
    file.write_text(script)
    return used([program, "run", str(file), "--quiet", "--parallelism", "1"])


def theirs(folder: Path, format_: str, query: str, out: Path) -> float:
    """Runs a query in DuckDB."""
    columns = [column.split(" ", 1) for column in COLUMNS.format(text="VARCHAR", precision="").split(", ")]
    declared = "{" + ", ".join(f"'{name}': '{type_}'" for name, type_ in columns) + "}"
    reads = {
        "parquet": f"'{folder}/events.parquet'",
        "csv": f"read_csv('{folder}/events.csv', header = false, columns = {declared})",
        "json": f"read_json('{folder}/events.json', format = 'newline_delimited', columns = {declared})",
    }
    users = f"read_csv('{folder}/users.csv', header = false, columns = {{'user_id': 'BIGINT', 'country': 'VARCHAR'}})"
    text = QUERIES[query][1] or QUERIES[query][0]
    script = f"""
SET threads = 1;
CREATE VIEW events AS SELECT * FROM {reads[format_]};
CREATE VIEW users AS SELECT * FROM {users};
COPY ({text}) TO '{out}' (FORMAT csv, HEADER false);
"""
    return used([sys.executable, "-c", DUCKDB.format(script)])


def nothing(program: str) -> float:
    """A job of one row."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write("CREATE TABLE none (n INT) WITH ('connector' = 'blackhole'); INSERT INTO none VALUES (1);")
        file.flush()
        return used([program, "run", file.name, "--quiet"])


def rows_of(place: Path) -> list[tuple[str, ...]]:
    """The rows of a result, in order; times without a fraction of zeros."""
    files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))
    rows = []
    for file in files:
        with file.open(newline="") as opened:
            rows += [tuple(cell.replace("T", " ").removesuffix(".000") for cell in row) for row in csv.reader(opened)]
    return sorted(rows)


def main() -> None:
    """Measures, compares, prints, and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the binary anabranch, a release build")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", type=Path, help="the file whose figures are replaced")
    args = parser.parse_args()
    lines = [f"{args.rows} rows, {args.rounds} rounds: CPU-seconds, medians; the ratio is the median of those of the rounds.", ""]
    lines += ["| format | query | Anabranch | DuckDB, one thread | ratio |", "|---|---|---:|---:|---:|"]
    lines.append(f"| none | start and end only | {nothing(args.program):.2f} | {used([sys.executable, '-c', DUCKDB.format('SELECT 1')]):.2f} | |")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        generate(folder, args.rows)
        for format_ in FORMATS:
            for query in QUERIES:
                pairs = []
                for number in range(args.rounds):
                    places = [folder / f"{format_}-{query}-{number}-{who}".replace(" ", "_") for who in ("ours", "theirs")]
                    pairs.append((ours(args.program, folder, format_, query, places[0]), theirs(folder, format_, query, places[1])))
                    if rows_of(places[0]) != rows_of(places[1]):
                        sys.exit(f"{format_}, {query}: the results differ: {places}")
                columns = [statistics.median(column) for column in zip(*pairs)]
                ratio = statistics.median(pair[0] / pair[1] for pair in pairs)
                lines.append(f"| {format_} | {query} | {columns[0]:.2f} | {columns[1]:.2f} | {ratio:.2f} |")
                print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join(lines)
    print(text)
    if args.markdown:
        before, rest = args.markdown.read_text().split(BEGIN)
        args.markdown.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
