"""The program as one process or as a cluster, and a browser that reports whatever goes wrong in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Playwright, Request, expect

import anabranch

#: Longer than anything here takes, even on a busy machine with a debug build.
LIMIT_S = 40.0
#: Events without an end, and a table that takes all rows.
EVENTS = """CREATE TABLE events (ad_id STRING, event_time BIGINT) WITH ('connector' = 'ad_events', 'seed' = '1',
  'start-time' = '2026-01-01 00:00:00', 'rows-per-second' = '500');
"""
NOWHERE = """CREATE TABLE nowhere (ad_id STRING, event_time BIGINT) WITH ('connector' = 'blackhole');
"""
#: A job whose text can be changed in its condition.
COPY = EVENTS + NOWHERE + "INSERT INTO nowhere SELECT ad_id, event_time FROM events WHERE event_time > 0;\n"
#: Events with a time of their own, counted in windows that stay open.
TIMED = EVENTS.replace("event_time BIGINT)", "event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts)")
COUNTS = """CREATE TABLE counts (ad_id STRING, n BIGINT) WITH ('connector' = 'blackhole');
"""
#: A moment that no sample is behind: the newest one stands for it.
NEWEST = 9_000_000_000_000
#: Environment variables of the program: the token, and where commands find coordinators.
TOKEN, COORDINATOR = "ANABRANCH_TOKEN", "ANABRANCH_COORDINATOR"
#: The token of clusters.
SECRET = "the-token-of-this-cluster"
#: States of a job that no longer runs.
OVER = ("cancelled", "ended", "failed", "stopped")

# The policy of the page is reported to its console, but not for a page that goes away at once.
_REPORT = "addEventListener('securitypolicyviolation', (e) => console.error('policy: ' + e.violatedDirective + ' ' + e.blockedURI));"


def until(what: str, is_there: Callable[[], object]) -> None:
    """Waits for something outside the browser that will come."""
    end_s = time.monotonic() + LIMIT_S
    while not is_there():
        assert time.monotonic() < end_s, f"{what} does not come"
        time.sleep(0.05)


def count(hours: int, of: str = "COUNT(*)") -> str:
    """A statement over TIMED and COUNTS."""
    windows = f"TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{hours}' HOUR))"
    return f"INSERT INTO counts SELECT ad_id, {of} FROM {windows} GROUP BY ad_id, window_start, window_end;\n"


class Program:
    """A process of the program. Its lines are in a file. It ends when the process of the tests does."""

    def __init__(self, log: Path, arguments: Sequence[str], token: str = "") -> None:
        self.log = log
        environment = {name: value for name, value in os.environ.items() if name not in (TOKEN, COORDINATOR)}
        if token:
            environment[TOKEN] = token
        command = [str(anabranch.program()), *arguments, "--end-with-parent"]
        with log.open("wb") as out:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=out, stderr=out)

    def told(self, line: re.Pattern[str]) -> re.Match[str]:
        """Waits until the process has written such a line."""
        until(line.pattern, lambda: line.search(self.log.read_text()) or self.process.poll() is not None)
        found = line.search(self.log.read_text())
        assert found is not None, self.log.read_text()
        return found

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The process hangs until the end of the block. Its connections stay."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()


class Server:
    """A process that has the page: ``anabranch serve``, or a coordinator."""

    #: What the process writes when it listens, with its ports.
    listens = re.compile(r"page and commands at http://127\.0\.0\.1:(?P<http>\d+)")

    def __init__(self, folder: Path, *arguments: str, name: str = "serve", token: str = "") -> None:
        self.folder = folder
        self.arguments = arguments
        self.name = name
        #: Sent with requests, if the server wants one.
        self.token = token
        self.ports = dict.fromkeys(self.listens.groupindex, 0)
        self.start()

    def start(self) -> None:
        """Starts the process; again at the same ports and with the same store if there was one."""
        self.program = Program(self.folder / f"{self.name}.log", self.command(), self.token)
        self.ports = {name: int(port) for name, port in self.program.told(self.listens).groupdict().items()}
        until("an answer of the server", self._answers)

    def command(self) -> list[str]:
        return ["serve", "--listen", self.address("http"), "--store", str(self.folder / "store"), *self.arguments]

    def address(self, port: str) -> str:
        return f"127.0.0.1:{self.ports[port]}"

    def _answers(self) -> bool:
        try:
            return bool(self.api("GET", "/healthz"))
        except OSError:
            return False

    @property
    def url(self) -> str:
        return f"http://{self.address('http')}"

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Sends a request, and gives the answer's document."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return json.loads(answer.read())

    def submit(self, name: str, sql: str, **settings: str) -> None:
        self.api("POST", "/api/v1/jobs", {"name": name, "sql": sql, "settings": settings})

    def job(self, name: str) -> Any:
        return self.api("GET", f"/api/v1/jobs/{quote(name, safe='')}")

    def discard(self, name: str) -> None:
        """Ends a job and forgets it."""
        path = f"/api/v1/jobs/{quote(name, safe='')}"
        if self.job(name)["state"] not in OVER:
            self.api("POST", f"{path}/cancel")
        until("the end of the job", lambda: self.job(name)["state"] in OVER)
        self.api("POST", f"{path}/remove", {"discard_state": True})

    def kill(self) -> None:
        self.program.kill()

    def close(self) -> None:
        self.program.close()


class Coordinator(Server):
    """A coordinator of a cluster, which wants the token of the cluster."""

    listens = re.compile(r"workers connect to 127\.0\.0\.1:(?P<workers>\d+); commands to http://127\.0\.0\.1:(?P<http>\d+)")

    def command(self) -> list[str]:
        places = ["--store", str(self.folder / "store"), "--listen", self.address("workers"), "--http", self.address("http")]
        return ["coordinator", *places, *self.arguments]

    def leads(self) -> bool:
        """Whether it has the jobs. One that stands by does not list them."""
        try:
            return bool(self.api("GET", "/api/v1/jobs"))
        except OSError:
            return False


class Cluster:
    """Coordinators and workers, each a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.coordinators: list[Coordinator] = []
        self.workers: dict[str, Program] = {}

    def coordinator(self) -> None:
        """Starts one more coordinator, and waits until one leads."""
        name = f"coordinator-{len(self.coordinators)}"
        self.coordinators.append(Coordinator(self.folder, name=name, token=SECRET))
        assert self.leader

    @property
    def leader(self) -> Coordinator:
        """The coordinator that has the jobs."""
        until("a leader", lambda: self._leader() is not None)
        leader = self._leader()
        assert leader is not None, "it leads no more"
        return leader

    def _leader(self) -> Coordinator | None:
        return next((one for one in self.coordinators if one.leads()), None)

    @property
    def standby(self) -> Coordinator:
        """A coordinator that stands by."""
        leader = self.leader
        return next(one for one in self.coordinators if one is not leader)

    def worker(self, name: str, slots: int) -> None:
        """Starts a worker, and waits until the coordinator that leads knows it."""
        at = ",".join(one.address("workers") for one in self.coordinators)
        arguments = ["worker", "--coordinator", at, "--name", name, "--slots", str(slots)]
        self.workers[name] = Program(self.folder / f"{name}.log", arguments, SECRET)
        until(f"worker {name}", lambda: name in [one["name"] for one in self.leader.api("GET", "/api/v1/workers")["workers"]])

    def close(self) -> None:
        for process in [*self.workers.values(), *(one.program for one in self.coordinators)]:
            process.kill()


