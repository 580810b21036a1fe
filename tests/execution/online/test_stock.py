"""Which nodes a job is put on: the fullest that has room, whole ones first; several only where there is no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.errors import DataError, InternalError
from optplan.execution.online.division import FreeGpus, Stock
from optplan.execution.online.jobs import Rules


def make_nodes(*free: int, size: int = 4) -> FreeGpus[int]:
    """Make nodes 0, 1, ... on which so much is free."""
    nodes = FreeGpus[int](size)
    for node, left in enumerate(free):
        nodes.add(node)
        nodes.shift(node, left - size)
    return nodes


@pytest.mark.parametrize(
    ("free", "gpus", "place"),
    [
        ((4, 2, 3), 2, {1: 2}),  # the fullest with room
        ((4, 3, 3), 2, {1: 2}),  # of equally full ones the first
        ((4, 1, 4), 6, {0: 4, 2: 2}),  # a whole one, then the fullest with room for the other two: none but a whole one
        ((4, 2, 4), 6, {0: 4, 1: 2}),  # the same, and two are free beside others
        ((1, 3, 2), 5, {1: 3, 2: 2}),  # no whole one is left: the emptiest, and then the fullest with room
        ((1, 0, 1), 2, {0: 1, 2: 1}),
    ],
)
def test_gpus_are_taken_together(free: tuple[int, ...], gpus: int, place: dict[int, int]) -> None:
    """Nobody is moved for that, and what is taken is no longer free."""
    nodes = make_nodes(*free)
    assert nodes.take(gpus) == place
    assert nodes.by_node == {node: left - place.get(node, 0) for node, left in enumerate(free)}


def test_nodes_are_rented_rather_than_used_in_parts() -> None:
    """Three GPUs are free on two nodes; a job of three gets a third node, and one of one the fullest."""
    nodes = make_nodes(2, 1)

    def rent() -> bool:
        nodes.add(2)
        return True

    assert nodes.take(3, rent) == {2: 3}
    assert nodes.take(1, rent) == {1: 1}


def test_what_is_not_there_cannot_be_taken() -> None:
    """That is never asked for: whoever asks has looked."""
    with pytest.raises(InternalError, match="1 GPUs were promised, and none is free"):
        make_nodes(1, 0).take(2)


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=30))
def test_what_is_free_adds_up(steps: list[tuple[int, bool]]) -> None:
    """Whatever is taken and given back, in whatever order; nodes that nobody holds are listed as such."""
    nodes, held = make_nodes(*[4] * 5), list[dict[int, int]]()
    for gpus, gives in steps:
        if gives and held:
            for node, count in held.pop(gpus % len(held)).items():
                nodes.shift(node, count)
        elif gpus <= sum(nodes.by_node.values()):
            held.append(nodes.take(gpus))
            assert sum(held[-1].values()) == gpus
        used = [sum(place.get(node, 0) for place in held) for node in range(5)]
        assert [nodes.by_node[node] for node in range(5)] == [4 - each for each in used]
        assert list(nodes.empty) == [node for node in range(5) if not used[node]]


def test_nodes_are_of_the_types_that_the_rules_say() -> None:
    """A node of another type is refused, and is not there."""
    stock = Stock(Rules(gpus_per_node={"v100": 4}))
    with pytest.raises(DataError, match=r"^nodes\.a\.gpu_type: got 'v10'; .*v100"):
        stock.add("a", "v10", 0)
    assert "a" not in stock
