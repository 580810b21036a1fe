"""Exports: placeholders, hostile names, refusals, folders, decisions between jobs, and plain shell that runs."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import shlex
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from optplan.contracts import Plan, registry
from optplan.errors import OptplanError, OutputError, RegistrationWarning, UsageError
from optplan.execution.exports.folder import (
    EXPORTER_GROUP,
    export,
    exporters,
    write_folder,
)
from optplan.execution.exports.promotion import (
    LimitPassedError,
    choose_way,
    find_winner,
    promote,
    read_export,
    submit,
)
from optplan.execution.exports.request import LONGEST_NAME, Export, outline

PlanOf = Callable[..., Plan]
OPTPLAN = {"optplan": f"{sys.executable} -m optplan.cli"}
RATES = {"rate": {"choice": [0.9, 0.3, 0.5, 0.7]}}
PODS = {"image": "train:1", "claim": "shared"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Export from a folder of the test's own: commands run there."""
    monkeypatch.chdir(tmp_path)


def write(plan: Plan, folder: Path, to: str = "script", **options: Any) -> Path:  # noqa: ANN401 - what export takes
    """Export a plan into a folder."""
    options = {"command": "train --gpus {gpus} {trial}", "gpus_per_node": 4, **options}
    write_folder(export(plan, to, **options), folder)
    return folder


def test_a_search_of_plain_shell_runs_to_its_end(plan_of: PlanOf, tmp_path: Path, train_command: str) -> None:
    """Four trials of 10 iterations, the best for 30 more; trial 2 fails once, and goes on from iteration 1."""
    template = OPTPLAN | {"env": {"FAIL_ONCE": "0002"}}
    folder = write(plan_of("rubberband-two-stages"), tmp_path, command=train_command, template=template, space=RATES)
    submit(read_export(folder))
    winner = json.loads((folder / "winner.json").read_text())
    assert winner["configuration"] == {"rate": 0.3}
    assert winner["metric"] == pytest.approx(0.3 + 1 / 40)
    begun = (folder / "trials/0002/history").read_text().splitlines()
    assert [line.split(" on ")[0] for line in begun][:2] == ["0002 b1-s1 from 0", "0002 b1-s1 from 1"]
    before = {file: file.read_text() for file in folder.glob("trials/*/history")}
    submit(read_export(folder))  # what has ended is not run again
    assert {file: file.read_text() for file in folder.glob("trials/*/history")} == before


def test_placeholders_have_the_sizes_of_each_step(plan_of: PlanOf) -> None:
    """One GPU a trial in stage 1, two in stage 2; the checkpoint is known when the job starts."""
    command = "train --gpus {gpus} --nodes={nodes}x{gpus_per_node} {checkpoint}/best '{{literal}}' --rate {rate}"
    files = export(plan_of("rubberband-two-stages"), "slurm", command=command, space=RATES)
    assert (
        'argv=(train --gpus 1 --nodes=1x1 "$OPTPLAN_SAVE"/best \'{literal}\' --rate "$OPTPLAN_VALUE_1")'
        in (files["steps/b1-s1.sh"])
    )
    assert "--gpus 2 --nodes=1x2" in files["steps/b1-s2.sh"]
    assert "#SBATCH --gres=gpu:2\n" in files["jobs/b1-s2.sbatch"]


def test_torchrun_has_a_fixed_size(plan_of: PlanOf) -> None:
    """Two VMs of four GPUs: --nnodes=2:2, four processes on each, meeting at the first node."""
    files = export(plan_of("srift-interruption"), "slurm", command="python train.py", launcher="torchrun")
    (step,) = (text for name, text in files.items() if name.startswith("steps/"))
    assert "argv=(torchrun --nnodes=2:2 --nproc-per-node=4 --rdzv-backend=c10d" in step
    assert '--rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT"' in step
    assert "#SBATCH --nodes=2\n" in files["jobs/train.sbatch"]


