"""Why nothing comes out: the same answer on the first screen and on the screen of the job."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import expect

from page.serving import COPY, EVENTS, NEWEST, NOWHERE, Server, Visitor, until


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


def test_a_remedy_is_for_the_version_of_the_plan_that_was_seen(visitor: Visitor, server: Server) -> None:
    visitor.expect_complaint("409 (Conflict)")
    server.submit("remedied", COPY)
    until("a sample", lambda: server.api("GET", "/api/v1/jobs/remedied/history")["frames"])
    until("the job", lambda: server.job("remedied")["state"] == "running")
    document = server.api("GET", f"/api/v1/jobs/remedied/history?at={NEWEST}")
    # An answer that nobody has to wait for.
    remedy = {"text": "read later events", "change": {"sql": COPY.replace("event_time > 0", "event_time > 1")}}
    document["why"] = {"verdict": "busy", "text": "a stage is busy", "since_ms": None, "chain": [], "remedies": [remedy]}
    events = f"event: whole\nid: {document['number']}\ndata: {json.dumps(document)}\n\n"
    page = visitor.open()
    page.route("**/api/v1/jobs/remedied/live*", lambda route: route.fulfill(content_type="text/event-stream", body=events))
    page.goto(f"{server.url}/#/job/remedied/why")
    page.get_by_role("button", name="Show what it would do").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("list", name="Parts of the job")).to_contain_text("kept")
    server.api("POST", "/api/v1/jobs/remedied/reconfigure", {"sql": COPY.replace("event_time > 0", "event_time > 2")})
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog.get_by_role("alert")).to_contain_text("somebody else has changed it")
    assert "event_time > 2" in server.api("GET", "/api/v1/jobs/remedied/sql")["sql"]
    visitor.discard("remedied")
