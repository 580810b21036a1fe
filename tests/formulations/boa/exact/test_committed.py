"""Commitments jointly with widths: against looking at every plan, and what is never claimed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from optplan.contracts import LagrangianCertificate, Status
from optplan.errors import DataError, UnsupportedError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.data.job_classes import ArrivalPattern, JobClass
from optplan.formulations.boa.exact.feasibility import least_budget
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.instances.changes import apply_changes, parse_change
from optplan.instances.generators import random_boa
from optplan.instances.library import build_named
from optplan.solving import explain, frontier, model, solve
from optplan.speedup import TableSpeedup
from optplan.verification import verify


def one_class(budget: str = "8gpu", **fields: object) -> BoaInstance:
    """Return ten jobs an hour of a GPU-hour, on 1 GPU or, in 0.3 hours, on 4: at once 10 on average, or 12."""
    table = TableSpeedup(gpus=np.array([1, 4]), speedup=np.array([1.0, 10.0 / 3.0]))
    job = JobClass(arrival_rate_per_hour=10.0, epoch_size_gpu_hours=[1.0], speedup={"t4": table})
    kind = {"commitments": {"1-year": {"discount": 0.5}}, **fields}
    return BoaInstance.parse({"classes": {"job": job}, "gpu_types": {"t4": kind}, "budget": budget, "problem": "whole"})


def commit(instance: BoaInstance, **fields: object) -> BoaInstance:
    """Return the instance with these fields in all GPU types."""
    return instance.replace(gpu_types={name: kind.replace(**fields) for name, kind in instance.gpu_types.items()})


def test_narrow_jobs_are_cheaper_to_commit_for() -> None:
    """10 jobs on 1 GPU each vary by 3.2, 3 on 4 GPUs by 6.9: a bill of 6.5 pays the first and not the second.

    At half the price the median is committed, and the bill is half of what is in use above the median on average: of
    Poisson(10), 10 committed and 1.25 on demand. With every GPU-hour at half the price, both would be paid for.
    """
    result = solve(one_class("6.5gpu"))
    assert (result.status, result.solver) == (Status.FEASIBLE, "committed-paths")
    assert (result.objective, result.bound) == pytest.approx((3600.0, 1080.0))
    assert result.measures["committed.t4.1-year"] == 10.0
    assert result.measures["bill"] == pytest.approx(5.0 + 1.2511, rel=1e-4)
    assert verify(one_class("6.5gpu"), result).ok
    quick = solve(one_class("9gpu"))
    assert quick.objective == pytest.approx(1080.0)
    assert quick.status is Status.OPTIMAL


def test_what_cannot_be_paid() -> None:
    """10 GPUs in use cost 5 at least, so 4.9 is too little for any plan; between that and 6.25 nothing is known."""
    refused = solve(one_class("4.9gpu"))
    assert refused.status is Status.INFEASIBLE
    assert refused.infeasibility is not None
    assert (
        "whether the bill, committed GPUs included, keeps the budget then is not known" in refused.infeasibility.reason
    )
    assert verify(one_class("4.9gpu"), refused).ok
    unknown = solve(one_class("6gpu"))
    assert (unknown.status, unknown.objective) == (Status.UNKNOWN, None)
    assert "the least bill found is 1.042 times the budget" in unknown.warnings[-1]


def test_money_and_several_types() -> None:
    """In dollars the bill is the sum over types, each with its own commitments; verified with its measures."""
    instance = random_boa(seed=3, classes=2, epochs=2, widths=3)
    (name,) = instance.gpu_types
    priced = commit(
        instance,
        price_usd_per_hour=2.0,
        commitments={"1-year": {"price_usd_per_hour": 1.2}},
        spot_market={"discount": 0.7, "share": 0.2},
    )
    assert instance.budget is not None
    result = solve(priced.replace(budget=f"{2.0 * instance.budget.value}usd/hour"))
    assert result.measures["bill_usd_per_hour"] == pytest.approx(2.0 * result.measures["bill"])
    assert result.measures["bill"] <= instance.budget.value * (1.0 + 1e-9)
    assert f"committed.{name}.1-year" in result.measures
    parts = ("bill.committed", "bill.spot", "bill.on_demand")
    assert sum(result.measures[part] for part in parts) == pytest.approx(result.measures["bill"])


@pytest.mark.slow
@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    discount=st.floats(0.05, 0.9),
    share=st.floats(0.5, 1.0),
    dispersion=st.sampled_from([None, 4.0]),
)
def test_against_every_plan(seed: int, discount: float, share: float, dispersion: float | None) -> None:
    """What is found keeps the bill, none is better, and the bound holds for all plans of tiny instances."""
    instance = random_boa(seed=seed, classes=2, epochs=2, widths=3)
    if dispersion is not None:
        name, job = next(iter(instance.classes.items()))
        pattern = ArrivalPattern(hourly=[0.2] * 12 + [1.8] * 12, dispersion=dispersion)
        instance = instance.replace(classes=dict(instance.classes) | {name: job.replace(arrivals=pattern)})
    assert instance.budget is not None
    budget = f"{instance.budget.value * share}gpu"
    committed = commit(instance, commitments={"1-year": {"discount": discount}}).replace(budget=budget)
    result = solve(committed)
    assert not verify(committed, result).failures
    rows = [list(itertools.product(instance.allowed_widths(n).tolist(), repeat=2)) for n in instance.classes]
    best = np.inf
    for plan in itertools.product(*rows):
        named = zip(instance.classes, plan, strict=True)
        branches: dict[str, tuple[Branch, ...]] = {n: (Branch(widths=np.array(row, dtype=float)),) for n, row in named}
        judged = evaluate(committed, BoaSolution(branches=branches))
        if all(check.holds for check in judged.checks):
            best = min(best, judged.objective)
    if result.status is Status.INFEASIBLE:
        assert best == np.inf
    if result.objective is not None:
        assert best * (1.0 - 1e-9) <= result.objective <= 1.05 * best
    if result.bound is not None:
        assert result.bound <= best * (1.0 + 1e-6)


def test_never_worse_than_the_quantile_rule() -> None:
    """The rule commits for widths that were chosen without it, and a plain plan's bill is a budget that it keeps."""
    instance = build_named("boa-newtrace")
    assert isinstance(instance, BoaInstance)
    plain = solve(instance.replace(budget="130gpu"))
    assert plain.objective is not None
    assert plain.solution is not None
    for discount in (0.3, 0.6):
        committed = commit(instance, commitments={"3-years": {"discount": discount}})
        bill = evaluate(committed.replace(budget="130gpu"), plain.solution).measures["bill"]
        joint = solve(committed.replace(budget=f"{bill}gpu"))
        assert joint.objective is not None
        assert joint.objective <= plain.objective
        assert joint.measures["bill"] <= bill * (1.0 + 1e-9)