#: Short for a name that the table below has often.
FULL = {"two-stages": "rubberband-two-stages"}
HOSTILE = 'it\'s "x" $(touch pwned) `touch pwned` ; rm -rf / # !!python/object --flag \\ {{braces}} \u00e9'


@pytest.mark.parametrize("to", ["script", "slurm"])
def test_hostile_words_stay_data_in_shell(plan_of: PlanOf, tmp_path: Path, to: str) -> None:
    """A command's words and a configuration's values reach the program as they were written."""
    values = [HOSTILE, "-n", "'", "$HOME"]
    show = f"{sys.executable} -c 'import sys, json; print(json.dumps(sys.argv[1:]))'"
    command = f"{show} {{gpus}} {{rate}} {shlex.quote(HOSTILE)}"
    folder = write(plan_of("rubberband-two-stages"), tmp_path, to, command=command, space=[{"rate": v} for v in values])
    for number, value in enumerate(values, start=1):
        done = subprocess.run(
            ["bash", "launch.sh", "b1-s1", str(number)], cwd=folder, capture_output=True, text=True, check=True
        )
        said = json.loads(done.stdout)
        assert said[1] == value
        assert said[2] == HOSTILE.replace("{{", "{").replace("}}", "}")
    assert not list(tmp_path.rglob("pwned"))


def test_hostile_words_stay_data_in_manifests(plan_of: PlanOf) -> None:
    """What YAML would take for a tag, a number or a comment is read back as the text that it is."""
    template = PODS | {"labels": {"owner": "!!python/object:x"}, "requests": {"memory": "1e3 # x"}}
    template |= {"run_dir": "/a b'c$(HOME)"}
    files = export(plan_of("rubberband-two-stages"), "kubernetes", command="t {gpus} {trial}", template=template)
    job = yaml.safe_load(files["manifests/b1-s1.yaml"])
    assert job["metadata"]["labels"]["owner"] == "!!python/object:x"
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["requests"]["memory"] == "1e3 # x"
    assert container["command"][2].startswith("exec bash '/a b'\"'\"'c$$(HOME)'/launch.sh b1-s1 ")


