"""What the page does when its network, its server, its job or its clock is not as it should be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone

import pytest
from playwright.sync_api import Locator, Page, expect

from page.outside import Network
from page.serving import COPY, EVENTS, NOWHERE, Server, Visitor, editor_of, rewrite, until

#: A time that is shown may be older by so much: a screen is drawn each second, on a busy machine later.
CLOSE = timedelta(seconds=15)


def _is_close(time_of_day: str, to: datetime) -> bool:
    """Whether a time of day in UTC is this moment."""
    at = datetime.strptime(time_of_day, "%H:%M:%S").replace(tzinfo=timezone.utc)
    difference = (at - to).total_seconds() % 86_400
    return min(difference, 86_400 - difference) < CLOSE.total_seconds()


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _time_in(of: Locator) -> str:
    """The first time of day in a text."""
    expect(of).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
    found = re.search(r"\d\d:\d\d:\d\d", of.inner_text())
    assert found is not None
    return found[0]


def _link(page: Page) -> Locator:
    return page.locator(".connection .link")


def _rows_read(page: Page) -> Locator:
    return page.get_by_label("Figures of the job").locator(".figure").filter(has_text="Rows read").locator("dd")


@pytest.fixture
def network(server: Server) -> Iterator[Network]:
    with closing(Network(server)) as network:
        yield network


def test_without_a_network_the_page_says_since_when_and_goes_on(visitor: Visitor, network: Network) -> None:
    visitor.expect_complaint("net::ERR_")
    page = visitor.open("#/job/demo/flow", network)
    expect(_rows_read(page)).to_have_text(re.compile("[1-9]"))
    expect(_link(page)).to_contain_text("live")
    network.cut()
    away = _now()
    expect(_link(page)).to_contain_text("disconnected since")
    since = _time_in(_link(page))
    assert _is_close(since, away), f"{since}, and not {away}"
    # What was seen last stays, and no screen is lost. The parts of one that was never opened cannot be there.
    expect(page.locator(".node")).to_have_count(3)
    expect(page.locator(".banner")).to_contain_text("This is what it said last")
    page.get_by_role("link", name="Checkpoints", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be loaded")
    # It is the time of the break, not that of the newest attempt.
    expect(_link(page)).to_contain_text(since)
    network.mend()
    expect(_link(page)).to_contain_text("live")
    expect(page.locator(".banner")).to_have_count(0)
    expect(page.get_by_role("region", name="Checkpoints, the newest first")).to_be_visible()
    page.get_by_role("link", name="Flow", exact=True).click()
    before = _rows_read(page).inner_text()
    expect(_rows_read(page)).not_to_have_text(before)


def test_a_server_that_hangs_is_given_up_and_followed_again(visitor: Visitor, fresh: Callable[..., Server]) -> None:
    server = fresh()
    server.api("POST", "/api/v1/demo")
    page = visitor.open("#/job/demo/flow", server)
    page.clock.install()
    page.reload()
    expect(_rows_read(page)).to_have_text(re.compile("[1-9]"))
    heard = _time_in(page.locator(".clock"))
    with server.program.paused():
        # No connection ends, and no time need pass here.
        page.clock.fast_forward(15_000)
        expect(_link(page)).to_contain_text("disconnected since")
        assert _is_close(_time_in(_link(page)), _now()), "the server was heard until now"
        expect(page.locator(".node")).to_have_count(3)
    expect(_link(page)).to_contain_text("live")
    expect(page.locator(".clock")).not_to_contain_text(heard)


def test_a_job_that_ends_and_is_removed_while_its_page_is_open(visitor: Visitor, server: Server) -> None:
    visitor.expect_complaint("404 (Not Found)")
    ends = EVENTS.replace("'rows-per-second' = '500'", "'rows-per-second' = '500', 'number-of-rows' = '2000'")
    server.submit("ending", ends + NOWHERE + "INSERT INTO nowhere SELECT ad_id, event_time FROM events;")
    page = visitor.open("#/job/ending/flow", server)
    badge = page.locator(".job-header .badge")
    actions = page.get_by_role("group", name="Actions")
    expect(badge).to_contain_text("running")
    expect(actions.get_by_role("button", name="Stop")).to_be_visible()
    expect(badge).to_contain_text("ended")
    expect(_rows_read(page)).to_have_text("2.00\u00a0k")
    expect(actions.get_by_role("button")).to_have_text("Remove")
    page.get_by_role("link", name="Why no output").click()
    expect(page.locator(".why-text")).to_contain_text("has read all of its input and has ended")
    server.discard("ending")
    expect(page.locator(".banner")).to_contain_text("no longer followed: the job was removed")
    expect(_link(page)).to_contain_text("ended")
    page.get_by_role("link", name="To the jobs").click()
    expect(page.get_by_role("link", name="demo", exact=True).first).to_be_visible()
    expect(page.get_by_role("link", name="ending", exact=True)).to_have_count(0)


def test_a_text_that_is_being_written_outlives_the_server(visitor: Visitor, fresh: Callable[..., Server]) -> None:
    visitor.expect_complaint("net::ERR_")
    server = fresh()
    server.submit("written", COPY)
    page = visitor.open("#/job/written/change", server)
    rewrite(page, COPY.replace("event_time > 0", "event_time > 7"))
    apply = page.get_by_role("button", name="Apply the change")
    expect(apply).to_be_enabled()
    server.kill()
    expect(_link(page)).to_contain_text("disconnected since")
    server.start()
    expect(_link(page)).to_contain_text("live")
    until("the job", lambda: server.job("written")["state"] == "running")
    expect(editor_of(page)).to_contain_text("event_time > 7")
    expect(page.get_by_role("alert")).to_have_count(0)
    apply.click()
    expect(page.get_by_text(re.compile("Settled after"))).to_be_visible()
    assert "event_time > 7" in server.api("GET", "/api/v1/jobs/written/sql")["sql"]


#: The clock of the browser's machine is wrong by hours.
WRONG_CLOCK = """
const by_ms = 7 * 3600 * 1000 + 13 * 60 * 1000;
const Right = Date;
window.Date = class extends Right {
  constructor(...of) { if (of.length === 0) super(Right.now() + by_ms); else super(...of); }
  static now() { return Right.now() + by_ms; }
};
"""


def test_a_wrong_clock_of_the_browser_changes_no_time(visitor: Visitor, server: Server) -> None:
    until("a checkpoint of the demo", lambda: server.api("GET", "/api/v1/jobs/demo/checkpoints")["completed"])
    page = visitor.open("#/job/demo/checkpoints", server, script=WRONG_CLOCK, timezone_id="Pacific/Auckland")
    wrong_by_s = page.evaluate("Date.now()") / 1000 - _now().timestamp()
    assert wrong_by_s > 7 * 3600
    assert _is_close(_time_in(page.locator(".clock")), _now())
    last = page.get_by_label("Checkpoints of the job").locator(".figure").filter(has_text="Last").locator("dd")
    expect(last).to_have_text(re.compile(r"^(now|\d+\ss ago)$"))
    newest = server.api("GET", "/api/v1/jobs/demo/checkpoints")["last"]["completed_at_ms"] / 1000
    row = page.get_by_role("region", name="Checkpoints, the newest first").locator("tbody tr").first
    assert _is_close(_time_in(row), datetime.fromtimestamp(newest, timezone.utc))
    # The time line ends now, and a moment of it is one of the server's.
    page.get_by_role("slider", name="Moment that is shown").press("ArrowLeft")
    banner = page.locator(".past-banner")
    assert _is_close(_time_in(banner), _now())
    expect(banner).to_contain_text(re.compile(r"now|\ds ago"))
    page.get_by_role("button", name="Back to now").click()
    page.goto(f"{server.url}/#/")
    line = page.get_by_role("row").filter(has=page.get_by_role("link", name="demo", exact=True))
    expect(line.locator("[data-label='Last checkpoint']")).to_have_text(re.compile(r"^(now|\d+\ss ago)$"))
    assert _is_close(_time_in(page.locator(".clock")), _now())
    # Also what the browser keeps itself.
    page.goto(f"{server.url}/#/sql")
    page.get_by_role("textbox", name="SQL", exact=True).click()
    page.keyboard.insert_text("SELECT 1;")
    page.get_by_role("button", name="Drafts").click()
    drafts = page.get_by_role("dialog", name="Drafts")
    drafts.get_by_label("Save the text as").fill("a draft")
    drafts.get_by_role("button", name="Save", exact=True).click()
    assert _is_close(_time_in(drafts.locator("li small")), _now())
