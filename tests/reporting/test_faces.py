"""What printing the records of each formulation says, in a notebook too, and what they draw."""

from __future__ import annotations

import html
import json
import pickle
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import optplan
from optplan.contracts import Instance, Result
from optplan.contracts.faces import about
from optplan.errors import MissingExtraError, UnsupportedError, UsageError
from optplan.reporting import style

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')

if TYPE_CHECKING:
    from tests.plugins.pages import Visitor

#: By instance, what has to be said of its result: how good, by which GPUs, at which cost.
RESULTS = {
    "boa-two-classes": (
        "With 10 GPUs on average, jobs finish in 46 min 57 s on average.",
        "proven optimal",
        "vision 4 → 8, speech 3",
        "9.92 (8.57 running",
        "$14,486",
        "2,816.54 s (gap 0 %; enumerated)",
    ),
    "rubberband-two-stages": (
        "costs $0.380 on average",
        "proven optimal",
        "2 → 1 instances, 1 → 2 GPUs a trial",
        "$0.380 (gap 0 %; lagrangian)",
    ),
    "seer-paper-example": ("proven optimal", "1 x4, 4 x2, 10 x1; 3 rounds", "80 GPU-min (gap 0 %; lagrangian)"),
    "srift-interruption": ("proven optimal", "2 p3.8xlarge@512", "$0.312 (gap 0 %; tree)", "(on 8 GPUs)"),
    "throughputs-resnet50-gavel": ("proven optimal", "4 p100 (spread)", "$276.66 (gap 0 %; tree)"),
}
#: What has to be said of its plan.
PLANS = {
    "boa-two-classes": (
        "46 min 57 s",
        "10 GPUs (average)",
        "vision, epochs 1 to 2: 4 GPUs",
        "speech, epochs 1 to 2: 3",
    ),
    "rubberband-two-stages": ("$0.38", "4 min 40 s (average)", "stage 1: 4 trials of 1 GPU on 2 nodes"),
    "seer-paper-example": ("80 GPU-min", "80 gpu-min (hard)", "10 min 00 s (hard)", "round 1, rank 1: 4 GPUs each"),
    "srift-interruption": ("$0.312", "8 min 20 s (hard)", "2 p3.8xlarge, 128 samples on each GPU"),
    "throughputs-resnet50-gavel": ("$277", "2 d 00 h (hard)", "4 p100, spread"),
}
#: Of its decisions.
SOLUTIONS = {
    "boa-two-classes": ("vision   1 to 2      4",),
    "rubberband-two-stages": ("1            4           10           2              1       all",),
    "seer-paper-example": ("1           15   1 x4, 4 x2, 10 x1               7     22",),
    "srift-interruption": ("p3.8xlarge     2", "$0.312"),
    "throughputs-resnet50-gavel": ("p100   spread", "$276.66"),
}
#: Of the frontier, and how many points of it the figure has; BOA's is a line with points between.
FRONTIERS = {
    "boa-two-classes": ("Frontier of boa-two-classes: ", "cost a month", "the least that works"),
    "rubberband-two-stages": ("5 plans that no other beats", "$0.380", "Every plan that is best"),
    "seer-paper-example": ("23 plans that no other beats, 8 of them shown", "Each is proven best"),
    "srift-interruption": ("4 plans that no other beats", "2 p3.8xlarge@512"),
    "throughputs-resnet50-gavel": ("4 plans that no other beats", "2 p100 (spread)"),
}


@cache
def _solve(name: str) -> tuple[Instance, Result[Any]]:
    instance = optplan.read_instance(name)
    return instance, optplan.solve(instance)


def _require(record: object, *facts: str) -> None:
    """At most 15 lines, with these facts, and nothing that a console would colour."""
    text = str(record)
    assert [fact for fact in facts if fact not in text] == []
    assert len(text.splitlines()) <= 15
    assert "\x1b" not in text
    assert text == text.rstrip()


def _read_figure(page: str) -> dict[str, Any]:
    """Read the only figure of a notebook's page back."""
    (frame,) = re.findall(r'<iframe sandbox="allow-scripts" [^>]* srcdoc="([^"]*)"></iframe>', page)
    (data,) = re.findall(r'<script [^>]*id="figures"[^>]*>(.*?)</script>', html.unescape(frame), re.DOTALL)
    figures: dict[str, dict[str, Any]] = json.loads(data)
    (figure,) = figures.values()
    return figure


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_says_how_good_it_is_on_which_gpus_and_for_how_much(name: str) -> None:
    """As the command says it, with the plan in a line."""
    _, result = _solve(name)
    _require(result, *RESULTS[name])
    assert repr(result).startswith(f"<Result {name}: optimal, ")


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_says_what_it_comes_to_and_who_holds_what(name: str) -> None:
    """From the plan alone, so that one read from a file says the same, and has a picture, too."""
    plan = optplan.build_plan(*_solve(name))
    _require(plan, f"Plan {plan.plan_id[:12]} for {name}", "proven bound", *PLANS[name])
    assert repr(plan) == f"<{type(plan).__name__} {plan.plan_id[:12]} of {name} by {plan.solver}>"
    again = type(plan).parse(plan.to_json_data())
    assert str(again) == str(plan)
    assert again.plot().data


