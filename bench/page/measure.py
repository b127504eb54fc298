#!/usr/bin/env python3
"""Measures what the page costs: the job that it shows, the browser, and the wire. Writes bench/page/RESULTS.md.

The server is ``anabranch serve``; the browser is Chromium, without a window. Runs with and without the page take turns, each with a server of its own.
"""

from __future__ import annotations

import argparse
import gc
import http.client
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PYTHON = Path(__file__).resolve().parents[2] / "python"
sys.path[:0] = [str(PYTHON / "src"), str(PYTHON / "tests")]

from page.serving import Server, chromium, served, until
from playwright.sync_api import Browser, Page, sync_playwright

BEGIN, END = "<!-- figures -->", "<!-- end of the figures -->"
#: Seconds before something is measured.
SETTLE_S = 3.0
#: Rows per second of the job that is looked at: about half of a core.
RATE = 5_000_000
JOB = """
CREATE TABLE events (ad_id STRING, event_type STRING, event_time BIGINT, t AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR t AS t) WITH ('connector' = 'ad_events', 'seed' = '1',
  'start-time' = '2026-01-01 00:00:00', 'rows-per-second' = '{rate}');
CREATE TABLE counts (ad_id STRING, ends TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT ad_id, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '1' SECOND))
  WHERE event_type = 'view' GROUP BY ad_id, window_start, window_end;
"""
#: Stages of the wide job, two for each of its tables, and tasks of each stage.
STAGES, TASKS = 200, 10
WIDE = """
CREATE TABLE events{n} (ad_id STRING, event_time BIGINT, t AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR t AS t) WITH ('connector' = 'ad_events', 'seed' = '{n}',
  'start-time' = '2026-01-01 00:00:00', 'rows-per-second' = '20', 'partitions' = '10');
CREATE TABLE counts{n} (ad_id STRING, ends TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts{n} SELECT ad_id, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE events{n}, DESCRIPTOR(t), INTERVAL '1' SECOND)) GROUP BY ad_id, window_start, window_end;
"""


def cpu_s(process: int, name: str | None = None) -> float:
    """Processor time so far of a process, or of its threads of a name."""
    total = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        if name is None or (task / "comm").read_text().strip() == name:
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def threads(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/task"))


def running(server: Server, job: str) -> None:
    until(f"the job {job}", lambda: server.job(job)["ready"])


def used(server: Server, seconds: float) -> tuple[float, float]:
    """What the process, and what its HTTP server, uses of a core for some seconds."""
    time.sleep(SETTLE_S)
    names, process = (None, "http"), server.process.pid
    before, begun = [cpu_s(process, name) for name in names], time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - begun
    of_process, of_http = [(cpu_s(process, name) - earlier) / passed for name, earlier in zip(names, before, strict=True)]
    return of_process, of_http


def p99_ms(server: Server) -> float:
    """The 99th percentile of the latency of results since the start."""
    tasks = server.api("GET", "/api/v1/jobs/job/tasks")["tasks"]
    return max(task["result_latency"]["p99_ms"] for task in tasks if task.get("result_latency"))


class Reader(threading.Thread):
    """Reads the stream of a job as a page does, and counts its bytes."""

    def __init__(self, server: Server, path: str) -> None:
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port)
        self.connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        self.answer = self.connection.getresponse()
        self.bytes = 0
        self.start()

    def run(self) -> None:
        while part := self.answer.read1(65536):
            self.bytes += len(part)


@contextmanager
def looked_at(pages: int) -> Iterator[tuple[Server, list[Reader]]]:
    """A server with the job, and the streams of this many pages. A browser on the same two cores would cost more than what is measured."""
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
        server.submit("job", JOB.format(rate=RATE), parallelism="1")
        running(server, "job")
        yield server, [Reader(server, "/api/v1/jobs/job/live") for _ in range(pages)]


def shown(values: list[float], digits: int = 1) -> str:
    """The median, and the range."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def of_job(pairs: int, seconds: float, pages: int) -> list[str]:
    """Runs without and with pages, in turns."""
    use: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    latency: tuple[list[float], list[float]] = ([], [])
    of_threads = [0, 0]
    for pair in range(pairs):
        for with_pages in (pair % 2 == 0, pair % 2 != 0):
            with looked_at(pages if with_pages else 0) as (server, readers):
                use[with_pages].append(used(server, seconds))
                latency[with_pages].append(p99_ms(server))
                of_threads[with_pages] = threads(server.process.pid)
                assert all(reader.bytes for reader in readers)
    process = statistics.median(of_process for runs in use for of_process, _ in runs)
    of_http = [[100 * http / process for _, http in runs] for runs in use]
    more = [after - before for before, after in zip(*of_http, strict=True)]
    name = "a page" if pages == 1 else f"{pages} pages"
    return [
        f"| processor time of the process, % of a core | {100 * process:.1f} | |",
        f"| of this, of the HTTP server without a page, % | {shown(of_http[0], 2)} | |",
        f"| more with {name}, % | {shown(more, 2)} | {'1' if pages == 1 else ''} |",
        f"| p99 of results' latency without, ms | {shown(latency[0], 2)} | |",
        f"| with {name}, ms | {shown(latency[1], 2)} | unchanged |",
        f"| threads of the process without, and with {name} | {of_threads[0]}, {of_threads[1]} | the same |",
    ]


def first_paint(browser: Browser, server: Server, times: int) -> list[float]:
    """Milliseconds from the request of the first screen until something is drawn."""
    found = []
    for _ in range(times):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.goto(f"{server.url}/#/")
        page.locator("a[href='#/job/demo/flow'], a[href*='job/demo']").first.wait_for()
        found.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        context.close()
    return found


def metrics(session: Any) -> dict[str, float]:
    return {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}


def open_graph(browser: Browser, server: Server, nodes: int) -> tuple[float, Page]:
    """Milliseconds from the request of a job's graph in an open page until all of its nodes are there. Files of the page are not in its cache."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(f"{server.url}/#/")
    page.locator("a[href*='job/job']").first.wait_for()
    page.wait_for_timeout(1000)
    begun = time.monotonic()
    page.goto(f"{server.url}/#/job/job/flow")
    page.locator(".node").nth(nodes - 1).wait_for(state="attached")
    return 1000 * (time.monotonic() - begun), page


