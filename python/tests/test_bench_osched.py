"""What bench/osched computes, without engines: figures, policies, readings, and the rows of its generators."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench/osched"
sys.path.insert(0, str(BENCH))

import anabranch_engine  # noqa: E402
import measure  # noqa: E402
import tenants  # noqa: E402
from engine import Engine, Window  # noqa: E402
from figures import COLUMNS, PLAIN, Cycle, Measured, number, render, spread  # noqa: E402
from scheduler import Policy  # noqa: E402


def window(goodput: float, mean_ms: float, results: int = 90) -> Window:
    latency = {"mean": mean_ms, "p50": mean_ms, "p99": 2 * mean_ms, "p99.9": 3 * mean_ms, "max": 4 * mean_ms}
    return Window(10.0, 1000, 900, 5, results, goodput, latency, latency, queue_variance=0.0, queue_rows=1.0, oldest_ms=7.0, cores=0.5)


def cycle(contestant: str, repetition: int, measured: Window, drained: bool = True) -> Cycle:
    return Cycle(contestant, 100.0, repetition, measured, drained, results_later=100, osched_cores=0.01)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_numbers_have_three_digits_and_spreads_their_range() -> None:
    assert [number(value) for value in (0.0123456, 1.234, 99.96, 123.4, float("inf"))] == ["0.0123", "1.23", "100", "123", "∞"]
    assert spread([2.0]) == "2"
    assert spread([3.0, 1.0, 2.0]) == "2 (1-3)"


@pytest.mark.parametrize(
    ("heading", "scheduled", "plain", "ratio"),
    [
        ("goodput", window(20.0, 10.0), window(10.0, 10.0), 2.0),
        ("mean", window(10.0, 5.0), window(10.0, 20.0), 4.0),
        ("ingress", window(10.0, 10.0), window(10.0, 10.0), 1.0),
        ("queue variance", window(10.0, 10.0), window(10.0, 10.0), 1.0),
        ("goodput", window(1.0, 10.0), window(0.0, 10.0), float("inf")),
        ("goodput", window(0.0, 10.0), window(1.0, 10.0), 0.0),
    ],
)
def test_a_ratio_above_one_is_better(heading: str, scheduled: Window, plain: Window, ratio: float) -> None:
    column = next(column for column in COLUMNS if column.heading == heading)
    assert column.ratio(scheduled, plain) == ratio


def test_a_cycle_is_compared_with_the_plain_one_beside_it() -> None:
    measured = Measured("flink", "lr", 10.0, "1 cores", 95.4, "measure.py --engine flink")
    measured.cycles = [
        cycle(PLAIN, 0, window(10.0, 100.0)),
        cycle("drain", 0, window(20.0, 50.0)),
        cycle("drain", 1, window(90.0, 10.0), drained=False),
        cycle(PLAIN, 1, window(30.0, 40.0)),
        # The plain one of this repetition was not measured.
        cycle("drain", 2, window(1000.0, 1.0)),
    ]
    text = render(measured)
    assert "kept up to 95 rows/s" in text
    assert "    measure.py --engine flink\n" in text
    rows = [cells(line) for line in text.splitlines() if line.startswith("| 100 | ")]
    plain, drain, ratios = rows
    assert plain[1:5] == [PLAIN, "90 (90-90)", "20 (10-30)", "0.1 (0.1-0.1)"], "medians, and 10 of 100 results came later"
    assert drain[1] == ratios[1] == "drain"
    # 20 to 10 and 90 to 30; 100 to 50 and 40 to 10.
    assert (ratios[2], ratios[4]) == ("2.5 (2-3)", "3 (2-4)")
    assert text.rstrip().endswith("1 cycles did not drain: the cycle behind each began with rows inside.")


def test_plain_cycles_alone_have_no_ratios() -> None:
    measured = Measured("storm", "vs", 10.0, "1 cores", None, "command", [cycle(PLAIN, 0, window(10.0, 100.0, results=130))])
    text = render(measured)
    assert "above 1 is better" not in text
    assert "kept up" not in text
    assert cells(text.splitlines()[-1])[4] == "0", "never less than none came later"


def test_policies_are_read_as_they_are_written() -> None:
    for text, policy, shown in [
        ("drain", Policy("drain"), "drain, 250 ms"),
        ("queue-size@1s:19..-20", Policy("queue-size", 1000, 19, -20), "queue-size, 1 s, 19 to -20"),
        ("drain@50ms+query", Policy("drain", 50, group="query"), "drain, 50 ms, a group per query"),
    ]:
        assert Policy.parse(text) == policy
        assert str(policy) == shown
    tables = Policy.parse("queue-size@1s:19..-20+query").tables(["flink", "storm"])
    group, inside = tables.split("[[policy]]\n")[1:]
    assert group == 'targets = ["flink", "storm"]\ngroup = "query"\n'
    assert 'priority = "queue-size"\nperiod = "1000 ms"\ntranslator = "nice"\nworst = 19\nbest = -20\n' in inside
    for wrong in ["drain@1", "drain:19", "drain+all", "Drain", ""]:
        with pytest.raises(SystemExit, match="PRIORITY"):
            Policy.parse(wrong)


def engine_that_says(line: str, log: Path) -> Engine:
    engine = Engine.__new__(Engine)
    engine.name, engine.log = "flink", log
    engine.process = SimpleNamespace(pid=1, stdin=io.StringIO(), stdout=io.StringIO(line))  # type: ignore[assignment]
    return engine


def test_readings_of_an_engine_become_a_window(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("out of memory")
    expected = window(9.0, 12.5)
    said = {name: value for name, value in vars(expected).items() if name != "cores"}
    engine = engine_that_says(json.dumps(said) + "\n", log)
    engine._cpu = -5.0  # As of before a cycle of 10 s. Process 1 has used some time.
    read = engine.end()
    assert read.cores >= 0.5
    assert vars(read) == vars(expected) | {"cores": read.cores}
    assert engine.process.stdin.getvalue() == '{"mark": "end"}\n'  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="unknown command"):
        engine_that_says('{"error": "unknown command"}\n', log).drain(1)
    with pytest.raises(RuntimeError, match="flink has ended: out of memory"):
        engine_that_says("", log).drain(1)


def test_checkpoints_are_read_from_the_log_of_events(tmp_path: Path) -> None:
    job = anabranch_engine.Job.__new__(anabranch_engine.Job)
    job.events = tmp_path / "events"
    events = [{"event": "started"}, {"event": "checkpoint completed", "took_ms": 12.5}, {"event": "checkpoint completed", "took_ms": 8}]
    job.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert job._checkpoints() == [12.5, 8]


def test_a_script_has_all_paths_and_their_rates() -> None:
    syn = anabranch_engine.script("syn")
    assert "{" not in syn
    assert anabranch_engine.row_rates(syn) == {f"source{number}": 500 for number in range(4)}
    assert syn.count("SHA256(") == sum(sum(path.hashes) for path in anabranch_engine.SYN)
    assert syn.count("INSERT INTO") == 4
    assert anabranch_engine.row_rates(anabranch_engine.script("greedy")) == {}, "it takes all it gets"
    assert anabranch_engine.row_rates(anabranch_engine.script("steady")) == {"readings": 1000}


def test_the_threads_of_the_first_job_go_first() -> None:
    jobs: Any = [SimpleNamespace(name=name, url=f"http://127.0.0.1/{name}") for name in ("steady", "greedy")]
    by_job = anabranch_engine.configuration(jobs, anabranch_engine.BY_JOB)
    assert 'targets = ["steady"]\npriority = "constant"\nbest = -10\nworst = -10\n' in by_job
    assert 'targets = ["greedy"]\npriority = "constant"\nbest = 15\nworst = 15\n' in by_job
    assert by_job.count("[[target]]") == 2
    assert 'priority = "drain"' in anabranch_engine.configuration(jobs, "drain@50ms")


def test_jobs_are_compared_with_the_plain_ones_beside_them() -> None:
    def done(contestant: str, repetition: int, p50: float, goodput: float) -> anabranch_engine.JobCycle:
        latency = {"p50": p50, "p99": 2 * p50, "p99.9": 3 * p50, "max": 4 * p50}
        return anabranch_engine.JobCycle(contestant, "x1", repetition, {"stages": anabranch_engine.Reading(50.0, goodput, latency, 1.0)})

    args = Namespace(workload="stages", box="1 cores", held=10.0, repetitions=2)
    cycles = [done(PLAIN, 0, 100.0, 10.0), done("drain", 0, 50.0, 20.0), done("drain", 1, 10.0, 30.0), done(PLAIN, 1, 40.0, 10.0)]
    lines = anabranch_engine.render(args, cycles, "command").splitlines()
    row = next(cells(line) for line in lines if line.startswith("| x1 | drain |"))
    assert row[-3:] == ["3 (2-4)", "3 (2-4)", "2.5 (2-3)"]


def test_tenants_are_compared_with_the_plain_cycle_of_the_same_repetition() -> None:
    def got(goodput: float, latency_ms: float) -> dict[str, tenants.Got]:
        return {"flink lr": tenants.Got(goodput, latency_ms)}

    measured = [(PLAIN, got(10.0, 100.0)), ("drain", got(20.0, 50.0)), ("drain", got(30.0, 20.0)), (PLAIN, got(30.0, 80.0))]
    args = Namespace(box="1 cores", held=10.0, repetitions=2)
    row = next(cells(line) for line in tenants.render(args, measured).splitlines() if line.startswith("| drain |"))
    assert row == ["drain", "flink lr", "25 (20-30)", "35 (20-50)", "1.5 (1-2)", "3 (2-4)"]


@pytest.mark.parametrize("true_capacity", [130.0, 900.0, 40.0])
def test_the_capacity_is_found_by_doubling_and_bisection(true_capacity: float, monkeypatch: pytest.MonkeyPatch) -> None:
    args = Namespace(cores=1.0)
    bench = measure.Bench(SimpleNamespace(), SimpleNamespace(), args, Path())  # type: ignore[arg-type]
    bench.cores_per_rate = 0.01
    monkeypatch.setattr(bench, "_keeps_up", lambda rate: rate <= true_capacity)
    assert true_capacity * 0.8 < bench.capacity() <= true_capacity


@pytest.mark.skipif(not shutil.which("javac"), reason="needs a JDK")
def test_the_same_seed_makes_the_same_rows(tmp_path: Path) -> None:
    java, workloads = BENCH / "java", ["syn", "lr", "vs", "etl", "stats"]
    fast = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    options: list[str | Path] = [*(f"-J{option}" for option in fast), "-nowarn", "-proc:none", "-sourcepath", java / "src", "-d", tmp_path]
    subprocess.run(["javac", *options, java / "test/Rows.java"], check=True)

    def rows(seeds: str) -> list[list[str]]:
        command = ["java", *fast, "-cp", str(tmp_path), "Rows", seeds, *workloads]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        return [line.split(" ", 3) for line in said.splitlines()]

    both = rows("1,2")
    first, other = both[: len(workloads)], both[len(workloads) :]
    assert first == rows("1"), "also in another process"
    assert [row[0] for row in first] == workloads
    assert all(int(row[2]) > 0 for row in first), "each workload has results"
    for one, two in zip(first, other, strict=True):
        assert one[1] != two[1], f"the rows of {one[0]} follow from the seed"
        assert one[3] != two[3], f"the results of {one[0]} follow from the seed"
