"""Anabranch with the scripts of `anabranch/`: each cycle starts the jobs anew in the box, as processes of their own."""

from __future__ import annotations

import argparse
import json
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from box import Box
from figures import PLAIN, number, spread
from process import cpu_seconds, free_port
from scheduler import Policy, Scheduler

SCRIPTS = Path(__file__).resolve().parent / "anabranch"
#: The jobs of each workload. The latency of the first one is what matters.
WORKLOADS = {"beside": ["steady", "greedy"], "stages": ["stages"], "syn": ["syn"], "checkpoints": ["stages"]}
#: The first job without the others.
ALONE = "alone"
#: `engine:drain` is the scheduling in the engine.
IN_ENGINE = "engine:"
#: `jobs`: the threads of the first job go before those of the others.
BY_JOB = "jobs"
#: Between the start of a job and the first reading of its counters.
SETTLE_SECONDS = 3.0


@dataclass(frozen=True)
class SynPath:
    """A path of SYN: how many hashes each of its stages computes, and which rows the first two pass on, in tenths and hundredths."""

    hashes: tuple[int, int, int]
    tenths: int
    hundredths: int


SYN = [SynPath((4, 11, 15), 6, 80), SynPath((3, 9, 14), 9, 90), SynPath((12, 8, 14), 7, 60), SynPath((9, 2, 16), 9, 90)]


def script(name: str) -> str:
    """The statements of a job."""
    text = (SCRIPTS / f"{name}.sql").read_text()
    if name != "syn":
        return text
    head, path = text.split("\n\n", 1)
    paths = []
    for at, each in enumerate(SYN):
        first, second, third = ("SHA256(" * hashes + "v" + ")" * hashes for hashes in each.hashes)
        values = {"n": at, "seed": at + 1, "tenths": each.tenths, "hundredths": each.hundredths}
        paths.append(path.format(**values, first=first, second=second, third=third))
    return "\n\n".join([head, *(made.rstrip() for made in paths)]) + "\n"


def row_rates(statements: str) -> dict[str, int]:
    """The tables that give rows at a rate, with their rows per second."""
    tables = re.findall(r"CREATE TABLE (\w+) \(.*?\) WITH \((.*?)\);", statements, re.DOTALL)
    found = {table: re.search(r"'rows-per-second' = '(\d+)'", options) for table, options in tables}
    return {table: int(rate[1]) for table, rate in found.items() if rate}


@dataclass
class Reading:
    """What a job did during a cycle."""

    ingress: float
    goodput: float
    #: From the reading of a row until its result is written, in ms: p50, p99, p99.9, max since the start; the worst of the sink's tasks.
    latency_ms: dict[str, float]
    cores: float
    #: How long each checkpoint took, in ms.
    checkpoints_ms: list[float] = field(default_factory=list)


@dataclass
class JobCycle:
    """One measurement of one contestant, by the jobs' names."""

    contestant: str
    rate: str
    repetition: int
    jobs: dict[str, Reading]
    osched_cores: float = 0.0
    status: Any = None


