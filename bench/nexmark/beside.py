#!/usr/bin/env python3
"""Compares two programs of Anabranch by the queries of Nexmark: `beside.py NEW FORMER`. Prints ratios of processor time.

The programs take turns, and the first of a pair changes. A ratio is the median of those of the pairs. Neither Flink nor Java is needed.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from measure import run, scripts


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs=2, help="binaries anabranch, release builds")
    parser.add_argument("--events", type=int, default=1_500_000)
    parser.add_argument("--rate", type=int, default=10_000, help="events per second of event time")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--state-bytes", help="state on disk, with this bound for each operator; in memory by default")
    parser.add_argument("--queries", nargs="*", help="q3 q5 ...; all by default")
    parser.add_argument("--pairs", type=int, default=5)
    args = parser.parse_args()
    print("| query | CPU-s | former, CPU-s | ratio | least | most |\n|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as temporary:
        for name, file in scripts(Path(temporary)).items():
            if args.queries and name not in args.queries:
                continue
            used: dict[str, list[float]] = {program: [] for program in args.programs}
            # The first pair warms the caches of the system.
            for pair in range(args.pairs + 1):
                for program in args.programs if pair % 2 == 0 else reversed(args.programs):
                    used[program].append(run(program, file, args.events, args, args.parallelism)[1])
            new, former = (used[program][1:] for program in args.programs)
            ratios = sorted(one / other for one, other in zip(new, former, strict=True))
            middle = (statistics.median(new), statistics.median(former), statistics.median(ratios))
            print(f"| {name} | {middle[0]:.3f} | {middle[1]:.3f} | {middle[2]:.2f} | {ratios[0]:.2f} | {ratios[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
