"""The detached actor of a cluster: it keeps the coordinator running, and a worker on each Ray node that is to have one.

It follows Ray's nodes once a second. Ray is not asked whether a worker lives: the coordinator's heartbeats decide about tasks, and the end
of a worker's process or actor about a new one.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import anabranch
from anabranch.errors import OutsideError
from anabranch.ray.client import Answer, Client
from anabranch.ray.host import Ended, Host, WorkerSpec
from anabranch.ray.keeper import Keeper
from anabranch.ray.roster import Node, Roster, Seat, Start
from anabranch.ray.settings import Settings, Status, WorkerStatus

#: Seconds between two looks at the nodes and the workers.
_LOOK_S = 1.0
#: The same until the workers have started.
_LOOK_FIRST_S = 0.2
#: Seconds that a worker's actor has to end its process.
_STOP_S = 10.0
#: Characters of a node's identifier in the name of its worker.
_NAME_CHARS = 12


def living_nodes() -> list[Node]:
    """Returns the Ray nodes that live, as Ray's head knows them."""
    alive = (node for node in ray.nodes() if node["Alive"])
    return [Node(node["NodeID"], node["NodeManagerAddress"], node["Resources"].get("CPU", 0.0)) for node in alive]


@dataclass
class _Running:
    """A worker's actor.

    Attributes:
        host: Its handle.
        ready: Refers to an answer once Ray has started it.
        ended: Refers to the end of its process.
        is_ready: Ray has started it.
    """

    host: Any
    ready: Any
    ended: Any
    is_ready: bool = False


