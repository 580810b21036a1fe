"""What is listed of BOA's instances, plans, frontiers and solvers, for a terminal and a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from optplan.formulations import formulation_of
from optplan.formulations.boa.data.instance import DUE, FLOOR, BoaInstance
from optplan.reporting.boa import breakdown
from optplan.reporting.boa.explanations import describe_class
from optplan.reporting.boa.phrases import BUDGET_WORDS, cost_of_month, cost_usd_per_hour, name_limit, name_objective
from optplan.reporting.phrases import (
    NOTHING,
    compare_durations,
    count_gpus,
    format_gpus,
    format_share,
    format_small_duration,
    format_usd,
    relative_difference,
)
from optplan.reporting.sections import STANDING, name_status, relaxations_of
from optplan.reporting.tables import Cell, Column, Columns, Content, Row, Table, numbers, numeric, tabulate
from optplan.units import BudgetUnit, format_duration

if TYPE_CHECKING:
    from optplan.contracts import Frontier, FrontierPoint, Instance, Result, Solution
    from optplan.reporting.boa.figures import SweepPoint

#: Classes that a terminal lists before it says how many more there are: laying out tens of thousands takes longer than
#: solving them.
MOST_CLASSES = 1000
_SHARE = "share of jobs"
#: Columns of the table of a plan; that of shares only where jobs of a class differ.
PLAN_COLUMNS = (Column("class"), *numbers(_SHARE, "epochs", "GPUs", "expected time"))
#: Ranges of epochs that a table shows of one path before it says how many more there are.
_MOST_RANGES = 24
#: Relative rounding error of a figure that is meant to be short, such as 6.2.
_ROUNDING = 1e-12
#: Budgets in the table of the frontier, as multiples of the budget.
_BUDGET_STEPS = (0.75, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0)


def list_class_data(instance: BoaInstance, most: int = MOST_CLASSES, where: str = "in the JSON (--json)") -> Table:
    """List what is given about each class, or about the first ones; ``where`` the others are is said."""
    columns = (
        Column("class"),
        *numbers("jobs an hour", "epochs", "size on one GPU"),
        Column("speedup"),
        Column("allowed widths"),
        *numbers("pause", "weight"),
    )
    rows = [describe_class(instance, name) for name in islice(instance.classes, most)]
    return Table("The classes of jobs", columns, rows, rest=_say_rest(instance, most, where))


def list_plan(instance: BoaInstance, result: Result[Solution], most: int = MOST_CLASSES) -> Table:
    """List who gets how many GPUs in which epochs, a row for a range at one width; none without a plan."""
    parts = breakdown.break_down(instance, result, most)
    shares = any(len(part.paths) > 1 for part in parts)
    columns = [column for column in PLAN_COLUMNS if shares or column.name != _SHARE]
    rows = [row for part in parts for row in _list_class(part, shares=shares)]
    caption = "GPUs of a job, by class and epoch"
    return Table(caption, columns, rows, len(columns) - 2, _say_rest(instance, most) if parts else "")


def _list_class(part: breakdown.ClassBreakdown, *, shares: bool) -> list[Row]:
    """List the paths of a class's jobs; the class is named once, and so is each share."""
    rows: list[Row] = []
    paths = [_list_path(path) for path in part.paths]
    for path, own in zip(part.paths, paths, strict=True):
        for number, cells in enumerate(own):
            name = Cell(part.name, rows=sum(map(len, paths))) if not rows else None
            share = [Cell(format_share(path.share), rows=len(own)) if number == 0 else None] if shares else []
            rows.append(Row([name, *share, *cells], starts_group=not rows))
    return rows


def _list_path(path: breakdown.JobPath) -> list[Sequence[Content]]:
    shown = path.ranges if len(path.ranges) <= _MOST_RANGES else path.ranges[: _MOST_RANGES - 1]
    rest = path.ranges[len(shown) :]
    rows: list[Sequence[Content]] = [
        (
            f"{r.first}" if r.first == r.last else f"{r.first} to {r.last}",
            Cell(name_gpus(r), "strong"),
            format_duration(r.duration_s),
        )
        for r in shown
    ]
    if rest:
        widths = [r.gpus for r in rest]
        said = (
            f"epochs {rest[0].first} to {rest[-1].last}: {len(rest)} more ranges, {format_gpus(min(widths))} to "
            f"{count_gpus(max(widths))}; the result's file has them all"
        )
        rows.append([Cell(said, "rest", columns=3)])
    return rows


