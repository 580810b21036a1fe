"""What a stream measured goes back into its instance: sizes, speeds, and what jobs and nodes take to start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optplan.errors import UsageError
from optplan.execution.journal import Journal
from optplan.execution.records import (
    EpochDone,
    JobArrived,
    NodeChanged,
    NodeWanted,
    OperationEnded,
    OperationWanted,
    Record,
)
from optplan.execution.streams import learning
from optplan.execution.streams.running import StreamOutcome, run_stream
from optplan.execution.streams.state import StreamJob, StreamState
from optplan.formulations.boa.data.instance import BoaInstance, Problem
from optplan.formulations.boa.planning import BoaPlan, build_plan
from optplan.solving import solve

MakeInstance = Callable[..., BoaInstance]
MakePlan = Callable[[BoaInstance], BoaPlan]
MakeJobs = Callable[..., list[StreamJob]]

#: Speeds on 1, 2 and 4 slots.
SPEEDS = (1.0, 1.9, 3.6)

#: Twelve jobs of two epochs of 0.25 s, as processes on four slots of a machine that was busy besides (local executor,
#: 26 November 2026): when each was started and had ended, and what its epochs took in the mean.
MEASURED = (
    (0.01, 3.27, 0.252),
    (0.01, 3.34, 0.250),
    (0.01, 3.29, 0.252),
    (0.01, 3.38, 0.251),
    (3.27, 6.49, 0.253),
    (3.29, 6.39, 0.250),
    (3.34, 6.58, 0.251),
    (3.38, 6.51, 0.251),
    (6.39, 10.04, 0.252),
    (6.49, 9.93, 0.250),
    (6.51, 10.18, 0.255),
    (6.58, 10.25, 0.253),
)


def write_down(rows: tuple[tuple[float, float, float], ...], job_class: str = "a", on: str = "cpu") -> list[Record]:
    """Write the records of jobs of two epochs on a slot each, which was there after 8 ms."""
    records: list[Record] = [NodeWanted(0.0, "n1", on, on, on), NodeChanged(0.008, "n1", "ready")]
    for number, (began_s, ended_s, epoch_s) in enumerate(rows):
        job, operation = f"{job_class}-{number}", f"{job_class}-{number}.1"
        timings = {"start_s": ended_s - began_s - 2 * epoch_s - 0.5, "steps": 2.0, "step_s": epoch_s}
        records += [
            JobArrived(0.0, job, job_class, 2, 0),
            OperationWanted(began_s, operation, "2", job, 1, {"n1": 1}),
            *(EpochDone(ended_s - 0.5, operation, epoch, epoch_s) for epoch in (1, 2)),
            OperationEnded(ended_s, operation, 2, {}, None, ended_s - began_s, complete=True, timings=timings),
        ]
    return records


def calibrate(instance: BoaInstance, records: list[Record]) -> tuple[BoaInstance, tuple[str, ...]]:
    """Calibrate with the records of a stream under the instance's plan."""
    return learning.calibrate(instance, records, StreamState(build_plan(instance, solve(instance))))


def read_records(folder: Path) -> list[Record]:
    """Read what a stream wrote down."""
    with Journal(folder, writable=False) as journal:
        return list(journal.replay())


def test_short_jobs_take_what_was_measured(make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs) -> None:
    """Twelve jobs of half a second took 10.3 s on four slots: starting is most of it, and is measured.

    Without it the virtual clock says 12 * 0.5 / 4 = 1.5 s. With it, a job takes 0.5 + 2.8 s and three in a row 10 s.
    """
    believed = make_instance(SPEEDS, epochs=2, epoch_s=0.25, per_hour=3600.0).replace(problem="rescaling")
    calibrated, said = calibrate(believed, write_down(MEASURED))

    def serve(instance: BoaInstance) -> StreamOutcome:
        alone = {name: known.replace(widths={"max": 1}) for name, known in instance.classes.items()}
        return run_stream(
            plan_of(instance.replace(classes=alone, budget="8gpu")), make_jobs(12, 0.0), truth=instance, most_gpus=4
        )

    before, after = serve(believed), serve(calibrated)
    time_s = max(ended_s for _, ended_s, _ in MEASURED)
    jct_s = sum(ended_s for _, ended_s, _ in MEASURED) / len(MEASURED)
    held_s = sum(ended_s - began_s for began_s, ended_s, _ in MEASURED) / len(MEASURED)
    assert before.time_s == pytest.approx(1.5)
    assert 1.0 / 1.2 < after.time_s / time_s < 1.2
    assert after.actual_jct_s is not None
    assert 1.0 / 1.2 < after.actual_jct_s / jct_s < 1.2
    assert after.planned_jct_s == pytest.approx(held_s, rel=1e-3)
    assert [line.partition(":")[0] for line in said] == ["classes.a.epoch_size_gpu_hours in all", "classes.a.rescale_s"]
    assert calibrated.gpu_types["cpu"].start_s is None


