"""Bounds for clusters of fixed size: no schedule is better, any prices prove one, and forged ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.errors import DataError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.instances.generators import random_boa
from optplan.instances.job_traces import JobTrace
from optplan.lab.audits import price_loops
from optplan.lab.audits.auditing import bound_by_capacity
from optplan.lab.audits.judge import derive_bound
from optplan.lab.audits.records import CapacityBound
from optplan.lab.audits.verification import list_trace_courses
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.speedup import TableSpeedup
from optplan.verification import verify

Interpret = Callable[[ModuleType], ModuleType]


def make_instance(*sizes_h: float, rescale_s: float = 0.0) -> BoaInstance:
    """Make an instance of one class on one or two GPUs, of which two are 1.6 times as fast."""
    own = JobClass(
        arrival_rate_per_hour=1.0,
        epoch_size_gpu_hours=list(sizes_h),
        speedup={"t4": TableSpeedup(gpus=[1, 2], speedup=[1.0, 1.6])},
        rescale_s=rescale_s,
    )
    return BoaInstance(classes={"a": own}, gpu_types={"t4": {}})


def make_trace(instance: BoaInstance, arrive_s: list[float], size: list[float] | None = None) -> JobTrace:
    """Make a trace of jobs of the instance's classes in turn."""
    jobs = len(arrive_s)
    unknown = np.full(jobs, np.nan)
    return JobTrace(
        name="mine",
        classes=tuple(instance.classes),
        class_index=np.arange(jobs) % len(instance.classes),
        arrive_s=np.array(arrive_s),
        size=np.ones(jobs) if size is None else np.array(size),
        ids=np.array([f"job-{number}" for number in range(jobs)]),
        gpus=unknown,
        run_s=unknown,
        wait_s=unknown,
        span_s=max(arrive_s) + 1.0,
    )


def test_a_job_alone_takes_its_least_time() -> None:
    """Nobody is in its way: 1 h at 1.6 times the speed is 2,250 s, and its start of 60 s is added."""
    instance = make_instance(0.25, 0.75, rescale_s=60.0)
    trace = make_trace(instance, [100.0])
    for pauses, least_s in ((True, 2310.0), (False, 2250.0)):
        assert 0.97 * least_s < bound_by_capacity(instance, trace, 4, pauses=pauses).mean_jct_s <= least_s


def test_two_jobs_on_one_gpu_take_turns() -> None:
    """One after the other is best, 1 h and 2 h: 1.5 h on average. Wider than the cluster nobody is."""
    instance = make_instance(1.0)
    bound = bound_by_capacity(instance, make_trace(instance, [0.0, 0.0]), 1)
    assert 0.97 * 5400.0 < bound.mean_jct_s <= 5400.0


def test_smaller_jobs_begin_in_the_midst() -> None:
    """Of jobs of 1 h and 0.5 h on one GPU the smaller comes first, 0.5 h and 1.5 h: 1 h on average."""
    instance = make_instance(0.4, 0.6)
    bound = bound_by_capacity(instance, make_trace(instance, [0.0, 0.0], [0.5, 1.0]), 1)
    assert 0.96 * 3600.0 < bound.mean_jct_s <= 3600.0


def _find_best(gpu_s: list[float], speeds: FloatArray, arrive_s: list[float], slot_s: float, slots: int) -> float:
    """Return the least sum of completion times of two jobs on two GPUs, among all plans in slots of time."""
    pairs = [pair for pair in product(range(3), repeat=2) if sum(pair) <= 2]
    best = np.inf
    for plan in product(pairs, repeat=slots):
        total = 0.0
        for job, (needed, arrived_s) in enumerate(zip(gpu_s, arrive_s, strict=True)):
            left = needed
            for slot, pair in enumerate(plan):
                speed = speeds[pair[job]] if slot * slot_s >= arrived_s else 0.0
                if speed * slot_s >= left > 0.0:
                    total += slot * slot_s + left / speed - arrived_s
                left -= speed * slot_s
            total = np.inf if left > 1e-9 else total
        best = min(best, total)
    return best


