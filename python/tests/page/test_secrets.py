"""A secret of a job's text reaches the browser in no way, and the text can be changed without it."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from page.outside import Levels
from page.serving import Server, Visitor, editor_of, rewrite, until

PASSWORD = "the-password-that-nobody-may-see"
JOB = "with-a-password"
SCREENS = ("flow?stage=0", "why", "latency", "checkpoints", "state", "workers", "notices", "change")

#: Keeps all that the page receives from its server, also what comes piece by piece.
KEEP = """
window.received = [];
const send = window.fetch;
window.fetch = async (...of) => {
  const answer = await send(...of);
  const copy = answer.clone();
  const at = received.push('') - 1;
  void (async () => {
    const decoder = new TextDecoder();
    for await (const piece of copy.body ?? []) received[at] += decoder.decode(piece, {stream: true});
  })().catch(() => undefined);
  return answer;
};
"""


def _check(page: Page) -> None:
    """Nothing that the page has, shows or has received contains the password."""
    has = page.evaluate("JSON.stringify([received, {...localStorage}, {...sessionStorage}, history.state, location.href])")
    fields = page.evaluate("[...document.querySelectorAll('input, textarea, select')].map((field) => field.value).join()")
    for text in (has, fields, page.content()):
        assert PASSWORD not in text, re.findall(f".{{0,200}}{PASSWORD}", text)


def test_a_password_is_never_in_the_browser_and_stays_when_the_text_is_changed(
    service: Callable[[str], Levels], visitor: Visitor, fresh: Callable[..., Server]
) -> None:
    visitor.expect_complaint("400 (Bad Request)")
    # There may be no checkpoint yet, whose state could be shown.
    visitor.expect_complaint("409 (Conflict)")
    levels, server = service(PASSWORD), fresh()
    server.submit(JOB, levels.sql())
    page = visitor.open("#/", server, script=KEEP)
    expect(page.locator(".job-name")).to_have_text(JOB)
    for screen in SCREENS:
        page.goto(f"{server.url}/#/job/{JOB}/{screen}")
        expect(page.locator("main h2, main h3").first).to_be_attached()
        expect(page.locator("main .loading")).to_have_count(0)
        _check(page)
    expect(editor_of(page)).to_contain_text("'token' = '***secret 1***'")
    received = page.evaluate("received")
    assert any("***secret 1***" in text for text in received)
    assert any("event: whole" in text for text in received), "the stream is kept too"

    # The error is in the statement that has the password, and on its line.
    marked = levels.sql().replace(PASSWORD, "***secret 1***")
    rewrite(page, marked.replace("'token' =", "'no-such-option' = '1', 'token' ="))
    expect(page.locator(".said .bad")).to_contain_text("no-such-option")
    _check(page)
    rewrite(page, marked.replace("l.level > 0", "l.level > 1"))
    page.get_by_role("button", name="Apply the change").click()
    expect(page.get_by_text(re.compile(r"Settled after .* Version 2 of its plan runs"))).to_be_visible()
    let_in = levels.let_in
    until("rows of the new text", lambda: levels.let_in > let_in + 10)
    assert levels.turned_away == 0
    expect(editor_of(page)).to_contain_text("***secret 1***")
    _check(page)

    # A service that gives away what it was sent.
    with levels.failing():
        page.goto(f"{server.url}/#/job/{JOB}/notices")
        expect(page.locator(".events").first).to_contain_text("not for you")
        page.goto(f"{server.url}/#/job/{JOB}/why")
        expect(page.locator(".why-text")).to_contain_text("refuses")
        _check(page)
