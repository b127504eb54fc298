"""The actor of one worker: it starts a worker's process on its Ray node, and reports its end.

Ray does not restart it (``max_restarts=0``): the supervisor starts another one.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from anabranch.errors import AnabranchError
from anabranch.ray.child import Child
from anabranch.ray.settings import TOKEN_VARIABLE

#: Seconds that a worker has to end before it is killed.
_GRACE_S = 5.0


@dataclass(frozen=True)
class WorkerSpec:
    """A worker as it is started.

    Attributes:
        coordinator: ``HOST:PORT`` at which the coordinator listens for workers.
        name: Name of the worker.
        node: Ray's identifier of its node, which becomes a label.
        slots: Tasks of one stage that it may have.
        store: Where the jobs' checkpoints are; the worker checks that it reaches the place.
        authority: Certificate of the authority that has signed the coordinator's, in PEM; empty on a loopback address.
        token: The secret of the cluster.
        environment: Further variables of the process.
    """

    coordinator: str
    name: str
    node: str
    slots: int
    store: str
    authority: str
    token: str = field(repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def arguments(self, folder: str) -> list[str]:
        """Returns the command line of the program. ``folder`` is for files that it needs."""
        where = ["--coordinator", self.coordinator, "--store", self.store]
        if self.authority:
            file = Path(folder) / "ca.pem"
            file.write_text(self.authority)
            where += ["--tls-ca", str(file)]
        return ["worker", "--name", self.name, "--slots", str(self.slots), "--label", f"node={self.node}", *where]


@dataclass(frozen=True)
class Ended:
    """The end of a worker's process.

    Attributes:
        reason: Why it has ended.
        is_refused: The program refused its command line or its store: another attempt ends alike.
    """

    reason: str
    is_refused: bool = False


class Host:
    """Runs one worker's process, once."""

    def __init__(self, spec: WorkerSpec) -> None:
        """Starts nothing yet."""
        self._spec = spec
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._is_stopped = False

    def ready(self) -> bool:
        """Answers as soon as Ray has started the actor."""
        return True

    def run(self) -> Ended:
        """Starts the process, and returns when it has ended."""
        spec = self._spec
        with tempfile.TemporaryDirectory(prefix="anabranch-") as folder:
            try:
                with self._lock:
                    if self._is_stopped:
                        return Ended("it was stopped before it began")
                    self._child = Child(spec.arguments(folder), {**spec.environment, TOKEN_VARIABLE: spec.token})
            except AnabranchError as error:
                return Ended(str(error), is_refused=True)
            self._child.wait()
        return Ended(self._child.reason(), self._child.is_refused())

    def stop(self) -> None:
        """Ends the process. Returns when it has ended."""
        with self._lock:
            self._is_stopped = True
            child = self._child
        if child is not None:
            child.end(_GRACE_S)
