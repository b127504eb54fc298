"""What a cluster on Ray is brought up with, as its actors get it."""

from __future__ import annotations

from dataclasses import dataclass, field

#: The Ray namespace of all actors of this package.
NAMESPACE = "anabranch"
#: The environment variable with the secret, for the program's processes.
TOKEN_VARIABLE = "ANABRANCH_TOKEN"


@dataclass(frozen=True)
class Settings:
    """A cluster as it is wanted.

    Attributes:
        name: Name of the cluster: that of its supervisor among Ray's actors.
        store: Where jobs and their checkpoints are: an absolute path, or a place in an object store.
        token: The secret of the cluster.
        workers: How many Ray nodes get a worker; ``None`` for all, also those that join later.
        slots: Tasks of one stage that a worker may have; ``None`` for one per CPU of its node.
        cpus: Ray CPUs that a worker takes; ``None`` for as many as it has slots.
        environment: Variables for the processes, such as the keys of an object store.
    """

    name: str
    store: str
    token: str = field(repr=False)
    workers: int | None = None
    slots: int | None = None
    cpus: float | None = None
    environment: dict[str, str] = field(default_factory=dict, repr=False)

    def slots_of(self, node_cpus: float) -> int:
        """Returns the slots of a worker on a node with so many Ray CPUs: at least one."""
        return self.slots if self.slots is not None else max(1, int(node_cpus))

    def cpus_of(self, node_cpus: float) -> float:
        """Returns the Ray CPUs that a worker takes on a node with so many."""
        return self.cpus if self.cpus is not None else float(self.slots_of(node_cpus))


@dataclass(frozen=True)
class WorkerStatus:
    """A worker, or a node that should have one.

    Attributes:
        name: The worker's name at the coordinator.
        node: Ray's identifier of the node.
        address: The node's address.
        state: ``starting``, ``running`` (the coordinator has it) or ``failed`` (it is started again).
        slots: Tasks of one stage that it may have.
        tasks: Tasks that it has.
        starts: How often a worker was started on this node.
        pid: Its process; 0 unless it is running.
        problem: Why it does not run; empty if there is no reason.
    """

    name: str
    node: str
    address: str
    state: str
    slots: int
    tasks: int = 0
    starts: int = 0
    pid: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Status:
    """A cluster as its supervisor sees it.

    Attributes:
        name: Name of the cluster.
        version: Version of its package.
        store: Where jobs and their checkpoints are.
        url: Where the coordinator answers; empty until it has started.
        pid: The coordinator's process; 0 unless it runs.
        coordinator: ``starting``, ``running``, ``failed`` (it is started again) or ``ended``.
        problem: Why the coordinator does not run, or why the nodes are not known; else empty.
        wanted: How many workers are wanted; ``None`` for one on each node.
        missing: How many of them have no node.
        workers: The workers, by their names.
        jobs: The jobs: names and states.
    """

    name: str
    version: str
    store: str
    url: str
    pid: int
    coordinator: str
    problem: str
    wanted: int | None
    missing: int
    workers: tuple[WorkerStatus, ...]
    jobs: tuple[tuple[str, str], ...]
