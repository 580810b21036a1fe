from __future__ import annotations

import math
import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from optplan.contracts.result import (
    Answer,
    BoundProof,
    EnumeratedCertificate,
    LagrangianCertificate,
    SolveRequest,
    Status,
    Termination,
)
from optplan.errors import UnsupportedError
from optplan.formulations.rubberband.data.allocations import explain_refusal
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution, StageAllocation
from optplan.formulations.rubberband.exact.both_limits import solve_held_paths
from optplan.formulations.rubberband.exact.chains import state_chains
from optplan.formulations.rubberband.judge.duality import dual_bound, least_consumption, least_within
from optplan.formulations.rubberband.judge.evaluation import evaluate, growth
from optplan.formulations.rubberband.laws.stages import option_of
from optplan.formulations.rubberband.study.pareto import build_pareto
from optplan.instances.files import read_instance
from optplan.progress import Stopwatch
from optplan.solving import solve
from optplan.verification import verify

#: Most plans of a bracket that are looked at one by one.
_MOST_PLANS = 150
_EXACTLY = SolveRequest(gap=0.0)

Plans = list[list[tuple[float, float]]]


def _distribution(draw: st.DrawFn, scale_s: float, *, varies: bool) -> dict[str, Any]:
    form = draw(st.sampled_from(["constant", "normal", "log-normal", "empirical"])) if varies else "constant"
    if form == "constant":
        return {"form": form, "value_s": scale_s * draw(st.sampled_from([0.0, 1.0, 2.5]))}
    if form == "empirical":
        return {"form": form, "values_s": [0.5 * scale_s, scale_s, 3.0 * scale_s]}
    return {"form": form, "mean_s": scale_s, "sd_s": scale_s * draw(st.sampled_from([0.1, 0.5]))}