def chromium(playwright: Playwright) -> Browser:
    """The system's browser: none is downloaded."""
    program = shutil.which("chromium")
    assert program is not None, "there is no program 'chromium'; install the Debian package of this name"
    return playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])


class Site(Protocol):
    """Where a page is."""

    @property
    def url(self) -> str: ...


class Visitor:
    """Opens pages, each in a context of its own, and keeps what their browser complained of."""

    def __init__(self, browser: Browser, server: Callable[[], Server]) -> None:
        self.browser = browser
        self.server = server
        self.complaints: list[str] = []
        self.expected: list[str] = []

    def expect_complaint(self, part: str) -> None:
        """What a test brings about itself, such as a server that is away."""
        self.expected.append(part)

    def open(self, route: str = "#/", site: Site | None = None, script: str = "", **context: Any) -> Page:
        """A new page at a route of a site, else of the server of all tests. The script runs before those of the page."""
        at = site if site is not None else self.server()
        opened = self.browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        opened.set_default_timeout(LIMIT_S * 1000)
        opened.add_init_script(_REPORT + script)
        page = opened.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", lambda request: self._asked(request, at.url))
        page.goto(f"{at.url}/{route}")
        return page

    def discard(self, job: str) -> None:
        """Removes a job, after the pages that may show it are closed."""
        self._leave()
        self.server().discard(job)

    def _leave(self) -> None:
        for context in self.browser.contexts:
            context.close()

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def _asked(self, request: Request, url: str) -> None:
        if not request.url.startswith((url + "/", "data:")):
            self.complaints.append(f"request to elsewhere: {request.url}")

    def close(self) -> list[str]:
        """Closes the pages. Gives the complaints that nobody expected."""
        self._leave()
        return [text for text in self.complaints if not any(part in text for part in self.expected)]


def editor_of(page: Page) -> Locator:
    """The editor of a job's text."""
    return page.get_by_role("textbox", name="SQL of the job")


def rewrite(page: Page, text: str) -> None:
    """Replaces the text of a job in the editor, as a paste does, once it can be changed: the page has heard that the job runs."""
    editor = editor_of(page)
    expect(editor).to_contain_text("INSERT INTO")
    expect(editor).to_have_attribute("aria-readonly", "false")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[Server]:
    """A server in a folder of its own, until the end of the block."""
    server = Server(folder, *arguments)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def clustered(folder: Path, coordinators: int) -> Iterator[Cluster]:
    """A cluster without workers, until the end of the block."""
    cluster = Cluster(folder)
    try:
        for _ in range(coordinators):
            cluster.coordinator()
        yield cluster
    finally:
        cluster.close()
