"""No simulated policy has less than the audit of its jobs proves, whatever it does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.instances.job_traces import JobTrace
from optplan.lab.audits.auditing import audit
from optplan.lab.cluster.bounding import audit_outcome
from optplan.lab.cluster.jobs import Job, SchedulingPolicy, Sight, TabledApplication, Wish
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.boa import follow_plan
from optplan.lab.cluster.policies.in_turn import EqualShare, LeastAttained, hold_one_width
from optplan.lab.cluster.profiled_jobs import make_jobs
from optplan.lab.cluster.replaying import replay
from optplan.lab.traces.sia_workloads import read_workload
from optplan.solving import build_plan, solve
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


@pytest.mark.parametrize("seed", [1, 2, 4, 5])
def test_an_outcome_is_audited_by_what_is_true_of_its_jobs(seed: int) -> None:
    """Jobs of size 1 have the bounds of the instance that they were made of, and what they had adds up."""
    instance, trace, jobs = draw_case(seed)
    outcome = simulate(seed, instance, jobs)
    found = audit_outcome(outcome)
    assert found is not None
    asked = audit(instance, trace, gpu_hours=outcome.gpu_hours, mean_jct_s=float(outcome.jct_s.mean()))
    assert [each.bound for each in found.bounds] == pytest.approx([each.bound for each in asked.bounds])
    assert found.gpu_hours == pytest.approx(outcome.gpu_hours)
    assert sum(part for gap in found.gaps().values() for part in gap) >= 0.0


def test_jobs_that_never_run_leave_nothing_to_bound() -> None:
    """A job without any width is not completed, so there is no audit."""
    outcome = replay([Job("x", "a", 0.0, TabledApplication({}, 1))], hold_one_width(1), gpus_per_node=4)
    assert audit_outcome(outcome) is None


@pytest.mark.parametrize(
    ("policy", "with_pauses", "without"), [(16, 1.20, 1.325), (4, 1.352, 1.585), (1, 1.279, 1.479)]
)
def test_one_width_on_newtrace_against_the_least(
    data_pack: Path, policy: int, with_pauses: float, without: float
) -> None:
    """On newTrace 1, at Sia's slowdowns, one width for all is so many times the least at the fastest placements."""
    workload = read_workload(data_pack / "sia/workloads/newtrace/workload-1.csv")
    jobs, gpus_per_node = make_jobs(workload, data_pack / "sia/traces", "aws", slowdown=True)
    found = audit_outcome(replay(jobs, hold_one_width(policy), gpus_per_node=gpus_per_node))
    assert found is not None
    ratios = [(found.mean_jct_s or 0.0) / each.bound for each in found.bounds if each.of == "mean_jct_s"]
    assert ratios == pytest.approx([with_pauses, without], rel=0.01)
