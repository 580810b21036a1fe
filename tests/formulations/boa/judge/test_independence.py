"""Judge and solvers state BOA's costs apart: an error in either statement is noticed by the other."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optplan.contracts import PathCosts
from optplan.contracts.parts import load
from optplan.errors import EngineError, OptplanError, VerificationError
from optplan.formulations.boa import FORMULATION
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact import costs
from optplan.formulations.boa.judge import duality
from optplan.instances.library import build_named
from optplan.solving import solve
from optplan.verification import verify

TABLE = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.7, 2.5]}
FAST = {"form": "table", "gpus": [1, 2], "speedup": [3.0, 4.5]}
#: Two classes on two types, one of them with a quota and a cost of leaving it.
TYPED: dict[str, Any] = {
    "formulation": "boa",
    "classes": {
        "long": {
            "arrival_rate_per_hour": 1.0,
            "epoch_size_gpu_hours": [2.0, 1.0, 2.0],
            "speedup": {"slow": TABLE, "fast": FAST},
            "rescale_s": 60.0,
            "type_change_s": 30.0,
        },
        "short": {
            "arrival_rate_per_hour": 2.0,
            "epoch_size_gpu_hours": [0.5, 1.0],
            "speedup": {"slow": TABLE, "fast": FAST},
            "rescale_s": 30.0,
            "weight": 2.0,
        },
    },
    "gpu_types": {
        "slow": {"price_usd_per_hour": 1.0, "spot": {"interruptions_per_gpu_hour": 0.01, "restart_s": 60.0}},
        "fast": {"price_usd_per_hour": 4.0, "quota_gpus": 1.0},
    },
    "budget": "12usd/hour",
}


def typed(problem: str, policy: str, **changes: object) -> BoaInstance:
    """Return the typed instance of one problem and policy."""
    return BoaInstance.parse(copy.deepcopy(TYPED) | {"problem": problem, "policy": policy} | changes)


def curved() -> BoaInstance:
    """Return the typed instance with closed forms on the type that is not interrupted."""
    data = copy.deepcopy(TYPED)
    for job_class in data["classes"].values():
        job_class["speedup"]["fast"] = {"form": "amdahl", "serial_fraction": 0.1}
        job_class["widths"] = {"max": 4}
    return BoaInstance.parse(data | {"problem": "continuous", "policy": "mixed"})


def of_library(name: str, **changes: object) -> BoaInstance:
    """Return a library instance with changes."""
    instance = build_named(name)
    assert isinstance(instance, BoaInstance)
    return instance.replace(**changes)


#: Every problem kind with each of its solvers that has certificates.
KINDS: dict[str, tuple[Callable[[], BoaInstance], str]] = {
    "whole pure": (lambda: of_library("boa-two-classes", problem="whole"), "layered-paths"),
    "rescaling pure": (lambda: of_library("boa-two-classes"), "layered-paths"),
    "rescaling mixed": (lambda: of_library("boa-two-epochs", policy="mixed"), "layered-paths"),
    "typed whole mixed": (lambda: typed("whole", "mixed"), "linked-paths"),
    "typed rescaling pure": (lambda: typed("rescaling", "pure"), "linked-paths"),
    "typed rescaling mixed": (lambda: typed("rescaling", "mixed"), "linked-paths"),
    "engine's multipliers": (lambda: typed("rescaling", "mixed"), "highs"),
    "continuous": (lambda: of_library("boa-newtrace", problem="continuous", policy="mixed"), "layered-paths"),
    "continuous typed": (lambda: typed("continuous", "mixed"), "linked-paths"),
    "cone program": (curved, "conic"),
    "infeasible": (lambda: of_library("boa-two-classes", budget="1gpu"), "layered-paths"),
    "infeasible quotas": (lambda: typed("rescaling", "pure", budget="1usd/hour"), "linked-paths"),
}


def patch_everywhere(patch: pytest.MonkeyPatch, name: str, new: object) -> None:
    """Replace a function of the solvers' statement wherever it is used, as an error in its source would."""
    for _, solver in KINDS.values():
        load(FORMULATION.solver(solver).target)  # what is imported later would keep the replacement
    old = getattr(costs, name)
    for path, module in list(sys.modules.items()):
        if path.startswith("optplan.formulations.boa") and getattr(module, name, None) is old:
            patch.setattr(module, name, new)


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@pytest.mark.parametrize("error", [0.97, 1.03])
@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (kind, part)
        for kind in KINDS
        for part in ("seconds_per_hour", "load_of", "count_types")
        # What plans need at least has nothing to do with their time.
        if (kind.startswith("infeasible"), part) != (True, "seconds_per_hour")
    ],
)
def test_an_error_in_the_solvers_costs_is_noticed(
    monkeypatch: pytest.MonkeyPatch, kind: str, part: str, error: float
) -> None:
    """With one factor of the solvers' statement wrong by 3 % no solver's result passes, whatever the problem."""
    make, solver = KINDS[kind]
    instance = make()
    right = getattr(costs, part)
    patch_everywhere(monkeypatch, part, lambda *asked: right(*asked) * error)
    with pytest.raises(OptplanError) as noticed:
        solve(instance, solver=solver)
    # A plan of HiGHS's own statement is added up by the solvers': where these differ, that is noticed first.
    assert isinstance(noticed.value, EngineError if "HiGHS" in str(noticed.value) else VerificationError)


@pytest.mark.parametrize("kind", ["rescaling pure", "typed rescaling pure", "typed rescaling mixed"])
def test_an_error_in_the_solvers_pauses_is_noticed(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A pause that the solver forgets to charge makes its bound and its plan disagree with the judge."""
    make = KINDS[kind][0]
    right = costs.cost_steps

    def without_pauses(instance: BoaInstance) -> list[PathCosts]:
        return [replace(graph, enter_value=0.0 * graph.enter_value) for graph in right(instance)]

    patch_everywhere(monkeypatch, "cost_steps", without_pauses)
    with pytest.raises(VerificationError):
        solve(make(), solver="linked-paths")


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@pytest.mark.parametrize("error", [0.97, 1.03])
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_in_the_judges_costs_is_noticed(monkeypatch: pytest.MonkeyPatch, kind: str, error: float) -> None:
    """With the judge's statement wrong by 3 % true results fail."""
    make, solver = KINDS[kind]
    instance = make()
    result = solve(instance, solver=solver)
    assert all(check.holds for check in verify(instance, result).checks)
    least, path = duality._least_continuous, duality._path_costs

    def wrong_path(*asked: Any) -> PathCosts:  # noqa: ANN401 - whatever it is asked
        right = path(*asked)
        return replace(right, run_value=right.run_value * error, run_consumption=right.run_consumption * error)

    monkeypatch.setattr(duality, "_least_continuous", lambda *asked: least(*asked) * error)
    monkeypatch.setattr(duality, "_path_costs", wrong_path)
    # Made anew, since the judge keeps the costs of the instance that it saw last.
    assert not all(check.holds for check in verify(make(), result).checks)


def test_the_two_statements_agree() -> None:
    """Step by step both say the same, on two types with pauses, changes of type, interruptions and a quota."""
    for problem in ("whole", "rescaling"):
        instance = typed(problem, "pure")
        for own, theirs in zip(duality.path_costs(instance), costs.cost_steps(instance), strict=True):
            assert (own.labels, own.limits) == (theirs.labels, theirs.limits)
            for part in ("group", "run_value", "run_consumption", "enter_value", "enter_consumption"):
                np.testing.assert_allclose(getattr(own, part), getattr(theirs, part), rtol=1e-13)
