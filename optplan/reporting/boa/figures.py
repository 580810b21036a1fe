"""The chart of what every budget buys: one frontier with a plan and its rivals, or several, with what solvers reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optplan.contracts import Frontier, FrontierPoint, Result, Solution
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting import style
from optplan.reporting.boa import phrases
from optplan.reporting.boa.phrases import BUDGET_WORDS, name_objective, say_amount, say_budget, usd_per_unit
from optplan.reporting.phrases import compare_durations, format_gpus, format_share
from optplan.reporting.style import Figure, TimeScale, add_points, escape_text, new_figure, time_scale
from optplan.schema import FloatArray
from optplan.units import BudgetUnit, format_duration

#: More curves than colours differ in their dashes.
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("square", "triangle-up", "circle", "triangle-down", "pentagon", "cross", "x")
#: Steps along a curve, so that there is something to point at everywhere.
_STEPS = 160
#: Breakpoints up to which all are drawn; with more, the steps are close enough together.
_MOST_BREAKPOINTS = 300
#: Budget at which a frontier is looked at when there is no plan, as a multiple of the least.
_WITHOUT_PLAN = 1.5
#: How far beyond that budget, or the plan's, and above the time there, curves are drawn, as factors.
_BEYOND, _ABOVE = 2.0, 1.8
#: Where the axes start, as a fraction of the least shown: differences between plans are to be seen.
_LEFT, _BELOW = 0.9, 0.75
#: Room beyond the outermost marks, as factors.
_ROOM = (1.08, 1.12)
#: From this ratio of the largest to the least value shown, an axis of several curves is logarithmic.
_LOGARITHMIC = 6.0
_LOGARITHMIC_TICKS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
#: Below this part of the height there is no room for a label under a plan.
_ROOM_BELOW = 0.4


@dataclass(frozen=True)
class SweepPoint:
    """One solver at one budget: the frontier's point, a bound for every plan, and what the solver found."""

    best: FrontierPoint
    result: Result[Solution]

    @property
    def above(self) -> float | None:
        """How far the solver's plan is above the frontier, as a fraction; None without a plan."""
        return None if self.result.objective is None else self.result.objective / self.best.objective - 1.0

    def to_json_data(self) -> dict[str, Any]:
        """Return plain data: the budget, and what is known of the plan without its decisions."""
        kept = ("status", "termination", "objective", "bound", "bound_proof", "measures", "solve_seconds")
        known = self.result.to_json_data()
        return {
            "solver": self.result.solver,
            "budget": self.best.budget,
            **{field: known.get(field) for field in kept},
            "gap": self.result.gap,
            "frontier": self.best.objective,
            "above_frontier": self.above,
        }


@dataclass(frozen=True)
class FrontierAnswer:
    """One answer to a question as plain data, ``at``, ``for_jct_s`` or ``for_weighted_jct_s``."""

    question: dict[str, str | float]
    instance: BoaInstance  #: The user's, or the one with all weights equal.
    point: FrontierPoint
    proven: float  #: The bound that the certificate proves at that budget, in seconds.

    @property
    def is_at(self) -> bool:
        """Whether it was asked what a budget buys."""
        return "at" in self.question

    def say_question(self) -> str:
        """Say what was asked for: a budget as it was written, or a mean completion time."""
        asked = next(iter(self.question.values()))
        return asked if isinstance(asked, str) else format_duration(asked)

    def to_json_data(self) -> dict[str, Any]:
        """Return plain data: the point, what was asked, which mean it is and what is proven about it."""
        asked = {"question": self.question, "objective_name": name_objective(self.instance)}
        return {**asked, **self.point.to_json_data(), "proven_bound": self.proven}


@dataclass(frozen=True)
class FrontierCurve:
    """One curve of the chart; ``sweeps``, which fill up while solvers run, are what these reach at some budgets."""

    label: str
    instance: BoaInstance
    frontier: Frontier
    sweeps: dict[str, list[SweepPoint]] = field(default_factory=dict)
    asked: Sequence[FrontierAnswer] = ()  #: Told beside the chart.
    shown: Sequence[FrontierPoint] = ()  #: Those of the breakpoints that a terminal lists.

    @property
    def least(self) -> float:
        """The least budget for which there is a plan."""
        return float(self.frontier.budgets[0])


#: A plan in the chart: where on the axis of budgets, seconds of the objective, and what hovering says.
_Mark = tuple[float, float, str]
#: The range of budgets, and that of seconds.
_Window = tuple[tuple[float, float], tuple[float, float]]


