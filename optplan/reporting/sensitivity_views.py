"""What wrong estimates do to plans: sentences, a table for the terminal, and a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optplan.contracts import SampledPlan, Sensitivity
from optplan.formulations.boa.data import BUDGET
from optplan.reporting.phrases import NOTHING, format_share
from optplan.reporting.style import BLUE, GREEN, GREY, escape_text, load_plotly, new_figure, time_scale
from optplan.reporting.tables import add_row, new_table
from optplan.schema import FloatArray

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from rich.table import Table

_ERROR_WORDS = {"speedup": "speedups", "noise": "speeds at single widths", "size": "sizes", "arrival": "arrival rates"}
_QUANTILES = (0.05, 0.5, 0.95)
_COLOURS = {"planned": BLUE, "robust": GREEN}
_BARS = 40


def say_errors(found: Sensitivity) -> str:
    """Say what was sampled."""
    errors = " and ".join(f"{_ERROR_WORDS[name]} by {error:.0%}" for name, error in found.errors.items() if error)
    return f"{found.samples:,} samples in which the estimates are wrong: {errors} (one standard deviation)."


def sensitivity_table(found: Sensitivity) -> Table:
    """Compare what each plan promises with what the samples make of it."""
    table = new_table(("", False), *((plan.name, True) for plan in found.plans))
    for label, cells in list_figures(found):
        add_row(table, label, *cells)
    return table


def list_figures(found: Sensitivity) -> list[tuple[str, list[str]]]:
    """List the figures of each plan, in words: the promise, the mean and spread in the samples, and the regret."""
    unit = found.objective_unit
    rows = [
        (f"promised, {unit}", [f"{plan.expected_objective:,.1f}" for plan in found.plans]),
        (f"mean, {unit}", [_write_mean(plan.objective) for plan in found.plans]),
        (f"5 % / 50 % / 95 %, {unit}", [_write_quantiles(plan.objective) for plan in found.plans]),
    ]
    for limit, amount in found.limits.items():
        name = f"{limit}, {found.limit_units[limit]}"
        rows += [
            (f"{name} (of {amount:,.4g}): promised", [f"{p.expected_consumption[limit]:,.4g}" for p in found.plans]),
            (f"{name}: mean", [_write_mean(plan.consumption[limit]) for plan in found.plans]),
            (f"{name}: exceeded in", [_write_excess(plan.consumption[limit], amount) for plan in found.plans]),
        ]
    if found.plans[0].cost_usd_per_hour is not None:
        rows.append(("cost, $/h: mean", [_write_cost(plan) for plan in found.plans]))
    if found.plans[0].best_objective is not None:
        rows.append(("above the best for who knows the truth", [_write_regret(plan) for plan in found.plans]))
    return rows


def draw_sensitivity(found: Sensitivity) -> Figure:
    """Draw the distributions of completion time and of the use of the budget, plan by plan.

    Raises
    ------
    MissingExtraError
        When plotly is not installed.
    """
    figure = new_figure(height=400, top=40)
    style = figure.layout.xaxis.to_plotly_json()
    figure.set_subplots(rows=1, cols=2, horizontal_spacing=0.12)
    figure.update_xaxes(style)
    figure.update_yaxes({**style, "ticksuffix": " %", "rangemode": "tozero"})
    scale = time_scale(max(float(plan.objective.max()) for plan in found.plans))
    times = [plan.objective / scale.seconds for plan in found.plans]
    used = [plan.consumption[BUDGET] for plan in found.plans]
    unit = found.limit_units[BUDGET]
    panels = (
        (times, found.plans[0].expected_objective / scale.seconds, "promised", f"mean completion time, {scale.unit}"),
        (used, found.limits[BUDGET], "budget", f"use of the budget, {unit}"),
    )
    for column, (samples, mark, label, title) in enumerate(panels, start=1):
        edges = np.histogram_bin_edges(np.concatenate(samples), bins=_BARS)
        for plan, numbers in zip(found.plans, samples, strict=True):
            figure.add_trace(_draw_shares(plan, numbers, edges, with_legend=column == 1), row=1, col=column)
        figure.add_vline(x=mark, line={"color": GREY, "dash": "dash"}, annotation_text=label, row=1, col=column)
        figure.update_xaxes({"title": {"text": title}}, row=1, col=column)
    figure.update_yaxes({"title": {"text": "share of the samples"}}, row=1, col=1)
    figure.update_layout(legend={"orientation": "h", "x": 0, "y": 1.12}, showlegend=len(found.plans) > 1)
    return figure


def _draw_shares(plan: SampledPlan, numbers: FloatArray, edges: FloatArray, *, with_legend: bool) -> object:
    """Draw the shares of the samples that fall between the edges as steps."""
    counts = np.histogram(numbers, edges)[0]
    shares = 100.0 * counts / numbers.size
    return load_plotly().Scatter(
        x=np.repeat(edges, 2),
        y=np.concatenate(([0.0], np.repeat(shares, 2), [0.0])),
        mode="lines",
        fill="tozeroy",
        line={"color": _COLOURS.get(plan.name, GREY), "width": 2},
        opacity=0.8,
        name=escape_text(plan.name),
        legendgroup=plan.name,
        showlegend=with_legend,
        hovertemplate="%{x:.4g}: %{y:.1f} %<extra></extra>",
    )


def _write_mean(numbers: FloatArray) -> str:
    return f"{numbers.mean():,.4g} ± {numbers.std():,.2g}"


def _write_quantiles(numbers: FloatArray) -> str:
    return " / ".join(f"{value:,.4g}" for value in np.quantile(numbers, _QUANTILES))


def _write_excess(numbers: FloatArray, amount: float) -> str:
    excess = numbers > amount * (1.0 + 1e-9)
    if not excess.any():
        return "none"
    return f"{excess.mean():.0%}, by {(numbers[excess] / amount - 1.0).mean():.1%} on average"


def _write_cost(plan: SampledPlan) -> str:
    return NOTHING if plan.cost_usd_per_hour is None else _write_mean(plan.cost_usd_per_hour)


def _write_regret(plan: SampledPlan) -> str:
    if plan.best_objective is None:
        return NOTHING
    return format_share(float(np.mean(plan.objective / plan.best_objective)) - 1.0)