@pytest.mark.parametrize(
    ("name", "to", "options", "message"),
    [
        ("two-stages", "slrum", {}, "to: got 'slrum'; did you mean 'slurm'"),
        ("two-stages", "slurm", {"command": "t {trial}"}, "nothing in 't {trial}' says how many GPUs"),
        ("two-stages", "slurm", {"command": "t {gpu} {trial}"}, "{gpu} is no placeholder; did you mean 'gpus'"),
        ("two-stages", "slurm", {"command": "t {gpus} {batch} {trial}"}, "cannot express {batch}"),
        ("two-stages", "slurm", {"command": "t 'x {trial}"}, "close the quotes"),
        ("two-stages", "slurm", {"command": "t {gpus}"}, "space: is missing, and the plan has none"),
        ("two-stages", "slurm", {"margin": -1.0}, "margin: got -1.0; input should be"),
        ("two-stages", "slurm", {"template": {"partitoin": "x"}}, "template.partitoin: unknown field"),
        ("two-stages", "slurm", {"template": {"partition": "a b"}}, "template.partition"),
        ("two-stages", "slurm", {"template": {"options": {"time": "1"}}}, "template.options.time: the plan says"),
        ("two-stages", "slurm", {"template": {"options": {"mem": "1\n#SBATCH x"}}}, "stands on one line"),
        (
            "two-stages",
            "slurm",
            {"template": {"gpus": {"V100": "a b"}}},
            "gpus.V100: got 'a b'; the name of a GPU type",
        ),
        (
            "two-stages",
            "slurm",
            {"template": {"gpus": {"T4": "x"}}},
            "template.gpus.T4: the plan has none of that name",
        ),
        ("two-stages", "slurm", {"template": {"resources": {"x": {}}}}, "template.resources.x: the plan has none"),
        ("two-stages", "slurm", {"template": {"options": {"gpus-per-node": "8"}}}, "gpus-per-node: the plan says"),
        (
            "two-stages",
            "kubernetes",
            {"template": PODS | {"placement": {"x": {}}}},
            "template.placement.x: the plan has",
        ),
        (
            "two-stages",
            "skypilot",
            {"template": {"bucket": "s3://x", "accelerators": {"x": "y"}}},
            "template.accelerators.x: the plan has none",
        ),
        ("two-stages", "slurm", {"template": {"env": {"a-b": "x"}}}, "a variable has letters, digits"),
        ("two-stages", "kubernetes", {}, "template.image: is missing"),
        (
            "srift-case3",
            "kubernetes",
            {"template": PODS | {"elastic": True}},
            "cannot express: template.elastic of a JobSet",
        ),
        ("two-stages", "trainjob", {"template": PODS}, "cannot express: 'b1-s1' has 4 trials"),
        ("two-stages", "script", {"gpus_per_node": 2}, "cannot express: 'b1-s1' and what runs"),
        ("srift-case3", "script", {"gpus_per_node": None}, "cannot express: segment"),
        ("srift-case3", "skypilot", {"template": {"bucket": "s3://x"}}, "cannot express: the fleet has 3 groups"),
        ("srift-case3", "trainjob", {"template": PODS}, "cannot express: the fleet has 3 groups"),
        ("seer-resnet18-30min", "skypilot", {"template": {"bucket": "s3://x"}}, "cannot express: 'r1-g4' and 'r1-g2'"),
        ("boa-two-classes", "slurm", {"space": RATES}, "space: jobs of a stream have no configurations"),
        ("boa-two-classes", "slurm", {"mode": "max"}, "mode: jobs of a stream are not ranked; leave it out"),
        ("boa-two-classes", "slurm", {"command": "", "commands": {"vision": "x"}}, "class 'speech' has none; give"),
        ("two-stages", "slurm", {"workdir": "/no/such"}, "workdir: '/no/such' is no folder; give the one in which"),
        ("two-stages", "kubernetes", {"template": PODS, "workdir": "here"}, "give a path in the containers, from / on"),
        ("two-stages", "slurm", {"overlay": {"spec": {}}}, "overlay: jobs of slurm are no pods; leave it out"),
        ("boa-newtrace", "slurm", {"gpus_per_node": 4}, "cannot express: segment .* nodes have 4"),
    ],
)
def test_what_cannot_be_done_is_said(
    plan_of: PlanOf, name: str, to: str, options: dict[str, Any], message: str
) -> None:
    """By name, with what to do instead; nothing is dropped in silence."""
    with pytest.raises(OptplanError, match=message.replace("{", r"\{")) as caught:
        export(plan_of(FULL.get(name, name)), to, **({"command": "train {gpus} {trial}"} | options))
    assert caught.value.exit_code in {1, 2}


def test_a_folder_that_holds_anything_is_not_written_over(plan_of: PlanOf, tmp_path: Path) -> None:
    """Unless that is asked for; scripts can be run."""
    write(plan_of("rubberband-two-stages"), tmp_path)
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials/mine").write_text("kept")
    with pytest.raises(OutputError, match="is not empty; give another folder, or --force"):
        write(plan_of("rubberband-two-stages"), tmp_path)
    files = export(plan_of("rubberband-two-stages"), "script", command="t {gpus} {trial}", gpus_per_node=4)
    write_folder(files, tmp_path, overwrite=True)
    assert (tmp_path / "trials/mine").read_text() == "kept"
    assert stat.S_IMODE((tmp_path / "submit.sh").stat().st_mode) & stat.S_IXUSR


