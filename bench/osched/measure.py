#!/usr/bin/env python3
"""Measures what `anabranch osched` does for queries of Flink, Storm and Anabranch, against the plain system.

One process of the engine runs in a box. Cycles without and with osched alternate in it, and the queues are drained between two.
Needs root, a cpu controller of cgroup v1, a JDK and Maven. README.md says what is measured and how.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import tempfile
import time
from pathlib import Path

import anabranch_engine
from box import Box
from engine import WARM_RATES, Engine, classes
from figures import PLAIN, Cycle, Measured, render
from process import end_on_sigterm
from scheduler import Policy, Scheduler, target

POLICIES = ["queue-size@1s:19..-20", "highest-rate@1s", "first-come@250ms", "drain@1s", "random@1s"]
#: Ways to write a rate: rows per second, or `x1.0`: times what the plain system keeps up with.
RATES = ["x0.5", "x0.9", "x1.0", "x1.2"]
#: The plain system keeps up if this share of the expected results comes within the time.
KEPT_UP = 0.95
#: How often the distance between a rate that it keeps up with and one that it does not is halved.
BISECTIONS = 3


class Bench:
    """An engine in its box, and how to run cycles with it."""

    def __init__(self, engine: Engine, box: Box, args: argparse.Namespace, folder: Path) -> None:
        self.engine, self.box, self.args, self.folder = engine, box, args, folder
        #: Cores that a row per second needs, from the time in which the engine warms up.
        self.cores_per_rate = 0.0

    def warm_up(self, rate: float) -> None:
        """Lets the compiler do its work, outside of the box, and finds how much a row costs."""
        self.engine.begin(rate)
        hold(self.args.warm)
        self.engine.end()
        self.engine.drain(60)
        self.engine.begin(rate)
        hold(self.args.warm)
        window = self.engine.end()
        results = self.engine.drain(60)["results"] / max(1, window.ingress)
        self.cores_per_rate = window.cores / (window.ingress / window.seconds)
        print(f"warm: {window.cores:.2f} cores at {rate:g} rows/s, {results:.2f} results a row", file=sys.stderr)

    def cycle(self, policy: Policy | None, rate: float, held: float, repetition: int) -> Cycle:
        """One measurement, with queues drained behind it."""
        scheduler = self._scheduler(policy) if policy else None
        try:
            self.box.close()
            self.engine.begin(rate)
            if scheduler:
                scheduler.begin()
            hold(held)
            window = self.engine.end()
            cores = scheduler.cores() if scheduler else 0.0
            status = scheduler.status() if scheduler else None
            if scheduler:
                scheduler.end()
        except BaseException:
            if scheduler:
                scheduler.kill()
            raise
        self.box.open()
        drained = self.engine.drain(self.args.drain)
        cycle = Cycle(str(policy or PLAIN), rate, repetition, window, drained["drained"], drained["results"], cores, status)
        print(json.dumps(dataclasses.asdict(cycle)), file=self.args.record, flush=True)
        return cycle

    def capacity(self) -> float:
        """The rate up to which the plain system keeps up: doubled until it does not, then found by bisection."""
        kept, rate, failed = 0.0, self.args.cores / self.cores_per_rate * 0.65, 0.0
        bisections = 0
        while bisections < BISECTIONS or kept == 0:
            bisections += 1 if failed else 0
            # Once may be the compiler's fault, or another program's.
            if self._keeps_up(rate) or self._keeps_up(rate):
                kept = rate
            else:
                failed = rate
            rate = (kept + failed) / 2 if failed else rate * 2
        return kept

    def _keeps_up(self, rate: float) -> bool:
        cycle = self.cycle(None, rate, self.args.probe, -1)
        in_time = cycle.window.results / max(1, cycle.results_later)
        entered = cycle.window.ingress / max(1, cycle.window.offered)
        # What is on its way at the end of a short cycle has not failed to keep up.
        on_its_way = min(0.5, cycle.window.processing_ms["p50"] / 1e3) / self.args.probe
        print(f"probe: {rate:.0f} rows/s, {entered:.3f} of them in, {in_time:.3f} of the results in time", file=sys.stderr, flush=True)
        return entered >= KEPT_UP and in_time >= KEPT_UP - on_its_way

    def _scheduler(self, policy: Policy) -> Scheduler:
        configuration = target(self.engine, "bench") + policy.tables(["bench"])
        return Scheduler(self.args.osched, configuration, self.folder, [self.engine.pid])


def hold(seconds: float) -> None:
    """Waits. Measurements are held for a time, so there is no event to wait for."""
    time.sleep(seconds)


def measure_engine(args: argparse.Namespace, folder: Path) -> Measured:
    """All cycles of Flink or Storm."""
    policies = [Policy.parse(text) for text in args.policies]
    class_path = classes(args.engine, folder / "classes")
    period = min((policy.period_ms for policy in policies), default=1000)
    options = ["--seed", str(args.seed), *(["--queries", str(args.queries)] if args.queries else []), *shlex.split(args.engine_options)]
    with Box(args.cores, args.pinned) as box:
        engine = Engine(args.engine, class_path, args.workload, period, options)
        try:
            box.open()
            box.add(engine.pid)
            bench = Bench(engine, box, args, folder)
            bench.warm_up(args.warm_rate or WARM_RATES[args.workload])
            capacity = bench.capacity() if any(rate.startswith("x") for rate in args.rates) else None
            measured = Measured(args.engine, args.workload, args.held, args.box, capacity, command_line())
            for text in args.rates:
                rate = float(text[1:]) * (capacity or 0) if text.startswith("x") else float(text)
                for repetition in range(args.repetitions):
                    # Each contestant is first as often as last: neither warm-up nor what a cycle leaves favours one.
                    contestants: list[Policy | None] = [None, *policies]
                    if repetition % 2:
                        contestants.reverse()
                    for policy in contestants:
                        cycle = bench.cycle(policy, rate, args.held, repetition)
                        measured.cycles.append(cycle)
                        say(cycle)
            engine.stop()
        except BaseException:
            engine.kill()
            raise
    return measured


def say(cycle: Cycle) -> None:
    """A line for who watches."""
    window = cycle.window
    print(
        f"{cycle.rate:.0f} rows/s, {cycle.contestant}: ingress {window.ingress / window.seconds:.0f}, goodput {window.goodput:.0f}, "
        f"mean {window.processing_ms['mean']:.0f} ms, p99 {window.processing_ms['p99']:.0f} ms, "
        f"end-to-end mean {window.end_to_end_ms['mean']:.0f} ms, osched {cycle.osched_cores:.4f} cores",
        file=sys.stderr,
        flush=True,
    )


def command_line() -> str:
    """The command that prints this again."""
    return shlex.join(["bench/osched/measure.py", *sys.argv[1:]])


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the binary anabranch, a release build")
    parser.add_argument("--engine", choices=["flink", "storm", "anabranch"], default="flink")
    parser.add_argument("--workload", help="syn, lr, vs, etl, stats; of Anabranch: beside, stages, syn", default="syn")
    parser.add_argument("--rates", nargs="+", default=RATES, help="rows per second; x1.0: times what the plain system keeps up with")
    parser.add_argument("--policies", nargs="*", default=POLICIES, help="PRIORITY[@PERIOD][:WORST..BEST][+GROUP]")
    parser.add_argument("--held", type=float, default=60, help="seconds of a cycle")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--short", action="store_true", help="one rate, one policy, 10 s, once: whether it runs")
    parser.add_argument("--cores", type=float, help="the box; by default 0.6, for Anabranch 1")
    parser.add_argument("--pinned", action="store_true", help="the box is one core of the machine instead of a quota")
    parser.add_argument("--queries", type=int, help="by default 20 of syn, else 1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warm", type=float, default=15, help="seconds to warm up, twice")
    parser.add_argument("--warm-rate", type=float, help="rows per second meanwhile")
    parser.add_argument("--probe", type=float, default=10, help="seconds of each cycle that looks for the rate x1.0")
    parser.add_argument("--drain", type=float, default=120, help="most seconds between two cycles")
    parser.add_argument("--engine-options", default="", help="of the runner: '--blocking true', '--buffer-timeout-ms 10'")
    parser.add_argument("--osched-command", help="a program in the place of `anabranch osched run`")
    parser.add_argument("--record", type=argparse.FileType("a"), default="/dev/null", help="a file that gets each cycle as a line of JSON")
    parser.add_argument("--markdown", type=Path, help="the file to which the section is added")
    args = parser.parse_args()
    args.osched = shlex.split(args.osched_command) if args.osched_command else [args.program, "osched", "run", "--quiet"]
    args.cores = args.cores or (1.0 if args.engine == "anabranch" else 0.6)
    args.box = "one core of the machine" if args.pinned else f"{args.cores:g} cores"
    if args.short:
        args.rates, args.policies, args.repetitions = args.rates[-1:], args.policies[:1], 1
        args.held, args.warm, args.probe = 10.0, 8.0, 4.0
    return args


def main() -> None:
    """Measures, prints, and writes."""
    end_on_sigterm()
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as temporary:
        folder = Path(temporary)
        (folder / "classes").mkdir()
        text = (
            anabranch_engine.measure(args, folder, command_line()) if args.engine == "anabranch" else render(measure_engine(args, folder))
        )
    print(text)
    if args.markdown:
        with args.markdown.open("a") as file:
            file.write(f"\n{text}")


if __name__ == "__main__":
    main()
