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


def test_an_operator_is_found_in_the_text_and_a_place_of_the_text_in_the_graph(visitor: Visitor, server: Server) -> None:
    # A mark takes the place of the secret, before all that is looked for, and characters have several units.
    options = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:1', 'format' = 'json'"
    other = f"CREATE TABLE other (x INT) WITH ({options}, 'properties.sasl.password' = 'hidden-secret'); /* ä𝄞 */ "
    server.submit("placed", other + COPY.replace("\n", " ").replace("event_time > 0", "ad_id <> '𝄞' AND event_time > 7"))
    page = visitor.open("#/job/placed/flow?stage=0")
    panel = page.locator("aside.panel")
    operator = panel.locator("ol.operators > li").filter(has_text="filter")
    part = operator.get_by_role("list", name="In the SQL text").get_by_role("link")
    expect(part).to_have_text("ad_id <> '𝄞' AND event_time > 7")
    part.click()
    editor = page.get_by_role("textbox", name="SQL of the job")
    expect(editor).to_be_focused()
    expect(editor).to_contain_text("***secret 1***")
    until(
        "the selection",
        lambda: (
            page.evaluate("document.querySelector('.sql-editor').shadowRoot.getSelection().toString()") == "ad_id <> '𝄞' AND event_time > 7"
        ),
    )
    assert "part=" not in page.url

    # The cursor is at the end of the part.
    here = page.get_by_role("region", name="Operators of the place of the cursor")
    expect(here.get_by_role("listitem").first).to_contain_text("filter")
    page.keyboard.press("Control+Home")
    expect(here).to_contain_text("No operator comes from the place of the cursor")
    page.keyboard.press("Control+End")
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    here.get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(r"/flow\?stage=0$"))
    expect(panel).to_be_visible()

    # An edited text has other places.
    page.get_by_role("link", name="Change", exact=True).click()
    editor.click()
    page.keyboard.press("Control+Home")
    page.keyboard.insert_text("-- another line\n")
    expect(here).to_have_count(0)
    page.get_by_role("link", name="Flow", exact=True).click()
    page.locator(".node").first.click()
    part.click()
    expect(page.get_by_text("The editor has another one.")).to_be_visible()
    visitor.discard("placed")
