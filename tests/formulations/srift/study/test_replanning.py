"""Planning again after a loss: what is left, what is kept, and what is said when limits are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from optplan.contracts import Infeasibility, Relaxation, Result, Status, Termination
from optplan.contracts.result import BoundProof
from optplan.contracts.time_and_money import Objective
from optplan.errors import DataError
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.published.planners import CountRange, FleetList
from optplan.formulations.srift.study.replanning import FleetStanding, continue_run, derive_spent_usd, replan

MakeInstance = Callable[..., SriftInstance]


@pytest.fixture
def run(make_instance: MakeInstance) -> SriftInstance:
    """Return the problem of a run: 100 iterations within 20 s and 0.1 usd, new VMs after 2 s.

    The one big VM (2 GPUs) at 7.2 usd/h with all 64 samples: 32 ms compute and 1 ms exchange (1 MB at 1 GB/s) hidden
    by the backward pass, 3.2 s and 0.0064 usd in all. 8 small ones with 8 samples: 32 ms and 0.0064 usd, too.
    """
    types = {
        "big": {"gpu": "fast", "gpus": 2, "price_usd_per_hour": 7.2, "available": 4},
        "small": {"gpu": "slow", "price_usd_per_hour": 0.9, "available": 8},
    }
    return make_instance(name="run", types=types, deadline_s=20, budget="0.1usd", launch_s=2)


def make_state(**fields: Any) -> FleetStanding:  # noqa: ANN401 - fields of a state
    """Return a state: after 5 s and 60 iterations, one of two big VMs is lost."""
    return FleetStanding.parse(
        {"elapsed_s": 5, "iterations_done": 60, "running": {"big": 1}, "lost": {"big": 1}, "detach_s": 1} | fields
    )


def enumerate_fleets(instance: SriftInstance) -> Result[SriftSolution]:
    """Solve by looking at every fleet; infeasible limits get their least alone."""
    fleets = FleetList(instance, instance.batches_of)
    ranges = [CountRange(name, vm.running, instance.most_of(name)) for name, vm in instance.types.items()]
    found = [(evaluate(instance, one), one) for one in map(_as_solution, fleets.fleets(ranges))]
    feasible = [(judged.objective, one) for judged, one in found if all(check.holds for check in judged.checks)]
    best = min(feasible, key=lambda pair: pair[0], default=None)
    infeasibility = None
    if best is None:
        relaxations = []
        for limit, amount in instance.limits.items():
            least = [judged.consumption[limit] for judged, _ in found if _breaks(judged.checks) <= {limit}]
            if least:
                _, unit = instance.limit_as_given(limit)
                relaxations.append(Relaxation(limit=limit, given=amount, least_feasible=min(least), unit=unit))
        infeasibility = Infeasibility(reason="no fleet is quick and cheap enough", relaxations=tuple(relaxations))
    return Result[SriftSolution](
        formulation="srift",
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        solver="all",
        engine="",
        engine_version="",
        optplan_version="",
        status=Status.INFEASIBLE if best is None else Status.OPTIMAL,
        termination=Termination.COMPLETED,
        objective=None if best is None else best[0],
        bound=None if best is None else best[0],
        bound_proof=BoundProof.NONE if best is None else BoundProof.SEARCHED,
        objective_unit=instance.objective_unit,
        gap_target=1e-6,
        solution=None if best is None else best[1],
        infeasibility=infeasibility,
    )


def _as_solution(groups: tuple[VmGroup, ...]) -> SriftSolution:
    return SriftSolution(groups=groups)


def _breaks(checks: Any) -> set[str]:  # noqa: ANN401 - the checks of an evaluation
    return {check.family for check in checks if not check.holds}


def test_what_is_left(run: SriftInstance) -> None:
    """40 iterations; 20 - 5 - 1 s; 0.1 usd less two big VMs for 5 - 2 s (0.012); no new big VMs."""
    remainder = replan(run, make_state())
    left = remainder.instance
    assert left.iterations == 40
    assert left.deadline_s == pytest.approx(14)
    assert left.budget is not None
    assert left.budget.value == pytest.approx(0.088)
    assert remainder.used == pytest.approx({"deadline": 6, "budget": 0.012})
    assert remainder.gone == ()
    assert (left.types["big"].running, left.types["big"].available) == (1, 1)
    assert (left.types["small"].running, left.types["small"].available) == (0, 8)
    assert left.launch_s == 2
    assert left.name == "run-from-iteration-60"
    assert left.source["state"] == "run after 5 s: 40 of 100 iterations left, 1 big lost, 1 big kept"


def test_a_state_has_its_own_latencies(run: SriftInstance) -> None:
    """Saving, detaching and loading add up; launches take what the state says; lost iterations come back."""
    state = make_state(checkpoint_s=0.5, restart_s=0.25, launch_s=7, iterations_lost=10)
    left = replan(run, state).instance
    assert (left.iterations, left.launch_s) == (50, 7)
    assert left.deadline_s == pytest.approx(20 - 5 - 1.75)


def test_a_lost_type_with_nothing_alive_is_out(run: SriftInstance) -> None:
    """Without live VMs, nothing of the type is available."""
    left = replan(run, make_state(running={}, lost={"big": 2})).instance
    assert (left.types["big"].running, left.types["big"].available) == (0, 0)
    assert left.source["state"].endswith("2 big lost")


def test_money_spent_is_what_the_state_says(run: SriftInstance) -> None:
    """What was spent wins over what follows from prices; the first fleet's own launch does, too."""
    assert derive_spent_usd(run, make_state(spent_usd=0.03)) == 0.03
    assert derive_spent_usd(run, make_state(ready_s=4)) == pytest.approx(2 * 0.002 * 1)
    assert derive_spent_usd(run.replace(launch_billed=True), make_state()) == pytest.approx(2 * 0.002 * 5)
    assert derive_spent_usd(run, make_state(elapsed_s=1)) == 0  # still launching


