#!/usr/bin/env python3
"""Measures the queries of Nexmark in Anabranch and in Apache Flink, and writes bench/NEXMARK.md.

Both run the files of `examples/nexmark` with the same numbers of events, as queries over a stream whose rows are dropped at the
end. Flink's events come from a connector of our own (`Nexmark.java`) with the same distributions: Nexmark's is not published as a jar.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Optional

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
QUERIES = ROOT / "examples" / "nexmark"
#: Seconds, and seconds of processor time, of each query in each column. `None`: it failed.
Measured = dict[str, dict[str, Optional[tuple[float, float]]]]
BEGIN, END = "<!-- figures -->", "<!-- end of the figures -->"
OPENED = ["java.lang", "java.lang.reflect", "java.net", "java.nio", "java.text", "java.time", "java.util", "java.util.concurrent"]

#: What only the generator does for a query that reads these columns: every row is generated, and none passes.
GENERATORS = {
    "numbers of bids": ("auction BIGINT, bidder BIGINT, price BIGINT", "auction, bidder, price"),
    "all columns of bids": (
        "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, `dateTime` TIMESTAMP(3), extra VARCHAR",
        "auction, bidder, price, channel, url, `dateTime`, extra",
    ),
}


def scripts(folder: Path) -> dict[str, Path]:
    """The files to measure, by the names of their rows."""
    declarations = (QUERIES / "q0.sql").read_text().split("CREATE TABLE nexmark_q0")[0]
    found = {}
    for number, (name, (declared, selected)) in enumerate(GENERATORS.items()):
        table = f"CREATE TABLE nexmark_q{number} ({declared}) WITH ('connector' = 'blackhole');"
        file = folder / f"generator{number}.sql"
        file.write_text(f"{declarations}{table}\nINSERT INTO nexmark_q{number} SELECT {selected} FROM bid WHERE price < 0;\n")
        found[f"generator, {name}"] = file
    numbered = sorted((int(file.stem[1:]), file) for file in QUERIES.glob("q*.sql"))
    for number, file in numbered:
        text = file.read_text()
        if number == 13:
            side = folder / "side_input.csv"
            side.write_text("".join(f"{key},value {key}\n" for key in range(10_000)))
            text = re.sub(r"'path' = '[^']*'", f"'path' = '{side}'", text)
        copy = folder / file.name
        copy.write_text(text)
        found[f"q{number}"] = copy
    return found


def anabranch(program: str, file: Path, args: argparse.Namespace, parallelism: int) -> tuple[float, float]:
    """Seconds, and seconds of processor time, of three quarters of the events: a run with all without one with a quarter."""
    few, all_of_them = (run(program, file, events, args.rate, parallelism) for events in (args.events // 4, args.events))
    return all_of_them[0] - few[0], all_of_them[1] - few[1]


def run(program: str, file: Path, events: int, rate: int, parallelism: int) -> tuple[float, float]:
    """Seconds, and seconds of processor time, of a process."""
    given = {"events.num": events, "first-event.rate": rate, "next-event.rate": rate, "seed": 1}
    line = [program, "run", str(file), "--quiet", "--parallelism", str(parallelism), "--set", "execution.runtime-mode=streaming"]
    line += [part for name, value in given.items() for part in ("--option", f"datagen.{name}={value}")]
    begin = time.monotonic()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            log.seek(0)
            raise RuntimeError(log.read().decode())
    return time.monotonic() - begin, used.ru_utime + used.ru_stime


def flink(classes: str, file: Path, args: argparse.Namespace, parallelism: int, backend: str) -> tuple[float, float]:
    """Seconds, and seconds of processor time, of three quarters of the events, in a process that has run the query before."""
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    line = ["java", f"-Xmx{args.heap}", "-Duser.timezone=UTC", *opens, "-cp", classes, "Nexmark", str(file), str(parallelism), backend]
    line += [str(args.events), str(args.rate)]
    ended = subprocess.run(line, capture_output=True, text=True, check=False, timeout=args.limit)
    if ended.returncode != 0:
        raise RuntimeError(ended.stderr[-2000:])
    seconds, used = ended.stdout.split()[-2:]
    return float(seconds), float(used)


def flink_classes(folder: Path) -> str:
    """Compiles the connector, and returns the path of its classes and Flink's jars."""
    version = re.search(r"<flink.version>(.*)</flink.version>", (HERE / "pom.xml").read_text())
    assert version is not None
    fetch = [
        str(ROOT / "tests/fetch-jars.sh"),
        f"flink-nexmark-{version[1]}-files",
        str(HERE / "pom.xml"),
        f"flink-table-runtime-{version[1]}.jar",
    ]
    jars = subprocess.run(fetch, capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(folder), str(HERE / "Nexmark.java")], check=True)
    services = folder / "META-INF/services"
    services.mkdir(parents=True)
    (services / "org.apache.flink.table.factories.Factory").write_text("Nexmark$Factory\n")
    return f"{folder}:{jars}/*"


