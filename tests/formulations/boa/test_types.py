"""Several GPU types: the judge by hand, and every change of a solution noticed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Policy
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.solving import solve
from optplan.verification import verify

Data = dict[str, Any]

#: Two types of which either may be left at a cost, and a class that can run on one of them only.
HAND: Data = {
    "formulation": "boa",
    "classes": {
        "bert": {
            "arrival_rate_per_hour": 2.0,
            "epoch_size_gpu_hours": [1.0, 2.0, 4.0],
            "speedup": {
                "t4": {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.6]},
                "a100": {"form": "table", "gpus": [1, 2], "speedup": [[4.0, 6.0], [4.0, 8.0], [5.0, 8.0]]},
            },
            "rescale_s": 36.0,
            "rescale_s_on": {"a100": 72.0},
            "type_change_s": 108.0,
            "type_change_s_from": {"a100": {"t4": 18.0}},
            "weight": 3.0,
        },
        "yolo": {
            "arrival_rate_per_hour": 1.0,
            "epoch_size_gpu_hours": [3.0],
            "speedup": {"t4": {"form": "table", "gpus": [1, 2], "speedup": [1.0, 2.0]}},
            "rescale_s": 360.0,
        },
    },
    "gpu_types": {"t4": {"price_usd_per_hour": 0.5}, "a100": {"price_usd_per_hour": 3.0, "quota_gpus": 3.0}},
    "budget": "20usd/hour",
}


def row(widths: list[float], gpu_types: list[str], fraction: float = 1.0) -> Branch:
    """Return a branch."""
    return Branch(fraction=fraction, widths=np.array(widths), gpu_types=tuple(gpu_types))


def hand(**changes: object) -> BoaInstance:
    """Return the instance above with some top-level fields changed."""
    return BoaInstance.parse(HAND | changes)


MOVING = BoaSolution(
    branches={"bert": (row([2.0, 2.0, 1.0], ["t4", "a100", "t4"]),), "yolo": (row([2.0], ["t4"]),)},
)


def test_the_judge_by_hand() -> None:
    """A job of bert moves from 2 T4 to 2 A100 and back to 1 T4.

    Hours: epoch 1 takes 0.01 + 1 / 1.6 = 0.635 on 2 T4; epoch 2 0.02 + 0.03 for the move + 2 / 8 = 0.3 on 2 A100;
    epoch 3 0.01 + 0.005 for the move back + 4 / 1 = 4.015 on 1 T4: 4.95 h in all. Yolo: 0.1 + 3 / 2 = 1.6 h on 2 T4.
    """
    judged = evaluate(hand(), MOVING)
    assert all(check.holds for check in judged.checks)
    t4, a100 = 2.0 * (2 * 0.635 + 4.015) + 2 * 1.6, 2.0 * 2 * 0.3
    expected = {
        "classes.bert.mean_jct_s": 3600 * 4.95,
        "classes.yolo.mean_jct_s": 3600 * 1.6,
        "classes.bert.gpus": 2.0 * (2 * 0.635 + 4.015) + a100,
        "classes.yolo.gpus": 3.2,
        "mean_jct_s": 3600 * (2 * 4.95 + 1.6) / 3,
        "weighted_mean_jct_s": 3600 * (3 * 2 * 4.95 + 1.6) / 7,
        "gpus": t4 + a100,
        "gpus_running": 2.0 * (2 * 0.625 + 4.0) + 2 * 1.5 + 2.0 * 2 * 0.25,
        "gpus_rescaling": 2.0 * (2 * 0.01 + 0.015) + 2 * 0.1 + 2.0 * 2 * 0.05,
        "width_changes_per_job": 2 * 2 / 3,
        "rescales_per_job": (2 * 3 + 1) / 3,
        "gpus.t4": t4,
        "gpus.a100": a100,
        "cost_usd_per_hour": 0.5 * t4 + 3.0 * a100,
    }
    assert judged.measures == pytest.approx(expected, rel=1e-13)
    assert judged.objective == judged.measures["weighted_mean_jct_s"]
    assert judged.consumption == pytest.approx({"budget": expected["cost_usd_per_hour"], "quota.a100": a100}, rel=1e-13)


def test_without_rescaling_moves_are_free() -> None:
    """Problem whole: 0.625 + 0.25 + 4 hours for bert, 1.5 for yolo."""
    judged = evaluate(hand(problem="whole"), MOVING)
    assert judged.measures["classes.bert.mean_jct_s"] == pytest.approx(3600 * 4.875, rel=1e-13)
    assert judged.measures["classes.yolo.mean_jct_s"] == pytest.approx(3600 * 1.5, rel=1e-13)
    assert judged.measures["gpus_rescaling"] == 0.0


def test_fractions_of_the_jobs_may_hold_different_types() -> None:
    """A quarter of bert's jobs on 1 A100 throughout, the others on 1 T4: each counts by its share."""
    solution = BoaSolution(
        branches={
            "bert": (row([1.0] * 3, ["a100"] * 3, 0.25), row([1.0] * 3, ["t4"] * 3, 0.75)),
            "yolo": (row([1.0], ["t4"]),),
        }
    )
    judged = evaluate(hand(policy="mixed"), solution)
    assert all(check.holds for check in judged.checks)
    on_a100, on_t4 = 0.02 + 1 / 4 + 2 / 4 + 4 / 5, 0.01 + 7
    assert judged.measures["classes.bert.mean_jct_s"] == pytest.approx(
        3600 * (0.25 * on_a100 + 0.75 * on_t4), rel=1e-13
    )
    assert judged.measures["gpus.a100"] == pytest.approx(2 * 0.25 * on_a100, rel=1e-13)
    assert judged.measures["gpus.t4"] == pytest.approx(2 * 0.75 * on_t4 + 3.1, rel=1e-13)


