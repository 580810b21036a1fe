"""The scheduler's decision: the paper's words case by case, and what has to hold for every cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from optplan.errors import DataError
from optplan.execution.online.decisions import Decision, decide
from optplan.execution.online.jobs import ActiveJob, Order, Rules

MakeTable = Callable[..., Any]

FOURS = Rules({"a100": 4})


def make_nodes(*names: str, gpu_type: str = "a100") -> dict[str, str]:
    """Make nodes of one kind."""
    return dict.fromkeys(names, gpu_type)


def test_whoever_has_the_right_width_keeps_its_place_and_the_others_are_placed_around_it(
    make_table: MakeTable,
) -> None:
    """Two jobs of 2 lie on two nodes; one of 4 finds no whole node, takes 2 and 2, and nobody moves."""
    jobs = [
        ActiveJob("left", "two", place={"n1": 2}),
        ActiveJob("right", "two", place={"n2": 2}),
        ActiveJob("wide", "four", submitted_s=1.0),
    ]
    decision = decide(make_table(two=[2], four=[4]), jobs, make_nodes("n1", "n2"), FOURS)
    assert decision.places == {"left": {"n1": 2}, "right": {"n2": 2}, "wide": {"n1": 2, "n2": 2}}
    assert decision.nodes == {"a100": 2}
    assert not decision.short
    assert not decision.waiting


def test_where_nodes_are_there_at_once_another_is_rented_rather_than_several_used_in_part(
    make_table: MakeTable,
) -> None:
    """The same with nodes at once: a third node is rented for it."""
    table = make_table(two=[2], four=[4])
    jobs = [
        ActiveJob("left", "two", place={"n1": 2}),
        ActiveJob("right", "two", place={"n2": 2}),
        ActiveJob("wide", "four", submitted_s=1.0),
    ]
    decision = decide(table, jobs, make_nodes("n1", "n2"), FOURS, at_once=True)
    assert decision.places == {"left": {"n1": 2}, "right": {"n2": 2}, "wide": {"+0": 4}}
    assert (decision.coming, decision.nodes, decision.idle) == (("+0",), {"a100": 3}, ())
    decision = decide(table, jobs, make_nodes("n1", "n2", "n3"), FOURS, at_once=True)
    assert decision.places == {"left": {"n1": 2}, "right": {"n2": 2}, "wide": {"n3": 4}}
    assert decision.coming == ()
    # Of 8 GPUs at most, no third node can be had: it uses what is left.
    for rules in (Rules({"a100": 4}, most_gpus=8), Rules({"a100": 4}, quotas={"a100": 11})):
        decision = decide(table, jobs, make_nodes("n1", "n2"), rules, at_once=True)
        assert (decision.places["wide"], decision.nodes) == ({"n1": 2, "n2": 2}, {"a100": 2})


def test_where_nodes_are_there_at_once_nobody_runs_on_what_is_left(make_table: MakeTable) -> None:
    """Beside 3 GPUs in use one wants four and one two: two more nodes are rented."""
    table = make_table(three=[3], four=[4], two=[2])
    jobs = [
        ActiveJob("holder", "three", place={"n1": 3}),
        ActiveJob("second", "two", submitted_s=2.0),
        ActiveJob("first", "four", submitted_s=1.0),
    ]
    decision = decide(table, jobs, make_nodes("n1"), FOURS, at_once=True)
    assert decision.places == {"holder": {"n1": 3}, "second": {"+1": 2}, "first": {"+0": 4}}
    assert (decision.waiting, decision.short, decision.nodes) == ((), (), {"a100": 3})


def test_one_runs_on_what_is_left_and_the_others_wait_for_the_cluster_to_grow(make_table: MakeTable) -> None:
    """Of 4 GPUs one job holds 3; the first who waits runs on 1, the second waits; 3 + 4 + 2 GPUs are three nodes."""
    jobs = [
        ActiveJob("holder", "three", place={"n1": 3}),
        ActiveJob("second", "two", submitted_s=2.0),
        ActiveJob("first", "four", submitted_s=1.0),
    ]
    decision = decide(make_table(three=[3], four=[4], two=[2]), jobs, make_nodes("n1"), FOURS)
    assert decision.places == {"holder": {"n1": 3}, "second": {}, "first": {"n1": 1}}
    assert (decision.short, decision.waiting) == (("first",), ("second",))
    assert decision.nodes == {"a100": 3}


def test_what_is_left_is_used_only_where_the_job_can_run_on_it(make_table: MakeTable) -> None:
    """A job that runs on 2 or 4 GPUs takes 2 of 3."""
    rules = Rules({"a100": 4}, runnable={"four": (2, 4)})
    jobs = [ActiveJob("holder", "one", place={"n1": 1}), ActiveJob("wide", "four")]
    decision = decide(make_table(one=[1], four=[4]), jobs, make_nodes("n1"), rules)
    assert decision.places["wide"] == {"n1": 2}


def test_a_running_job_keeps_what_it_holds_until_its_new_width_is_there(make_table: MakeTable) -> None:
    """In its second epoch a job wants 4, 3 are free to it; it keeps 2, and holds 4 once there is a second node."""
    table = make_table(grows=[2, 4], one=[1])
    jobs = [ActiveJob("grower", "grows", 1, {"n1": 2}), ActiveJob("other", "one", place={"n1": 1})]
    decision = decide(table, jobs, make_nodes("n1"), FOURS)
    assert decision.places["grower"] == {"n1": 2}
    assert (decision.short, decision.nodes) == (("grower",), {"a100": 2})
    decision = decide(table, jobs, make_nodes("n1", "n2"), FOURS)
    assert decision.places == {"grower": {"n2": 4}, "other": {"n1": 1}}


def test_a_job_that_shrinks_makes_room_at_once(make_table: MakeTable) -> None:
    """A job goes from 4 GPUs to 1, and one that waits for 3 starts on the same node."""
    jobs = [ActiveJob("shrinks", "shrinks", 1, {"n1": 4}), ActiveJob("waits", "three")]
    decision = decide(make_table(shrinks=[4, 1], three=[3]), jobs, make_nodes("n1"), FOURS)
    assert decision.places == {"shrinks": {"n1": 1}, "waits": {"n1": 3}}


def test_a_place_on_a_node_that_has_gone_counts_as_none(make_table: MakeTable) -> None:
    """A job on a node that is there and one that is not is placed anew."""
    jobs = [ActiveJob("half", "four", place={"n1": 2, "gone": 2})]
    assert decide(make_table(four=[4]), jobs, make_nodes("n1"), FOURS).places == {"half": {"n1": 4}}


def test_a_gpu_that_two_jobs_hold_belongs_to_the_first(make_table: MakeTable) -> None:
    """Two places of 3 on a node of 4 cannot both be: the second is placed anew, on what is left."""
    jobs = [ActiveJob("one", "three", place={"n1": 3}), ActiveJob("two", "three", place={"n1": 3})]
    assert decide(make_table(three=[3]), jobs, make_nodes("n1"), FOURS).places == {"one": {"n1": 3}, "two": {"n1": 1}}


def test_a_class_that_the_table_does_not_have_holds_one_gpu(make_table: MakeTable) -> None:
    """As plans of streams say; of the first type, where it holds none yet."""
    rules = Rules({"a100": 4, "t4": 8})
    nodes = {**make_nodes("n1"), **make_nodes("m1", gpu_type="t4")}
    jobs = [ActiveJob("new", "unknown"), ActiveJob("old", "unknown", place={"m1": 1})]
    decision = decide(make_table(), jobs, nodes, rules)
    assert decision.places == {"new": {"n1": 1}, "old": {"m1": 1}}
    assert decision.nodes == {"a100": 1, "t4": 1}


def test_types_are_served_apart_and_a_job_that_changes_its_type_waits_for_the_new_one(
    make_typed_table: MakeTable,
) -> None:
    """A job goes on on its T4s until there is an A100; nodes are wanted of both types."""
    table = make_typed_table({"moves": [(2, "t4"), (1, "a100")], "small": [(1, "t4")]})
    rules = Rules({"a100": 4, "t4": 2})
    jobs = [ActiveJob("moves", "moves", 1, {"m1": 2}), ActiveJob("small", "small")]
    decision = decide(table, jobs, make_nodes("m1", gpu_type="t4"), rules)
    assert decision.places == {"moves": {"m1": 2}, "small": {}}
    assert decision.nodes == {"a100": 1, "t4": 1}
    nodes = {**make_nodes("m1", gpu_type="t4"), **make_nodes("n1")}
    assert decide(table, jobs, nodes, rules).places == {"moves": {"n1": 1}, "small": {"m1": 1}}


def test_nodes_above_those_wanted_are_given_back_once_nobody_holds_them(make_table: MakeTable) -> None:
    """One GPU is wanted and three nodes are there: the empty ones go, the last first; the used one stays."""
    jobs = [ActiveJob("job", "one", place={"n2": 1})]
    decision = decide(make_table(one=[1]), jobs, make_nodes("n1", "n2", "n3"), FOURS)
    assert decision.idle == ("n3", "n1")


def test_quotas_count_used_gpus_and_whole_nodes(make_table: MakeTable) -> None:
    """With a quota of 6, one of two jobs of 4 runs on the 8 GPUs that are there, and one node of 4 is wanted."""
    rules = Rules({"a100": 4}, quotas={"a100": 6})
    jobs = [ActiveJob("one", "four"), ActiveJob("two", "four", submitted_s=1.0)]
    decision = decide(make_table(four=[4]), jobs, make_nodes("n1", "n2"), rules)
    assert [sum(place.values()) for place in decision.places.values()] == [4, 0]
    assert decision.nodes == {"a100": 1}


def test_when_a_cap_is_lowered_the_last_ones_stop(make_table: MakeTable) -> None:
    """Three jobs of 2 hold 6 GPUs, 4 are allowed now: the one that came last stops."""
    jobs = [ActiveJob(f"job{k}", "two", place={f"n{k}": 2}, submitted_s=k) for k in (1, 2, 3)]
    decision = decide(make_table(two=[2]), jobs, make_nodes("n1", "n2", "n3"), Rules({"a100": 4}, most_gpus=4))
    assert decision.waiting == ("job3",)
    assert decision.nodes == {"a100": 1}


@pytest.mark.parametrize(
    ("order", "served"),
    [
        (Order.FIRST_COME, {"old": 4, "rich": 0, "quick": 0}),
        # `rich` has had its 16 GPU-hours, `old` has not: they come in the order of arrival in their queues.
        (Order.LEAST_ATTAINED, {"old": 4, "rich": 0, "quick": 0}),
        # 100 s / 1 before 400 s / 2 before 900 s / 1.
        (Order.WEIGHTED_SHORTEST, {"old": 0, "rich": 0, "quick": 4}),
    ],
)
def test_on_a_fixed_cluster_the_order_says_who_is_served(
    make_table: MakeTable, order: Order, served: Mapping[str, int]
) -> None:
    """Three jobs want the only node."""
    jobs = [
        ActiveJob("rich", "four", submitted_s=0.0, attained_gpu_s=60_000.0, expected_left_s=900.0),
        ActiveJob("old", "four", submitted_s=1.0, place={"n1": 4}, expected_left_s=400.0, weight=2.0),
        ActiveJob("quick", "four", submitted_s=2.0, expected_left_s=100.0),
    ]
    decision = decide(make_table(four=[4]), jobs, make_nodes("n1"), Rules({"a100": 4}, most_gpus=4, order=order))
    assert {name: sum(place.values()) for name, place in decision.places.items()} == served


def test_nobody_is_stopped_for_others_while_nodes_are_still_to_come(make_table: MakeTable) -> None:
    """Eight GPUs may be rented, so that a shorter job waits for the second node."""
    jobs = [
        ActiveJob("long", "four", place={"n1": 4}, expected_left_s=900.0),
        ActiveJob("quick", "four", expected_left_s=1.0),
    ]
    rules = Rules({"a100": 4}, most_gpus=8, order=Order.WEIGHTED_SHORTEST)
    decision = decide(make_table(four=[4]), jobs, make_nodes("n1"), rules)
    assert decision.places == {"long": {"n1": 4}, "quick": {}}
    assert decision.nodes == {"a100": 2}


@pytest.mark.parametrize(("order", "small"), [(Order.FIRST_COME, 0), (Order.WEIGHTED_SHORTEST, 1)])
def test_on_a_scarce_type_nobody_runs_on_what_is_left(make_table: MakeTable, order: Order, small: int) -> None:
    """No more nodes will come: who wants 4 waits beside a free GPU; first come lets nobody overtake him."""
    jobs = [
        ActiveJob("holder", "three", place={"n1": 3}, expected_left_s=1.0),
        ActiveJob("wide", "four", submitted_s=1.0, expected_left_s=2.0),
        ActiveJob("small", "one", submitted_s=2.0, expected_left_s=3.0),
    ]
    rules = Rules({"a100": 4}, most_gpus=4, order=order)
    decision = decide(make_table(one=[1], three=[3], four=[4]), jobs, make_nodes("n1"), rules)
    assert [total(place) for place in decision.places.values()] == [3, 0, small]


def test_a_width_above_all_that_can_be_is_cut(make_table: MakeTable) -> None:
    """A job wants 9 GPUs where 8 are allowed, and runs on 2, 4 or 9: it holds 4."""
    rules = Rules({"a100": 4}, most_gpus=8, runnable={"wide": (2, 4, 9)})
    decision = decide(make_table(wide=[9]), [ActiveJob("job", "wide")], make_nodes("n1", "n2"), rules)
    assert decision.places == {"job": {"n1": 4}}
    assert decision.nodes == {"a100": 1}
    assert not decision.short


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"gpus_per_node": {}}, "gpus_per_node: is empty"),
        ({"gpus_per_node": {"a100": 0}}, "gpus_per_node.a100: got 0"),
        ({"gpus_per_node": {"a100": 4}, "quotas": {"h100": 4}}, "quotas.h100: no node has GPUs of this type"),
        ({"gpus_per_node": {"a100": 4}, "quotas": {"a100": 3}}, "quotas.a100: got 3"),
        ({"gpus_per_node": {"a100": 4}, "most_gpus": 3}, "most_gpus: got 3"),
    ],
)
def test_rules_that_cannot_be_are_refused(rules: dict[str, Any], message: str) -> None:
    """The message names the field and the value."""
    with pytest.raises(DataError, match=message):
        Rules(**rules)


@pytest.mark.parametrize(
    ("jobs", "nodes", "message"),
    [
        ([ActiveJob("one", "four"), ActiveJob("one", "four")], {}, "jobs: two have the same name"),
        ([ActiveJob("one", "foreign")], {}, "table.classes.foreign: wants GPUs of type 'h100'"),
        ([], {"n1": "h100"}, "nodes.n1.gpu_type: got 'h100'"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    make_typed_table: MakeTable, jobs: Sequence[ActiveJob], nodes: Mapping[str, str], message: str
) -> None:
    """The message names the field and the value."""
    table = make_typed_table({"four": [(4, "a100")], "foreign": [(1, "h100")]})
    with pytest.raises(DataError, match=message):
        decide(table, jobs, nodes, FOURS)


# ------------------------------------------------------------------------------------------------- for every cluster

KINDS = ("a100", "t4")
CLASSES = ("c1", "c2", "c3")


@st.composite
def draw_cases(draw: st.DrawFn) -> tuple[dict[str, list[tuple[int, str]]], list[ActiveJob], dict[str, str], Rules]:
    """Draw a table, jobs with places of all sorts, nodes, and rules."""
    kinds = KINDS[: draw(st.integers(1, 2))]
    sizes = {kind: draw(st.integers(1, 4)) for kind in kinds}
    cells = st.tuples(st.integers(1, 7), st.sampled_from(kinds))
    table = {name: draw(st.lists(cells, min_size=1, max_size=2)) for name in CLASSES[:2]}
    owners = draw(st.lists(st.sampled_from(kinds), max_size=5))
    nodes = {f"n{k}": kind for k, kind in enumerate(owners)}
    places = st.dictionaries(st.sampled_from([*nodes, "gone"]), st.integers(1, 3), max_size=2)
    jobs = [
        ActiveJob(
            f"j{k}",
            draw(st.sampled_from(CLASSES)),
            draw(st.integers(0, 2)),
            draw(places),
            submitted_s=float(draw(st.integers(0, 3))),
            attained_gpu_s=draw(st.sampled_from([0.0, 1e6])),
            expected_left_s=float(draw(st.integers(0, 5))),
        )
        for k in range(draw(st.integers(0, 7)))
    ]
    rules = Rules(
        sizes,
        most_gpus=draw(st.none() | st.integers(max(sizes.values()), 16)),
        quotas={kind: draw(st.integers(sizes[kind], 10)) for kind in kinds if draw(st.booleans())},
        order=draw(st.sampled_from(Order)),
        runnable=draw(st.sampled_from([{}, {"c1": (1, 2, 4), "c2": (2, 3, 5)}])),
    )
    return table, jobs, nodes, rules


def total(place: Mapping[str, int]) -> int:
    """Add up a place."""
    return sum(place.values())


def kind_of(place: Mapping[str, int], nodes: Mapping[str, str]) -> str:
    """Return the one type of a place."""
    (kind,) = {nodes[name] for name in place}
    return kind


def again(jobs: Sequence[ActiveJob], decision: Decision) -> list[ActiveJob]:
    """Return the jobs as they are once a decision is carried out."""
    names = ActiveJob.__slots__
    return [ActiveJob(**{**{n: getattr(job, n) for n in names}, "place": decision.places[job.name]}) for job in jobs]


@given(draw_cases())
def test_no_gpu_is_given_twice_and_every_job_has_one_width_on_one_type(
    make_typed_table: MakeTable, case: tuple[Any, list[ActiveJob], dict[str, str], Rules]
) -> None:
    """Nodes are not overfull, quotas and the most of all are kept, and a job is at most as wide as before or wanted."""
    widths, jobs, nodes, rules = case
    table = make_typed_table(widths)
    decision = decide(table, jobs, nodes, rules)
    assert list(decision.places) == [job.name for job in jobs]
    used = dict.fromkeys(rules.gpus_per_node, 0)
    on_node = dict.fromkeys(nodes, 0)
    for job in jobs:
        place = decision.places[job.name]
        assert all(gpus > 0 for gpus in place.values())
        for name, gpus in place.items():
            on_node[name] += gpus
            used[nodes[name]] += gpus
        if place:
            wanted, kind = table.held_at(job.job_class, job.epochs_done, job.row)
            found = kind_of(place, nodes)
            assert total(place) <= wanted or place == job.place
            assert kind in (None, found) or place == job.place
    assert all(gpus <= rules.gpus_per_node[nodes[name]] for name, gpus in on_node.items())
    assert all(gpus <= rules.cap(kind) for kind, gpus in used.items())
    assert sum(used.values()) <= (math.inf if rules.most_gpus is None else rules.most_gpus)
    wanted_gpus = {kind: number * rules.gpus_per_node[kind] for kind, number in decision.nodes.items()}
    assert all(gpus <= rules.cap(kind) for kind, gpus in wanted_gpus.items())
    assert sum(wanted_gpus.values()) <= (math.inf if rules.most_gpus is None else rules.most_gpus)
    assert set(decision.waiting) == {name for name, place in decision.places.items() if not place}


@pytest.mark.slow
@given(draw_cases())
def test_deciding_again_changes_nothing(
    make_typed_table: MakeTable, case: tuple[Any, list[ActiveJob], dict[str, str], Rules]
) -> None:
    """What a decision says is where the next one stays."""
    widths, jobs, nodes, rules = case
    table = make_typed_table(widths)
    first = decide(table, jobs, nodes, rules)
    second = decide(table, again(jobs, first), nodes, rules)
    assert {**second.places} == {**first.places}
    assert second.nodes == first.nodes
    assert (set(second.short), set(second.waiting)) == (set(first.short), set(first.waiting))


@pytest.mark.slow
@given(draw_cases())
def test_where_nothing_is_scarce_everybody_with_the_right_width_stays_and_nobody_is_stopped(
    make_typed_table: MakeTable, case: tuple[Any, list[ActiveJob], dict[str, str], Rules]
) -> None:
    """From a state that a decision made, whatever epochs end: no running job is stopped, few run on what is left."""
    widths, jobs, nodes, rules = case
    table, rules = make_typed_table(widths), Rules(rules.gpus_per_node, order=rules.order)
    held = again(jobs, decide(table, jobs, nodes, rules))
    later = [ActiveJob(job.name, job.job_class, job.epochs_done + 1, job.place) for job in held]
    decision = decide(table, later, nodes, rules)
    for job in later:
        wanted, kind = table.held_at(job.job_class, job.epochs_done, job.row)
        place = decision.places[job.name]
        if job.place:
            assert place
            if total(job.place) == wanted and kind in (None, kind_of(job.place, nodes)):
                assert place == job.place
    begun = [kind_of(decision.places[job.name], nodes) for job in later if not job.place and job.name in decision.short]
    assert len(begun) == len(set(begun))


@pytest.mark.slow
@given(draw_cases())
def test_wanted_nodes_are_those_of_all_widths_and_then_everybody_is_served(
    make_typed_table: MakeTable, case: tuple[Any, list[ActiveJob], dict[str, str], Rules]
) -> None:
    """Without limits: the sum of the widths by type, in whole nodes; once these are there, nobody waits or is short."""
    widths, jobs, nodes, rules = case
    table, rules = make_typed_table(widths), Rules(rules.gpus_per_node)
    decision = decide(table, jobs, nodes, rules)
    demand = dict.fromkeys(rules.gpus_per_node, 0)
    for job in jobs:
        wanted, kind = table.held_at(job.job_class, job.epochs_done, job.row)
        held = {nodes[name] for name in decision.places[job.name]}
        demand[kind or next(iter(held), next(iter(demand)))] += wanted
    assert decision.nodes == {kind: -(-gpus // rules.gpus_per_node[kind]) for kind, gpus in demand.items()}
    missing = {kind: n - sum(node == kind for node in nodes.values()) for kind, n in decision.nodes.items()}
    come = {f"{kind}-{k}": kind for kind, n in missing.items() for k in range(n)}
    served = decide(table, again(jobs, decision), {**nodes, **come}, rules)
    assert not served.short
    assert not served.waiting


@pytest.mark.slow
@given(draw_cases())
def test_where_nodes_are_there_at_once_they_are_asked_for_once(
    make_typed_table: MakeTable, case: tuple[Any, list[ActiveJob], dict[str, str], Rules]
) -> None:
    """Those are wanted on which somebody is, and once they are there all is as was said; of one type.

    Without limits everybody is served, and who moves is on no more nodes than it has to be.
    """
    widths, jobs, nodes, rules = case
    assume(len(rules.gpus_per_node) == 1)
    (size,) = rules.gpus_per_node.values()
    table = make_typed_table(widths)
    first = decide(table, jobs, nodes, rules, at_once=True)
    assert first.nodes == {"a100": len({name for place in first.places.values() for name in place})}
    there = {**nodes, **dict.fromkeys(first.coming, "a100")}
    second = decide(table, again(jobs, first), there, rules, at_once=True)
    assert (dict(second.places), second.nodes, second.coming) == (dict(first.places), first.nodes, ())
    if rules.most_gpus is None and not rules.quotas:
        assert not first.short
        assert not first.waiting
        for job in jobs:
            place = first.places[job.name]
            assert place == job.place or len(place) == -(-total(place) // size)


@pytest.mark.slow
@given(draw_cases(), st.randoms(use_true_random=False))
def test_the_order_in_which_jobs_are_listed_changes_no_width(
    make_typed_table: MakeTable,
    case: tuple[Any, list[ActiveJob], dict[str, str], Rules],
    random: Any,  # noqa: ANN401
) -> None:
    """Where no GPU is claimed twice, lists in another order give the same widths and nodes."""
    widths, jobs, nodes, rules = case
    table = make_typed_table(widths)
    jobs = again(jobs, decide(table, jobs, nodes, Rules(rules.gpus_per_node)))
    shuffled = random.sample(jobs, len(jobs))
    one, other = decide(table, jobs, nodes, rules), decide(table, shuffled, nodes, rules)
    assert {name: total(place) for name, place in one.places.items()} == {
        name: total(other.places[name]) for name in one.places
    }
    assert one.nodes == other.nodes
