"""What jobs of every target start through: where commands run, how long, what is their end, and who is ranked."""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optplan.contracts import Plan
from optplan.errors import UsageError
from optplan.execution.exports.folder import divide_commands, export, write_folder
from optplan.execution.exports.promotion import NoMetricError, find_winner, promote, read_export, submit
from optplan.execution.exports.request import outline
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.solving import build_plan, solve

PlanOf = Callable[..., Plan]
OPTPLAN = {"optplan": f"{sys.executable} -m optplan.cli"}
RATES = {"rate": {"choice": [0.9, 0.3, 0.5, 0.7]}}
#: Looks at something that another process does, and seconds between two of them.
_LOOKS, _LOOK_S = 600, 0.1


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Export from a folder of the test's own: commands run there."""
    monkeypatch.chdir(tmp_path)


def write(plan: Plan, folder: Path, to: str = "script", **options: Any) -> Path:  # noqa: ANN401 - what export takes
    """Export a plan into a folder."""
    options = {"command": "train --gpus {gpus} {trial}", "gpus_per_node": 4, "template": OPTPLAN, **options}
    write_folder(export(plan, to, **options), folder)
    return folder


def launch(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the launcher from elsewhere, whatever it ends with."""
    command = ["bash", str(folder / "launch.sh"), *words]
    return subprocess.run(command, cwd="/", env=os.environ | variables, capture_output=True, text=True, check=False)


def change(file: Path, old: str, new: str) -> None:
    """Change a line of an exported file."""
    text = file.read_text()
    assert old in text, text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize("to", ["script", "slurm"])
def test_commands_run_where_the_user_stood(
    plan_of: PlanOf, tmp_path: Path, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the folder of the export; the manifest says where, and another place can be given."""
    code, other = tmp_path / "my code", tmp_path / "other"
    for place in (code, other):
        place.mkdir()
        (place / "train.sh").write_text(f"echo {shlex.quote(place.name)}")
    monkeypatch.chdir(code)
    plan, command = plan_of("rubberband-two-stages"), "bash train.sh {gpus} {trial}"
    for given, place in (({}, code), ({"workdir": "../other"}, other)):
        folder = write(plan, tmp_path / f"{place.name}-jobs", to, command=command, **given)
        assert launch(folder, "b1-s1").stdout == f"{place.name}\n"
        assert json.loads((folder / "export.json").read_text())["workdir"] == str(place.resolve())
    (other / "train.sh").unlink()
    other.rmdir()
    done = launch(tmp_path / "other-jobs", "b1-s1", "2")
    assert (done.returncode, "where the command runs, is no folder here; export with" in done.stderr) == (1, True)


def test_containers_are_in_their_images_folder(plan_of: PlanOf) -> None:
    """Unless one of theirs is given."""
    pods = {"image": "train:1", "claim": "shared"}
    plan = plan_of("rubberband-two-stages")
    files = export(plan, "kubernetes", command="t {gpus} {trial}", template=pods)
    assert "export OPTPLAN_WORKDIR=\n" in files["steps/b1-s1.sh"]
    files = export(plan, "kubernetes", command="t {gpus} {trial}", template=pods, workdir="/code")
    assert "export OPTPLAN_WORKDIR=/code\n" in files["steps/b1-s1.sh"]


def logged_plan(spread: float | None) -> Plan:
    """Plan one class of jobs of 1,000 s on average, whose log says by how much they differ."""
    logged = {"jobs": 50, "measured_jobs": 50, "span_hours": 100.0, "rate_low_per_hour": 0.4, "rate_high_per_hour": 0.6}
    logged |= {"gpus": 1.0, "run_s": 1000.0, "gpu_hours": 1000 / 3600, "arrival_error": 0.1, "size_error": 0.1}
    stated = {
        "arrival_rate_per_hour": 0.5,
        "epoch_size_gpu_hours": [1000 / 3600],
        "speedup": {"t4": {"form": "table", "gpus": [1], "speedup": [1.0]}},
    }
    if spread is not None:
        stated["logged"] = {**logged, "size_spread": spread}
    fields = {"name": "small", "formulation": "boa", "gpu_types": {"t4": {}}, "budget": "1gpu", "problem": "whole"}
    instance = BoaInstance.parse({**fields, "classes": {"a": stated}})
    return build_plan(instance, solve(instance))


@pytest.mark.parametrize(
    ("spread", "options", "limit_s"),
    [
        # Lognormal of mean 1 and deviation 0.5: sigma^2 = ln 1.25 = 0.22314, and at 99 % exp(2.32635 x 0.47238 -
        # 0.11157) = 2.6840; times 1,000 s and 1.5.
        (0.5, {}, 4027),
        (0.5, {"quantile": 0.5}, 1500),
        (0.5, {"margin": 0.0}, 2685),
        # Nobody knows: as much as the mean. sigma^2 = ln 2 = 0.69315: exp(2.32635 x 0.83255 - 0.34657) = 4.9050.
        (None, {}, 7358),
        # However much they differ, the quantile of a lognormal stays below exp(2.32635^2 / 2) = 14.969 times the mean.
        (1000.0, {}, 22453),
    ],
)
def test_time_limits_come_from_the_spread_of_sizes(
    spread: float | None, options: dict[str, float], limit_s: int
) -> None:
    """A stated quantile of the time of one job, times the margin."""
    (step,) = outline(logged_plan(spread), **options).steps  # type: ignore[arg-type]
    assert abs(step.limit_s - limit_s) <= 1


@pytest.mark.parametrize("law", ["exponential", "gamma", "lognormal", "uniform"])
def test_no_more_than_a_hundredth_of_a_logs_jobs_would_be_ended(law: str) -> None:
    """Of 20,000 jobs of 1,000 s on average, however they are distributed; 1.5 times the mean would end up to 25 %."""
    draws = np.random.default_rng(1)
    sizes_s = {
        "exponential": draws.exponential(1000, 20_000),
        "gamma": draws.gamma(0.5, 2000, 20_000),
        "lognormal": draws.lognormal(math.log(1000) - 0.5, 1.0, 20_000),
        "uniform": draws.uniform(0, 2000, 20_000),
    }[law]
    (step,) = outline(logged_plan(float(sizes_s.std() / sizes_s.mean()))).steps
    assert np.mean(sizes_s > 1500) > 0.1
    assert np.mean(sizes_s > step.limit_s) < 0.01


def test_what_takes_too_long_is_ended_and_not_started_again(plan_of: PlanOf, tmp_path: Path) -> None:
    """The launcher ends it by its limit with exit code 124, and says so; a plain script does not try it again."""
    command = "bash -c 'echo x >>$OPTPLAN_SAVE/../runs; exec sleep 1000' {gpus}{trial}"
    folder = write(plan_of("srift-interruption"), tmp_path, command=command, gpus_per_node=8)
    (step,) = folder.glob("steps/*.sh")
    limit = next(line for line in step.read_text().splitlines() if "OPTPLAN_LIMIT" in line)
    change(step, limit, "export OPTPLAN_LIMIT=1")
    with pytest.raises(UsageError, match="ended with exit code 1"):
        submit(read_export(folder))
    (log,) = folder.glob("logs/*.log")
    assert "was ended after the 1 s that" in log.read_text()
    assert (folder / "trials/job/runs").read_text() == "x\n"


def test_a_kill_before_time_is_up_is_a_failure(plan_of: PlanOf, tmp_path: Path) -> None:
    """A round ends by the clock, and then with 124 or 137; a trial that is killed for want of memory has not ended."""
    plan, space = plan_of("seer-paper-example"), {"rate": {"uniform": [0, 1]}}
    for code in (137, 124):
        folder = write(plan, tmp_path / str(code), "slurm", command=f"bash -c 'exit {code}' {{gpus}}", space=space)
        step = next(step.name for step in outline(plan).steps if not step.is_promoted)
        done = launch(folder, step)
        assert done.returncode == {137: 137, 124: 1}[code], done.stderr  # 124 would say that its time was over
        assert not list(folder.glob("trials/*/ended-*"))


def test_who_was_asked_to_end_has_not_ended(plan_of: PlanOf, tmp_path: Path) -> None:
    """Preempted, a program stores its state and ends with 0: its segment goes on when it is started again."""
    program = "import os, signal, sys; signal.signal(15, lambda *_: sys.exit(0)); "
    program += "open(os.environ['OPTPLAN_SAVE'] + '/pid', 'w').write('x'); signal.pause()"
    command = f"{sys.executable} -c {shlex.quote(program)} {{gpus}} {{trial}}"
    folder = write(plan_of("rubberband-two-stages"), tmp_path, command=command)
    launched = subprocess.Popen(["bash", str(folder / "launch.sh"), "b1-s1"], start_new_session=True)
    try:
        _await(lambda: True, 1, folder)
        launched.terminate()
        assert launched.wait(timeout=60) == 143
        assert not list(folder.glob("trials/*/ended-*"))
    finally:
        if launched.poll() is None:
            os.killpg(launched.pid, signal.SIGKILL)
            launched.wait()


def test_nobody_is_the_best_without_a_number(plan_of: PlanOf, tmp_path: Path) -> None:
    """Four trials end without a metric: nobody goes on, nobody has won, and the script fails."""
    folder = write(plan_of("rubberband-two-stages"), tmp_path, command="true {gpus} {trial}")
    with pytest.raises(UsageError, match="loss: nobody who ended b1-s1 showed a number, so that none is the best"):
        submit(read_export(folder))
    exported = read_export(folder)
    with pytest.raises(NoMetricError, match="the command appends lines of JSON with it to the file"):
        promote(exported, "b1-s2")
    assert json.loads((folder / "winner.json").read_text())["trial"] is None
    assert find_winner(exported)["trial"] is None


def test_trials_are_ranked_by_what_they_showed_in_their_step(
    plan_of: PlanOf, tmp_path: Path, train_command: str
) -> None:
    """Each step has a file of metrics of its own, and the mark of its end holds them: one file, as a whole."""
    folder = write(plan_of("rubberband-two-stages"), tmp_path, command=train_command, space=RATES)
    submit(read_export(folder))
    best = json.loads((folder / "winner.json").read_text())["trial"]
    place = folder / "trials" / best
    for step, first, last in (("b1-s1", 1, 10), ("b1-s2", 11, 40)):
        lines = (place / f"ended-{step}").read_text().splitlines()
        assert len(lines) == last - first + 1
        assert json.loads(lines[-1])["loss"] == pytest.approx(0.3 + 1 / last)
        assert (place / f"metrics-{step}.jsonl").read_text().splitlines() == lines


def test_each_class_may_have_its_own_command(plan_of: PlanOf) -> None:
    """CLASS=COMMAND is the class's, the other one all others'; = in a program's arguments is none of these."""
    plan = plan_of("boa-two-classes")
    others, commands = divide_commands(["train --gpus={gpus}", "vision=see {gpus}"], plan)
    assert (others, commands) == ("train --gpus={gpus}", {"vision": "see {gpus}"})
    files = export(plan, "slurm", others, commands=commands)
    for name, text in files.items():
        if name.startswith("steps/"):
            assert ("argv=(see " if "vision" in name else "argv=(train --gpus=") in text
    for texts, message in (
        (["visoin=x {gpus}"], "there is no class 'visoin'; did you mean 'vision'"),
        (["vision=x", "vision=y"], "class 'vision' has two; give one"),
        (["x {gpus}", "y {gpus}"], "got two for all classes; give one, and others as CLASS=COMMAND"),
    ):
        with pytest.raises(UsageError, match=message):
            divide_commands(texts, plan)
    with pytest.raises(UsageError, match="leave out vision=: the plan has no classes"):
        divide_commands(["vision=x"], plan_of("rubberband-two-stages"))


def test_exports_to_two_folders_have_names_of_their_own(plan_of: PlanOf, tmp_path: Path) -> None:
    """The same plan and options in one folder give the same files; in two, jobs with other names."""
    plan, template = plan_of("rubberband-two-stages"), {"image": "train:1", "claim": "shared"}
    options: dict[str, Any] = {"command": "t {gpus} {trial}", "template": template}
    one, again, two = (
        export(plan, "kubernetes", folder=str(tmp_path / name), **options) for name in ("one", "one", "two")
    )
    assert one == again
    assert one["manifests/b1-s1.yaml"] != two["manifests/b1-s1.yaml"]
    assert one["export.json"] != two["export.json"]


def test_jobs_of_another_export_are_told_apart(plan_of: PlanOf, tmp_path: Path) -> None:
    """A pod finds the folder of another export where its own should be: it runs nothing."""
    folder = write(plan_of("rubberband-two-stages"), tmp_path, command="touch ran {gpus} {trial}")
    done = launch(folder, "b1-s1", OPTPLAN_EXPECTED="0123")
    assert (done.returncode, "and this job is of export 0123" in done.stderr) == (1, True)
    own = json.loads((folder / "export.json").read_text())["export_id"]
    assert launch(folder, "b1-s1", OPTPLAN_EXPECTED=own).returncode != 1


def test_an_interrupted_script_ends_its_trials(plan_of: PlanOf, tmp_path: Path) -> None:
    """Four trials that never end by themselves: when the script is interrupted, none of them is left."""
    command = "bash -c 'echo $$ >$OPTPLAN_SAVE/pid; exec sleep 1000' {gpus}{trial}"
    folder = write(plan_of("rubberband-two-stages"), tmp_path, command=command)
    script = subprocess.Popen(["bash", "submit.sh"], cwd=folder, start_new_session=True)
    try:
        _await(lambda: [f.read_text() for f in folder.glob("trials/*/checkpoint/pid")].count("") == 0, 4, folder)
        pids = [int(file.read_text()) for file in folder.glob("trials/*/checkpoint/pid")]
        assert len(pids) == 4
        script.terminate()
        assert script.wait(timeout=60) == 143
        _await(lambda: not any(_is_alive(pid) for pid in pids), 4, folder)
    finally:
        if script.poll() is None:
            os.killpg(script.pid, signal.SIGKILL)
            script.wait()


def run_stage(folder: Path, ranks: int, *words: str) -> list[int]:
    """Run a stage of SkyPilot's on so many nodes at once, which here share the folder itself; return their codes."""
    shared = {"SKYPILOT_NUM_NODES": str(ranks), "SKYPILOT_TASK_ID": "1", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2"}
    nodes = []
    for rank in range(ranks):
        with (folder / f"node-{rank}").open("wb") as log:
            variables = os.environ | shared | {"SKYPILOT_NODE_RANK": str(rank)}
            nodes.append(
                subprocess.Popen(["bash", str(folder / "stage.sh"), *words], env=variables, stdout=log, stderr=log)
            )
    return [node.wait(timeout=120) for node in nodes]


def test_a_trial_on_two_nodes_of_skypilot(plan_of: PlanOf, tmp_path: Path, train_command: str) -> None:
    """The last stage of a search has a trial on two nodes of four GPUs: both start it, the first names the winner."""
    plan = plan_of("rubberband-resnet101-20min")
    template = OPTPLAN | {"bucket": "s3://x"}
    options: dict[str, Any] = {"gpus_per_node": None, "template": template, "space": {"rate": {"uniform": [0, 1]}}}
    folder = write(plan, tmp_path / "jobs", "skypilot", command=train_command, **options)
    (last,) = outline(plan).last()
    assert (last.nodes, last.gpus_per_node) == (2, 4)
    (folder / f"members/{last.name}.txt").write_text("0007\n")
    assert run_stage(folder, 2, last.name, "2", "4", "4", "--winner") == [0, 0]
    assert "0007 " in (folder / "trials/0007/history").read_text()
    assert (folder / "trials/0007/history").read_text().endswith("at 10.0.0.1\n")
    assert "node 1 of 2" in (folder / "node-1").read_text()
    assert json.loads((folder / "winner.json").read_text())["step"] == last.name


def test_a_stage_without_room_is_no_success(plan_of: PlanOf, tmp_path: Path) -> None:
    """A trial needs two nodes, or more GPUs than a node has: nothing would run, and nothing would have failed."""
    folder = write(plan_of("rubberband-two-stages"), tmp_path, "skypilot", template=OPTPLAN | {"bucket": "s3://x"})
    for words, said in ((("2", "1", "4"), "needs 2 nodes of 1 GPUs, and there are 1 of 4"), (("1", "8", "4"), "of 8")):
        assert run_stage(folder, 1, "b1-s1", *words, "b1-s2") == [1]
        assert said in (folder / "node-0").read_text()


def _await(ready: Callable[[], bool], members: int, folder: Path) -> None:
    for _ in range(_LOOKS):
        if len(list(folder.glob("trials/*/checkpoint/pid"))) == members and ready():
            return
        time.sleep(_LOOK_S)
    raise AssertionError("".join(log.read_text() for log in folder.glob("logs/*")))


def _is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
