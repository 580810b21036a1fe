"""The placement controller: trials that fit on a node stay whole, nobody is lost, as few as possible move."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.errors import DataError
from optplan.formulations.rubberband.published.placement import Placement, PlacementChange, place


def placed(**trials: str | dict[str, int]) -> Placement:
    """Write a placement as ``a="n1:2"``."""
    return Placement(
        trials={
            trial: {node: int(gpus) for node, gpus in (part.split(":") for part in where.split())}
            if isinstance(where, str)
            else where
            for trial, where in trials.items()
        }
    )


def check_rules(
    change: PlacementChange, trials: Mapping[str, int], nodes: Sequence[str], node_gpus: int, last: Placement
) -> None:
    """No oversubscription, locality, no trial lost; what is said to have moved has."""
    load = dict.fromkeys(nodes, 0)
    for trial, own in change.placement.trials.items():
        assert sum(own.values()) == trials[trial]
        assert len(own) == -(-trials[trial] // node_gpus)
        for node, gpus in own.items():
            load[node] += gpus if len(own) == 1 else node_gpus
    assert all(gpus <= node_gpus for gpus in load.values())
    assert set(change.placement.trials) | set(change.left) == set(trials)
    assert not set(change.placement.trials) & set(change.left)
    assert change.empty == tuple(sorted(node for node in nodes if load[node] == 0))
    assert set(change.released) <= set(change.empty)
    for trial in change.moved:
        assert set(last.trials[trial]) != set(change.placement.trials[trial])
        assert last.gpus(trial) == trials[trial]


def test_trials_that_fit_on_a_node_are_not_split() -> None:
    """On two nodes of 4: 3 and 1 GPUs on one, 2 and 2 on the other."""
    trials = {"a": 3, "b": 2, "c": 2, "d": 1}
    change = place(trials, ["n1", "n2"], 4)
    check_rules(change, trials, ["n1", "n2"], 4, Placement())
    assert change.left == ()
    assert change.started == ("a", "b", "c", "d")
    assert change.placement.trials["a"].keys() == change.placement.trials["d"].keys()


def test_larger_trials_own_whole_nodes() -> None:
    """6 GPUs own two nodes of 4, and nobody else is put on the second."""
    trials = {"big": 6, "small": 2}
    change = place(trials, ["n1", "n2", "n3"], 4)
    check_rules(change, trials, ["n1", "n2", "n3"], 4, Placement())
    assert sorted(change.placement.trials["big"].values()) == [2, 4]
    assert not change.placement.trials["big"].keys() & change.placement.trials["small"].keys()


def test_smaller_trials_make_room() -> None:
    """A trial of 4 needs a whole node; one of 1 GPU has to leave one, and nobody else moves."""
    last = placed(a="n1:1", b="n2:3")
    trials = {"a": 1, "b": 3, "c": 4}
    change = place(trials, ["n1", "n2"], 4, last=last)
    check_rules(change, trials, ["n1", "n2"], 4, last)
    assert (change.moved, change.started, change.left) == (("a",), ("c",), ())
    assert change.placement.trials["a"] == {"n2": 1}


def test_nothing_moves_without_need() -> None:
    """The same allocations on the same nodes: the placement stays, even where it could be packed better."""
    last = placed(a="n1:1", b="n2:1", c="n3:2")
    change = place({"a": 1, "b": 1, "c": 2}, ["n1", "n2", "n3"], 4, last=last)
    assert change.placement == last
    assert (change.moved, change.resized, change.started) == ((), (), ())


def test_nodes_to_be_released_are_emptied() -> None:
    """Of three half empty nodes the one with the fewest trials goes, and its trial finds room."""
    last = placed(a="n1:1", b="n2:1", c="n2:1", d="n3:2", e="n3:1")
    trials = {"a": 1, "b": 1, "c": 1, "d": 2, "e": 1}
    change = place(trials, ["n1", "n2", "n3"], 4, last=last, release=1)
    check_rules(change, trials, ["n1", "n2", "n3"], 4, last)
    assert (change.released, change.moved) == (("n1",), ("a",))
    named = place(trials, ["n1", "n2", "n3"], 4, last=last, release={"n3"})
    check_rules(named, trials, ["n1", "n2", "n3"], 4, last)
    assert (named.released, named.moved, named.left) == (("n3",), ("d", "e"), ())


def test_reserved_placements_are_not_touched() -> None:
    """Not even by a larger trial that needs the node, nor by a new allocation of their own."""
    last = placed(a="n1:1")
    change = place({"a": 2, "b": 4}, ["n1", "n2"], 4, last=last, reserved={"a"})
    assert change.placement.trials["a"] == {"n1": 1}
    assert change.placement.trials["b"] == {"n2": 4}
    assert change.deferred == ("a",)


def test_larger_trials_go_first_where_there_is_no_room_for_all() -> None:
    """12 GPUs are three of four nodes: the trial of 8, on two of them, has to go, and is named."""
    last = placed(a="n1:4 n2:4")
    trials = {"a": 8, "b": 12}
    change = place(trials, ["n1", "n2", "n3", "n4"], 4, last=last)
    check_rules(change, trials, ["n1", "n2", "n3", "n4"], 4, last)
    assert (change.started, change.moved, change.left) == (("b",), (), ("a",))


def test_no_more_trials_are_displaced_than_are_in_the_way() -> None:
    """3 GPUs on n1 with one free: without the trial of 2 there is room, and that of 1 may stay. n3's is reserved."""
    last = placed(x="n1:2", y="n1:1", v="n2:3", q="n3:2")
    trials = {"x": 2, "y": 1, "v": 3, "q": 2, "w": 3}
    nodes = ["n1", "n2", "n3"]
    change = place(trials, nodes, 4, last=last, reserved={"q"})
    check_rules(change, trials, nodes, 4, last)
    assert change.placement == placed(x="n3:2", y="n1:1", v="n2:3", q="n3:2", w="n1:3")
    assert change.moved == ("x",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trials": {"a": 0}}, "trials.a: got 0 GPUs; give at least 1, or leave the trial out"),
        (
            {"trials": {"a": 9}},
            "trials.a: needs 9 GPUs; the 2 nodes of 4 that stay have 8; "
            "add nodes, release fewer, or give the trial fewer GPUs",
        ),
        ({"trials": {"a": 5}, "release": 1}, "trials.a: needs 5 GPUs; the 1 nodes of 4 that stay have 4; add nodes"),
        ({"nodes": ["n1", "n1"]}, "nodes: name 'n1' twice; give every node a name of its own"),
        ({"node_gpus": 0}, "node_gpus: got 0; give the GPUs of a node, at least 1"),
        ({"last": placed(a="n9:1")}, "last.a: is on the node 'n9', which is not in the cluster; add the node"),
        (
            {"last": placed(a="n1:3", b="n1:2")},
            "last.b: is on the node 'n1', which has more trials than its 4 GPUs hold",
        ),
        (
            {"last": placed(a="n1:7 n2:1")},
            "last.a: has 7 GPUs on the node 'n1' of 4; give the placement that is in force",
        ),
        (
            {"last": placed(a="n1:1 n2:1")},
            "last.a: is on 2 nodes; 2 GPUs belong on 1 of 4; give the placement that is in force",
        ),
        ({"reserved": {"a"}}, "reserved: name 'a', which has no placement; reserve trials that are placed"),
        ({"release": 3}, "release: got 3; of 2 nodes 2 can be released; ask for fewer, or name them"),
        ({"release": -1}, "release: got -1; of 2 nodes 2 can be released; ask for fewer, or name them"),
        ({"release": {"n7"}}, "release: got the node 'n7', which is not in the cluster; name other nodes"),
        (
            {"last": placed(a="n1:1"), "reserved": {"a"}, "release": {"n1"}},
            "release: got the node 'n1', which a reserved trial is on; wait for it",
        ),
    ],
)
def test_impossible_input_is_named(arguments: dict[str, Any], message: str) -> None:
    """With the field, what was given, and what to do."""
    asked: dict[str, Any] = {"trials": {"a": 1}, "nodes": ["n1", "n2"], "node_gpus": 4} | arguments
    with pytest.raises(DataError, match=re.escape(message)):
        place(asked.pop("trials"), asked.pop("nodes"), asked.pop("node_gpus"), **asked)


