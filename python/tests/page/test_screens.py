"""The other screens of a job."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from page.serving import EVENTS, Server, Visitor, until

NEWEST_FIRST = "Checkpoints, the newest first"


def _checkpoint(server: Server) -> None:
    until("a checkpoint of the demo", lambda: server.api("GET", "/api/v1/jobs/demo/checkpoints")["completed"])


def test_checkpoints_are_listed(visitor: Visitor, server: Server) -> None:
    _checkpoint(server)
    page = visitor.open("#/job/demo/checkpoints")
    first = page.get_by_role("region", name=NEWEST_FIRST).locator("tbody tr").first
    expect(first).to_contain_text("completed")
    expect(first.locator("td").last).to_have_text(re.compile(r"\d.*B"))


def test_a_checkpoint_says_where_its_time_went(visitor: Visitor, server: Server) -> None:
    _checkpoint(server)
    page = visitor.open("#/job/demo/checkpoints")
    region = page.get_by_role("region", name=NEWEST_FIRST)
    figures = re.compile(r"^request \d.*, alignment \d.*, write \d.*, commit \d")
    row = region.get_by_role("row").filter(has=page.get_by_role("img", name=figures)).first
    expect(row.get_by_role("img").locator("rect")).to_have_count(5)
    # The same as text, and the task that was the slowest.
    expect(row.locator(".phase-names")).to_have_text(re.compile(r"^request.*alignment.*write.*commit"))
    expect(row.locator("td").nth(4)).to_have_text(re.compile(r"^\d\.\d.+ at local(request|alignment|write) \d"))
    expect(page.locator(".legend")).to_contain_text("commit: until the manifest is durable")


def test_restarts_stand_among_the_checkpoints(visitor: Visitor, server: Server, tmp_path: Path) -> None:
    out, away = tmp_path / "out", tmp_path / "away"
    table = f"""CREATE TABLE rows_out (ad_id STRING, event_time BIGINT)
      WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv');
    """
    server.submit("restarted", EVENTS + table + "INSERT INTO rows_out SELECT ad_id, event_time FROM events;")
    path = "/api/v1/jobs/restarted/checkpoints"
    until("a checkpoint of the job", lambda: server.api("GET", path)["history"])
    # With a file in its place, nothing can be written until the folder is back.
    out.rename(away)
    out.touch()
    until("a restart of the job", lambda: server.api("GET", path)["failures"])
    out.unlink()
    away.rename(out)
    page = visitor.open("#/job/restarted/checkpoints", server)
    region = page.get_by_role("region", name=NEWEST_FIRST)
    restart = region.get_by_role("row").filter(has_text="restarted").first
    expect(restart).to_have_text(re.compile(r"\d\d:\d\d:\d\d[\s\S]*(Not a directory|No such file|is a file)"))
    # Checkpoints follow it and are above it.
    expect(region.locator("tbody tr").first).to_contain_text("completed")
    expect(region.locator("tbody tr").last).to_contain_text("completed")
    visitor.discard("restarted")


def test_state_has_rows_of_an_operator_and_of_a_key(visitor: Visitor, server: Server) -> None:
    _checkpoint(server)
    page = visitor.open("#/job/demo/state")
    operators = page.get_by_role("region", name="State of the operators")
    expect(operators.locator("tbody tr").first).to_contain_text("aggregate")
    page.get_by_role("button", name="Show rows").click()
    rows = page.get_by_role("region", name="Rows of the operator").locator("tbody tr")
    expect(rows.nth(1)).to_be_visible()
    campaign = rows.first.locator("td").nth(1).inner_text()
    page.get_by_label("Column").select_option("campaign_id")
    page.get_by_label("Value").fill(campaign)
    page.get_by_role("button", name="Show its rows").click()
    # A newer checkpoint may have begun the next window, and one between two windows may hold both.
    expect(page.get_by_role("status").filter(has_text="in epoch")).to_have_text(re.compile(r"^(No row|1\srow|2\srows) in epoch"))
    for text in rows.all_inner_texts():
        assert campaign in text


def test_workers_have_the_tasks(visitor: Visitor) -> None:
    page = visitor.open("#/workers")
    expect(page.get_by_role("row").filter(has_text="local")).to_be_visible()
    page.goto(page.url.replace("#/workers", "#/job/demo/workers"))
    tasks = page.get_by_role("region", name="Tasks of the worker").locator("tbody tr")
    expect(tasks.filter(has_text="source events").first).to_be_visible()


def test_notices_say_what_happened(visitor: Visitor) -> None:
    page = visitor.open("#/job/demo/notices")
    expect(page.get_by_text("The job was not changed since this process runs it")).to_be_visible()
    expect(page.get_by_role("heading", name="What happened")).to_be_visible()


def test_latency_is_shown_stage_by_stage(visitor: Visitor) -> None:
    page = visitor.open("#/job/demo/latency")
    rows = page.get_by_role("region", name="Latency by stage").locator("tbody tr")
    expect(rows).to_have_count(3)


def test_an_address_of_nothing_says_so(visitor: Visitor) -> None:
    visitor.expect_complaint("404 (Not Found)")
    page = visitor.open("#/nowhere")
    expect(page.get_by_role("heading", name="There is no such screen")).to_be_visible()
    page.goto(page.url.replace("#/nowhere", "#/job/nobody/flow"))
    expect(page.get_by_text("there is no job 'nobody'").first).to_be_visible()