@pytest.mark.parametrize("arrive_s", [[0.0, 0.0], [0.0, 1800.0]])
@pytest.mark.parametrize("second", [1.5, 1.9])
def test_no_plan_in_slots_is_better(arrive_s: list[float], second: float) -> None:
    """Two jobs of 0.5 h and 1 h on two GPUs: the best of all plans in slots of 30 min is above the bound, but near."""
    own = make_instance(1.0).classes["a"]
    curve = TableSpeedup(gpus=[1, 2], speedup=[1.0, second])
    instance = BoaInstance(classes={"a": own.replace(speedup={"t4": curve})}, gpu_types={"t4": {}})
    best_s = _find_best([1800.0, 3600.0], np.array([0.0, 1.0, second]), arrive_s, 1800.0, 4) / 2
    bound = bound_by_capacity(instance, make_trace(instance, arrive_s, [0.5, 1.0]), 2)
    assert 0.8 * best_s < bound.mean_jct_s <= best_s * (1.0 + 1e-9)


def run_in_turn(instance: BoaInstance, trace: JobTrace, gpus: int, width: int) -> float:
    """Return the mean completion time when jobs hold about one width each, first come, first served, without pauses."""
    free_s, total = np.zeros(gpus), 0.0
    for arrived_s, place, size in zip(trace.arrive_s, trace.class_index, trace.size, strict=True):
        name = trace.classes[place]
        options, job_class = instance.options(name), instance.classes[name]
        fits = options.widths <= gpus
        k = int(np.argmin(np.abs(options.widths[fits] - width)))
        took_s = 3600.0 * size * (job_class.epoch_size_gpu_hours / options.speeds[:, k]).sum()
        free_s = np.sort(free_s)
        ends_s = max(float(free_s[options.widths[k] - 1]), arrived_s) + took_s
        free_s[: options.widths[k]] = ends_s
        total += ends_s - arrived_s
    return float(total / len(trace))


@given(seed=st.integers(0, 10_000), gpus=st.integers(1, 9), sized=st.booleans())
def test_any_prices_prove_a_bound(seed: int, gpus: int, sized: bool) -> None:
    """Whatever the prices, buckets and marks, no policy that gives each job one width has less."""
    random = np.random.default_rng(seed)
    instance = random_boa(classes=2, epochs=1 + seed % 3, widths=4, seed=seed % 50)
    jobs = int(random.integers(1, 8))
    arrive_s = np.sort(random.exponential(7200.0, jobs)).tolist()
    trace = make_trace(instance, arrive_s, random.lognormal(0.0, 0.7, jobs).tolist() if sized else None)
    courses = list_trace_courses(instance, trace, gpus, pauses=False)
    bound = CapacityBound(
        **instance.origin(),
        trace=trace.name,
        num_jobs=jobs,
        gpus=gpus,
        pauses=False,
        mean_jct_s=0.0,
        bucket_s=float(random.uniform(200.0, 20_000.0)),
        prices=np.where(random.random(20) < 0.3, 0.0, random.exponential(random.choice([0.01, 0.1, 1.0]), 20)),
        marks=tuple(random.integers(1, 60, len(courses)).tolist()),
    )
    least_s = derive_bound(courses, trace.arrive_s, bound, Stopwatch()) / jobs
    for width in (1, 2, 4):
        assert least_s <= run_in_turn(instance, trace, gpus, width) * (1.0 + 1e-9)


@pytest.mark.parametrize(("marks", "part"), [(20, 0.06), (40, 0.015), (80, 0.005)])
def test_marks_cost_little(marks: int, part: float) -> None:
    """A job alone of 1.5 h, at a price of 1: two GPUs take 0.9375 h and are paid twice, 2.8125 h; one makes 3 h."""
    instance = make_instance(0.5, 1.0)
    trace = make_trace(instance, [0.0])
    courses = list_trace_courses(instance, trace, 2, pauses=False)
    bound = CapacityBound(
        **instance.origin(),
        trace=trace.name,
        num_jobs=1,
        gpus=2,
        pauses=False,
        mean_jct_s=0.0,
        bucket_s=900.0,
        prices=np.ones(12),
        marks=(marks,),
    )
    paid_s = bound.gpus * 12 * 900.0
    least_s = derive_bound(courses, trace.arrive_s, bound, Stopwatch()) + paid_s
    assert (1.0 - part) * 10_125.0 < least_s <= 10_125.0 * (1.0 + 1e-9)


@pytest.fixture(scope="module")
def sound() -> CapacityBound:
    """Return the bound of three jobs of two epochs on two GPUs."""
    return bound_by_capacity(INSTANCE, TRACE, 2)


