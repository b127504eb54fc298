"""Changing a running job: what it would do, what it did, and what happens if two people do it."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page, Route, expect

from page.outside import Levels
from page.serving import COPY, COUNTS, TIMED, Server, Visitor, count, editor_of, rewrite, until


def _with(condition: str) -> str:
    changed = COPY.replace("event_time > 0", condition)
    assert changed != COPY
    return changed


def test_a_change_says_first_what_it_does_and_is_settled(visitor: Visitor, server: Server) -> None:
    server.submit("changed", COPY)
    page = visitor.open("#/job/changed/change")
    apply = page.get_by_role("button", name="Apply the change")
    expect(apply).to_be_disabled()
    rewrite(page, _with("event_time > 7"))
    parts = page.get_by_role("list", name="Parts of the job")
    expect(parts.get_by_role("listitem").filter(has_text="kept").first).to_be_visible()
    assert server.api("GET", "/api/v1/jobs/changed/sql")["version"] == 1
    page.get_by_role("button", name="Show the difference").click()
    difference = page.get_by_role("region", name="Difference to the running text")
    expect(difference.locator("tr.added")).to_contain_text("event_time > 7")
    apply.click()
    expect(page.get_by_text(re.compile(r"Settled after .* Version 2 of its plan runs"))).to_be_visible()
    now = server.api("GET", "/api/v1/jobs/changed/sql")
    assert now["version"] == 2
    assert "event_time > 7" in now["sql"]
    page.get_by_role("link", name="Notices and changes").click()
    expect(page.locator(".events").get_by_text("settled")).to_be_visible()
    visitor.discard("changed")


def test_the_graph_of_the_new_plan_has_a_word_for_what_becomes_of_each_part(visitor: Visitor, server: Server) -> None:
    text = TIMED + COUNTS + count(1) + count(2)
    server.submit("coloured", text, parallelism="1")
    until("a checkpoint", lambda: server.api("GET", "/api/v1/jobs/coloured/checkpoints")["completed"])
    page = visitor.open("#/job/coloured/change")
    graph = page.get_by_role("region", name="Graph of the new plan")
    parts = page.get_by_role("list", name="Parts of the job")

    # Of two tasks each, both have other keys than the one before.
    page.get_by_text("Number of tasks", exact=True).click()
    page.get_by_label("Tasks", exact=True).fill("2")
    loaded = graph.locator(".node.loaded").filter(has_text="state loaded elsewhere")
    expect(loaded).to_have_count(2)
    expect(loaded.first).to_contain_text(re.compile(r"state loaded elsewhere, [\d.]+\s[KM]?B"))
    expect(parts.get_by_role("listitem").filter(has_text="loaded elsewhere")).to_have_count(2)
    expect(parts).to_contain_text(re.compile(r"2\stasks at .*, 128\skey groups"))
    expect(page.get_by_text(re.compile(r"of state move\. It is read while the tasks switch"))).to_be_visible()

    # Three windows: one is counted otherwise, one is another one, and one is there no more.
    page.get_by_label("Tasks", exact=True).fill("")
    rewrite(page, TIMED + COUNTS + count(1, "COUNT(*) FILTER (WHERE event_time > 0)") + count(3))
    expect(graph).to_contain_text("state handed over")
    expect(graph).to_contain_text(re.compile("source (kept|handed over)"))
    expect(graph.locator(".node.lost")).to_contain_text("state lost")
    expect(graph.locator(".node.lost")).to_contain_text("state new")
    expect(parts.get_by_role("listitem").first).to_contain_text("lost")
    rewrite(page, TIMED + COUNTS + count(1))
    gone = graph.locator(".node.is-gone")
    expect(gone).to_have_accessible_name(re.compile(r"of the running plan, .* which would be gone\. state lost.*sink gone"))

    # By keys: from node to node, and to the parts of one.
    graph.locator(".node[tabindex='0']").focus()
    before = page.evaluate("document.activeElement.id")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") != before
    page.keyboard.press("Enter")
    chosen = graph.locator(".node[aria-pressed='true']")
    expect(chosen).to_have_count(1)
    expect(chosen).to_be_focused()
    name = chosen.get_attribute("aria-label")
    assert name is not None
    expect(page.get_by_text(name.split(". ")[0], exact=True)).to_be_visible()
    page.get_by_role("button", name="All parts").click()
    expect(chosen).to_have_count(0)
    visitor.discard("coloured")


def test_a_wrong_text_is_not_applied(visitor: Visitor, server: Server) -> None:
    visitor.expect_complaint("400 (Bad Request)")
    server.submit("wrong-text", COPY)
    page = visitor.open("#/job/wrong-text/change")
    rewrite(page, _with("nothing > 0"))
    expect(page.locator(".said .bad")).to_contain_text("nothing")
    expect(page.get_by_role("button", name="Apply the change")).to_be_disabled()
    page.get_by_role("button", name="Back to the running text").click()
    expect(editor_of(page)).to_contain_text("event_time > 0")
    visitor.discard("wrong-text")


def test_of_two_people_the_second_one_is_asked(visitor: Visitor, server: Server) -> None:
    server.submit("two-people", COPY)
    page = visitor.open("#/job/two-people/change")
    rewrite(page, _with("event_time > 1"))
    apply = page.get_by_role("button", name="Apply the change")
    expect(apply).to_be_enabled()
    server.api("POST", "/api/v1/jobs/two-people/reconfigure", {"sql": _with("event_time > 2")})
    told = page.get_by_role("alert").filter(has_text="Somebody has changed the job meanwhile")
    expect(told).to_be_visible()
    expect(told.locator("tr.added")).to_contain_text("event_time > 2")
    expect(apply).to_be_disabled()
    expect(editor_of(page)).to_contain_text("event_time > 1")
    told.get_by_role("button", name="Keep mine").click()
    apply.click()
    expect(page.get_by_text(re.compile(r"Version 3 of its plan runs"))).to_be_visible()
    assert "event_time > 1" in server.api("GET", "/api/v1/jobs/two-people/sql")["sql"]
    visitor.discard("two-people")


def test_a_change_for_a_version_that_no_longer_runs_is_refused(visitor: Visitor, server: Server) -> None:
    """Also if the page has not heard of the other change: its own one names the version that it is for."""
    visitor.expect_complaint("409 (Conflict)")
    server.submit("not-heard", COPY)
    page = visitor.open("#/job/not-heard/change")
    rewrite(page, _with("event_time > 1"))
    apply = page.get_by_role("button", name="Apply the change")
    expect(apply).to_be_enabled()

    def other_first(route: Route) -> None:
        server.api("POST", "/api/v1/jobs/not-heard/reconfigure", {"sql": _with("event_time > 2")})
        route.continue_()

    # The other change is made while the page's own request is under way.
    page.route("**/reconfigure", other_first, times=1)
    apply.click()
    told = page.get_by_role("alert").filter(has_text="Somebody has changed the job meanwhile")
    expect(told).to_be_visible()
    assert "event_time > 2" in server.api("GET", "/api/v1/jobs/not-heard/sql")["sql"]
    told.get_by_role("button", name="Take the new text").click()
    expect(editor_of(page)).to_contain_text("event_time > 2")
    visitor.discard("not-heard")


def _changes(page: Page) -> Locator:
    """The changes that the screen lists, the newest first."""
    return page.get_by_role("region", name="Changes so far").locator("ol > li")


def test_a_change_that_fails_is_undone_and_says_why(visitor: Visitor, server: Server) -> None:
    visitor.expect_complaint("409 (Conflict)")
    server.submit("undone", COPY)
    page = visitor.open("#/job/undone/change")
    rewrite(page, _with("1 / (event_time - event_time) > 0"))
    page.get_by_role("button", name="Apply the change").click()
    expect(page.get_by_text("The change was undone. The job goes on by its former plan.")).to_be_visible()
    expect(page.get_by_role("alert").filter(has_text="division by zero")).to_contain_text("the job continues unchanged")
    change = _changes(page).first
    expect(change.locator("summary")).to_contain_text("undone")
    change.locator("summary").click()
    expect(change).to_contain_text("division by zero")
    # What was written stays in the editor. What runs is what ran before.
    expect(editor_of(page)).to_contain_text("event_time - event_time")
    assert server.api("GET", "/api/v1/jobs/undone/sql")["sql"].strip() == COPY.strip()
    page.get_by_role("button", name="Back to the running text").click()
    expect(editor_of(page)).to_contain_text("event_time > 0")
    page.get_by_role("link", name="Notices and changes").click()
    listed = page.locator(".events li").filter(has_text="undone")
    expect(listed).to_contain_text("division by zero")
    expect(page.locator(".job-header .badge")).to_contain_text("running")
    visitor.discard("undone")


#: So many keys are counted that their counts are loaded ahead when they change their task.
MANY_KEYS = """CREATE TABLE keys (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '60000', 'fields.id.kind' = 'sequence',
  'fields.id.start' = '1', 'fields.id.end' = '1000000000');
