"""Amounts at the ends of their range: refused by name beyond it, and solved without a warning of NumPy within."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Status
from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.feasibility import least_budget
from optplan.schema import LARGEST_AMOUNT, LEAST_AMOUNT
from optplan.solving import solve
from optplan.units import Amount

pytestmark = pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")

AMOUNTS = st.one_of(
    st.sampled_from([LEAST_AMOUNT, 1e-10, 1.0, 1e10, LARGEST_AMOUNT]),
    st.floats(-20, 20).map(lambda power: min(LARGEST_AMOUNT, max(LEAST_AMOUNT, 10.0**power))),
)
SECONDS = st.one_of(st.just(0.0), AMOUNTS)
#: Shares of zero, of next to nothing, and between; a power of next to one would price widths by rounding alone.
SHARES = st.one_of(st.sampled_from([0.0, 5e-324, 1e-200, 1.0]), st.floats(0.01, 0.99))


def one_class(**fields: object) -> dict[str, Any]:
    """Return an instance's data with some fields of its only class replaced."""
    job_class: dict[str, object] = {
        "arrival_rate_per_hour": 1.0,
        "epoch_size_gpu_hours": [1.0, 1.0],
        "speedup": {"t4": {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.5]}},
    }
    return {"classes": {"bert": job_class | fields}, "gpu_types": {"t4": {}}, "budget": "10gpu"}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("arrival_rate_per_hour", 1e308, "got 1e+308; numbers up to 1e+20 are allowed; check the unit"),
        ("arrival_rate_per_hour", 5e-324, "got 5e-324; numbers from 1e-20 to 1e+20 are allowed; check the unit"),
        ("weight", 1e308, "got 1e+308; numbers up to 1e+20 are allowed; check the unit"),
        ("rescale_s", 1e308, "got 1e+308; numbers up to 1e+20 are allowed; check the unit"),
        ("type_change_s", 1e21, "got 1e+21; numbers up to 1e+20 are allowed; check the unit"),
        (
            "epoch_size_gpu_hours",
            [1.0, 1e308],
            "entry [1]: got 1e+308; numbers from 1e-20 to 1e+20 are allowed; check the unit",
        ),
        ("reference_width", 10**400, "input should be less than or equal to 1000000"),
    ],
)
def test_amounts_of_a_class_beyond_the_range_are_refused_by_name(field: str, value: object, message: str) -> None:
    """The error names the field, the value and the range, and not what some engine makes of the product."""
    with pytest.raises(DataError) as caught:
        BoaInstance.parse(one_class(**{field: value}))
    assert str(caught.value).startswith(f"classes.bert.{field}: ")
    assert message in str(caught.value)


def test_speedups_beyond_the_range_are_refused_by_name() -> None:
    """In tables by their entry, in fitted curves by the width at which they get there."""
    table = {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1e300]}
    message = r"^classes\.bert\.speedup\.t4\.speedup: entry \[1\]: got 1e\+300; numbers from 1e-20 to 1e\+20"
    with pytest.raises(DataError, match=message):
        BoaInstance.parse(one_class(speedup={"t4": table}))
    goodput = {
        "form": "goodput",
        # An iteration on one GPU takes 1e-5 s, one on two 1e30 s: a gradient that no network carries.
        "parameters": {
            "alpha_c": 1e-5,
            "beta_c": 0.0,
            "alpha_n": 1e30,
            "beta_n": 0.0,
            "alpha_r": 1e30,
            "beta_r": 0.0,
            "gamma": 1.0,
        },
        "gpus_per_node": 4,
        "init_batch_size": 8,
        "max_batch_size": 8,
        "min_local_batch_size": 1,
        "max_local_batch_size": 8,
        "noise_scale_samples": 0.0,
    }
    message = r"^classes\.bert\.speedup\.t4: gives a speed of \S+e-35 at 2 GPUs in epoch 1; numbers from 1e-20 to"
    with pytest.raises(DataError, match=message):
        BoaInstance.parse(one_class(speedup={"t4": goodput}, widths={"only": [1, 2]}))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("gpu_types", "t4", "price_usd_per_hour"), 1e-308, "got 1e-308; numbers from 1e-20 to 1e+20 are allowed"),
        (("gpu_types", "t4", "quota_gpus"), 1e308, "got 1e+308; numbers up to 1e+20 are allowed; check the unit"),
        (("gpu_types", "t4", "spot"), {"interruptions_per_gpu_hour": 1e300, "restart_s": 1.0}, "got 1e+300; numbers"),
        (("gpu_types", "t4", "spot"), {"interruptions_per_gpu_hour": 1.0, "restart_s": 1e300}, "got 1e+300; numbers"),
        (("budget",), "1e300gpu", "got '1e+300gpu'; numbers from 1e-20 to 1e+20 are allowed; check the unit"),
        (("budget",), "1e-300usd/month", "got '1e-300usd/month'; numbers from 1e-20 to 1e+20 are allowed"),
        (("widths",), {"min": 10**30, "max": 64}, "input should be less than or equal to 1000000"),
        (("widths",), {"multiple_of": 10**400, "max": 64}, "input should be less than or equal to 1000000"),
    ],
)
def test_amounts_of_the_instance_beyond_the_range_are_refused_by_name(
    path: tuple[str, ...], value: object, message: str
) -> None:
    """Prices, quotas, interruptions, budgets and rules of widths likewise."""
    data = one_class()
    inner = data
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    with pytest.raises(DataError) as caught:
        BoaInstance.parse(data)
    assert str(caught.value).startswith(".".join(path))
    assert message in str(caught.value)


