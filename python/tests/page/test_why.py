"""Why nothing comes out: the same answer on the first screen and on the screen of the job."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from page.serving import EVENTS, NOWHERE, Server, Visitor


def test_a_condition_that_no_row_meets_is_named(visitor: Visitor, server: Server) -> None:
    server.submit("dropped", EVENTS + NOWHERE + "INSERT INTO nowhere SELECT ad_id, event_time FROM events WHERE event_time < 0;")
    page = visitor.open()
    line = page.get_by_role("row").filter(has=page.get_by_role("link", name="dropped", exact=True))
    sentence = line.locator(".why-link")
    expect(sentence).to_contain_text("no row meets the query's conditions")
    expect(page.locator(".summary")).to_contain_text("attention")
    sentence.click()
    expect(page.locator(".why-text")).to_contain_text("no row meets the query's conditions")
    cause = page.locator(".chain .is-cause")
    expect(cause).to_contain_text("cause")
    expect(cause).to_contain_text("< 0")
    expect(page.locator(".remedies")).to_contain_text("check the conditions")
    visitor.discard("dropped")


def test_a_table_without_rows_is_the_cause(visitor: Visitor, server: Server, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    sql = f"""CREATE TABLE empty_table (a BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'csv',
        'source.monitor-interval' = '1 s');
      CREATE TABLE nowhere (a BIGINT) WITH ('connector' = 'blackhole');
      INSERT INTO nowhere SELECT a FROM empty_table;"""
    server.submit("without-rows", sql)
    page = visitor.open("#/job/without-rows/why")
    expect(page.locator(".why-text")).to_contain_text("empty_table")
    expect(page.locator(".why-text")).to_contain_text("no row")
    expect(page.locator(".chain .is-cause")).to_contain_text("empty_table")
    visitor.discard("without-rows")


def test_all_is_well_when_results_come(visitor: Visitor) -> None:
    page = visitor.open("#/job/demo/why")
    expect(page.locator(".why-text")).to_contain_text("All is well")
    expect(page.get_by_role("heading", name="When results can come")).to_be_visible()
