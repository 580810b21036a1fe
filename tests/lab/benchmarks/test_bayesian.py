"""Bayesian optimisation as a black box: seeded, sound, and honest about what it has not found."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
from suites import bayesian
from suites.bayesian import solve_bayesian

from optplan.contracts import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.errors import UsageError
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.models.general_engines import solve_enumeration
from optplan.progress import Stopwatch

MakeInstance = Callable[..., SriftInstance]

# Nothing of it is loaded where tests are collected: it takes half a second.
pytestmark = pytest.mark.skipif(find_spec("bayes_opt") is None, reason="benchmarks/requirements.txt is not installed")


def fleet(answer: Answer[SriftSolution]) -> list[tuple[str, int, int]]:
    """Return (type, count, batch) by group; nothing without a solution."""
    return [] if answer.solution is None else [(g.type, g.count, g.batch) for g in answer.solution.groups]


def test_a_space_smaller_than_the_evaluations_is_seen_as_a_whole(make_srift: MakeInstance) -> None:
    """Up to 4 VMs with 16 or 32 samples: 64 are reached by 4 @ 16 in 64 ms and by 2 @ 32 in 128 ms."""
    instance = make_srift(types={"a": {"available": 4, "batches": [16, 32]}}, objective="time")
    answer = solve_bayesian(instance, SolveRequest())
    assert fleet(answer) == [("a", 4, 16)]
    assert answer.objective == pytest.approx(6.4)
    assert (answer.status, answer.bound, answer.bound_proof) == (Status.FEASIBLE, None, BoundProof.NONE)
    assert answer.termination is Termination.COMPLETED
    assert answer.counters["fleets"] <= 8
    assert answer.engine == "bayesian-optimization"
    assert answer.engine_version


def test_a_space_of_one_fleet_needs_no_optimiser(make_srift: MakeInstance) -> None:
    """One VM that is running, with one batch."""
    instance = make_srift(types={"a": {"available": 1, "running": 1, "batches": [64]}})
    assert fleet(solve_bayesian(instance, SolveRequest())) == [("a", 1, 64)]


def test_the_seed_decides(make_srift: MakeInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seed gives the same answer, suggestions included; what it finds keeps every rule and limit."""
    types: dict[str, dict[str, Any]] = {"a": {"available": 16}, "b": {"gpu": "fast", "price_usd_per_hour": 3}}
    instance = make_srift(types=types, deadline_s=4)
    monkeypatch.setattr(bayesian, "EVALUATIONS", bayesian.RANDOM_FIRST + 4)
    first, again = (solve_bayesian(instance, SolveRequest(seed=3)) for _ in range(2))
    assert first == again
    assert first.solution is not None
    evaluation = evaluate(instance, first.solution)
    assert all(check.holds for check in evaluation.checks)
    assert evaluation.objective == pytest.approx(first.objective)
    optimum = solve_enumeration(instance, SolveRequest()).objective
    assert optimum is not None
    assert evaluation.objective >= optimum * (1 - 1e-9)


def test_one_count_is_moved_so_that_the_batch_is_met(make_srift: MakeInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 120 counts and batches of two types few are 61 samples in all, and some of ten are, by moving one count.

    61 is prime and 1 one of the batches, so that the other type's VMs leave a remainder that one count can take. With
    7 and 5 samples on VMs only 3 + 8 and 8 + 1 of them are 61: the first that is looked at is none of these.
    """
    monkeypatch.setattr(bayesian, "EVALUATIONS", 10)
    types = {"a": {"available": 61, "batches": [1]}, "b": {"available": 20, "batches": [2, 4, 8]}}
    assert solve_bayesian(make_srift(types=types, global_batch=61), SolveRequest()).solution is not None
    monkeypatch.setattr(bayesian, "EVALUATIONS", 1)
    types = {"a": {"available": 8, "batches": [7]}, "b": {"available": 12, "batches": [5]}}
    missed = solve_bayesian(make_srift(types=types, global_batch=61), SolveRequest())
    assert missed.status is Status.UNKNOWN
    assert missed.warnings == (
        "no fleet of the 1 that Bayesian optimisation has looked at reaches the batch within the limits",
    )


def test_types_that_must_not_be_mixed(make_srift: MakeInstance) -> None:
    """Fleets of several types are penalised, and never the answer."""
    types = {"a": {"available": 2, "batches": [32]}, "b": {"available": 2, "batches": [32]}}
    answer = solve_bayesian(make_srift(types=types, mixed=False), SolveRequest())
    assert fleet(answer) in ([("a", 2, 32)], [("b", 2, 32)])


def test_it_ends_with_its_time(make_srift: MakeInstance) -> None:
    """The clock is looked at after each evaluation."""
    answer = solve_bayesian(make_srift(), SolveRequest(stopwatch=Stopwatch(1e-9)))
    assert answer.termination is Termination.TIME_LIMIT
    assert answer.counters["fleets"] == 1.0


def test_without_the_library_the_message_says_what_to_install(
    make_srift: MakeInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no part of optplan, nor of an extra."""
    monkeypatch.setitem(sys.modules, "bayes_opt", None)
    with pytest.raises(UsageError, match=r"bayesian-optimization is not installed; run: pip install -r benchmarks/"):
        solve_bayesian(make_srift(), SolveRequest())