def test_force_replaces_exports_only(plan_of: PlanOf, tmp_path: Path) -> None:
    """A folder of the user's, links to elsewhere, and jobs of other configurations are left alone; modes are kept."""
    plan = plan_of("rubberband-two-stages")

    def again(seed: int = 0) -> None:
        files = export(plan, "script", command="t {gpus} {rate}", gpus_per_node=4, seed=seed, space=RATES)
        write_folder(files, tmp_path / "jobs", overwrite=True)

    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/submit.sh").write_text("mine")
    with pytest.raises(OutputError, match="holds no export; --force replaces nothing else"):
        again()
    assert (tmp_path / "jobs/submit.sh").read_text() == "mine"
    (tmp_path / "jobs/submit.sh").unlink()
    again()
    (tmp_path / "jobs/plan.json").chmod(0o600)
    again(seed=1)  # nothing has run there
    assert stat.S_IMODE((tmp_path / "jobs/plan.json").stat().st_mode) == 0o600
    (tmp_path / "mine").write_text("kept")
    (tmp_path / "jobs/submit.sh").unlink()
    (tmp_path / "jobs/submit.sh").symlink_to(tmp_path / "mine")
    with pytest.raises(OutputError, match=r"submit.sh: is a link to elsewhere"):
        again(seed=1)
    (tmp_path / "jobs/submit.sh").unlink()
    (tmp_path / "jobs/trials/0001").mkdir(parents=True)
    with pytest.raises(OutputError, match="with other configurations, have run there"):
        again(seed=0)
    again(seed=1)
    with pytest.raises(OutputError, match=r"mine: is no folder that can be read \(Not a directory\)"):
        write_folder({}, tmp_path / "mine")


def end(folder: Path, step: str, **losses: float | str | None) -> None:
    """Let trials end a step with losses; None for a trial that fails."""
    for trial, loss in losses.items():
        place = folder / "trials" / trial.removeprefix("t")
        place.mkdir(parents=True, exist_ok=True)
        shown = "no metric at all\n" if loss is None else f'{{"loss": {loss}}}\n{{"loss": 0.00'
        (place / f"metrics-{step}.jsonl").write_text(shown)
        if loss is not None:
            (place / f"ended-{step}").write_text(shown)


def test_the_best_go_on_and_failures_are_last(plan_of: PlanOf, tmp_path: Path) -> None:
    """Loss 0.4 beats 0.5, which beats NaN; a line cut short is none; equal ones stay in order."""
    export_folder = read_export(write(plan_of("rubberband-two-stages"), tmp_path))
    end(tmp_path, "b1-s1", t0001="NaN", t0002=0.5, t0003=0.4, t0004=None)
    assert promote(export_folder, "b1-s2") == ["0003"]
    assert promote(export_folder, "b1-s2") == ["0003"]  # decided again, it is the same
    end(tmp_path, "b1-s2", t0003=0.2)
    assert find_winner(export_folder)["trial"] == "0003"


def test_a_decision_stands_once_somebody_has_begun(plan_of: PlanOf, tmp_path: Path) -> None:
    """Loss 0.4 beats 0.5, and gets worse in stage 2: it keeps its place, which nobody had decided for good before."""
    exported = read_export(write(plan_of("rubberband-two-stages"), tmp_path))
    assert promote(exported, "b1-s2") == []
    end(tmp_path, "b1-s1", t0002=0.5, t0003=0.4)
    assert promote(exported, "b1-s2") == ["0003"]
    (tmp_path / "trials/0003/began-b1-s2").touch()
    end(tmp_path, "b1-s1", t0003=9)
    assert promote(exported, "b1-s2") == ["0003"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"loss": 1' + b"0" * 400 + b"}\n", math.nan),
        (b'{"loss": 0.5}\n' + b"[" * 100_000 + b"\n", 0.5),
        (b'{"loss": 0.5}\n{"loss": "low"}\n', math.nan),
        (b'{"loss": 0.5}\n\xff\xfe\n[1]\n{"loss', 0.5),
        (b'{"loss": 0.5}\n' + b'{"accuracy": 1}\n' * 10_000, 0.5),
        (b"", math.nan),
    ],
)
def test_odd_metrics_are_no_metrics(plan_of: PlanOf, tmp_path: Path, text: bytes, value: float) -> None:
    """Numbers without end, nests without end, text, bytes that are none, other metrics: the last line that has one."""
    exported = read_export(write(plan_of("rubberband-two-stages"), tmp_path))
    end(tmp_path, "b1-s1", t0001=0.6, t0002=0.6)
    (tmp_path / "trials/0002/ended-b1-s1").write_bytes(text)
    assert promote(exported, "b1-s2") == ["0002" if value < 0.6 else "0001"]


