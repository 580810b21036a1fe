"""``optplan solve --state``: the run of the paper's section 5.4, its files, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: Section 5.4: after 222 s one of two p3.8xlarge is lost; new VMs take 150 s, detaching 4 s.
LOSS = (
    "elapsed_s: 222s\niterations_done: 200\nready_s: 138\nlaunch_s: 150\ndetach_s: 4\n"
    "running: {p3.8xlarge: 1}\nlost: {p3.8xlarge: 1}\n"
)
RUN = "srift-interruption"


@pytest.fixture
def rest(tmp_path: Path) -> tuple[str, ...]:
    """Return what asks for the rest of the run, with the state as a file."""
    path = tmp_path / "state.yaml"
    path.write_text(LOSS, encoding="utf-8")
    return ("solve", RUN, "--state", str(path))


def test_the_interruption_of_the_paper(run: Callable[..., Any], rest: tuple[str, ...]) -> None:
    """Section 5.4: 1 p3.8xlarge and 8 g3.8xlarge, predicted to train for 100 s and to end at 476 s (figure 8)."""
    done = run(*rest)
    assert done.code == 0
    for part in (
        "1 p3.8xlarge@512 + 8 g3.8xlarge@64",
        "7 min 56 s",
        "24 s",
        "4 min 34 s",
        "6 min 16 s",
        "2 p3.8xlarge",
    ):
        assert part in done.out
    data = run(*rest, "--json").data
    assert data["end_s"] == pytest.approx(476.3, abs=0.1)
    assert data["spare"]["deadline"] == pytest.approx(23.7, abs=0.1)
    last = data["timeline"][-1]
    assert last["end_s"] - last["start_s"] == pytest.approx(100.3, abs=0.1)  # published: 100
    assert data["result"]["objective"] == pytest.approx(0.256, abs=0.001)
    assert data["used"]["deadline"] == 226
    assert [one["happening"] for one in data["timeline"]] == ["launch", "train", "pause", "launch", "train"]


def test_a_deadline_that_cannot_be_kept(run: Callable[..., Any], rest: tuple[str, ...]) -> None:
    """Within 400 s the run cannot end any more: exit code 3, with the deadline that could be kept."""
    done = run(*rest, "--deadline", "400s")
    assert done.code == 3
    said = " ".join(done.out.split())
    assert "174 s of the deadline" in said
    assert "a deadline of 7 min 10 s" in said
    data = run(*rest, "--deadline", "400s", "--json").data
    (relaxation,) = data["infeasibility"]["relaxations"]
    assert relaxation["given"] == 400
    enough = f"{relaxation['least_feasible'] + 0.01}s"
    assert run(*rest, "--deadline", enough).code == 0


def test_a_deadline_that_is_gone(run: Callable[..., Any], rest: tuple[str, ...]) -> None:
    """After the deadline, the answer is when the run can end at the earliest, and the rest is still planned."""
    done = run(*rest, "--deadline", "200s")
    assert done.code == 3
    assert "226 s of the deadline of 200 s" in done.out
    assert "nothing, of 3 min 20 s" in done.out
    data = run(*rest, "--deadline", "200s", "--json").data
    assert data["gone"] == ["deadline"]
    assert "deadline_s" not in data["instance"]


def test_files_that_are_written(run: Callable[..., Any], rest: tuple[str, ...], tmp_path: Path) -> None:
    """The new problem and its result can be verified."""
    result, instance = tmp_path / "new.json", tmp_path / "rest.json"
    done = run(*rest, "-o", result, "--new-instance", instance)
    assert done.code == 0
    assert json.loads(instance.read_text(encoding="utf-8"))["iterations"] == 200
    assert run("verify", instance, result).code == 0
    assert run(*rest, "-o", result).code == 1  # it exists


@pytest.mark.parametrize(
    ("state", "code", "message"),
    [
        ("[1]", 2, "is no state; its fields are version, elapsed_s, iterations_done"),
        ("elapsed_s: 5", 1, "state.yaml: iterations_done: is missing"),
        ("{elapsed_s: 1, iterations_done: 2, elapsd: 3}", 1, "state.yaml: elapsd: unknown field"),
        (LOSS.replace("200", "400"), 1, "iterations_done: is 400 of 400; nothing is left to plan: the run is"),
        (LOSS + "running: {g3.8xlarge: x}", 1, "running"),
        (LOSS.replace("lost: {p3.8xlarge", "lost: {p2"), 1, "lost.p2: no such type of VM"),
    ],
)
def test_wrong_states_are_refused(
    run: Callable[..., Any], rest: tuple[str, ...], state: str, code: int, message: str
) -> None:
    """A state is an object with known fields; what says nothing, too much, or what cannot be, is named."""
    Path(rest[-1]).write_text(state, encoding="utf-8")
    done = run(*rest)
    assert (done.code, done.out) == (code, "")
    assert message in done.err


def test_what_has_no_rest_is_refused(run: Callable[..., Any], rest: tuple[str, ...]) -> None:
    """Only runs of srift are planned anew, and options of other questions have no meaning."""
    done = run("solve", "boa-two-classes", *rest[2:])
    assert done.code == 2
    assert (
        "INSTANCE: 'boa-two-classes' is of formulation 'boa', whose plans are not made anew in the middle" in done.err
    )
    assert "--compare: has no meaning with --state; leave it out" in run(*rest, "--compare", "highs").err


@pytest.mark.slow
def test_the_report_shows_the_whole_run(run: Callable[..., Any], rest: tuple[str, ...], tmp_path: Path) -> None:
    """The page begins with the timeline; a second loss that might come is told apart from it."""
    pytest.importorskip("plotly")
    page = tmp_path / "page.html"
    assert run(*rest, "--report", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "The whole run" in text
    assert text.count('id="run"') == 1
