"""Limits: each is judged relative to itself; a plan just at it is found, and one just beyond it refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from optplan.contracts import Instance, Status
from optplan.errors import DataError
from optplan.formulations import formulation_of
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.library import build_named
from optplan.solving import solve
from optplan.verification import verify

CASES = Path(__file__).parents[1] / "cases"

#: Within the tolerance of 1e-9, and beyond it.
WITHIN, BEYOND = 0.9e-9, 1.2e-9

_TABLE = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.7, 2.6]}
_FAST = {"form": "table", "gpus": [1, 2], "speedup": [2.0, 3.1]}
_BOA: dict[str, Any] = {
    "formulation": "boa",
    "problem": "rescaling",
    "budget": "20usd/hour",
    "gpu_types": {
        "a": {"price_usd_per_hour": 1.0, "gpus_per_node": 2},
        "b": {"price_usd_per_hour": 2.5, "gpus_per_node": 2},
    },
    "classes": {
        "x": {
            "arrival_rate_per_hour": 1.3,
            "epoch_size_gpu_hours": [1.1, 0.7, 0.9],
            "speedup": {"a": _TABLE, "b": _FAST},
            "rescale_s": 47.0,
        },
        "y": {
            "arrival_rate_per_hour": 0.6,
            "epoch_size_gpu_hours": [2.3],
            "speedup": {"a": _TABLE},
            "rescale_s": 31.0,
        },
    },
}


def boa(path: str, *, unit: str = "", **fields: object) -> Callable[[float | None], Instance]:
    """Return how to make the instance with an amount at a path; None leaves the amount out, or as it is."""

    def limited(amount: float | None) -> Instance:
        data = BoaInstance.parse(_BOA | fields).to_json_data()
        *outer, last = path.split(".")
        place = data
        for part in outer:
            place = place[part]
        if amount is not None:
            place[last] = f"{amount!r}{unit}" if unit else amount
        return BoaInstance.parse(data)

    return limited


def named(name: str, field: str, *, unit: str = "", **fields: object) -> Callable[[float | None], Instance]:
    """Return how to make an instance of the library with an amount in a field; None leaves it as it is."""

    def limited(amount: float | None) -> Instance:
        changes = {} if amount is None else {field: f"{amount!r}{unit}" if unit else amount}
        return build_named(name).replace(**fields | changes)

    return limited


FASTEST = {"objective": "time", "deadline_s": None, "budget": "1usd"}
#: By name: how to make the instance, the check's family, and which side of it is the limit.
KINDS: dict[str, tuple[Callable[[float | None], Instance], str, str]] = {
    "boa budget": (boa("budget", unit="usd/hour"), "budget", "right"),
    "boa budget on whole nodes": (boa("budget", unit="usd/hour", whole_nodes=True), "budget", "right"),
    "boa quota": (boa("gpu_types.b.quota_gpus"), "quota.b", "right"),
    "boa due date": (boa("classes.y.most_mean_jct_s"), "due.y", "right"),
    "boa floor": (boa("classes.x.least_mean_gpus"), "floor.x", "left"),
    "boa floor of mixed plans": (boa("classes.x.least_mean_gpus", policy="mixed"), "floor.x", "left"),
    "rubberband deadline": (named("rubberband-two-stages", "deadline_s"), "deadline", "right"),
    "rubberband budget": (named("rubberband-two-stages", "budget", unit="usd", **FASTEST), "budget", "right"),
    "rubberband budget beside": (named("rubberband-two-stages", "budget", unit="usd"), "budget", "right"),
    "seer deadline": (named("seer-informed-example", "deadline_min"), "deadline", "right"),
    "seer budget": (named("seer-paper-example", "budget", unit="gpu-min"), "budget", "right"),
    "srift deadline": (named("srift-case2", "deadline_s"), "deadline", "right"),
    "srift budget": (named("srift-case1", "budget", unit="usd"), "budget", "right"),
    "throughputs deadline": (named("throughputs-resnet50-gavel", "deadline_s"), "deadline", "right"),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_limit_is_judged_relative_to_itself(kind: str) -> None:
    """A plan that misses its limit by 0.9e-9 of it keeps it, one that misses it by 1.2e-9 breaks it, and only it."""
    limited, family, side = KINDS[kind]
    free = limited(None)
    plan = solve(free).solution
    amount = _use_of(limited, family, side, plan)
    for missed, broken in ((-WITHIN, []), (0.0, []), (WITHIN, []), (BEYOND, [family])):
        instance = limited(amount * (1.0 + missed if side == "left" else 1.0 - missed))
        checks = formulation_of(instance).evaluate(instance, plan).checks
        assert [check.family for check in checks if not check.holds] == broken


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_solver_keeps_what_the_judge_keeps(kind: str) -> None:
    """At the limit the plan is found again; beyond it the answer is another one that holds, or proven infeasible."""
    limited, family, side = KINDS[kind]
    best = solve(limited(None))
    amount = _use_of(limited, family, side, best.solution)
    at = solve(limited(amount))
    assert at.objective == pytest.approx(best.objective, rel=1e-8)
    for missed in (WITHIN, BEYOND, 5e-9):
        instance = limited(amount * (1.0 + missed if side == "left" else 1.0 - missed))
        result = solve(instance)
        assert result.status is not Status.UNKNOWN
        assert verify(instance, result).nothing_wrong
        if missed == WITHIN and result.objective is not None:
            assert result.objective == pytest.approx(best.objective, rel=1e-6)


def _use_of(limited: Callable[[float | None], Instance], family: str, side: str, plan: Any) -> float:  # noqa: ANN401
    """Return what a plan takes of a limit, as the check of a very wide one says."""
    for amount in (None, 1e-3, 1e9):
        try:
            instance = limited(amount)
        except DataError:
            continue
        for check in formulation_of(instance).evaluate(instance, plan).checks:
            if check.family == family and check.holds:
                return check.left if side == "right" else check.right
    raise AssertionError(family)


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")  # widths with which jobs never finish
@pytest.mark.parametrize(
    ("name", "policy", "status"),
    [
        ("floor-below-a-wide-width", "pure", "optimal"),
        ("floor-beyond-all-widths", "pure", "infeasible"),
        ("floor-beyond-all-widths", "mixed", "infeasible"),
    ],
)
def test_a_floor_is_held_against_itself_not_against_the_widest(name: str, policy: str, status: str) -> None:
    """A floor of 1.5 GPUs is not kept by one, where a width of a million runs on 2e9; nor is one of 1,000 by two."""
    instance = BoaInstance.parse(yaml.safe_load((CASES / f"{name}.yaml").read_text()) | {"policy": policy})
    result = solve(instance)
    assert result.status == status
    if result.solution is not None:
        assert result.measures["classes.x.gpus_running"] == 2.0  # two GPUs, of which 1 is useful, for an hour
    assert verify(instance, result).ok


def test_floors_that_shares_of_jobs_decide_in_the_last_digit_are_refused() -> None:
    """Of mixed plans, where some width runs on a thousand times the floor or more, and others fall short of it."""
    data = yaml.safe_load((CASES / "floor-below-a-wide-width.yaml").read_text()) | {"policy": "mixed"}
    with pytest.raises(
        DataError, match=r"^classes\.x\.least_mean_gpus: got 1\.5, and some widths run on up to 2e\+09 G"
    ):
        BoaInstance.parse(data)
    data["classes"]["x"]["least_mean_gpus"] = 0.9  # less than any width runs on
    assert solve(BoaInstance.parse(data)).status is Status.OPTIMAL


@pytest.mark.parametrize("probability", [0.0, 1e-7, 1.0 - 1e-7, 1.0])
def test_probabilities_that_nobody_can_tell_apart_are_refused(probability: float) -> None:
    """Shares of time are known to 1e-9, chances of runs to 1e-6: a risk of less than a thousandfold is no limit."""
    with pytest.raises(
        DataError, match=r"^most_gpus\.probability: got .*; input should be (less|greater) than or equal"
    ):
        BoaInstance.parse(_BOA | {"most_gpus": {"gpus": 20, "probability": probability}})
    with pytest.raises(
        DataError, match=r"^confidence: got .*; input should be (less|greater) than or equal to 0\.(0|9)"
    ):
        build_named("rubberband-two-stages").replace(confidence=probability)