@st.composite
def curves(draw: st.DrawFn, *, reference: bool) -> dict[str, object]:
    """Draw a speedup, with s(1) = 1 where it is the reference."""
    form = draw(st.sampled_from(["table", "amdahl", "power"]))
    if form == "table":
        speedup = draw(st.lists(AMOUNTS, min_size=3, max_size=3))
        return {"form": form, "gpus": [1, 2, 4], "speedup": [1.0, *speedup[1:]] if reference else speedup}
    return {"form": form, "serial_fraction" if form == "amdahl" else "exponent": draw(SHARES)}


@st.composite
def instances(draw: st.DrawFn, *, problem: str, num_types: int) -> dict[str, object]:
    """Draw an instance whose amounts lie anywhere in the range."""
    types = ["t4", "a100"][:num_types]
    gpu_types: dict[str, dict[str, object]] = {name: {"price_usd_per_hour": draw(AMOUNTS)} for name in types}
    classes = {
        name: {
            "arrival_rate_per_hour": draw(AMOUNTS),
            "epoch_size_gpu_hours": draw(st.lists(AMOUNTS, min_size=1, max_size=3)),
            "speedup": {gpu_type: draw(curves(reference=num_types == 1)) for gpu_type in types},
            "rescale_s": draw(SECONDS),
            "weight": draw(AMOUNTS),
            "widths": {"only": [1, 2, 4]},
        }
        for name in ("bert", "gpt")[: draw(st.integers(1, 2))]
    }
    unit = draw(st.sampled_from(["gpu", "usd/hour", "usd/month"]))
    policy = "mixed" if problem == "continuous" else draw(st.sampled_from(["pure", "mixed"]))
    budget = f"{draw(AMOUNTS)!r}{unit}"
    return {"classes": classes, "gpu_types": gpu_types, "budget": budget, "problem": problem, "policy": policy}


@pytest.mark.parametrize(
    ("problem", "num_types"), [("continuous", 1), ("whole", 1), ("rescaling", 1), ("rescaling", 2)]
)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_amounts_within_the_range_give_a_verified_answer(data: st.DataObject, problem: str, num_types: int) -> None:
    """Whatever the units: no RuntimeWarning (warnings are errors here), and a result that verifies, or a reason.

    The budget is as drawn, or a little or much more than the least one.
    """
    instance = BoaInstance.parse(data.draw(instances(problem=problem, num_types=num_types)))
    factor = data.draw(st.sampled_from([None, 1.0, 1.3, 3.0, 1e3, 1e9]))
    if factor is not None:
        least = least_budget(instance)[0] * factor
        least = min(LARGEST_AMOUNT, max(LEAST_AMOUNT, least))
        instance = instance.replace(budget=Amount(least, instance.budget_unit))
    result = solve(instance)  # verifies
    if result.status is Status.INFEASIBLE:
        assert result.infeasibility is not None
        assert "has a plan is" in result.infeasibility.reason
    else:
        assert result.solution is not None
