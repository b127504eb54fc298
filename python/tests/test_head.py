"""What happens when Ray's head is killed, without and with a head that keeps its state."""

from __future__ import annotations

from pathlib import Path

import pytest
import ray
from conftest import Machines, processes, until
from jobs import SETTINGS, rows, script, state

import anabranch.ray

ROWS = 12_000


@pytest.fixture(autouse=True)
def _no_other_ray() -> None:
    assert not ray.is_initialized(), "each test of this file has its own Ray"


def test_with_the_head_all_processes_end_and_the_next_cluster_resumes_the_jobs(store: Path, tmp_path: Path) -> None:
    machines = Machines()
    machines.add()
    machines.connect()
    cluster = anabranch.ray.up(slots=2, store=str(store))
    cluster.submit("job", script(tmp_path, ROWS), settings=SETTINGS)
    until("rows of a checkpoint", lambda: rows(tmp_path))
    ray.shutdown()
    machines.cluster.remove_node(machines.head, allow_graceful=False)
    until("the end of all processes", lambda: not processes(str(store)))
    machines.close()
    assert rows(tmp_path) < ROWS, "the job has ended too early for this test"

    machines = Machines()
    machines.connect()
    cluster = anabranch.ray.up(slots=2, store=str(store))
    until("the end of the job", lambda: state(cluster, "job") == "ended")
    assert rows(tmp_path) == ROWS
    cluster.down()
    machines.close()


def test_with_a_head_that_keeps_its_state_nothing_ends(store: Path, tmp_path: Path) -> None:
    machines = Machines(gcs_storage="rocksdb", gcs_storage_path=str(tmp_path / "gcs"))
    machines.add()
    machines.connect()
    cluster = anabranch.ray.up(slots=2, store=str(store))
    cluster.submit("job", script(tmp_path, ROWS), settings=SETTINGS)
    until("rows of a checkpoint", lambda: rows(tmp_path))
    before = cluster.status()
    machines.head.kill_gcs_server()
    seen = rows(tmp_path)
    until("rows without a head", lambda: rows(tmp_path) > seen)
    machines.head.start_gcs_server()
    until("the end of the job", lambda: state(cluster, "job") == "ended")
    assert rows(tmp_path) == ROWS
    after = cluster.status()
    assert [(each.pid, each.starts) for each in after.workers] == [(each.pid, each.starts) for each in before.workers]
    assert after.pid == before.pid
    # The supervisor follows the nodes again.
    machines.add()
    until("a worker on the new node", lambda: [each.state for each in cluster.status().workers] == ["running"] * 3)
    cluster.down()
    machines.close()
