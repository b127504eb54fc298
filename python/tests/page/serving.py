"""The program as ``anabranch serve``, and a browser that reports whatever goes wrong in it."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, Request

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


class Server:
    """A process ``anabranch serve``. It ends when the process of the tests does."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.arguments = arguments
        self.port = 0
        #: Sent with requests, if the server wants one.
        self.token = ""
        self.start()

    def start(self) -> None:
        """Starts the process; again at the same port and with the same store if there was one."""
        log = self.folder / "serve.log"
        command = [str(anabranch.program()), "serve", "--listen", f"127.0.0.1:{self.port}", "--store", str(self.folder / "store")]
        with log.open("wb") as out:
            self.process = subprocess.Popen([*command, "--end-with-parent", *self.arguments], stdin=subprocess.PIPE, stdout=out, stderr=out)
        told = re.compile(r"page and commands at http://127\.0\.0\.1:(\d+)")
        until("the address of the server", lambda: told.search(log.read_text()) or self.process.poll() is not None)
        found = told.search(log.read_text())
        assert found is not None, log.read_text()
        self.port = int(found[1])
        until("an answer of the server", self._answers)

    def _answers(self) -> bool:
        try:
            return bool(self.api("GET", "/healthz"))
        except (OSError, urllib.error.URLError):
            return False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

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
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()


def chromium(playwright: Playwright) -> Browser:
    """The system's browser: none is downloaded."""
    program = shutil.which("chromium")
    assert program is not None, "there is no program 'chromium'; install the Debian package of this name"
    return playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])


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

    def open(self, route: str = "#/", server: Server | None = None, **context: Any) -> Page:
        """A new page at a route of a server: that of all tests unless another one is given."""
        at = server if server is not None else self.server()
        opened = self.browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        opened.set_default_timeout(LIMIT_S * 1000)
        opened.add_init_script(_REPORT)
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


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[Server]:
    """A server in a folder of its own, until the end of the block."""
    server = Server(folder, *arguments)
    try:
        yield server
    finally:
        server.close()