def test_a_placed_trial_is_somewhere() -> None:
    """A trial on no node has no place, and is not listed."""
    with pytest.raises(DataError, match=r"trials\.a"):
        Placement(trials={"a": {}})


def draw_task(data: st.DataObject, most_trials: int, most_nodes: int) -> dict[str, Any]:
    """Draw a placement that is possible, and what it has to become: the arguments of ``place`` and what was asked."""
    node_gpus = data.draw(st.integers(1, 6))
    nodes = [f"n{number}" for number in range(data.draw(st.integers(1, most_nodes)))]
    release = data.draw(st.integers(0, min(1, len(nodes) - 1)))
    sizes = st.one_of(st.integers(1, node_gpus), st.integers(1, node_gpus * (len(nodes) - release)))
    before = {f"t{number}": data.draw(sizes) for number in range(data.draw(st.integers(0, most_trials - 1)))}
    last = place(before, nodes, node_gpus).placement
    trials = {trial: data.draw(st.one_of(st.just(gpus), sizes)) for trial, gpus in before.items()}
    trials = {trial: gpus for trial, gpus in trials.items() if data.draw(st.integers(0, 4))}
    trials |= {f"u{number}": data.draw(sizes) for number in range(data.draw(st.integers(0, most_trials - len(trials))))}
    reserved = {trial for trial in trials if trial in last.trials and data.draw(st.integers(0, 7)) == 0}
    locked = {node for trial in reserved for node in last.trials[trial]}
    named = {node for node in nodes[:release] if node not in locked}
    return {
        "trials": trials,
        "nodes": nodes,
        "node_gpus": node_gpus,
        "last": last,
        "reserved": reserved,
        "release": named if data.draw(st.booleans()) else len(named),
    }


