"""Which Ray nodes have a worker: a value without Ray, clock or threads. The supervisor tells it what happens and carries out its orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: Seconds until the first attempt after a failure, and at most until another one; each failure doubles them.
PAUSE_S_FIRST = 1.0
PAUSE_S_MAX = 30.0
#: A worker that ran for so many seconds has not failed at its start: the next pause is the first again.
STABLE_S = 60.0


@dataclass(frozen=True)
class Node:
    """A living Ray node.

    Attributes:
        id: Ray's identifier.
        address: Its IP address.
        cpus: CPUs that Ray has there in all.
    """

    id: str
    address: str
    cpus: float


@dataclass(frozen=True)
class Start:
    """Order: start a worker on this node."""

    node: Node


@dataclass(frozen=True)
class Drop:
    """Order: the node is gone; give up its worker."""

    node: Node


@dataclass
class Seat:
    """A node that has a worker, or will have one again.

    Attributes:
        node: The node.
        started_s: When its worker was started; ``None`` while it has none.
        retry_s: When the next worker is started, if it has none.
        pause_s: The pause before that.
        starts: How often a worker was started.
        problem: Why the last worker ended.
    """

    node: Node
    started_s: float | None = None
    retry_s: float = 0.0
    pause_s: float = PAUSE_S_FIRST
    starts: int = 0
    problem: str = ""


class Roster:
    """The seats of a cluster. All times are seconds of one clock that never goes back."""

    def __init__(self, wanted: int | None) -> None:
        """Begins without nodes. ``wanted``: how many nodes get a worker; ``None`` for all."""
        self._wanted = wanted
        self._seats: dict[str, Seat] = {}
        self._dropped: list[Node] = []

    @property
    def seats(self) -> tuple[Seat, ...]:
        """The nodes with workers."""
        return tuple(self._seats.values())

    @property
    def missing(self) -> int:
        """How many workers have no node."""
        return max(0, (self._wanted or 0) - len(self._seats))

    def observe(self, nodes: Iterable[Node]) -> None:
        """Takes the nodes that live now. A node that is not among them is gone for ever: Ray gives no identifier twice."""
        alive = {node.id: node for node in nodes}
        for gone in [seat for id_, seat in self._seats.items() if id_ not in alive]:
            del self._seats[gone.node.id]
            self._dropped.append(gone.node)
        # Large nodes first; the identifier makes the choice one that is made again alike.
        for node in sorted(alive.values(), key=lambda node: (-node.cpus, node.id)):
            if node.id not in self._seats and (self._wanted is None or len(self._seats) < self._wanted):
                self._seats[node.id] = Seat(node)

    def ended(self, now_s: float, node_id: str, why: str) -> None:
        """Notes that the worker of a node has ended. Another one is started after a pause."""
        seat = self._seats.get(node_id)
        if seat is None or seat.started_s is None:
            return
        if now_s - seat.started_s >= STABLE_S:
            seat.pause_s = PAUSE_S_FIRST
        seat.retry_s = now_s + seat.pause_s
        seat.pause_s = min(PAUSE_S_MAX, seat.pause_s * 2)
        seat.started_s = None
        seat.problem = why

    def orders(self, now_s: float) -> Iterator[Start | Drop]:
        """Yields what is to be done now, and takes it as done."""
        while self._dropped:
            yield Drop(self._dropped.pop(0))
        for seat in self._seats.values():
            if seat.started_s is None and now_s >= seat.retry_s:
                seat.started_s = now_s
                seat.starts += 1
                yield Start(seat.node)
