"""Every registered solver on small instances with known optima: run, verified and compared."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from optplan.contracts import BoundProof, Instance, Sense, Status, Termination
from optplan.contracts.parts import load
from optplan.contracts.registry import Formulation, SolverEntry
from optplan.formulations import formulation_of, formulations
from optplan.formulations.boa.data.instance import Policy, Problem
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.solving import build_plan, model, solve
from optplan.verification import verify

from .boa_cases import A100, T4, boa_cases, make_typed
from .fleet_cases import srift_cases, throughputs_cases
from .known_optima import Case
from .search_cases import rubberband_cases, seer_cases

#: Relative tolerance between an exact solver's objective and the known one: the gap that is asked for.
TOLERANCE = 1e-6

#: The same for plans, in which real widths become whole ones. Where jobs are divided among types at real widths, the
#: objective is flat around the optimum, so widths are known to the square root of the gap only; a plan shows that.
PLAN_TOLERANCE = 2 * TOLERANCE**0.5


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "boa": boa_cases,
    "rubberband": rubberband_cases,
    "seer": seer_cases,
    "srift": srift_cases,
    "throughputs": throughputs_cases,
}


@cache
def cases_of(formulation: str) -> tuple[Case, ...]:
    """Return a formulation's cases, which are made once: every plan of many of them is judged for that."""
    return tuple(CASES[formulation]()) if formulation in CASES else ()


def model_cases() -> Iterator[Case]:
    """Yield every case of every formulation that a declarative model states."""
    for formulation in CASES:
        for case in cases_of(formulation):
            asked = getattr(case.shape, "confidence", None) or getattr(case.shape, "bound_by_law", "")
            sampled = getattr(case.shape, "objective", "") == "quality"
            nothing = isinstance(case.shape, SeerInstance) and case.shape.brackets is None
            if not (asked or sampled or nothing):
                yield case


def _size_and_kind(entry: SolverEntry, instance: Instance) -> bool:
    """Whether an instance is of the kind and size that a solver takes, installed or not, and of its features."""
    asked = formulation_of(instance).describe(instance)
    fits = entry.max_cells is None or asked.cells <= entry.max_cells
    able = asked.features <= entry.features and not (entry.supports and load(entry.supports)(instance))
    return fits and able and asked.problem in entry.problems and asked.policy in entry.policies


PAIRS = [
    (formulation, entry, case)
    for formulation in formulations().values()
    for case in cases_of(formulation.name)
    for entry in formulation.solvers
    if _size_and_kind(entry, case.shape)
]


def skip_if_missing(formulation: Formulation, entry: SolverEntry) -> None:
    """Skip by name what cannot run here."""
    if not entry.available():
        pytest.skip(f"solver {entry.name} of {formulation.name}: package {entry.needs} is not installed")


@pytest.mark.parametrize(
    ("formulation", "entry", "case"), PAIRS, ids=[f"{f.name}-{entry.name}-{case.name}" for f, entry, case in PAIRS]
)
def test_solvers_reach_known_optima(formulation: Formulation, entry: SolverEntry, case: Case) -> None:
    """Exact solvers to the gap asked for, with a bound that proves it; heuristics never beyond; all of it verified."""
    skip_if_missing(formulation, entry)
    # The limit is no hurry, but leave: the eager mode stops after 50 ms unless told otherwise.
    result = solve(case.instance, solver=entry.name, gap=TOLERANCE, seed=1, time_limit_s=600.0)
    assert verify(case.instance, result).nothing_wrong
    assert result.solver == entry.name
    assert result.termination is Termination.COMPLETED
    if case.optimum is None:
        assert result.status is Status.INFEASIBLE
        assert result.infeasibility is not None
        assert result.infeasibility.relaxations or not case.instance.limits
        return
    optimum, sign = abs(case.optimum), 1.0 if case.instance.sense is Sense.MINIMISE else -1.0
    assert result.bound is None or sign * (result.bound - case.optimum) <= TOLERANCE * optimum
    if BoundProof.ENGINE in entry.proofs and result.status is not Status.OPTIMAL:
        # An engine's model may leave out a part of the costs; it says so, and its bound holds for the rest.
        assert any("so its bound is without them" in warning for warning in result.warnings)
        assert result.objective is None or result.objective >= case.optimum * (1 - 1e-9)
    elif entry.exact:
        assert result.status is Status.OPTIMAL
        assert result.bound_proof in entry.proofs
        assert result.objective == pytest.approx(case.optimum, rel=2 * TOLERANCE)
        assert result.bound is not None
        features = formulation.describe(case.instance).features
        planned = PLAN_TOLERANCE if "real-widths" in features else 2 * TOLERANCE
        assert build_plan(case.instance, result).objective == pytest.approx(case.optimum, rel=planned)
    elif result.objective is not None:
        assert result.status is Status.FEASIBLE or result.bound_proof in entry.proofs
        assert sign * (result.objective - case.optimum) >= -1e-9 * optimum
    again = solve(case.instance, solver=entry.name, gap=TOLERANCE, seed=1, time_limit_s=600.0)
    assert again.objective == result.objective
    assert again.solution == result.solution


