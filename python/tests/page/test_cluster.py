"""A cluster: which worker has which task, what is moved where, and what happens when a process dies."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from page.serving import COPY, Cluster, Server, Visitor, clustered, until

JOB = "copied"
WORKERS = ("first", "second")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two coordinators and two workers. Each worker has room for the whole job."""
    with clustered(tmp_path_factory.mktemp("cluster"), coordinators=2) as cluster:
        for name in WORKERS:
            cluster.worker(name, slots=2)
        cluster.leader.submit(JOB, COPY, **{"parallelism": "2", "checkpoint-interval": "300 ms"})
        until("a checkpoint", lambda: _checkpoints(cluster.leader)["completed"])
        yield cluster


def _checkpoints(server: Server) -> dict[str, int]:
    found: dict[str, int] = server.api("GET", f"/api/v1/jobs/{JOB}/checkpoints")
    return found


def _places(server: Server) -> dict[int, str]:
    """The worker of each task of the job's only stage."""
    return {task["task"]: task["worker"] for task in server.api("GET", f"/api/v1/jobs/{JOB}/tasks")["tasks"]}


def _open(visitor: Visitor, server: Server, route: str) -> Page:
    return visitor.open(f"{route}?token={server.token}", server)


def _worker(page: Page, name: str) -> Locator:
    """The line of a worker in the table of all."""
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=re.compile(f"^{name}")))


def _tasks_at(page: Page, name: str) -> Locator:
    """The tasks of the job that a worker has."""
    place = page.locator("section").filter(has=page.get_by_role("heading", name=re.compile(f"^{name} ")))
    return place.get_by_role("region", name="Tasks of the worker").locator("tbody tr")


def test_a_worker_is_drained_and_gets_tasks_again(visitor: Visitor, cluster: Cluster) -> None:
    page = _open(visitor, cluster.leader, "#/workers")
    for name in WORKERS:
        expect(_worker(page, name).locator("[data-label=Slots]")).to_have_text("2")
        expect(_worker(page, name).locator("[data-label=Heard]")).to_have_text(re.compile("now|ago"))
    _worker(page, "second").get_by_role("button", name="Drain").click()
    dialog = page.get_by_role("dialog", name="Drain the worker")
    dialog.get_by_role("button", name="Drain", exact=True).click()
    expect(dialog.get_by_role("status")).to_contain_text("The worker is drained")
    expect(dialog.get_by_role("status")).to_contain_text(f"{JOB}: moved away")
    dialog.get_by_role("button", name="Close").first.click()
    expect(_worker(page, "second").locator(".tag")).to_have_text("drained")
    expect(_worker(page, "second").locator("[data-label=Tasks]")).to_have_text("0")
    expect(_worker(page, "first").locator("[data-label=Tasks]")).to_have_text("2")
    page.goto(f"{cluster.leader.url}/#/job/{JOB}/workers")
    expect(_tasks_at(page, "first")).to_have_count(2)
    # There is no other worker to which a task could go.
    expect(page.get_by_role("button", name=re.compile("^Move task"))).to_have_count(0)
    page.goto(f"{cluster.leader.url}/#/workers")
    _worker(page, "second").get_by_role("button", name="Undrain").click()
    expect(_worker(page, "second").locator(".tag")).to_have_count(0)
    expect(_worker(page, "second").get_by_role("button", name="Drain")).to_be_visible()


