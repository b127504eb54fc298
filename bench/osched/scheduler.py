"""The contestant: `anabranch osched run` with a policy, started and ended for each cycle."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import RUNNERS, Engine
from process import cpu_seconds, free_port, nice_values

START_SECONDS = 30.0
END_SECONDS = 15.0
#: Share of the time for which some thread waits for a core; from 0.02 on, osched decides.
PRESSED = 0.1


@dataclass(frozen=True)
class Policy:
    """What decides, how often, and in which range of nice values."""

    priority: str
    period_ms: int = 250
    worst: int | None = None
    best: int | None = None
    group: str | None = None

    @staticmethod
    def parse(text: str) -> Policy:
        """From `PRIORITY[@PERIOD][:WORST..BEST][+GROUP]`, such as `queue-size@1s:19..-20` or `drain@250ms+query`."""
        found = re.fullmatch(r"([a-z-]+)(?:@(\d+)(ms|s))?(?::(-?\d+)\.\.(-?\d+))?(?:\+(query|branch|task))?", text)
        if not found:
            raise SystemExit(f"--policies: '{text}' is not of the form PRIORITY[@PERIOD][:WORST..BEST][+GROUP]")
        priority, number, unit, worst, best, group = found.groups()
        period = int(number) * (1000 if unit == "s" else 1) if number else 250
        return Policy(priority, period, int(worst) if worst else None, int(best) if best else None, group)

    def __str__(self) -> str:
        period = f"{self.period_ms // 1000} s" if self.period_ms % 1000 == 0 else f"{self.period_ms} ms"
        limits = f", {self.worst} to {self.best}" if self.worst is not None else ""
        return f"{self.priority}, {period}{limits}" + (f", a group per {self.group}" if self.group else "")

    def tables(self, targets: list[str]) -> str:
        """The part of a configuration that says it."""
        named = f"targets = {json.dumps(targets)}\n"
        text = f'[[policy]]\n{named}group = "{self.group}"\n' if self.group else ""
        text += f'[[policy]]\n{named}priority = "{self.priority}"\nperiod = "{self.period_ms} ms"\ntranslator = "nice"\n'
        if self.worst is not None:
            text += f"worst = {self.worst}\nbest = {self.best}\n"
        return text


def target(engine: Engine, name: str) -> str:
    """The part of a configuration that says where an engine of Java is."""
    rest, metrics, graphite = (f"127.0.0.1:{port}" for port in (engine.rest, engine.prometheus, engine.graphite))
    if engine.name == "flink":
        places = f'engine = "flink"\nurl = "http://{rest}"\nmetrics = ["http://{metrics}"]\n'
    else:
        places = f'engine = "storm"\ngraphite = "{graphite}"\nprocess = "{RUNNERS["storm"][0]}"\n'
    return f'[[target]]\nname = "{name}"\n{places}'


class Scheduler:
    """A running osched."""

    def __init__(self, command: list[str], configuration: str, folder: Path, engines: list[int]) -> None:
        """Starts it and waits until it answers over HTTP.

        Args:
            command: `anabranch osched run`, before the name of the file.
            configuration: targets and policies.
            folder: for the file and the log.
            engines: the processes that it schedules; their nice values are compared at the end.
        """
        self.port = free_port()
        self.log = folder / "osched.log"
        self.before = {pid: nice_values(pid) for pid in engines}
        file = folder / "osched.toml"
        file.write_text(f'listen = "127.0.0.1:{self.port}"\nother-cpusets = true\n{configuration}')
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*command, str(file)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        limit = time.monotonic() + START_SECONDS
        while self.status() is None:
            if self.process.poll() is not None or time.monotonic() > limit:
                self.process.kill()
                raise RuntimeError(f"osched has not started: {self.log.read_text()[-3000:]}")
            time.sleep(0.05)

    def status(self) -> Any | None:
        """The answer of `GET /api/v1/osched`; None if there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/osched", timeout=2) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None

    def begin(self) -> None:
        """Begins to count processor time."""
        self._begin, self._cpu = time.monotonic(), cpu_seconds(self.process.pid)

    def cores(self) -> float:
        """Cores that it has used since `begin`."""
        return (cpu_seconds(self.process.pid) - self._cpu) / (time.monotonic() - self._begin)

    def end(self) -> None:
        """Ends it as Ctrl-C does.

        Raises:
            RuntimeError: it has failed meanwhile, has written nothing, does not end, or has not left the nice values of all threads as they were.
        """
        status = self.status()
        if status and status["writes"] == 0 and (status["pressure"] or 0) > PRESSED:
            raise RuntimeError(f"osched has written nothing although threads wait for cores: {status['notices'][-3:]}")
        if self.process.poll() is not None:
            raise RuntimeError(f"osched has ended with {self.process.returncode}: {self.log.read_text()[-3000:]}")
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            raise RuntimeError(f"osched has not ended {END_SECONDS:.0f} s after Ctrl-C") from error
        for pid, before in self.before.items():
            after = nice_values(pid)
            left = {thread: nice for thread, nice in after.items() if nice != before.get(thread, nice)}
            if left:
                raise RuntimeError(f"osched has left nice values in process {pid}: {left}")
            # A new thread begins with the value of the thread that has started it.
            inherited = {thread: nice for thread, nice in after.items() if thread not in before and nice != 0}
            if inherited:
                print(f"threads that started meanwhile have inherited nice values in process {pid}: {inherited}", file=sys.stderr)

    def kill(self) -> None:
        """Ends it whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
