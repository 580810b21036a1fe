"""The evaluation on a sub-trace: it runs, writes its page, and a second run simulates nothing."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from paper import running, setting
from paper.__main__ import main
from paper.experiments import AUTOSCALED, EXACT_ALIKE
from paper.figures import Axis, Line, draw
from paper.gathering import Gathered, add_up
from paper.pages import percent, write_page, write_table

from optplan.errors import UsageError
from optplan.lab.cluster.policies.pollux import Knowledge, Pollux

#: Smaller still than the quick form.
_LEAST = dataclasses.replace(
    setting.QUICK,
    budgets_gpus=(4, 6),
    filtered_gpus=(5,),
    few_gpus=(8, 14),
    philly_gpus=(50,),
    elsewhere_gpus=(6,),
    online_gpus=(),
    widths=(4,),
    nodes=(1,),
    targets=(0.9,),
    learning_nodes=(1,),
    learning_targets=(0.9,),
    variations=(10.0,),
    max_width=8,
    searched="pollux-nsga2:2x1",
    jobs=3,
)


def test_the_page_is_made_and_resumed(data_pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every section and figure is there; what was simulated is not simulated again, and figures stay the same."""
    monkeypatch.setattr("paper.__main__.QUICK", _LEAST)
    # A thirtieth of Pollux' rounds.
    monkeypatch.setattr(Pollux.__init__, "__defaults__", (Knowledge.TRUTH, 1800.0))
    (tmp_path / "docs" / "assets").mkdir(parents=True)
    asked = ["--data", str(data_pack), "--cells", str(tmp_path / "cells"), "--docs", str(tmp_path / "docs"), "--quick"]
    assert main([*asked, "--processes", "1"]) == 0
    page = (tmp_path / "docs" / "paper.md").read_text(encoding="utf-8")
    for heading in (
        "Prediction",
        "trivial rivals",
        "Job by job",
        *(f"Figure {n}" for n in (4, 5, 6, 7, 8, 9)),
    ):
        assert re.search(rf"^## .*{heading}", page, re.MULTILINE), heading
    figures = re.findall(r'--8<-- "docs/(assets/paper-[\w-]+\.svg)"', page)
    assert len(figures) == 11
    for figure in figures:
        ElementTree.fromstring((tmp_path / "docs" / figure).read_text(encoding="utf-8"))
    # What was planned on a trace is what is simulated on it.
    predicted = re.findall(r"^\| \d+ \| `newtrace-1` \| .* \|$", page, re.MULTILINE)
    assert predicted
    assert all(len(re.findall(r"[+-]0\.0\s%", row)) == 2 for row in predicted)

    def refuse(*_: object, **__: object) -> list[dict[str, Any]]:
        message = "simulated again"
        raise AssertionError(message)

    monkeypatch.setattr(running, "run", refuse)
    monkeypatch.setattr("paper.running.replay", refuse)
    monkeypatch.setattr("paper.experiments.replay", refuse)
    assert main([*asked, "--processes", "1"]) == 0
    again = (tmp_path / "docs" / "paper.md").read_text(encoding="utf-8")
    assert _without_times(again) == _without_times(page)


def _without_times(page: str) -> str:
    """Leave out what a run takes."""
    return re.sub(r"This run took [\d.]+ minutes", "", page)


def test_a_run_without_time_begins_nothing(data_pack: Path, tmp_path: Path) -> None:
    """What is left, or is not to be begun, is counted, and nothing is simulated."""
    where = setting.Setting(data_pack, tmp_path, _LEAST)
    runner = running.Runner(where, limit_s=0.0)
    cells = {str(k): where.cell(where.newtrace(), f"one-width:{k}") for k in (2, 4)}
    assert running.gather(runner, "widths", {"one width": cells}) == {}
    assert (runner.left, runner.done) == (2, {})
    runner = running.Runner(where, without=["one-width"])
    assert running.gather(runner, "widths", {"one width": cells}) == {}
    assert runner.left == 2
    assert not where.cells_folder.exists()


def make_gathered(**known: Any) -> Gathered:  # noqa: ANN401
    """Gather nothing but what is given."""
    trace = {"jobs": 85, "span_h": 8.0, "variation": 2.65, "applications": {"bert": 85}}
    empty = (
        "few",
        "filtered",
        "newtrace",
        "elsewhere",
        "information",
        "learning",
        "agents",
        "watched_few",
        "watched",
    )
    nothing: dict[str, Any] = {
        **{name: {} for name in empty},
        **{name: [] for name in ("arrivals", "predictions", "sia")},
        **{"date": "2026-11-22", "machine": "a machine", "versions": "optplan 1", "seconds": 1.0, "quick": True},
        **{"max_width": 8, "cells": 0, "left": 7, "taken": {}},
        "traces": dict.fromkeys(("newtrace-1", "filtertrace", "workload-1-of-85"), trace),
        "spans_h": {"few": 8.0, "filtered": 48.0, "newtrace": 48.0},
    }
    return Gathered(**(nothing | known))