INSTANCE = make_instance(0.2, 0.8, rescale_s=30.0)
TRACE = make_trace(INSTANCE, [0.0, 600.0, 1200.0])


def test_a_sound_bound_is_derived_again(sound: CapacityBound) -> None:
    """The judge has the same figure from the prices; without the jobs the bound is on trust."""
    assert verify(INSTANCE, sound, jobs=TRACE).ok
    alone = verify(INSTANCE, sound)
    assert alone.nothing_wrong
    assert "give the jobs" in alone.on_trust[0]
    assert verify(INSTANCE, CapacityBound.model_validate_json(sound.model_dump_json()), jobs=TRACE).ok


FORGERIES: dict[str, Callable[[CapacityBound], dict[str, Any]]] = {
    "a bound that is raised": lambda bound: {"mean_jct_s": bound.mean_jct_s * (1.0 + 1e-6)},
    "more GPUs": lambda _: {"gpus": 3},
    "a negative price": lambda bound: {"prices": bound.prices - 2.0 * bound.prices.max()},
    "a horizon that is cut short": lambda bound: {"prices": bound.prices[: int(np.argmax(bound.prices))]},
    "higher prices": lambda bound: {"prices": 1.1 * bound.prices},
    "other buckets": lambda bound: {"bucket_s": 1.1 * bound.bucket_s},
    "fewer marks": lambda _: {"marks": (3,)},
    "marks of another course": lambda bound: {"marks": bound.marks * 2},
    "no marks": lambda _: {"marks": (0,)},
    "marks without end": lambda _: {"marks": (10**9,)},
    "another job": lambda bound: {"num_jobs": bound.num_jobs + 1},
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_forged_bounds_are_refused(sound: CapacityBound, forge: Callable[[CapacityBound], dict[str, Any]]) -> None:
    """What the prices do not prove does not hold."""
    assert not verify(INSTANCE, sound.replace(**forge(sound)), jobs=TRACE).nothing_wrong


def test_bounds_of_others_are_refused(sound: CapacityBound) -> None:
    """Jobs that came at other times have another bound; an instance of other content is named."""
    assert not verify(INSTANCE, sound, jobs=make_trace(INSTANCE, [0.0, 6000.0, 12_000.0])).nothing_wrong
    with pytest.raises(UsageError, match="the bound was made for 'unnamed' with hash"):
        verify(make_instance(1.0), sound, jobs=TRACE)


def test_too_few_gpus_are_refused() -> None:
    """A class that needs two GPUs never runs on one, and no cluster has none."""
    wide = TableSpeedup(gpus=[2, 4], speedup=[1.0, 1.8])
    own = make_instance(1.0).classes["a"].replace(speedup={"t4": wide}, reference_width=2)
    instance = BoaInstance(classes={"a": own}, gpu_types={"t4": {}})
    with pytest.raises(DataError, match=r"classes.a.speedup.t4: its jobs need 2 GPUs, and there are 1; add GPUs"):
        bound_by_capacity(instance, make_trace(instance, [0.0]), 1)
    with pytest.raises(UsageError, match="gpus: got 0; a cluster has at least 1"):
        bound_by_capacity(instance, make_trace(instance, [0.0]), 0)


def _go(module: ModuleType) -> list[float]:
    rates, gpus = np.array([[1e-3, 2e-3], [1.5e-3, 2e-3]]), np.array([[1.0, 4.0], [1.0, 4.0]])
    least, choice = np.zeros((7, 3)), np.full((7, 2), -1, dtype=np.int8)
    least[-1] = [1000.0, 500.0, 0.0]
    module.go_back(rates, gpus, np.array([0.2, 0.0, 0.7]), 2, 300.0, least, choice)
    present, held = np.zeros((7, 3)), np.zeros(3)
    present[0, 0] = present[2, 0] = 1.0
    module.go_ahead(rates, gpus, 2, 300.0, choice, present, held)
    return [*least.ravel().tolist(), *present.ravel().tolist(), *held.tolist()]


def test_compiled_and_interpreted_agree_to_the_bit(interpret: Interpret) -> None:
    """Nothing is fused, reordered or rounded differently by the compiler."""
    assert _go(price_loops) == _go(interpret(price_loops))
