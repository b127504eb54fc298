"""Which nodes get a worker: without Ray."""

from __future__ import annotations

from anabranch.ray.roster import PAUSE_S_MAX, STABLE_S, Drop, Node, Roster, Start


def node(name: str, cpus: float = 2.0) -> Node:
    return Node(name, "10.0.0.1", cpus)


def test_each_node_gets_one_worker_and_a_node_that_is_gone_loses_it() -> None:
    roster = Roster(None)
    roster.observe([node("a"), node("b")])
    assert list(roster.orders(0.0)) == [Start(node("a")), Start(node("b"))]
    assert list(roster.orders(1.0)) == [], "each order is given once"
    roster.observe([node("b"), node("c")])
    assert list(roster.orders(2.0)) == [Drop(node("a")), Start(node("c"))]
    assert roster.missing == 0


def test_so_many_nodes_as_are_wanted_get_workers_the_largest_first() -> None:
    roster = Roster(2)
    roster.observe([node("a")])
    assert roster.missing == 1
    roster.observe([node("a"), node("b"), node("c", 8.0)])
    assert [seat.node.id for seat in roster.seats] == ["a", "c"], "a worker that is there stays"
    assert roster.missing == 0
    roster.observe([node("b"), node("c", 8.0)])
    assert [seat.node.id for seat in roster.seats] == ["c", "b"], "another node takes the place"


def test_a_worker_that_ends_again_and_again_is_started_after_longer_and_longer_pauses() -> None:
    roster = Roster(None)
    roster.observe([node("a")])
    now, pauses = 0.0, []
    for _ in range(8):
        assert list(roster.orders(now)) == [Start(node("a"))]
        roster.ended(now, "a", "it crashed")
        ended = now
        while not (orders := list(roster.orders(now))):
            now += 0.5
        assert orders == [Start(node("a"))]
        pauses.append(now - ended)
        roster.ended(now, "a", "it crashed")
        now += PAUSE_S_MAX
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (1.0, PAUSE_S_MAX)
    assert roster.seats[0].problem == "it crashed"

    list(roster.orders(now))
    roster.ended(now + STABLE_S, "a", "its node was busy")
    assert list(roster.orders(now + STABLE_S + 1.0)) == [Start(node("a"))], "it ran: the pause is short again"


def test_the_end_of_a_worker_that_has_no_seat_is_nothing() -> None:
    roster = Roster(None)
    roster.ended(0.0, "a", "it crashed")
    roster.observe([node("a")])
    roster.ended(0.0, "a", "it crashed")
    assert list(roster.orders(0.0)) == [Start(node("a"))]
