#!/usr/bin/env python3
"""Measures the memory that the state of queries of Nexmark takes, in Anabranch and on the heap of Apache Flink; prints lines of Markdown.

Anabranch: the largest resident memory of the process, less that with few events. Flink: what the heap holds after a collection, every
2 seconds, less what it held before the job.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import measure

#: The queries whose state grows with the events.
LARGE = ["q4", "q9", "q18", "q20"]
#: Events of a run that shows what a process takes anyway.
FEW = 10_000


def resident_mb(program: str, file: Path, events: int, settings: dict[str, str]) -> float:
    """The largest resident memory of a run."""
    given = {"events.num": events, "first-event.rate": 10_000, "next-event.rate": 10_000, "seed": 1}
    line = [program, "run", str(file), "--quiet", "--parallelism", "1", "--set", "execution.runtime-mode=streaming"]
    line += [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    line += [part for name, value in given.items() for part in ("--option", f"datagen.{name}={value}")]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            log.seek(0)
            raise RuntimeError(log.read().decode())
    return used.ru_maxrss * 1024 / 1e6


def flink_mb(classes: str, file: Path, events: int, heap: str) -> float:
    """The most that the heap holds."""
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in measure.OPENED]
    line = ["java", f"-Xmx{heap}", "-Duser.timezone=UTC", *opens, "-cp", classes, "Nexmark", str(file), "1", "hashmap", str(events), "10000"]
    ended = subprocess.run([*line, "memory"], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(ended.stderr[-2000:])
    return float(ended.stdout.split()[-1])


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the binary anabranch, a release build")
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--queries", nargs="*", default=LARGE)
    parser.add_argument("--heap", default="12g", help="of the Java process; 0: Flink is not measured")
    parser.add_argument("--state-bytes", default="64 mb", help="the bound of state on disk")
    args = parser.parse_args()
    print(f"{args.events} events, MB. On disk with 'state-bytes' = '{args.state_bytes}'.\n")
    print("| query | in memory | on disk | Flink's heap | in memory / Flink |\n|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        classes = measure.flink_classes(folder / "classes") if args.heap != "0" else ""
        for name, file in measure.scripts(folder).items():
            if name not in args.queries:
                continue
            row = []
            for settings in ({"state-bytes": "16 gb"}, {"state-backend": "disk", "state-bytes": args.state_bytes}):
                few, many = (resident_mb(args.program, file, events, settings) for events in (FEW, args.events))
                row.append(many - few)
            theirs = flink_mb(classes, file, args.events, args.heap) if classes else float("nan")
            print(f"| {name} | {row[0]:.0f} | {row[1]:.0f} | {theirs:.0f} | {row[0] / theirs:.2f} |")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
