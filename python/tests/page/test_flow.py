"""The graph of the stages, a stage that is open, and the past."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from page.serving import COPY, NEWEST, Server, Visitor, until


def _stage(page: Page, name: str) -> str:
    """The identifier of a stage's element."""
    found = page.locator(".node").filter(has_text=name).get_attribute("id")
    assert found is not None
    return found


def test_stages_have_rates_that_change_and_open_by_keyboard(visitor: Visitor) -> None:
    page = visitor.open("#/job/demo/flow")
    expect(page.locator(".node")).to_have_count(3)
    expect(page.locator(".edge-rate").filter(has_text=re.compile(r"[1-9]")).first).to_be_visible()
    read = page.get_by_label("Figures of the job").locator(".figure").filter(has_text="Rows read").locator("dd")
    before = read.inner_text()
    expect(read).not_to_have_text(before)

    page.locator(".node").first.focus()
    identifier = _stage(page, "source events")
    for _ in range(3):
        if page.evaluate("document.activeElement.id") == identifier:
            break
        page.keyboard.press("ArrowRight")
        if page.evaluate("document.activeElement.id") != identifier:
            page.keyboard.press("ArrowDown")
    expect(page.locator(f"#{identifier}")).to_be_focused()
    page.keyboard.press("Enter")
    panel = page.locator("aside.panel")
    expect(panel.get_by_role("heading", name="source events")).to_be_focused()
    expect(panel.get_by_label("Tasks of the stage").locator("tbody tr")).not_to_have_count(0)
    expect(panel.get_by_label("Tasks of the stage").locator("tbody tr").first).to_contain_text("busy")
    expect(panel.get_by_role("heading", name="The last minutes")).to_be_visible()
    expect(panel.locator("canvas").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(page.locator(f"#{identifier}")).to_be_focused()


def test_the_past_is_marked_allows_no_change_and_now_returns(visitor: Visitor) -> None:
    page = visitor.open("#/job/demo/flow?stage=1")
    stop = page.get_by_role("button", name="Stop", exact=True)
    expect(stop).to_be_visible()
    slider = page.get_by_role("slider", name="Moment that is shown")
    expect(slider).to_have_attribute("aria-valuetext", "now")
    # Two samples at least, so that there is something to go back to.
    expect(page.locator(".strip svg path, .strip svg rect").first).to_be_attached()
    banner = page.locator(".past-banner")

    def goes_back() -> bool:
        slider.press("Home")
        return banner.count() > 0

    # The history of a job that has just begun comes a moment later.
    until("the past", goes_back)
    expect(banner).to_contain_text(re.compile(r"Past: \d{4}-\d\d-\d\d"))
    expect(stop).to_have_count(0)
    expect(page.locator("aside.panel").get_by_role("heading", name="Around this moment")).to_be_visible()
    expect(page.locator(".node").first).to_be_visible()
    moment = banner.inner_text()
    page.keyboard.press("ArrowRight")
    expect(banner).not_to_have_text(moment)
    page.get_by_role("link", name="Change", exact=True).click()
    expect(page.get_by_text("Go back to now to change the job")).to_be_visible()
    page.get_by_role("button", name="Back to now").click()
    expect(banner).to_have_count(0)
    expect(stop).to_be_visible()
    expect(page.get_by_role("textbox", name="SQL of the job")).to_be_visible()


def test_the_past_has_the_plan_of_its_time(visitor: Visitor, server: Server) -> None:
    """Also in a page that was not there then."""
    path = "/api/v1/jobs/rewound"

    def is_sampled(version: int) -> bool:
        frames = server.api("GET", f"{path}/history")["frames"]
        return bool(frames) and server.api("GET", f"{path}/history?at={NEWEST}")["job"]["plan_version"] == version

    server.submit("rewound", COPY, parallelism="1")
    until("a sample", lambda: server.job("rewound")["state"] == "running" and is_sampled(1))
    more = COPY + "INSERT INTO nowhere SELECT ad_id, event_time + 1 FROM events WHERE event_time > 1;\n"
    server.api("POST", f"{path}/reconfigure", {"sql": more})
    until("a sample of the new version", lambda: is_sampled(2))
    first, second = (server.api("GET", f"{path}/plan?version={version}")["stages"] for version in (1, 2))
    assert len(first) < len(second)
    page = visitor.open("#/job/rewound/flow")
    expect(page.locator(".node")).to_have_count(len(second))
    slider = page.get_by_role("slider", name="Moment that is shown")

    def goes_back() -> bool:
        slider.press("Home")
        return page.locator(".past-banner").count() > 0

    until("the past", goes_back)
    expect(page.locator(".node")).to_have_count(len(first))
    expect(page.locator(".node").first).to_contain_text(first[0]["name"])
    slider.press("End")
    expect(page.locator(".node")).to_have_count(len(second))
    visitor.discard("rewound")


def test_the_time_line_is_dragged_by_the_pointer(visitor: Visitor) -> None:
    page = visitor.open("#/job/demo/why")
    strip = page.locator(".strip")
    expect(page.locator(".strip svg path, .strip svg rect").first).to_be_attached()
    box = strip.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.99, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.985, middle, steps=3)
    expect(page.locator(".past-banner")).to_be_visible()
    page.mouse.move(box["x"] + box["width"], middle, steps=3)
    page.mouse.up()
    expect(page.locator(".past-banner")).to_have_count(0)
