"""Flink and Storm with the workloads of `java/`: one process that obeys commands on its standard input."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from process import cpu_seconds, free_port

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
JAVA = HERE / "java"
#: Of each engine: the class that runs it, and the jar that must be among those that Maven finds.
RUNNERS = {"flink": ("osched.flink.FlinkRunner", "flink-streaming-java"), "storm": ("osched.storm.StormRunner", "storm-server")}
OPENED = ["java.lang", "java.lang.reflect", "java.net", "java.nio", "java.text", "java.time", "java.util", "java.util.concurrent"]
#: Rows per second with which a workload warms up: none of them saturates a core.
WARM_RATES = {"syn": 300.0, "lr": 3000.0, "vs": 1000.0, "etl": 1000.0, "stats": 300.0}


@dataclass
class Window:
    """What was counted between two marks."""

    seconds: float
    #: Rows that were due, that sources have emitted, and that were inside at the end.
    offered: int
    ingress: int
    inside: int
    results: int
    #: Results of these rows within the time, per second.
    goodput: float
    #: Milliseconds: mean, p50, p99, p99.9, max.
    processing_ms: dict[str, float]
    end_to_end_ms: dict[str, float]
    #: Over the nodes' queues, in rows squared: a mean over time. The goal of the policy "queue size".
    queue_variance: float
    queue_rows: float
    #: The greatest age of a row with which a node started. The goal of "first come first served".
    oldest_ms: float
    #: Cores that the engine's process used.
    cores: float = 0.0


def classes(engine: str, folder: Path) -> str:
    """Compiles the workloads for an engine into a folder, and returns the path of classes and jars."""
    pom = JAVA / engine / "pom.xml"
    version = re.search(r"<engine.version>(.*)</engine.version>", pom.read_text())
    assert version is not None
    runner, jar = RUNNERS[engine]
    fetch = [str(ROOT / "tests/fetch-jars.sh"), f"osched-{engine}-{version[1]}", str(pom), f"{jar}-{version[1]}.jar"]
    jars = subprocess.run(fetch, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    packages = ("core", "workload", engine)
    sources = [str(file) for package in packages for file in sorted((JAVA / "src/osched" / package).glob("*.java"))]
    subprocess.run(["/usr/bin/env", "javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(folder), *sources], check=True)
    assert (folder / (runner.replace(".", "/") + ".class")).exists()
    return f"{folder}:{jars}/*"


class Engine:
    """A running engine. It ends with `stop`, or when this process ends: its input is closed then."""

    def __init__(self, engine: str, class_path: str, workload: str, period_ms: int, options: list[str]) -> None:
        """Starts the process and waits until all tasks are ready.

        Args:
            engine: `flink` or `storm`.
            class_path: as `classes` returns it.
            workload: `syn`, `lr`, `vs`, `etl` or `stats`.
            period_ms: how often Storm reports.
            options: further options of the runner.
        """
        self.name = engine
        self.folder = tempfile.TemporaryDirectory(prefix="anabranch-bench-")
        self.log = Path(self.folder.name, "log")
        self.rest, self.prometheus, self.graphite = free_port(), free_port(), free_port()
        # The box is not the JVM's whole life: as many threads for compiler and collector as outside of it.
        line = ["/usr/bin/env", "java", "-Xms2g", "-Xmx2g", "-XX:-UseContainerSupport", f"-Djava.io.tmpdir={self.folder.name}"]
        line += [f"-Dlog4j2.configurationFile={JAVA / 'storm/log4j2.properties'}"]
        line += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        line += ["-cp", class_path, RUNNERS[engine][0], "--workload", workload]
        if engine == "flink":
            line += ["--rest-port", str(self.rest), "--prometheus-port", str(self.prometheus)]
        else:
            line += ["--graphite-port", str(self.graphite), "--period-ms", str(period_ms)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*line, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.folder.name
            )
        try:
            self.ready = self._answer()
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    def begin(self, rows_per_second: float) -> None:
        """From now on so many rows are due per second, and are counted."""
        self._ask({"begin": rows_per_second})
        self._cpu = cpu_seconds(self.pid)

    def end(self) -> Window:
        """What was counted since `begin`."""
        answer = self._ask({"mark": "end"})
        cores = (cpu_seconds(self.pid) - self._cpu) / answer["seconds"]
        return Window(**answer, cores=cores)

    def drain(self, seconds: float) -> dict[str, Any]:
        """Stops the sources and waits, not longer than given, until nothing is inside. All results since `begin` are counted."""
        return self._ask({"drain": seconds})

    def stop(self) -> None:
        """Ends the process."""
        if self.process.poll() is None:
            self._ask({"stop": True})
            self.process.wait(20)
        self.folder.cleanup()

    def kill(self) -> None:
        """Ends the process whatever it does."""
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} has ended: {self.log.read_text()[-3000:]}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer
