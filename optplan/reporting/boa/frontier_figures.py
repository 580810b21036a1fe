"""Several frontiers in one chart, and what solvers reach at many budgets beside them."""

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
from optplan.reporting.boa.phrases import BUDGET_WORDS, look_up, name_objective, say_budget, say_worth, usd_per_unit
from optplan.reporting.pages import Block, Charts, Section
from optplan.reporting.phrases import NOTHING, compare_durations, format_gpus, format_share
from optplan.reporting.sections import name_status
from optplan.reporting.style import Figure, TimeScale, escape_text, new_figure, time_scale
from optplan.reporting.tables import Column, Table, numbers
from optplan.schema import FloatArray
from optplan.units import BudgetUnit, format_duration

#: More curves than colours differ in their dashes.
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("square", "triangle-up", "circle", "triangle-down", "pentagon", "diamond", "cross", "x")
#: Steps along a curve, so that there is something to point at everywhere.
_STEPS = 160
#: Breakpoints up to which all are drawn; with more, the steps are close enough together.
_MOST_BREAKPOINTS = 300
#: How far curves are drawn where no solver's points go beyond: as a multiple of their least budgets.
_BEYOND = 3.0
#: From this ratio of the largest to the least value shown, an axis is logarithmic.
_LOGARITHMIC = 6.0
_LOGARITHMIC_TICKS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
#: How high the chart goes, as a multiple of the longest time at ``_REFERENCE`` times a least budget.
_ABOVE, _REFERENCE = 1.15, 1.2
#: Where the vertical axis starts, as a fraction of the least time shown.
_BELOW = 0.85


#: Budgets in the table of several frontiers.
_BUDGETS = 8


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
        """Say what was asked: a budget, or a mean completion time."""
        asked = next(iter(self.question.values()))
        if isinstance(asked, str):
            return asked
        return f"{name_objective(self.instance)} of {format_duration(asked)}"

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


def draw_frontiers(curves: Sequence[FrontierCurve]) -> Figure:
    """Draw several frontiers, and what solvers reach, over one axis of budgets, in the unit of :func:`choose_unit`."""
    unit = choose_unit(curves)
    factors = [convert_unit(curve.instance, unit) for curve in curves]
    (low, high), (bottom_s, top_s) = _window(curves, factors)
    scale, figure = time_scale(top_s), new_figure(height=440)
    for number, (curve, factor) in enumerate(zip(curves, factors, strict=True)):
        _add_curve(figure, curve, factor, high, scale, number)
    solvers = list(dict.fromkeys(solver for curve in curves for solver in curve.sweeps))
    for number, (curve, factor) in enumerate(zip(curves, factors, strict=True)):
        for solver, points in curve.sweeps.items():
            position = solvers.index(solver)
            # One curve: colours tell solvers apart. Several: a solver's points have the colour of their curve.
            color = style.COLORS[(position + 1 if len(curves) == 1 else number) % len(style.COLORS)]
            symbol = _SYMBOLS[position % len(_SYMBOLS)]
            name = solver if len(curves) == 1 else f"{curve.label}: {solver}"
            _add_sweep(figure, curve.instance, points, factor, scale, name=name, look=(symbol, color))
    objectives = {name_objective(curve.instance) for curve in curves}
    objective = objectives.pop() if len(objectives) == 1 else "(weighted) mean completion time"
    times = (bottom_s / scale.seconds, top_s / scale.seconds)
    figure.update_xaxes(
        title_text=f"{BUDGET_WORDS[unit].name} (the budget)", separatethousands=True, **_range(low, high)
    )
    figure.update_yaxes(title_text=f"{objective} ({scale.unit})", **_range(*times))
    figure.update_layout(
        # On a narrow page the names are longer than the corner that the lines leave free.
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        margin_r=24,  # half of a label may stand beyond the last tick
        showlegend=True,
    )
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