def test_another_type_is_worth_it_once_committed() -> None:
    """At 70 % off t4s take a third of the jobs that on demand ran elsewhere; and no plan on demand is ever lost."""
    instance = build_named("boa-newtrace-types")
    assert isinstance(instance, BoaInstance)
    plain = solve(instance)
    cheap = instance.gpu_types["t4"].replace(commitments={"3-years": {"discount": 0.7}})
    result = solve(instance.replace(gpu_types=dict(instance.gpu_types) | {"t4": cheap}))
    assert result.objective is not None
    assert plain.objective is not None
    assert result.objective < 0.97 * plain.objective
    assert result.measures["committed.t4.3-years"] > 10.0


def test_mixed_plans() -> None:
    """Fractions of jobs come closer to the bound than one row of widths for all."""
    pure, mixed = one_class("7.5gpu"), one_class("7.5gpu").replace(policy="mixed")
    found = [solve(each) for each in (pure, mixed)]
    assert found[0].objective is not None
    assert found[1].objective is not None
    assert found[1].objective < found[0].objective
    assert verify(mixed, found[1]).ok


def test_forged_claims_are_refused() -> None:
    """A bound above the relaxation's, another number committed, a lower bill, and a plan beyond the budget."""
    instance = one_class("6.5gpu")
    result = solve(instance)
    (certificate, *_) = result.certificates
    assert isinstance(certificate, LagrangianCertificate)
    higher = certificate.replace(bound=certificate.bound * 1.01)
    forged = [
        result.replace(certificates=(higher,), bound=higher.bound),
        result.replace(measures=dict(result.measures) | {"committed.t4.1-year": 9.0}),
        result.replace(measures=dict(result.measures) | {"bill": 6.0}),
        result.replace(solution=BoaSolution(branches={"job": (Branch(widths=np.array([4.0])),)}), objective=1080.0),
    ]
    for each in forged:
        assert verify(instance, each).failures


