"""What happens when Ray's head is restarted with its state, and when it is lost."""

from __future__ import annotations

from pathlib import Path

from conftest import Machines, processes, until
from jobs import SETTINGS, rows, script, state

import anabranch.ray

ROWS = 12_000


def test_nothing_ends_with_a_head_that_keeps_its_state_and_all_with_one_that_is_lost(store: Path, tmp_path: Path) -> None:
    machines = Machines(gcs_storage="rocksdb", gcs_storage_path=str(tmp_path / "gcs"))
    machines.connect()
    cluster = anabranch.ray.up(slots=2, store=str(store))
    folder = tmp_path / "first"
    cluster.submit("first", script(folder), settings=SETTINGS)
    until("rows of a checkpoint", lambda: rows(folder))
    before = cluster.status()
    machines.head.kill_gcs_server()
    seen = rows(folder)
    until("rows without a head", lambda: rows(folder) > seen)
    machines.head.start_gcs_server()
    cluster.stop("first")
    until("the stop of the job", lambda: state(cluster, "first") == "stopped")
    after = cluster.status()
    assert [(each.pid, each.starts) for each in after.workers] == [(each.pid, each.starts) for each in before.workers]
    assert after.pid == before.pid
    # The supervisor follows the nodes again.
    machines.add()
    until("a worker on the new node", lambda: [each.state for each in cluster.status().workers] == ["running"] * 2)

    folder = tmp_path / "second"
    cluster.submit("second", script(folder, ROWS), settings=SETTINGS)
    until("rows of a checkpoint", lambda: rows(folder))
    assert rows(folder) < ROWS, "the job has ended too early for this test"
    machines.lose_head()
    until("the end of all processes, also those on the other node", lambda: not processes(str(store)))
    machines.close()

    machines = Machines()
    machines.connect()
    cluster = anabranch.ray.up(slots=2, store=str(store))
    until("the end of the job", lambda: state(cluster, "second") == "ended")
    assert rows(folder) == ROWS
    cluster.down()
    machines.close()