def wide(browser: Browser, folder: Path, seconds: float) -> list[str]:
    """A job of many stages."""
    text = "".join(WIDE.format(n=n) for n in range(STAGES // 2))
    with served(folder, "--slots", str(TASKS)) as server:
        server.submit("job", text, parallelism=str(TASKS))
        running(server, "job")
        tasks = server.api("GET", "/api/v1/jobs/job/tasks")["tasks"]
        stages = {task["stage"] for task in tasks}
        opened = [open_graph(browser, server, len(stages)) for _ in range(5)]
        page = opened[-1][1]
        for _, other in opened[:-1]:
            other.context.close()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        reader = Reader(server, "/api/v1/jobs/job/live")
        time.sleep(SETTLE_S)
        before, bytes_before = metrics(session), reader.bytes
        time.sleep(seconds)
        after, bytes_after = metrics(session), reader.bytes
        spent = {
            name: 1000 * (after[name] - before[name]) / seconds for name in ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
        }
        page.context.close()
        process, _ = used(server, seconds)
        return [
            f"| the job without a page, % of a core | {100 * process:.0f} | |",
            f"| stages, tasks | {len(stages)}, {len(tasks)} | 200, 2000 |",
            f"| from the click to the graph, ms | {shown([ms for ms, _ in opened], 0)} | 1000 |",
            f"| script for an update, ms | {spent['ScriptDuration']:.1f} | 50 |",
            f"| layout and style for an update, ms | {spent['LayoutDuration'] + spent['RecalcStyleDuration']:.1f} | |",
            f"| on the wire, KB/s | {(bytes_after - bytes_before) / seconds / 1000:.1f} | 40 |",
        ]


def heap_mb(page: Page, session: Any) -> float:
    page.wait_for_timeout(100)
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    return metrics(session)["JSHeapUsedSize"] / 1e6


def opened_long(browser: Browser, folder: Path, minutes: float) -> list[str]:
    """A page that stays open."""
    with served(folder) as server:
        server.api("POST", "/api/v1/demo")
        running(server, "demo")
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.goto(f"{server.url}/#/job/demo/flow")
        page.locator(".node").first.wait_for()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        page.wait_for_timeout(60_000)
        first = heap_mb(page, session)
        page.wait_for_timeout(60_000 * minutes)
        last = heap_mb(page, session)
        page.context.close()
        return [f"| heap of the page after 1 min, and {minutes:.0f} min later, MB | {first:.1f}, {last:.1f} | 5 more |"]


def painted(browser: Browser, folder: Path) -> list[str]:
    with served(folder) as server:
        server.api("POST", "/api/v1/demo")
        running(server, "demo")
        first_paint(browser, server, 2)
        return [f"| from the request of the first screen until it is drawn, ms | {shown(first_paint(browser, server, 9), 0)} | 300 |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="anabranch, built in release mode")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--minutes", type=float, default=0, help="how long a page stays open; 0: this is not measured")
    parser.add_argument("--only", choices=["paint", "job", "many", "wide", "long"])
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    os.environ["ANABRANCH_PROGRAM"] = str(arguments.program.resolve())
    gc.disable()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = chromium(playwright)
        parts: dict[str, Callable[[], list[str]]] = {
            "paint": lambda: painted(browser, Path(folder)),
            "job": lambda: of_job(arguments.pairs, arguments.seconds, 1),
            "many": lambda: of_job(arguments.pairs, arguments.seconds, 64),
            "wide": lambda: wide(browser, Path(folder, "wide"), arguments.seconds),
        }
        if arguments.minutes:
            parts["long"] = lambda: opened_long(browser, Path(folder, "long"), arguments.minutes)
        lines = ["|  | measured | bound |", "|---|---:|---:|"]
        for name, part in parts.items():
            if arguments.only in (None, name):
                Path(folder, name).mkdir(exist_ok=True)
                lines += (found := part())
                print("\n".join(found), flush=True)
        browser.close()
    if arguments.markdown:
        text = arguments.markdown.read_text()
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        arguments.markdown.write_text("\n".join([before + BEGIN, "", *lines, "", END]) + after)


if __name__ == "__main__":
    main()
