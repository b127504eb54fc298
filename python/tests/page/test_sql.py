"""The editor of SQL: errors at their place, completion, the first rows, and a job made of the text."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from page.serving import COPY, EVENTS, Server, Visitor, until


def _editor(page: Page) -> Locator:
    return page.get_by_role("textbox", name="SQL", exact=True)


def _write(page: Page, text: str) -> None:
    _editor(page).click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def test_an_error_is_marked_at_its_place(visitor: Visitor, server: Server) -> None:
    page = visitor.open("#/sql", server)
    _write(page, EVENTS + "SELECT wrong FROM events;")
    expect(page.locator(".cm-lintRange-error")).to_have_text("wrong")
    expect(page.locator(".said[role=status] .bad")).to_contain_text("wrong")
    page.get_by_role("button", name=re.compile("Go to line 3")).click()
    expect(_editor(page)).to_be_focused()
    page.keyboard.insert_text("ad_id")
    expect(page.locator(".said[role=status]")).to_contain_text("no error")
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)
    page.get_by_role("tab", name="Plan").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("source events")


def test_completion_offers_tables_of_the_text(visitor: Visitor, server: Server) -> None:
    page = visitor.open("#/sql", server)
    _write(page, EVENTS + "SELECT * FROM ")
    page.keyboard.type("ev")
    offered = page.locator(".cm-tooltip-autocomplete li", has_text="events")
    expect(offered).to_be_visible()
    expect(page.locator(".cm-tooltip-autocomplete li[aria-selected=true]")).to_have_text("events")
    # By the pointer: the editor ignores keys that come in the first moment of the list, because they may be meant for the text.
    offered.click()
    expect(_editor(page)).to_contain_text("FROM events")


def test_a_preview_shows_rows_and_ends(visitor: Visitor, server: Server) -> None:
    page = visitor.open("#/sql", server)
    _write(page, EVENTS + "SELECT ad_id, event_time FROM events;")
    page.get_by_role("combobox", name="for").select_option("5")
    page.get_by_role("button", name="Preview").click()
    rows = page.get_by_role("region", name="Rows of the query")
    expect(rows.locator("tbody tr").first).to_be_visible()
    expect(rows.locator("thead th").first).to_contain_text("ad_id")
    expect(page.get_by_text(re.compile("The preview has ended with [1-9]"))).to_be_attached()
    expect(page.get_by_role("button", name="Preview")).to_be_visible()


def test_a_text_becomes_a_job(visitor: Visitor, server: Server) -> None:
    page = visitor.open("#/sql", server)
    _write(page, COPY)
    expect(page.locator(".said[role=status]")).to_contain_text("no error")
    page.get_by_role("tab", name="Submit as a job").click()
    page.get_by_label("Name of the job").fill("from-the-page")
    page.get_by_role("button", name="Submit the job").click()
    expect(page).to_have_url(re.compile(r"#/job/from-the-page/flow$"))
    expect(page.locator(".job-header")).to_contain_text("running")
    assert server.api("GET", "/api/v1/jobs/from-the-page/sql")["sql"].strip() == COPY.strip()
    visitor.discard("from-the-page")


def test_what_was_written_is_there_again_after_a_reload(visitor: Visitor, server: Server) -> None:
    page = visitor.open("#/sql", server)
    _write(page, "SELECT 'kept'")
    # It is kept half a second after the last key.
    until("the text in the browser", lambda: page.evaluate("Object.values(localStorage).some((text) => text.includes('kept'))"))
    page.reload()
    expect(_editor(page)).to_contain_text("SELECT 'kept'")