def table(measured: Measured, args: argparse.Namespace) -> list[str]:
    """Lines of Markdown: CPU-seconds per million events and events per second of each query."""
    columns = [*dict.fromkeys(column for row in measured.values() for column in row)]
    lines = ["| query | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    millions = args.events * 0.75 / 1e6
    for name, row in measured.items():
        cells = []
        for column in columns:
            value = row.get(column)
            if value is None:
                cells.append("failed" if column in row else "")
                continue
            seconds, cpu = value
            cells.append(f"{cpu / millions:.3f} ({millions / max(seconds, 1e-3):.2f} M/s)")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def ratios(measured: Measured, parallelism: int) -> list[str]:
    """Flink's processor time divided by Anabranch's, over the queries that both have run."""
    lines = []
    for backend in ("hashmap", "rocksdb"):
        pairs = {}
        for name, row in measured.items():
            ours, theirs = row.get(f"Anabranch, {parallelism}"), row.get(f"Flink, {backend}, {parallelism}")
            # Differences of so few events that noise is larger say nothing.
            if name.startswith("q") and ours and theirs and ours[1] > 0 and theirs[1] > 0:
                pairs[name] = theirs[1] / ours[1]
        if pairs:
            mean = math.exp(statistics.fmean(math.log(ratio) for ratio in pairs.values()))
            least, most = min(pairs, key=pairs.__getitem__), max(pairs, key=pairs.__getitem__)
            lines.append(
                f"* Flink ({backend}) takes {mean:.1f} times the processor time at parallelism {parallelism}: "
                f"geometric mean of {len(pairs)} queries, from {pairs[least]:.1f} ({least}) to {pairs[most]:.1f} ({most})."
            )
    return lines


def main() -> None:
    """Measures, prints, and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the binary anabranch, a release build")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="events per second of event time")
    parser.add_argument("--parallelism", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--backends", nargs="*", default=["hashmap", "rocksdb"], help="Flink's; none: Flink is not measured")
    parser.add_argument("--queries", nargs="*", help="q3 q5 ...; all by default")
    parser.add_argument("--heap", default="4g", help="of the Java process")
    parser.add_argument("--limit", type=int, default=600, help="seconds of one run")
    parser.add_argument("--markdown", type=Path, help="the file whose figures are replaced")
    args = parser.parse_args()
    measured: Measured = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        classes = flink_classes(folder / "classes") if args.backends else ""
        for name, file in scripts(folder).items():
            if args.queries and name not in args.queries:
                continue
            row = measured.setdefault(name, {})
            for parallelism in args.parallelism:
                for backend in (None, *args.backends):
                    column = f"Flink, {backend}, {parallelism}" if backend else f"Anabranch, {parallelism}"
                    try:
                        if backend:
                            row[column] = flink(classes, file, args, parallelism, backend)
                        else:
                            row[column] = anabranch(args.program, file, args, parallelism)
                    except (RuntimeError, subprocess.TimeoutExpired) as error:
                        print(f"{name} {column}: {error}", file=sys.stderr)
                        row[column] = None
            print(name, row, file=sys.stderr, flush=True)
    lines = [
        f"{args.events} events, {args.rate} in a second of event time. "
        "CPU-seconds per million events; in brackets, events per second of the clock.",
        "",
    ]
    lines += [*table(measured, args), "", *(line for parallelism in args.parallelism for line in ratios(measured, parallelism))]
    text = "\n".join(lines)
    print(text)
    if args.markdown:
        before, rest = args.markdown.read_text().split(BEGIN)
        args.markdown.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
