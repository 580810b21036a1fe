"""The charts show the data, in units that readers think in, and nothing that a user's name could do to them."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest

from optplan.contracts import Frontier, Result, Sensitivity, Solution
from optplan.errors import MissingExtraError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting.reports import draw_plan
from optplan.reporting.style import color_types, load_plotly, shorten_name, time_scale

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')

from optplan.reporting.boa.figures import draw_frontier
from optplan.reporting.boa.ranges import draw_panels


def by_name(figure: Any) -> dict[str, Any]:  # noqa: ANN401 - plotly ships no types
    """Return a figure's named traces."""
    return {trace.name: trace for trace in figure.data if trace.name}


def test_frontier_line_is_the_frontier(
    instance: BoaInstance, result: Result[Solution], rival: Result[Solution], frontier: Frontier
) -> None:
    """Every point of the line is the frontier's, its breakpoints are among them, and time is in minutes."""
    figure = draw_frontier(instance, frontier, result, [rival])
    line = by_name(figure)["best possible (proven)"]
    assert set(frontier.budgets) <= set(line.x)
    assert np.allclose(line.y, [frontier.at(x).objective / 60.0 for x in line.x], rtol=1e-12)
    assert figure.layout.yaxis.title.text == "mean completion time (minutes)"


def test_frontier_shows_the_plan_and_its_rivals(
    instance: BoaInstance, result: Result[Solution], rival: Result[Solution], frontier: Frontier
) -> None:
    """Plans stand at the GPUs that they use and the time that they take, all within the axes."""
    figure = draw_frontier(instance, frontier, result, [rival])
    named = by_name(figure)
    assert (*named["this plan"].x, *named["this plan"].y) == pytest.approx((7.8, 66.0))
    assert (*named["fixed-width"].x, *named["fixed-width"].y) == pytest.approx((7.2, 81.0))
    low, high = figure.layout.xaxis.range
    assert low < 7.2
    assert high > 7.8
    # The axis begins at three quarters of the 54 minutes that 10.8 GPUs or more take.
    assert figure.layout.yaxis.range[0] == pytest.approx(40.5)
    assert figure.layout.yaxis.range[1] > 81.0


def test_labels_stay_inside_the_chart(instance: BoaInstance, result: Result[Solution], frontier: Frontier) -> None:
    """A plan on the right has its label below, but above where it lies so low that the axis would be under it."""
    (label,) = (a for a in draw_frontier(instance, frontier, result).layout.annotations if "this plan" in a.text)
    assert (label.xanchor, label.yanchor) == ("left", "bottom")
    # 10.8 GPUs and 3,240 s are the right end of the frontier.
    measures = {**result.measures, "gpus": 10.8}
    low = result.replace(objective=3240.0, measures=measures, bound=None, bound_proof="none", certificates=())
    (label,) = (a for a in draw_frontier(instance, frontier, low).layout.annotations if "this plan" in a.text)
    assert (label.xanchor, label.yanchor) == ("right", "bottom")


def test_hovering_says_time_money_and_marginal_value(instance: BoaInstance, frontier: Frontier) -> None:
    """At 7.4 GPUs: 7.4 x $2 x 730 h = $10,804, 4,440 s, and 480 / 0.4 s for one more, 900 / 0.6 s for one fewer."""
    line = by_name(draw_frontier(instance, frontier))["best possible (proven)"]
    assert line.hovertext[line.x.index(7.4)] == (
        "7.40 GPUs on average, $10,804 a month<br>best possible: 1 h 14 min<br>"
        "one more GPU on average saves 20 min 00 s, one fewer costs 25 min 00 s"
    )


def test_without_a_price_there_is_no_money(instance: BoaInstance, frontier: Frontier) -> None:
    """Neither an axis nor a hover in dollars is made up."""
    figure = draw_frontier(instance.replace(gpu_types={"v100": {}}), frontier)
    assert "xaxis2" not in figure.layout
    assert "$" not in "".join(by_name(figure)["best possible (proven)"].hovertext)


def test_money_axis_matches_the_axis_of_gpus(instance: BoaInstance, frontier: Frontier) -> None:
    """A GPU costs $1,460 a month, at both ends of the axis."""
    layout = draw_frontier(instance, frontier).layout
    assert layout.xaxis2.range == pytest.approx([1460.0 * x for x in layout.xaxis.range])