def test_what_was_measured_is_what_is_true(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, tmp_path: Path
) -> None:
    """On a virtual clock epochs take 1.5 s and not 1, pauses 30 s, nodes 120 s: that is measured, and predicts it."""
    believed, slow = make_instance(SPEEDS, per_hour=1.0), make_instance(SPEEDS, per_hour=1.0, epoch_s=1.5)
    classes = {"a": slow.classes["a"].replace(rescale_s=30.0)}
    truth = slow.replace(classes=classes, gpu_types={"cpu": {"start_s": 120.0}})
    jobs = make_jobs(5, 300.0)
    ran = run_stream(plan_of(believed), jobs, truth=truth, out=tmp_path / "run")
    calibrated, said = calibrate(believed, read_records(tmp_path / "run"))
    one = calibrated.classes["a"]
    assert one.epoch_size_gpu_hours.tolist() == pytest.approx(truth.classes["a"].epoch_size_gpu_hours.tolist())
    assert [one.rescale_s, calibrated.gpu_types["cpu"].start_s] == pytest.approx([30.0, 120.0])
    assert one.speedup == believed.classes["a"].speedup
    assert one.arrival_rate_per_hour == 1.0
    assert said == (
        "classes.a.epoch_size_gpu_hours in all: 4.5 s, was 3 s",
        "classes.a.rescale_s: 30 s, was 0 s",
        "gpu_types.cpu.start_s: 2 min 00 s, was 0 s",
        "problem whole plans without pauses; rescaling counts them",
    )
    again = run_stream(plan_of(believed), jobs, truth=calibrated)
    assert again.actual_jct_s == pytest.approx(ran.actual_jct_s)
    assert again.starting_gpu_hours == pytest.approx(ran.starting_gpu_hours)


def test_speeds_at_other_widths_are_measured_too(make_instance: MakeInstance) -> None:
    """By hand: 2 s an epoch on one slot and 1.25 s on two are a speedup of 1.6, where 1.9 was stated."""
    believed = make_instance(SPEEDS, epochs=2, epoch_s=2.0)
    records = write_down(((0.0, 4.5, 2.0),))
    both = {"n1": 1, "n2": 1}
    timings = {"start_s": 0.25, "steps": 2.0, "step_s": 1.25}
    records += [
        NodeWanted(0.0, "n2", "cpu", "cpu", "cpu"),
        JobArrived(0.0, "wide", "a", 2, 0),
        OperationWanted(5.0, "wide.1", "2", "wide", 1, both),
        *(EpochDone(8.0, "wide.1", epoch, 1.25) for epoch in (1, 2)),
        OperationEnded(8.0, "wide.1", 2, {}, None, 3.0, complete=True, timings=timings),
    ]
    calibrated, said = calibrate(believed, records)
    one = calibrated.classes["a"]
    assert one.size_gpu_hours * 3600.0 == pytest.approx(4.0)
    assert one.speedup["cpu"].at([1, 2])[0].tolist() == pytest.approx([1.0, 1.6])  # type: ignore[arg-type]
    assert "classes.a.speedup.cpu on 2 GPUs: 1.6, was 1.9" in said
    assert one.rescale_s == pytest.approx(0.5)  # of 0.5 s on one slot and on two


def test_starts_on_several_types_are_told_apart() -> None:
    """Half a second on the first type and a whole one on the second, of the same class."""
    curve: dict[str, Any] = {"form": "power", "exponent": 0.9}
    stated = {
        "arrival_rate_per_hour": 1.0,
        "epoch_size_gpu_hours": [2.0 / 3600] * 2,
        "speedup": {"x": curve, "y": curve},
        "widths": {"max": 2},
    }
    instance = BoaInstance.parse(
        {"formulation": "boa", "classes": {"a": stated}, "gpu_types": {"x": {}, "y": {}}, "budget": "9gpu"}
    )
    assert instance.problem is Problem.RESCALING
    slower = [
        OperationEnded(5.0, "late.1", 2, {}, None, 5.0, complete=True, timings={"steps": 2.0, "step_s": 2.0}),
    ]
    records = [
        *write_down(((0.0, 4.5, 2.0),), on="x"),
        NodeWanted(0.0, "m1", "y", "y", "y"),
        JobArrived(0.0, "late", "a", 2, 0),
        OperationWanted(0.0, "late.1", "2", "late", 1, {"m1": 1}),
        *slower,
    ]
    calibrated, said = calibrate(instance, records)
    assert calibrated.classes["a"].rescale_s_on == {"x": pytest.approx(0.5), "y": pytest.approx(1.0)}
    assert "classes.a.rescale_s_on.y: 1 s, was 0 s" in said


def test_where_nothing_was_measured_that_is_said(make_instance: MakeInstance) -> None:
    """Without records, and with those of a class that the instance does not have; beside others it is left out."""
    instance = make_instance(SPEEDS, epochs=2)
    with pytest.raises(UsageError, match="nothing was measured: no job of these classes has done an epoch"):
        calibrate(instance, [])
    with pytest.raises(UsageError, match="nothing was measured"):
        calibrate(instance, write_down(MEASURED, "b", "gpu"))
    _, said = calibrate(instance, [*write_down(MEASURED), *write_down(MEASURED, "b")])
    assert "b: is not in the instance, and left out" in said