def _window(
    curves: Sequence[FrontierCurve], factors: Sequence[float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Choose the range of budgets and the range of seconds that are shown: all of the solvers' points are in it."""
    highs, tops_s, times_s = [], [], []
    for curve, factor in zip(curves, factors, strict=True):
        least, far = float(curve.frontier.budgets[0]), float(curve.frontier.budgets[-1])
        found = [point for points in curve.sweeps.values() for point in points if point.result.objective is not None]
        highs += [factor * min(_BEYOND * least, 1.05 * far), *(1.05 * factor * point.best.budget for point in found)]
        tops_s += [curve.frontier.at(_REFERENCE * least).objective]
        times_s += [point.result.objective for point in found if point.result.objective is not None]
    leasts = [factor * float(curve.frontier.budgets[0]) for curve, factor in zip(curves, factors, strict=True)]
    # Where everything costs the same there is one point and no room; a tenth of it makes some.
    low, high = 0.9 * min(leasts), max(*highs, 1.1 * max(leasts))
    ends_s = [
        curve.frontier.at(max(high / factor, float(curve.frontier.budgets[0]))).objective
        for curve, factor in zip(curves, factors, strict=True)
    ]
    return (low, high), (_BELOW * min([*ends_s, *times_s]), max([_ABOVE * max(tops_s), *(1.05 * t for t in times_s)]))


def _range(low: float, high: float) -> dict[str, Any]:
    """Return the settings of an axis, logarithmic where much would be squeezed into a corner."""
    if high <= _LOGARITHMIC * low:
        return {"type": "linear", "range": [low, high]}
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [tick * 10.0**decade for decade in decades for tick in _LOGARITHMIC_TICKS]
    shown = [tick for tick in ticks if low <= tick <= high]
    # plotly's own ticks leave out the decade of all but the first of each.
    texts = [f"{tick:,.6g}" for tick in shown]
    return {"type": "log", "range": [math.log10(low), math.log10(high)], "tickvals": shown, "ticktext": texts}


def _add_curve(figure: Figure, curve: FrontierCurve, factor: float, high: float, scale: TimeScale, number: int) -> None:
    budgets = _choose_budgets(curve.frontier, high / factor)
    points = [curve.frontier.at(float(budget)) for budget in budgets]
    label = escape_text(curve.label)
    figure.add_scatter(
        name=f"{label}: best possible (proven)",
        x=(factor * budgets).tolist(),
        y=[point.objective / scale.seconds for point in points],
        mode="lines",
        line={
            "color": style.COLORS[number % len(style.COLORS)],
            "width": 3,
            "dash": _DASHES[number // len(style.COLORS) % len(_DASHES)],
        },
        hoverinfo="text",
        hovertext=[
            f"<b>{label}</b><br>{say_budget(curve.instance, float(budget))}<br>best possible: "
            f"{format_duration(point.objective)}<br>{say_worth(curve.instance, point.shadow_price)}"
            for budget, point in zip(budgets, points, strict=True)
        ],
    )


def _choose_budgets(frontier: Frontier, high: float) -> FloatArray:
    """Choose budgets at which a curve is drawn, in equal ratios: on a logarithmic axis they are even."""
    least = float(frontier.budgets[0])
    steps = np.geomspace(least, max(high, least), _STEPS + 1)
    inside = frontier.budgets[frontier.budgets <= high]
    budgets: FloatArray = np.union1d(steps, inside) if inside.size <= _MOST_BREAKPOINTS else steps
    return np.maximum(budgets, least)  # the first step may have been rounded down


def _add_sweep(
    figure: Figure,
    instance: BoaInstance,
    points: Sequence[SweepPoint],
    factor: float,
    scale: TimeScale,
    *,
    name: str,
    look: tuple[str, str],
) -> None:
    found = [(point, point.result.objective) for point in points if point.result.objective is not None]
    symbol, color = look
    figure.add_scatter(
        name=escape_text(name),
        x=[factor * point.best.budget for point, _ in found],
        y=[objective_s / scale.seconds for _, objective_s in found],
        mode="markers",
        marker={"symbol": f"{symbol}-open", "size": 9, "color": color, "line": {"width": 2}},
        hoverinfo="text",
        hovertext=[
            f"<b>{escape_text(name)}</b><br>{say_budget(instance, point.best.budget)}<br>"
            f"{name_objective(instance)}: {format_duration(objective_s)}<br>"
            f"against the frontier: {compare_durations(point.above or 0.0)}<br>{_say_bound(point)}"
            for point, objective_s in found
        ],
    )


def _say_bound(point: SweepPoint) -> str:
    bound, gap = point.result.bound, point.result.gap
    if bound is None or gap is None:
        return "this solver proves nothing; the frontier is a bound for it"
    return f"its own bound: {format_duration(bound)}, gap {format_share(gap)}"


def tell_curves(curves: Sequence[FrontierCurve]) -> Section:
    """Tell what frontiers buy at the same budgets, what was asked of them, and what solvers reach."""
    unit = choose_unit(curves)
    factors = [convert_unit(curve.instance, unit) for curve in curves]
    reading = "Each line is the best that any plan can do with so much budget: proven, point by point."
    if any(curve.sweeps for curve in curves):
        reading += " Marks are what solvers reach; a mark above its line is time left on the table."
    label = "Line chart: best possible completion time for every budget, curve by curve; the table below has some"
    blocks: list[Block] = [
        Charts([(label, draw_frontiers(curves))], reading),
        list_budgets(curves, factors, BUDGET_WORDS[unit].name),
    ]
    asked = list_asked(curves, factors, BUDGET_WORDS[unit].name)
    if asked.rows:
        said = (
            "The bounds were derived again from the certificates, without the solver: no plan within these budgets is "
            "better, mixed ones included."
        )
        blocks += [asked, said]
    reached = list_reached(curves, factors, BUDGET_WORDS[unit].name)
    return Section("frontiers", "What every budget buys", [*blocks, *([reached] if reached.rows else [])], "Frontiers")


def list_budgets(curves: Sequence[FrontierCurve], factors: Sequence[float], budget_name: str) -> Table:
    """Look all frontiers up at budgets in equal ratios; ``factors`` lead from each curve's unit to the chart's."""
    leasts = [factor * float(curve.frontier.budgets[0]) for factor, curve in zip(factors, curves, strict=True)]
    rows = []
    for budget in np.geomspace(min(leasts), _BEYOND * max(leasts), _BUDGETS).tolist():
        points = (look_up(curve.frontier, budget / factor) for factor, curve in zip(factors, curves, strict=True))
        cells = ("no plan" if point is None else format_duration(point.objective) for point in points)
        rows.append((format_gpus(budget), *cells))
    columns = (Column(curve.label, is_number=True, style="name") for curve in curves)
    budgets = Column(budget_name, is_number=True)
    return Table("The best possible mean completion time at some budgets", (budgets, *columns), rows)


def list_asked(curves: Sequence[FrontierCurve], factors: Sequence[float], budget_name: str) -> Table:
    """List what was asked of frontiers, with its proven bound, at the chart's budgets."""
    columns = (Column("frontier"), Column("asked for"), *numbers(budget_name, "best possible", "proven bound"))
    rows = [
        (
            curve.label,
            asked.say_question(),
            format_gpus(factor * asked.point.budget),
            format_duration(asked.point.objective),
            f"{asked.proven:,.6g} s",
        )
        for factor, curve in zip(factors, curves, strict=True)
        for asked in curve.asked
    ]
    return Table("What was asked", columns, rows, 2)


def list_reached(curves: Sequence[FrontierCurve], factors: Sequence[float], budget_name: str) -> Table:
    """List what solvers reach beside frontiers, at the chart's budgets."""
    columns = (Column("solver"), *numbers(budget_name, "mean completion time", "against the best"))
    rows = []
    for factor, curve in zip(factors, curves, strict=True):
        for solver, points in curve.sweeps.items():
            name = solver if len(curves) == 1 else f"{curve.label}: {solver}"
            for point in points:
                found = point.result
                objective = name_status(found)[0] if found.objective is None else format_duration(found.objective)
                above = NOTHING if point.above is None else compare_durations(point.above)
                rows.append((name, format_gpus(factor * point.best.budget), objective, above))
    return Table("What solvers reach", columns, rows, 2)
