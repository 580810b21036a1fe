"""The watch over a budget: it says the same as adding everything up, and adds up seldom."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from suites.runtime import plan_search

import optplan
from optplan.contracts import Plan
from optplan.execution.driver import BudgetWatch
from optplan.execution.records import NodeChanged, NodeWanted
from optplan.execution.running import run
from optplan.execution.standing import committed_usd, spent_usd
from optplan.execution.state import State

PlanOf = Callable[..., Plan]


def make_state(plan: Plan, nodes: int) -> State:
    """Return a run whose nodes ($3.60 an hour, a tenth of a cent a second) are ready at once."""
    state = State(plan)
    segment = plan.segments[0]
    for number in range(nodes):
        state.apply(NodeWanted(0.0, f"node-{number}", segment.pool, segment.resource, segment.id))
        state.apply(NodeChanged(0.0, f"node-{number}", "ready"))
    return state


def test_it_lasts_as_long_as_the_rate_says(plan_of: PlanOf) -> None:
    """Two nodes at 0.1 cents a second: 20 cents are spent after 100 s, whatever of them is the minimum charge."""
    plan = plan_of("rubberband-two-stages")
    (resource,) = plan.resources.values()
    assert resource.price_usd_per_hour == 3.6
    watch = BudgetWatch(make_state(plan, 2), 0.2, 1e-9)
    now_s, looks = 0.0, 0
    while watch.lasts_until_s(now_s) > now_s:
        now_s, looks = watch.lasts_until_s(now_s), looks + 1
    assert now_s == pytest.approx(100.0)
    assert looks <= 3
    assert watch.lasts_until_s(99.999) > 99.999


def test_a_node_that_begins_to_be_paid_is_noticed(plan_of: PlanOf) -> None:
    """60 s of minimum charge count at once: of 40 cents 28 are left for 140 s, with two nodes more 16 after these."""
    plan = plan_of("rubberband-two-stages")
    state = make_state(plan, 2)
    watch = BudgetWatch(state, 0.4, 1e-9)
    assert watch.lasts_until_s(0.0) == pytest.approx(140.0)
    for number in (2, 3):
        state.apply(NodeWanted(0.0, f"node-{number}", plan.segments[0].pool, plan.segments[0].resource, "b1-s1"))
        state.apply(NodeChanged(0.0, f"node-{number}", "ready"))
    assert watch.lasts_until_s(0.0) == pytest.approx(60.0)
    assert watch.lasts_until_s(60.0) == pytest.approx(100.0)


def test_a_budget_of_just_what_minimum_charges_take_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes of a minimum of 600 s cost $1.20 at once, and no more while the search takes 220 s."""
    calls: list[float] = []

    def count(state: State, now_s: float) -> float | None:
        calls.append(now_s)
        return spent_usd(state, now_s)

    monkeypatch.setattr("optplan.execution.driver.spent_usd", count)
    instance = optplan.read_instance("rubberband-two-stages", optplan.RubberBandInstance)
    instance = instance.replace(cloud=instance.cloud.replace(minimum_charge_s=600.0))
    outcome = run(optplan.build_plan(instance, optplan.solve(instance)), budget_usd=1.2)
    assert outcome.code == 0
    assert outcome.cost_usd == pytest.approx(1.2)
    assert len(calls) <= 8


def test_nodes_that_are_asked_for_will_cost_what_new_ones_do(plan_of: PlanOf) -> None:
    """A driver that is killed before their launch admits a stage as it did before it asked for them."""
    plan = plan_of("rubberband-two-stages")
    own = {"request_s": 10.0, "minimum_charge_s": 0.0, "start_usd": 1.0}
    plan = plan.replace(plan_id="", resources={name: each.replace(**own) for name, each in plan.resources.items()})
    state, segment = State(plan), plan.segments[0]
    new = committed_usd(state, state.segments[segment.id], 0.0)
    seconds = segment.expected.seconds - 10.0
    assert new == pytest.approx(segment.nodes * (1.0 + seconds * 3.6 / 3600.0))
    for number in range(segment.nodes):
        state.apply(NodeWanted(0.0, f"node-{number}", segment.pool, segment.resource, segment.id))
    assert committed_usd(state, state.segments[segment.id], 0.0) == new


def test_without_a_budget_nothing_is_added_up(plan_of: PlanOf) -> None:
    """It lasts for ever."""
    watch = BudgetWatch(make_state(plan_of("rubberband-two-stages"), 2), None, 0.0)
    assert watch.lasts_until_s(1e9) == math.inf


def test_a_run_adds_up_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64, 16, 4 and 1 trials on one node each ends by itself; twice the node changes, and twice is looked anew."""
    calls: list[float] = []

    def count(state: State, now_s: float) -> float | None:
        calls.append(now_s)
        return spent_usd(state, now_s)

    monkeypatch.setattr("optplan.execution.driver.spent_usd", count)
    plan, _ = plan_search(64, 4)
    outcome = run(plan, lucky=True, budget_usd=1e6)
    assert (outcome.code, sum(segment.members for segment in plan.segments)) == (0, 85)
    assert len(calls) <= 8
