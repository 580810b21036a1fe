"""Informed SEER: known optima, the way back to the published plan, limits of every kind, and its family of plans."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import BoundProof, SolveRequest, Status, Termination
from optplan.errors import UnsupportedError, UsageError
from optplan.formulations.seer.data.instance import MOST_SAMPLED_ROUNDS, Bracket, SeerInstance, SeerSolution
from optplan.formulations.seer.exact.informed import Candidate, Family, solve_informed
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.formulations.seer.laws.expectation import ChoiceSamples, Search, require_prior
from optplan.formulations.seer.planning import SeerPlan
from optplan.formulations.seer.published.policy import solve_published
from optplan.progress import Stopwatch
from optplan.solving import build_plan, choose_solver, solve
from optplan.verification import verify

MakeInstance = Callable[..., SeerInstance]

#: Ends uniform on [0, 1], reached at once, so that nothing counts but the number of trials.
AT_ONCE: dict[str, Any] = {
    "form": "parametric",
    "start_loss": 1.0,
    "terminal_low_loss": 0.0,
    "terminal_high_loss": 1.0,
    "rate_low_per_min": 1e4,
    "rate_high_per_min": 1e4,
    "scaling": {"gpus": [1, 2, 4], "speedup": [1.0, 1.8, 3.0]},
    "samples": 2000,
    "choice_samples": 500,
}
#: Slow, and those that end lowest learn slowest.
SLOW = AT_ONCE | {"rate_low_per_min": 0.05, "rate_high_per_min": 0.5, "rank_correlation": 0.5}


def family_of(instance: SeerInstance) -> Family:
    """Return the plans that informed SEER looks at."""
    return Family(instance, require_prior(instance))


def test_where_training_is_at_once_the_most_trials_are_best(make_instance: MakeInstance) -> None:
    """12.5 GPU-minutes pay 12 trials of a minute, and no plan has more: a sample is the least of 12 ends."""
    instance = make_instance(objective="quality", prior=AT_ONCE, budget="12.5gpu-min")
    result = solve(instance)
    most = SeerSolution(round_min=1.0, rounds=1, brackets=(Bracket(gpus=1.0, trials=(12,)),))
    assert result.solver == "informed"
    assert result.objective == evaluate(instance, most).objective
    assert (result.status, result.bound, result.bound_proof) == (Status.FEASIBLE, None, BoundProof.NONE)
    assert result.measures["gain_low_loss"] > 0
    assert result.warnings[0].startswith("the prior buys ")
    assert verify(instance, result).ok


def test_a_tiny_family_is_searched_as_well_as_by_looking_at_all_of_it(make_instance: MakeInstance) -> None:
    """Two widths, up to two rounds, twelve lengths, all numbers of trials: on the choice samples none is 1 % better.

    It is a search by steps, so what it misses is measured here and not zero.
    """
    prior = SLOW | {"ranking_noise_loss": 0.02}
    instance = make_instance(objective="quality", prior=prior, budget="14gpu-min", deadline_min=6, most_gpus=2)
    found = solve_informed(instance, SolveRequest()).solution
    assert found is not None
    samples = ChoiceSamples(require_prior(instance))

    def loss_of(solution: SeerSolution) -> float:
        return float(samples.losses_of(Search.of(instance, solution), samples.size).mean())

    reached = []
    for rounds, length, narrow, wide in itertools.product((1, 2), np.geomspace(1, 6, 12), range(15), range(8)):
        chosen = [(gpus, number) for gpus, number in ((1.0, narrow), (2.0, wide)) if number]
        brackets = tuple(Bracket(gpus=g, trials=tuple(n // 2**k for k in range(rounds))) for g, n in chosen)
        solution = SeerSolution(round_min=float(length), rounds=rounds, brackets=brackets)
        spent = sum(g * length * sum(2**k * (n // 2**k) for k in range(rounds)) for g, n in chosen)
        trained = any(bracket.trials[-1] for bracket in brackets)
        if trained and spent <= 14 and length * (2**rounds - 1) <= 6:
            reached.append(loss_of(solution))
    assert len(reached) > 100
    assert loss_of(found) <= min(reached) * 1.01


def test_a_prior_that_buys_nothing_gives_the_published_plan(make_instance: MakeInstance) -> None:
    """Noise that drowns every loss: all plans that train as long are alike, and no gain can be told from zero."""
    prior = AT_ONCE | {"ranking_noise_loss": 1e9}
    instance = make_instance(objective="quality", prior=prior)
    answer = solve_informed(instance, SolveRequest())
    assert answer.solution == solve_published(instance, SolveRequest()).solution
    assert answer.warnings[0].startswith("the prior buys nothing that sampling can tell from zero: ")
    assert answer.warnings[0].endswith("; this is the published plan")


def test_where_there_is_one_plan_it_is_that(make_instance: MakeInstance) -> None:
    """One trial for a minute is all that fits; nothing else was looked at that could be better."""
    instance = make_instance(objective="quality", prior=SLOW, deadline_min=1, budget="1gpu-min")
    answer = solve_informed(instance, SolveRequest())
    assert answer.solution == SeerSolution(round_min=1.0, rounds=1, brackets=(Bracket(gpus=1.0, trials=(1,)),))
    assert (
        "no plan that was looked at is better on the choice samples; this is the published plan" in answer.warnings[0]
    )


@pytest.mark.parametrize("fields", [{"deadline_min": 0.9}, {"budget": "0.9gpu-min"}])
def test_what_is_too_little_is_infeasible_as_for_spend(make_instance: MakeInstance, fields: dict[str, Any]) -> None:
    """The same reason and the same relaxation, whatever the objective."""
    spend = solve(make_instance(**fields))
    for solver in ("informed", "published-seer"):
        quality = solve(make_instance(objective="quality", prior=SLOW, **fields), solver=solver)
        assert quality.status is Status.INFEASIBLE
        assert quality.infeasibility == spend.infeasibility


def test_it_never_returns_worse_than_the_published_plan(make_instance: MakeInstance) -> None:
    """On the samples that both are reported on."""
    for fields in ({}, {"resize_s": 20}, {"eta": 2.5, "nu": 1.5, "whole_gpus": False}, {"budget": "200gpu-min"}):
        instance = make_instance(objective="quality", prior=SLOW, **fields)
        ours, theirs = solve(instance), solve(instance, solver="published-seer")
        assert ours.objective is not None
        assert theirs.objective is not None
        assert ours.objective <= theirs.objective
        assert ours.measures["uninformed_loss"] == theirs.objective
        assert theirs.measures["gain_loss"] == 0.0


def test_the_same_instance_gets_the_same_plan(make_instance: MakeInstance) -> None:
    """The samples belong to the instance; a solver's seed changes nothing."""
    instance = make_instance(objective="quality", prior=SLOW)
    one, other = (solve(instance, seed=seed) for seed in (0, 1))
    assert one.solution == other.solution
    assert one.objective == other.objective