def draw_frontier(
    instance: BoaInstance,
    frontier: Frontier,
    result: Result[Solution] | None = None,
    rivals: Sequence[Result[Solution]] = (),
) -> Figure:
    """Draw what every budget buys, with a plan and its rivals in it; see :func:`draw_frontiers`."""
    return draw_frontiers([FrontierCurve("", instance, frontier)], result, rivals)


def draw_frontiers(
    curves: Sequence[FrontierCurve],
    result: Result[Solution] | None = None,
    rivals: Sequence[Result[Solution]] = (),
) -> Figure:
    """Draw frontiers over one axis of budgets, dollars a month above, and what a result and its rivals reach."""
    unit = choose_unit(curves)
    factors = [convert_unit(curve.instance, unit) for curve in curves]
    first, alone = curves[0], len(curves) == 1
    marks = _list_marks(curves, factors, [one for one in rivals if one.objective is not None])
    plan = None if result is None or result.objective is None else _mark_plan(first.instance, result)
    every = [*([plan] if plan else []), *(mark for _, _, group in marks for mark in group)]
    window = _choose_window(curves, factors, every)
    (low, high), (bottom_s, top_s) = window
    scale, priced = time_scale(top_s), alone and phrases.cost_of_month(first.instance, 1.0) is not None
    figure = new_figure(height=420, top=56 if priced else 12)
    for number, (curve, factor) in enumerate(zip(curves, factors, strict=True)):
        _add_curve(figure, curve, factor, high, scale, number, named=not alone)
    if plan is not None:  # the first mark is the one that a page's control moves
        _add_plan(figure, first.instance, plan, window, scale)
    for name, look, group in marks:
        _add_marks(figure, name, group, scale, {**look, "size": 11, "line": {"width": 2}})
    if alone:
        _shade_infeasible(figure, first.instance, low, first.least)
        if not every and first.instance.budget is not None:
            _mark_budget(figure, first.instance, bottom_s / scale.seconds, top_s / scale.seconds)
    objectives = {name_objective(curve.instance) for curve in curves}
    objective = objectives.pop() if len(objectives) == 1 else "(weighted) mean completion time"
    times = (bottom_s / scale.seconds, top_s / scale.seconds)
    figure.update_xaxes(
        title_text=f"{BUDGET_WORDS[unit].name} (the budget)", separatethousands=True, **_range(low, high, alone=alone)
    )
    figure.update_yaxes(title_text=f"{objective} ({scale.unit})", **_range(*times, alone=alone and not first.sweeps))
    # One line falls, so the corner above right is free at any width of the page; many names are longer than that.
    corner = {"x": 1, "xanchor": "right", "y": 1, "yanchor": "top", "bgcolor": "rgba(255, 255, 255, 0.8)"}
    # Half of a label may stand beyond the last tick.
    figure.update_layout(legend=corner if alone else style.LEGEND_ABOVE, margin_r=24, showlegend=True)
    if priced:
        _add_money_axis(figure, first.instance, low, high)
    return figure


def choose_unit(curves: Sequence[FrontierCurve]) -> BudgetUnit:
    """Choose the unit in which all budgets can be compared; refuse curves that have none in common."""
    # GPUs, where all budgets count them and they cost the same, or have no price; else US dollars an hour.
    rates = [usd_per_unit(curve.instance) for curve in curves]
    in_money = [curve for curve in curves if curve.instance.budget_unit is BudgetUnit.USD_PER_HOUR]
    if in_money:
        for curve, rate in zip(curves, rates, strict=True):
            if rate is None:
                raise UsageError(
                    f"{in_money[0].label} counts its budget in US dollars an hour and {curve.label} in GPUs, which "
                    "cannot be converted; give every GPU type a price, as in --set gpu_types.t4.price=0.978, and ask "
                    "for money"
                )
        return BudgetUnit.USD_PER_HOUR
    return BudgetUnit.USD_PER_HOUR if None not in rates and len(set(rates)) > 1 else BudgetUnit.GPU


def convert_unit(instance: BoaInstance, unit: BudgetUnit) -> float:
    """Return how much of a unit one unit of an instance's budget is; :func:`choose_unit` finds one that does."""
    return (usd_per_unit(instance) or 1.0) if unit is BudgetUnit.USD_PER_HOUR else 1.0


