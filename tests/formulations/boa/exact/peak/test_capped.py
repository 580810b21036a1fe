"""A limit on the GPUs in use at once: against looking at every plan, and what is never claimed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import BoundProof, Status
from optplan.errors import UnsupportedError
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.data.job_classes import ArrivalPattern, JobClass
from optplan.formulations.boa.exact.peak.capped import find_least_peak
from optplan.formulations.boa.exact.peak.demand import find_demand
from optplan.formulations.boa.exact.peak.lower_tail import _list_widths
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.instances.generators import random_boa
from optplan.instances.library import build_named
from optplan.solving import explain, solve
from optplan.speedup import TableSpeedup
from optplan.verification import verify


def one_class(**fields: object) -> BoaInstance:
    """Return ten jobs an hour of a GPU-hour, on 1 GPU or, in 0.3 hours, on 4: at once 10 on average, or 12."""
    table = TableSpeedup(gpus=np.array([1, 4]), speedup=np.array([1.0, 10.0 / 3.0]))
    job = JobClass(arrival_rate_per_hour=10.0, epoch_size_gpu_hours=[1.0], speedup={"t4": table})
    given = {"gpu_types": {"t4": GpuType()}, "budget": "12gpu", "problem": "whole", **fields}
    return BoaInstance.parse({"classes": {"job": job}, **given})


def test_a_cap_takes_the_narrow_plan() -> None:
    """Poisson(3) groups of 4 exceed 20 GPUs for P(N > 5) = 8.4 % of the time, Poisson(10) ones for 0.16 %."""
    free = solve(one_class())
    assert free.objective == pytest.approx(1080.0)
    capped = solve(one_class(most_gpus={"gpus": 20, "probability": 0.95}))
    assert (capped.status, capped.solver) == (Status.FEASIBLE, "capped-paths")
    assert capped.objective == pytest.approx(3600.0)
    # P(N > 5) is 5 % at a mean of 2.613 groups of 4, so that at least 12.9 % of the jobs run on one GPU.
    assert capped.bound == pytest.approx(1080.0 + (1.0 - 2.613 / 3.0) * 2520.0, rel=1e-3)
    assert capped.bound_proof is BoundProof.TREE
    assert verify(one_class(most_gpus={"gpus": 20, "probability": 0.95}), capped).ok
    assert capped.demand["steady_over_20"] == pytest.approx(0.00159, abs=1e-5)


def test_a_limit_below_one_gpu_has_no_width_within() -> None:
    """It is kept when mostly nobody is there; conditions are stated for the least width beyond it, one GPU."""
    instance = one_class(most_gpus={"gpus": 0.7, "probability": 0.95})
    assert instance.most_gpus is not None
    assert _list_widths(instance, instance.most_gpus) == [1.0]


def test_a_mixture_is_between() -> None:
    """With fractions some jobs hold 4 GPUs: quicker than all on one, and the limit is used to within its tolerance."""
    capped = solve(one_class(policy="mixed", most_gpus={"gpus": 20, "probability": 0.95}))
    assert capped.objective is not None
    assert capped.bound is not None
    assert 1400.0 < capped.bound <= capped.objective < 3000.0
    assert verify(one_class(policy="mixed", most_gpus={"gpus": 20, "probability": 0.95}), capped).ok
    assert 0.04 < capped.demand["steady_over_20"] <= 0.05


def test_a_limit_that_the_optimum_keeps_costs_nothing() -> None:
    """P(N > 7) of Poisson(3) is 1.2 %: the plan is that without the limit, and as proven."""
    capped = solve(one_class(most_gpus={"gpus": 28, "probability": 0.95}))
    assert capped.status is Status.OPTIMAL
    assert capped.objective == pytest.approx(1080.0)


def test_hours_and_clumps_count() -> None:
    """The same limit under arrivals that come in the first half of the day only: the narrow plan breaks it now."""
    instance = one_class(most_gpus={"gpus": 28, "probability": 0.95})
    pattern = ArrivalPattern(hourly=[2.0] * 12 + [0.0] * 12, dispersion=3.0)
    job = instance.classes["job"].replace(arrivals=pattern)
    capped = solve(instance.replace(classes={"job": job}))
    assert capped.status is not Status.OPTIMAL
    assert capped.solution is None or capped.demand["over_28"] <= 0.05


def test_infeasible_is_proven() -> None:
    """At slope 0.1 all plans weigh 0.952 or more, and one that has at most 9 GPUs for 95 % of the time 0.9 + 0.0513."""
    instance = one_class(most_gpus={"gpus": 9, "probability": 0.95})
    result = solve(instance)
    assert result.status is Status.INFEASIBLE
    assert result.infeasibility is not None
    assert "fewer than 10:" in result.infeasibility.reason
    assert not result.rests_on_trust
    assert verify(instance, result).ok
    assert find_least_peak(instance, 0.95) == 10.0


def test_nothing_found_says_what_would_be_kept() -> None:
    """The narrow plan has up to 15 GPUs for 95 % of the time, not 10; P(N > 2) allows 0.818 groups of 4 of three."""
    result = solve(one_class(most_gpus={"gpus": 10, "probability": 0.95}))
    assert result.status is Status.UNKNOWN
    assert result.bound == pytest.approx(3600.0 - 0.8177 / 3.0 * 2520.0, rel=1e-3)
    assert "most_gpus.gpus=15" in result.warnings[-1]


def test_the_least_jobs_can_prove_it() -> None:
    """100 jobs at once of 1 GPU each: P(N > 116) is above 5 %, and the judge sees that by itself."""
    table = TableSpeedup(gpus=np.array([1]), speedup=np.array([1.0]))
    job = JobClass(arrival_rate_per_hour=100.0, epoch_size_gpu_hours=[1.0], speedup={"t4": table})
    instance = one_class(classes={"job": job}, budget="200gpu", most_gpus={"gpus": 116, "probability": 0.95})
    assert find_least_peak(instance, 0.95) == pytest.approx(117.0)
    result = solve(instance)
    assert result.status is Status.INFEASIBLE
    assert verify(instance, result).ok


@pytest.mark.parametrize("quota", [None, 0.0])
def test_a_type_that_nobody_may_use(quota: float | None) -> None:
    """Beside a quota of nothing conditions prove as much as without it."""
    types = {"t4": GpuType(), "idle": GpuType(quota_gpus=quota)}
    instance = one_class(gpu_types=types, most_gpus={"gpus": 20, "probability": 0.95})
    result = solve(instance)
    assert result.bound == pytest.approx(1405.07, rel=1e-5)
    assert verify(instance, result).ok


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.4, 0.99), dispersion=st.sampled_from([None, 1.0, 4.0]))
def test_no_plan_is_claimed_that_is_not_there(seed: int, share: float, dispersion: float | None) -> None:
    """Against every plan of tiny instances: what is found keeps the limit, is none better, and bounds hold."""
    instance = random_boa(seed=seed, classes=2, epochs=2, widths=3)
    if dispersion is not None:  # of one class; the other arrives steadily
        name, job = next(iter(instance.classes.items()))
        pattern = ArrivalPattern(hourly=[0.7] * 12 + [1.3] * 12, dispersion=dispersion)
        instance = instance.replace(classes=dict(instance.classes) | {name: job.replace(arrivals=pattern)})
    free = solve(instance)
    if free.solution is None:
        return
    gpus = float(np.floor(share * find_demand(instance, free.solution).quantile(0.95)))
    if gpus < 1:
        return
    capped = instance.replace(most_gpus={"gpus": gpus, "probability": 0.95})
    result = solve(capped)
    rows = [list(itertools.product(instance.allowed_widths(n).tolist(), repeat=2)) for n in instance.classes]
    best = np.inf
    for plan in itertools.product(*rows):
        named = zip(instance.classes, plan, strict=True)
        branches: dict[str, tuple[Branch, ...]] = {n: (Branch(widths=np.array(row, dtype=float)),) for n, row in named}
        judged = evaluate(capped, BoaSolution(branches=branches))
        if all(check.holds for check in judged.checks):
            best = min(best, judged.objective)
    assert not verify(capped, result).failures
    if result.status is Status.INFEASIBLE:
        assert best == np.inf
    if result.objective is not None:
        assert best * (1 - 1e-9) <= result.objective
        assert result.bound is not None
        assert result.bound <= best * (1 + 1e-6)


def test_the_trace_within_180_gpus() -> None:
    """On 130 GPUs on average newTrace has up to 224 for 95 % of the time; within 180 it takes 18 to 19 % longer."""
    instance = build_named("boa-newtrace")
    assert isinstance(instance, BoaInstance)
    free = instance.replace(budget="130gpu")
    result = solve(free.replace(most_gpus={"gpus": 180, "probability": 0.95}))
    base = solve(free)
    assert result.objective is not None
    assert base.objective is not None
    assert result.status is Status.FEASIBLE
    assert 1.0 < result.objective / base.objective < 1.19
    assert result.bound == base.bound
    with pytest.raises(UnsupportedError, match="without most_gpus only"):
        explain(free.replace(most_gpus={"gpus": 180}), result)
    with pytest.raises(UnsupportedError, match="cannot handle most-gpus"):
        solve(free.replace(most_gpus={"gpus": 180}), solver="layered-paths")