def test_a_task_is_moved_to_another_worker(visitor: Visitor, cluster: Cluster) -> None:
    before = _places(cluster.leader)[0]
    to = next(name for name in WORKERS if name != before)
    page = _open(visitor, cluster.leader, f"#/job/{JOB}/workers")
    task = re.compile(r"^0\.0")
    expect(_tasks_at(page, before).filter(has=page.get_by_role("rowheader", name=task))).to_have_count(1)
    page.get_by_role("button", name="Move task 0.0").click()
    dialog = page.get_by_role("dialog", name="Move task 0.0")
    expect(dialog).to_contain_text(f"is at {before}")
    dialog.get_by_label("To").select_option(to)
    dialog.get_by_role("button", name="Show what it would do").click()
    change = page.get_by_role("dialog", name="Move a task")
    expect(change.get_by_role("heading", name="What it would do")).to_be_visible()
    assert _places(cluster.leader)[0] == before
    change.get_by_role("button", name="Apply").click()
    expect(change.get_by_role("status")).to_contain_text("The change is settled")
    change.get_by_role("button", name="Close").first.click()
    expect(_tasks_at(page, to).filter(has=page.get_by_role("rowheader", name=task))).to_have_count(1)
    assert _places(cluster.leader)[0] == to


def test_a_killed_worker_is_the_reason_of_the_restart(visitor: Visitor, cluster: Cluster) -> None:
    lost = _places(cluster.leader)[0]
    restarts = cluster.leader.job(JOB)["restarts"]
    page = _open(visitor, cluster.leader, f"#/job/{JOB}/notices")
    happened = page.locator("section").filter(has=page.get_by_role("heading", name="What happened")).locator("li")
    expect(happened.first).to_be_visible()
    signs = page.locator(".mark.restart")
    expect(signs).to_have_count(restarts)
    cluster.workers[lost].kill()
    reason = f"worker {lost} is lost"
    expect(happened.filter(has=page.locator(".kind.restart")).filter(has_text=reason)).to_have_count(1)
    expect(signs).to_have_count(restarts + 1)
    page.get_by_role("link", name="Checkpoints", exact=True).click()
    expect(page.get_by_role("region", name="Checkpoints, the newest first").get_by_role("row").filter(has_text=reason)).to_have_count(1)
    figures = page.get_by_label("Checkpoints of the job").locator(".figure")
    expect(figures.filter(has_text="Restarts").locator("dd")).to_have_text(str(restarts + 1))
    expect(page.locator(".job-header .badge")).to_contain_text("running")
    page.get_by_role("link", name="Workers", exact=True).first.click()
    expect(_worker(page, lost)).to_have_count(0)
    cluster.worker(lost, slots=2)
    expect(_worker(page, lost)).to_have_count(1)


def test_when_the_leading_coordinator_is_killed_the_page_of_the_other_one_goes_on(visitor: Visitor, cluster: Cluster) -> None:
    visitor.expect_complaint("net::ERR_")
    visitor.expect_complaint("503 (Service Unavailable)")
    leader, standby = cluster.leader, cluster.standby
    followed = _open(visitor, leader, "#/")
    line = followed.get_by_role("row").filter(has=followed.get_by_role("link", name=JOB))
    expect(line.locator("[data-label=Read]")).to_have_text(re.compile(r"[1-9].*/s"))
    page = _open(visitor, standby, "#/")
    told = page.get_by_role("alert").filter(has_text="stands by")
    expect(told).to_contain_text(f"send the request to {leader.url}")
    leader.kill()
    expect(followed.locator(".connection .link")).to_contain_text("disconnected since")
    expect(followed.locator(".banner")).to_contain_text("The server is not heard")
    expect(line).to_be_visible()
    line = page.get_by_role("row").filter(has=page.get_by_role("link", name=JOB))
    expect(line.locator("[data-label=State]")).to_contain_text("running")
    expect(line.locator("[data-label=Read]")).to_have_text(re.compile(r"[1-9].*/s"))
    # The tasks were adopted as they ran.
    expect(line.locator("[data-label=Restarts]")).to_have_text("0")
    expect(told).to_have_count(0)
    page.goto(f"{standby.url}/#/job/{JOB}/notices")
    expect(page.locator(".events").first).to_contain_text("this coordinator has adopted the tasks")
    leader.start()
    # Its page knows what it knew, and where the jobs are now.
    expect(followed.get_by_role("alert")).to_contain_text(f"send the request to {standby.url}")
    expect(followed.locator(".banner")).to_have_count(0)
