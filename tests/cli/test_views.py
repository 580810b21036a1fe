"""The commands to decide with (``explain``, ``frontier``, ``compare``): limits, and their pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conftest import Runner

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')


def test_explanations_are_reported(run: Runner, tmp_path: Path) -> None:
    """The report of the result, with the section that explains it and the command that verifies it."""
    result, page = tmp_path / "result.json", tmp_path / "why.html"
    run("solve", "boa-two-classes", "--budget", "11gpu", "-o", result)
    told = run("explain", result, "--budget", "11gpu", "--report", page)
    assert (told.code, told.err) == (0, f"wrote {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "Why each class gets these GPUs" in text
    assert f"optplan verify boa-two-classes {result} --budget 11gpu" in text
    assert run("explain", result, "--report", page, "--force").code == 0  # the result carries the change
    assert "optplan solve boa-two-classes --budget 11gpu -o result.json" in page.read_text(encoding="utf-8")
    again = run("explain", result, "--budget", "11gpu", "--report", page)
    assert (again.code, again.out) == (1, "")
    assert f"--report: {page} exists" in again.err


@pytest.mark.parametrize(("options", "seconds"), [((), 2.0), (("--time-limit", "1min"), 60.0)])
def test_re_solves_have_a_limit(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], seconds: float
) -> None:
    """Two seconds each unless another limit is given; the help says so."""
    from optplan import solving

    asked: list[float | None] = []

    def note(*arguments: Any, **settings: Any) -> Any:  # noqa: ANN401 - of the function replaced
        asked.append(settings["time_limit_s"])
        return original(*arguments, **settings)

    original = solving.explain
    monkeypatch.setattr(solving, "explain", note)
    result = tmp_path / "result.json"
    run("solve", "boa-one-table", "-o", result)
    assert run("explain", result, *options).code == 0
    assert asked == [seconds]
    assert "[default: 2s]" in " ".join(run("explain", "--help").out.split())


def test_an_instance_is_no_result(run: Runner) -> None:
    """Whoever asks to explain an instance is told what to do first."""
    told = run("explain", "boa-newtrace")
    assert (told.code, told.out) == (2, "")
    assert (
        "RESULT: boa-newtrace is an instance; solve it first, `optplan solve boa-newtrace -o result.json`" in told.err
    )


def test_samples_are_reported(run: Runner, tmp_path: Path) -> None:
    """The report of the plan that was sampled, with the section on wrong estimates."""
    page = tmp_path / "samples.html"
    run("solve", "boa-two-classes", "-o", tmp_path / "result.json")
    told = run("explain", tmp_path / "result.json", "--wrong", "speedup=10%", "--samples", "20", "--report", page)
    assert (told.code, told.err) == (0, f"wrote {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "What wrong estimates do to the plan" in text
    assert "20 samples" in text
    assert "speedups by 10\N{NO-BREAK SPACE}%" in text
    assert "chart-estimates-2" in text


@pytest.mark.parametrize("options", [(), ("--wrong", "speedup=0.1")])
def test_a_report_that_exists_is_refused_before_any_work(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Nothing is solved, and the file is as it was."""
    result, page = tmp_path / "result.json", tmp_path / "kept.html"
    run("solve", "boa-one-table", "-o", result)
    page.write_text("kept", encoding="utf-8")
    for name in ("solve", "explain", "analyse_sensitivity"):
        monkeypatch.setattr(f"optplan.solving.{name}", lambda *_, **__: pytest.fail("worked"))
    told = run("explain", result, *options, "--report", page)
    assert (told.code, told.out) == (1, "")
    assert told.err == f"error: --report: {page} exists; give another path, or --force to replace it\n"
    assert page.read_text(encoding="utf-8") == "kept"


def test_several_frontiers_are_reported(run: Runner, tmp_path: Path) -> None:
    """One chart of both, and what the same budgets buy in each."""
    page = tmp_path / "frontiers.html"
    told = run("frontier", "boa-one-table", "boa-two-epochs", "--at", "6gpu", "--for-jct", "70min", "--report", page)
    assert (told.code, told.err) == (0, f"wrote {page}\n")
    text = page.read_text(encoding="utf-8")
    asked = [f'<th scope="row">{words}</th>' for words in ("6gpu", "1\N{NO-BREAK SPACE}h 10\N{NO-BREAK SPACE}min")]
    assert [text.count(each) for each in asked] == [2, 2]
    assert "<title>What budgets buy: boa-one-table, boa-two-epochs" in text
    assert "chart-frontiers-1" in text
    assert "Marks are what solvers reach" not in text
    again = run("frontier", "boa-one-table", "--report", page)
    assert (again.code, again.out) == (1, "")
    assert f"--report: {page} exists" in again.err


def test_comparisons_are_reported(run: Runner, tmp_path: Path) -> None:
    """The table of what differs, with the names of both sides."""
    page = tmp_path / "comparison.html"
    told = run("compare", "boa-one-table", "boa-two-epochs", "--report", page)
    assert (told.code, told.err) == (0, f"wrote {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "<title>What changes from boa-one-table to boa-two-epochs" in text
    again = run("compare", "boa-one-table", "boa-two-epochs", "--report", page)
    assert (again.code, again.out) == (1, "")
    assert f"--report: {page} exists" in again.err
