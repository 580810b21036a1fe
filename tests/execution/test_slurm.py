"""Searches on a Slurm that scripts play: they end as on this machine, keep their budget and are gone on with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.errors import UsageError
from optplan.execution.executors import SlurmExecutor
from optplan.execution.folders import FolderSettings
from optplan.execution.protocol import Operation
from optplan.execution.records import NodeWanted, OperationFailed
from optplan.execution.running import RunOutcome, run
from optplan.execution.runs import read_run, resume
from optplan.formulations.rubberband.data.instance import RubberBandInstance

pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')
pytestmark = pytest.mark.usefixtures("processes")

PlanOf = Callable[..., Plan]

QUADRATIC = f"{Path(__file__).parent / 'trainables' / 'quadratic.py'}:Quadratic"
RATES = [{"rate": rate} for rate in (0.01, 0.3, 0.1, 0.02)]
FAST = "b1-s1-trials-0002"


def test_a_search_keeps_its_budget_and_is_gone_on_with(plan_chain: PlanOf, tmp_path: Path, played_slurm: Path) -> None:
    """Two nodes cost $2 a second, and stage 1 takes 2.4 s: with $2 it pauses, and with more it ends as ever."""
    data: dict[str, Any] = {
        "formulation": "rubberband",
        "experiment": {"form": "stages", "stages": [{"trials": 4, "iterations": 4}, {"trials": 1, "iterations": 4}]},
        "training": {"seconds_per_iteration": {"1": 0.01, "2": 0.006}},
        "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3600.0, "minimum_charge_s": 0.0},
        "deadline_s": 1e6,
    }
    plan = plan_chain(RubberBandInstance.parse(data), [{"instances": 2, "gpus": 1}, {"instances": 1, "gpus": 2}])
    out, space = tmp_path / "run", [{**each, "wait_s": 0.6} for each in RATES]
    options: dict[str, Any] = {"space": space, "gres": "gpu:a100", "sbatch": {"partition": "gpu"}}
    outcome = run(plan, QUADRATIC, executor="slurm", out=out, budget_usd=2.0, replan_above=None, **options)
    assert (outcome.status, outcome.code, outcome.winner) == ("paused", 4, None)
    assert "the budget of $2.00 is spent" in outcome.why
    outcome = resume(out, budget_usd=1e6)
    assert outcome.winner is not None
    assert (outcome.status, outcome.code, outcome.winner.trial) == ("ended", 0, FAST)
    assert outcome.winner.iterations == 8
    assert len(list(played_slurm.iterdir())) > 4


def test_a_search_is_planned_anew(plan_of: PlanOf, tmp_path: Path, played_slurm: Path) -> None:  # noqa: ARG001 - Slurm
    """Iterations take no time where 10 s are planned: the rest is planned anew, and ends with the same winner."""
    out = tmp_path / "run"
    outcome = run(plan_of("rubberband-two-stages"), QUADRATIC, space=RATES, executor="slurm", out=out)
    assert outcome.winner is not None
    assert (outcome.code, outcome.winner.trial) == (0, FAST)
    state = read_run(out).state
    assert state.plan.supersedes


class GoneError(Exception):
    """The driver is gone."""


def run_two_drivers(plan: Plan, out: Path) -> RunOutcome:
    """Let a driver be gone as soon as a trial trains, and another one go on."""

    def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
        if type(record).__name__ == "Progressed":
            raise GoneError

    space = [{**each, "wait_s": 0.1} for each in RATES]
    options: dict[str, Any] = {"space": space, "executor": "slurm", "replan_above": None, "listener": listen}
    with pytest.raises(GoneError):
        run(plan, QUADRATIC, out=out, **options)
    outcome: RunOutcome = resume(out)
    return outcome


def test_a_driver_that_dies_is_followed_by_another(plan_of: PlanOf, tmp_path: Path, played_slurm: Path) -> None:
    """It is gone once its jobs run: another one adopts them, and submits none of them again."""
    outcome = run_two_drivers(plan_of("rubberband-two-stages"), tmp_path / "run")
    assert outcome.winner is not None
    assert (outcome.code, outcome.winner.trial, outcome.winner.iterations) == (0, FAST, 40)
    assert len(list(played_slurm.iterdir())) == 5


@pytest.mark.real
def test_a_search_on_slurms_daemons(
    plan_of: PlanOf,
    tmp_path: Path,
    slurm: Any,  # noqa: ANN401 - the fixture's
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On four nodes of fake GPUs, with a driver that is gone on the way: the same winner, and no job is left."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    outcome = run_two_drivers(plan_of("rubberband-two-stages"), tmp_path / "run")
    assert outcome.winner is not None
    assert (outcome.code, outcome.winner.trial, outcome.winner.iterations) == (0, FAST, 40)
    slurm.wait()


@pytest.mark.parametrize(("state", "blameless"), [("NODE_FAIL", True), ("OUT_OF_MEMORY", False)])
def test_slurm_says_why_a_job_left_nothing(
    tmp_path: Path, played_slurm: Path, monkeypatch: pytest.MonkeyPatch, state: str, blameless: bool
) -> None:
    """A node that fails is nobody's fault, memory that runs out is the trial's."""
    monkeypatch.setenv("OPTPLAN_TEST_STATE", state)
    monkeypatch.setattr(SlurmExecutor, "_command_line", lambda *_: "true")
    executor = SlurmExecutor({"gpu": 2}, FolderSettings(root=tmp_path / "run", train=QUADRATIC))
    executor.ensure_nodes([NodeWanted(0.0, "n1", "gpu", "gpu", "a")])
    executor.start(Operation("op", "a", "trial", 1, {"n1": 1}, workers=1, gpus_per_worker=1))
    events: list[Any] = []
    while not events or not isinstance(events[-1], OperationFailed):
        events += executor.poll(executor.now_s() + 1.0)
    failed = events[-1]
    (job,) = played_slurm.iterdir()
    assert failed.why == f"left nothing behind; Slurm says {state} of its job {job.name}"
    assert failed.blameless is blameless


def test_a_job_has_as_many_gpus_on_each_of_its_nodes(
    tmp_path: Path,
    played_slurm: Path,
    processes: Any,  # noqa: ANN401 - the fixture's
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six GPUs placed as four and two are three on each of two nodes: a job has the same on all of them."""
    settings = FolderSettings(root=tmp_path / "run", train="nothing:train", launcher="torchrun")
    executor = SlurmExecutor({"gpu": 4}, settings)
    monkeypatch.setattr(executor, "_command_line", lambda *_: "true")
    executor.start(Operation("op", "a", "trial", 1, {"n1": 4, "n2": 2}, workers=6, gpus_per_worker=1))
    (job,) = played_slurm.iterdir()
    assert job.read_text(encoding="utf-8").endswith(" gpu:3")
    processes.wait_until(lambda: not processes.find(), "a job that does nothing ends")


def test_options_that_mean_nothing_are_refused(plan_of: PlanOf, plan_stages: PlanOf, tmp_path: Path) -> None:
    """Slots are Slurm's to know, options of sbatch mean nothing elsewhere, and one process is on one machine."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    with pytest.raises(UsageError, match="slots: got 4, which means nothing to executor 'slurm'"):
        run(plan, QUADRATIC, executor="slurm", out=out, slots=4)
    with pytest.raises(UsageError, match=r"sbatch: got .*, which means nothing to executor 'local'"):
        run(plan, QUADRATIC, executor="local", out=out, sbatch={"partition": "gpu"})
    with pytest.raises(UsageError, match=r"launcher: stage 2.* has 4 GPUs for a trial, on nodes of 2; give --launcher"):
        run(plan_stages((4, 2, 4), (1, 2, 4)), QUADRATIC, executor="slurm", out=out, space=[{}] * 4)
