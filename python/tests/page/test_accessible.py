"""What axe-core finds, in both themes and two widths; motion; and no scrolling to the side."""

from __future__ import annotations

from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from page.serving import COUNTS, EVENTS, TIMED, Server, Visitor, count, until

#: Each screen by its route, and what is there once it is drawn.
SCREENS = {
    "#/": "table.cards",
    "#/workers": "table",
    "#/sql": ".sql-editor .cm-content",
    "#/job/demo/flow?stage=1": "aside.panel canvas",
    "#/job/demo/why": ".why-text",
    "#/job/demo/latency": "main table",
    "#/job/demo/checkpoints": "main table",
    "#/job/demo/state": "main table",
    "#/job/demo/workers": "main table",
    "#/job/demo/notices": "main h3",
    "#/job/demo/change": ".sql-editor .cm-content",
}


def _findings(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['target']} {node['failureSummary']}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_scrolls_to_the_side(
    visitor: Visitor, server: Server, theme: Literal["light", "dark"], width: int
) -> None:
    until("a checkpoint of the demo", lambda: server.api("GET", "/api/v1/jobs/demo/checkpoints")["completed"])
    page = visitor.open(color_scheme=theme, viewport={"width": width, "height": 800})
    wrong = []
    for route, drawn in SCREENS.items():
        page.goto(f"{server.url}/{route}")
        expect(page.locator(drawn).first).to_be_visible()
        wrong += [f"{route}: {finding}" for finding in _findings(page)]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wrong.append(f"{route}: scrolls to the side")
    assert wrong == []


def test_dialogs_rows_and_the_past_are_accessible_too(visitor: Visitor, server: Server) -> None:
    page = visitor.open("#/job/demo/flow", server)
    page.get_by_role("button", name="Savepoint").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert _findings(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("slider", name="Moment that is shown").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".past-banner")).to_be_visible()
    assert _findings(page) == []
    page.goto(f"{server.url}/#/sql")
    page.get_by_role("textbox", name="SQL", exact=True).click()
    page.keyboard.insert_text(EVENTS + "SELECT * FROM events;")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Rows of the query").locator("tbody tr").first).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("The preview has ended with")).to_be_attached()
    assert _findings(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_graph_of_a_change_is_accessible(visitor: Visitor, server: Server, theme: Literal["light", "dark"]) -> None:
    name = f"accessible-{theme}"
    server.submit(name, TIMED + COUNTS + count(1) + count(2), parallelism="1")
    until("a checkpoint", lambda: server.api("GET", f"/api/v1/jobs/{name}/checkpoints")["completed"])
    page = visitor.open(f"#/job/{name}/change", color_scheme=theme)
    expect(page.get_by_role("textbox", name="SQL of the job")).to_contain_text("INSERT INTO")
    page.get_by_role("textbox", name="SQL of the job").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(TIMED + COUNTS + count(1, "COUNT(*) FILTER (WHERE event_time > 0)") + count(3))
    graph = page.get_by_role("region", name="Graph of the new plan")
    expect(graph.locator(".node.lost")).to_be_visible()
    assert _findings(page) == []
    graph.locator(".node.lost").click()
    expect(page.get_by_role("button", name="All parts")).to_be_visible()
    assert _findings(page) == []
    visitor.discard(name)


def test_nothing_moves_for_those_who_do_not_want_it(visitor: Visitor) -> None:
    page = visitor.open("#/job/demo/flow", reduced_motion="reduce")
    expect(page.locator(".node").first).to_be_visible()
    expect(page.locator(".edge-rate").first).to_be_visible()
    assert page.evaluate("document.getAnimations().filter((one) => one.playState === 'running').length") == 0
