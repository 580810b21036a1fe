"""GPUs in use at once: how many are enough how often, what that rests on, and what whole nodes cost beyond them.

Commitments: how many GPUs are committed, what the bill is made of, and what other discounts would change.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from optplan.formulations.boa.data.gpu_types import Term
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.exact.peak.demand import find_demand, forecast_demand
from optplan.formulations.boa.laws.demand import FIGURES, STEADY, Demand, Tariff, bill_demand, has_patterns, make_bill
from optplan.formulations.boa.study.node_rounding import estimate_rounding
from optplan.reporting.pages import Block, Charts, Items, Section
from optplan.reporting.phrases import NOTHING, format_gpus, format_share
from optplan.reporting.style import BLUE, GREY, Figure, color_types, escape_text, finish, new_figure
from optplan.reporting.tables import Column, Table, numbers

if TYPE_CHECKING:
    from optplan.contracts import Result, Solution
    from optplan.formulations.boa.laws.demand import Demand

_WORDS = {"p50": "P50", "p95": "P95", "p99": "P99", "busiest_p95": "busiest hour's P95"}
_STEADY_WORDS = "if arrivals were steady"
_ASSUMED = (
    "Arrivals are assumed to be steady and one by one: the instance does not say when jobs come. Real ones need a "
    "fifth to a third more GPUs at P95 and P99; `optplan import` learns `arrivals` from a log."
)
_KNOWN = (
    "Arrivals follow each class's hours of the day and come in its clumps; sizes are taken at their means. The lines "
    "of steady arrivals are there to compare: sizing by them falls short."
)
_READING = (
    "The share of the time (vertical, each mark a tenth of the one above) in which more than so many GPUs are in use. "
    "The plan's mean says what is paid for; a quota or a cluster has to hold the tail. Dotted lines are a limit on the "
    "GPUs at once, or the numbers of GPUs to commit: what is in use beyond them is paid on demand or spot."
)
#: The least chance that the chart shows, and its points.
_LEAST_CHANCE = 1e-4
_MOST_POINTS = 400


def list_demand(instance: BoaInstance, result: Result[Solution]) -> Table | None:
    """List how many GPUs are enough for how much of the time; None without a plan, or where they cannot be counted."""
    solution = result.solution
    if not isinstance(solution, BoaSolution):
        return None
    told = result.demand or forecast_demand(instance, solution)
    if not told:
        return None
    over = list(dict.fromkeys(name.partition(".")[0].removeprefix(STEADY) for name in told if "over_" in name))
    shown = [name for name in FIGURES if name in told or STEADY + name in told]
    rows = []
    for gpu_type in ("", *instance.gpu_types):
        suffix = f".{gpu_type}" if gpu_type else ""
        for steady in (False, True):
            prefix = STEADY if steady else ""
            if f"{prefix}p95{suffix}" not in told:
                continue
            mean = result.measures.get(f"gpus{suffix}", 0.0)
            figures = [told.get(f"{prefix}{name}{suffix}") for name in shown]
            chances = [told.get(f"{prefix}{name}{suffix}") for name in over]
            rows.append(
                [
                    f"{gpu_type or 'all'}{f', {_STEADY_WORDS}' if steady else ''}",
                    format_gpus(mean),
                    *(NOTHING if figure is None else f"{figure:,.0f}" for figure in figures),
                    *(NOTHING if chance is None else format_share(chance) for chance in chances),
                ]
            )
    names = [f"over {name.removeprefix('over_')}" for name in over]
    caption = "GPUs in use at once: mean, and how many are enough for 50, 95 and 99 % of the time"
    return Table(caption, (Column("GPUs"), *numbers("mean", *(_WORDS[name] for name in shown), *names)), rows)


def list_extras(instance: BoaInstance) -> list[tuple[str, str]]:
    """List what an instance asks for besides: a limit on the GPUs at once, whole nodes."""
    limit, extras = instance.most_gpus, []
    if limit is not None:
        extras.append(("GPUs at once", f"at most {limit.gpus:g} for {limit.probability:.4g} of the time"))
    if instance.whole_nodes:
        extras.append(("nodes", "whole: jobs share none, and all GPUs of a job's nodes are paid for"))
    return extras


def say_demand(instance: BoaInstance, result: Result[Solution]) -> list[str]:
    """Say what the figures rest on, and what whole nodes cost beyond the GPUs in use, where nodes are known."""
    said = [_KNOWN if has_patterns(instance) else _ASSUMED]
    solution = result.solution
    rounded = estimate_rounding(instance, solution) if isinstance(solution, BoaSolution) else {}
    for gpu_type, found in rounded.items():
        if not found.in_use:
            continue
        nodes = f"nodes of {found.gpus_per_node} {gpu_type}"
        shared, apart = (f"{gpus / found.in_use - 1.0:.1%}" for gpus in (found.shared, found.apart))
        if instance.whole_nodes:
            said.append(
                f"Jobs share no nodes: {format_gpus(found.apart)} GPUs of {nodes} are paid for on average, {apart} "
                f"more than the {format_gpus(found.in_use)} in use."
            )
        else:
            said.append(
                f"On {nodes} that jobs share, about {format_gpus(found.shared)} GPUs are rented on average "
                f"(estimated), {shared} more than the {format_gpus(found.in_use)} in use; were no node shared, "
                f"{format_gpus(found.apart)}, {apart} more."
            )
    return said


def tell_demand(instance: BoaInstance, result: Result[Solution]) -> list[Section]:
    """Tell how many GPUs are in use at once; nothing without a plan."""
    table = list_demand(instance, result)
    if table is None or not isinstance(result.solution, BoaSolution):
        return []
    label = "Line chart: share of the time with more than so many GPUs in use; the table has the main figures"
    chart = Charts([(label, draw_demand(instance, result.solution))], _READING)
    blocks: list[Block] = [table, chart, Items(say_demand(instance, result))]
    return [Section("demand", "GPUs in use at once", blocks, "GPUs at once", "folded")]


def draw_demand(instance: BoaInstance, solution: BoaSolution) -> Figure:
    """Draw the chance of more than so many GPUs, of all types and of each."""
    figure = new_figure(height=320, top=36)
    patterned = has_patterns(instance)
    lines = [("", not patterned, "all", BLUE)]
    if patterned:
        lines.append(("", True, f"all, {_STEADY_WORDS}", GREY))
    if len(instance.gpu_types) > 1:
        lines += [(name, not patterned, name, color) for name, color in color_types(instance.gpu_types).items()]
    for gpu_type, steady, name, color in lines:
        gpus, chances = _list_points(find_demand(instance, solution, gpu_type, steady=steady))
        figure.add_scatter(
            x=gpus,
            y=chances,
            name=escape_text(name),
            mode="lines",
            line={"color": color, "dash": "dash" if gpu_type or (steady and patterned) else "solid"},
            hovertemplate="more than %{x:,.0f} GPUs: %{y:.2%} of the time<extra></extra>",
        )
    marked = [] if instance.most_gpus is None else [instance.most_gpus.gpus]
    for name, kind in instance.gpu_types.items():
        if kind.commitments is not None:
            marked.append(make_bill(Tariff.of(kind), find_demand(instance, solution, name)).number)
    for number in marked:
        figure.add_vline(x=number, line={"color": GREY, "dash": "dot"})
    up = {"title_text": "share of the time with more", "type": "log", "tickformat": ".2~p"}
    return finish(figure, {"title_text": "GPUs", "rangemode": "tozero"}, up, names=len(lines) > 1)


def _list_points(demand: Demand) -> tuple[list[float], list[float]]:
    """List numbers of GPUs, and the share of the time in which more are in use."""
    more = np.clip(1.0 - np.cumsum(demand.any_time), 0.0, 1.0)
    shown = int(np.count_nonzero(more >= _LEAST_CHANCE)) + 1
    places = np.unique(np.linspace(0, min(shown, more.size - 1), _MOST_POINTS).astype(int))
    return (places * float(demand.unit)).tolist(), np.maximum(more[places], _LEAST_CHANCE / 10).tolist()


#: Discounts that a table compares, and the share of the time for which the rival's number is enough.
_DISCOUNTS = (0.1, 0.2, 0.3, 0.45, 0.6, 0.75)
_RIVAL = 0.95


def list_bills(instance: BoaInstance, result: Result[Solution]) -> list[Table]:
    """List what the bill is made of, and how many GPUs to commit at other discounts; nothing without commitments."""
    if not instance.commits or not isinstance(result.solution, BoaSolution):
        return []
    laws = {name: find_demand(instance, result.solution, name) for name in instance.gpu_types}
    bills, parts = bill_demand(instance, laws), list[tuple[str, str, str]]()
    total = sum(bill.total for bill in bills.values())
    for name, bill in bills.items():
        kind, on_demand = instance.gpu_types[name], instance.prices_on_demand[name]
        rates = {term: rate.of_demand(kind.price_usd_per_hour) for term, rate in (kind.commitments or {}).items()}
        rows = [(f"{name} for {term}", gpus, gpus * on_demand * rates[term]) for term, gpus in bill.gpus.items()]
        if kind.spot_market is not None:
            rate = kind.spot_market.of_demand(kind.price_usd_per_hour) * on_demand
            rows.append((f"{name} on spot", bill.spot / rate, bill.spot))
        rows.append((f"{name} on demand", bill.on_demand / on_demand, bill.on_demand))
        parts += [(what, format_gpus(gpus), format_share(cost / total)) for what, gpus, cost in rows]
    table = Table("What the bill is made of", (Column("GPUs"), *numbers("number", "of the bill")), parts)
    return [table, *(_list_discounts(name, laws[name]) for name, t in instance.gpu_types.items() if t.commitments)]


def _list_discounts(name: str, demand: Demand) -> Table:
    """List what the plan's own widths would commit at some discounts, and save of the bill on demand."""
    rows, most = [], math.ceil(demand.quantile(_RIVAL))
    for discount in _DISCOUNTS:
        tariff = Tariff.of_terms({"": Term(discount=discount)})
        best, rival = make_bill(tariff, demand), make_bill(tariff, demand, most)
        saved = [format_share(1.0 - each.total / demand.mean) for each in (best, rival)]
        rows.append((format_share(discount), format_gpus(sum(best.gpus.values())), *saved))
    caption = f"{name} at other discounts, widths as they are"
    columns = (Column("discount"), *numbers("commit", "saved", f"saved with {format_gpus(most)}, the P95"))
    return Table(caption, columns, rows)


def tell_commitments(instance: BoaInstance, result: Result[Solution]) -> list[Section]:
    """Tell what is committed; nothing without a plan, or without commitments."""
    tables = list_bills(instance, result)
    return [Section("commitments", "What to commit", tables, "Commitments", follows=True)] if tables else []