def test_without_time_there_is_an_answer_all_the_same(make_instance: MakeInstance) -> None:
    """It says that it was stopped, and is no worse than the published plan."""
    instance = make_instance(objective="quality", prior=SLOW)
    answer = solve_informed(instance, SolveRequest(stopwatch=Stopwatch(0.0)))
    assert answer.termination is Termination.TIME_LIMIT
    assert answer.solution is not None
    assert all(check.holds for check in evaluate(instance, answer.solution).checks)


def test_no_more_trials_than_the_search_space_has(make_instance: MakeInstance) -> None:
    """Places that nobody could fill are not planned: 12 trials would be best, and there are 6 configurations."""
    space = {"rate": {"form": "choices", "values": [1, 2, 3, 4, 5, 6]}}
    instance = make_instance(objective="quality", prior=AT_ONCE, budget="12.5gpu-min", search_space=space)
    tried = [sum(each.trials) for each in family_of(instance).list_first()]
    assert max(tried) == 6


def test_informed_plans_are_written_as_stages(make_instance: MakeInstance) -> None:
    """An executor gets the same kind of plan, with loss as the unit of the objective."""
    instance = make_instance(objective="quality", prior=SLOW)
    result = solve(instance)
    plan = build_plan(instance, result)
    assert (plan.objective, plan.objective_unit) == (result.objective, "loss")
    assert result.solution is not None
    assert isinstance(plan, SeerPlan)
    assert len(plan.rounds) == result.solution.to_json_data()["rounds"]


