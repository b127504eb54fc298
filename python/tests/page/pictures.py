"""Pictures of the page with running jobs.

ANABRANCH_PROGRAM=... python tests/page/pictures.py            those of the documents, into docs/pictures
ANABRANCH_PROGRAM=... python tests/page/pictures.py FOLDER     each screen, in both themes and two widths, into a folder
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
sys.path.insert(0, str(TESTS.parent / "src"))

from page.serving import NOWHERE, Server, chromium, served, until  # noqa: E402 - found by the path

PICTURES = TESTS.parents[1] / "docs/pictures"
#: So that a clone of the repository stays small.
BYTES_MAX = 250_000
#: How long the jobs run before they are shown.
SECONDS = 100
#: A change has a long text.
HEIGHTS = {"change": 1240}
#: Charts have a line and tasks have rates a moment after a screen has been opened.
DRAWN_MS = 1500

ORDERS = """-- How often is each advertisement viewed, and how often does that lead to a purchase?
CREATE TABLE ads (ad_id STRING, event_type STRING, event_time BIGINT)
WITH ('connector' = 'ad_events', 'rows-per-second' = '200');

SELECT ad_id, event_type, COUNT(*) AS times
FROM ads
WHERE event_type <> 'click'
GROUP BY ad_id, event_type;
"""


def jobs(server: Server) -> None:
    """The demo, one job that copies rows, and one whose condition has a mistake."""
    server.api("POST", "/api/v1/demo")
    demo = server.api("GET", "/api/v1/jobs/demo/sql")
    nowhere = re.sub(r"WITH \('connector' = 'filesystem'[^)]*\)", "WITH ('connector' = 'blackhole')", demo["sql"])
    wrong = nowhere.replace("'view'", "'viewed'")
    assert wrong != nowhere != demo["sql"]
    server.api("POST", "/api/v1/jobs", {"name": "views-by-campaign", "sql": wrong, "options": demo["options"]})
    events = """CREATE TABLE events (ad_id STRING, event_time BIGINT) WITH ('connector' = 'ad_events', 'rows-per-second' = '300');
"""
    server.submit("copy-to-archive", events + NOWHERE + "INSERT INTO nowhere SELECT ad_id, event_time FROM events;")
    # A wait has its limit, and the past takes longer to come.
    for seconds in range(10, SECONDS + 1, 10):
        until("the past of the demo", partial(has_past, server, seconds))


def has_past(server: Server, seconds: int) -> bool:
    return len(server.api("GET", "/api/v1/jobs/demo/history")["frames"]) >= seconds


def overview(page: Page) -> None:
    page.wait_for_selector("table.cards")


def flow(page: Page) -> None:
    page.wait_for_selector(".node")
    page.wait_for_selector("canvas")


def why(page: Page) -> None:
    page.wait_for_selector(".chain .is-cause")


def change(page: Page) -> None:
    """A larger window: what is counted in open windows would be lost."""
    editor = page.get_by_role("textbox", name="SQL of the job")
    editor.click()
    page.wait_for_selector("text=INSERT INTO")
    text = str(page.evaluate("async () => (await (await fetch('/api/v1/jobs/demo/sql')).json()).sql"))
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text.replace("INTERVAL '10' SECOND)", "INTERVAL '20' SECOND)"))
    page.wait_for_selector("ul.fates")
    page.get_by_role("button", name="Show the difference").click()
    page.wait_for_selector(".difference")


def sql(page: Page) -> None:
    page.get_by_role("textbox", name="SQL", exact=True).click()
    page.keyboard.insert_text(ORDERS)
    page.get_by_role("button", name="Preview").click()
    page.wait_for_selector(".rows tbody tr:nth-child(5)")


def drawn(page: Page) -> None:
    page.wait_for_selector("main h1, main h2, main h3")


#: Name, route, and what makes the screen ready. The first ones are in the documents.
SCREENS: list[tuple[str, str, Callable[[Page], None]]] = [
    ("flow", "#/job/demo/flow", flow),
    ("jobs", "#/", overview),
    ("why", "#/job/views-by-campaign/why", why),
    ("change", "#/job/demo/change", change),
    ("sql", "#/sql", sql),
    ("stage", "#/job/demo/flow?stage=1", flow),
    ("latency", "#/job/demo/latency", drawn),
    ("checkpoints", "#/job/demo/checkpoints", drawn),
    ("state", "#/job/demo/state", drawn),
    ("tasks", "#/job/demo/workers", drawn),
    ("notices", "#/job/demo/notices", drawn),
    ("workers", "#/workers", drawn),
]
IN_DOCUMENTS = 5


def picture(
    browser: Browser, url: str, screen: tuple[str, str, Callable[[Page], None]], theme: Literal["light", "dark"], width: int
) -> bytes:
    name, route, ready = screen
    context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": HEIGHTS.get(name, 800)})
    page = context.new_page()
    page.goto(f"{url}/{route}")
    ready(page)
    page.mouse.move(0, 0)
    page.wait_for_timeout(DRAWN_MS)
    taken = page.screenshot()
    context.close()
    return taken


def keep(file: Path, taken: bytes) -> None:
    """Writes a picture, with 256 colours if the package Pillow is there."""
    file.write_bytes(taken)
    try:
        pillow = importlib.import_module("PIL.Image")
    except ModuleNotFoundError:
        return
    with pillow.open(file) as image:
        image.convert("RGB").quantize(256, dither=0).save(file, optimize=True, compress_level=9)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, served(Path(place)) as server, sync_playwright() as playwright:
        jobs(server)
        browser = chromium(playwright)
        if folder == PICTURES:
            for screen in SCREENS[:IN_DOCUMENTS]:
                keep(folder / f"{screen[0]}.png", picture(browser, server.url, screen, "light", 1280))
        else:
            for screen in SCREENS:
                for theme in ("light", "dark"):
                    for width in (1280, 390):
                        keep(folder / f"{screen[0]}-{theme}-{width}.png", picture(browser, server.url, screen, theme, width))
        browser.close()
    large = [file.name for file in folder.glob("*.png") if file.stat().st_size > BYTES_MAX]
    if large:
        sys.exit(f"error: pictures of more than {BYTES_MAX} bytes: {', '.join(large)}")


if __name__ == "__main__":
    main()