def test_what_commitments_do_not_go_with() -> None:
    """Frontiers, explanations, models and other solvers name them and say why."""
    instance = one_class()
    result = solve(instance)
    with pytest.raises(UnsupportedError, match="a bill with committed GPUs is no sum over jobs"):
        frontier(instance)
    with pytest.raises(UnsupportedError, match="without commitments only"):
        explain(instance, result)
    with pytest.raises(UnsupportedError, match="which no linear model states; leave commitments out"):
        model(instance)
    with pytest.raises(UnsupportedError, match="cannot handle commitments"):
        solve(instance, solver="layered-paths")
    with pytest.raises(UnsupportedError, match="is for instances with commitments"):
        solve(commit(instance, commitments=None), solver="committed-paths")
    with pytest.raises(DataError, match="commitments need whole widths"):
        instance.replace(problem="continuous")
    with pytest.raises(DataError, match="stands beside most_gpus, and no solver takes both"):
        instance.replace(most_gpus={"gpus": 20})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"commitments": {}}, "is empty; give at least one term"),
        ({"commitments": {"y": {"discount": 1.0}}}, "less than 1"),
        ({"commitments": {"y": {"discount": -0.1}}}, "at least 0|greater than or equal to 0"),
        ({"commitments": {"y": {}}}, "either a discount, from 0 to below 1, or a price_usd_per_hour"),
        ({"commitments": {"y": {"price_usd_per_hour": 1.0}}}, "the type has no price_usd_per_hour"),
        (
            {"commitments": {"y": {"price_usd_per_hour": 3.0}}, "price_usd_per_hour": 2.0},
            "costs 3 US dollars an hour, more than 2 on demand",
        ),
        (
            {"commitments": {"y": {"discount": 0.1, "share": 0.6}, "z": {"discount": 0.2, "share": 0.6}}},
            "shares add up to 1.2; those of all terms have to add up to 1",
        ),
        (
            {"commitments": {"y": {"discount": 0.1, "share": 0.6}, "z": {"discount": 0.2}}},
            "commitments.z: has no share, and other terms do",
        ),
        (
            {"commitments": {"y": {"discount": 0.1, "share": 1.0, "most_gpus": 3}}},
            "commitments.y: has a share and most_gpus",
        ),
        ({"commitments": None, "spot_market": {"discount": 0.5, "share": 0.5}}, "give commitments beside it"),
        ({"spot_market": {"discount": 0.5, "share": 1.5}}, "less than or equal to 1|at most 1"),
    ],
)
def test_wrong_prices_are_refused(fields: dict[str, Any], message: str) -> None:
    """Each message names the field and what is allowed."""
    with pytest.raises(DataError, match=message):
        one_class(**fields)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("rubberband-resnet50-512", "cloud.commitments"),
        ("seer-resnet18-30min", "commitments"),
        ("srift-case1", "commitments"),
        ("boa-newtrace", "commitments"),
    ],
)
def test_other_formulations_say_why_they_have_none(name: str, path: str) -> None:
    """A single search or job is billed for what it holds."""
    with pytest.raises(UsageError, match="GPUs are committed for streams of jobs, in gpu_types"):
        apply_changes(build_named(name), [parse_change(f"{path}={{1-year: {{discount: 0.3}}}}")])


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(2, 8)),
    above=st.sampled_from([0.002, 0.02, 0.1, 0.4]),
    discount=st.floats(0.1, 0.8),
    dispersion=st.sampled_from([None, 3.0]),
)
@example(seed=48, sizes=(1, 3, 5), above=0.1, discount=0.5861443328051817, dispersion=None)
@example(seed=238, sizes=(4, 3, 3), above=0.4, discount=0.5147249213507159, dispersion=None)
def test_no_plan_on_demand_is_missed(
    seed: int, sizes: tuple[int, int, int], above: float, discount: float, dispersion: float | None
) -> None:
    """Where the bill of a plan on demand is the budget, what is found is no slower, near the least budgets, too."""
    classes, epochs, widths = sizes
    instance = random_boa(seed=seed, classes=classes, epochs=epochs, widths=widths)
    if dispersion is not None:
        name, job = next(iter(instance.classes.items()))
        pattern = ArrivalPattern(hourly=[0.2] * 12 + [1.8] * 12, dispersion=dispersion)
        instance = instance.replace(classes=dict(instance.classes) | {name: job.replace(arrivals=pattern)})
    gpus = least_budget(instance)[0] * (1.0 + above)
    plain = solve(instance.replace(budget=f"{gpus}gpu"), ranges=False)
    assert plain.objective is not None
    assert plain.solution is not None
    committed = commit(instance, commitments={"1-year": {"discount": discount}})
    bill = evaluate(committed.replace(budget=f"{gpus}gpu"), plain.solution).measures["bill"]
    joint = solve(committed.replace(budget=f"{bill}gpu"), ranges=False)
    assert joint.objective is not None
    assert joint.objective <= plain.objective * (1.0 + 1e-6)


@pytest.mark.parametrize("gpus", [105, 160])
def test_the_plan_of_the_rule_is_not_missed(gpus: int) -> None:
    """Its bill is a budget: near the least one, and where bills go in steps around it, it or a better one is found."""
    instance = build_named("boa-newtrace-slowdown")
    assert isinstance(instance, BoaInstance)
    plain = solve(instance.replace(budget=f"{gpus}gpu"), ranges=False)
    assert plain.objective is not None
    assert plain.solution is not None
    committed = commit(instance, commitments={"1-year": {"discount": 0.45}})
    bill = evaluate(committed.replace(budget=f"{gpus}gpu"), plain.solution).measures["bill"]
    joint = solve(committed.replace(budget=f"{bill}gpu"), ranges=False)
    assert joint.objective is not None
    assert joint.objective <= plain.objective
    assert joint.measures["bill"] <= bill * (1.0 + 1e-9)