CREATE TABLE counted (k STRING, n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counted SELECT MD5(CAST(id AS STRING)), COUNT(*) FROM keys GROUP BY MD5(CAST(id AS STRING));
"""
LARGE_BYTES = 6 << 20


def test_a_change_that_is_being_prepared_is_aborted(
    service: Callable[[str], Levels], visitor: Visitor, fresh: Callable[..., Server]
) -> None:
    visitor.expect_complaint("409 (Conflict)")
    server, levels = fresh("--slots", "2"), service("a-password")
    server.submit("aborted", MANY_KEYS + levels.sql(), **{"parallelism": "1", "checkpoint-interval": "300 ms"})

    def state() -> int:
        last = server.api("GET", "/api/v1/jobs/aborted/checkpoints")["last"]
        return int(last["bytes"]) if last else 0

    until("much state", lambda: state() > LARGE_BYTES)
    page = visitor.open("#/job/aborted/change", server)
    page.get_by_text("Number of tasks", exact=True).click()
    page.get_by_label("Tasks", exact=True).fill("2")
    apply = page.get_by_role("button", name="Apply the change")
    expect(apply).to_be_enabled()
    # While rows wait for the service, no checkpoint completes from which state could be loaded.
    with levels.silent():
        apply.click()
        progress = page.get_by_role("status").filter(has_text="The change is being carried out")
        expect(progress).to_contain_text("preparing")
        progress.get_by_role("button", name="Abort the change").click()
        expect(progress).to_have_count(0)
    expect(page.get_by_text("The change was undone. The job goes on by its former plan.")).to_be_visible()
    expect(page.get_by_role("alert").filter(has_text="the change was aborted by a request")).to_be_visible()
    change = _changes(page).first
    expect(change.locator("summary")).to_contain_text("undone")
    expect(change.locator("summary")).to_contain_text("parallelism 2")
    let_in = levels.let_in
    until("further rows", lambda: levels.let_in > let_in + 10)
    now = server.api("GET", "/api/v1/jobs/aborted/sql")
    assert (now["version"], now["settings"]["parallelism"]) == (1, "1")
    assert server.job("aborted")["state"] == "running"