def test_only_the_end_of_metrics_is_read(plan_of: PlanOf, tmp_path: Path) -> None:
    """A file of 1 GB, most of it a hole, with the metric in its last line."""
    exported = read_export(write(plan_of("rubberband-two-stages"), tmp_path))
    end(tmp_path, "b1-s1", t0001=0.6, t0002=0.6)
    with (tmp_path / "trials/0002/ended-b1-s1").open("r+b") as file:
        file.seek(10**9)
        file.write(b'\n{"loss": 0.1}\n')
    tracemalloc.start()
    assert promote(exported, "b1-s2") == ["0002"]
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


def test_garbled_exports_are_refused(plan_of: PlanOf, tmp_path: Path) -> None:
    """A manifest of another kind, a begin that is no time."""
    exported = read_export(write(plan_of("boa-two-classes"), tmp_path / "a", "slurm"))
    with pytest.raises(UsageError, match="class: got 'nobody'"):
        submit(exported, unit="nobody", job="x")
    assert not (tmp_path / "a/trials/x").exists()
    for text in ("[]", "{}"):
        (tmp_path / "a/export.json").write_text(text)
        with pytest.raises(UsageError, match=r"export.json: is not as `optplan export` writes it"):
            read_export(tmp_path / "a")
    space = {"rate": {"uniform": [0, 1]}}
    search = read_export(write(plan_of("seer-paper-example"), tmp_path / "b", "slurm", space=space))
    (tmp_path / "b/begun").write_text("yesterday")
    step = next(step.name for step in search.outline.steps if step.is_promoted)
    with pytest.raises(UsageError, match="begun: got 'yesterday'"):
        promote(search, step)


def test_a_job_that_was_not_taken_may_be_submitted_again(plan_of: PlanOf, tmp_path: Path) -> None:
    """The scheduler refuses it: its name is free, and its way is not counted; one that has begun keeps its name."""
    exported = read_export(write(plan_of("boa-two-classes"), tmp_path, "slurm"))
    script = tmp_path / "submit.sh"
    script.write_text("echo no such partition >&2; exit 1\n")
    with pytest.raises(UsageError, match="no such partition"):
        submit(exported, unit="vision", job="v")
    assert not (tmp_path / "trials/v").exists()
    script.write_text("touch trials/$1/began; exit 1\n")
    with pytest.raises(UsageError, match="exit code 1"):
        submit(exported, unit="vision", job="v")
    assert (tmp_path / "trials/v/way").read_text() == "vision-1\n"
    with pytest.raises(UsageError, match="'v' was submitted before"):
        submit(exported, unit="vision", job="v")


