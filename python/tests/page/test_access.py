"""Tokens, pages of other sites, and a server that goes away."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from page.serving import Server, Visitor

TOKEN = "the-token-that-may-change"
READ_TOKEN = "the-token-that-may-read"


@pytest.fixture
def guarded(tmp_path: Path, fresh: Callable[..., Server]) -> Server:
    """A server that wants a token. Its demo runs."""
    files = []
    for name, token in (("token", TOKEN), ("read-token", READ_TOKEN)):
        file = tmp_path / name
        file.write_text(token)
        file.chmod(0o600)
        files += [f"--{name}-file", str(file)]
    server = fresh(*files)
    server.token = TOKEN
    server.api("POST", "/api/v1/demo")
    return server


def test_a_token_that_reads_sees_all_and_changes_nothing(visitor: Visitor, guarded: Server) -> None:
    page = visitor.open(f"#token={READ_TOKEN}", guarded)
    expect(page.get_by_text("read only")).to_be_visible()
    expect(page).to_have_url(f"{guarded.url}/#/")
    assert READ_TOKEN not in page.evaluate("JSON.stringify([location.href, history.state, document.documentElement.outerHTML])")
    page.get_by_role("link", name="demo", exact=True).first.click()
    expect(page.locator(".node").first).to_be_visible()
    expect(page.get_by_role("link", name="Why no output")).to_be_visible()
    expect(page.get_by_role("link", name="Change", exact=True)).to_have_count(0)
    expect(page.get_by_role("group", name="Actions")).to_have_count(0)
    page.goto(f"{guarded.url}/#/sql")
    expect(page.get_by_role("tab", name="Plan")).to_be_visible()
    expect(page.get_by_role("tab", name="Submit as a job")).to_have_count(0)


def test_without_a_token_the_page_asks_for_it(visitor: Visitor, guarded: Server) -> None:
    visitor.expect_complaint("401 (Unauthorized)")
    page = visitor.open(site=guarded)
    dialog = page.get_by_role("dialog", name="Token")
    field = dialog.get_by_label("Token")
    expect(field).to_be_focused()
    field.fill("a-token-that-is-wrong")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("does not take this token")
    field.fill(TOKEN)
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("link", name="demo", exact=True).first).to_be_visible()
    page.reload()
    expect(page.get_by_role("link", name="demo", exact=True).first).to_be_visible()


def test_a_server_that_was_killed_is_followed_again(visitor: Visitor, fresh: Callable[..., Server]) -> None:
    visitor.expect_complaint("net::ERR_")
    server = fresh()
    server.api("POST", "/api/v1/demo")
    page = visitor.open("#/job/demo/flow", server)
    link = page.locator(".connection .link")
    expect(link).to_contain_text("live")
    read = page.get_by_label("Figures of the job").locator(".figure").filter(has_text="Rows read").locator("dd")
    expect(read).to_have_text(re.compile("[1-9]"))
    server.kill()
    expect(link).to_have_text(re.compile(r"disconnected since \d\d:\d\d:\d\d UTC"))
    # What was seen last stays.
    expect(page.locator(".node")).to_have_count(3)
    server.start()
    expect(link).to_contain_text("live")
    expect(page.locator(".job-header")).to_contain_text("running")
    before = read.inner_text()
    expect(read).not_to_have_text(before)


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """A page of another site: another port is another origin."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>Elsewhere</title>")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is that of the class above
            pass

    site = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{site.server_port}"
    site.shutdown()
    site.server_close()


def test_a_page_of_another_site_can_neither_read_nor_change(browser: Browser, server: Server, elsewhere: str) -> None:
    page = browser.new_page()
    page.goto(elsewhere)
    read = "(url) => fetch(url + '/api/v1/jobs').then((answer) => answer.text(), (error) => String(error))"
    assert "TypeError" in page.evaluate(read, server.url)
    # Without asking for the answer, the request is sent: the server refuses it.
    stop = "(url) => fetch(url + '/api/v1/jobs/demo/stop', {method: 'POST', mode: 'no-cors', body: ''}).then((answer) => answer.type)"
    assert page.evaluate(stop, server.url) == "opaque"
    # The job may still restore its state when the test comes early.
    assert server.job("demo")["state"] in ("restoring", "running")
    page.evaluate("(url) => { const frame = document.createElement('iframe'); frame.src = url; document.body.append(frame); }", server.url)
    expect(page.frame_locator("iframe").locator("#page")).to_have_count(0)
    page.close()