def test_what_was_not_run_says_so(tmp_path: Path) -> None:
    """A page of nothing: the cells that are left are counted, and tables say that they were not run."""
    told = make_gathered()
    write_page(told, tmp_path, command="make bench-paper")
    page = (tmp_path / "paper.md").read_text(encoding="utf-8")
    assert "**7 cells are not run yet**" in page
    assert "Not run." in page


def test_a_folder_without_data_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the path, and what to give."""
    with pytest.raises(UsageError, match=r"data: no folder sia/traces in .*; give the folder of the public data"):
        setting.Setting(tmp_path, tmp_path)
    assert main(["--data", str(tmp_path), "--cells", str(tmp_path)]) == 1
    assert "no folder sia/traces" in capsys.readouterr().err


def test_charts_place_points_on_their_scales() -> None:
    """On a logarithmic axis from 10 to 1000 the middle is 100; the tick for it stands where the point is."""
    line = Line("a < b", [10.0, 100.0, 1000.0], [0.0, 1.0, 2.0], steps=True)
    svg = ElementTree.fromstring(draw("chart", [line], Axis("x", logarithmic=True), Axis("y", low=0.0)))
    space = "{http://www.w3.org/2000/svg}"
    middle = [float(str(circle.get("cx"))) for circle in svg.iter(f"{space}circle")][1]
    ticks = {str(text.text): text.get("x") for text in svg.iter(f"{space}text")}
    assert middle == pytest.approx((62 + 640 - 12) / 2)
    assert float(str(ticks["100"])) == pytest.approx(middle)
    assert "a < b" in ticks


def test_bursts_are_told_by_policy(tmp_path: Path) -> None:
    """Each C^2, seed and policy is a row, exact widths at the GPU-hours of autoscaling too."""
    cell = {"mean_jct_s": 100.0, "p95_jct_s": 100.0, "node_gpu_hours": 1.0, "most_gpus": 1}
    told = {EXACT_ALIKE: {**cell, "completed": 1, "num_jobs": 1}, AUTOSCALED: None}
    rows = [{"variation": 30.0, "seed": 1, "measured": 30.0, "policies": told}]
    write_page(make_gathered(arrivals=rows), tmp_path, command="make bench-paper")
    page = (tmp_path / "paper.md").read_text(encoding="utf-8")
    assert f"| 30 | 30.00 | 1 | {EXACT_ALIKE} | 100 |" in page
    assert f"| {AUTOSCALED} |" not in page


def test_charts_tell_many_lines_apart_and_leave_out_what_is_dominated() -> None:
    """The ninth line has the first one's colour, dashed; a point above a cheaper one is marked, but not joined."""
    lines = [Line(f"line {number}", [1.0, 2.0, 3.0], [3.0, 4.0, 1.0], falling=True) for number in range(9)]
    svg = ElementTree.fromstring(draw("chart", lines, Axis("x"), Axis("y")))
    drawn = list(svg.iter("{http://www.w3.org/2000/svg}polyline"))
    assert drawn[8].get("stroke") == drawn[0].get("stroke") != drawn[7].get("stroke")
    assert [one.get("stroke-dasharray") is None for one in drawn] == [True] * 8 + [False]
    assert len(str(drawn[0].get("points")).split()) == 2
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}circle"))) == 27


def test_columns_of_numbers_stand_to_the_right() -> None:
    """Shares and what stands in their place count as numbers; names, and names beside numbers, do not."""
    rows = [["a", "1,000", percent(0.1), "2"], ["b", "-3.5", "no such", "two"]]
    head, rule, *_ = write_table(["name", "hours", "off", "mixed"], rows).splitlines()
    assert head == "| name | hours | off | mixed |"
    assert rule == "| --- | --: | --: | --- |"


def test_what_was_run_adds_up_by_policy() -> None:
    """Numbers in a policy's name are left out; who learns speeds is counted apart."""
    cells = [
        {"policy": "pollux-autoscaled:0.5", "knowledge": "truth", "cpu_s": 1.0},
        {"policy": "pollux-autoscaled:0.7", "cpu_s": 2.0},
        {"policy": "pollux-autoscaled:0.7", "knowledge": "learned", "cpu_s": 4.0},
    ]
    assert add_up(cells) == {"pollux-autoscaled": (2, 3.0), "pollux-autoscaled, speeds learned": (1, 4.0)}