def _list_marks(
    curves: Sequence[FrontierCurve], factors: Sequence[float], rivals: Sequence[Result[Solution]]
) -> list[tuple[str, dict[str, str], list[_Mark]]]:
    """List by solver, and curve where there are several, what was reached, under its name and with its look."""
    found: list[tuple[int, str, list[tuple[float, SweepPoint]]]] = [
        (number, solver, [(point.best.budget, point) for point in points])
        for number, curve in enumerate(curves)
        for solver, points in curve.sweeps.items()
    ]
    for rival in rivals:
        used = phrases.use_of_budget(curves[0].instance, rival)
        best = curves[0].frontier.at(max(used, curves[0].least))
        found.append((0, rival.solver, [(used, SweepPoint(best, rival))]))
    solvers = list(dict.fromkeys(solver for _, solver, _ in found))
    marks = []
    for number, solver, points in found:
        position, instance = solvers.index(solver), curves[number].instance
        # One curve: colours tell solvers apart. Several: a solver's points have the colour of their curve.
        color = style.COLORS[(position + 1 if len(curves) == 1 else number) % len(style.COLORS)]
        name = escape_text(solver if len(curves) == 1 else f"{curves[number].label}: {solver}")
        look = {"symbol": f"{_SYMBOLS[position % len(_SYMBOLS)]}-open", "color": color}
        group = [
            (factors[number] * used, objective_s, _describe_mark(instance, name, used, point))
            for used, point in points
            if (objective_s := point.result.objective) is not None
        ]
        marks.append((name, look, group))
    return marks


def _mark_plan(instance: BoaInstance, result: Result[Solution]) -> _Mark:
    used, objective_s = phrases.use_of_budget(instance, result), result.objective or 0.0
    words = f"<b>this plan</b> ({escape_text(result.solver)})<br>{name_objective(instance)}: "
    return used, objective_s, f"{words}{format_duration(objective_s)}<br>{say_budget(instance, used)}"


def _describe_mark(instance: BoaInstance, name: str, used: float, point: SweepPoint) -> str:
    bound, gap = point.result.bound, point.result.gap
    own = "this solver proves nothing; the frontier is a bound for it"
    if bound is not None and gap is not None:
        own = f"its own bound: {format_duration(bound)}, gap {format_share(gap)}"
    return (
        f"<b>{name}</b><br>{say_budget(instance, used)}<br>"
        f"{name_objective(instance)}: {format_duration(point.result.objective or 0.0)}<br>"
        f"against the frontier: {compare_durations(point.above or 0.0)}<br>{own}"
    )


def _choose_window(curves: Sequence[FrontierCurve], factors: Sequence[float], marks: Sequence[_Mark]) -> _Window:
    """Choose the ranges of budgets and seconds that are shown: around the first mark, with all of them in it."""
    lows, highs, tops_s = [], [], []
    for curve, factor in zip(curves, factors, strict=True):
        least, far = curve.least, float(curve.frontier.budgets[-1])
        budget = None if curve.instance.budget is None else curve.instance.budget_amount()
        center = marks[0][0] / factor if marks else max(_WITHOUT_PLAN * least, budget or 0.0)
        high = min(max(_BEYOND * center, 1.3 * least), max(1.05 * far, 1.2 * center))
        # Where everything costs the same, there is one point and no room; a tenth of it makes some.
        highs.append(factor * max(high, 1.1 * least))
        lows.append(factor * _LEFT * min(least, budget if budget is not None and not marks else least))
        reference_s = marks[0][1] if marks else curve.frontier.at(max(center, least)).objective
        tops_s.append(min(_ABOVE * reference_s, 1.08 * float(curve.frontier.objectives[0])))
    low, high = min(lows), max([*highs, *(_ROOM[0] * at for at, _, _ in marks)])
    ends_s = [
        curve.frontier.at(max(high / factor, curve.least)).objective
        for curve, factor in zip(curves, factors, strict=True)
    ]
    times_s = [objective_s for _, objective_s, _ in marks]
    return (low, high), (_BELOW * min([*ends_s, *times_s]), max([*tops_s, *(_ROOM[1] * each for each in times_s)]))


def _range(low: float, high: float, *, alone: bool) -> dict[str, Any]:
    """Return the settings of an axis; among several curves logarithmic where much would be squeezed into a corner."""
    if alone or high <= _LOGARITHMIC * low:
        return {"type": "linear", "range": [low, high]}
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [tick * 10.0**decade for decade in decades for tick in _LOGARITHMIC_TICKS]
    shown = [tick for tick in ticks if low <= tick <= high]
    # plotly's own ticks leave out the decade of all but the first of each.
    texts = [f"{tick:,.6g}" for tick in shown]
    return {"type": "log", "range": [math.log10(low), math.log10(high)], "tickvals": shown, "ticktext": texts}


