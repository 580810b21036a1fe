"""``optplan run`` with a plan of Srift: the paper's timeline, questions about limits, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Runner

#: Section 5.4 on the virtual clock.
PAPER = ("--boots", "138s", "--boots", "150s", "--detach", "4s", "--launch", "150s", "--heartbeat", "100ms")
DONE = '{"iterations": 400, "ended": true, "left": true}'


@pytest.fixture
def plan(run: Runner, tmp_path: Path) -> Path:
    """Write the plan of section 5.4."""
    path = tmp_path / "plan.json"
    assert run("solve", "srift-interruption", "--plan", path).code == 0
    return path


def test_the_papers_timeline(run: Runner, plan: Path) -> None:
    """It ends after 476 s with 1 p3.8xlarge and 8 g3.8xlarge, and says on the way what happens."""
    told = run("run", plan, "--lose", "p3.8xlarge@222s", "--iteration-takes", "420ms", *PAPER)
    assert told.code == 0
    assert told.out.startswith("virtual fleet: nothing was trained; what happened is what was asked for\n")
    assert "2 p3.8xlarge@512, then 1 p3.8xlarge@512 + 8 g3.8xlarge@64" in told.out
    assert "7 min 56 s" in told.out
    assert "rank 0 is asked for a checkpoint: a VM was lost" in told.err
    assert "1 p3.8xlarge lost: on with 1 p3.8xlarge@512 and 8 g3.8xlarge@64" in told.err


def test_only_what_there_is_can_be_lost(run: Runner, plan: Path) -> None:
    """A type that the instance does not have would be lost without a word: it is refused, with the nearest name."""
    told = run("run", plan, "--lose", "p3.8xlage@222s", *PAPER)
    assert told.code == 2
    assert "--lose: there is no type of VM 'p3.8xlage'; did you mean 'p3.8xlarge'?" in told.err


def test_limits_that_are_gone_are_asked_about(run: Runner, plan: Path, tmp_path: Path) -> None:
    """Exit code 3, and JSON says which limit by how much; a virtual run goes on with what is said, or is given up."""
    late = ("run", plan, "--lose", "p3.8xlarge@400s", "--iteration-takes", "900ms", *PAPER)
    told = run(*late, "--json")
    assert (told.code, told.data["status"], told.data["code"]) == (3, "paused", 3)
    (relaxation,) = told.data["infeasibility"]["relaxations"]
    assert (relaxation["limit"], relaxation["given"]) == ("deadline", 500.0)
    # 400.1 s, 4 s less what has gone by of them, 150 s until new VMs are there, and training.
    assert relaxation["least_feasible"] > 554.0
    shown, out = run(*late, "--out", tmp_path / "run"), tmp_path / "run"
    assert shown.code == 3
    assert "to go on --resume DIR with a deadline of" in " ".join(shown.out.split())
    stopped = run("stop", out)
    assert (stopped.code, f"{out}: nobody follows it; it is paused" in stopped.err) == (0, True)
    copied = tmp_path / "copied"
    shutil.copytree(out, copied)
    minutes, seconds = re.findall(r"a deadline of (\d+) min (\d+) s or more", " ".join(shown.out.split()))[0]
    again = run("run", "--resume", copied, "--deadline", f"{60 * int(minutes) + int(seconds)}s", "--json")
    assert (again.code, again.data["status"], again.data["iterations"]) == (0, "ended", 400)
    ended = run("run", "--resume", out, "--abort", "--json").data
    assert (ended["code"], ended["status"], ended["why"]) == (1, "ended", "given up by the user")
    assert [ended[name] for name in ("time_s", "cost_usd")] == [told.data[name] for name in ("time_s", "cost_usd")]


def test_a_run_goes_on_with_another_limit(run: Runner, plan: Path, tmp_path: Path) -> None:
    """Fleet 1 falls silent and cannot end in time; with a later deadline the run goes on; status tells it."""
    silent = '{"iterations": 10}'
    script, out = tmp_path / "vms.sh", tmp_path / "run"
    script.write_text(
        f"""[ $OPTPLAN_ACTION = start ] || exit 0
        case $OPTPLAN_FLEET in */fleet-001) said='{silent}';; *) said='{DONE}';; esac
        for rank in $(seq -f %05g 0 40); do
            grep -q "\\"rank\\": $(expr $rank + 0)," $OPTPLAN_FLEET/operation.json || continue
            echo "$said" > $OPTPLAN_FLEET/ranks/$rank.jsonl
        done
        """,
        encoding="utf-8",
    )
    terms = ("--heartbeat", "50ms", "--grace", "1s", "--launch", "1h")
    told = run("run", plan, "--executor", "command", "--command", f"sh {script}", "--out", out, *terms, "--json")
    assert told.code == 3
    assert run("status", out, "--json").data == {**told.data, "process": None}
    shown = " ".join(run("status", out).out.split())
    assert "--resume DIR with a deadline of" in shown
    assert "to give up --resume DIR --abort" in shown
    again = run("run", "--resume", out, "--deadline", "3h", "--json")
    assert (again.code, again.data["status"]) == (0, "ended")
    assert again.data["lost"] == {"p3.8xlarge": 2}
    assert len(again.data["fleets"]) == 2
    assert json.loads((out / "operations" / "fleet-002" / "plan.json").read_text(encoding="utf-8"))["supersedes"]


def test_a_run_can_be_given_up(run: Runner, plan: Path, tmp_path: Path) -> None:
    """All VMs are given back, and it has ended with code 1."""
    script, out = tmp_path / "vms.sh", tmp_path / "run"
    script.write_text(f"echo $OPTPLAN_ACTION >> {tmp_path}/calls\n", encoding="utf-8")
    terms = ("--launch-wait", "100ms", "--heartbeat", "50ms", "--grace", "1s", "--launch", "1h")
    assert run("run", plan, "--executor", "command", "--command", f"sh {script}", "--out", out, *terms).code == 3
    told = run("run", "--resume", out, "--abort", "--json")
    assert (told.code, told.data["status"], told.data["why"]) == (1, "ended", "given up by the user")
    assert (tmp_path / "calls").read_text(encoding="utf-8").split()[-1] == "release"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "PLAN is missing"),
        (("--resume", "nowhere"), "no run is there; give the folder that --out named"),
        (("{plan}", "--abort"), "--abort: ends a run that has begun; give its folder, --resume DIR, in place of "),
        (("{plan}", "--deadline", "1h"), "--deadline: a fleet begins with the limits of its plan's instance; "),
        (("{plan}", "--gres", "v100"), "--gres: got 'v100', which means nothing to executor 'virtual'; leave it out"),
        (("{plan}", "--command", "train"), "--command: nothing is started on a virtual clock; leave it out, or use "),
        (("{plan}", "--notice", "2min"), "--notice: says how the VMs go that --lose names; give it, or leave both out"),
        (("{plan}", "--slower", "2"), "is a plan of a fleet; leave it out"),
        (("{plan}", "--heartbeat", "0s"), "--heartbeat: got '0s'; a finite number above zero is needed"),
        (("{plan}", "--detach", "-1s"), "--detach: got '-1s'; zero or a finite number above it is needed"),
        (
            ("{plan}", "--executor", "local", "--command", "true", "--out", "x", "--boots", "3s"),
            "--boots: what happens is not up to executor 'local'; leave it out, or use virtual",
        ),
        (("{plan}", "jobs.yaml"), "JOBS: jobs.yaml is given, and "),
        (("plan.json", "--lose", "p3.8xlarge"), "a type and when it goes are needed"),
    ],
)
def test_what_does_not_fit_is_refused(run: Runner, plan: Path, arguments: tuple[str, ...], said: str) -> None:
    """With usage errors that say what to give."""
    told = run("run", *(part.format(plan=plan) for part in arguments))
    assert told.code == 2
    assert said in told.err


def test_times_of_nothing_are_taken(run: Runner, plan: Path) -> None:
    """Who waits for no VM that has fallen silent, and needs no time to free a disk, says so: `0s`."""
    told = run("run", plan, "--return-wait", "0s", "--detach", "0s", "--json")
    assert (told.code, told.data["status"]) == (0, "ended")