def test_a_problem_is_asked_by_its_name(make_instance: MakeInstance, example: SeerInstance) -> None:
    """What the command line's --problem changes; without a prior, or for an unknown name, it says what is wrong."""
    instance = make_instance(prior=SLOW)
    assert instance.replace(**instance.fields_of_problem("informed")).objective_unit == "loss"
    assert instance.replace(**instance.fields_of_problem("spend")) == instance
    with pytest.raises(UsageError, match=r"^problem: informed needs the field prior, which instance .* does not have;"):
        example.fields_of_problem("informed")
    with pytest.raises(UsageError, match=r"^problem: got 'informd'; did you mean 'informed'"):
        instance.fields_of_problem("informd")


def test_solvers_of_the_other_problem_refuse(make_instance: MakeInstance) -> None:
    """Nobody spends where quality is asked for, or the other way round."""
    with pytest.raises(
        UnsupportedError, match=r"'spend-exact' does not solve the 'informed' problem.*informed, published"
    ):
        solve(make_instance(objective="quality", prior=SLOW), solver="spend-exact")
    with pytest.raises(UnsupportedError, match=r"^solver 'informed' does not solve the 'spend' problem; it solves"):
        solve(make_instance(), solver="informed")
    assert choose_solver(make_instance(prior=SLOW)).name == "spend-exact"


@settings(max_examples=25, deadline=None)
@given(
    deadline=st.floats(1, 80),
    budget=st.floats(1, 300),
    eta=st.sampled_from([1.5, 2.0, 2.5, 4.0]),
    nu=st.sampled_from([1.0, 1.5, 2.0]),
    most=st.sampled_from([None, 1, 3, 4]),
    resize=st.sampled_from([0.0, 30.0]),
    whole=st.booleans(),
)
def test_every_plan_of_the_family_keeps_every_rule(
    make_instance: MakeInstance,
    deadline: float,
    budget: float,
    eta: float,
    nu: float,
    most: int | None,
    resize: float,
    *,
    whole: bool,
) -> None:
    """First ones, their neighbours, and the published plan where it belongs to the family."""
    instance = make_instance(
        objective="quality", prior=AT_ONCE | {"samples": 10}, deadline_min=deadline, budget=f"{budget}gpu-min",
        eta=eta, nu=nu, most_gpus=most, resize_s=resize, whole_gpus=whole,
    )  # fmt: skip
    family = family_of(instance)
    first = list(itertools.islice(family.list_first(), 0, 400, 9))
    assert first
    near = [other for each in first[::5] for other in itertools.islice(filter(None, family.list_neighbours(each)), 20)]
    for candidate in first + near:
        assert candidate.rounds <= MOST_SAMPLED_ROUNDS
        solution = family.write(candidate)
        failed = [check for check in evaluate(instance, solution).checks if not check.holds]
        assert not failed
        assert family.find(solution) == candidate


def test_the_published_plan_belongs_to_the_family(example: SeerInstance) -> None:
    """With whole eta and widths by nu; not with other widths, or rounds that go on for too long."""
    instance = example.replace(objective="quality", prior=AT_ONCE)
    published = instance.published
    assert published is not None
    family = family_of(instance)
    assert family.widths == (1.0, 2.0, 4.0)
    found = family.find(published)
    assert found == Candidate(3, published.round_min, (8, 4, 0))
    assert family.find(published.replace(brackets=(Bracket(gpus=3.0, trials=(4, 2, 1)),))) is None
    long = (Bracket(gpus=1.0, trials=tuple(2**k for k in range(8, -1, -1))),)
    assert family.find(SeerSolution(round_min=0.01, rounds=9, brackets=long)) is None


def test_widths_that_bring_nothing_are_left_out(make_instance: MakeInstance) -> None:
    """Beyond 4 GPUs the prior knows no speedup: 8 GPUs cost twice as much and are no faster."""
    wide = make_instance(objective="quality", prior=SLOW, least_gpus=2, most_gpus=64, budget="4000gpu-min")
    assert family_of(wide).widths == (2.0, 4.0)
    fractions = make_instance(objective="quality", prior=SLOW, nu=1.5, most_gpus=3.5, whole_gpus=False)
    assert family_of(fractions).widths == pytest.approx((1.0, 1.5, 2.25, 3.375, 3.5))
