"""From measured cycles to Markdown: per pair of cycles the ratios, then medians and ranges."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from engine import Window

PLAIN = "plain"


@dataclass
class Cycle:
    """One measurement of one contestant."""

    contestant: str
    rate: float
    #: Cycles with the same number stand side by side.
    repetition: int
    window: Window
    #: Whether nothing was left inside before the next cycle.
    drained: bool
    #: Results of the rows that entered within the time, whenever they came.
    results_later: int
    #: Of the scheduler; 0 for the plain system.
    osched_cores: float = 0.0
    status: Any = None


@dataclass
class Measured:
    """All cycles of an engine with a workload."""

    engine: str
    workload: str
    held: float
    #: What the engine runs on, such as "0.6 cores".
    box: str
    #: Rows per second up to which the plain system gave all results in time; None if it was not looked for.
    capacity: float | None
    command: str
    cycles: list[Cycle] = field(default_factory=list)


@dataclass(frozen=True)
class Column:
    """A ratio between the scheduled and the plain system that is above 1 if scheduling is better."""

    heading: str
    higher_is_better: bool
    value: Callable[[Window], float]

    def ratio(self, scheduled: Window, plain: Window) -> float:
        """Above 1: better. Of zeros: 1."""
        better, worse = self.value(scheduled), self.value(plain)
        if not self.higher_is_better:
            better, worse = worse, better
        if worse == 0:
            return 1.0 if better == 0 else float("inf")
        return better / worse


COLUMNS = [
    Column("goodput", True, lambda w: w.goodput),
    Column("ingress", True, lambda w: w.ingress / w.seconds),
    Column("mean", False, lambda w: w.processing_ms["mean"]),
    Column("p50", False, lambda w: w.processing_ms["p50"]),
    Column("p99", False, lambda w: w.processing_ms["p99"]),
    Column("p99.9", False, lambda w: w.processing_ms["p99.9"]),
    Column("end-to-end mean", False, lambda w: w.end_to_end_ms["mean"]),
    Column("end-to-end p99", False, lambda w: w.end_to_end_ms["p99"]),
    Column("queue variance", False, lambda w: w.queue_variance),
    Column("largest age", False, lambda w: w.oldest_ms),
]


def number(value: float) -> str:
    """Three digits."""
    if value == float("inf"):
        return "∞"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def spread(values: list[float]) -> str:
    """Median, and the range if there are several."""
    median = number(statistics.median(values))
    return median if len(values) == 1 else f"{median} ({number(min(values))}-{number(max(values))})"


def render(measured: Measured) -> str:
    """A section of Markdown: a table of readings and a table of ratios."""
    cycles = measured.cycles
    keys = list(dict.fromkeys((cycle.rate, cycle.contestant) for cycle in cycles))
    repetitions = len({cycle.repetition for cycle in cycles})
    capacity = f" The plain system kept up to {measured.capacity:.0f} rows/s." if measured.capacity else ""
    lines = [
        f"### {measured.engine}, {measured.workload}",
        "",
        f"A box of {measured.box}; each cycle is held {measured.held:g} s, {repetitions} times.{capacity}",
        "Medians, with ranges in brackets; milliseconds; `results later` is the share of all results that came after the cycle's end.",
        "",
        f"    {measured.command}",
        "",
        "| offered rows/s | contestant | ingress rows/s | goodput results/s | results later | mean | p50 | p99 | p99.9 | end-to-end mean | "
        "end-to-end p99 | largest age | queue variance | cores of engine, osched |",
        "|---:|---|" + "---:|" * 12,
    ]
    for rate, contestant in keys:
        of = [cycle for cycle in cycles if (cycle.rate, cycle.contestant) == (rate, contestant)]
        lines.append(readings(rate, contestant, of))
    if all(contestant == PLAIN for _, contestant in keys):
        return "\n".join(lines) + "\n"
    lines += ["", "Each scheduled cycle against the plain one beside it; above 1 is better:", ""]
    lines += ["| offered rows/s | policy | " + " | ".join(column.heading for column in COLUMNS) + " |"]
    lines += ["|---:|---|" + "---:|" * len(COLUMNS)]
    plain = {(cycle.rate, cycle.repetition): cycle.window for cycle in cycles if cycle.contestant == PLAIN}
    for rate, contestant in keys:
        pairs = [
            (cycle.window, plain[cycle.rate, cycle.repetition])
            for cycle in cycles
            if (cycle.rate, cycle.contestant) == (rate, contestant) and (cycle.rate, cycle.repetition) in plain
        ]
        if contestant != PLAIN and pairs:
            cells = [spread([column.ratio(*pair) for pair in pairs]) for column in COLUMNS]
            lines.append(f"| {rate:.0f} | {contestant} | " + " | ".join(cells) + " |")
    undrained = sum(not cycle.drained for cycle in cycles)
    if undrained:
        lines += ["", f"{undrained} cycles did not drain: the cycle behind each began with rows inside."]
    return "\n".join(lines) + "\n"


def readings(rate: float, contestant: str, cycles: list[Cycle]) -> str:
    """A line of the first table."""
    windows = [cycle.window for cycle in cycles]
    later = [1 - cycle.window.results / max(1, cycle.results_later) for cycle in cycles]
    cells = [
        spread([w.ingress / w.seconds for w in windows]),
        spread([w.goodput for w in windows]),
        spread([max(0.0, share) for share in later]),
        *(spread([w.processing_ms[name] for w in windows]) for name in ("mean", "p50", "p99", "p99.9")),
        *(spread([w.end_to_end_ms[name] for w in windows]) for name in ("mean", "p99")),
        spread([w.oldest_ms for w in windows]),
        spread([w.queue_variance for w in windows]),
        f"{statistics.median(w.cores for w in windows):.2f}, {statistics.median(c.osched_cores for c in cycles):.4f}",
    ]
    return f"| {rate:.0f} | {contestant} | " + " | ".join(cells) + " |"