def test_a_budget_in_gpus_counts_all_types_alike() -> None:
    """Whatever they cost; the cost is a measure, where the types that are used have prices."""
    judged = evaluate(hand(budget="20gpu"), MOVING)
    assert judged.consumption["budget"] == pytest.approx(judged.measures["gpus"], rel=1e-14)
    assert judged.measures["cost_usd_per_hour"] == pytest.approx(10.5, abs=1.0)
    unpriced = {"t4": {"price_usd_per_hour": 0.5}, "a100": {}}
    assert "cost_usd_per_hour" not in evaluate(hand(budget="20gpu", gpu_types=unpriced), MOVING).measures
    staying = BoaSolution(branches=dict(MOVING.branches) | {"bert": (row([1.0] * 3, ["t4"] * 3),)})
    judged = evaluate(hand(budget="20gpu", gpu_types=unpriced), staying)
    assert judged.measures["cost_usd_per_hour"] == pytest.approx(0.5 * judged.measures["gpus"], rel=1e-14)


@pytest.mark.parametrize(
    ("changes", "family", "message"),
    [
        ({"budget": "8usd/hour"}, "budget", "cost per hour, running and rescaling, must not exceed the budget"),
        ({"budget": "14gpu"}, "budget", "time-average GPUs, running and rescaling, must not exceed the budget"),
        (
            {"gpu_types": HAND["gpu_types"] | {"a100": {"price_usd_per_hour": 3.0, "quota_gpus": 1.19}}},
            "quota.a100",
            "time-average GPUs, running and rescaling, must not exceed the quota of a100",
        ),
    ],
)
def test_limits_that_are_exceeded_are_named(changes: Data, family: str, message: str) -> None:
    """13.77 T4 and 1.2 A100 cost 10.485 usd per hour."""
    (wrong,) = [check for check in evaluate(hand(**changes), MOVING).checks if not check.holds]
    assert (wrong.family, wrong.message) == (family, message)


