"""What is shown while a plan is followed: one line that says what runs, how good, for how much, and how long still."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts.modes import Mode
from optplan.execution import records as told
from optplan.execution.cli.kinds import RunView, listening
from optplan.execution.cli.searches import SearchView
from optplan.execution.options import Rules, SearchOptions
from optplan.execution.running import run
from optplan.execution.state import State
from optplan.instances.files import read_instance
from optplan.solving import build_plan, solve

QUADRATIC = f"{Path(__file__).parents[1] / 'trainables' / 'quadratic.py'}:Quadratic"
#: Configurations; the losses after 10 iterations are 9 (1 - 2 rate)^20.
RATES = [{"rate": rate} for rate in (0.01, 0.3, 0.1, 0.02)]


def follow(mode: Mode = Mode.MIN, **options: Any) -> tuple[list[str], SearchView]:  # noqa: ANN401 - fields of SearchOptions
    """Follow the textbook search, and return the line after each record."""
    instance = read_instance("rubberband-two-stages")
    plan = build_plan(instance, solve(instance))
    options["train"] = QUADRATIC
    chosen = SearchOptions(mode=mode, **options)
    view, lines = SearchView(State(plan), Rules.of(plan, chosen)), list[str]()

    def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
        view(record)
        lines.append(view.line(record.t))

    run(plan, listener=listen, space=RATES, mode=mode, **options)
    return lines, view


def test_the_line_says_what_runs_and_what_it_has_taken() -> None:
    """Four trials on two nodes for 100 s and 20 cents, then one on one node for 180 s and 18 cents."""
    lines, _ = follow()
    first = "stage 1: 4 trials of 1 GPU on 2 nodes"
    waiting = "waiting for nodes (0 are ready) | 4 trials | $0.00 of $0.38 | 0 s, about 4 min 40 s to go"
    assert f"virtual run | {first} | {waiting}" in lines
    # both nodes are there, and will be charged a minute at least
    assert f"virtual run | {first} | 4 trials | $0.12 of $0.38 | 0 s, about 4 min 40 s to go" in lines
    best = f"best loss {9.0 * 0.4**20:.6g} (b1-s1-trials-0002)"
    second = f"virtual run | stage 2: a trial of 2 GPUs on 1 node | 1 trial | {best}"
    assert f"{second} | $0.20 of $0.38 | 1 min 40 s, about 3 min 00 s to go" in lines
    assert lines[-1].endswith("| $0.38 of $0.38 | 4 min 40 s, about 0 s to go")


def test_the_best_is_the_largest_where_more_is_better() -> None:
    """With mode max another trial leads."""
    lines, view = follow(Mode.MAX)
    best = max(view._seen.values())
    assert f"| best loss {best:.6g} (" in lines[-1]
    assert best == pytest.approx(9.0 * 0.96**20)  # of rate 0.02; the slowest has gone on, and come nearer


def test_a_late_run_is_expected_to_end_later() -> None:
    """Half as slow again: when the second stage opens at 150 s, 180 s are still to come, as far as is known."""
    lines, _ = follow(slower=1.5, replan_above=None)
    assert any(line.endswith("2 min 30 s, about 3 min 00 s to go") for line in lines)


def test_a_terminal_gets_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is left of it when the run has ended; names of users are shown and not obeyed."""

    class _Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    instance = read_instance("rubberband-two-stages")
    plan = build_plan(instance, solve(instance))
    view = SearchView(State(plan), Rules.of(plan))
    with listening(None, view) as listener:
        run(plan, listener=listener)
    assert "b1-s2 ended" in terminal.getvalue()
    assert "best" not in terminal.getvalue()


def test_runs_of_all_kinds_say_the_same_of_the_same() -> None:
    """A line for what readers should know, whatever runs, and none for the rest; fleets say a few things more."""
    said = [
        (told.NodeChanged(1.0, "n-1", "lost", "Ray has lost its machine"), "n-1 is lost: Ray has lost its machine"),
        (told.OperationFailed(1.0, "a.1", "was killed by signal 9"), "a.1: was killed by signal 9"),
        (told.TrialDropped(1.0, "a", "failed once: no data"), "gave up a: failed once: no data"),
        (told.TablePublished(1.0, {}, "the rate of a moved"), "new widths: the rate of a moved"),
        (told.Replanned(1.0, {}, "+50 % time against the plan", 0.0, 0.0), "+50 % time against the plan"),
        (told.Noted(1.0, "a trial fails after 5 min"), "a trial fails after 5 min"),
        (told.NodeChanged(1.0, "n-1", "ready"), ""),
    ]
    assert [RunView("search").say(record) for record, _ in said] == [line for _, line in said]
    teller = RunView("fleet")
    assert teller(told.OperationWanted(0.04, "fleet-001", "s", "job", 1, {"v": 4, "w": 4})) == [
        "[0 s] fleet-001 is started on 2 VMs"
    ]
    assert teller.say(told.OperationWanted(9.0, "fleet-002", "s", "job", 2, {"v": 4})) == "fleet-002 is started on 1 VM"
    assert teller(told.OperationFailed(1.0, "fleet-001", "ended to go on otherwise", blameless=True)) == []
    assert teller(told.OperationFailed(1.0, "fleet-001", "no CUDA")) == ["[1 s] fleet-001: no CUDA"]
    back = told.NodeChanged(2.0, "v", "ready", "is heard of again, 2 s after it was missed")
    assert teller(back) == ["[2 s] v is heard of again, 2 s after it was missed: it is taken back"]
    asked = told.Resumed(1.0, {"deadline_s": 90.0, "budget_usd": 5.0, "retries": 1})
    assert teller(asked) == ["[1 s] limits from now on: deadline 1 min 30 s, budget $5.00"]


def test_what_is_no_number_is_not_the_best() -> None:
    """A whole number beyond all floats, and a truth value, are passed over; 0.5 is not."""
    instance = read_instance("rubberband-two-stages")
    plan = build_plan(instance, solve(instance))
    view = SearchView(State(plan), Rules.of(plan, SearchOptions()))
    for number, value in enumerate((10**400, True, 0.5), start=1):
        assert view(told.Progressed(1.0, f"b1-s1.trials-{number}.1", 1, {"loss": value}, 1.0)) == []
    assert view._seen == {"trials-3": 0.5}
