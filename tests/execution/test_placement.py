"""The placement controller: trials that fit on a node stay whole, nobody is lost, as few as possible move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Plan
from optplan.execution.placement import Places, choose_releases, place
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.planning import RubberBandPlan


def placed(**trials: str) -> Places:
    """Write a placement as ``a="n1:2"``."""
    return {
        trial: {node: int(gpus) for node, gpus in (part.split(":") for part in where.split())}
        for trial, where in trials.items()
    }


def check_rules(places: Places, trials: Mapping[str, int], nodes: Sequence[str], node_gpus: int) -> None:
    """No oversubscription, locality; whoever is placed has its GPUs."""
    load = dict.fromkeys(nodes, 0)
    for trial, own in places.items():
        assert sum(own.values()) == trials[trial]
        assert len(own) == -(-trials[trial] // node_gpus)
        for node, gpus in own.items():
            load[node] += gpus if len(own) == 1 else node_gpus
    assert all(gpus <= node_gpus for gpus in load.values())


def test_trials_that_fit_on_a_node_are_not_split() -> None:
    """On two nodes of 4: 3 and 1 GPUs on one, 2 and 2 on the other."""
    trials = {"a": 3, "b": 2, "c": 2, "d": 1}
    places = place(trials, ["n1", "n2"], 4, last={})
    check_rules(places, trials, ["n1", "n2"], 4)
    assert places.keys() == trials.keys()
    assert places["a"].keys() == places["d"].keys()


def test_larger_trials_own_whole_nodes() -> None:
    """6 GPUs own two nodes of 4, and nobody else is put on the second."""
    trials = {"big": 6, "small": 2}
    places = place(trials, ["n1", "n2", "n3"], 4, last={})
    assert places == placed(big="n1:4 n2:2", small="n3:2")


def test_smaller_trials_make_room() -> None:
    """A trial of 4 needs a whole node; one of 1 GPU has to leave one, and nobody else moves."""
    last = placed(a="n1:1", b="n2:3")
    places = place({"a": 1, "b": 3, "c": 4}, ["n1", "n2"], 4, last=last)
    assert places == placed(a="n2:1", b="n2:3", c="n1:4")


def test_nothing_moves_without_need() -> None:
    """The same allocations on the same nodes: the placement stays, even where it could be packed better."""
    last = placed(a="n1:1", b="n2:1", c="n3:2")
    assert place({"a": 1, "b": 1, "c": 2}, ["n1", "n2", "n3"], 4, last=last) == last


def test_nodes_with_the_fewest_trials_are_released() -> None:
    """Of three half empty nodes the one with one trial goes, then the one with two of 1 GPU; who is resized is none."""
    last = placed(a="n1:1", b="n2:1", c="n2:1", d="n3:2", e="n3:1")
    trials = {"a": 1, "b": 1, "c": 1, "d": 2, "e": 1}
    assert choose_releases(trials, ["n3", "n2", "n1"], last, 1) == ["n1"]
    assert choose_releases(trials, ["n3", "n2", "n1"], last, 2) == ["n1", "n2"]
    assert choose_releases({**trials, "d": 4, "e": 3}, ["n3", "n2", "n1"], last, 1) == ["n3"]


def test_reserved_placements_are_not_touched() -> None:
    """Not even by a larger trial that needs the node, nor by a new allocation of their own."""
    places = place({"a": 2, "b": 4}, ["n1", "n2"], 4, last=placed(a="n1:1"), reserved={"a"})
    assert places == placed(a="n1:1", b="n2:4")


def test_larger_trials_go_first_where_there_is_no_room_for_all() -> None:
    """12 GPUs are three of four nodes: the trial of 8, on two of them, has to go."""
    places = place({"a": 8, "b": 12}, ["n1", "n2", "n3", "n4"], 4, last=placed(a="n1:4 n2:4"))
    assert list(places) == ["b"]


def test_no_more_trials_are_displaced_than_are_in_the_way() -> None:
    """3 GPUs on n1 with one free: without the trial of 2 there is room, and that of 1 may stay. n3's is reserved."""
    last = placed(x="n1:2", y="n1:1", v="n2:3", q="n3:2")
    trials = {"x": 2, "y": 1, "v": 3, "q": 2, "w": 3}
    places = place(trials, ["n1", "n2", "n3"], 4, last=last, reserved={"q"})
    assert places == placed(x="n3:2", y="n1:1", v="n2:3", q="n3:2", w="n1:3")


