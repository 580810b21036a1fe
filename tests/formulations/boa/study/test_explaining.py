"""Explanations: neighbours alone are re-evaluated, forced ones are the optima of the problem with the choice forced."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.contracts import (
    Alternative,
    Direction,
    ExplainedChoice,
    Explanation,
    Result,
    Solution,
    Status,
    Termination,
)
from optplan.errors import UnsupportedError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.instances.files import read_instance
from optplan.instances.generators import random_boa
from optplan.progress import Event
from optplan.solving import explain, solve

NARROWER, WIDER, OTHER_TYPE, ONE_WIDTH = Direction


def one_table(**changes: Any) -> BoaInstance:  # noqa: ANN401 - fields of the instance
    """Return one job an hour of one GPU-hour on 1, 2 or 4 GPUs: 3600, 2250, 1800 s with 1, 1.25, 2 GPUs."""
    instance = read_instance("boa-one-table").replace(**changes)
    assert isinstance(instance, BoaInstance)
    return instance


def two_types(**changes: Any) -> BoaInstance:  # noqa: ANN401 - fields of the instance
    """Return the same job on a t4 for $1 (1, 2 GPUs: 3600, 2250 s, $1, $1.25) or an a100 for $4 (1800, 900 s, $2)."""

    def table(*speeds: float) -> dict[str, Any]:
        return {"form": "table", "gpus": [1, 2], "speedup": list(speeds)}

    fields: dict[str, Any] = {
        "name": "two-types",
        "formulation": "boa",
        "classes": {
            "job": {
                "arrival_rate_per_hour": 1.0,
                "epoch_size_gpu_hours": [1.0],
                "speedup": {"t4": table(1.0, 1.6), "a100": table(2.0, 4.0)},
            }
        },
        "gpu_types": {"t4": {"price_usd_per_hour": 1.0}, "a100": {"price_usd_per_hour": 4.0}},
        "budget": "2usd/hour",
        "problem": "whole",
    }
    return BoaInstance.parse(fields | changes)


def explained(instance: BoaInstance, **settings: Any) -> tuple[Result[Solution], Explanation]:  # noqa: ANN401
    """Solve and explain."""
    result = solve(instance, **settings)
    return result, explain(instance, result)


def told(alternative: Alternative) -> tuple[Direction, str, float | None, float | None, float | None]:
    """Return what an alternative says, but for the forced objective and bound."""
    one = alternative
    return one.direction, one.label, one.objective_change, one.budget_change, one.forced_cost


def about(*figures: float | None) -> tuple[Any, ...]:
    """Return figures to compare with, to rounding."""
    return tuple(None if figure is None else pytest.approx(figure, rel=1e-9) for figure in figures)


def test_one_choice_by_hand() -> None:
    """2 GPUs use the whole budget: 1 costs 1350 s and saves a quarter GPU, 4 do not fit."""
    result, found = explained(one_table())
    assert (found.objective, found.best_objective, found.best_bound) == about(2250, 2250, 2250)
    assert (found.formulation, found.instance_hash, found.solver) == ("boa", result.instance_hash, "layered-paths")
    assert (found.objective_unit, found.budget_unit) == ("s", "gpu")
    assert found.multipliers == result.certificates[0].multipliers
    (choice,) = found.choices
    assert (choice.subject, choice.branch, choice.share, choice.first, choice.last) == ("job", 1, 1.0, 1, 1)
    assert choice.label == "2 GPUs"
    narrower, wider = choice.alternatives
    assert told(narrower) == (NARROWER, "1 GPU", *about(1350, -0.25, 1350))
    assert told(wider) == (WIDER, "4 GPUs", *about(-450, 0.75, None))
    assert (narrower.forced_objective, narrower.forced_bound) == about(3600, 3600)
    assert (wider.forced_objective, wider.forced_bound) == (None, None)
    # 1350 s lost for a quarter GPU saved; 450 s saved for three quarters spent.
    assert (narrower.exchange_rate, wider.exchange_rate) == about(5400, 600)


def test_budget_in_money_of_one_type_counts_gpus() -> None:
    """$2.50 an hour at $2 a GPU are 1.25 GPUs; changes of the budget are in GPUs, as the unit says."""
    _, found = explained(one_table(budget="2.5usd/hour"))
    assert found.budget_unit == "gpu"
    assert found.choices[0].alternatives[0].budget_change == pytest.approx(-0.25)


def test_mixed_plan_by_hand() -> None:
    """1.625 GPUs: half the jobs on 2, half on 4, 2025 s. Alone means that half, forced means all jobs of the class."""
    instance = one_table(budget="1.625gpu", policy="mixed")
    result, found = explained(instance)
    assert result.objective == pytest.approx(2025)
    assert found.multipliers == {"budget": pytest.approx(600)}
    by_label = {choice.label: choice for choice in found.choices}
    assert [choice.share for choice in found.choices] == [pytest.approx(0.5), pytest.approx(0.5)]
    assert {choice.branch for choice in found.choices} == {1, 2}
    assert [told(one) for one in by_label["2 GPUs"].alternatives] == [
        (NARROWER, "1 GPU", *about(675, -0.125, 1575)),
        (WIDER, "4 GPUs", *about(-225, 0.375, None)),
        (ONE_WIDTH, "2 GPUs, always", *about(None, None, 225)),
    ]
    assert [told(one) for one in by_label["4 GPUs"].alternatives] == [
        (NARROWER, "2 GPUs", *about(225, -0.375, 225)),
        (ONE_WIDTH, "4 GPUs, always", *about(None, None, None)),
    ]
    # Every exchange between the two widths in use is at the shadow price.
    assert by_label["4 GPUs"].alternatives[0].exchange_rate == pytest.approx(600)


def test_two_types_by_hand() -> None:
    """2 a100 cost $2 and take 900 s; 1 a100 costs as much, and the best t4 that fits takes 2250 s."""
    _, found = explained(two_types())
    assert found.budget_unit == "usd/hour"
    (choice,) = found.choices
    assert choice.label == "2 a100"
    narrower, other = choice.alternatives
    assert told(narrower) == (NARROWER, "1 a100", *about(900, 0, 900))
    assert narrower.exchange_rate is None
    assert told(other) == (OTHER_TYPE, "any t4", *about(None, None, 1350))


def test_nothing_else_is_allowed() -> None:
    """A class of one width and one type has no alternatives, and is listed all the same."""
    _, found = explained(one_table(widths={"only": [2]}))
    assert [choice.alternatives for choice in found.choices] == [()]


def test_runs_of_epochs() -> None:
    """Each run of epochs with the same width is one choice; the class named alone is explained alone."""
    instance = read_instance("boa-two-classes")
    assert isinstance(instance, BoaInstance)
    result = solve(instance)
    found = explain(instance, result, only=("vision",))
    assert [(choice.subject, choice.first, choice.last, choice.label) for choice in found.choices] == [
        ("vision", 1, 2, "4 GPUs"),
        ("vision", 3, 3, "8 GPUs"),
    ]
    assert [one.label for one in found.choices[1].alternatives] == ["4 GPUs", "8 GPUs, always"]


def list_paths(instance: BoaInstance, name: str) -> dict[tuple[int, ...], tuple[float, float]]:
    """Return for all paths of a class its part of the objective in seconds and of the GPUs, by Lemma 4.8."""
    job_class = instance.classes[name]
    widths, speeds = instance.allowed_widths(name), instance.speeds(name)
    share = job_class.weight * job_class.arrival_rate_per_hour / instance.total_weighted_rate_per_hour
    paths = {}
    for columns in product(range(widths.size), repeat=job_class.num_epochs):
        hours = gpu_hours = 0.0
        for epoch, column in enumerate(columns):
            row = epoch if len(speeds) > 1 else 0
            spent = job_class.epoch_size_gpu_hours[epoch] / speeds[row, column]
            if instance.problem == "rescaling" and (epoch == 0 or columns[epoch - 1] != column):
                spent += job_class.rescale_s / 3600
            hours += spent
            gpu_hours += widths[column] * spent
        held = tuple(widths[list(columns)].tolist())
        paths[held] = (3600 * share * hours, job_class.arrival_rate_per_hour * gpu_hours)
    return paths


def brute_force(instance: BoaInstance, choice: ExplainedChoice, direction: Direction, width: int) -> float | None:
    """Return the least objective of all pure plans in which a choice is forced."""
    forced = slice(None) if direction is ONE_WIDTH else slice(choice.first - 1, choice.last)
    best = None
    kept = [
        [
            cost
            for held, cost in list_paths(instance, name).items()
            if name != choice.subject or all(one == width for one in held[forced])
        ]
        for name in instance.classes
    ]
    for plan in product(*kept):
        objective, used = np.sum(plan, axis=0).tolist()
        if used <= instance.limits["budget"] * (1 + 1e-9) and (best is None or objective < best):
            best = objective
    return best


@given(seed=st.integers(0, 10_000), room=st.floats(1.05, 2.5))
def test_forced_choices_are_optima_and_changes_alone_are_evaluations(seed: int, room: float) -> None:
    """Against all plans: what is forced is the best of those with the choice forced, or none keeps the budget."""
    instance = random_boa(classes=2, epochs=2, widths=3, seed=seed)
    load = sum(min(use for _, use in list_paths(instance, name).values()) for name in instance.classes)
    instance = instance.replace(budget=f"{float(load) * room!r}gpu")
    result, found = explained(instance)
    judged = evaluate(instance, BoaSolution.parse((result.solution or Solution()).to_json_data()))
    assert found.best_objective == result.objective
    for choice in found.choices:
        for one in choice.alternatives:
            width = int(one.label.split()[0])
            best = brute_force(instance, choice, one.direction, width)
            if best is None:
                assert (one.forced_objective, one.forced_bound, one.forced_cost) == (None, None, None)
            else:
                assert one.forced_objective == pytest.approx(best, rel=1e-6)
                assert one.forced_cost == pytest.approx(best - judged.objective, abs=2e-6 * best)
                assert one.forced_bound is not None
                assert one.forced_bound <= best * (1 + 1e-9)
            if one.direction is ONE_WIDTH:
                assert (one.objective_change, one.budget_change) == (None, None)
                continue
            changed = _change(result.solution, choice, width)
            again = evaluate(instance.replace(budget=None), changed)
            more_s = again.objective - judged.objective
            more_gpus = again.consumption["budget"] - judged.consumption["budget"]
            assert (one.objective_change, one.budget_change) == (more_s, more_gpus)


def _change(solution: Solution | None, choice: ExplainedChoice, width: int) -> BoaSolution:
    assert isinstance(solution, BoaSolution)
    widths = solution.branches[choice.subject][0].widths.copy()
    widths[choice.first - 1 : choice.last] = width
    return BoaSolution(branches={**solution.branches, choice.subject: (Branch(widths=widths),)})


@given(seed=st.integers(0, 10_000), room=st.floats(1.05, 2.5))
def test_forcing_in_mixed_plans_never_helps(seed: int, room: float) -> None:
    """Forced bounds are below forced objectives, which are no better than the proven mixed optimum."""
    instance = random_boa(classes=2, epochs=3, widths=4, seed=seed).replace(policy="mixed")
    load = sum(min(use for _, use in list_paths(instance, name).values()) for name in instance.classes)
    result, found = explained(instance.replace(budget=f"{float(load) * room!r}gpu"))
    assert result.bound is not None
    for choice in found.choices:
        for one in choice.alternatives:
            if one.forced_objective is not None:
                assert one.forced_bound is not None
                assert one.forced_cost is not None
                assert one.forced_objective >= result.bound * (1 - 1e-9)
                assert one.forced_bound <= one.forced_objective
                assert one.forced_cost >= 0


def test_heuristic_result_is_held_against_the_best() -> None:
    """A result without a bound is not the best plan; forcing what the best plan has costs nothing, and never less."""
    instance = read_instance("boa-two-classes")
    assert isinstance(instance, BoaInstance)
    best = solve(instance)
    heuristic, found = explained(instance, solver="fixed-width")
    assert (heuristic.status, heuristic.certificates) == (Status.FEASIBLE, ())
    assert found.multipliers == {}
    assert found.objective == heuristic.objective
    assert (found.best_objective, found.best_bound) == about(best.objective, best.bound)
    assert best.objective is not None
    assert found.objective > best.objective
    costs = [one.forced_cost for choice in found.choices for one in choice.alternatives]
    # The best plan has speech on 3 GPUs, the heuristic on 4.
    assert 0.0 in costs
    assert min(cost for cost in costs if cost is not None) == 0.0


def test_result_of_a_time_limit_is_solved_anew() -> None:
    """A feasible result with a loose bound: the best plan and its proof come from a solve of their own."""
    instance = read_instance("boa-two-classes")
    assert isinstance(instance, BoaInstance)
    optimal = solve(instance)
    loose = optimal.replace(status=Status.FEASIBLE, termination=Termination.TIME_LIMIT, bound=100.0, certificates=())
    found = explain(instance, loose)
    assert (found.best_objective, found.best_bound) == about(optimal.objective, optimal.bound)
    assert found.choices == explain(instance, optimal).choices


def test_what_is_not_found_in_time_is_not_called_infeasible() -> None:
    """With quotas and no time there is a bound and no plan: 2 t4 need 1.25 of the 1.1, and nobody looks any further."""
    types = {
        "t4": {"price_usd_per_hour": 1.0, "quota_gpus": 1.1},
        "a100": {"price_usd_per_hour": 4.0, "quota_gpus": 0.6},
    }
    instance = two_types(gpu_types=types)
    result = solve(instance)
    found = explain(instance, result, time_limit_s=1e-9)
    other = found.choices[0].alternatives[-1]
    assert other.direction is OTHER_TYPE
    assert (other.forced_objective, other.forced_cost) == (None, None)
    assert other.forced_bound is not None
    assert other.forced_bound <= 3600  # one t4: the best that fits
    (again,) = explain(instance, result).choices
    assert again.alternatives[-1].forced_cost == pytest.approx(2700)


def test_time_limit_leaves_bounds_below_objectives() -> None:
    """With no time, layered paths still give plans and weaker bounds; nothing claims more than is proven."""
    instance = read_instance("boa-two-classes")
    assert isinstance(instance, BoaInstance)
    result = solve(instance)
    exact = [one for choice in explain(instance, result).choices for one in choice.alternatives]
    hasty = [one for choice in explain(instance, result, time_limit_s=1e-9).choices for one in choice.alternatives]
    for one, proven in zip(hasty, exact, strict=True):
        assert one.forced_objective is not None
        assert proven.forced_objective is not None
        assert one.forced_bound is not None
        assert one.forced_bound <= proven.forced_objective * (1 + 1e-9)
        assert one.forced_objective >= proven.forced_objective * (1 - 1e-9)


def test_a_better_plan_found_by_forcing_is_the_best_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forced plan is a plan: where it beats a best one that is not proven, all costs are compared with it."""
    from optplan.formulations.boa.exact.paths import PathsAnswer
    from optplan.formulations.boa.study import explaining

    # Nothing forced: 2250 s, not proven below 1500 s. One GPU: 2000 s, bounded by 1000 s, which is less than is known
    # of all plans. Four GPUs: nothing found in time.
    answers = iter(
        [PathsAnswer(None, 2250.0, 1500.0), PathsAnswer(None, 2000.0, 1000.0), PathsAnswer(None, None, 900.0)]
    )
    monkeypatch.setattr(explaining, "solve_costs", lambda *_, **__: next(answers))
    instance = one_table()
    result = solve(instance)
    loose = result.replace(status=Status.FEASIBLE, termination=Termination.TIME_LIMIT, bound=1400.0, certificates=())
    found = explain(instance, loose)
    assert (found.objective, found.best_objective, found.best_bound) == about(2250, 2000, 1500)
    narrower, wider = found.choices[0].alternatives
    assert (narrower.forced_objective, narrower.forced_bound, narrower.forced_cost) == (2000, 1500, 0)
    assert (wider.forced_objective, wider.forced_bound, wider.forced_cost) == (None, 1500, None)


