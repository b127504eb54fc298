"""A Ray cluster of several nodes on this machine, its folder, and what tests ask of processes."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Ray reads it when it is imported. Sockets lie in it, whose paths must be short.
_FOLDER = Path(tempfile.mkdtemp(prefix="ab", dir="/tmp"))
(_FOLDER / "ray").mkdir()
os.environ["RAY_TMPDIR"] = str(_FOLDER)
os.environ.pop("RAY_ADDRESS", None)
# The other nodes notice sooner that the head is gone.
os.environ["RAY_gcs_rpc_server_reconnect_timeout_s"] = "2"  # noqa: SIM112 - Ray's name

# Ray gives its workers and their children the lowest priority but four. On a busy machine they would take minutes.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112

#: Bytes of each node's object store: the smallest that Ray takes.
OBJECT_STORE_BYTES = 80 << 20
#: With these, Ray's head takes a second and not 20 to notice that a node is gone.
HEALTH = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 300, "health_check_failure_threshold": 3}
#: Longer than anything here takes, even on a busy machine.
LIMIT_S = 60.0


def until(what: str, is_there: Callable[[], object]) -> None:
    """Waits for something that will come."""
    end_s = time.monotonic() + LIMIT_S
    while not is_there():
        assert time.monotonic() < end_s, f"{what} does not come"
        time.sleep(0.05)


def processes(*parts: str) -> list[int]:
    """Processes whose command lines contain all of these arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if all(part in arguments for part in parts):
            found.append(int(entry.name))
    return found


class Machines:
    """A Ray cluster. Each node stands for a machine."""

    def __init__(self, **system: object) -> None:
        from ray.cluster_utils import Cluster

        args = {
            "num_cpus": 2,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_system_config": {**HEALTH, **system},
        }
        self.cluster = Cluster(initialize_head=True, head_node_args=args, shutdown_at_exit=True)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    @property
    def head(self) -> Any:
        return self.cluster.head_node

    def add(self, **args: Any) -> Any:
        return self.cluster.add_node(object_store_memory=OBJECT_STORE_BYTES, **{"num_cpus": 2, **args})

    def lose_head(self) -> None:
        """Kills the head's node, with all that runs on it."""
        import ray

        ray.shutdown()
        self.cluster.remove_node(self.head, allow_graceful=False)

    def connect(self) -> None:
        import ray

        ray.init(address=self.address, namespace="test", log_to_driver=False)

    def close(self) -> None:
        import ray

        ray.shutdown()
        self.cluster.shutdown()


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    """A head and another node, to which the tests' process is connected."""
    machines = Machines()
    machines.add()
    machines.connect()
    yield machines
    machines.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """A place for jobs. When the test has ended, no process uses it."""
    place = tmp_path / "store"
    yield place
    until("the end of all processes", lambda: not processes(str(place)))


def pytest_sessionfinish() -> None:
    shutil.rmtree(_FOLDER, ignore_errors=True)
