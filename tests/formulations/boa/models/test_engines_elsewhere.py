"""Large models are stated and solved in a process of their own; the outcome is that of solving them here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optplan.contracts import Status, Termination
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.models import conic
from optplan.instances.library import build_named
from optplan.solvers.programs import TUNING, highs
from optplan.solving import solve
from optplan.verification import verify

#: A type whose table goes up to a million GPUs.
WIDTH_OF_A_MILLION = {
    "formulation": "boa",
    "gpu_types": {
        "a": {"price_usd_per_hour": 1.0, "quota_gpus": 409.82935374749826},
        "b": {"price_usd_per_hour": 0.1},
    },
    "classes": {
        "c0": {
            "arrival_rate_per_hour": 3.941852118995668,
            "epoch_size_gpu_hours": [80.45826372471602],
            "speedup": {
                "a": {"form": "table", "gpus": [1], "speedup": [1.0]},
                "b": {
                    "form": "table",
                    "gpus": [3, 8, 1000000],
                    "speedup": [2.5, 6.666666666666665, 833333.3333333331],
                },
            },
            "rescale_s": 1e-9,
        }
    },
    "budget": "38.058549282478424usd/hour",
    "problem": "rescaling",
    "policy": "pure",
}


@pytest.mark.parametrize(
    ("solver", "problem", "policy"),
    [("conic", "continuous", "mixed"), ("highs", "rescaling", "pure"), ("highs", "rescaling", "mixed")],
)
def test_solved_elsewhere_the_answer_is_the_same(
    solver: str, problem: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plan, bound and multipliers; and with no time there is the bound of a budget that is no object."""
    instance = build_named("boa-two-classes").replace(budget="9gpu", problem=problem, policy=policy)
    here = solve(instance, solver=solver)
    monkeypatch.setattr(conic, "_MANY_ROWS", 1)
    monkeypatch.setattr(highs, "TUNING", replace(TUNING, many_columns=1))
    elsewhere = solve(instance, solver=solver)
    assert here.status is elsewhere.status is Status.OPTIMAL
    assert (elsewhere.objective, elsewhere.bound) == (here.objective, here.bound)
    assert elsewhere.solution == here.solution
    late = solve(instance, solver=solver, time_limit_s=1e-9)
    assert (late.status, late.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
    assert late.bound is not None
    assert verify(instance, late).nothing_wrong


def test_several_types_are_solved_elsewhere_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The conic program of Appendix E."""
    speedup = {"a": {"form": "power", "exponent": 0.5}, "b": {"form": "power", "exponent": 0.6}}
    classes = {
        name: {
            "arrival_rate_per_hour": 2,
            "epoch_size_gpu_hours": [size],
            "speedup": speedup,
            "widths": {"max": widths},
        }
        for name, size, widths in (("one", 1.0, 16), ("other", 3.0, 8))
    }
    types = {"a": {"price_usd_per_hour": 1.0, "quota_gpus": 9.0}, "b": {"price_usd_per_hour": 2.0}}
    fields = {"formulation": "boa", "gpu_types": types, "classes": classes, "budget": "30usd/hour"}
    instance = BoaInstance.parse(fields | {"problem": "continuous", "policy": "mixed"})
    here = solve(instance, solver="conic")
    monkeypatch.setattr(conic, "_MANY_ROWS", 1)
    elsewhere = solve(instance, solver="conic")
    assert (elsewhere.status, elsewhere.objective, elsewhere.bound) == (here.status, here.objective, here.bound)
    assert solve(instance, solver="conic", time_limit_s=1e-9).status is Status.UNKNOWN


@pytest.mark.parametrize("solver", ["auto", "highs", "cp-sat"])
def test_a_width_of_a_million_is_no_obstacle(solver: str) -> None:
    """All widths of type b use the same GPU-time, but for the start: 8 GPUs fit, and a million do not by 3e-9.

    80.46 GPU-hours at a speedup of 6.67 take 43,447 s.
    """
    instance = BoaInstance.parse(WIDTH_OF_A_MILLION)
    result = solve(instance, solver=solver)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(43447.46241134766, rel=1e-9)
    assert verify(instance, result).nothing_wrong
