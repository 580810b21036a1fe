"""The chart of what every budget buys, with a plan and its rivals in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optplan.contracts import Frontier, Result, Solution
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting import style
from optplan.reporting.boa import phrases
from optplan.reporting.phrases import compare_durations, format_gpus, relative_difference
from optplan.reporting.style import Figure, TimeScale, escape_text, new_figure, time_scale
from optplan.schema import FloatArray
from optplan.units import BudgetUnit, format_duration

_AXIS_TITLES = {
    BudgetUnit.GPU: "GPUs in use, time average",
    BudgetUnit.USD_PER_HOUR: "US dollars an hour, time average",
}
_NOUNS = {BudgetUnit.GPU: "GPUs", BudgetUnit.USD_PER_HOUR: "dollars"}
#: Even steps along the frontier, so that there is something to point at everywhere.
_EVEN_STEPS = 120
#: Breakpoints up to which all are drawn; with more, the even steps are close enough together.
_MOST_BREAKPOINTS = 300
#: How far beyond the plan's own GPUs the frontier is drawn, as a factor.
_BEYOND = 2.0
#: How far above the plan's own time the frontier is drawn, as a factor.
_ABOVE = 1.8
#: Where the vertical axis starts, as a fraction of the least time shown: differences between plans are to be seen.
_BELOW = 0.75
#: Below this part of the height there is no room for a label under a plan.
_ROOM_BELOW = 0.4
#: Room left of the least budget, as a fraction of the room right of it.
_LEFT_ROOM = 0.1
#: Budget at which the frontier is looked at when there is no plan, as a multiple of the least.
_WITHOUT_PLAN = 1.5
_MARKERS = (
    ("square", style.VERMILLION),
    ("triangle-up", style.GREEN),
    ("circle", style.PURPLE),
    ("triangle-down", style.ORANGE),
    ("pentagon", style.SKY),
    ("cross", style.GREY),
)


def draw_frontier(
    instance: BoaInstance,
    frontier: Frontier,
    result: Result[Solution] | None = None,
    comparisons: Sequence[Result[Solution]] = (),
) -> Figure:
    """Draw what every budget buys, with the plan and its rivals in it.

    Horizontal: GPUs on average, with US dollars a month above where there is a price, or US dollars an hour where the
    frontier counts these; the instance's budget is marked where there is no plan. Vertical: (weighted) mean completion
    time.
    """
    plans = [r for r in (result, *comparisons) if r is not None and r.objective is not None]
    (low, high), (bottom_s, top_s) = _frontier_window(instance, frontier, plans)
    scale = time_scale(top_s)
    priced = phrases.cost_of_month(instance, 1.0) is not None
    figure = new_figure(height=400, top=56 if priced else 12)
    _add_frontier_line(figure, instance, frontier, high, scale)
    _shade_infeasible(figure, instance, low, float(frontier.budgets[0]))
    if instance.budget is not None and (result is None or result.objective is None):
        _mark_budget(figure, instance, bottom_s / scale.seconds, top_s / scale.seconds)
    if result is not None and result.objective is not None:
        _add_plan(figure, instance, result, ((low, high), (bottom_s, top_s)), scale)
    for number, other in enumerate(r for r in comparisons if r.objective is not None):
        _add_rival(figure, instance, frontier, other, scale, number)
    figure.update_xaxes(title_text=_AXIS_TITLES[instance.budget_unit], range=[low, high], separatethousands=True)
    figure.update_yaxes(
        title_text=f"{phrases.name_objective(instance)} ({scale.unit})",
        range=[bottom_s / scale.seconds, top_s / scale.seconds],
    )
    figure.update_layout(
        # The line falls, so the corner above right is free at any width of the page.
        legend={"x": 1, "xanchor": "right", "y": 1, "yanchor": "top", "bgcolor": "rgba(255, 255, 255, 0.8)"},
        margin_r=24,  # half of a label may stand beyond the last tick
    )
    if priced:
        _add_money_axis(figure, instance, low, high)
    return figure


def _frontier_window(
    instance: BoaInstance, frontier: Frontier, plans: Sequence[Result[Solution]]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Choose the range of budgets and the range of seconds that are shown: around the plan, with all rivals in it."""
    least, far = float(frontier.budgets[0]), float(frontier.budgets[-1])
    budget = None if instance.budget is None else instance.budget_amount()
    center = phrases.use_of_budget(instance, plans[0]) if plans else max(_WITHOUT_PLAN * least, budget or 0.0)
    high = min(max(_BEYOND * center, 1.3 * least), max(1.05 * far, 1.2 * center))
    high = max([high, *(1.08 * phrases.use_of_budget(instance, plan) for plan in plans)])
    # Where everything costs the same, there is one point and no room; a tenth of it makes some.
    high = high if high > least else 1.1 * least
    low = max(0.0, least - _LEFT_ROOM * (high - least))
    if budget is not None and not plans:
        low = min(low, 0.95 * budget)
    times_s = [plan.objective for plan in plans if plan.objective is not None]
    reference_s = times_s[0] if times_s else frontier.at(max(center, least)).objective
    top_s = max([min(_ABOVE * reference_s, 1.08 * float(frontier.objectives[0])), *(1.12 * t for t in times_s)])
    bottom_s = _BELOW * min([frontier.at(high).objective, *times_s])
    return (low, high), (bottom_s, top_s)


