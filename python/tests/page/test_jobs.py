"""The first screen: what runs, and whether all is well."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from page.serving import Server, Visitor

#: The budget is 300 ms on a machine of its own; tests share theirs with a debug build and other tests.
PAINTED_MS = 1500


def test_an_empty_server_shows_how_to_begin_and_the_demo_is_one_click(visitor: Visitor, fresh: Callable[..., Server]) -> None:
    page = visitor.open(site=fresh())
    expect(page.get_by_role("heading", name="No job runs here yet")).to_be_visible()
    page.get_by_role("button", name="Start the demo").click()
    expect(page).to_have_url(re.compile(r"#/job/demo/flow$"))
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    line = page.get_by_role("row").filter(has=page.get_by_role("link", name="demo", exact=True))
    expect(line.locator("[data-label=State]")).to_contain_text("running")
    expect(line.locator("[data-label=Read]")).to_have_text(re.compile(r"[1-9].*/s"))
    # The first window of ten seconds has no results yet. Then they come.
    expect(line.locator(".sentence .verdict")).to_be_visible()
    expect(line.locator("[data-label=Written]")).to_have_text(re.compile(r"[1-9].*/s"))
    expect(line.locator(".sentence")).to_contain_text("All is well")


def test_the_first_screen_is_painted_soon(visitor: Visitor) -> None:
    page = visitor.open()
    expect(page.get_by_role("link", name="demo", exact=True).first).to_be_visible()
    painted_ms = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    print(f"first paint after {painted_ms:.0f} ms")
    assert painted_ms < PAINTED_MS


def test_without_scripts_the_page_says_what_it_needs(visitor: Visitor) -> None:
    page = visitor.open(java_script_enabled=False)
    expect(page.locator("noscript")).to_be_visible()
    assert "This page needs JavaScript" in page.content()


def test_a_job_that_fails_says_so_on_its_line(visitor: Visitor, server: Server) -> None:
    sql = """CREATE TABLE here (a BIGINT) WITH ('connector' = 'filesystem', 'path' = '/dev/null/nothing', 'format' = 'csv');
      CREATE TABLE there (a BIGINT) WITH ('connector' = 'blackhole');
      INSERT INTO there SELECT a FROM here;"""
    server.submit("failing", sql)
    page = visitor.open()
    line = page.get_by_role("row").filter(has=page.get_by_role("link", name="failing", exact=True))
    expect(line.locator(".sentence")).to_contain_text("/dev/null/nothing")
    visitor.discard("failing")