@pytest.mark.parametrize("name", SOLUTIONS)
def test_decisions_are_shown_as_the_command_shows_them(name: str) -> None:
    """In tables; those that know no instance write themselves as data."""
    solution = _solve(name)[1].solution
    assert solution is not None
    _require(solution, *SOLUTIONS[name])
    alone = type(solution).parse(solution.to_json_data())
    _require(alone, next(iter(solution.to_json_data())).replace("_", " "))
    with pytest.raises(UsageError, match="does not know its instance"):
        alone.plot()


@pytest.mark.parametrize("name", RESULTS)
def test_a_verification_says_what_is_proven_and_which_limits_are_kept(name: str) -> None:
    """The verdict first, the number of checks last, the claims between; it has no picture."""
    instance, result = _solve(name)
    found = optplan.verify(instance, result)
    _require(found, f"{name}: proven optimal, gap 0 %\n", *instance.limits, "objective", "bound", " checks hold (")
    assert repr(found) == f"<Verification: optimal, 0 of {len(found.checks)} checks fail>"
    assert "iframe" not in found._repr_html_()
    with pytest.raises(UnsupportedError, match="a verification has no picture"):
        found.plot()


def test_a_refused_result_says_so_first() -> None:
    """An objective that is a second too short fails; without its instance a verification has only its checks."""
    instance, result = _solve("boa-two-classes")
    forged = result.model_copy(update={"objective": (result.objective or 0.0) - 1.0})
    found = optplan.verify(instance, forged)
    _require(found, "boa-two-classes: refused, ", "FAILS", " checks fail (")
    _require(found.replace(), "FAILS", " checks fail (")


@pytest.mark.slow
@pytest.mark.parametrize("name", FRONTIERS)
def test_a_frontier_shows_some_of_its_points(name: str) -> None:
    """With what is missing; its figure is that of ``draw_frontier``."""
    instance = _solve(name)[0]
    frontier = optplan.frontier(instance) if name.startswith("boa") else optplan.pareto(instance)
    _require(frontier, *FRONTIERS[name])
    assert name in repr(frontier)
    assert "\n" not in repr(frontier)
    assert frontier.plot().to_json() == optplan.draw_frontier(instance, frontier).to_json()
    assert _read_figure(frontier._repr_html_())["data"]


@pytest.mark.slow
@pytest.mark.parametrize("name", RESULTS)
def test_a_notebook_shows_the_lines_and_the_picture(name: str) -> None:
    """The picture of result, decisions and plan is one; it is read back from the page, which needs no network."""
    instance, result = _solve(name)
    drawn = json.loads(optplan.draw_plan(instance, result).to_json())
    records: tuple[Any, ...] = (result, result.solution, optplan.build_plan(instance, result))
    for record in records:
        page = record._repr_html_()
        assert page.startswith(f'<pre style="white-space: pre-wrap">{html.escape(str(record))}</pre>')
        assert _read_figure(page) == drawn
        assert json.loads(record.plot().to_json()) == drawn
        assert "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:" in html.unescape(page)
        assert len(page) < 2_500_000


@pytest.mark.slow
def test_a_browser_draws_what_a_notebook_shows(visit: Visitor, tmp_path: Path) -> None:
    """In a frame that may run its own script and nothing else: three bars, of 4, 8 and 3 GPUs."""
    opened = visit(f"<!doctype html><title>notebook</title>{_solve('boa-two-classes')[1]._repr_html_()}", tmp_path, 800)
    bars = opened.page.frame_locator("iframe").locator(".barlayer .bartext")
    bars.first.wait_for()
    assert bars.all_text_contents() == ["4", "8", "3"]
    assert "proven optimal" in opened.page.locator("pre").inner_text()


def test_without_plotly_lines_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook shows them alone; who asks for the picture is told what to install."""

    def refuse() -> None:
        raise MissingExtraError("plotly", "plot")

    monkeypatch.setattr(style, "load_plotly", refuse)
    _, result = _solve("rubberband-two-stages")
    assert result._repr_html_().endswith("</pre>")
    with pytest.raises(MissingExtraError, match=r"optplan\[plot\]"):
        result.plot()


def test_what_has_no_plan_says_why() -> None:
    """Infeasible is an answer: the reason, what would help, and no picture."""
    result = optplan.solve(_solve("boa-two-classes")[0].replace(budget="1gpu"))
    _require(result, "No plan", "budget")
    assert "iframe" not in result._repr_html_()
    with pytest.raises(UsageError, match="the result has no plan to draw"):
        result.plot()


def test_a_result_from_a_file_finds_its_instance_in_the_library(tmp_path: Path) -> None:
    """Where the hash says that it is that; another instance of the same name is not."""
    _, result = _solve("boa-two-classes")
    optplan.write_json(result, tmp_path / "result.json")
    read = optplan.read_result(tmp_path / "result.json")
    assert str(read) == str(result)
    assert read.plot().to_json() == result.plot().to_json()
    other = optplan.solve(_solve("boa-two-classes")[0].replace(budget="9gpu"))
    optplan.write_json(other, tmp_path / "other.json")
    _require(optplan.read_result(tmp_path / "other.json"), "boa-two-classes: optimal, ")


def test_what_a_record_was_made_of_is_no_part_of_it() -> None:
    """Neither equality nor files nor pickles hold it; a copy has forgotten it."""
    instance, result = _solve("boa-two-classes")
    known = about(result)
    assert known is not None
    assert known.instance is instance
    copies = [type(result).parse(result.to_json_data()), result.replace(), pickle.loads(pickle.dumps(result))]
    for copy in copies:
        assert copy == result
        assert copy.content_hash() == result.content_hash()
        assert about(copy) is None
        assert about(copy.solution) is None or copy.solution is result.solution
