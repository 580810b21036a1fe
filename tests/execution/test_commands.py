"""What the lines of a command's metrics tell: how long it took to start, and how long its iterations took."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optplan.execution.trainables import Lines
from optplan.execution.trial_files import PROGRESS


def read(folder: Path, seen: dict[float, int]) -> tuple[Lines, list[float | None]]:
    """Let so many lines be seen at each of these times; return what came of it, and the seconds handed on."""
    lines = Lines(folder, {"metric": "loss", "from_iterations": 3, "metrics": {}, "checkpoint": None})
    progress = folder / PROGRESS
    for time_s, many in seen.items():
        with lines.file.open("a", encoding="utf-8") as file:
            file.write(many * '{"loss": 0.5}\n')
        lines.read(time_s)
    told = progress.read_text(encoding="utf-8").splitlines() if progress.exists() else []
    return lines, [json.loads(line)["seconds"] for line in told]


def test_the_start_is_measured_apart_from_the_iterations(tmp_path: Path) -> None:
    """Wanted at 10 s, first line at 16.19 s, then every 0.15 s: 0.15 s an iteration, after 6.04 s."""
    lines, handed_on = read(tmp_path, {16.19: 1, 16.34: 1, 16.49: 1, 16.64: 1})
    assert lines.time_steps(10.0) == pytest.approx({"steps": 4.0, "start_s": 6.04, "step_s": 0.15})
    assert handed_on == [None, *map(pytest.approx, [0.15] * 3)]
    assert lines.iterations == 7


def test_lines_that_are_seen_together_share_their_time(tmp_path: Path) -> None:
    """Two at 1.2 s and three 0.3 s later: 0.1 s an iteration, so that the first two began at 1 s."""
    lines, handed_on = read(tmp_path, {1.2: 2, 1.5: 3})
    assert lines.time_steps(0.0) == pytest.approx({"steps": 5.0, "start_s": 1.0, "step_s": 0.1})
    assert handed_on == [None, None, *map(pytest.approx, [0.1] * 3)]


@pytest.mark.parametrize(("seen", "expected"), [({7.0: 4}, {"steps": 4.0, "start_s": 7.0}), ({}, {"steps": 0.0})])
def test_what_comes_at_once_tells_nothing_of_an_iteration(
    tmp_path: Path, seen: dict[float, int], expected: dict[str, float]
) -> None:
    """Nothing is made up: there is no time of an iteration."""
    assert read(tmp_path, seen)[0].time_steps(0.0) == expected


def test_a_start_is_never_before_it_was_wanted(tmp_path: Path) -> None:
    """Iterations that become slower would have the first one begin before: it began at once."""
    assert read(tmp_path, {0.1: 1, 5.1: 1})[0].time_steps(0.0)["start_s"] == 0.0