def test_the_same_question_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both halves of a mixed class force the same widths; each is solved once."""
    from optplan.formulations.boa.exact.paths import solve_costs
    from optplan.formulations.boa.study import explaining

    asked = []

    def count(*arguments: Any, **settings: Any) -> Any:  # noqa: ANN401 - of the function replaced
        asked.append(arguments[1][0].run_value.tobytes())
        return solve_costs(*arguments, **settings)

    monkeypatch.setattr(explaining, "solve_costs", count)
    instance = one_table(budget="1.625gpu", policy="mixed")
    explain(instance, solve(instance))
    assert len(asked) == len(set(asked)) == 3  # widths 1, 2 and 4


def test_progress_is_told() -> None:
    """An event after each choice; the last one says that all is done."""
    instance, events = read_instance("boa-two-classes"), list[Event]()
    found = explain(instance, solve(instance), on_event=events.append)
    assert [event.stage for event in events] == ["explain"] * len(found.choices)
    assert events[-1].fraction == 1.0


def test_what_cannot_be_explained() -> None:
    """No solution, a broken one, real widths, unknown classes, a time limit of zero, no result: all are named."""
    instance = one_table()
    result = solve(instance)
    short = instance.replace(budget="0.5gpu")
    with pytest.raises(UsageError, match=r"the result has no solution \(status infeasible\); there is nothing to look"):
        explain(short, solve(short))
    broken = result.replace(solution=BoaSolution(branches={"job": (Branch(widths=np.array([3.0])),)}))
    with pytest.raises(UsageError, match=r"plan does not hold: allowed-width job\[1\].*`optplan verify` shows all"):
        explain(instance, broken)
    over = result.replace(solution=BoaSolution(branches={"job": (Branch(widths=np.array([4.0])),)}))
    with pytest.raises(UsageError, match="plan does not hold: budget: "):
        explain(instance, over)
    real = instance.replace(problem="continuous", policy="mixed")
    with pytest.raises(UnsupportedError, match="every width has the same marginal rate, the shadow price"):
        explain(real, solve(real))
    with pytest.raises(UsageError, match="no class 'jbo' in 'boa-one-table'; did you mean 'job'"):
        explain(instance, result, only=("jbo",))
    with pytest.raises(UsageError, match="time_limit_s: got 0; seconds above zero are needed"):
        explain(instance, result, time_limit_s=0)
    with pytest.raises(UsageError, match="on_event: got 1; a function that takes an Event is needed"):
        explain(instance, result, on_event=1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the result was made for boa instance 'boa-one-table' with hash"):
        explain(short, result)
