"""Text from outside is shown as text, whatever it holds."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from page.serving import Server, Visitor

IMAGE = "<img src=x onerror=window.hit=1>"
SCRIPT = "</script><script>window.hit=1</script>"
#: Turns the direction of what follows.
OVERRIDE = "\u202e"
LONG = "x" * 500


def _nothing_ran(page: Page) -> None:
    assert page.evaluate("window.hit") is None
    # The editor has images of its own, which have no source.
    assert page.evaluate("document.querySelectorAll('img, iframe, object').length") == 0


def _table(folder: Path) -> str:
    """A table with such names, and with such values."""
    (folder / "in").mkdir()
    (folder / "in/rows.csv").write_text(f"{IMAGE},{SCRIPT}\ngood{OVERRIDE}doog,a\x07b\x1b[31m\n{LONG},{LONG}\n")
    return f"""CREATE TABLE `{IMAGE}` (`{SCRIPT}` STRING, `a{OVERRIDE}b` STRING) WITH ('connector' = 'filesystem',
      'path' = '{folder}/in', 'format' = 'csv', 'source.monitor-interval' = '1 s');
    """


def test_a_job_with_hostile_names_is_text_on_every_screen(visitor: Visitor, server: Server, tmp_path: Path) -> None:
    name = "n" * 100
    sql = (
        _table(tmp_path)
        + f"""CREATE TABLE `{LONG}` (k STRING, n BIGINT) WITH ('connector' = 'blackhole');
      INSERT INTO `{LONG}` SELECT `{SCRIPT}`, COUNT(*) FROM `{IMAGE}` WHERE `a{OVERRIDE}b` <> '{IMAGE}' GROUP BY `{SCRIPT}`;"""
    )
    server.submit(name, sql)
    visitor.expect_complaint("409 (Conflict)")
    page = visitor.open(f"#/job/{name}/flow", server)
    expect(page.locator(".node").filter(has_text=IMAGE).first).to_be_visible()
    page.locator(".node").filter(has_text=IMAGE).first.click()
    expect(page.locator("aside.panel")).to_contain_text(IMAGE)
    _nothing_ran(page)
    for screen in ("why", "latency", "checkpoints", "state", "workers", "notices", "change"):
        page.goto(f"{server.url}/#/job/{name}/{screen}")
        expect(page.locator("main h2, main h3").first).to_be_attached()
        expect(page.locator("main .loading")).to_have_count(0)
        _nothing_ran(page)
        assert OVERRIDE not in page.evaluate("document.body.innerText")
    # The editor has it as text too, with a sign in the place of what cannot be seen.
    expect(page.get_by_role("textbox", name="SQL of the job")).to_contain_text(SCRIPT)
    page.goto(f"{server.url}/#/")
    expect(page.get_by_role("link", name="n" * 20).first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visitor.discard(name)


def test_rows_and_failures_are_text(visitor: Visitor, server: Server, tmp_path: Path) -> None:
    page = visitor.open("#/sql", server)
    page.get_by_role("textbox", name="SQL", exact=True).click()
    page.keyboard.insert_text(_table(tmp_path) + f"SELECT * FROM `{IMAGE}`;")
    page.get_by_role("combobox", name="for").select_option("5")
    page.get_by_role("button", name="Preview").click()
    rows = page.get_by_role("region", name="Rows of the query")
    expect(rows.locator("tbody tr")).to_have_count(3)
    expect(rows.locator("thead")).to_contain_text(SCRIPT)
    expect(rows.locator("tbody")).to_contain_text(IMAGE)
    expect(rows.locator("tbody")).to_contain_text("good\\u202edoog")
    expect(rows.locator("tbody")).to_contain_text("a\u2407b\u241b[31m")
    _nothing_ran(page)

    wrong = _table_of_numbers(tmp_path)
    server.submit("hostile-failure", wrong)
    page.goto(f"{server.url}/#/")
    line = page.get_by_role("row").filter(has=page.get_by_role("link", name="hostile-failure"))
    expect(line.locator(".sentence")).to_contain_text(IMAGE)
    line.get_by_role("link", name="hostile-failure").click()
    expect(page.locator(".job-verdict")).to_contain_text(IMAGE)
    _nothing_ran(page)
    visitor.discard("hostile-failure")


def _table_of_numbers(folder: Path) -> str:
    """A job that fails at the first row, whose text is in the failure."""
    return f"""CREATE TABLE numbers (a BIGINT, b STRING) WITH ('connector' = 'filesystem', 'path' = '{folder}/in', 'format' = 'csv');
      CREATE TABLE nowhere (a BIGINT) WITH ('connector' = 'blackhole');
      INSERT INTO nowhere SELECT a FROM numbers;"""


def test_a_name_that_no_job_can_have_is_refused_as_text(visitor: Visitor, server: Server) -> None:
    visitor.expect_complaint("400 (Bad Request)")
    visitor.expect_complaint("404 (Not Found)")
    page = visitor.open(f"#/job/{'%3Cimg%20src=x%20onerror=window.hit=1%3E' * 10}/flow", server)
    expect(page.get_by_text("there is no job").first).to_be_visible()
    _nothing_ran(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
