"""Several frontiers, and what solvers reach, in one chart with one unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optplan.contracts import Frontier, FrontierPoint
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.units import BudgetUnit

if TYPE_CHECKING:
    from tests.reporting.boa.conftest import ResultMaker

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')

from optplan.reporting.boa.figures import FrontierCurve, SweepPoint, choose_unit, draw_frontier, draw_frontiers
from optplan.reporting.boa.gathering import sweep_budgets


def by_name(figure: Any) -> dict[str, Any]:  # noqa: ANN401 - plotly ships no types
    """Return a figure's named traces."""
    return {trace.name: trace for trace in figure.data if trace.name}


@pytest.fixture(scope="module")
def dearer(instance: BoaInstance) -> BoaInstance:
    """Return the problem with GPUs at three dollars instead of two."""
    return instance.replace(gpu_types={"v100": {"price_usd_per_hour": 3.0}})


@pytest.fixture(scope="module")
def in_dollars(instance: BoaInstance) -> BoaInstance:
    """Return the problem with a second type, unused: its budgets count dollars."""
    types = {**instance.gpu_types, "h100": {"price_usd_per_hour": 4.0}}
    return instance.replace(gpu_types=types, budget=None)


@pytest.fixture(scope="module")
def doubled(frontier: Frontier) -> Frontier:
    """Return the frontier in dollars, two for a GPU: budgets twice as large, worth half as much."""

    def at(budget: float) -> FrontierPoint:
        point = frontier.at(budget / 2.0)
        return point.replace(budget=2.0 * point.budget)

    return Frontier(**{**vars(frontier), "budget_unit": "usd/hour", "budgets": 2.0 * frontier.budgets, "at": at})


def test_curves_are_the_frontiers(instance: BoaInstance, frontier: Frontier) -> None:
    """Each breakpoint in the chart is a point of its curve, and time is in the unit of the axis."""
    figure = draw_frontiers([FrontierCurve("one", instance, frontier), FrontierCurve("other", instance, frontier)])
    named = by_name(figure)
    assert list(named) == ["one: best possible (proven)", "other: best possible (proven)"]
    line = named["one: best possible (proven)"]
    assert set(frontier.budgets) <= set(line.x)
    assert np.allclose(line.y, [frontier.at(x).objective / 60.0 for x in line.x], rtol=1e-12)
    assert figure.layout.xaxis.title.text == "GPUs on average (the budget)"
    assert figure.layout.yaxis.title.text == "mean completion time (minutes)"
    assert line.line.color != named["other: best possible (proven)"].line.color


def test_different_prices_are_compared_in_money(instance: BoaInstance, dearer: BoaInstance, frontier: Frontier) -> None:
    """At 2 and 3 dollars a GPU the least budget of 6.2 GPUs is 12.4 and 18.6 dollars an hour."""
    figure = draw_frontiers([FrontierCurve("a", instance, frontier), FrontierCurve("b", dearer, frontier)])
    named = by_name(figure)
    assert min(named["a: best possible (proven)"].x) == pytest.approx(12.4)
    assert min(named["b: best possible (proven)"].x) == pytest.approx(18.6)
    assert figure.layout.xaxis.title.text == "US dollars an hour (the budget)"
    assert "6.20 GPUs on average, $13,578 a month" in named["b: best possible (proven)"].hovertext[0]


def test_units(
    instance: BoaInstance, dearer: BoaInstance, in_dollars: BoaInstance, frontier: Frontier, doubled: Frontier
) -> None:
    """GPUs where they cost the same or have no price, else dollars; what has no price cannot meet dollars."""
    priceless = instance.replace(gpu_types={"v100": {}})
    gpus = [FrontierCurve("gpus", instance, frontier), FrontierCurve("priceless", priceless, frontier)]
    dollars = FrontierCurve("dollars", in_dollars, doubled)
    assert choose_unit(gpus[:1]) is BudgetUnit.GPU
    assert choose_unit(gpus) is BudgetUnit.GPU
    assert choose_unit([gpus[0], FrontierCurve("dearer", dearer, frontier)]) is BudgetUnit.USD_PER_HOUR
    assert choose_unit([gpus[0], dollars]) is BudgetUnit.USD_PER_HOUR
    with pytest.raises(
        UsageError, match="dollars counts its budget in US dollars an hour and priceless in GPUs, which"
    ):
        choose_unit([*gpus, dollars])


