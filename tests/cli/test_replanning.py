"""``optplan replan``: the run of the paper's section 5.4, from options, files and results, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: Section 5.4: after 222 s one of two p3.8xlarge is lost; new VMs take 150 s, detaching 4 s.
LOSS = (
    *("--elapsed", "222s", "--iterations-done", "200", "--ready", "138s", "--launch", "150s", "--detach", "4s"),
    *("--running", "p3.8xlarge", "--lost", "p3.8xlarge=1"),
)


@pytest.fixture
def state_file(tmp_path: Path) -> Path:
    """Return the same state as a file."""
    path = tmp_path / "state.yaml"
    path.write_text(
        "elapsed_s: 222s\niterations_done: 200\nready_s: 138\nlaunch_s: 150\ndetach_s: 4\n"
        "running: {p3.8xlarge: 1}\nlost: {p3.8xlarge: 1}\n",
        encoding="utf-8",
    )
    return path


def test_the_interruption_of_the_paper(run: Callable[..., Any]) -> None:
    """Section 5.4: 1 p3.8xlarge and 8 g3.8xlarge, predicted to train for 100 s and to end at 476 s (figure 8)."""
    done = run("replan", "srift-interruption", *LOSS)
    assert done.code == 0
    assert "Go on with 1 p3.8xlarge@512 + 8 g3.8xlarge@64: it ends after 7 min 56 s, 24 s before the dead" in done.out
    assert "4 min 34 s, of 8 min 20 s; new VMs take 2 min 30 s of it" in done.out
    assert "6 min 16 s" in done.out
    assert "2 p3.8xlarge" in done.out
    data = run("replan", "srift-interruption", *LOSS, "--json").data
    assert data["end_s"] == pytest.approx(476.3, abs=0.1)
    assert data["spare"]["deadline"] == pytest.approx(23.7, abs=0.1)
    last = data["timeline"][-1]
    assert last["end_s"] - last["start_s"] == pytest.approx(100.3, abs=0.1)  # published: 100
    assert data["result"]["objective"] == pytest.approx(0.256, abs=0.001)
    assert data["used"]["deadline"] == 226
    assert [one["happening"] for one in data["timeline"]] == ["launch", "train", "pause", "launch", "train"]


def test_a_state_from_a_file(run: Callable[..., Any], state_file: Path) -> None:
    """A file says the same as the options, which go before it."""
    by_options = run("replan", "srift-interruption", *LOSS, "--json").data
    by_file = run("replan", "srift-interruption", "--state", state_file, "--json").data
    assert by_file["timeline"] == by_options["timeline"]
    later = run("replan", "srift-interruption", "--state", state_file, "--detach", "5s", "--json").data
    assert later["end_s"] == pytest.approx(by_file["end_s"] + 1)


def test_the_fleet_of_a_result(run: Callable[..., Any], tmp_path: Path) -> None:
    """With the result of the run, what is not lost is running, and batches are known."""
    result = tmp_path / "result.json"
    assert run("solve", "srift-interruption", "-o", result).code == 0
    options = ("--elapsed", "222s", "--iterations-done", "200", "--launch", "150s", "--result", result)
    done = run("replan", "srift-interruption", *options, "--lost", "p3.8xlarge", "--json")
    assert done.data["timeline"][0]["fleet"] == "2 p3.8xlarge@512"
    refused = run("replan", "srift-interruption", *options, "--lost", "p3.8xlarge=3")
    assert refused.code == 2
    assert "--lost: 3 p3.8xlarge are more than the 2 that the fleet had" in refused.err
    other = run("replan", "srift-case2", *options, "--lost", "g4dn.8xlarge")
    assert other.code == 2
    assert run("solve", "srift-interruption", "--deadline", "10s", "-o", result, "--force").code == 3
    refused = run("replan", "srift-interruption", *options, "--lost", "p3.8xlarge", "--deadline", "10s")
    assert refused.code == 2
    assert "has no fleet (status infeasible)" in refused.err


def test_a_deadline_that_cannot_be_kept(run: Callable[..., Any]) -> None:
    """Within 400 s the run cannot end any more: exit code 3, with the deadline that could be kept."""
    done = run("replan", "srift-interruption", *LOSS, "--deadline", "400s")
    assert done.code == 3
    said = " ".join(done.out.split())
    assert "The limits cannot be kept any more: with 174 s of the deadline left, the fastest fleet" in said
    assert "What would do: a deadline of 7 min 10 s or more." in said
    data = run("replan", "srift-interruption", *LOSS, "--deadline", "400s", "--json").data
    (relaxation,) = data["infeasibility"]["relaxations"]
    assert relaxation["given"] == 400
    enough = f"{relaxation['least_feasible'] + 0.01}s"
    assert run("replan", "srift-interruption", *LOSS, "--deadline", enough).code == 0


def test_a_deadline_that_is_gone(run: Callable[..., Any]) -> None:
    """After the deadline, the answer is when the run can end at the earliest, and the rest is still planned."""
    done = run("replan", "srift-interruption", *LOSS, "--deadline", "200s")
    assert done.code == 3
    assert "226 s of the deadline of 200 s are gone; the fastest way to finish ends at" in done.out
    assert "nothing, of 3 min 20 s" in done.out
    data = run("replan", "srift-interruption", *LOSS, "--deadline", "200s", "--json").data
    assert data["gone"] == ["deadline"]
    assert "deadline_s" not in data["instance"]


def test_files_that_are_written(run: Callable[..., Any], tmp_path: Path) -> None:
    """The new problem and its result can be verified."""
    result, instance = tmp_path / "new.json", tmp_path / "rest.json"
    done = run("replan", "srift-interruption", *LOSS, "-o", result, "--new-instance", instance)
    assert done.code == 0
    assert json.loads(instance.read_text(encoding="utf-8"))["iterations"] == 200
    assert run("verify", instance, result).code == 0
    assert run("replan", "srift-interruption", *LOSS, "-o", result).code == 1  # it exists


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 2, "--elapsed: say where the run stands, or give --state FILE"),
        (("--elapsed", "5s"), 2, "--iterations-done: say where the run stands, or give --state FILE"),
        ((*LOSS, "--running", "g3.8xlarge=x"), 2, "--running: got 'g3.8xlarge=x'; a type and how many VMs of it are"),
        ((*LOSS, "--running", "g3.8xlarge=0"), 2, "--running: got 'g3.8xlarge=0'; a type and how many"),
        ((*LOSS, "--lost", "=2"), 2, "--lost: got '=2'; a type and how many VMs of it are needed, as in p3.8xlarge=2"),
        ((*LOSS, "--lost", "p3.8xlarge"), 2, "--lost: 'p3.8xlarge' is given twice; give it once"),
        ((*LOSS, "--spent", "3usd/hour"), 2, "--spent: got '3usd/hour'; money in all is needed, as in 0.45usd"),
        ((*LOSS[:3], "400", *LOSS[4:]), 1, "iterations_done: is 400 of 400; nothing is left to plan: the run is"),
        ((*LOSS, "--lost", "p2"), 1, "lost.p2: no such type of VM"),
    ],
)
def test_what_is_refused(run: Callable[..., Any], options: tuple[str, ...], code: int, message: str) -> None:
    """Options that say nothing, too much, or what cannot be, are named."""
    done = run("replan", "srift-interruption", *options)
    assert done.code == code
    assert message in done.err
    assert not done.out


def test_other_files_and_formulations_are_refused(run: Callable[..., Any], tmp_path: Path) -> None:
    """A state is an object with known fields, and only runs of srift are planned anew."""
    state = tmp_path / "state.json"
    state.write_text("[1]", encoding="utf-8")
    done = run("replan", "srift-interruption", "--state", state)
    assert done.code == 2
    assert "is no state; its fields are version, elapsed_s, iterations_done" in done.err
    state.write_text('{"elapsed_s": 1, "iterations_done": 2, "elapsd": 3}', encoding="utf-8")
    done = run("replan", "srift-interruption", "--state", state)
    assert done.code == 1
    assert "state.json: elapsd: unknown field" in done.err
    done = run("replan", "boa-two-classes", *LOSS)
    assert done.code == 2
    assert (
        "INSTANCE: 'boa-two-classes' is of formulation 'boa', whose plans are not made anew in the middle" in done.err
    )


def test_the_report_shows_the_whole_run(run: Callable[..., Any], tmp_path: Path) -> None:
    """The page begins with the timeline; a second loss that might come is told apart from it."""
    pytest.importorskip("plotly")
    page = tmp_path / "page.html"
    assert run("replan", "srift-interruption", *LOSS, "--report", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "The whole run" in text
    assert text.count('id="run"') == 1