class Job:
    """A running `anabranch run`."""

    def __init__(self, args: argparse.Namespace, name: str, rate: float, settings: list[str], folder: Path) -> None:
        """Starts it and waits until its tasks run.

        Args:
            args: the benchmark's.
            name: of the script and the job.
            rate: times the rates in the script.
            settings: `NAME=VALUE`, as for `--set`.
            folder: for its logs.
        """
        self.name, self.port = name, free_port()
        self.events, self.log = folder / f"{name}.events", folder / f"{name}.log"
        self.events.unlink(missing_ok=True)
        file = folder / f"{name}.sql"
        file.write_text(script(name))
        line = [args.program, "run", str(file), "--quiet", "--parallelism", "2", "--listen", f"127.0.0.1:{self.port}"]
        line += ["--log-file", str(self.events)]
        line += [part for setting in settings for part in ("--set", setting)]
        if rate != 1:
            for table, rows in row_rates(file.read_text()).items():
                line += ["--option", f"{table}.rows-per-second={round(rows * rate)}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)

    @property
    def url(self) -> str:
        """Of its REST interface."""
        return f"http://127.0.0.1:{self.port}"

    def wait_until_ready(self) -> None:
        """Returns when all tasks run."""
        limit = time.monotonic() + 60
        while True:
            try:
                if self.get("")["ready"]:
                    return
            except (OSError, ValueError) as error:
                if self.process.poll() is not None or time.monotonic() > limit:
                    self.kill()
                    raise RuntimeError(f"{self.name} does not run: {self.log.read_text()[-2000:]}") from error
            time.sleep(0.05)

    def get(self, path: str) -> dict[str, Any]:
        """The answer of the REST interface about the job."""
        with urllib.request.urlopen(f"{self.url}/api/v1/jobs/{self.name}{path}", timeout=20) as answer:
            read: dict[str, Any] = json.load(answer)
            return read

    def begin(self) -> None:
        """Begins to count."""
        job = self.get("")
        self._began, self._read, self._written = time.monotonic(), job["rows_read"], job["rows_written"]
        self._cpu = cpu_seconds(self.process.pid)

    def end(self) -> Reading:
        """What it did since `begin`; latencies since its start."""
        seconds = time.monotonic() - self._began
        cores = (cpu_seconds(self.process.pid) - self._cpu) / seconds
        job, tasks = self.get(""), self.get("/tasks")["tasks"]
        latencies = [task["result_latency"] for task in tasks if task["writes_table"] and task["result_latency"]["rows"]]
        parts = {"p50": "p50_ms", "p99": "p99_ms", "p99.9": "p999_ms", "max": "max_ms"}
        worst = {part: max((latency[key] for latency in latencies), default=0.0) for part, key in parts.items()}
        ingress, goodput = ((job[key] - before) / seconds for key, before in (("rows_read", self._read), ("rows_written", self._written)))
        return Reading(ingress, goodput, worst, cores, self._checkpoints())

    def _checkpoints(self) -> list[float]:
        events = [json.loads(line) for line in self.events.read_text().splitlines()]
        return [event["took_ms"] for event in events if event["event"] == "checkpoint completed"]

    def stop(self) -> None:
        """Ends it as Ctrl-C does; at once if it does not end."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends it whatever it does."""
        self.process.kill()
        self.process.wait()


def configuration(jobs: list[Job], policy: str) -> str:
    """Targets and policies for osched."""
    text = "".join(f'[[target]]\nname = "{job.name}"\nengine = "anabranch"\nurl = "{job.url}"\n' for job in jobs)
    if policy != BY_JOB:
        return text + Policy.parse(policy).tables([job.name for job in jobs])
    for job in jobs:
        nice = -10 if job is jobs[0] else 15
        text += f'[[policy]]\ntargets = ["{job.name}"]\npriority = "constant"\nbest = {nice}\nworst = {nice}\n'
    return text


def cycle(args: argparse.Namespace, box: Box, folder: Path, contestant: str, rate: str, repetition: int) -> JobCycle:
    """One measurement: starts the jobs and ends them."""
    names = WORKLOADS[args.workload]
    settings = [f"scheduling={contestant.removeprefix(IN_ENGINE)}"] if contestant.startswith(IN_ENGINE) else []
    jobs: list[Job] = []
    scheduler = None
    try:
        for name in names[:1] if contestant == ALONE else names:
            places = []
            if args.workload == "checkpoints":
                places = [f"checkpoint-directory={folder / 'checkpoints' / f'{contestant}-{rate}-{repetition}'.replace('/', '-')}"]
            jobs.append(Job(args, name, float(rate.removeprefix("x")), settings + places, folder))
            box.add(jobs[-1].process.pid)
        for job in jobs:
            job.wait_until_ready()
        if contestant not in (PLAIN, ALONE) and not settings:
            scheduler = Scheduler(args.osched, configuration(jobs, contestant), folder, [job.process.pid for job in jobs])
        time.sleep(SETTLE_SECONDS)
        for job in jobs:
            job.begin()
        if scheduler:
            scheduler.begin()
        time.sleep(args.held)
        readings = {job.name: job.end() for job in jobs}
        measured = JobCycle(contestant, rate, repetition, readings)
        if scheduler:
            measured.osched_cores, measured.status = scheduler.cores(), scheduler.status()
            scheduler.end()
    except BaseException:
        if scheduler:
            scheduler.kill()
        raise
    finally:
        for job in jobs:
            job.stop()
    print(json.dumps(asdict(measured)), file=args.record, flush=True)
    return measured


def measure(args: argparse.Namespace, folder: Path, command: str) -> str:
    """All cycles, as a section of Markdown."""
    if args.workload not in WORKLOADS:
        raise SystemExit(f"--workload: '{args.workload}' does not exist for anabranch; use one of: {', '.join(WORKLOADS)}")
    contestants = [PLAIN, *args.policies]
    if args.workload == "beside":
        contestants.insert(0, ALONE)
    cycles = []
    with Box(args.cores, args.pinned) as box:
        for rate in args.rates:
            for repetition in range(args.repetitions):
                for contestant in reversed(contestants) if repetition % 2 else contestants:
                    done = cycle(args, box, folder, contestant, rate, repetition)
                    cycles.append(done)
                    say(done)
    return render(args, cycles, command)


def say(done: JobCycle) -> None:
    """A line per job for who watches."""
    for name, job in done.jobs.items():
        latency = ", ".join(f"{part} {value:.1f} ms" for part, value in job.latency_ms.items())
        print(f"{done.rate} {done.contestant}: {name}: {job.ingress:.0f} rows/s, {job.goodput:.0f} results/s, {latency}", file=sys.stderr)


def render(args: argparse.Namespace, cycles: list[JobCycle], command: str) -> str:
    """A section of Markdown: the readings, and the ratios of each cycle to the plain one beside it."""
    main = WORKLOADS[args.workload][0]
    names = list(dict.fromkeys(name for done in cycles for name in done.jobs))
    lines = [
        f"### anabranch, {args.workload}",
        "",
        f"A box of {args.box}; each cycle is held {args.held:g} s, {args.repetitions} times, each with new processes.",
        f"Medians, with ranges in brackets; milliseconds. Latencies are those of `{main}`, from the reading of a row until its result is",
        "written, of the worse of the two tasks that write. Ratios are to the plain cycle of the same repetition; above 1 is better.",
        "",
        f"    {command}",
        "",
        "| rate | contestant | p50 | p99 | p99.9 | max | "
        + " | ".join(f"{name} rows/s" for name in names)
        + " | results/s | checkpoint ms | cores of osched | p50 ratio | p99 ratio | results ratio |",
        "|---|---|" + "---:|" * (10 + len(names)),
    ]
    plain = {(done.rate, done.repetition): done.jobs[main] for done in cycles if done.contestant == PLAIN}
    for rate, contestant in dict.fromkeys((done.rate, done.contestant) for done in cycles):
        of = [done for done in cycles if (done.rate, done.contestant) == (rate, contestant)]
        pairs = [(done.jobs[main], plain[rate, done.repetition]) for done in of if (rate, done.repetition) in plain]
        checkpoints = [statistics.median(done.jobs[main].checkpoints_ms) for done in of if done.jobs[main].checkpoints_ms]
        cells = [spread([done.jobs[main].latency_ms[part] for done in of]) for part in ("p50", "p99", "p99.9", "max")]
        for name in names:
            rates = [done.jobs[name].ingress for done in of if name in done.jobs]
            cells.append(spread(rates) if rates else "")
        cells += [spread([done.jobs[main].goodput for done in of]), spread(checkpoints) if checkpoints else ""]
        cells.append(number(statistics.median(done.osched_cores for done in of)))
        cells += [spread([before.latency_ms[part] / max(1e-3, now.latency_ms[part]) for now, before in pairs]) for part in ("p50", "p99")]
        cells.append(spread([now.goodput / max(1e-3, before.goodput) for now, before in pairs]))
        lines.append(f"| {rate} | {contestant} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