@pytest.mark.parametrize(
    ("branch", "family", "index"),
    [
        (row([2.0, 2.0, 1.0], ["t4", "v100", "t4"]), "gpu-type", "bert[1]"),
        (row([2.0, 2.0, 1.0], ["t4", "a100"]), "row-length", "bert[1]"),
        (row([2.0, 2.0], ["t4", "a100", "t4"]), "row-length", "bert[1]"),
        (Branch(widths=np.array([2.0, 2.0, 1.0])), "gpu-type", "bert[1]"),
        (row([2.0, 3.0, 1.0], ["t4", "a100", "t4"]), "allowed-width", "bert[1] epoch 2"),
        (row([2.0, 2.0, 1.5], ["t4", "a100", "t4"]), "allowed-width", "bert[1] epoch 3"),
    ],
)
def test_rows_that_break_the_rules_are_named(branch: Branch, family: str, index: str) -> None:
    """Unknown types, types that are not named, rows that are too short, widths that the type does not have."""
    solution = BoaSolution(branches=dict(MOVING.branches) | {"bert": (branch,)})
    (wrong,) = [check for check in evaluate(hand(), solution).checks if not check.holds]
    assert (wrong.family, wrong.index) == (family, index)


def test_one_type_may_be_named_or_not() -> None:
    """Both mean the same; another name is refused."""
    data = copy.deepcopy(HAND)
    del data["classes"]["bert"], data["gpu_types"]["a100"]
    instance = BoaInstance.parse(data)
    named, unnamed = row([2.0], ["t4"]), Branch(widths=np.array([2.0]))
    figures = [evaluate(instance, BoaSolution(branches={"yolo": (branch,)})).measures for branch in (named, unnamed)]
    assert figures[0] == figures[1]
    (wrong,) = [
        check
        for check in evaluate(instance, BoaSolution(branches={"yolo": (row([2.0], ["a100"]),)})).checks
        if not check.holds
    ]
    assert wrong.family == "gpu-type"


# Every change of a solution is noticed


def mutations(instance: BoaInstance, data: Data) -> Iterator[Data]:
    """Yield a result's data with one thing changed in its solution: a type, a width, both, a fraction, a name."""
    for name, branches in data["solution"]["branches"].items():
        options = instance.options(name)
        pairs = [
            (options.gpu_types[group], float(width))
            for group, width in zip(options.group.tolist(), options.widths.tolist(), strict=True)
        ]
        for number, branch in enumerate(branches):
            for epoch, here in enumerate(zip(branch["gpu_types"], branch["widths"], strict=True)):
                for gpu_type, width in (*pairs, ("v100", 1.0), ("a100", 7.0)):
                    if (gpu_type, width) != here:
                        changed = copy.deepcopy(data)
                        inner = changed["solution"]["branches"][name][number]
                        inner["gpu_types"][epoch], inner["widths"][epoch] = gpu_type, width
                        yield changed
            for field, value in (("gpu_types", None), ("fraction", 0.9 * branch["fraction"])):
                changed = copy.deepcopy(data)
                changed["solution"]["branches"][name][number][field] = value
                yield changed
            changed = copy.deepcopy(data)
            changed["solution"]["branches"][name][number]["gpu_types"].pop()
            yield changed


@pytest.mark.parametrize("policy", list(Policy))
def test_every_change_of_a_solution_is_noticed(policy: Policy) -> None:
    """Each epoch of each class on each other pair of type and width, without types, with another fraction."""
    instance = hand(policy=policy.value, budget="11usd/hour")
    result = solve(instance)
    assert verify(instance, result).ok
    data, tried = result.to_json_data(), 0
    assert {gpu_type for branch in data["solution"]["branches"]["bert"] for gpu_type in branch["gpu_types"]} == {
        "t4",
        "a100",
    }
    for changed in mutations(instance, data):
        tried += 1
        assert not verify(instance, type(result).parse(changed)).ok, changed["solution"]
    assert tried > 20


def test_fractions_beyond_one_are_refused_on_reading() -> None:
    """Nor can a type be a number."""
    for field, value, message in (("fraction", 1.5, r"got 1\.5; input"), ("gpu_types", [1, 1, 1], "got 1; input")):
        data = {"fraction": 1.0, "widths": [1.0] * 3, "gpu_types": ["t4"] * 3} | {field: value}
        with pytest.raises(DataError, match=message):
            BoaSolution.parse({"branches": {"bert": [data]}})