@st.composite
def tiny_instances(draw: st.DrawFn) -> RubberBandInstance:
    """Draw searches with so few plans that all can be looked at, with every kind of cost, noise and bracket."""
    varies = draw(st.booleans())
    trials, stages = draw(st.integers(1, 5)), []
    for _ in range(draw(st.integers(1, 3))):
        stages.append({"trials": trials, "iterations": draw(st.sampled_from([1, 3, 10]))})
        trials = draw(st.integers(1, trials))
    order = draw(st.sampled_from([None, None, "side-by-side", "in-sequence"]))
    experiment: dict[str, Any] = {"form": "stages", "stages": stages}
    if order is not None:
        experiment = {"form": "hyperband", "most_iterations": 3, "eta": 3, "order": order}
    table: dict[int, float] = draw(
        st.sampled_from([{1: 10, 2: 6, 4: 4}, {1: 7, 2: 3.3}, {1: 5, 2: 4, 3: 4.5}, {2: 4, 4: 2}])
    )
    training: dict[str, Any] = {
        "seconds_per_iteration": table,
        "least_gpus": min(table),
        "start_s": _distribution(draw, 4.0, varies=varies),
    }
    if varies and draw(st.booleans()):
        training["iteration_noise"] = {"form": "normal", "sd_fraction": draw(st.sampled_from([0.1, 0.3]))}
    cloud = {
        "gpus_per_instance": draw(st.sampled_from([1, 2, 4])),
        "price_usd_per_hour": 3.6,
        "billing": draw(st.sampled_from(["per-instance", "per-instance", "per-function"])),
        "minimum_charge_s": draw(st.sampled_from([0, 20, 60])),
        "provision_s": _distribution(draw, 10.0, varies=varies),
        "initialise_s": _distribution(draw, 15.0, varies=varies),
        "data_gb": draw(st.sampled_from([0, 10])),
        "data_price_usd_per_gb": 0.001,
        "most_instances": draw(st.integers(2, 4)),
    }
    mode = draw(st.sampled_from(["any", "fair"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = {"experiment": experiment, "training": training, "cloud": cloud, "mode": mode, "deadline_s": 1e6}
        return RubberBandInstance.parse(made)


def _list_choices(instance: RubberBandInstance, bracket: int) -> list[list[tuple[int, int]]]:
    """List all (instances held, GPUs) that the rules allow, by stage; more than the solver considers."""
    most, choices = instance.cloud.most_instances or 0, []
    for number, stage in enumerate(instance.brackets[bracket]):
        allowed = []
        for gpus in range(1, most * instance.cloud.gpus_per_instance + 1):
            if not explain_refusal(instance, stage, gpus):
                needed = int(option_of(instance, bracket, number, gpus).instances[0])
                allowed += [(held, gpus) for held in range(needed, most + 1)]
        choices.append(allowed)
    return choices


def _list_plans(instance: RubberBandInstance) -> Plans:
    """Return by bracket what every plan takes, in seconds and US dollars, by the evaluator."""
    choices = [_list_choices(instance, bracket) for bracket in range(len(instance.brackets))]
    assume(all(0 < math.prod(len(allowed) for allowed in stages) <= _MOST_PLANS for stages in choices))
    plans: Plans = []
    for bracket, stages in enumerate(choices):
        found = []
        for chain in product(*stages):
            chains = [[allowed[0] for allowed in other] for other in choices]
            chains[bracket] = list(chain)
            allocations = [tuple(StageAllocation(instances=m, gpus=a) for m, a in one) for one in chains]
            measures = evaluate(instance, RubberBandSolution(brackets=tuple(allocations))).measures
            name = "expected_" if len(choices) == 1 else f"brackets.{bracket}.expected_"
            found.append((measures[f"{name}s"], measures[f"{name}usd"]))
        plans.append(found)
    return plans


def _cheapest_within(plans: Plans, deadline_s: float) -> float:
    in_time = [[usd for seconds, usd in bracket if seconds <= deadline_s * (1 + 1e-9)] for bracket in plans]
    return sum(min(bracket, default=math.inf) for bracket in in_time)


def _fastest_within(plans: Plans, budget_usd: float) -> float:
    times = sorted({seconds for bracket in plans for seconds, _ in bracket})
    return next((t for t in times if _cheapest_within(plans, t) <= budget_usd * (1 + 1e-9)), math.inf)


def _judge(instance: RubberBandInstance, answer: Answer[RubberBandSolution]) -> None:
    """Re-derive what the answer proves, as the verifier does."""
    limit = instance.limit_name
    for certificate in answer.certificates:
        dual = dual_bound(instance, certificate.multipliers)
        scale = abs(dual) + 2 * certificate.multipliers[limit] * instance.limits[limit]
        if isinstance(certificate, LagrangianCertificate):
            assert certificate.bound == pytest.approx(dual, abs=1e-9 * scale)
        else:
            assert isinstance(certificate, EnumeratedCertificate)
            found = least_within(instance, certificate.multipliers, certificate.allowance + 1e-9 * scale)
            assert found == pytest.approx(certificate.optimum, rel=1e-9)
    for price in answer.shadow_prices.values():
        best = max(c.bound for c in answer.certificates if isinstance(c, LagrangianCertificate))
        for end in (price.more, price.less):
            if end is not None:
                scale = abs(best) + 2 * end * instance.limits[limit]
                assert dual_bound(instance, {limit: end}) == pytest.approx(best, abs=1e-6 * scale)
    if answer.infeasibility is not None:
        least = sum(least_consumption(instance, np.ones(1)).values())
        assert answer.infeasibility.relaxations[0].least_feasible == pytest.approx(least, rel=1e-9)


def _check(instance: RubberBandInstance, best: float, least: float) -> None:
    """Solve, hold the answer against the best of all plans, and judge it."""
    answer = solve_held_paths(instance, _EXACTLY)
    _judge(instance, answer)
    if best == math.inf:
        assert answer.status is Status.INFEASIBLE
        assert answer.infeasibility is not None
        assert answer.infeasibility.relaxations[0].least_feasible == pytest.approx(least, rel=1e-9)
        return
    assert answer.status is Status.OPTIMAL
    assert answer.solution is not None
    evaluation = evaluate(instance, answer.solution)
    assert all(check.holds for check in evaluation.checks)
    assert evaluation.objective == pytest.approx(best, rel=2e-9)
    assert answer.objective == pytest.approx(best, rel=2e-9)
    assert answer.bound == pytest.approx(best, rel=2e-9)


@given(instance=tiny_instances(), factor=st.sampled_from([0.9, 1.0, 1.1, 1.5, 3.0]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_finds_the_best_of_all_plans(instance: RubberBandInstance, factor: float) -> None:
    """Both objectives, modes and billings: no plan that the rules allow is better, and the proofs are re-derived."""
    plans = _list_plans(instance)
    fastest = max(min(seconds for seconds, _ in bracket) for bracket in plans)
    cheapest = sum(min(usd for _, usd in bracket) for bracket in plans)
    _check(instance.replace(deadline_s=factor * fastest), _cheapest_within(plans, factor * fastest), fastest)
    bounded = instance.replace(deadline_s=None, objective="time", budget=f"{factor * cheapest!r}usd")
    _check(bounded, _fastest_within(plans, factor * cheapest), cheapest)


@given(
    instance=tiny_instances(),
    late=st.sampled_from([0.9, 1.0, 1.2, 1.5, 3.0]),
    rich=st.sampled_from([0.9, 1.0, 1.1, 1.5, 3.0]),
    objective=st.sampled_from(["cost", "time"]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_keeps_both_limits_where_any_plan_does(
    instance: RubberBandInstance, late: float, rich: float, objective: str
) -> None:
    """With a deadline and a budget the best of all plans is found; else what helps is the least that does."""
    plans = _list_plans(instance)
    deadline_s = late * max(min(seconds for seconds, _ in bracket) for bracket in plans)
    budget_usd = rich * sum(min(usd for _, usd in bracket) for bracket in plans)
    instance = instance.replace(deadline_s=deadline_s, budget=f"{budget_usd!r}usd", objective=objective)
    usd, seconds = _cheapest_within(plans, deadline_s), _fastest_within(plans, budget_usd)
    result = solve(instance, gap=0.0)
    if usd <= budget_usd * (1 + 1e-9):
        assert result.status is Status.OPTIMAL
        assert result.objective == pytest.approx(usd if objective == "cost" else seconds, rel=2e-9)
        return
    assert result.infeasibility is not None
    helps = {one.limit: one.least_feasible for one in result.infeasibility.relaxations}
    assert helps == pytest.approx(
        {limit: least for limit, least in (("deadline", seconds), ("budget", usd)) if least < math.inf}, rel=2e-9
    )
    assert {one.limit for one in result.infeasibility.hopeless} == {"deadline", "budget"} - set(helps)
    assert not [note for note in verify(instance, result).on_trust if "infeasib" in note]


@given(instance=tiny_instances())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_frontier_is_that_of_all_plans(instance: RubberBandInstance) -> None:
    """At every time of some plan, the frontier has the least cost of all plans that are no slower."""
    plans = _list_plans(instance)
    frontier = build_pareto(instance, SolveRequest())
    assert frontier.exact
    for deadline_s in {seconds for bracket in plans for seconds, _ in bracket}:
        best = _cheapest_within(plans, deadline_s)
        own = min((p.objective for p in frontier.points if p.limit <= deadline_s * (1 + 1e-9)), default=math.inf)
        assert own == pytest.approx(best, rel=3e-9)
    for point in frontier.points:
        assert isinstance(point.solution, RubberBandSolution)
        assert evaluate(instance, point.solution).objective == pytest.approx(point.objective, rel=1e-9)
    swapped = build_pareto(instance.replace(deadline_s=None, objective="time"), SolveRequest())
    assert [(p.objective, p.limit) for p in reversed(swapped.points)] == [
        (p.limit, p.objective) for p in frontier.points
    ]


def _make(**changes: Any) -> RubberBandInstance:  # noqa: ANN401 - whatever fields a test needs
    fields: dict[str, Any] = {
        "experiment": {"form": "sha", "trials": 32, "least_iterations": 1, "most_iterations": 50, "eta": 3},
        "training": {"seconds_per_iteration": {1: 40, 2: 22, 4: 13, 8: 8}, "start_s": 5},
        "cloud": {
            "gpus_per_instance": 4,
            "price_usd_per_hour": 12.24,
            "provision_s": 30,
            "initialise_s": 20,
            "most_instances": 16,
        },
        "deadline_s": 700.0,
    }
    for name, change in changes.items():
        nested = isinstance(change, dict) and "form" not in change
        fields[name] = {**fields[name], **change} if nested else change
    return RubberBandInstance.parse(fields)


def _solve(instance: RubberBandInstance) -> Answer[RubberBandSolution]:
    answer = solve_held_paths(instance, SolveRequest(gap=0.0))
    assert answer.objective is not None
    return answer


def test_later_deadlines_never_cost_more() -> None:
    """The optimum falls with the deadline, in both modes, and the paper's rule never does better than none."""
    costs = {
        mode: [_solve(_make(mode=mode, deadline_s=deadline_s)).objective or 0.0 for deadline_s in (600, 700, 900, 1500)]
        for mode in ("any", "fair")
    }
    for falling in costs.values():
        assert falling == sorted(falling, reverse=True)
        assert falling[0] > falling[-1]
    assert all(free <= fair * (1 + 1e-9) for free, fair in zip(costs["any"], costs["fair"], strict=True))


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_units_of_money_do_not_matter(factor: float) -> None:
    """With prices a million times higher or lower the plan is the same, and the proof as tight."""
    plain, scaled = _make(), _make(cloud={"price_usd_per_hour": 12.24 * factor})
    one, other = _solve(plain), _solve(scaled)
    assert other.solution == one.solution
    assert other.objective == pytest.approx((one.objective or 0.0) * factor, rel=1e-12)
    assert other.bound == pytest.approx((one.bound or 0.0) * factor, rel=1e-9)


def test_holds_idle_instances_through_a_small_stage() -> None:
    """Two instances stay through a stage that uses one, because renting the second anew would take too long.

    Stages of 2 trials, 1 trial and 2 trials follow one another; growing takes 300 s, for which there is no room.
    """
    instance = _make(
        experiment={"form": "hyperband", "most_iterations": 2, "eta": 2, "order": "in-sequence"},
        training={"seconds_per_iteration": {1: 100.0}, "start_s": 0},
        cloud={"gpus_per_instance": 1, "provision_s": 200, "initialise_s": 100, "most_instances": 2},
        deadline_s=300.0 + 400.0,
    )
    # Brackets: 2 trials for 1 iteration, 1 trial for 1 more; then 2 trials for 2 iterations.
    assert [(stage.trials, stage.iterations) for stage in instance.brackets[0]] == [(2, 1), (1, 1), (2, 2)]
    answer = _solve(instance)
    assert answer.solution is not None
    assert [(stage.instances, stage.gpus) for stage in answer.solution.brackets[0]] == [(2, 2), (2, 1), (2, 2)]
    # 2 instances for 100 s of initialisation and 400 s of stages.
    assert answer.objective == pytest.approx(2 * 500 * 12.24 / 3600)


def test_instances_that_nobody_pays_for_are_no_more_than_are_needed() -> None:
    """Where GPUs are billed, 64 trials of a GPU need 16 instances of four, 32 need 8, and the last one needs 1."""
    instance = read_instance("rubberband-resnet50-stragglers", RubberBandInstance)
    solution = _solve(instance.replace(cloud=instance.cloud.replace(billing="per-function"))).solution
    assert solution is not None
    assert [each.instances for each in solution.brackets[0]] == [16, 8, 4, 2, 1, 1, 1]
    assert [each.gpus for each in solution.brackets[0]] == [64, 32, 16, 8, 4, 4, 3]


def test_says_what_limits_the_fastest_plan() -> None:
    """An infeasible deadline is answered with the fastest time, and with what holds the longest stage up."""
    answer = solve_held_paths(_make(deadline_s=300.0), SolveRequest())
    assert answer.status is Status.INFEASIBLE
    assert answer.infeasibility is not None
    (relaxation,) = answer.infeasibility.relaxations
    assert (relaxation.limit, relaxation.given, relaxation.unit) == ("deadline", 300.0, "s")
    assert answer.infeasibility.factor == pytest.approx(relaxation.least_feasible / 300.0)
    # 16 instances from the start: 50 + (5 + 1 * 22) + (5 + 3 * 13) + (5 + 9 * 8) + (5 + 37 * 8).
    assert relaxation.least_feasible == pytest.approx(50 + 27 + 44 + 77 + 301)
    assert answer.infeasibility.reason.startswith("the fastest this search can run is ")
    assert "; the deadline is 300 s: 50 s go by while instances are provided and initialised; " in (
        answer.infeasibility.reason
    )
    assert answer.infeasibility.reason.endswith(
        "the longest stage is number 4 with 1 trial, 5 min 01 s on 8 GPUs, 8 for each trial: the profile allows no more"
    )


def test_says_what_the_cheapest_plan_costs() -> None:
    """A budget that is too small is answered with the least cost, minimum charges included, and its dearest stage."""
    answer = solve_held_paths(_make(deadline_s=None, objective="time", budget="1usd"), SolveRequest())
    assert answer.infeasibility is not None
    assert answer.infeasibility.reason.startswith("the cheapest this search can run is ")
    assert "usd; the budget is 1 usd: stage " in answer.infeasibility.reason
    cheapest = build_pareto(_make(deadline_s=None, objective="time", budget="1usd"), SolveRequest()).points[0]
    assert answer.infeasibility.relaxations[0].least_feasible == pytest.approx(cheapest.limit)


def test_prices_the_deadline() -> None:
    """The shadow price is the slope of the convexified trade-off, in US dollars per second."""
    answer = _solve(_make())
    price = answer.shadow_prices["deadline"]
    assert price.unit == "usd per s of deadline"
    assert price.less == pytest.approx(price.more)
    assert price.more > 0
    lagrangian = answer.certificates[0].bound
    later = solve_held_paths(_make(deadline_s=701.0), SolveRequest(gap=0.0)).certificates[0].bound
    assert lagrangian is not None
    assert later == pytest.approx(lagrangian - price.more, rel=1e-6)


def test_stops_in_time_with_a_plan_and_a_bound() -> None:
    """Without time there is still a plan, and a bound below it."""
    best = _solve(_make())
    answer = solve_held_paths(_make(), SolveRequest(gap=0.0, stopwatch=Stopwatch(limit_s=1e-9)))
    assert answer.termination is Termination.TIME_LIMIT
    assert answer.objective is not None
    assert answer.bound is not None
    assert answer.bound <= (best.objective or 0.0) <= answer.objective
    assert answer.bound_proof is BoundProof.LAGRANGIAN


def test_stops_while_very_many_allocations_are_evaluated() -> None:
    """Up to 100,000 GPUs per trial take minutes, before there is a graph to look for a plan in."""
    training = {"seconds_per_iteration": {"form": "measured", "gpus": [1, 100_000], "seconds": [40.0, 8.0]}}
    instance = _make(training=training, cloud={"most_instances": None})
    answer = solve_held_paths(instance, SolveRequest(stopwatch=Stopwatch(limit_s=1e-9)))
    assert (answer.status, answer.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)


@pytest.mark.parametrize("initialise_s", [20, {"form": "normal", "mean_s": 20, "sd_s": 2}])
@pytest.mark.parametrize("billing", ["per-instance", "per-function"])
def test_growth_of_the_graph_is_the_evaluators(initialise_s: object, billing: str) -> None:
    """Between any two nodes, the engine's growth is what the evaluator says."""
    cloud = {"initialise_s": initialise_s, "billing": billing, "data_gb": 50, "data_price_usd_per_gb": 0.01}
    instance = _make(cloud=cloud)
    (chain,) = state_chains(instance)
    before, after = (grid.ravel() for grid in np.meshgrid(np.arange(chain.held.size), np.arange(chain.held.size)))
    usd, seconds = chain.graph.grow(before, after)
    expected_s, expected_usd = growth(instance, chain.held[before], chain.held[after])
    assert seconds == pytest.approx(expected_s, rel=1e-9)
    assert usd == pytest.approx(expected_usd, rel=1e-9, abs=1e-12)


def test_certificates_do_not_prove_other_limits() -> None:
    """A multiplier proves less at an earlier deadline's optimum, and an allowance too small finds no plan."""
    instance = _make()
    answer = _solve(instance)
    enumerated = next(c for c in answer.certificates if isinstance(c, EnumeratedCertificate))
    assert least_within(instance, enumerated.multipliers, enumerated.allowance * 0.9) == math.inf
    lagrangian = answer.certificates[0].bound
    assert lagrangian is not None
    assert dual_bound(instance, {"deadline": 2 * enumerated.multipliers["deadline"]}) < lagrangian


@pytest.mark.parametrize(
    ("billing", "most", "message"),
    [
        ("per-function", 4_000, r"ways or more, of the 4,000,000 that are looked at; lower training\.most_gpus"),
        (
            "per-instance",
            10_000,
            r"may hold 10,000 numbers of instances, of the 4,096 that are looked at; lower",
        ),
    ],
)
def test_too_many_ways_are_refused_before_they_are_listed(billing: str, most: int, message: str) -> None:
    """Per function every number of GPUs is worth a look while any number of instances is held: 4,000 times 4,000.

    Per instance growth is looked at between all numbers.
    """
    instance = RubberBandInstance.parse(
        {
            "experiment": {"form": "stages", "stages": [{"trials": 1, "iterations": 10}]},
            "training": {"seconds_per_iteration": {1: 10, most: 1}},
            "cloud": {"gpus_per_instance": 1, "price_usd_per_hour": 3.6, "billing": billing},
            "deadline_s": 60.0,
        }
    )
    with pytest.raises(UnsupportedError, match=message):
        solve_held_paths(instance, SolveRequest())