def test_one_unit_makes_equal_curves_equal(
    instance: BoaInstance, in_dollars: BoaInstance, frontier: Frontier, doubled: Frontier
) -> None:
    """The same frontier in GPUs at two dollars and in dollars is one line."""
    figure = draw_frontiers([FrontierCurve("g", instance, frontier), FrontierCurve("d", in_dollars, doubled)])
    first, second = figure.data
    assert np.interp(20.0, first.x, first.y) == pytest.approx(np.interp(20.0, second.x, second.y), rel=1e-3)


def test_solvers_points_are_all_in_the_chart(
    instance: BoaInstance,
    frontier: Frontier,
    make_result: ResultMaker,
    solution: BoaSolution,
) -> None:
    """A point stands at its budget; those without a plan have none; hovering says how far above the frontier it is."""
    plan = make_result(instance, solution, solver="fixed-width")
    points = [SweepPoint(frontier.at(8.0), plan), SweepPoint(frontier.at(6.2), make_result(instance, None))]
    figure = draw_frontiers([FrontierCurve("one", instance, frontier, {"fixed-width": points})])
    marks = by_name(figure)["fixed-width"]
    assert (marks.x, marks.y) == ((8.0,), pytest.approx((66.0,)))
    low, high = figure.layout.xaxis.range
    assert low < 8.0 < high
    # The frontier at 8 GPUs is 3,960 - 0.2 x 420 / 1.3 s = 3,895.4 s; 3,960 s are 1.7 % longer.
    assert "against the frontier: 1.7 % longer" in marks.hovertext[0]
    assert "this solver proves nothing" in marks.hovertext[0]


def test_what_would_be_squeezed_gets_a_logarithmic_axis(
    instance: BoaInstance, frontier: Frontier, make_result: ResultMaker, solution: BoaSolution
) -> None:
    """Times from 600 to 60,000 s: ticks say their values in full."""

    def at(budget: float) -> FrontierPoint:
        point = frontier.at(budget)
        return point.replace(objective=60_000.0 if point.budget < 7.0 else 600.0)

    steep = Frontier(**{**vars(frontier), "at": at})
    plan = make_result(instance, solution).replace(objective=60_000.0)
    sweep = {"x": [SweepPoint(at(6.2), plan)]}
    axis = draw_frontiers([FrontierCurve("steep", instance, steep, sweep)]).layout.yaxis
    assert axis.type == "log"
    assert {"0.2", "1", "10"} <= set(axis.ticktext)


def test_names_are_escaped(instance: BoaInstance, frontier: Frontier) -> None:
    """A label is a user's text."""
    figure = draw_frontiers([FrontierCurve("<script>alert(1)</script>", instance, frontier)])
    assert "<script" not in repr(figure.to_plotly_json())


def test_one_frontier_in_dollars(in_dollars: BoaInstance, doubled: Frontier) -> None:
    """Axis, shade and hover say dollars: 14.8 dollars an hour are $10,804 a month."""
    figure = draw_frontier(in_dollars, doubled)
    assert figure.layout.xaxis.title.text == "US dollars an hour (the budget)"
    assert figure.layout.annotations[0].text == "no plan below $12.40 an hour"
    line = by_name(figure)["best possible (proven)"]
    assert line.hovertext[line.x.index(14.8)].startswith("$14.80 an hour, $10,804 a month<br>")
    assert "dollar an hour" in line.hovertext[0]


def test_a_sweep_solves_at_every_budget(instance: BoaInstance, frontier: Frontier) -> None:
    """Budgets are those of the points, and the optimum at a breakpoint is the frontier's."""
    points = [frontier.at(6.2), frontier.at(7.8)]
    found = list(sweep_budgets(instance.replace(budget=None), points, "layered-paths"))
    assert [point.result.objective for point in found] == pytest.approx([7440.0, 3960.0])
    assert [point.above for point in found] == pytest.approx([0.0, 0.0], abs=1e-9)
    record = found[1].to_json_data()
    assert (record["solver"], record["budget"], record["status"]) == ("layered-paths", 7.8, "optimal")
