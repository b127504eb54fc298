"""A cluster on several Ray nodes, and what happens to it when parts of it die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from conftest import Machines, processes, until
from jobs import SETTINGS, rows, script, state

import anabranch.ray
from anabranch import OutsideError, RequestError
from anabranch.ray import Cluster

ROWS = 12_000


@pytest.fixture
def cluster(machines: Machines, store: Path) -> Iterator[Cluster]:
    """A worker with two slots on each of two nodes."""
    cluster = anabranch.ray.up(slots=2, store=str(store), address=machines.address)
    yield cluster
    cluster.down()


def begin(cluster: Cluster, folder: Path) -> None:
    """Starts a job, and waits for rows of a checkpoint."""
    cluster.submit("job", script(folder, ROWS), settings=SETTINGS)
    until("rows of a checkpoint", lambda: rows(folder))
    assert rows(folder) < ROWS, "the job has ended too early for this test"


def finish(cluster: Cluster, folder: Path) -> None:
    """Waits for the end of the job, which has lost and doubled nothing."""
    until("the end of the job", lambda: state(cluster, "job") == "ended")
    assert rows(folder) == ROWS


def command(machines: Machines, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "anabranch.ray", *arguments, "--address", machines.address]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_commands_bring_a_cluster_up_run_a_job_and_leave_nothing(machines: Machines, store: Path, tmp_path: Path) -> None:
    free = ray.available_resources()["CPU"]
    shown = command(machines, "up", "--store", str(store), "--slots", "2", "--workers", "3")
    assert shown.returncode == 0, shown.stderr
    assert "workers: 2 of 2 run, 3 wanted" in shown.stdout
    assert "1 more wait for Ray nodes with enough CPUs" in shown.stdout
    file = tmp_path / "ads.sql"
    file.write_text(script(tmp_path, ROWS, 100))
    submitted = command(machines, "submit", str(file), "--set", "checkpoint-interval=100 ms", "--option", "events.rows-per-second=40000")
    assert (submitted.returncode, submitted.stderr) == (0, "")

    cluster = anabranch.ray.connect()
    until("the end of the job", lambda: state(cluster, "ads") == "ended")
    assert rows(tmp_path) == ROWS
    status = json.loads(command(machines, "status", "--json").stdout)
    assert [worker["state"] for worker in status["workers"]] == ["running", "running"]
    assert len({worker["node"] for worker in status["workers"]}) == 2
    assert [worker["slots"] for worker in status["workers"]] == [2, 2]
    listed = subprocess.run(
        [anabranch.program(), "jobs"],
        env={**os.environ, **cluster.environment(tmp_path / "env")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ads  ended" in listed.stdout

    taken = command(machines, "up", "--store", str(store))
    assert (taken.returncode, taken.stderr.splitlines()[0]) == (2, "error: there is a cluster 'anabranch' already")
    with pytest.raises(RequestError, match="there is a job 'ads' already, which has ended"):
        cluster.submit("ads", script(tmp_path))
    with pytest.raises(RequestError, match=r"line 1, column 1.*\n.*\n.*SELEKT"):
        cluster.submit("other", "SELEKT 1")

    assert command(machines, "down").returncode == 0
    assert processes(str(store)) == []
    assert ray.util.list_named_actors(all_namespaces=True) == []
    until("all CPUs of the workers", lambda: ray.available_resources().get("CPU") == free)
    gone = command(machines, "status")
    assert (gone.returncode, gone.stderr.splitlines()[0]) == (2, "error: there is no cluster 'anabranch' on this Ray")


def test_a_killed_worker_process_is_replaced(cluster: Cluster, tmp_path: Path) -> None:
    begin(cluster, tmp_path)
    os.kill(cluster.status().workers[0].pid, signal.SIGKILL)
    finish(cluster, tmp_path)
    until("another worker", lambda: [each.state for each in cluster.status().workers] == ["running", "running"])
    assert [each.starts for each in cluster.status().workers] == [2, 1]


def test_a_worker_dies_with_its_actor_even_when_it_is_stopped_and_is_replaced(cluster: Cluster, store: Path, tmp_path: Path) -> None:
    begin(cluster, tmp_path)
    worker = cluster.status().workers[0].pid
    os.kill(worker, signal.SIGSTOP)
    actor = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(actor, signal.SIGKILL)
    until("the end of the worker", lambda: worker not in processes(str(store)))
    finish(cluster, tmp_path)
    until("another worker", lambda: [each.starts for each in cluster.status().workers] == [2, 1])


def test_a_killed_coordinator_is_started_again_at_its_addresses_and_resumes_its_jobs(cluster: Cluster, tmp_path: Path) -> None:
    begin(cluster, tmp_path)
    before = cluster.status()
    os.kill(before.pid, signal.SIGKILL)
    until("another process", lambda: cluster.status().pid not in (0, before.pid))
    assert cluster.status().url == before.url
    finish(cluster, tmp_path)
    assert [each.pid for each in cluster.status().workers] == [each.pid for each in before.workers], "workers connect again"


def test_a_killed_supervisor_is_restarted_by_ray_and_resumes_its_jobs(cluster: Cluster, store: Path, tmp_path: Path) -> None:
    begin(cluster, tmp_path)
    before = cluster.status()
    actor = int(Path(f"/proc/{before.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(actor, signal.SIGKILL)
    former = [before.pid, *(each.pid for each in before.workers)]
    until("the end of its processes", lambda: not set(former) & set(processes(str(store))))
    finish(cluster, tmp_path)
    # One worker is enough for the job: the other one may still start.
    until("the coordinator and both workers", lambda: len(processes(str(store))) == 3)


def test_workers_follow_nodes_that_die_and_join(machines: Machines, cluster: Cluster, tmp_path: Path) -> None:
    dies = machines.add()
    until("a third worker", lambda: [each.state for each in cluster.status().workers] == ["running"] * 3)
    cluster.submit("job", script(tmp_path, ROWS, 2000), settings={**SETTINGS, "parallelism": "4"})
    until("rows of a checkpoint", lambda: rows(tmp_path))
    assert rows(tmp_path) < ROWS, "the job has ended too early for this test"
    machines.cluster.remove_node(dies, allow_graceful=False)
    until("the loss of the node", lambda: len(cluster.status().workers) == 2)
    joined = machines.add()
    finish(cluster, tmp_path)
    until("a worker on the new node", lambda: [each.state for each in cluster.status().workers] == ["running"] * 3)
    machines.cluster.remove_node(joined)


def test_what_keeps_a_cluster_from_coming_up_is_told_and_nothing_of_it_is_left(machines: Machines, store: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="a worker takes 64 CPUs, and the largest Ray node has 2\n  help: give slots"):
        anabranch.ray.up(slots=64, store=str(store))
    with pytest.raises(RequestError, match="workers=0: at least one"):
        anabranch.ray.up(workers=0, store=str(store))
    (tmp_path / "file").write_text("")
    with pytest.raises(OutsideError, match=r"the coordinator does not start: .*the directory cannot be created"):
        anabranch.ray.up(store=str(tmp_path / "file" / "store"))

    # On this node the folder has another content, as on a machine that does not share it.
    elsewhere = tmp_path / "program"
    elsewhere.write_text(f'#!/bin/bash\nexec "{anabranch.program()}" "${{@//"{store}"/"{store}-elsewhere"}}"\n')
    elsewhere.chmod(0o755)
    node = machines.add(env_vars={anabranch.PROGRAM_VARIABLE: str(elsewhere)})
    with pytest.raises(
        RequestError, match=r"does not start: the store .*-elsewhere: this machine finds nothing .*\n *help: .*a shared folder"
    ):
        anabranch.ray.up(slots=2, store=str(store))
    machines.cluster.remove_node(node)

    # Something else has all CPUs.
    busy = ray.util.placement_group([{"CPU": 2}, {"CPU": 2}])
    ray.get(busy.ready())
    with pytest.raises(OutsideError, match="its node does not answer, or 2 of its 2 CPUs are not free"):
        anabranch.ray.up(slots=2, store=str(store), timeout_s=10.0)
    ray.util.remove_placement_group(busy)
    assert ray.util.list_named_actors(all_namespaces=True) == []
    assert processes(str(store)) == []
