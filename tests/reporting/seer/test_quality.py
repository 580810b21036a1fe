"""Plans with an expected loss in words, tables and on the page; and the prior."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.contracts import Result, Solution
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.instances.files import write_text
from optplan.reporting.pareto import draw_pareto, pareto_table
from optplan.reporting.presenters import Beside, gather_background, plan_words_of
from optplan.reporting.reports import build_report, write_report
from optplan.reporting.seer.presenter import PRESENTER
from optplan.reporting.seer.words import format_objective
from optplan.solving import pareto, solve
from optplan.verification import verify

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tests.plugins.pages import Visitor

PRIOR: dict[str, Any] = {
    "form": "parametric",
    "start_loss": 1.0,
    "terminal_low_loss": 0.05,
    "terminal_high_loss": 0.9,
    "rate_low_per_min": 0.1,
    "rate_high_per_min": 2.0,
    "rank_correlation": 0.5,
    "ranking_noise_loss": 0.01,
    "scaling": {"gpus": [1, 2, 4], "speedup": [1.0, 1.8, 3.0]},
    "samples": 500,
    "choice_samples": 100,
}


def show(*parts: RenderableType) -> str:
    """Return what a terminal of 160 columns shows."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=160)
    console.print(*parts, sep="\n")
    return str(console.file.getvalue())  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def informed(example: SeerInstance) -> SeerInstance:
    """Return the example with a prior."""
    return example.replace(objective="quality", prior=PRIOR)


@pytest.fixture(scope="module")
def found(informed: SeerInstance) -> Sequence[Result[Solution]]:
    """Return the informed plan and the published one."""
    return [solve(informed), solve(informed, solver="published-seer")]


def test_an_answer_says_loss_interval_and_gain(informed: SeerInstance, found: Sequence[Result[Solution]]) -> None:
    """And nothing of GPU-minutes as if they were what counts; nothing is proven."""
    ours, theirs = (show(*PRESENTER.present_result(informed, result)) for result in found)
    said = f"Expected final loss {found[0].objective:.4g} (95 % interval "
    assert said in ours
    assert "500 sampled searches)" in ours
    assert f"{found[0].measures['gain_loss']:.4g} less than the published plan's. Nothing is proven" in ours
    assert "gain over published" in ours
    assert "could be spent" not in ours
    assert "no bound (stopped: completed)" in ours
    assert "note: the prior buys " in ours
    assert "that of the published plan. Nothing is proven of other plans." in theirs
    assert format_objective(informed, 0.123456) == "0.1235 loss"
    assert format_objective(informed.replace(objective="spend"), 80.0) == "80 GPU-min"


def test_a_worse_plan_is_called_worse(informed: SeerInstance, found: Sequence[Result[Solution]]) -> None:
    """The words follow the sign."""
    measures = found[0].measures | {"gain_loss": -0.01, "gain_low_loss": -0.02, "gain_high_loss": 0.001}
    shown = show(*PRESENTER.present_result(informed, found[0].replace(measures=measures)))
    assert "0.01 more than the published plan's" in shown


def test_without_a_published_plan_there_is_no_gain(informed: SeerInstance, found: Sequence[Result[Solution]]) -> None:
    """Neither in the answer nor in the table."""
    kept = {name: value for name, value in found[0].measures.items() if "gain" not in name and "uninformed" not in name}
    bare = found[0].replace(measures=kept)
    shown = show(*PRESENTER.present_result(informed, bare), *PRESENTER.present_comparison(informed, [bare]))
    assert "sampled searches). Nothing is proven of other plans." in shown
    assert "gain over published  " not in shown.split("solver   ")[0]


def test_solvers_are_compared_by_loss(informed: SeerInstance, found: Sequence[Result[Solution]]) -> None:
    """With intervals and gains; one without a plan says why."""
    infeasible = solve(informed.replace(deadline_min=0.5))
    shown = show(*PRESENTER.present_comparison(informed, [*found, infeasible]))
    assert "expected loss" in shown
    assert "gain over published" in shown
    assert f"{found[1].objective:.4g}" in shown
    assert "infeasible" in shown


def test_an_instance_shows_its_prior(informed: SeerInstance) -> None:
    """Of either kind, beside the rounds that follow."""
    shown = show(*PRESENTER.present_instance(informed))
    assert "exponential, from 1 to an end between 0.05 and 0.9 (uniform); rates 0.1 to 2 per min, rank" in shown
    assert "1, 1.8, 3 times as fast on 1, 2, 4 GPUs" in shown
    assert "see losses with a deviation of 0.01" in shown
    assert "100 to choose, 500 others to judge" in shown
    assert "published rounds" in shown
    table = {"form": "table", "start_loss": 1.0, "losses": [[0.5, 0.4]], "scaling": PRIOR["scaling"]}
    shown = show(*PRESENTER.present_instance(informed.replace(prior=table)))
    assert "those of a past run, up to 2 min 00 s on one GPU" in shown
    mixed = table | {"losses": [[0.5, 0.4]] * 3, "tasks": [1, 1, 2], "pace_spread": 4.0}
    shown = show(*PRESENTER.present_instance(informed.replace(prior=mixed)))
    assert "those of 3 past runs of 2 tasks, one for each search, up to 4 times faster or slower in each" in shown
    assert "published rounds" not in show(*PRESENTER.present_instance(informed.replace(deadline_min=0.5)))


@pytest.mark.parametrize("limit", ["budget", "deadline"])
def test_frontiers_have_intervals(informed: SeerInstance, limit: str) -> None:
    """In the table with the unit of the limit that varies, in the chart as bars."""
    line = pareto(informed, limit=limit)
    words = plan_words_of(informed)
    shown = show(pareto_table(informed, line, line.points, words))
    assert "95 % interval" in shown
    assert (" GPU-min" in shown) is (limit == "budget")
    trace = draw_pareto(informed, line, words).data[0]
    assert len(trace.error_y.array) == len(line.points)
    first = line.points[0]
    assert first.high is not None
    assert trace.error_y.array[0] == pytest.approx(first.high - first.objective)


def test_the_page(informed: SeerInstance, found: Sequence[Result[Solution]], tmp_path: Path) -> None:
    """Loss and gain as cards, other budgets by loss, and what is assumed of trials."""
    path = tmp_path / "report.html"
    background = gather_background(informed, found[0], found[1:])
    write_text(build_report(informed, found[0], Beside(found[1:], background, verify(informed, found[0]))), path)
    text = path.read_text(encoding="utf-8")
    for words in (
        "Expected final loss",
        "gain over published",
        "Trials are drawn from the prior",
        "for each the best plan found",
        "It samples the loss again, too",
    ):
        assert words in text, words
    assert "The brackets" not in text
    assert "GPU-minutes of training are what is counted" not in text
    infeasible = informed.replace(deadline_min=0.5)
    write_report(tmp_path / "other.html", infeasible, solve(infeasible))
    assert "What would help" in (tmp_path / "other.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def source(informed: SeerInstance, found: Sequence[Result[Solution]]) -> str:
    """Return the page of the plan beside the published one."""
    return build_report(informed, found[0], Beside(found[1:], gather_background(informed, found[0])))


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_in_a_browser(visit: Visitor, source: str, tmp_path: Path, width: int) -> None:
    """Nothing complains or overflows, and the frontier is drawn."""
    pytest.importorskip("playwright", reason='playwright is not installed; pip install "optplan[test]" brings it')
    opened = visit(source, tmp_path, width)
    assert opened.complaints == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    assert opened.drawn_points()["chart-budgets-1"][0] > 3
    for section in ("solvers", "budgets"):
        assert opened.list_narrow_cells(section) == []