@pytest.mark.parametrize("formulation", formulations().values(), ids=lambda f: f.name)
def test_every_solver_has_cases(formulation: Formulation) -> None:
    """A new formulation or solver brings instances with known optima; a feasible and an infeasible one at least."""
    for entry in formulation.solvers:
        known = [case.known for f, e, case in PAIRS if (f, e) == (formulation, entry)]
        assert None in known, f"no infeasible case for {entry.name} of {formulation.name}"
        assert any(optimum is not None for optimum in known), f"no case for {entry.name} of {formulation.name}"


@pytest.mark.parametrize("formulation", formulations().values(), ids=lambda f: f.name)
def test_every_feature_has_cases(formulation: Formulation) -> None:
    """What a solver says it can do beyond the plain instances is tried."""
    needed = [(entry, formulation.describe(c.instance).features) for f, entry, c in PAIRS if f is formulation]
    for entry in formulation.solvers:
        # A solver of one limit alone takes no instance without it.
        own = {"capped-paths": {"most-gpus"}, "committed-paths": {"commitments"}}.get(entry.name, set())
        tried = [features - own for other, features in needed if other is entry]
        assert frozenset() in tried, f"no plain case for {entry.name} of {formulation.name}"
        for feature in sorted(entry.features - own):
            assert any(feature in features for features in tried), f"no case of {feature} for {entry.name}"


INFEASIBLE = [
    (formulation, case)
    for formulation in formulations().values()
    for case in {case.name: case for f, _, case in PAIRS if f is formulation and case.known is None}.values()
    if len([entry for f, entry, one in PAIRS if f is formulation and one is case]) > 1
]


@pytest.mark.parametrize(("formulation", "case"), INFEASIBLE, ids=[case.name for _, case in INFEASIBLE])
def test_all_solvers_give_the_same_reason(formulation: Formulation, case: Case) -> None:
    """Why there is no plan, and what would help, does not depend on who was asked.

    Only how much is enough for a pure plan within several limits some engines leave open: they never ask for more.
    """
    said = {
        entry.name: solve(case.instance, solver=entry.name).infeasibility
        for entry in formulation.solvers
        if _size_and_kind(entry, case.instance) and entry.available()
    }
    assert len(said) > 1
    known = [one for one in said.values() if one is not None and all(each.enough for each in one.relaxations)]
    assert len(set(known or said.values())) == 1, said
    for one in said.values() if known else ():
        assert one is not None
        assert (one.hopeless, one.factor) == (known[0].hopeless, known[0].factor)
        assert [each.limit for each in one.relaxations] == [each.limit for each in known[0].relaxations]
        for own, best in zip(one.relaxations, known[0].relaxations, strict=True):
            assert best.enough is not None
            assert own.enough in (None, best.enough)
            assert own.least_feasible <= best.enough * (1.0 + TOLERANCE), said


def test_limits_that_only_mixed_plans_keep_are_infeasible_for_pure_ones() -> None:
    """A load of 6 GPUs, and quotas of 4 and 3: no whole class fits one type, and half of it on each does.

    Whoever is asked says that there is no pure plan, proves it, and says which quotas would do and that mixed plans
    keep these; and so they do.
    """
    curve = {"form": "table", "gpus": [1], "speedup": [1.0]}
    changes = {
        "classes": {
            "bert": {
                "arrival_rate_per_hour": 1.0,
                "epoch_size_gpu_hours": [6.0],
                "speedup": {"t4": curve, "a100": curve},
            }
        },
        "gpu_types": {"t4": T4 | {"quota_gpus": 4.0}, "a100": A100 | {"quota_gpus": 3.0}},
        "budget": "100usd/hour",
    }
    pure = make_typed(changes)
    formulation = formulation_of(pure)
    asked = [entry for entry in formulation.solvers if _size_and_kind(entry, pure) and entry.available()]
    assert len(asked) > 1
    for entry in asked:
        result = solve(pure, solver=entry.name)
        assert (result.status, result.termination) == (Status.INFEASIBLE, Termination.COMPLETED)
        assert result.infeasibility is not None
        assert "although mixed plans do (policy mixed)" in result.infeasibility.reason, entry.name
        least = {each.limit: each.least_feasible for each in result.infeasibility.relaxations}
        assert least == {"quota.t4": pytest.approx(6.0), "quota.a100": pytest.approx(6.0)}
        assert [each.limit for each in result.infeasibility.hopeless] == ["budget"]
        assert verify(pure, result).ok
    mixed = solve(pure.replace(policy=Policy.MIXED))
    assert mixed.status is Status.OPTIMAL
    assert mixed.objective == pytest.approx(6 * 3600.0)


@pytest.mark.parametrize("case", list(model_cases()), ids=operator.attrgetter("name"))
def test_declarative_model_has_the_known_optimum(case: Case) -> None:
    """The model that users hold has the optimum of the exact solvers; a relaxation bounds it and finds a plan."""
    is_real = getattr(case.instance, "problem", "") == Problem.CONTINUOUS
    stated = model(case.instance, engine="cvxpy" if is_real else "pyomo")
    result = stated.solve()
    if case.optimum is None:
        assert result.status is Status.INFEASIBLE
        assert result.infeasibility is not None
        return
    assert result.objective is not None
    assert result.bound is not None
    known = case.optimum
    if not stated.leaves_out:
        assert result.objective == pytest.approx(known, rel=TOLERANCE)
        return
    least, most = (result.bound, result.objective)
    if case.instance.sense is Sense.MAXIMISE:
        least, most = most, least
    assert least <= known * (1 + TOLERANCE)
    assert most >= known * (1 - TOLERANCE)