class Supervisor:
    """The actor. Its constructor starts everything, so Ray brings the cluster back by restarting the actor."""

    def __init__(self, settings: Settings) -> None:
        """Starts the coordinator and the workers, from threads."""
        self._settings = settings
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._roster = Roster(settings.workers)
        self._running: dict[str, _Running] = {}
        self._refused: set[str] = set()
        self._problem = ""
        self._listed: dict[str, dict[str, Any]] = {}
        self._jobs: tuple[tuple[str, str], ...] = ()
        self._keeper = Keeper(settings, ray.util.get_node_ip_address())
        self._thread = threading.Thread(target=self._follow, name="workers", daemon=True)
        self._thread.start()

    def status(self) -> Status:
        """Returns what there is now."""
        client = self._keeper.client()
        with self._lock:
            workers = tuple(sorted((self._worker(seat) for seat in self._roster.seats), key=lambda worker: worker.name))
            return Status(
                name=self._settings.name,
                version=anabranch.__version__,
                store=self._settings.store,
                url=client.url if client else "",
                pid=self._keeper.pid,
                coordinator=self._keeper.state,
                problem=self._keeper.problem or self._problem,
                wanted=self._settings.workers,
                missing=self._roster.missing,
                workers=workers,
                jobs=self._jobs,
            )

    def request(self, method: str, path: str, body: object = None) -> Answer:
        """Sends a request to the coordinator. See :meth:`anabranch.ray.client.Client.request`."""
        client = self._keeper.client()
        if client is None:
            raise OutsideError("the coordinator has not started yet", "ask again, or see status")
        return client.request(method, path, body, timeout_s=60.0)

    def client(self) -> Client | None:
        """Returns how the coordinator is reached, with the cluster's secret; ``None`` until it has started."""
        return self._keeper.client()

    def down(self) -> None:
        """Stops all jobs at the end of an epoch, and ends all processes and actors but this one."""
        self._stopping.set()
        # Workers are there until the jobs have stopped.
        self._keeper.end()
        # It may wait for a head that is gone.
        self._thread.join(_STOP_S)
        with self._lock:
            running = list(self._running.values())
            self._running.clear()
        stops = [each.host.stop.remote() for each in running if each.is_ready]
        if stops:
            ray.wait(stops, num_returns=len(stops), timeout=_STOP_S)
        for each in running:
            ray.kill(each.host, no_restart=True)

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._keeper.workers:
                    self._look()
                    self._list()
                problem = ""
            except Exception as error:  # noqa: BLE001 - whatever Ray raises: the next look may find it well again.
                problem = f"Ray's nodes cannot be followed: {error}"
            with self._lock:
                self._problem = problem
                is_complete = bool(self._listed) and len(self._listed) >= len(self._roster.seats)
            self._stopping.wait(_LOOK_S if is_complete else _LOOK_FIRST_S)

    def _look(self) -> None:
        ended = self._ended()
        fitting = [node for node in living_nodes() if node.cpus >= self._settings.cpus_of(node.cpus)]
        now_s = time.monotonic()
        with self._lock:
            self._roster.observe(fitting)
            for node, end in ended.items():
                self._roster.ended(now_s, node, end.reason)
                self._running.pop(node)
                if end.is_refused:
                    self._refused.add(node)
            for order in self._roster.orders(now_s):
                if isinstance(order, Start):
                    self._refused.discard(order.node.id)
                    self._running[order.node.id] = self._start(order.node)
                elif gone := self._running.pop(order.node.id, None):
                    ray.kill(gone.host, no_restart=True)

    def _ended(self) -> dict[str, Ended]:
        """Looks which workers have ended, and gives up their actors."""
        with self._lock:
            running = dict(self._running)
        ended = {}
        for node, each in running.items():
            each.is_ready = each.is_ready or bool(ray.wait([each.ready], timeout=0)[0])
            if not ray.wait([each.ended], timeout=0)[0]:
                continue
            try:
                ended[node] = ray.get(each.ended)
            except ray.exceptions.RayError as error:
                ended[node] = Ended(f"its actor is lost: {str(error).strip().splitlines()[0]}")
            ray.kill(each.host, no_restart=True)
        return ended

    def _start(self, node: Node) -> _Running:
        settings = self._settings
        spec = WorkerSpec(
            coordinator=self._keeper.workers,
            name=_name(node),
            node=node.id,
            slots=settings.slots_of(node.cpus),
            store=settings.store,
            authority=self._keeper.authority,
            token=settings.token,
            environment=settings.environment,
        )
        # Never on another node: that one has its own worker.
        where = NodeAffinitySchedulingStrategy(node.id, soft=False)
        actor: Any = ray.remote(Host)
        cpus = settings.cpus_of(node.cpus)
        host = actor.options(num_cpus=cpus, max_restarts=0, max_concurrency=4, scheduling_strategy=where).remote(spec)
        return _Running(host, host.ready.remote(), host.run.remote())

    def _list(self) -> None:
        """Asks the coordinator for its workers and jobs."""
        workers = self.request("GET", "/api/v1/workers").body
        jobs = self.request("GET", "/api/v1/jobs").body
        with self._lock:
            self._listed = {worker["name"]: worker for worker in workers["workers"]}
            self._jobs = tuple((job["name"], job["state"]) for job in jobs["jobs"])

    def _worker(self, seat: Seat) -> WorkerStatus:
        node, running = seat.node, self._running.get(seat.node.id)
        listed = self._listed.get(_name(node)) if running is not None else None
        state, problem = "starting", ""
        if listed is not None:
            state = "running"
        elif running is None:
            state, problem = ("refused" if node.id in self._refused else "failed"), seat.problem
        elif not running.is_ready:
            cpus = self._settings.cpus_of(node.cpus)
            problem = f"Ray has not started its actor: its node does not answer, or {cpus:g} of its {node.cpus:g} CPUs are not free"
        listed = listed or {}
        return WorkerStatus(
            name=_name(node),
            node=node.id,
            address=node.address,
            state=state,
            slots=self._settings.slots_of(node.cpus),
            tasks=listed.get("tasks", 0),
            starts=seat.starts,
            pid=listed.get("pid", 0),
            problem=problem,
        )


def _name(node: Node) -> str:
    return f"ray-{node.id[:_NAME_CHARS]}"
