"""Solving from the result of an instance that differs little: the answer stays the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optplan
from optplan.contracts import BoundProof, Status
from optplan.formulations.boa.data.instance import BoaInstance, Policy

_TABLES = (
    {"form": "table", "gpus": [1, 2, 4, 8], "speedup": [1.0, 1.7, 2.9, 4.2]},
    {"form": "table", "gpus": [1, 2, 3], "speedup": [[1.0, 1.9, 2.2], [1.0, 1.2, 1.9]]},
)


def _make(budget: float, policy: Policy, factors: tuple[float, float] = (1.0, 1.0)) -> BoaInstance:
    classes: dict[str, dict[str, object]] = {
        "a": {"epoch_size_gpu_hours": [1.0, 0.5, 2.0], "speedup": {"t4": _TABLES[0]}, "rescale_s": 60.0},
        "b": {"epoch_size_gpu_hours": [0.3, 3.0], "speedup": {"t4": _TABLES[1]}, "rescale_s": 300.0},
    }
    return BoaInstance(
        classes={
            name: {**each, "arrival_rate_per_hour": rate}
            for (name, each), rate in zip(classes.items(), factors, strict=True)
        },
        gpu_types={"t4": {}},
        budget=f"{budget!r}gpu",
        policy=policy,
    )


@settings(max_examples=25)  # three solves each
@given(
    st.floats(7.5, 25.0),
    st.floats(7.5, 25.0),
    st.tuples(st.floats(0.5, 1.0), st.floats(0.5, 1.0)),
    st.sampled_from(Policy),
)
def test_the_answer_does_not_depend_on_where_the_search_begins(
    before: float, budget: float, factors: tuple[float, float], policy: Policy
) -> None:
    """From whatever result, near or not, objective and status are those of a search from nothing, and verified."""
    near = optplan.solve(_make(before, policy))
    instance = _make(budget, policy, factors)
    afresh, again = optplan.solve(instance), optplan.solve(instance, near=near)
    assert again.status is afresh.status is Status.OPTIMAL
    assert again.objective == pytest.approx(afresh.objective, rel=2e-6)
    assert again.bound_proof is not BoundProof.SEARCHED


def test_a_result_that_says_nothing_is_passed_over() -> None:
    """An infeasible result, and one of another formulation, change nothing; what is infeasible stays so."""
    instance = _make(9.0, Policy.PURE)
    few = _make(1.0, Policy.PURE)
    afresh = optplan.solve(instance)
    infeasible = optplan.solve(few)
    assert infeasible.status is Status.INFEASIBLE
    assert optplan.solve(instance, near=infeasible).objective == afresh.objective
    other = optplan.solve(optplan.read_instance("seer-paper-example"))
    assert optplan.solve(instance, near=other).objective == afresh.objective
    assert optplan.solve(few, near=afresh).status is Status.INFEASIBLE


def test_beginning_nearby_saves_passes() -> None:
    """With all rates 5 % up, shortest paths are looked for at fewer multipliers than from nothing."""
    instance = optplan.read_instance("boa-newtrace", BoaInstance).replace(budget="120gpu")
    near = optplan.solve(instance)
    more = instance.replace(
        classes={
            name: each.replace(arrival_rate_per_hour=1.05 * each.arrival_rate_per_hour)
            for name, each in instance.classes.items()
        }
    )
    afresh, again = optplan.solve(more), optplan.solve(more, near=near)
    assert again.objective == afresh.objective
    assert again.counters["passes"] < 0.7 * afresh.counters["passes"]
