"""``optplan run``, ``status``, ``logs`` and ``stop`` on the virtual clock: what they print, write and refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Runner = Callable[..., Any]

TEXTBOOK = "rubberband-two-stages"
QUADRATIC = f"{Path(__file__).parents[1] / 'trainables' / 'quadratic.py'}:Quadratic"


@pytest.fixture
def plan(run: Runner, tmp_path: Path) -> Path:
    """Write the textbook plan: 100 s for 20 cents, then 180 s for 18 cents."""
    path = tmp_path / "plan.json"
    assert run("solve", TEXTBOOK, "--plan", path).code == 0
    return path


def test_a_run_shows_planned_beside_actual(run: Runner, plan: Path, tmp_path: Path) -> None:
    """As a table; what happens on the way goes to stderr, and every event to a file.

    A virtual run says first that it is one, and does not compare the plan with itself.
    """
    told = run("run", plan, "--events", tmp_path / "events.jsonl")
    assert told.code == 0
    assert told.out.startswith("virtual run: nothing was trained; times and costs are those that the plan expects\n")
    assert told.err.startswith("virtual run: nothing is trained\n")
    rows = [" ".join(line.split()) for line in told.out.splitlines()]
    assert "stage 1: 4 trials of 1 GPU on 2 nodes planned 4 1 min 40 s 0 s 10 s $0.2000" in rows
    assert "actual" not in told.out
    assert "winner" not in told.out
    assert "cost $0.3800" in rows
    assert "[1 min 40 s] stage 2: a trial of 2 GPUs on 1 node" in told.err
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [event["kind"] for event in events if event["kind"].startswith("Segment")] == [
        *("SegmentOpened", "SegmentBegan", "SegmentEnded"),
        *("SegmentOpened", "SegmentBegan", "SegmentEnded"),
    ]
    assert events[-1]["t"] == 280.0
    told = run("run", plan, "--slower", "1.5", "--replan-above", "never")
    rows = [" ".join(line.split()) for line in told.out.splitlines()]
    assert "virtual 2 min 30 s 0 s 15 s $0.3000" in rows
    assert "cost $0.5700 (planned $0.3800)" in rows


def test_json_is_one_object(run: Runner, plan: Path, tmp_path: Path) -> None:
    """With the winner and its configuration, drawn from a space by the seed; first that it was a virtual run."""
    (tmp_path / "space.yaml").write_text("rate: {loguniform: [1.0e-4, 1.0e-1]}\n", encoding="utf-8")
    trained = ("--train", QUADRATIC, "--space", tmp_path / "space.yaml", "--seed", "1", "--json")
    told = run("run", plan, *trained)
    assert next(iter(told.data)) == "virtual"
    assert (told.data["virtual"], told.data["trained"], told.data["status"]) == (True, True, "ended")
    assert set(told.data["winner"]) >= {"trial", "configuration", "metric", "iterations"}
    assert 1e-4 <= told.data["winner"]["configuration"]["rate"] <= 1e-1
    assert (told.data["cost_usd"], told.data["time_s"]) == (pytest.approx(0.38), 280.0)
    assert [segment["id"] for segment in told.data["segments"]] == ["b1-s1", "b1-s2"]
    assert run("run", plan, *trained).data == told.data
    assert "winner" not in run("run", plan, "--json").data


def test_a_run_stops_at_a_limit_and_goes_on(run: Runner, plan: Path, tmp_path: Path) -> None:
    """Exit code 4; the status says why; with a larger budget it ends."""
    out = tmp_path / "run"
    stopped = run("run", plan, "--out", out, "--budget", "0.20usd")
    assert stopped.code == 4
    assert "would bring the cost to $0.38; the budget is $0.20" in stopped.out
    stood = run("status", out)
    assert (stood.code, f"{out}: nobody follows it" in stood.out) == (0, True)
    resumed = run("run", "--resume", out, "--budget", "1usd")
    assert (resumed.code, resumed.err.splitlines()[0]) == (0, "virtual run: nothing is trained")
    assert run("status", out, "--json").data["status"] == "ended"
    assert run("logs", out).out == ""
    told = run("logs", out, "trial-1")
    assert (told.code, "'trial-1' has written nothing" in told.err) == (2, True)
    assert "asked" not in run("stop", out).err


@pytest.mark.parametrize("option", [("--retries", "5"), ("--grace", "1min"), ("--launcher", "torchrun")])
def test_options_of_real_trials_mean_nothing_on_the_virtual_clock(
    run: Runner, plan: Path, tmp_path: Path, option: tuple[str, str]
) -> None:
    """Nothing fails or is stopped there, so they are refused by their own names, also when a run goes on."""
    told = run("run", plan, *option)
    assert told.code == 2
    assert told.err.startswith(f"error: {option[0]}: got ")
    assert "which means nothing to executor 'virtual'; leave it out, or use local, " in told.err
    assert told.err.endswith("ray or slurm\n")
    assert run("run", plan, "--out", tmp_path / "run", "--budget", "0.20usd").code == 4
    assert "means nothing to executor 'virtual'" in run("run", "--resume", tmp_path / "run", *option).err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "PLAN is missing; `optplan solve NAME --plan plan.json` writes one, and --resume needs none"),
        (["{plan}", "--resume", "{out}"], 2, "--resume: PLAN cannot be given as well; the run has its own"),
        (["{plan}", "--budget", "3gpu"], 2, "--budget: got 3gpu; a run is limited in money, as in 25usd"),
        (["{plan}", "--executor", "local", "--out", "{out}"], 2, "needs something to train; give --train or --command"),
        (["{plan}", "--executor", "kubernetes"], 2, "'kubernetes' is not one of"),
        (["{plan}", "--checkpoint-space", "much"], 2, "--checkpoint-space: cannot read 'much'"),
        (["--resume", "{out}"], 2, "no run is there; give the folder that --out named"),
        (["{plan}", "--setup", "{plan}"], 1, "setup.version: unknown field 'version'; known: image, commands"),
        (["{plan}", "--space", "{plan}"], 1, "space.version: got 2; one of {uniform"),
        (["{out}/none.json"], 1, "none.json: no such file"),
        (
            ["boa-newtrace"],
            2,
            "boa-newtrace: is an instance, and a plan is needed; `optplan solve boa-newtrace --plan plan.json` makes",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    run: Runner, plan: Path, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    """Wrong usage and wrong data, with their exit codes."""
    told = run("run", *(part.format(plan=plan, out=tmp_path / "out") for part in arguments))
    assert told.code == code
    assert message in told.err


def test_plans_that_were_edited_or_are_of_another_version_are_refused(run: Runner, plan: Path) -> None:
    """The id says so, and the version."""
    data = json.loads(plan.read_text(encoding="utf-8"))
    plan.write_text(json.dumps(data | {"objective": 0.1}), encoding="utf-8")
    told = run("run", plan)
    assert (told.code, "the plan was changed by hand" in told.err) == (1, True)
    plan.write_text(json.dumps(data | {"version": 3}), encoding="utf-8")
    told = run("run", plan)
    assert (told.code, "plan.json: version: got 3; understood: 2" in told.err) == (1, True)


def test_status_logs_and_stop_need_a_run(run: Runner, tmp_path: Path) -> None:
    """A folder without one is named."""
    for words in (("status",), ("stop",), ("logs", "trial-1")):
        for folder in (tmp_path / "none", tmp_path):
            told = run(words[0], folder, *words[1:])
            assert (told.code, "no run is there" in told.err) == (2, True)


def test_runs_beside_one_another(run: Runner, plan: Path, tmp_path: Path) -> None:
    """Several folders: a table of planned and actual of each, one object as JSON, and one page."""
    folders = [tmp_path / name for name in ("whole", "stopped")]
    run("run", plan, "--out", folders[0])
    run("run", plan, "--out", folders[1], "--budget", "0.20usd")
    told = run("status", *folders)
    assert told.code == 0, told.err
    assert [line.split()[-2] for line in told.out.splitlines() if "virtual" in line] == ["$0.3800", "$0.2000"]
    assert run("report", *folders, "-o", tmp_path / "both.html").code == 0
    assert "$0.2000" in (tmp_path / "both.html").read_text(encoding="utf-8")
    both = run("status", *folders, "--json").data["runs"]
    assert [both[str(folder)]["status"] for folder in folders] == ["ended", "paused"]


def test_what_a_run_measured_goes_back_into_the_instance(run: Runner, plan: Path, tmp_path: Path) -> None:
    """Half as slow again: 15 s and 9 s an iteration, listed and written; the next plan says so."""
    out, measured = tmp_path / "run", tmp_path / "measured.json"
    assert run("run", plan, "--slower", "1.5", "--replan-above", "never", "--out", out).code == 0
    told = run("calibrate", out, TEXTBOOK, "-o", measured)
    assert told.code == 0
    assert "training.seconds_per_iteration.1: 15 s, was 10 s" in told.out
    assert "training.seconds_per_iteration.2: 9 s, was 6 s" in told.out
    solved = run("solve", measured, "--deadline", "10min", "--plan", tmp_path / "next.json")
    assert solved.code == 0
    assert run("run", tmp_path / "next.json", "--slower", "1.0", "--json").code == 0
    assert told.out.startswith("virtual run: these are the times and prices of its clock, and none was measured\n")
    source = run("calibrate", out, TEXTBOOK, "--json").data["instance"]["source"]["measured"]
    assert source.startswith("on the virtual clock, where nothing is measured, in a run of plan")
    told = run("calibrate", out, "srift-case2")
    assert (told.code, "is a run of a rubberband plan, and srift-case2 is of srift" in told.err) == (2, True)


@pytest.mark.parametrize("part", ["a lot", "-5%", "nan"])
def test_parts_that_are_none_are_refused(run: Runner, plan: Path, part: str) -> None:
    """A part is a number, with or without a sign of per cent, or the word never."""
    told = run("run", plan, "--replan-above", part)
    assert (told.code, "a part is needed, as in 20%, or 'never'" in told.err) == (2, True)


def test_a_metric_has_a_name(run: Runner, plan: Path) -> None:
    """An empty one would rank trials by nothing."""
    told = run("run", plan, "--metric", "")
    assert (told.code, "--metric: got ''" in told.err) == (1, True)


def test_a_rest_that_is_infeasible_has_an_exit_code_of_its_own(run: Runner, plan: Path, tmp_path: Path) -> None:
    """The textbook search at a third of its speed cannot keep its deadline; the page of the status says so."""
    out = tmp_path / "run"
    told = run("run", plan, "--slower", "3", "--out", out)
    assert (told.code, "the rest has become infeasible" in told.out) == (3, True)
    assert run("report", out, "-o", tmp_path / "page.html").code == 0
    assert "the rest has become infeasible" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_help_says_the_defaults_and_ranges_that_hold(run: Runner) -> None:
    """Help of options is what their fields say: the default with its unit, of each kind of runs, and the range."""
    said = " ".join(run("run", "--help").out.split())
    assert "; 10min of fleets, 1min by default." in said  # 600 s and 60 s
    assert "are deleted; 10GB by default." in said
    assert "--slots INTEGER RANGE" in said
    assert "[x>=1]" in said
    assert "[default" not in said  # what is not given is not filled