def _add_frontier_line(
    figure: Figure, instance: BoaInstance, frontier: Frontier, high: float, scale: TimeScale
) -> None:
    budgets = _choose_points(frontier.budgets[frontier.budgets <= high], high)
    points = [frontier.at(float(budget)) for budget in budgets]
    hover = [
        f"<b>{phrases.say_amount(instance, float(budget))}</b>{phrases.say_money(instance, float(budget))}<br>"
        f"best possible: {format_duration(point.objective)}<br>{phrases.say_worth(instance, point.shadow_price)}"
        for budget, point in zip(budgets, points, strict=True)
    ]
    figure.add_scatter(
        name="best possible (proven)",
        x=budgets.tolist(),
        y=[point.objective / scale.seconds for point in points],
        mode="lines",
        line={"color": style.BLUE, "width": 3},
        hoverinfo="text",
        hovertext=hover,
    )


def _choose_points(breakpoints: FloatArray, high: float) -> FloatArray:
    """Choose budgets at which the line is drawn: breakpoints, and even steps where there is none nearby."""
    even = np.linspace(breakpoints[0], high, _EVEN_STEPS + 1)
    if breakpoints.size > _MOST_BREAKPOINTS:
        return even
    nearest = np.abs(even[:, None] - breakpoints).min(axis=1)
    budgets: FloatArray = np.union1d(np.append(even[nearest > (even[1] - even[0]) / 2], high), breakpoints)
    return budgets


def _shade_infeasible(figure: Figure, instance: BoaInstance, low: float, least: float) -> None:
    figure.add_vrect(x0=low, x1=least, fillcolor=style.SHADE, line_width=0, layer="below")
    figure.add_annotation(
        x=(low + least) / 2,
        y=0.5,
        yref="paper",
        text=f"no plan below {_say_least(instance, least)}",
        textangle=-90,
        showarrow=False,
        font={"color": style.GREY, "size": style.FONT_SIZE - 1},
    )


def _say_least(instance: BoaInstance, least: float) -> str:
    return (
        f"{format_gpus(least)} GPUs" if instance.budget_unit is BudgetUnit.GPU else phrases.say_amount(instance, least)
    )


def _mark_budget(figure: Figure, instance: BoaInstance, bottom: float, top: float) -> None:
    amount = instance.budget_amount()
    figure.add_scatter(
        name="the budget",
        x=[amount, amount],
        y=[bottom, top],
        mode="lines",
        line={"color": style.VERMILLION, "width": 2, "dash": "dash"},
        hoverinfo="text",
        hovertext=f"the budget: {phrases.describe_budget(instance)}",
    )