def test_live_vms_are_paid_while_they_wait_where_launches_are(run: SriftInstance) -> None:
    """With launch_billed, the second of the pause costs one big VM, 0.002 usd."""
    remainder = replan(run.replace(launch_billed=True), make_state())
    assert remainder.used["budget"] == pytest.approx(0.02 + 0.002)


def test_a_run_that_goes_on(run: SriftInstance) -> None:
    """One big VM does the 40 iterations of 32 ms by itself, without a launch: 6 + 1.28 s."""
    going_on = continue_run(run, make_state(), enumerate_fleets)
    assert going_on.infeasibility is None
    assert isinstance(going_on.result.solution, SriftSolution)
    assert going_on.result.solution.groups == (VmGroup(type="big", count=1, batch=64),)
    measures = evaluate(going_on.remainder.instance, going_on.result.solution).measures
    assert measures["time_s"] == pytest.approx(1.28)


def test_limits_that_cannot_be_kept_are_answered_in_the_old_terms(run: SriftInstance) -> None:
    """After 19 s the least is 19 + 1 + 1.28 s with the big VM alone; the new problem has no deadline left at all."""
    going_on = continue_run(run, make_state(elapsed_s=18.5, spent_usd=0.05), enumerate_fleets)
    assert going_on.result.status is Status.INFEASIBLE
    assert going_on.infeasibility is not None
    reason = "with 0.5 s of the deadline and 0.05 usd of the budget left, no fleet is quick and cheap enough"
    assert going_on.infeasibility.reason == reason
    (relaxation,) = going_on.infeasibility.relaxations
    assert (relaxation.limit, relaxation.given, relaxation.unit) == ("deadline", 20.0, "s")
    assert relaxation.least_feasible == pytest.approx(18.5 + 1 + 1.28)


def test_relaxations_of_what_time_does_not_use_up_stay(run: SriftInstance) -> None:
    """A batch that no fleet reaches is nothing to add the past to."""
    batch = Relaxation(limit="global_batch", given=64, least_feasible=60, unit="samples")

    def refuse(instance: SriftInstance) -> Result[SriftSolution]:
        infeasible = enumerate_fleets(instance.replace(deadline_s=1e-3))
        return infeasible.replace(infeasibility=Infeasibility(reason="no fleet reaches 64", relaxations=(batch,)))

    answer = continue_run(run, make_state(), refuse).infeasibility
    assert answer is not None
    assert answer.relaxations == (batch,)