def _add_curve(
    figure: Figure, curve: FrontierCurve, factor: float, high: float, scale: TimeScale, number: int, *, named: bool
) -> None:
    budgets = _choose_budgets(curve.frontier, high / factor)
    points = [curve.frontier.at(float(budget)) for budget in budgets]
    label = escape_text(curve.label)
    drawn = [
        (
            factor * budget,
            point.objective / scale.seconds,
            f"{f'<b>{label}</b><br>' if named else ''}{say_budget(curve.instance, budget)}<br>"
            f"best possible: {format_duration(point.objective)}<br>"
            f"{phrases.say_worth(curve.instance, point.shadow_price)}",
        )
        for budget, point in zip(budgets.tolist(), points, strict=True)
    ]
    round_, place = divmod(number, len(style.COLORS))
    line = {"color": style.COLORS[place], "width": 3, "dash": _DASHES[round_ % len(_DASHES)]}
    add_points(figure, f"{label}: best possible (proven)" if named else "best possible (proven)", drawn, line=line)


def _choose_budgets(frontier: Frontier, high: float) -> FloatArray:
    """Choose budgets at which a curve is drawn, in equal ratios: on a logarithmic axis they are even."""
    least = float(frontier.budgets[0])
    steps = np.geomspace(least, max(high, least), _STEPS + 1)
    inside = frontier.budgets[frontier.budgets <= high]
    budgets: FloatArray = np.union1d(steps, inside) if inside.size <= _MOST_BREAKPOINTS else steps
    return np.maximum(budgets, least)  # the first step may have been rounded down


def _add_marks(
    figure: Figure, name: str, marks: Sequence[_Mark], scale: TimeScale, marker: dict[str, Any], **more: object
) -> None:
    points = [(at, objective_s / scale.seconds, words) for at, objective_s, words in marks]
    add_points(figure, name, points, mode="markers", marker=marker, **more)


def _shade_infeasible(figure: Figure, instance: BoaInstance, low: float, least: float) -> None:
    in_gpus = instance.budget_unit is BudgetUnit.GPU
    figure.add_vrect(x0=low, x1=least, fillcolor=style.SHADE, line_width=0, layer="below")
    figure.add_annotation(
        x=(low + least) / 2,
        y=0.5,
        yref="paper",
        text=f"no plan below {f'{format_gpus(least)} GPUs' if in_gpus else say_amount(instance, least)}",
        textangle=-90,
        showarrow=False,
        font={"color": style.INK, "size": style.FONT_SIZE - 1},
    )


def _mark_budget(figure: Figure, instance: BoaInstance, bottom: float, top: float) -> None:
    amount = instance.budget_amount()
    said = f"the budget: {phrases.describe_budget(instance)}"
    line = {"color": style.VERMILLION, "width": 2, "dash": "dash"}
    add_points(figure, "the budget", [(amount, bottom, said), (amount, top, said)], line=line)


def _add_plan(figure: Figure, instance: BoaInstance, plan: _Mark, window: _Window, scale: TimeScale) -> None:
    used, objective_s, _ = plan
    look = {"symbol": "diamond", "size": 14, "color": style.INK, "line": {"color": "white", "width": 1.5}}
    _add_marks(figure, "this plan", [plan], scale, look, showlegend=False)  # it is labelled where it is
    # The line falls from left to right and rivals lie above it: there is room above right of the plan, or below left.
    # Far down there is none below, but the line is flat there.
    (low, high), (bottom_s, top_s) = window
    part = (used - low) / (high - low)
    on_the_left = part < 0.5
    above = on_the_left or (objective_s - bottom_s) / (top_s - bottom_s) < _ROOM_BELOW
    figure.add_annotation(
        x=used,
        y=objective_s / scale.seconds,
        text=f"<b>this plan: {format_duration(objective_s)}</b><br>{say_amount(instance, used)}",
        showarrow=True,
        bgcolor="rgba(255, 255, 255, 0.8)",
        arrowhead=0,
        arrowcolor=style.GREY,
        standoff=8,
        font={"size": style.FONT_SIZE - 1},
        ax=10 if on_the_left else min(40, 150 * (1.0 - part)),  # as far right as there is room on a phone
        ay=-48 if above else 48,
        xanchor="left" if on_the_left else "right",
        yanchor="bottom" if above else "top",
        align="left" if on_the_left else "right",
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
