"""No simulated policy has less than the audit of its jobs proves, whatever it does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.instances.job_traces import JobTrace
from optplan.lab.cluster.jobs import Job, SchedulingPolicy, Sight, TabledApplication, Wish
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.boa import follow_plan
from optplan.lab.cluster.policies.in_turn import EqualShare, LeastAttained, hold_one_width
from optplan.lab.cluster.replaying import replay
from optplan.solving import build_plan, solve
from optplan.solving.auditing import audit
from optplan.speedup import TableSpeedup

#: Sums of a replay are in another order than those of a bound.
ROUNDING = 1e-9
WIDTHS = (1, 2, 3, 4, 6, 8)


class Whim:
    """Give jobs any widths, and take them away again, whenever something happens and every ten minutes."""

    name, interval_s = "whim", 600.0

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def need(self, job: Job) -> int:  # noqa: ARG002 - as all policies have it
        """Return that one GPU will do."""
        return 1

    def allocate(self, sight: Sight) -> Mapping[Job, Wish]:
        """Give some jobs widths of which all fit, and the others what is left; the first never starves."""
        left, wishes = sight.gpus, dict[Job, Wish]()
        for place, job in enumerate(sight.jobs):
            width = int(self._rng.choice(WIDTHS)) if place == 0 or self._rng.random() < 0.7 else 0
            width = max((each for each in (0, *WIDTHS) if each <= min(width, left)), default=0)
            wishes[job], left = width, left - width
        return wishes


def draw_case(seed: int) -> tuple[BoaInstance, JobTrace, list[Job]]:
    """Draw up to three classes with tables of any shape, and twelve jobs of them, of one size or of many."""
    rng = np.random.default_rng(seed)
    classes, epochs = {}, {}
    for name in ("a", "b", "c")[: rng.integers(1, 4)]:
        sizes = rng.uniform(0.05, 1.5, rng.integers(1, 4))
        speedup = np.sort(rng.uniform(0.8, 5.0, (sizes.size, len(WIDTHS))), axis=1) if seed % 2 else None
        if speedup is None:
            speedup = rng.uniform(0.5, 4.0, (sizes.size, len(WIDTHS)))
        speedup /= speedup[:, :1]
        epochs[name] = {k: sizes * 3600.0 / speedup[:, place] for place, k in enumerate(WIDTHS)}
        classes[name] = JobClass(
            arrival_rate_per_hour=1.0,
            epoch_size_gpu_hours=sizes,
            speedup={"t4": TableSpeedup(gpus=WIDTHS, speedup=speedup)},
            rescale_s=float(rng.choice([0.0, 30.0, 400.0])),
        )
    instance = BoaInstance(name="drawn", classes=classes, gpu_types={"t4": {}})
    which, count = rng.integers(0, len(classes), 12), 12
    size = np.ones(count) if seed % 3 else rng.lognormal(0.0, 1.0, count)
    arrive_s, names = np.sort(rng.uniform(0.0, 7200.0, count)), tuple(classes)
    jobs = []
    for number in range(count):
        name = names[which[number]]
        own = classes[name]
        epoch_s = {k: size[number] * times_s for k, times_s in epochs[name].items()}
        truth = TabledApplication(epoch_s, own.num_epochs, own.rescale_s)
        jobs.append(Job(f"{number}", name, float(arrive_s[number]), truth, requested_gpus=int(rng.choice(WIDTHS))))
    unknown = np.full(count, np.nan)
    ids = np.array([job.name for job in jobs])
    trace = JobTrace("drawn", names, which, arrive_s, size, ids, unknown, unknown, unknown, 7200.0)
    return instance, trace, jobs


def simulate(seed: int, instance: BoaInstance, jobs: list[Job]) -> Outcome:
    """Replay the jobs under some policy on some cluster."""
    rng = np.random.default_rng(seed)
    rented: tuple[SchedulingPolicy, ...] = (hold_one_width(1), hold_one_width(int(rng.choice(WIDTHS))), Whim(rng))
    fixed: tuple[SchedulingPolicy, ...] = (EqualShare(), LeastAttained(), Whim(rng), hold_one_width(2))
    kind = seed % 8
    if kind == 7:
        least = sum(each.size_gpu_hours for each in instance.classes.values())
        own = instance.replace(budget=f"{least * rng.uniform(2.0, 4.0)}gpu")
        result = solve(own, check=False)
        policy = hold_one_width(1) if result.solution is None else follow_plan(build_plan(own, result))
        return replay(jobs, policy, gpus_per_node=4)
    if kind < len(rented):
        return replay(jobs, rented[kind], gpus_per_node=4)
    return replay(jobs, fixed[kind - len(rented)], gpus_per_node=4, nodes=int(rng.integers(2, 5)))


@pytest.mark.parametrize("seed", range(48))
def test_no_policy_is_below_its_bound(seed: int) -> None:
    """Of any policy the mean is no less than the bound with pauses, and the GPU-hours than their own bound."""
    instance, trace, jobs = draw_case(seed)
    outcome = simulate(seed, instance, jobs)
    assert not outcome.problems
    mean_jct_s = float(outcome.jct_s.mean())
    found = audit(instance, trace, gpu_hours=outcome.gpu_hours, mean_jct_s=mean_jct_s)
    for bound in found.bounds:
        had = mean_jct_s if bound.of == "mean_jct_s" else outcome.gpu_hours
        assert had >= bound.bound * (1.0 - ROUNDING)