def test_infeasible_part_is_shaded_up_to_the_least_budget(
    instance: BoaInstance, infeasible_result: Result[Solution], frontier: Frontier
) -> None:
    """The shade ends at 6.2 GPUs, and a budget within it is marked."""
    figure = draw_frontier(instance.replace(budget="5gpu"), frontier, infeasible_result)
    (shade,) = figure.layout.shapes
    assert shade.x1 == pytest.approx(6.2)
    assert shade.x0 < 5.0
    assert by_name(figure)["the budget"].x == (5.0, 5.0)
    assert by_name(figure)["the budget"].hovertext == ("the budget: 5 GPUs on average",) * 2
    assert "this plan" not in by_name(figure)


def test_frontier_without_a_budget(instance: BoaInstance, frontier: Frontier) -> None:
    """An instance that only asks for the frontier has one drawn, from its start on."""
    figure = draw_frontier(instance.replace(budget=None), frontier)
    assert min(by_name(figure)["best possible (proven)"].x) == pytest.approx(6.2)


def test_frontier_of_a_single_point(instance: BoaInstance, frontier: Frontier) -> None:
    """Where every plan costs the same, the chart still has room around the point."""
    single = Frontier(
        **{
            **vars(frontier),
            "budgets": frontier.budgets[-1:],
            "objectives": frontier.objectives[-1:],
            "at": lambda _: frontier.at(10.8),
        }
    )
    low, high = draw_frontier(instance.replace(budget=None), single).layout.xaxis.range
    assert low < 10.8 < high


def test_widths_have_the_colours_of_their_types(typed_instance: BoaInstance, typed_result: Result[Solution]) -> None:
    """One trace has all cells; vision changes from a t4 to an a100 after its first epoch of two."""
    cells, *named = draw_plan(typed_instance, typed_result).data
    colors = color_types(typed_instance.gpu_types)
    assert {trace.name: trace.marker.color for trace in named} == colors
    drawn = list(zip(cells.y, cells.base, cells.x, cells.text, cells.marker.color, strict=True))
    assert drawn[:2] == [(0, 0, 50, "1", colors["t4"]), (0, 50, 50, "1", colors["a100"])]


def test_frontier_in_money(
    typed_instance: BoaInstance, typed_result: Result[Solution], typed_frontier: Frontier
) -> None:
    """Plans stand at what they cost an hour, below a month's cost."""
    figure = draw_frontier(typed_instance, typed_frontier, typed_result)
    assert (*by_name(figure)["this plan"].x, *by_name(figure)["this plan"].y) == pytest.approx((7.2, 38.25))
    assert figure.layout.xaxis.title.text == "US dollars an hour (the budget)"
    assert figure.layout.xaxis2.range == pytest.approx([730.0 * x for x in figure.layout.xaxis.range])


def test_samples_are_shares_of_all(sensitivity: Sensitivity) -> None:
    """The steps of each plan add up to all samples; there is room for the mark."""
    panels = draw_panels(sensitivity)
    traces = [trace for panel in panels for trace in panel.data]
    assert [trace.name for trace in traces] == ["planned", "robust"] * 2
    for trace in traces:
        # Every step has two ends, and the first and the last point stand at zero.
        assert sum(trace.y) == pytest.approx(200.0)
    for panel in panels:
        assert panel.layout.yaxis.range[1] >= 1.1 * max(max(trace.y) for trace in panel.data)


def test_names_are_escaped(nasty_instance: BoaInstance, nasty_result: Result[Solution], frontier: Frontier) -> None:
    """No text of a figure has a tag that came from a name."""
    figures = [
        draw_frontier(nasty_instance, frontier, nasty_result, [nasty_result]),
        draw_plan(nasty_instance, nasty_result),
    ]
    for figure in figures:
        text = repr(figure.to_plotly_json())
        assert "<script" not in text
        assert "<img" not in text
        assert "hovertemplate" not in text  # where %{x} in a name would be filled in


def test_long_names_are_cut() -> None:
    """Labels leave room for data; two names that are the same once cut still have bars of their own."""
    assert shorten_name("a" * 40) == "a" * 23 + "…"
    assert shorten_name("a < b") == "a &lt; b"


@pytest.mark.parametrize(
    ("largest_s", "unit"), [(100.0, "seconds"), (4000.0, "minutes"), (20_000.0, "hours"), (1e6, "days")]
)
def test_time_axes_use_the_unit_that_fits(largest_s: float, unit: str) -> None:
    """The largest unit of which there are at least three."""
    assert time_scale(largest_s).unit == unit


def test_missing_plotly_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without plotly the error says what to install."""
    original = builtins.__import__

    def without_plotly(name: str, *rest: Any) -> Any:  # noqa: ANN401 - stands in for __import__
        if name.startswith("plotly"):
            raise ModuleNotFoundError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_plotly)
    with pytest.raises(MissingExtraError, match=r'plotly is not installed; run: pip install "optplan\[plot\]"'):
        load_plotly()
