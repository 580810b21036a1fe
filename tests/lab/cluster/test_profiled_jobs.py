"""What is true of the public applications, and a trace of theirs under a plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optplan.errors import DataError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import build_plan
from optplan.lab.cluster.policies.boa import follow_plan
from optplan.lab.cluster.policies.pollux import Pollux
from optplan.lab.cluster.profiled_jobs import ProfiledApplication, make_jobs
from optplan.lab.cluster.replaying import replay
from optplan.lab.fields import Knowledge
from optplan.lab.traces.sia import derive_epochs
from optplan.lab.traces.sia_boa import build_sia_instance
from optplan.lab.traces.sia_workloads import read_workload
from optplan.solving import solve

PACK = "sia"


def test_truth_knows_how_gpus_are_spread(data_pack: Path) -> None:
    """Two GPUs together and apart are two measurements; together they are what an import has."""
    truth = ProfiledApplication(data_pack / PACK / "traces", "cifar10", "aws", 4, slowdown=True)
    together, apart = truth.epoch_times_s((2,)), truth.epoch_times_s((1, 1))
    profile = derive_epochs(data_pack / PACK / "traces", "cifar10", "aws", [2], slowdown=True)
    assert together is not None
    assert apart is not None
    np.testing.assert_allclose(together, profile.sizes_s / profile.speedup[:, 0])
    assert apart[0] > 1.5 * together[0]  # batches are small in the first epoch, and exchanges many
    assert truth.provenance == {(2,): "measured", (1, 1): "measured"}


def test_a_width_on_which_it_cannot_run(data_pack: Path) -> None:
    """cifar10 has 4096 samples and needs 32 on each GPU: 128 GPUs are the most."""
    truth = ProfiledApplication(data_pack / PACK / "traces", "cifar10", "aws", 4)
    assert truth.epoch_times_s((4,) * 33) is None
    assert truth.largest_width(132) == 128


def test_fixed_batches(toy_profiles: Path, toy_trace: Path) -> None:
    """128 samples take 1 s an iteration on one GPU, 256 are two passes; nothing is known of several nodes."""
    workload = read_workload(toy_trace)
    jobs, gpus_per_node = make_jobs(workload, toy_profiles, "toy", batch="fixed")
    assert gpus_per_node == 2
    assert jobs[0].truth is not jobs[1].truth  # 128 and 256 samples
    for one in jobs:
        times_s = one.truth.epoch_times_s((1,))
        assert times_s is not None
        assert times_s.tolist() == pytest.approx([20.0 if one.name == "b" else 10.0] * 100)
    assert jobs[0].truth.epoch_times_s((2, 1)) is None
    assert (jobs[0].truth.least_width, jobs[0].truth.largest_width(64)) == (1, 2)


def test_jobs_that_learn(toy_profiles: Path, toy_trace: Path) -> None:
    """Each job has an agent of its own; nothing is gained by larger batches here, so it stays with the least."""
    jobs, gpus_per_node = make_jobs(read_workload(toy_trace), toy_profiles, "toy", batch="learned")
    assert jobs[0].agent is not jobs[1].agent
    outcome = replay(jobs, Pollux(Knowledge.LEARNED), gpus_per_node=gpus_per_node, nodes=1)
    assert not outcome.problems
    trained = [one.trained_s for one in outcome.jobs]
    assert trained == pytest.approx([1000.0, 1000.0])
    agent = jobs[0].agent
    assert agent is not None
    # Nothing was measured on two nodes: the model of all that was has passes of 1 s.
    assert agent.choose_batch((2, 1), 0) == pytest.approx(10.0, rel=0.1)
    with pytest.raises(UsageError, match=r"^timing: jobs that learn run at measured times"):
        make_jobs(read_workload(toy_trace), toy_profiles, "toy", batch="learned", timing="model")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("b,3600,cifar10,2,64", r"^jobs.b.batch_size: is 64; cifar10 trains at 128 to"),
        (None, "^batch_size: batch"),
    ],
)
def test_wrong_batches(toy_profiles: Path, toy_trace: Path, line: str | None, said: str) -> None:
    """Batches at which nobody trained, and a workload that does not say them, are refused where they are fixed."""
    head, first, _ = toy_trace.read_text().splitlines()
    toy_trace.write_text(f"{head}\n{first}\n{line}\n" if line else "name,time,application\na,0,cifar10\n")
    workload = read_workload(toy_trace)
    make_jobs(workload, toy_profiles, "toy")
    with pytest.raises(DataError, match=said):
        make_jobs(workload, toy_profiles, "toy", batch="fixed")


def test_times_are_kept_over_runs(toy_profiles: Path, toy_trace: Path) -> None:
    """A second run finds what the first derived, and counts placements of its own."""
    first, second = (make_jobs(read_workload(toy_trace), toy_profiles, "toy")[0][0].truth for _ in range(2))
    assert first.epoch_times_s((1,)) is second.epoch_times_s((1,))
    assert isinstance(first, ProfiledApplication)
    assert isinstance(second, ProfiledApplication)
    first.epoch_times_s((2,))
    assert set(second.provenance) == {(1,)}


def test_a_replayed_plan_does_what_it_predicts(data_pack: Path, tmp_path: Path) -> None:
    """Where nobody queues, the mean over the trace and the GPU-hours are those that the plan expects."""
    profiles = data_pack / PACK / "traces"
    path = tmp_path / "few.csv"
    rows = (data_pack / PACK / "workloads" / "newtrace" / "workload-1.csv").read_text().splitlines()
    path.write_text("\n".join(row for row in rows[:60] if "imagenet" not in row))
    workload = read_workload(path, span_h=4.0)
    instance = build_sia_instance(path, profiles, "aws", max_width=16, slowdown=True, span_h=4.0)
    instance = instance.replace(budget=f"{2.0 * least_gpus(instance):.6f}gpu")
    plan = build_plan(instance, solve(instance, solver="layered-paths"))
    jobs, gpus_per_node = make_jobs(workload, profiles, "aws", slowdown=True)
    outcome = replay(jobs, follow_plan(plan), gpus_per_node=gpus_per_node)
    assert gpus_per_node == 4
    assert outcome.summarise()["mean_jct_s"] == pytest.approx(plan.totals()["mean_jct_s"])
    assert outcome.gpu_hours == pytest.approx(plan.totals()["gpus"] * 4.0)


def least_gpus(instance: BoaInstance) -> float:
    """Return the GPUs that the jobs keep busy on one GPU each."""
    return sum(one.arrival_rate_per_hour * sum(one.epoch_size_gpu_hours) for one in instance.classes.values())