def name_gpus(held: breakdown.EpochRange) -> str:
    """Write the GPUs of a range of epochs: ``8``, or ``8 a100`` where there are several types."""
    return f"{format_gpus(held.gpus)} {held.gpu_type}".rstrip()


def list_classes(instance: BoaInstance, result: Result[Solution], most: int = MOST_CLASSES) -> Table:
    """List what each class uses and how long its jobs take."""
    prices, parts = breakdown.type_prices(instance), breakdown.break_down(instance, result)
    gpus, time_s = sum(part.gpus for part in parts), sum(part.contribution_s for part in parts)

    def cost(part: breakdown.ClassBreakdown) -> float:
        return sum((prices or {}).get(gpu_type, 0.0) * used for gpu_type, used in part.gpus_by_type.items())

    def name_types(part: breakdown.ClassBreakdown) -> str:
        return ", ".join(f"{format_gpus(used)} {gpu_type}" for gpu_type, used in part.gpus_by_type.items())

    usd = sum(map(cost, parts))
    columns: Columns[breakdown.ClassBreakdown] = {
        Column("class"): lambda part: part.name,
        numeric("GPUs running"): lambda part: format_gpus(part.gpus_running),
        numeric("GPUs rescaling"): lambda part: format_gpus(part.gpus_rescaling),
        Column("by type", style="parts"): name_types if breakdown.has_types(instance) else None,
        numeric("share of GPUs"): lambda part: format_share(part.gpus / gpus),
        numeric("share of the cost"): None if prices is None else lambda part: format_share(cost(part) / usd),
        numeric("one job takes"): lambda part: format_duration(part.mean_jct_s),
        numeric("share of the mean"): lambda part: format_share(part.contribution_s / time_s),
    }
    return tabulate("GPUs and time by class", columns, parts[:most], rest=_say_rest(instance, most) if parts else "")


def compare_results(instance: Instance, results: Sequence[Result[Solution]]) -> Table:
    """Set results of the same problem side by side; the first is what the others are compared with."""
    boa = breakdown.require_boa(instance)
    summaries = {entry.name: entry.summary for entry in formulation_of(boa).solvers}

    def compare(result: Result[Solution]) -> str:
        above = None if result is results[0] else relative_difference(result.objective, results[0].objective)
        return NOTHING if above is None else compare_durations(above)

    def cost(result: Result[Solution]) -> str:
        usd = None if result.objective is None else cost_usd_per_hour(boa, result.measures)
        return NOTHING if usd is None else format_usd(usd)

    columns: Columns[Result[Solution]] = {
        Column("solver"): lambda result: Cell(result.solver, "solver", note=summaries.get(result.solver, "")),
        numeric(name_objective(boa)): _write_objective,
        numeric("difference"): compare,
        numeric("GPUs"): lambda result: format_gpus(result.measures["gpus"]) if "gpus" in result.measures else NOTHING,
        numeric("cost an hour"): None if breakdown.type_prices(boa) is None else cost,
        numeric("bound"): _write_bound,
        **STANDING,
    }
    caption = "Each solver's plan; the first one is the plan of this report"
    return tabulate(caption, columns, results, own=lambda result: result is results[0])


def _write_objective(result: Result[Solution]) -> str:
    return name_status(result)[0] if result.objective is None else format_duration(result.objective)


def _write_bound(result: Result[Solution]) -> str:
    return NOTHING if result.bound is None else format_duration(result.bound)


def list_budgets(
    instance: Instance,
    points: Sequence[FrontierPoint],
    *,
    reference: float | None = None,
    bounds: Sequence[float] | None = None,
) -> Table:
    """List what budgets buy at best, against a ``reference`` and with the proven ``bounds``, all in seconds."""
    boa = breakdown.require_boa(instance)
    priced = cost_of_month(boa, 1.0) is not None
    own = None if boa.budget is None else boa.budget_amount()
    proven = dict(zip((point.budget for point in points), bounds or (), strict=False))
    columns: Columns[FrontierPoint] = {
        numeric(BUDGET_WORDS[boa.budget_unit].name): _write_budget,
        numeric("cost a month"): (lambda point: format_usd(cost_of_month(boa, point.budget) or 0.0))
        if priced
        else None,
        numeric(f"best possible {name_objective(boa)}"): lambda point: format_duration(point.objective),
        numeric("proven bound"): None if bounds is None else lambda point: f"{proven[point.budget]:.6g} s",
        numeric(f"against {format_duration(reference or 0.0)}"): None
        if reference is None
        else lambda point: compare_durations(relative_difference(point.objective, reference) or 0.0),
        numeric(f"one more {BUDGET_WORDS[boa.budget_unit].one} saves"): lambda point: format_small_duration(
            point.shadow_price.more
        ),
        Column("", style="remark"): lambda point: _say_remark(point, own),
    }
    return tabulate("The best possible at some budgets", columns, points, own=lambda point: point.budget == own)


