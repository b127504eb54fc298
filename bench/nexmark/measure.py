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

#: The table of events and the views over it.
DECLARATIONS = (QUERIES / "q0.sql").read_text().split("CREATE TABLE nexmark_q0")[0]
#: What only the generator does, of all columns of bids: the rows that are shown.
ALL_OF_BIDS = ("event_type", "bid.auction", "bid.bidder", "bid.price", "bid.channel", "bid.url", "bid.dateTime", "bid.extra")
#: A difference of so few CPU-seconds per million events, once the generator's are taken off, counts as this.
LEAST = 0.01


#: Pairs of runs of each query.
PAIRS = 3


def generator(folder: Path, columns: tuple[str, ...]) -> Path:
    """A file that reads these columns of all events and writes none: what only the generator does."""
    declared = {"event_type": "INT"}
    for row, fields in re.findall(r"(\w+) ROW<(.*?)>", DECLARATIONS, re.DOTALL):
        declared[row] = f"ROW<{fields}>"
        declared |= {f"{row}.{name}": kind for name, kind in re.findall(r"`?(\w+)`? ([A-Z]+(?:\(3\))?)", fields)}
    names = [f"c{number} {declared[column]}" for number, column in enumerate(columns)]
    selected = ", ".join(column.replace("dateTime", "`dateTime`") for column in columns)
    file = folder / f"generator{len(list(folder.glob('generator*')))}.sql"
    file.write_text(
        f"{DECLARATIONS}CREATE TABLE nexmark ({', '.join(names)}) WITH ('connector' = 'blackhole');\n"
        f"INSERT INTO nexmark SELECT {selected} FROM datagen WHERE event_type < 0;\n"
    )
    return file


def columns_read(program: str, file: Path) -> list[tuple[str, ...]]:
    """What each reader of the events reads of them."""
    line = [program, "explain", str(file), "--set", "execution.runtime-mode=streaming"]
    plan = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    return [tuple(columns.split(", ")) for columns in re.findall(r"source datagen \(nexmark\) columns \[(.*?)\]", plan)]


def scripts(folder: Path) -> dict[str, Path]:
    """The files to measure, by the names of their rows."""
    found = {}
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
    """Seconds, and seconds of processor time, of three quarters of the events: a run with all without one with a quarter. Medians of pairs."""
    pairs = []
    for _ in range(PAIRS):
        few, all_of_them = (run(program, file, events, args, parallelism) for events in (args.events // 4, args.events))
        pairs.append((all_of_them[0] - few[0], all_of_them[1] - few[1]))
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def run(program: str, file: Path, events: int, args: argparse.Namespace, parallelism: int) -> tuple[float, float]:
    """Seconds, and seconds of processor time, of a process."""
    given = {"events.num": events, "first-event.rate": args.rate, "next-event.rate": args.rate, "seed": 1}
    line = [program, "run", str(file), "--quiet", "--parallelism", str(parallelism), "--set", "execution.runtime-mode=streaming"]
    if args.state_bytes:
        line += ["--set", "state-backend=disk", "--set", f"state-bytes={args.state_bytes}"]
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


def heading(backend: Optional[str], parallelism: int) -> str:
    """The heading of a column."""
    return f"Flink, {backend}, {parallelism}" if backend else f"Anabranch, {parallelism}"


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
            speed = f" ({millions / max(seconds, 1e-3):.2f} M/s)" if seconds else ""
            cells.append(f"{cpu / millions:.3f}{speed}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def ratios(measured: Measured, generators: dict[str, dict[str, float]], events: int, parallelism: int) -> list[str]:
    """Flink's processor time divided by Anabranch's, over the queries that both have run, with the generators and without."""
    lines, least_cpu = [], LEAST * events * 0.75 / 1e6
    for backend in ("hashmap", "rocksdb"):
        here, there = f"Anabranch, {parallelism}", f"Flink, {backend}, {parallelism}"
        with_them, without = {}, {}
        for name, row in measured.items():
            ours, theirs = row.get(here), row.get(there)
            if ours and theirs and name in generators:
                with_them[name] = theirs[1] / ours[1]
                of = generators[name]
                without[name] = max(theirs[1] - of[there], least_cpu) / max(ours[1] - of[here], least_cpu)
        for pairs, what in ((with_them, "with the generators"), (without, "less the generators")):
            if pairs:
                mean = math.exp(statistics.fmean(math.log(ratio) for ratio in pairs.values()))
                each = ", ".join(f"{name} {ratio:.1f}" for name, ratio in sorted(pairs.items(), key=lambda pair: pair[1]))
                lines.append(
                    f"* Flink ({backend}) takes {mean:.1f} times the processor time at parallelism {parallelism}, {what}: "
                    f"geometric mean of {len(pairs)} queries. {each}."
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
    parser.add_argument("--state-bytes", help="Anabranch's state on disk, with this bound for each operator; in memory by default")
    parser.add_argument("--queries", nargs="*", help="q3 q5 ...; all by default")
    parser.add_argument("--heap", default="4g", help="of the Java process")
    parser.add_argument("--limit", type=int, default=600, help="seconds of one run")
    parser.add_argument("--markdown", type=Path, help="the file whose figures are replaced")
    args = parser.parse_args()
    measured: Measured = {}
    generators: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        classes = flink_classes(folder / "classes") if args.backends else ""
        columns = [(None, parallelism) for parallelism in args.parallelism]
        columns += [(backend, parallelism) for parallelism in args.parallelism for backend in args.backends]

        def measure(backend: Optional[str], file: Path, parallelism: int) -> Optional[tuple[float, float]]:
            try:
                if backend:
                    return flink(classes, file, args, parallelism, backend)
                return anabranch(args.program, file, args, parallelism)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{file} {backend} {parallelism}: {error}", file=sys.stderr)
                return None

        # Flink's generator makes all fields of an event, whatever is read; so one file stands for all queries.
        all_of_bids = generator(folder, ALL_OF_BIDS)
        of_bids = {heading(*column): measure(column[0], all_of_bids, column[1]) or (0.0, 0.0) for column in columns}
        measured["generator, all columns of bids"] = dict(of_bids)
        print(of_bids, file=sys.stderr, flush=True)
        known: dict[tuple[tuple[str, ...], int], float] = {}
        for name, file in scripts(folder).items():
            if args.queries and name not in args.queries:
                continue
            row, generators[name] = measured.setdefault(name, {}), {}
            for backend, parallelism in columns:
                row[heading(backend, parallelism)] = measure(backend, file, parallelism)
                cost = of_bids[heading(backend, parallelism)][1]
                if not backend:
                    cost = 0.0
                    for read in columns_read(args.program, file):
                        if (read, parallelism) not in known:
                            known[read, parallelism] = (measure(None, generator(folder, read), parallelism) or (0.0, 0.0))[1]
                        cost += known[read, parallelism]
                generators[name][heading(backend, parallelism)] = cost
                if not backend:
                    row[f"its generator, {parallelism}"] = (0.0, cost)
            print(name, row, file=sys.stderr, flush=True)
    lines = [
        f"{args.events} events, {args.rate} in a second of event time. "
        "CPU-seconds per million events; in brackets, events per second of the clock.",
        "",
    ]
    lines += [*table(measured, args), "", *(line for of in args.parallelism for line in ratios(measured, generators, args.events, of))]
    text = "\n".join(lines)
    print(text)
    if args.markdown:
        before, rest = args.markdown.read_text().split(BEGIN)
        args.markdown.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
