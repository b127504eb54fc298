#!/usr/bin/env python3
"""Measures several engines at once in one box: what each query gets with `anabranch osched`, against the plain system.

Each tenant is an engine with one query at a rate of its own. README.md says what else is measured and how.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch_engine import Job
from box import Box
from engine import WARM_RATES, Engine, classes
from figures import PLAIN, spread
from process import end_on_sigterm
from scheduler import Policy, Scheduler, target

TENANTS = ["flink:lr:30000", "storm:vs:3000", "anabranch:syn:x1"]


@dataclass
class Got:
    """What a tenant got in a cycle: results per second, and milliseconds: means of Flink and Storm, the median of Anabranch."""

    goodput: float
    latency_ms: float


class Tenant:
    """An engine of Java that runs one workload at a rate, for all cycles."""

    def __init__(self, text: str, period_ms: int, folder: Path) -> None:
        """Starts it from `ENGINE:WORKLOAD:RATE`."""
        engine, self.workload, rate = text.split(":")
        self.name, self.rate = f"{engine} {self.workload}", float(rate)
        target_folder = folder / engine
        target_folder.mkdir()
        self.engine = Engine(engine, classes(engine, target_folder), self.workload, period_ms, ["--queries", "1"])

    @property
    def pid(self) -> int:
        """Of its process."""
        return self.engine.pid

    def target(self) -> str:
        """Its part of a configuration."""
        return target(self.engine, self.engine.name)

    def warm_up(self, seconds: float) -> None:
        """Lets the compiler do its work."""
        self.engine.begin(WARM_RATES[self.workload])
        time.sleep(seconds)
        self.engine.drain(60)

    def begin(self) -> None:
        """Begins a cycle."""
        self.engine.begin(self.rate)

    def end(self) -> Got:
        """Ends the cycle."""
        window = self.engine.end()
        return Got(window.goodput, window.processing_ms["mean"])

    def drain(self, seconds: float) -> None:
        """Empties its queues."""
        self.engine.drain(seconds)

    def stop(self) -> None:
        """Ends the process."""
        self.engine.kill()


class OwnTenant:
    """A job of Anabranch, which runs without pause: its latency is that since its start."""

    def __init__(self, args: argparse.Namespace, text: str, folder: Path) -> None:
        """Starts it from `anabranch:SCRIPT:xFACTOR`."""
        _, script, rate = text.split(":")
        self.name = f"anabranch {script}"
        self.job = Job(args, script, float(rate.removeprefix("x")), [], folder)

    @property
    def pid(self) -> int:
        """Of its process."""
        return self.job.process.pid

    def target(self) -> str:
        """Its part of a configuration."""
        return f'[[target]]\nname = "anabranch"\nengine = "anabranch"\nurl = "{self.job.url}"\n'

    def warm_up(self, seconds: float) -> None:
        """Waits until its tasks run."""
        del seconds
        self.job.wait_until_ready()

    def begin(self) -> None:
        """Begins a cycle."""
        self.job.begin()

    def end(self) -> Got:
        """Ends the cycle."""
        reading = self.job.end()
        return Got(reading.goodput, reading.latency_ms["p50"])

    def drain(self, seconds: float) -> None:
        """Does nothing: its source goes on."""

    def stop(self) -> None:
        """Ends the process."""
        self.job.stop()


def cycle(args: argparse.Namespace, box: Box, folder: Path, tenants: Sequence[Tenant | OwnTenant], policy: Policy | None) -> dict[str, Got]:
    """What each tenant got."""
    box.close()
    scheduler = None
    if policy:
        configuration = "".join(tenant.target() for tenant in tenants)
        names = [tenant.name.split()[0] for tenant in tenants]
        scheduler = Scheduler(args.osched, configuration + policy.tables(names), folder, [tenant.pid for tenant in tenants])
    try:
        for tenant in tenants:
            tenant.begin()
        time.sleep(args.held)
        got = {tenant.name: tenant.end() for tenant in tenants}
        if scheduler:
            scheduler.end()
    except BaseException:
        if scheduler:
            scheduler.kill()
        raise
    box.open()
    for tenant in tenants:
        tenant.drain(args.drain)
    for name, each in got.items():
        print(f"{policy or PLAIN}: {name}: {each.goodput:.0f} results/s, {each.latency_ms:.0f} ms", file=sys.stderr, flush=True)
    return got


def render(args: argparse.Namespace, measured: list[tuple[str, dict[str, Got]]]) -> str:
    """A section of Markdown."""
    names = list(measured[0][1])
    plain = [got for contestant, got in measured if contestant == PLAIN]
    command = shlex.join(["bench/osched/tenants.py", *sys.argv[1:]])
    lines = [
        "### Several engines at once",
        "",
        f"A box of {args.box}; each cycle is held {args.held:g} s, {args.repetitions} times. Medians, with ranges in brackets.",
        "Latency: the mean, of Anabranch the median since its start. Ratios are to the plain cycle of the same repetition;",
        "above 1 is better.",
        "",
        f"    {command}",
        "",
        "| contestant | tenant | results/s | latency ms | goodput ratio | latency ratio |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for contestant in dict.fromkeys(contestant for contestant, _ in measured):
        of = [got for each, got in measured if each == contestant]
        for name in names:
            cells = [spread([got[name].goodput for got in of]), spread([got[name].latency_ms for got in of])]
            pairs = [(got[name], before[name]) for got, before in zip(of, plain, strict=True)]
            cells.append(spread([now.goodput / max(1e-3, before.goodput) for now, before in pairs]))
            cells.append(spread([before.latency_ms / max(1e-3, now.latency_ms) for now, before in pairs]))
            lines.append(f"| {contestant} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the binary anabranch, a release build")
    parser.add_argument("--tenants", nargs="+", default=TENANTS, help="ENGINE:WORKLOAD:RATE, at most one of each engine")
    parser.add_argument("--policies", nargs="*", default=["highest-rate@500ms+query"], help="as those of measure.py")
    parser.add_argument("--held", type=float, default=60, help="seconds of a cycle")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--cores", type=float, default=1.0, help="the box")
    parser.add_argument("--pinned", action="store_true", help="the box is one core of the machine instead of a quota")
    parser.add_argument("--warm", type=float, default=20, help="seconds to warm up")
    parser.add_argument("--drain", type=float, default=120, help="most seconds between two cycles")
    parser.add_argument("--osched-command", help="a program in the place of `anabranch osched run`")
    parser.add_argument("--markdown", type=Path, help="the file to which the section is added")
    args = parser.parse_args()
    args.box = "one core of the machine" if args.pinned else f"{args.cores:g} cores"
    args.osched = shlex.split(args.osched_command) if args.osched_command else [args.program, "osched", "run", "--quiet"]
    return args


def main() -> None:
    """Measures, prints, and writes."""
    end_on_sigterm()
    args = arguments()
    policies = [Policy.parse(text) for text in args.policies]
    period = min((policy.period_ms for policy in policies), default=1000)
    tenants: list[Tenant | OwnTenant] = []
    measured: list[tuple[str, dict[str, Got]]] = []
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as temporary, Box(args.cores, args.pinned) as box:
        folder = Path(temporary)
        box.open()
        try:
            for text in args.tenants:
                own = text.startswith("anabranch:")
                tenants.append(OwnTenant(args, text, folder) if own else Tenant(text, period, folder))
                box.add(tenants[-1].pid)
            for tenant in tenants:
                tenant.warm_up(args.warm)
            for repetition in range(args.repetitions):
                contestants: list[Policy | None] = [None, *policies]
                for policy in reversed(contestants) if repetition % 2 else contestants:
                    measured.append((str(policy or PLAIN), cycle(args, box, folder, tenants, policy)))
        finally:
            for tenant in tenants:
                tenant.stop()
    text = render(args, measured)
    print(text)
    if args.markdown:
        with args.markdown.open("a") as file:
            file.write(f"\n{text}")


if __name__ == "__main__":
    main()