def _write_budget(point: FrontierPoint) -> str:
    """Write a budget; who types in the least that works must not fall short of it."""
    is_least = point.shadow_price.less is None
    return f"{_round_up(point.budget):,.6g}" if is_least else format_gpus(point.budget)


def _say_remark(point: FrontierPoint, own: float | None) -> str:
    remarks = ["the budget"] if point.budget == own else []
    remarks += ["the least that works"] if point.shadow_price.less is None else []
    remarks += ["more buys nothing"] if point.shadow_price.more == 0 else []
    return "; ".join(remarks)


def list_sweep(instance: Instance, points: Sequence[SweepPoint]) -> Table:
    """List what a solver reaches at budgets and how far above the frontier; its bounds, if any result has one."""
    boa = breakdown.require_boa(instance)
    has_bounds = any(point.result.bound is not None for point in points)
    columns = list(numbers(BUDGET_WORDS[boa.budget_unit].name, "best possible", name_objective(boa), "above the best"))
    columns += [*numbers("own bound"), *STANDING] if has_bounds else [*STANDING][-1:]
    rows = []
    for point in points:
        standing = [write(point.result) for write in STANDING.values()]
        cells = (
            _write_budget(point.best),
            format_duration(point.best.objective),
            _write_objective(point.result),
            NOTHING if point.above is None else compare_durations(point.above),
            *([_write_bound(point.result), *standing] if has_bounds else standing[-1:]),
        )
        rows.append(cells)
    return Table("What the solver reaches", columns, rows)


def choose_budgets(instance: BoaInstance, frontier: Frontier) -> list[float]:
    """Choose the budgets that a table shows: the least feasible, some about the instance's, the last that improves."""
    least, far = float(frontier.budgets[0]), float(frontier.budgets[-1])
    middle = 1.5 * least if instance.budget is None else instance.budget_amount()
    between = (step * middle for step in _BUDGET_STEPS)
    return sorted({least, far, *(budget for budget in between if least < budget < far)})


def list_relaxations(result: Result[Solution]) -> Table | None:
    """List the limits that would have to be relaxed, each followed by its parts; None unless there are any."""
    rows, relaxations = [], relaxations_of(result)
    for relaxation in relaxations:
        unit = "GPUs" if relaxation.unit == BudgetUnit.GPU.value else relaxation.unit
        # Enough when typed in as the new limit.
        rounded = _round_down if relaxation.limit.startswith(FLOOR) else _round_up
        least = relaxation.describe(partial(_write_amount, rounded, unit))
        name = name_limit(relaxation.limit)
        rows.append(Row((name, f"{relaxation.given:,.6g} {unit}", least)))
        parts = {} if relaxation.limit.startswith(DUE) else relaxation.parts  # a due date is about one class
        rows += [Row((f"of which {name}", "", f"{part:,.6g} {unit}"), "part") for name, part in parts.items()]
    floored = any(relaxation.limit.startswith(FLOOR) for relaxation in relaxations)
    columns = (Column("limit"), *numbers("given", "nearest that works" if floored else "least that works"))
    return Table("Limits that would have to be relaxed", columns, rows) if rows else None


def _say_rest(instance: BoaInstance, most: int, where: str = "in the result's file") -> str:
    more = len(instance.classes) - most
    return f"{more:,} more classes are {where}." if more > 0 else ""


def _write_amount(rounded: Callable[[float], float], unit: str, amount: float) -> str:
    return f"{rounded(amount):,.6g} {unit}"


def _round_down(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - 5)
    return math.floor(value / unit * (1.0 + _ROUNDING)) * unit


def _round_up(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - 5)
    return math.ceil(value / unit * (1.0 - _ROUNDING)) * unit