def _add_plan(
    figure: Figure,
    instance: BoaInstance,
    result: Result[Solution],
    window: tuple[tuple[float, float], tuple[float, float]],
    scale: TimeScale,
) -> None:
    objective_s, used = result.objective or 0.0, phrases.use_of_budget(instance, result)
    figure.add_scatter(
        name="this plan",
        showlegend=False,  # it is labelled where it is
        x=[used],
        y=[objective_s / scale.seconds],
        mode="markers",
        marker={"symbol": "diamond", "size": 14, "color": style.INK, "line": {"color": "white", "width": 1.5}},
        hoverinfo="text",
        hovertext=[
            f"<b>this plan</b> ({escape_text(result.solver)})<br>{phrases.name_objective(instance)}: "
            f"{format_duration(objective_s)}<br>{phrases.say_budget(instance, used)}"
        ],
    )
    # The line falls from left to right and rivals lie above it: there is room above right of the plan, or below left.
    # Far down there is none below, but the line is flat there.
    (low, high), (bottom_s, top_s) = window
    on_the_left = (used - low) / (high - low) < 0.5
    above = on_the_left or (objective_s - bottom_s) / (top_s - bottom_s) < _ROOM_BELOW
    figure.add_annotation(
        x=used,
        y=objective_s / scale.seconds,
        text=f"<b>this plan: {format_duration(objective_s)}</b><br>{phrases.say_amount(instance, used)}",
        showarrow=True,
        bgcolor="rgba(255, 255, 255, 0.8)",
        arrowhead=0,
        arrowcolor=style.GREY,
        standoff=8,
        font={"size": style.FONT_SIZE - 1},
        ax=10 if on_the_left else -10,
        ay=-48 if above else 48,
        xanchor="left" if on_the_left else "right",
        yanchor="bottom" if above else "top",
        align="left" if on_the_left else "right",
    )


def _add_rival(
    figure: Figure, instance: BoaInstance, frontier: Frontier, rival: Result[Solution], scale: TimeScale, number: int
) -> None:
    objective_s, used = rival.objective or 0.0, phrases.use_of_budget(instance, rival)
    symbol, color = _MARKERS[number % len(_MARKERS)]
    best = phrases.look_up(frontier, used)
    above = relative_difference(objective_s, best.objective if best is not None else None)
    with_as_many = f"<br>against the best possible with as many {_NOUNS[instance.budget_unit]}"
    versus = "" if above is None else f"{with_as_many}: {compare_durations(above)}"
    figure.add_scatter(
        name=escape_text(rival.solver),
        x=[used],
        y=[objective_s / scale.seconds],
        mode="markers",
        marker={"symbol": f"{symbol}-open", "size": 14, "color": color, "line": {"width": 2.5}},
        hoverinfo="text",
        hovertext=[
            f"<b>{escape_text(rival.solver)}</b><br>{phrases.name_objective(instance)}: "
            f"{format_duration(objective_s)}<br>{phrases.say_budget(instance, used)}{versus}"
        ],
    )


def _add_money_axis(figure: Figure, instance: BoaInstance, low: float, high: float) -> None:
    """Repeat the horizontal axis above the plot in US dollars; an axis shows only where a trace uses it."""
    rate = phrases.cost_of_month(instance, 1.0) or 1.0
    figure.add_scatter(x=[low * rate], y=[0], xaxis="x2", mode="none", showlegend=False)
    figure.update_layout(
        xaxis2={
            **figure.layout.xaxis.to_plotly_json(),
            "overlaying": "x",
            "side": "top",
            "range": [low * rate, high * rate],
            "showgrid": False,
            "tickmode": "auto",
            "tickprefix": "$",
            "title": {"text": "US dollars a month", "standoff": 8, "font": {"size": style.FONT_SIZE}},
        }
    )
