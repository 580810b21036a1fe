"""Plans of all four formulations on a Slurm of four nodes: read back by sbatch, and run to their end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from optplan.contracts import Plan
from optplan.errors import UsageError
from optplan.execution.exports.folder import export, write_folder
from optplan.execution.exports.promotion import read_export, submit
from optplan.execution.streams.running import run_stream
from optplan.execution.streams.state import StreamJob
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan
from optplan.instances.files import read_instance
from optplan.solving import build_plan, solve

pytestmark = pytest.mark.real


class SlurmCluster(Protocol):
    """What conftest.py starts."""

    environment: dict[str, str]

    def call(self, *command: str, cwd: Path | None = None) -> str:
        """Run a command of Slurm and return what it printed."""

    def wait(self) -> None:
        """Wait until no job is left."""


PlanOf = Callable[..., Plan]
OPTPLAN = {"optplan": f"{sys.executable} -m optplan.cli"}
DOCS = Path(__file__).parents[3] / "docs"
RATES = {"rate": {"choice": [0.9, 0.3, 0.5, 0.7]}}


def export_to(folder: Path, plan: Plan, command: str, slurm: SlurmCluster, **options: Any) -> None:  # noqa: ANN401
    """Export a plan, and have every file that can stand alone read by sbatch."""
    template = OPTPLAN | options.pop("template", {})
    write_folder(export(plan, "slurm", command=command, template=template, **options), folder)
    for job in sorted((folder / "jobs").glob("*.sbatch")):
        slurm.call("sbatch", "--test-only", str(job), cwd=folder)


def submit_all(folder: Path, slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
    """Submit an export, and wait for its end."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    submit(read_export(folder), **options)
    slurm.wait()


def histories(folder: Path) -> dict[str, list[str]]:
    """Return by trial what its runs said when they began."""
    return {file.parent.name: file.read_text().splitlines() for file in sorted(folder.glob("trials/*/history"))}


def logs(folder: Path) -> str:
    """Return what all jobs wrote."""
    return "".join(f"{log.name}: {log.read_text()}" for log in sorted(folder.glob("logs/*")))


