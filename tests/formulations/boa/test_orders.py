"""Classes and types have no order: results are those of the content, not of the file."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.feasibility import least_budget
from optplan.solving import solve
from optplan.units import Amount

pytestmark = pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")


def draw_fields(seed: int) -> dict[str, Any]:
    """Return a continuous problem with three types and many ties: few different numbers, classes that are alike."""
    rng = np.random.default_rng(seed)
    names = ["m", "a", "z", "k"][: int(rng.integers(2, 5))]
    curves: list[dict[str, Any]] = [
        {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 2.0, 3.0]},
        {"form": "table", "gpus": [1, 2, 4], "speedup": [2.0, 3.0, 4.0]},
        {"form": "amdahl", "serial_fraction": 0.1},
    ]
    real = rng.random() < 0.5
    classes = {
        name: {
            "arrival_rate_per_hour": float(rng.choice([1.0, 2.0])),
            "epoch_size_gpu_hours": rng.choice([1.0, 2.0], 2).tolist(),
            "speedup": {kind: curves[int(rng.integers(0, 3 if real else 2))] for kind in ("t", "s", "u")},
            "widths": {"max": 4},
        }
        for name in names
    }
    types: dict[str, Any] = {kind: {"price_usd_per_hour": float(rng.choice([1.0, 2.0]))} for kind in ("t", "s", "u")}
    if rng.random() < 0.5:
        types["s"]["quota_gpus"] = float(rng.choice([1.0, 2.0]))
    fields = {"formulation": "boa", "classes": classes, "gpu_types": types, "problem": "continuous", "policy": "mixed"}
    total, _ = least_budget(BoaInstance.parse(fields))
    return fields | {"budget": str(Amount(total * float(rng.uniform(1.1, 3.0)), BoaInstance.parse(fields).budget_unit))}


def shuffle(fields: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the same content in another order."""
    rng = np.random.default_rng(seed)

    def mix(mapping: dict[str, Any]) -> dict[str, Any]:
        keys = list(mapping)
        return {keys[place]: mapping[keys[place]] for place in rng.permutation(len(keys)).tolist()}

    mixed = copy.deepcopy(fields) | {"classes": mix(fields["classes"]), "gpu_types": mix(fields["gpu_types"])}
    for job_class in mixed["classes"].values():
        job_class["speedup"] = mix(job_class["speedup"])
    return mixed


def rename(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the same problem with names that sort the other way round."""
    kinds = {"s": "x", "t": "q", "u": "b"}
    classes = {
        chr(ord("z") - ord(name) + ord("a")): job_class
        | {"speedup": {kinds[kind]: curve for kind, curve in job_class["speedup"].items()}}
        for name, job_class in fields["classes"].items()
    }
    return fields | {"classes": classes, "gpu_types": {kinds[kind]: each for kind, each in fields["gpu_types"].items()}}


@pytest.mark.parametrize("solver", ["auto", "conic"])
@settings(max_examples=30)
@given(seed=st.integers(0, 5000), other=st.integers(0, 5000))
def test_the_order_in_the_file_changes_nothing(seed: int, other: int, solver: str) -> None:
    """One hash, one result: plan, objective, bound and prices are the same to the last bit."""
    fields = draw_fields(seed)
    first, second = BoaInstance.parse(fields), BoaInstance.parse(shuffle(fields, other))
    assert first.content_hash() == second.content_hash()
    one, two = solve(first, solver=solver), solve(second, solver=solver)
    assert one.status is two.status
    if one.solution is None or two.solution is None:
        assert one.solution is two.solution
        return
    assert one.solution.model_dump_json() == two.solution.model_dump_json()
    assert (one.objective, one.bound, one.measures) == (two.objective, two.bound, two.measures)
    assert (one.certificates, one.shadow_prices) == (two.certificates, two.shadow_prices)


@settings(max_examples=30)
@given(seed=st.integers(0, 5000))
def test_names_change_no_objective(seed: int) -> None:
    """Other names may decide between equally good plans, and nothing else."""
    fields = draw_fields(seed)
    one, two = (solve(BoaInstance.parse(each)) for each in (fields, rename(fields)))
    assert one.status is two.status
    if one.objective is not None:
        assert two.objective == pytest.approx(one.objective, rel=1e-9)
        assert two.bound == pytest.approx(one.bound, rel=1e-9)
