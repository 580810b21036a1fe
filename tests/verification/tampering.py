"""Results of every kind of proof, plan and status, and what the judge says of them when they are changed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from optplan.contracts import Result, Solution
from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem
from optplan.instances.library import build_named
from optplan.units import Amount, BudgetUnit
from optplan.verification import verify

Data = dict[str, Any]
Case = tuple[BoaInstance, Result[Solution]]

#: Solver and problem: between them every kind of proof, of plan and of status.
CASES: dict[str, tuple[str, str, dict[str, object]]] = {
    "engine": ("boa-two-classes", "highs", {}),
    "searched": ("boa-two-classes", "enumeration", {}),
    "enumerated": ("boa-two-classes", "layered-paths", {}),
    "lagrangian": ("boa-two-epochs", "layered-paths", {"policy": Policy.MIXED}),
    "continuous": (
        "boa-one-table",
        "layered-paths",
        {"problem": Problem.CONTINUOUS, "budget": Amount(1.1, BudgetUnit.GPU)},
    ),
    "heuristic": ("boa-two-classes", "published-algorithm1", {}),
    "infeasible": ("boa-two-classes", "layered-paths", {"budget": Amount(1.0, BudgetUnit.GPU)}),
    "money": ("boa-two-classes", "layered-paths", {"budget": Amount(1000.0, BudgetUnit.USD_PER_MONTH)}),
    "quotas": ("typed", "linked-paths", {}),
    "quotas-mixed": ("typed", "linked-paths", {"policy": Policy.MIXED}),
    "quotas-engine": ("typed", "highs", {}),
    "quotas-infeasible": (
        "scarce",
        "linked-paths",
        {"budget": Amount(3.9, BudgetUnit.USD_PER_HOUR), "policy": Policy.MIXED},
    ),
    "quotas-infeasible-pure": ("scarce", "linked-paths", {"budget": Amount(3.9, BudgetUnit.USD_PER_HOUR)}),
}

#: Those of which something is taken on trust.
UNCHECKED = ("engine", "searched", "quotas-engine")

#: Two types with prices, one of them with a quota; spot and a cost of leaving a type for the other.
TYPED: Data = {
    "formulation": "boa",
    "gpu_types": {
        "t4": {
            "price_usd_per_hour": 0.5,
            "spot": {"interruptions_per_gpu_hour": 0.05, "restart_s": 120.0, "lost_work_s": 300.0},
        },
        "a100": {"price_usd_per_hour": 3.0, "quota_gpus": 1.5},
    },
    "classes": {
        "bert": {
            "arrival_rate_per_hour": 1.0,
            "epoch_size_gpu_hours": [2.0, 1.0, 2.0],
            "speedup": {
                "t4": {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.8, 3.0]},
                "a100": {"form": "table", "gpus": [1, 2], "speedup": [[3.0, 5.0], [4.0, 7.0], [3.0, 5.0]]},
            },
            "rescale_s": 60.0,
            "rescale_s_on": {"a100": 90.0},
            "type_change_s": 120.0,
            "type_change_s_from": {"a100": {"t4": 20.0}},
        },
        "yolo": {
            "arrival_rate_per_hour": 2.0,
            "epoch_size_gpu_hours": [1.0],
            "speedup": {
                "t4": {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.9, 3.2]},
                "a100": {"form": "table", "gpus": [1, 2], "speedup": [4.0, 6.0]},
            },
            "rescale_s": 30.0,
        },
    },
    "budget": "6usd/hour",
}


#: The same with so few GPUs of both types that a lower budget cannot be kept.
SCARCE = TYPED | {
    "gpu_types": {
        name: gpu_type | {"quota_gpus": quota}
        for (name, gpu_type), quota in zip(TYPED["gpu_types"].items(), (5.5, 0.5), strict=True)
    }
}
OWN = {"typed": TYPED, "scarce": SCARCE}


def named(name: str, **changes: object) -> BoaInstance:
    """Return a BOA instance of the library, or one of two types, with some fields changed."""
    instance = BoaInstance.parse(OWN[name]) if name in OWN else build_named(name)
    assert isinstance(instance, BoaInstance)
    return instance.replace(**changes)


def reread(result: Result[Solution], data: Data) -> Result[Solution]:
    """Read a result back from data that may have been tampered with."""
    return type(result).parse(data)


def changed(data: Data, path: tuple[str | int, ...], value: object) -> Data:
    """Return a copy of the data with another value at a path."""
    copied = copy.deepcopy(data)
    inner: Any = copied
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return copied


def failed(case: Case, data: Data) -> set[str]:
    """Return the families of the checks that fail for tampered data; ``refused`` when it cannot even be read."""
    instance, result = case
    try:
        tampered = reread(result, data)
    except DataError:
        return {"refused"}
    verification = verify(instance, tampered)
    usual = verify(instance, result).on_trust
    trusted = {claim.split(":")[0].split(" ")[0] for claim in verification.on_trust if claim not in usual}
    return {check.family for check in verification.failures} | trusted


def leaves(data: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], float]]:
    """Yield every number in plain data with its path."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from leaves(value, (*path, name))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from leaves(value, (*path, index))
    elif isinstance(data, int | float):
        yield path, float(data)