@settings(max_examples=80)
@given(data=st.data())
def test_every_placement_keeps_the_rules(data: st.DataObject) -> None:
    """In whatever order names are given; who keeps its GPUs where nothing else changes stays."""
    node_gpus = data.draw(st.integers(1, 6))
    nodes = [f"n{number}" for number in range(data.draw(st.integers(1, 5)))]
    sizes = st.one_of(st.integers(1, node_gpus), st.integers(1, node_gpus * len(nodes)))
    before = {f"t{number}": data.draw(sizes) for number in range(data.draw(st.integers(0, 8)))}
    first = place(before, nodes, node_gpus, last={})
    check_rules(first, before, nodes, node_gpus)
    kept = {trial: own for trial, own in first.items() if data.draw(st.integers(0, 4))}
    assert place({trial: before[trial] for trial in kept}, [*nodes, "new"], node_gpus, last=kept) == kept
    trials = {trial: data.draw(st.one_of(st.just(gpus), sizes)) for trial, gpus in before.items()}
    trials |= {f"u{number}": data.draw(sizes) for number in range(data.draw(st.integers(0, 4)))}
    reserved = {trial for trial in kept if data.draw(st.integers(0, 7)) == 0}
    places = place(trials, nodes, node_gpus, last=kept, reserved=reserved)
    check_rules(places, trials | {trial: before[trial] for trial in reserved}, nodes, node_gpus)
    assert all(places[trial] == kept[trial] for trial in reserved)
    turned = dict(reversed(trials.items()))
    assert place(turned, nodes[::-1], node_gpus, last=dict(reversed(kept.items())), reserved=reserved) == places


@settings(max_examples=60, deadline=None)
@given(data=st.data(), gpus=st.sampled_from([1, 2]), per_instance=st.sampled_from([2, 4]))
def test_a_plan_bounds_the_moves(
    plan_chain: Callable[..., Plan], data: st.DataObject, gpus: int, per_instance: int
) -> None:
    """Whichever trials go on, the controller moves no more of them than the plan says."""
    trials = data.draw(st.integers(2, 8))
    going = data.draw(st.integers(1, trials))
    survivors = data.draw(st.permutations(range(trials)))[:going]
    fitting = per_instance // gpus
    held, needed = -(-trials // fitting), -(-going // fitting)
    stays = data.draw(st.integers(needed, held))
    stages = [{"trials": trials, "iterations": 1}, {"trials": going, "iterations": 1}]
    instance = {
        "formulation": "rubberband",
        "experiment": {"form": "stages", "stages": stages},
        "training": {"seconds_per_iteration": {"1": 10.0, "2": 6.0, "4": 4.0}},
        "cloud": {"gpus_per_instance": per_instance, "price_usd_per_hour": 3.6},
        "deadline_s": 1000.0,
    }
    chain = [{"instances": held, "gpus": trials * gpus}, {"instances": stays, "gpus": going * gpus}]
    plan = plan_chain(RubberBandInstance.parse(instance), chain)
    assert isinstance(plan, RubberBandPlan)
    nodes = [f"node-{number}" for number in range(held)]
    first = place({str(trial): gpus for trial in range(trials)}, nodes, per_instance, last={})
    going_on = {str(trial): gpus for trial in survivors}
    last = {trial: first[trial] for trial in going_on}
    released = choose_releases(going_on, nodes, last, held - stays)
    staying = [node for node in nodes if node not in released]
    there = {trial: own for trial, own in last.items() if own.keys() <= set(staying)}
    second = place(going_on, staying, per_instance, last=there)
    assert second.keys() == going_on.keys()
    assert sum(second[trial] != last[trial] for trial in going_on) <= plan.segments[1].moves
