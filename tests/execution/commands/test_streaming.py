"""``optplan run`` with a plan of BOA: a stream on the virtual clock, its folder, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.execution.online.messages import Terms
from optplan.execution.runs import read_run

if TYPE_CHECKING:
    from tests.conftest import Runner


@pytest.fixture
def files(run: Runner, write_instance: Callable[..., Path], tmp_path: Path) -> tuple[Path, Path, Path]:
    """Write an instance, its plan of two GPUs a job (0.625 h), and four jobs, one an hour."""
    instance, plan, jobs = write_instance(), tmp_path / "plan.json", tmp_path / "jobs.json"
    assert run("solve", instance, "--plan", plan).code == 0
    listed = [{"name": f"job-{number}", "job_class": "job", "at_s": 3600.0 * number} for number in range(4)]
    jobs.write_text(json.dumps(listed), encoding="utf-8")
    return instance, plan, jobs


def test_a_stream_as_planned(run: Runner, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Four jobs take 0.625 h and 1.25 GPU-hours each; events are written, and the folder says how it went."""
    instance, plan, jobs = files
    out, events = tmp_path / "s1", tmp_path / "events.jsonl"
    told = run("run", plan, jobs, "--truth", instance, "--out", out, "--events", events, "--json")
    assert told.code == 0
    (one,) = told.data["classes"]
    assert (one["completed"], one["actual_jct_s"], one["planned_jct_s"]) == (4, 2250.0, 2250.0)
    assert one["actual_gpu_hours"] == pytest.approx(1.25)
    kinds = [json.loads(line)["kind"] for line in events.read_text(encoding="utf-8").splitlines()]
    assert kinds.count("JobArrived") == 4
    assert kinds[-1] in {"Ended", "NodeChanged"}
    status = run("status", out)
    assert status.code == 0
    assert status.out.splitlines()[:2] == [
        f"{out}: it has ended",
        "virtual stream: nothing was trained; times are those of the instance",
    ]
    assert "37 min 30 s (planned 37 min 30 s)" in status.out
    assert " actual " not in status.out
    assert run("run", "--resume", out).code == 0


def test_a_stream_that_queues_and_learns(run: Runner, files: tuple[Path, Path, Path]) -> None:
    """On two GPUs in all, jobs queue in the order given; with --learn the calculator is asked."""
    instance, plan, jobs = files
    options = ("--most-gpus", "2", "--order", "weighted-shortest", "--gpus-per-node", "2")
    told = run("run", plan, jobs, "--learn", instance, *options, "--every", "30min", "--window", "10h", "--json")
    assert told.code == 0
    assert told.data["classes"][0]["completed"] == 4


def test_a_stream_that_goes_on_keeps_what_is_not_said_again(
    run: Runner, files: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --every alone the budget is held as before, and what was seen fades as before."""
    instance, plan, jobs = files
    out, given = plan.parent / "s1", dict[str, Any]()
    begun = ("--learn", instance, "--hold-budget", "debt", "--window", "10h", "--every", "30min")
    assert run("run", plan, jobs, *begun, "--out", out).code == 0

    def go_on(folder: Path, **options: Any) -> Any:  # noqa: ANN401 - as resume
        given.update(options)
        return read_run(folder).describe()

    monkeypatch.setattr("optplan.execution.runs.resume", go_on)
    assert run("run", "--resume", out, "--every", "5min").code == 0
    terms = Terms.parse(given["terms"])
    assert (terms.every_s, terms.window_h, terms.hold_budget) == (300.0, 10.0, "debt")


def test_what_nodes_take_is_waited_for_and_goes_back_into_the_instance(
    run: Runner, files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """Each job waits 60 s for two nodes: 2,310 s, and 4 * 2 / 60 of 4 * (1.25 + 2 / 60) GPU-hours of nodes."""
    instance, plan, jobs = files
    slow, out, measured = tmp_path / "slow.json", tmp_path / "s1", tmp_path / "measured.json"
    types = {"v100": {"price_usd_per_hour": 2.0, "start_s": "1min"}}
    slow.write_text(json.dumps(json.loads(instance.read_text(encoding="utf-8")) | {"gpu_types": types}), "utf-8")
    told = run("run", plan, jobs, "--truth", slow, "--out", out, "--json")
    assert (told.code, told.data["actual_jct_s"]) == (0, pytest.approx(2310.0))
    assert told.data["starting_gpu_hours"] == pytest.approx(8 / 60)
    assert told.data["node_gpu_hours"] == pytest.approx(5 + 8 / 60)
    assert "5.133 (0.1333 of them, 2.6 %, while they started; held by jobs 5)" in run("status", out).out
    told = run("calibrate", out, instance, "-o", measured)
    assert (told.code, told.out.splitlines()[1:]) == (0, ["gpu_types.v100.start_s: 1 min 00 s, was 0 s"])
    assert "at most 0.033 GPUs more (2.7 %, $48.67 a month) and 1 min 00 s a job" in " ".join(
        run("solve", measured).out.split()
    )
    told = run("calibrate", out, "srift-case2")
    assert (told.code, "is a run of a boa plan, and srift-case2 is of srift" in told.err) == (2, True)


def test_what_is_refused(run: Runner, files: tuple[Path, Path, Path]) -> None:
    """Nothing to go by, a resume with other options, and options of other kinds of plans."""
    instance, plan, jobs = files
    assert "how long epochs take" in run("run", plan, jobs).err
    assert "JOBS is missing" in run("run", plan).err
    out = plan.parent / "s1"
    assert run("run", plan, jobs, "--truth", instance, "--out", out).code == 0
    told = run("run", "--resume", out, "--truth", instance)
    fixed = run("run", "--resume", out, "--gpus-per-node", "4")
    assert (fixed.code, "--gpus-per-node: a run keeps what it began with; leave it out" in fixed.err) == (2, True)
    assert f"--truth: cannot be given with --resume; {out} is of a stream of jobs; leave it out" in told.err
    assert "as in partition=gpu" in run("run", plan, jobs, "--truth", instance, "--sbatch", "gpu").err
    assert "one (--truth or --learn)" in run("run", plan, jobs).err
    told = run("run", plan, jobs, "--truth", instance, "--lose", "v100@3s")
    assert f"--lose: has no meaning here; {plan} is a plan of a stream of jobs; leave it out" in told.err
    for option in (("--sbatch", "partition=gpu"), ("--slots", "4"), ("--gres", "v100"), ("--metric", "loss")):
        told = run("run", plan, jobs, "--truth", instance, *option)
        if option == ("--metric", "loss"):  # what it is anyway
            assert told.code == 0
        else:
            assert told.code == 2
            assert f"{option[0]}: got " in told.err
            assert "means nothing to executor 'virtual'" in told.err
    assert "shows how long epochs take" in run("run", plan, jobs, "--truth", instance, "--executor", "local").err
    for option in (("--every", "30min"), ("--window", "10h"), ("--hold-budget", "debt")):
        told = run("run", plan, jobs, "--truth", instance, *option)
        assert (told.code, f"{option[0]}: goes with --learn; leave it out" in told.err) == (2, True)
    told = run("run", plan, jobs, "--learn", instance, "--every", "1ms")
    assert told.code == 1
    assert told.err.startswith("error: --every: got 0.001; ")