def test_a_deadline_that_has_passed_is_answered(run: SriftInstance) -> None:
    """After 25 of 20 s, the answer is when it can end at the earliest, and the cheapest rest is still planned."""
    going_on = continue_run(run, make_state(elapsed_s=25, spent_usd=0.05), enumerate_fleets)
    assert going_on.remainder.gone == ("deadline",)
    assert going_on.result.status is Status.OPTIMAL
    assert set(going_on.remainder.instance.limits) == {"budget"}
    assert going_on.infeasibility is not None
    words = "26 s of the deadline of 20 s are gone; the fastest way to finish ends at 27.28 s"
    assert going_on.infeasibility.reason == words
    (relaxation,) = going_on.infeasibility.relaxations
    assert relaxation.least_feasible == pytest.approx(27.28)


def test_a_budget_that_is_spent_is_answered(run: SriftInstance) -> None:
    """With 0.15 of 0.1 usd spent, the rest costs 1.28 s of one big VM, 0.00256 usd."""
    going_on = continue_run(run, make_state(spent_usd=0.15), enumerate_fleets)
    assert going_on.infeasibility is not None
    words = "0.15 usd of the budget of 0.1 usd are gone; the cheapest way to finish costs, in all, 0.1526 usd"
    assert going_on.infeasibility.reason == words
    assert [relaxation.limit for relaxation in going_on.infeasibility.relaxations] == ["budget"]


def test_with_both_limits_gone_neither_helps_alone(run: SriftInstance) -> None:
    """The answer says what each would have to be, but no relaxation of one limit mends it."""
    going_on = continue_run(run, make_state(elapsed_s=25, spent_usd=0.15), enumerate_fleets)
    assert going_on.infeasibility is not None
    assert going_on.infeasibility.relaxations == ()
    assert "ends at 27.28 s; 0.15 usd of" in going_on.infeasibility.reason


def test_a_gone_limit_that_does_not_help(run: SriftInstance) -> None:
    """Where the budget's rest is too little as well, a later deadline alone mends nothing, and the answer says so."""
    going_on = continue_run(run, make_state(elapsed_s=25, spent_usd=0.0999), enumerate_fleets)
    assert going_on.infeasibility is not None
    assert going_on.infeasibility.relaxations == ()
    words = "26 s of the deadline of 20 s are gone, and no more of it would help: no fleet is quick and cheap enough"
    assert going_on.infeasibility.reason == words


def test_nothing_is_claimed_that_was_not_proven(run: SriftInstance) -> None:
    """A solver that proves no least end leaves the question open."""

    def guess(instance: SriftInstance) -> Result[SriftSolution]:
        return enumerate_fleets(instance).replace(status=Status.FEASIBLE)

    assert continue_run(run, make_state(elapsed_s=25, spent_usd=0.05), guess).infeasibility is None


def test_the_objective_stays(run: SriftInstance) -> None:
    """Whoever wanted the fastest fleet still does."""
    fastest = run.replace(objective=Objective.TIME)
    assert replan(fastest, make_state()).instance.objective is Objective.TIME


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"running": {"bog": 1}}, r"running\.bog: no such type of VM; did you mean 'big'\?"),
        ({"lost": {"smal": 1}}, r"lost\.smal: no such type of VM; did you mean 'small'\?"),
        (
            {"running": {"big": 4}},
            r"running\.big: 4 alive and 1 lost are more than the 4 available; correct the state, or types\.\*\.avail",
        ),
        ({"iterations_done": 100}, r"iterations_done: is 100 of 100; nothing is left to plan: the run is finished"),
        ({"running": {}, "lost": {}}, r"spent_usd: is missing, and there are no VMs to derive it from; give running"),
    ],
)
def test_states_of_another_run_are_refused(run: SriftInstance, fields: dict[str, Any], message: str) -> None:
    """What does not belong to the instance is named."""
    with pytest.raises(DataError, match=message):
        replan(run, make_state(**fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"iterations_lost": 61}, r"iterations_lost: is 61, more than the 60 done; iterations_done counts those"),
        ({"ready_s": 6}, r"ready_s: is 6, later than elapsed_s, 5; give seconds since the beginning"),
        ({"running": {"big": 0}}, r"running\.big: "),
        ({"elapsed_s": -1}, r"elapsed_s: "),
        ({"detach_s": "5 parsecs"}, r"detach_s: .*has no known unit of time"),
    ],
)
def test_impossible_states_are_refused(fields: dict[str, Any], message: str) -> None:
    """A state that contradicts itself is no state."""
    with pytest.raises(DataError, match=message):
        make_state(**fields)