def asked_of(task: Mapping[str, Any]) -> dict[str, int]:
    """Return GPUs by trial, with those of reserved trials as they are."""
    return {t: task["last"].gpus(t) if t in task["reserved"] else gpus for t, gpus in task["trials"].items()}


@settings(max_examples=80)
@given(data=st.data())
def test_every_placement_keeps_the_rules(data: st.DataObject) -> None:
    """In whatever order names are given."""
    task = draw_task(data, 12, 5)
    trials, last = asked_of(task), task["last"]
    turned = task | {"trials": dict(reversed(task["trials"].items())), "nodes": task["nodes"][::-1]}
    change = place(**task)
    check_rules(change, trials, task["nodes"], task["node_gpus"], last)
    assert all(change.placement.trials[trial] == last.trials[trial] for trial in task["reserved"])
    release = task["release"]
    assert set(change.released) == release if isinstance(release, set) else len(change.released) == release
    assert place(**turned) == change


@settings(max_examples=40)
@given(data=st.data())
def test_what_does_not_change_does_not_move(data: st.DataObject) -> None:
    """The same trials on the same nodes, and more nodes, or fewer trials: the others stay."""
    task = draw_task(data, 12, 5)
    last = task["last"]
    staying = {trial: last.gpus(trial) for trial in last.trials if data.draw(st.booleans())}
    change = place(staying, [*task["nodes"], "new"], task["node_gpus"], last=last)
    assert change.placement.trials == {trial: last.trials[trial] for trial in staying}
