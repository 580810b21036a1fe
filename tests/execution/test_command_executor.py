"""A command of the user's that starts and ends trials and jobs: searches and streams end as by processes here."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.errors import UsageError
from optplan.execution.executors import CommandExecutor, call_command
from optplan.execution.folders import FolderSettings
from optplan.execution.protocol import Operation
from optplan.execution.records import NodeWanted, OperationEnded
from optplan.execution.running import run
from optplan.execution.runs import read_run, resume
from optplan.execution.streams.running import run_stream
from optplan.execution.streams.state import StreamJob
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import build_plan
from optplan.solving import solve

pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')

PlanOf = Callable[..., Plan]

QUADRATIC = f"{Path(__file__).parent / 'trainables' / 'quadratic.py'}:Quadratic"
SLEEPER = f"{Path(__file__).parent / 'streams' / 'sleeper.py'}:train"
RATES = [{"rate": rate} for rate in (0.01, 0.3, 0.1, 0.02)]
FAST = "b1-s1-trials-0002"


def list_started(out: Path) -> dict[str, list[str]]:
    """Return by operation what the command was asked to start, each time."""
    paths = sorted(out.glob("operations/*/started"))
    return {path.parent.name: path.read_text(encoding="utf-8").splitlines() for path in paths}


@pytest.mark.slow
def test_a_search_goes_on_when_its_driver_is_gone(
    plan_of: PlanOf,
    starter: str,
    tmp_path: Path,
    processes: Any,  # noqa: ANN401 - the fixture's
) -> None:
    """Gone once its trials train: another driver asks for none of them again, and the winner gets both GPUs."""

    class GoneError(Exception):
        """The driver is gone."""

    def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
        if type(record).__name__ == "Progressed":
            raise GoneError

    out, plan = tmp_path / "run", plan_of("rubberband-two-stages")
    given: dict[str, Any] = {"space": [{**each, "wait_s": 0.1} for each in RATES], "replan_above": None, "out": out}
    with pytest.raises(GoneError):
        run(plan, QUADRATIC, executor="command", command=starter, listener=listen, **given)
    outcome = resume(out)
    assert outcome.winner is not None
    assert (outcome.code, outcome.winner.trial, outcome.winner.iterations) == (0, FAST, 40)
    own = plan.plan_id[:8]
    names = {f"{own}.b1-s1.b1-s1-trials-000{number}.1": ["gpu 1"] for number in (1, 2, 3, 4)}
    assert list_started(out) == {**names, f"{own}.b1-s2.{FAST}.1": ["gpu 2"]}
    processes.wait_until(lambda: not processes.find(), "what has ended to be gone")


def test_a_stream_is_served(
    make_instance: Callable[..., BoaInstance],
    make_jobs: Callable[..., list[StreamJob]],
    starter: str,
    tmp_path: Path,
    processes: Any,  # noqa: ANN401 - the fixture's
) -> None:
    """Two jobs of two epochs are completed, each segment started by the command at its width."""
    instance = make_instance((1.0, 1.1, 1.2), epochs=2)
    plan = build_plan(instance, solve(instance))
    options: dict[str, Any] = {"executor": "command", "command": starter, "gpus_per_node": {"cpu": 4}}
    outcome = run_stream(plan, make_jobs(2, 0.0, epoch_s=0.05), SLEEPER, out=tmp_path / "stream", **options)
    assert (outcome.code, outcome.classes[0].completed) == (0, 2)
    widths = [f"cpu {gpus}" for gpus in plan.width_table["a"][0].gpus.tolist()]
    started = [line for lines in list_started(tmp_path / "stream").values() for line in lines]
    assert sorted(started) == sorted(widths * 2)
    processes.wait_until(lambda: not processes.find(), "what has ended to be gone")


def test_the_script_of_the_page(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: Any,  # noqa: ANN401 - the fixture's
) -> None:
    """Where ssh runs its words here, the page's script starts an operation that never ends, and ends it."""
    page = (Path(__file__).parents[2] / "docs" / "executors.md").read_text(encoding="utf-8")
    (script,) = re.findall(r'^```bash title="machines.sh"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    (tmp_path / "machines.sh").write_text(script, encoding="utf-8")
    (tmp_path / "ssh").write_text('#!/bin/sh\ntest "$1" = here && sh -c "$2"\n', encoding="utf-8")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MACHINE", "here")
    settings = FolderSettings(root=tmp_path, train=QUADRATIC, command=f"bash {tmp_path / 'machines.sh'}")
    executor = CommandExecutor({"gpu": 2}, settings)
    executor.ensure_nodes([NodeWanted(0.0, "n1", "gpu", "gpu", "a")])
    hangs = {"rate": 0.1, "wait_s": 100_000.0}
    executor.start(Operation("op", "a", "trial", 1, {"n1": 2}, workers=2, gpus_per_worker=1, configuration=hangs))
    processes.wait_until((tmp_path / "operations" / "op" / "progress.jsonl").exists, "the operation to begin")
    executor.stop("op", 0.0)
    heard: list[Any] = []
    while not heard or not isinstance(heard[-1], OperationEnded):
        heard += executor.poll(executor.now_s() + 1.0)
    assert (heard[-1].iterations, heard[-1].complete) == (0, False)
    processes.wait_until(lambda: not processes.find(), "what has ended to be gone")
    # Killed with both supervisors, or with its machine, there is nothing to stop, and that ends no run.
    for machine in ("here", "gone"):
        monkeypatch.setenv("MACHINE", machine)
        call_command(settings.command, tmp_path, "stop", OPTPLAN_OPERATION=str(tmp_path / "operations" / "op"))


def test_one_process_gets_one_machine_however_its_gpus_are_counted(tmp_path: Path) -> None:
    """One GPU is left on each of two nodes of two: whoever chooses machines is asked for two GPUs."""
    settings = FolderSettings(root=tmp_path, executor="command", train=QUADRATIC, command="env")
    executor = CommandExecutor({"gpu": 2}, settings)
    executor.ensure_nodes([NodeWanted(0.0, name, "gpu", "gpu", "a") for name in ("n1", "n2")])
    executor.start(Operation("op", "a", "job", 1, {"n1": 1, "n2": 1}, workers=2, gpus_per_worker=1))
    assert "OPTPLAN_GPUS=2\n" in (tmp_path / "commands.log").read_text(encoding="utf-8")
    with pytest.raises(UsageError, match="executor: job has 3 GPUs on 2 nodes, on nodes of 2; use --executor slurm"):
        executor.start(Operation("more", "a", "job", 2, {"n1": 2, "n2": 1}, workers=3, gpus_per_worker=1))


def test_what_the_command_cannot_do_is_said(plan_of: PlanOf, tmp_path: Path, starter: str) -> None:
    """It fails, or is not there: what was started is stopped, and with one that can the run goes on."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    given: dict[str, Any] = {"space": RATES, "replan_above": None, "executor": "command", "grace_s": 0.1}
    with pytest.raises(UsageError, match=r"command: ended with exit code 1 on start \(see .*commands.log\); mend it"):
        run(plan, QUADRATIC, command=f"{sys.executable} -c 1/0", out=out, **given)
    assert "ZeroDivisionError" in (out / "commands.log").read_text(encoding="utf-8")
    with pytest.raises(UsageError, match=r"command: 'no-such-program' cannot be started .*; give a program"):
        resume(out, command="no-such-program")
    outcome = resume(out, command=starter)
    assert outcome.winner is not None
    assert (outcome.code, outcome.winner.trial) == (0, FAST)
    state = read_run(out).state
    assert state.ended is not None


def test_a_run_is_given_up_without_its_command(plan_of: PlanOf, tmp_path: Path) -> None:
    """Its command cannot start anything; giving up starts nothing, and so needs none that can."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    with pytest.raises(UsageError, match="ended with exit code 1 on start"):
        run(plan, QUADRATIC, command=f"{sys.executable} -c 1/0", out=out, space=RATES, executor="command")
    said = (out / "commands.log").read_text(encoding="utf-8")
    outcome = resume(out, abort=True)
    assert (outcome.status, outcome.code, outcome.why) == ("ended", 1, "given up by the user")
    assert (out / "commands.log").read_text(encoding="utf-8") == said
    state = read_run(out).state
    assert (state.operations, state.held_nodes()) == ({}, [])


def test_options_that_mean_nothing_are_refused(
    plan_of: PlanOf, plan_stages: PlanOf, make_instance: Callable[..., BoaInstance], tmp_path: Path
) -> None:
    """Both commands are needed, one process is on one machine, and launchers are the command's own."""
    plan, out, both = plan_of("rubberband-two-stages"), tmp_path / "run", "executor 'command' starts and ends by"
    with pytest.raises(UsageError, match=f"command: {both} --command what is trained by --train; give both"):
        run(plan, executor="command", command="start", out=out)
    instance = make_instance((1.0, 1.1, 1.2))
    with pytest.raises(UsageError, match=f"command: {both}"):
        run_stream(build_plan(instance, solve(instance)), [], SLEEPER, executor="command", out=out)
    instance = make_instance((1.0, 1.9, 3.6), budget="4gpu")
    wide = build_plan(instance, solve(instance))
    with pytest.raises(
        UsageError,
        match=r"executor: a job of a has 4 GPUs, on nodes of 1; give --gpus-per-node 4, or use --executor slurm",
    ):
        run_stream(wide, [], SLEEPER, executor="command", command="start", out=out)
    assert not out.exists()
    with pytest.raises(UsageError, match="launcher: got 'torchrun', which means nothing to executor 'command'"):
        run(plan, QUADRATIC, executor="command", command="start", out=out, launcher="torchrun")
    with pytest.raises(UsageError, match=r"executor: stage 2.* has 4 GPUs for a trial, on nodes of 2; use --executor"):
        run(plan_stages((4, 2, 4), (1, 2, 4)), QUADRATIC, executor="command", command="s", out=out, space=[{}] * 4)