def test_a_search_runs_to_its_end_and_survives_a_failure(
    plan_of: PlanOf, tmp_path: Path, slurm: SlurmCluster, train_command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four trials of 10 iterations, the best for 30 more; trial 2 fails once, and goes on from iteration 1."""
    plan = plan_of("rubberband-two-stages")
    export_to(tmp_path, plan, train_command, slurm, space=RATES, template={"env": {"FAIL_ONCE": "0002"}})
    submit_all(tmp_path, slurm, monkeypatch)
    begun = histories(tmp_path)
    winner = json.loads((tmp_path / "winner.json").read_text())
    assert winner["configuration"] == {"rate": 0.3}, logs(tmp_path)
    assert winner["metric"] == pytest.approx(0.3 + 1 / 40)
    assert [line.split(" on ")[0] for line in begun["0002"]][:2] == ["0002 b1-s1 from 0", "0002 b1-s1 from 1"]
    assert begun[winner["trial"]][-1].startswith(f"{winner['trial']} b1-s2 from 10 on 2 GPUs, at n")


def test_rounds_end_by_the_clock_at_several_widths(
    tmp_path: Path, slurm: SlurmCluster, train_command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEER's rounds with trials of 1 and 2 GPUs side by side: everybody stops when time is up, and the best goes on."""
    example = read_instance("seer-paper-example")
    instance = example.replace(deadline_min=0.42, budget="2.1gpu-min", least_round_min=0.042)
    plan = build_plan(instance, solve(instance, solver="published-seer"))
    assert max(segment.gpus for segment in plan.segments) <= 2, [s.id for s in plan.segments]
    export_to(tmp_path, plan, train_command, slurm, space={"rate": {"uniform": [0.1, 0.9]}})
    submit_all(tmp_path, slurm, monkeypatch)
    winner = json.loads((tmp_path / "winner.json").read_text())
    last = (tmp_path / "members" / f"{read_export(tmp_path).outline.last()[0].name}.txt").read_text().split()
    assert winner["trial"] is not None, logs(tmp_path)
    assert winner["trial"] in last


def test_a_mixed_fleet_is_one_het_job(
    tmp_path: Path, slurm: SlurmCluster, train_command: str, plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two groups of VMs, 1 with 2 GPUs and 2 with 1: three nodes with ranks of their own, and each group's batch."""
    plan = _small_fleet(plan_of("srift-case3"))
    export_to(tmp_path, plan, train_command, slurm)
    submit_all(tmp_path, slurm, monkeypatch)
    said = logs(tmp_path)
    assert "node 1 of 3, batch 64" in said
    assert "node 2 of 3, batch 64" in said
    assert (tmp_path / "trials/job/checkpoint/count").read_text() == "20\n", said
    assert sorted(path.name for path in tmp_path.glob("trials/job/ended-*")) != []


def test_a_job_of_a_stream_submits_its_next_segment(
    plan_of: PlanOf, tmp_path: Path, slurm: SlurmCluster, train_command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of class vision asks for the width planned now, and at an epoch's end for the next one."""
    plan = plan_of("boa-two-classes")
    segments = [segment for segment in plan.segments if segment.unit == "vision"]
    export_to(tmp_path, plan, train_command, slurm, template={"env": {"RATE": "0.5"}})
    submit_all(tmp_path, slurm, monkeypatch, unit="vision", job="vision-17")
    begun = histories(tmp_path)["vision-17"]
    assert len(begun) == len(segments), logs(tmp_path)
    for line, segment in zip(begun, segments, strict=True):
        assert f"vision-17 {segment.id} from" in line
        assert f"on {segment.gpus} GPUs" in line
    assert (tmp_path / "trials/vision-17/checkpoint/count").read_text() == "3\n"


def test_a_killed_job_is_resubmitted_from_its_checkpoint(
    tmp_path: Path, slurm: SlurmCluster, train_command: str, plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its training is killed by signal 9: Slurm queues it again, and it goes on from what it had stored."""
    plan = _small_fleet(plan_of("srift-case3"), groups=1)
    export_to(tmp_path, plan, train_command, slurm, template={"env": {"PACE": "0.2"}})
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    submit(read_export(tmp_path))
    until = time.monotonic() + 240
    while not (tmp_path / "trials/job/checkpoint/count").exists():
        assert time.monotonic() < until, logs(tmp_path)
        time.sleep(0.1)
    os.kill(int((tmp_path / "trials/job/pid").read_text()), signal.SIGKILL)
    slurm.wait()
    begun = histories(tmp_path)["job"]
    assert len(begun) == 2, logs(tmp_path)
    assert " from 0 on " not in begun[1]
    assert (tmp_path / "trials/job/checkpoint/count").read_text() == "20\n"


def test_a_folder_is_not_submitted_twice(
    plan_of: PlanOf, tmp_path: Path, slurm: SlurmCluster, train_command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While jobs of the first time are there, the second is refused; when they have been ended it is not."""
    space, template = {"rate": {"choice": [0.9, 0.3, 0.5, 0.7]}}, {"env": {"PACE": "30"}}
    folder = tmp_path / "a b'c"
    export_to(folder, plan_of("rubberband-two-stages"), train_command, slurm, space=space, template=template)
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    submit(read_export(folder))
    with pytest.raises(UsageError, match="jobs of this folder are still there") as refused:
        submit(read_export(folder))
    ids = str(refused.value).rpartition("scancel ")[2].split()
    assert len(ids) == len((folder / "submitted.tsv").read_text().splitlines())
    slurm.call("scancel", *ids)
    slurm.wait()
    submit(read_export(folder))
    slurm.call("scancel", *slurm.call("squeue", "--noheader", "--format=%A").split())
    slurm.wait()


def test_options_of_the_template_reach_slurm_as_they_are(
    plan_of: PlanOf, tmp_path: Path, slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quotes, signs and spaces in a comment stay one word; the CPUs of a task reach its command."""
    said = 'it\'s "x" $(touch pwned) # !!y -r \\ ;'
    template = {"options": {"comment": said, "cpus-per-task": "2"}, "env": {"step": "x"}}
    command = "bash -c 'echo $SLURM_CPUS_PER_TASK {gpus}'"
    export_to(tmp_path, plan_of("boa-two-classes"), command, slurm, template=template)
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    shown = submit(read_export(tmp_path), unit="vision", job="v").split()[1]
    assert slurm.call("squeue", "--noheader", "--all", f"--jobs={shown}", "--Format=comment:100").rstrip() == said
    slurm.wait()
    assert logs(tmp_path).splitlines()[0].split(": ")[1].split()[0] == "2", logs(tmp_path)
    assert not list(tmp_path.rglob("pwned"))


def test_from_sacct_to_squeue(tmp_path: Path, slurm: SlurmCluster, write_training: Callable[[Path], None]) -> None:
    """The commands of the page on logs, as they stand there: from a log to jobs that run to their end."""
    page = (DOCS / "logs.md").read_text(encoding="utf-8")
    for title, text in re.findall(r'^```yaml title="([^"]+)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL):
        (tmp_path / title).write_text(text)
    for sample in ("sacct.txt", "throughput.csv"):
        (tmp_path / sample).write_text((DOCS / "examples" / sample).read_text(encoding="utf-8"))
    commands = re.findall(r"^\$ (optplan (?:import|export|solve.* --plan).*(?:\n    .*)*)", page, re.MULTILINE)
    blocks = re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    jobs = [block for block in blocks if "optplan submit" in block]
    # The first command of the page shows what is asked when classes are only suggested.
    commands = [command for command in commands if "import log" not in command or "--class-pattern" in command]
    script = "\n".join([*commands, *jobs])
    write_training(tmp_path)
    assert script.count("optplan submit") == 2
    programs = f"{Path(sys.executable).parent}:{slurm.environment['PATH']}"
    variables = slurm.environment | {"PATH": programs}
    shell = ["bash", "-euc", script]
    done = subprocess.run(shell, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2, "squeue shows the jobs"
    slurm.wait()
    trained = sorted((tmp_path / "jobs").glob("trials/*/checkpoint/state.json"))
    assert [json.loads(file.read_text())["done"] for file in trained] == [1, 1], logs(tmp_path / "jobs")


def test_a_partition_that_is_not_there_is_found_before_anything_runs(
    plan_of: PlanOf, tmp_path: Path, slurm: SlurmCluster, train_command: str
) -> None:
    """`sbatch --test-only` refuses it by name."""
    with pytest.raises(AssertionError, match="invalid partition specified: nowhere"):
        export_to(tmp_path, plan_of("boa-two-classes"), train_command, slurm, template={"partition": "nowhere"})


def _small_fleet(plan: Plan, groups: int = 2) -> Plan:
    """Return a plan of a fleet whose groups have 1 node of 2 GPUs and 2 nodes of 1, for 20 iterations."""
    sizes = [(1, 2, 128), (2, 2, 64)][:groups]
    data = plan.to_json_data()
    data["units"], data["plan_id"] = data["units"][:groups], ""
    data["segments"] = [
        segment
        | {
            "nodes": nodes,
            "workers": workers,
            "batch_per_worker": batch,
            "exit": {"when": "iterations", "iterations": 20},
        }
        for segment, (nodes, workers, batch) in zip(data["segments"], sizes, strict=False)
    ]
    data["global_batch"] = sum(unit["batch_per_vm"] * unit["count"] for unit in data["units"])
    data["world_size"] = sum(unit["gpus_per_vm"] * unit["count"] for unit in data["units"])
    return type(plan).parse(data)


def test_a_stream_is_submitted_segment_by_segment(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three jobs hold one GPU and then two: each is two jobs of Slurm, the second from the first one's checkpoint."""
    curves = [[1.0, 1.1], [1.0, 1.9]]
    stated = {
        "arrival_rate_per_hour": 900.0,
        "epoch_size_gpu_hours": [0.5 / 3600.0] * 2,
        "speedup": {"t4": {"form": "table", "gpus": [1, 2], "speedup": curves}},
    }
    fields = {"name": "small", "formulation": "boa", "gpu_types": {"t4": {}}, "budget": "0.26gpu", "problem": "whole"}
    instance = BoaInstance.parse({**fields, "classes": {"a": stated}})
    plan = build_plan(instance, solve(instance))
    assert isinstance(plan, BoaPlan)
    assert plan.width_table["a"][0].gpus.tolist() == [1, 2]
    jobs = [StreamJob(name=f"job-{k}", job_class="a", at_s=k, configuration={"epoch_s": 0.5}) for k in range(3)]
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    sleeper = f"{Path(__file__).parents[1] / 'streams' / 'sleeper.py'}:train"
    outcome = run_stream(
        plan, jobs, sleeper, executor="slurm", gpus_per_node={"t4": 4}, out=tmp_path / "stream", grace_s=5.0
    )
    assert (outcome.status, outcome.classes[0].completed, outcome.dropped) == ("ended", 3, {})
    assert outcome.classes[0].widths == (1, 2)
    slurm.wait()
