"""Streams as processes: on this machine, and as jobs of a Slurm that is played by scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from optplan.errors import OutputError, UsageError
from optplan.execution.executors import SlurmExecutor
from optplan.execution.folders import FolderSettings
from optplan.execution.journal import Journal
from optplan.execution.online.messages import Terms
from optplan.execution.protocol import Operation
from optplan.execution.records import NodeWanted, Record
from optplan.execution.runs import read_run, resume
from optplan.execution.streams.learning import Learner
from optplan.execution.streams.running import run_stream
from optplan.execution.streams.state import StreamJob
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan

pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')

MakeInstance = Callable[..., BoaInstance]
MakePlan = Callable[[BoaInstance], BoaPlan]
MakeJobs = Callable[..., list[StreamJob]]

SLEEPER = f"{Path(__file__).with_name('sleeper.py')}:train"
POOR = (1.0, 1.1, 1.2)
#: The calculator looks at once, and forgets nothing.
QUICK: dict[str, Any] = {"every_s": 1.0, "settle_s": 0.2, "window_h": 100.0, "stated_jobs": 0.0}


def test_a_stream_on_this_machine_learns_and_changes_its_widths(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, tmp_path: Path
) -> None:
    """Five jobs, planned as if they hardly scaled, are completed from their own checkpoints, some on other widths."""
    believed = make_instance(POOR, epochs=4)
    told: list[Any] = []
    outcome = run_stream(
        plan_of(believed),
        make_jobs(5, 0.7, epoch_s=0.2),
        SLEEPER,
        instance=believed,
        executor="local",
        slots=8,
        gpus_per_node={"cpu": 4},
        out=tmp_path / "stream",
        terms=QUICK,
        listener=told.append,
    )
    (one,) = outcome.classes
    assert (outcome.status, one.completed, outcome.dropped) == ("ended", 5, {})
    assert outcome.tables > 0
    assert len(one.widths) > 1
    assert read_run(tmp_path / "stream").describe() == outcome
    # Another driver would know what this one has learned.
    learner, run = Learner(believed, Terms(**QUICK)), read_run(tmp_path / "stream")
    learner.recall(run.past, run.make_state())
    made = learner.consider(outcome.time_s)
    assert made is not None
    first = plan_of(believed).width_table["a"][0].gpus
    assert made[0].classes["a"][0].gpus.sum() > first.sum()


def test_a_job_that_fails_is_tried_again_and_given_up(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, tmp_path: Path
) -> None:
    """Its configuration has no ``epoch_s``: after a retry it is dropped with the reason, and the stream ends with 1."""
    instance = make_instance(POOR)
    outcome = run_stream(
        plan_of(instance), make_jobs(1, 0.0), SLEEPER, executor="local", slots=4, out=tmp_path / "stream", retries=1
    )
    assert (outcome.code, outcome.classes[0].completed) == (1, 0)
    assert "exit code 1" in outcome.dropped["job-00"]


def test_a_command_that_does_no_epoch_is_given_up(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, tmp_path: Path
) -> None:
    """It ends with 0 and shows nothing: that is a failure, as starting it again and again would never end."""
    jobs = make_jobs(1, 0.0)
    outcome = run_stream(
        plan_of(make_instance(POOR)), jobs, command="true", executor="local", slots=4, out=tmp_path / "s", retries=1
    )
    assert (outcome.code, outcome.classes[0].completed) == (1, 0)
    assert "ended with exit code 0, and has shown no epoch" in outcome.dropped["job-00"]


def test_segments_are_submitted_to_slurm_at_the_size_that_was_decided(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, played_slurm: Path, tmp_path: Path
) -> None:
    """Two jobs run as a job of Slurm for each of their two widths, which are those of the table, in --gres."""
    instance = make_instance(POOR, epochs=2)
    plan = plan_of(instance)
    outcome = run_stream(
        plan,
        make_jobs(2, 0.0, epoch_s=0.05),
        SLEEPER,
        executor="slurm",
        gpus_per_node={"cpu": 4},
        gres="gpu:a100",
        out=tmp_path / "stream",
    )
    assert outcome.classes[0].completed == 2
    noted = sorted(path.read_text(encoding="utf-8") for path in played_slurm.iterdir())
    widths = plan.width_table["a"][0].gpus.tolist()
    assert len(set(widths)) == len(widths)
    segments = list(enumerate(widths, start=1))
    own = FolderSettings(root=tmp_path / "stream").name  # other streams may have jobs of the same names
    assert noted == [f"{own}.job-0{job}.{number} gpu:a100:{gpus}" for job in (0, 1) for number, gpus in segments]


def test_what_slurm_does_not_say_or_do_is_reported(
    played_slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that fails for too long or is not there, and one process on two nodes."""
    executor = SlurmExecutor({"cpu": 4}, FolderSettings(root=tmp_path, train=SLEEPER))
    two = Operation("op", "a", "job", 1, {"n1": 4, "n2": 4}, workers=8, gpus_per_worker=1)
    with pytest.raises(UsageError, match="GPUs on 2 nodes"):
        executor.start(two)
    executor.ensure_nodes([NodeWanted(0.0, name, "cpu", "cpu", "a") for name in ("n1", "n2")])
    executor.start(Operation("op", "a", "job", 1, {"n1": 3, "n2": 1}, workers=4, gpus_per_worker=1))
    (noted,) = [path.read_text(encoding="utf-8") for path in played_slurm.iterdir()]
    assert noted.endswith(".op gpu:4"), "one process that two nodes would have room for is given one"
    (played_slurm.parent / "bin" / "squeue").write_text("#!/bin/sh\necho down >&2\nexit 1\n", encoding="utf-8")
    executor.poll(0.0)  # Slurm may be starting anew
    for seconds in ("_OUTAGE_S", "_JOBS_S"):
        monkeypatch.setattr(f"optplan.execution.executors.{seconds}", 0.0)
    with pytest.raises(OutputError, match="squeue failed: down"):
        executor.poll(0.0)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match=r"squeue cannot be started .*run on a machine that can submit to Slurm"):
        executor.poll(0.0)


def test_a_stream_that_cannot_be_written_down_leaves_nothing(
    make_instance: MakeInstance,
    plan_of: MakePlan,
    make_jobs: MakeJobs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: Any,  # noqa: ANN401 - the fixture's
) -> None:
    """Once a job has shown an epoch there is no room for the journal: its jobs are stopped, and the stream goes on."""
    instance, commit, full = make_instance(POOR, epochs=4), Journal.commit, list[bool]()

    def refuse(journal: Journal, records: Sequence[Record]) -> None:
        if full:
            raise OutputError("the folder cannot be written; make room, then go on with --resume")
        commit(journal, records)

    def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
        if type(record).__name__ == "Progressed" and processes.find():
            full.append(True)

    out = tmp_path / "stream"
    options: dict[str, Any] = {"executor": "local", "slots": 4, "out": out, "listener": listen}
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "commit", refuse)
        with pytest.raises(OutputError, match="make room, then go on with --resume"):
            run_stream(plan_of(instance), make_jobs(2, 0.0, epoch_s=1.5), SLEEPER, **options)
    assert processes.find() == []
    outcome = resume(out)
    assert (outcome.code, outcome.classes[0].completed) == (0, 2)