def launch(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the launcher, whatever it ends with."""
    command = ["bash", "launch.sh", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_variables_of_the_user_do_not_disturb_the_launcher(plan_of: PlanOf, tmp_path: Path) -> None:
    """Names that the launcher has itself reach the command alone; the launcher's and Bash's own are refused."""
    env = dict.fromkeys(("here", "step", "place", "ended", "code", "child", "argv", "run"), "/nowhere")
    options: dict[str, Any] = {"command": "bash -c 'echo $here $step $code' {gpus}{trial}", "template": {"env": env}}
    folder = write(plan_of("rubberband-two-stages"), tmp_path, **options)
    done = launch(folder, "b1-s1", "2")
    assert done.stdout.split() == ["/nowhere"] * 3, done.stderr
    assert (folder / "trials/0002/ended-b1-s1").exists()
    for name in ("OPTPLAN_KIND", "UID"):
        with pytest.raises(UsageError, match=f"template.env: got '{name}', which the launcher or Bash sets"):
            export(plan_of("rubberband-two-stages"), "slurm", **options | {"template": {"env": {name: "x"}}})


def test_nobody_runs_twice_at_the_same_time(plan_of: PlanOf, tmp_path: Path) -> None:
    """While somebody has a trial's lock, or the folder's, a second one is refused; then it runs."""
    folder = write(plan_of("rubberband-two-stages"), tmp_path, command="true {gpus} {trial}", grace_s=1)
    (folder / "trials/0001").mkdir(parents=True)
    with (folder / "trials/0001/lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = launch(folder, "b1-s1", "1")
        assert (done.returncode, "this one is not started" in done.stderr) == (1, True)
    assert launch(folder, "b1-s1", "1").returncode == 0
    assert (folder / "trials/0001/ended-b1-s1").exists()
    with (folder / "submit.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="an earlier one, or what it started, has not ended"):
            submit(read_export(folder))


def test_nothing_begins_after_time_is_up(plan_of: PlanOf, tmp_path: Path) -> None:
    """A round that began long ago has ended for whoever comes back; after the deadline nobody begins at all."""
    plan = plan_of("seer-paper-example")
    folder = write(plan, tmp_path, "slurm", command="touch ran {gpus}", space={"rate": {"uniform": [0, 1]}})
    step = next(step.name for step in outline(plan).steps if not step.is_promoted)
    trial = (folder / f"members/{step}.txt").read_text().split()[0]
    (folder / "trials" / trial).mkdir(parents=True)
    (folder / f"trials/{trial}/began-{step}").write_text("1000\n")
    done = launch(folder, step)
    assert (done.returncode, "has passed" in done.stdout) == (0, True), done.stderr
    assert (folder / f"trials/{trial}/ended-{step}").exists()
    (folder / "begun").write_text("1000\n")
    for mark in ("began", "ended"):
        (folder / f"trials/{trial}/{mark}-{step}").unlink()
    done = launch(folder, step)
    assert (done.returncode, "nothing more is started" in done.stderr) == (4, True), done.stderr
    assert not (folder / "ran").exists()


def test_a_pipeline_is_launched_once(plan_of: PlanOf, tmp_path: Path) -> None:
    """SkyPilot would run a second one beside the first; a launch that fails may be tried again."""
    plan = plan_of("rubberband-resnet101-20min")
    folder = write(plan, tmp_path / "jobs", "skypilot", template={"bucket": "s3://x"}, gpus_per_node=None)
    sky = tmp_path / "sky"
    variables = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    codes = []
    for code in (7, 0, 0):
        sky.write_text(f"#!/bin/sh\nexit {code}\n")
        sky.chmod(0o755)
        codes.append(subprocess.run(["bash", "submit.sh"], cwd=folder, env=variables, check=False).returncode)
    assert codes == [7, 0, 1]


def test_a_search_that_did_not_get_far_has_the_best_so_far(plan_of: PlanOf, tmp_path: Path) -> None:
    """Nobody is in stage 2: the best of stage 1 has won; nobody at all: there is no winner."""
    exported = read_export(write(plan_of("rubberband-two-stages"), tmp_path))
    assert find_winner(exported)["trial"] is None
    end(tmp_path, "b1-s1", t0002=0.5, t0003=0.5)
    assert find_winner(exported)["trial"] == "0002"


def test_who_was_left_behind_has_not_won(plan_of: PlanOf) -> None:
    """SEER's round 2 keeps nobody of those with 4 GPUs: the winner comes from round 3 alone."""
    taken = outline(plan_of("seer-resnet18-30min"))
    assert [step.name for step in taken.last()] == ["r3-g2", "r3-g1"]
    assert [len(level) for level in taken.levels()] == [3, 3, 2]


def test_decisions_that_cannot_be_taken_are_refused(plan_of: PlanOf, tmp_path: Path) -> None:
    """A step that is not there, one whose members are known, a folder of nothing, a plan that was exchanged."""
    exported = read_export(write(plan_of("rubberband-two-stages"), tmp_path / "a"))
    with pytest.raises(UsageError, match="step: got 'b1-s3'; did you mean 'b1-s2'"):
        promote(exported, "b1-s3")
    with pytest.raises(UsageError, match="nobody is promoted to 'b1-s1'"):
        promote(exported, "b1-s1")
    with pytest.raises(UsageError, match=r"has no export.json; give the folder"):
        read_export(tmp_path)
    other = write(plan_of("seer-paper-example"), tmp_path / "b", "slurm", space={"rate": {"uniform": [0, 1]}})
    (tmp_path / "a" / "plan.json").write_text((other / "plan.json").read_text())
    with pytest.raises(UsageError, match="is not the plan that was exported"):
        read_export(tmp_path / "a")


def test_nothing_is_started_when_the_deadline_has_passed(plan_of: PlanOf, tmp_path: Path) -> None:
    """Ten minutes since the first job began at 1,000 s: at 1,601 s nobody is promoted any more."""
    space = {"rate": {"uniform": [0, 1]}}
    exported = read_export(write(plan_of("seer-paper-example"), tmp_path, "slurm", space=space))
    (tmp_path / "begun").write_text("1000\n")
    step = next(step.name for step in exported.outline.steps if step.is_promoted)
    assert promote(exported, step, now_s=1599.0) == []
    with pytest.raises(LimitPassedError, match=r"the 600 s since its first job began passed 1 s ago; nothing more is"):
        promote(exported, step, now_s=1601.0)


def test_jobs_of_a_class_are_dealt_out_by_share(plan_of: PlanOf, tmp_path: Path) -> None:
    """Two ways of a mixed plan: after 40 jobs each has its share, to within one job."""
    plan = plan_of("boa-two-epochs")
    exported = read_export(write(plan, tmp_path, "slurm"))
    ways = [way for way in exported.outline.ways if way.unit == plan.units[0].id]
    taken = list[str]()
    for number in range(40):
        taken.append(choose_way(exported, plan.units[0].id))
        (tmp_path / f"trials/{number}").mkdir(parents=True)
        (tmp_path / f"trials/{number}/way").write_text(f"{taken[-1]}\n")
    for way in ways:
        assert abs(taken.count(way.name) - 40 * way.share) <= 1
    with pytest.raises(UsageError, match="class: got 'nobody'"):
        choose_way(exported, "nobody")


def test_jobs_of_streams_are_named_once(plan_of: PlanOf, tmp_path: Path) -> None:
    """Names are plain, new, and needed; other plans have none."""
    exported = read_export(write(plan_of("boa-two-classes"), tmp_path / "a", "slurm"))
    with pytest.raises(UsageError, match="give --class and --job"):
        submit(exported)
    with pytest.raises(UsageError, match=r"job: got '\.\./x'; letters, digits"):
        submit(exported, unit="vision", job="../x")
    (tmp_path / "a/trials/taken").mkdir(parents=True)
    with pytest.raises(UsageError, match="'taken' was submitted before"):
        submit(exported, unit="vision", job="taken")
    search = read_export(write(plan_of("rubberband-two-stages"), tmp_path / "b"))
    with pytest.raises(UsageError, match="the plan is not one of streams"):
        submit(search, unit="vision", job="x")


def rename(plan: Plan, vision: str, speech: str) -> Plan:
    """Return boa-two-classes with other names of its classes."""
    text = json.dumps(plan.to_json_data() | {"plan_id": ""})
    text = text.replace("jobs of class vision", "x").replace("jobs of class speech", "x")
    for old, new in {"vision": vision, "speech": speech}.items():
        text = text.replace(f'"{old}', json.dumps(new)[:-1])
    return type(plan).parse(json.loads(text))


@pytest.mark.parametrize(
    ("vision", "speech"), [("a/b!", "a b?"), ("7" * 100, "\n$(x)\n"), ("-rf", "--rf"), ("\"'", "'")]
)
def test_long_and_alike_ids_get_names_of_their_own(plan_of: PlanOf, vision: str, speech: str) -> None:
    """Classes whose names differ in signs only, of a hundred digits, of no letter: steps and ways are kept apart."""
    taken = outline(rename(plan_of("boa-two-classes"), vision, speech))
    steps, ways = [step.name for step in taken.steps], [way.name for way in taken.ways]
    assert len({way.unit for way in taken.ways}) == 2
    for names in (steps, ways):
        assert len(set(names)) == len(names)
        assert all(re.fullmatch("[a-z][a-z0-9-]*", name) for name in names)
    assert all(len(name) <= LONGEST_NAME for name in steps)


def test_the_longest_names_are_names_of_kubernetes(plan_of: PlanOf) -> None:
    """A pod of a stream's JobSet: tag 11, step 20, job 15, g0-0-999-12345 14, and four hyphens, no more than 63."""
    taken = outline(rename(plan_of("boa-two-classes"), "a" * 100, "b"), gpus_per_node=1)
    longest = max((step.name for step in taken.steps), key=len)
    pod = f"op-12345678-{longest}-{'j' * 15}-g0-0-999-12345"
    assert len(longest) == LONGEST_NAME
    assert len(pod) <= 63
    files = export(taken.plan, "kubernetes", command="t {gpus}", template=PODS, gpus_per_node=1)
    assert "{0,13}[a-z0-9]" in files["submit.sh"]


def test_exporters_are_found_by_name(plan_of: PlanOf) -> None:
    """An unknown one is answered with what there is."""
    assert exporters()["slurm"].NEEDS.startswith("sbatch")
    with pytest.raises(UsageError, match="to: got 'nomad'; known: slurm, script"):
        export(plan_of("rubberband-two-stages"), "nomad", command="t {gpus} {trial}")


class _NomadExport(Export):
    SUMMARY = "a job"
    NEEDS = "nomad"

    def write_files(self) -> dict[str, str]:
        """Return one file."""
        return {"job.hcl": f"# {self.plan.plan_id} {self.command}\n"}


@pytest.fixture
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let another package register three exporters: one, one under a name that is taken, and one that is none."""
    module = ModuleType("another_package")
    module.Nomad = _NomadExport  # type: ignore[attr-defined]
    module.write = _NomadExport.write_files  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "another_package", module)
    targets = {"nomad": "another_package:Nomad", "slurm": "another_package:Nomad", "pbs": "another_package:write"}
    points = [EntryPoint(name, value, EXPORTER_GROUP) for name, value in targets.items()]
    monkeypatch.setattr(registry, "entry_points", lambda: EntryPoints(points))
    exporters.cache_clear()
    yield
    exporters.cache_clear()


@pytest.mark.usefixtures("_registered")
def test_other_packages_register_exporters(plan_of: PlanOf, tmp_path: Path) -> None:
    """Theirs is there beside the own ones; what is wrong about the others is said, and they are left out."""
    with pytest.warns(RegistrationWarning) as said:
        found = list(exporters())
    assert found[-1] == "nomad"
    told = [str(each.message) for each in said]
    assert ["'pbs'" in told[0], "not a type" in told[0], "'slurm'" in told[1]] == [True] * 3
    plan = plan_of("rubberband-two-stages")
    folder = write(plan, tmp_path / "jobs", "nomad")
    assert (folder / "job.hcl").read_text() == f"# {plan.plan_id} train --gpus {{gpus}} {{trial}}\n"
    assert (folder / "plan.json").is_file()
