"""The virtual clock: a plan takes and costs what it says, and what the sampled simulator says where nothing varies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Plan
from optplan.execution.options import SearchOptions
from optplan.execution.records import Progressed
from optplan.execution.running import SearchRun, run
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.laws.sampling import Queue, sample_plan
from optplan.instances.files import read_instance
from optplan.instances.library import names
from optplan.solving import build_plan, solve

PlanOf = Callable[..., Plan]

CENT = 0.01

SEARCHES = [name for name in names() if name.startswith(("rubberband", "seer", "srift"))]


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@pytest.mark.parametrize("name", SEARCHES)
def test_a_run_takes_and_costs_what_its_plan_says(plan_of: PlanOf, name: str) -> None:
    """To the cent, and to a millionth of the time, segment by segment."""
    plan = plan_of(name)
    as_it_went = SearchRun(plan, SearchOptions(executor="local"))
    state = as_it_went.state
    outcome = run(plan, listener=lambda told: None if isinstance(told, Progressed) else state.apply(told))
    totals = plan.totals()
    assert (outcome.status, outcome.code) == ("ended", 0)
    assert outcome.time_s == pytest.approx(totals["time_s"], rel=1e-6)
    if "cost_usd" in totals and outcome.trials == max(unit.members for unit in plan.units):  # else places are empty
        assert outcome.cost_usd == pytest.approx(totals["cost_usd"], abs=CENT / 2)
    for segment in as_it_went.describe().segments:
        assert segment.actual_s == pytest.approx(segment.planned_s, rel=1e-6)


def test_a_virtual_run_claims_nothing(plan_of: PlanOf) -> None:
    """Nothing was trained, so nobody has won; the plan is not compared with itself; with luck there is a difference."""
    plan = plan_of("rubberband-two-stages")
    outcome = run(plan, space={"rate": {"uniform": [0, 1]}})
    assert next(iter(outcome.to_json_data())) == "virtual"
    assert (outcome.virtual, outcome.trained, outcome.code, outcome.notes) == (True, False, 0, ())
    assert (outcome.winner, outcome.best) == (None, None)
    assert {segment.actual_s for segment in outcome.segments} == {None}
    assert [segment.planned_s for segment in outcome.segments] == [100.0, 180.0]
    varied = run(plan, slower=1.5, replan_above=None)
    assert varied.winner is None
    assert [segment.actual_s for segment in varied.segments] == [150.0, 270.0]


def build(stages: list[dict[str, int]], cloud: dict[str, Any]) -> RubberBandInstance:
    """Return a search in which nothing varies: 10, 6 and 4 s an iteration on 1, 2 and 4 GPUs."""
    data = {
        "formulation": "rubberband",
        "experiment": {"form": "stages", "stages": stages},
        "training": {"seconds_per_iteration": {"1": 10.0, "2": 6.0, "4": 4.0}, "start_s": 3.0},
        "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6} | cloud,
        "deadline_s": 1e6,
    }
    return RubberBandInstance.parse(data)


@settings(max_examples=60, deadline=None)
@given(
    held=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=3),
    cloud=st.fixed_dictionaries(
        {
            "provision_s": st.sampled_from([0.0, 7.0]),
            "initialise_s": st.sampled_from([0.0, 20.0]),
            "minimum_charge_s": st.sampled_from([0.0, 60.0, 400.0]),
            "billing": st.sampled_from(["per-instance", "per-function"]),
            "data_gb": st.sampled_from([0.0, 2.0]),
            "data_price_usd_per_gb": st.just(0.01),
        }
    ),
)
def test_it_is_the_simulator_where_nothing_varies(
    plan_chain: Callable[..., Plan], held: list[tuple[int, int]], cloud: dict[str, Any]
) -> None:
    """Growth, waves, minimum charges and data: one execution of the simulator is what the run does."""
    stages = [{"trials": 5, "iterations": 4}, {"trials": 3, "iterations": 8}, {"trials": 1, "iterations": 20}]
    instance = build(stages, cloud)
    chain = []
    for (spare, kind), stage in zip(held, stages, strict=True):
        trials = stage["trials"]
        gpus = (2, trials, 2 * trials, 4 * trials)[kind] if trials > 1 else 1 + kind % 2
        nodes = trials * 2 if kind == 3 and trials > 1 else -(-gpus // 2)
        chain.append({"instances": nodes + spare, "gpus": gpus})
    solution = RubberBandSolution.parse({"brackets": [chain]})
    outcome = run(plan_chain(instance, chain), replan_above=None)  # an execution to its end, as the simulator has it
    simulated = sample_plan(instance, solution, samples=1, queue=Queue.DYNAMIC)
    assert outcome.time_s == pytest.approx(float(simulated.completion_s[0]))
    assert outcome.cost_usd == pytest.approx(float(simulated.cost_usd[0]), abs=1e-9)


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_luck_is_seeded_and_around_the_mean() -> None:
    """The same seed gives the same run; the mean of many runs is near what the simulator expects."""
    plan = build_plan(*_solved("rubberband-resnet50-stragglers"))
    runs = [run(plan, lucky=True, seed=seed) for seed in range(40)]
    assert run(plan, lucky=True, seed=7) == runs[7]
    assert len({outcome.time_s for outcome in runs}) == len(runs)
    mean_s = sum(outcome.time_s for outcome in runs) / len(runs)
    assert mean_s == pytest.approx(plan.totals()["time_s"], rel=0.05)


def _solved(name: str) -> tuple[Any, Any]:
    instance = read_instance(name)
    return instance, solve(instance)


def test_a_search_of_512_trials_is_quick(plan_of: PlanOf) -> None:
    """Each of its 1,023 operations takes the loop some 126 calls; looks at all others would take over 500."""
    plan, calls = plan_of("rubberband-resnet50-512"), 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        outcome = run(plan)
    finally:
        sys.setprofile(before)
    assert outcome.trials == 512
    assert calls < 500 * 1_023
