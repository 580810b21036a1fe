"""Rows of the tables that terminal and report share, as plain text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optplan.contracts import Frontier, FrontierPoint, Result, Solution
from optplan.formulations import formulation_of
from optplan.formulations.boa.data.instance import QUOTA, BoaInstance
from optplan.reporting.boa.breakdown import ClassBreakdown, EpochRange, JobPath
from optplan.reporting.boa.budgets import cost_of_month, cost_usd_per_hour
from optplan.reporting.phrases import (
    NOTHING,
    PROOF_NAMES,
    compare_durations,
    count_gpus,
    format_gpus,
    format_seconds,
    format_share,
    format_small_duration,
    format_usd,
    relative_difference,
)
from optplan.reporting.standing import name_status
from optplan.units import BudgetUnit, format_duration

#: Ranges of epochs that a table shows of one path before it says how many more there are.
_MOST_RANGES = 24

#: Relative rounding error of a figure that is meant to be short, such as 6.2.
_ROUNDING = 1e-12

#: Budgets in the table of the frontier, as multiples of the budget.
_BUDGET_STEPS = (0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)


@dataclass(frozen=True)
class PlanRow:
    """One range of epochs in the plan's table."""

    epochs: str
    gpus: str
    duration: str


@dataclass(frozen=True)
class PlanPath:
    """What a share of a class's jobs goes through; ``rest`` says what was left out."""

    share: str
    rows: tuple[PlanRow, ...]
    rest: str

    @property
    def num_rows(self) -> int:
        """Table rows that the path takes, with the one that says what was left out."""
        return len(self.rows) + bool(self.rest)


@dataclass(frozen=True)
class PlanClass:
    """A class in the plan's table."""

    name: str
    paths: tuple[PlanPath, ...]

    @property
    def num_rows(self) -> int:
        """Table rows that the class takes."""
        return sum(path.num_rows for path in self.paths)


@dataclass(frozen=True)
class BudgetRow:
    """One budget of the frontier."""

    gpus: str
    money: str
    objective: str
    change: str
    marginal: str
    note: str


@dataclass(frozen=True)
class ClassRow:
    """What one class uses and how long its jobs take; ``cost_share`` is empty where prices are not told apart."""

    name: str
    running: str
    rescaling: str
    by_type: tuple[str, ...]
    gpus_share: str
    cost_share: str
    mean_jct: str
    time_share: str


@dataclass(frozen=True)
class SolverRow:
    """One solver's result beside the others."""

    solver: str
    summary: str
    objective: str
    above: str
    gpus: str
    cost: str
    bound: str
    gap: str
    proof: str
    seconds: str


@dataclass(frozen=True)
class LimitRow:
    """One limit that would have to be relaxed, or a part of it."""

    name: str
    given: str
    least: str


def list_plan(parts: Sequence[ClassBreakdown]) -> list[PlanClass]:
    """List who gets how many GPUs in which epochs.

    Parameters
    ----------
    parts
        The solution, taken apart by class.
    """
    return [PlanClass(part.name, tuple(_list_path(path) for path in part.paths)) for part in parts]


def _list_path(path: JobPath) -> PlanPath:
    shown = path.ranges if len(path.ranges) <= _MOST_RANGES else path.ranges[: _MOST_RANGES - 1]
    rest = path.ranges[len(shown) :]
    said = ""
    if rest:
        widths = [r.gpus for r in rest]
        said = (
            f"epochs {rest[0].first} to {rest[-1].last}: {len(rest)} more ranges, {format_gpus(min(widths))} to "
            f"{count_gpus(max(widths))}; the result's file has them all"
        )
    rows = tuple(
        PlanRow(
            epochs=f"{r.first}" if r.first == r.last else f"{r.first} to {r.last}",
            gpus=name_gpus(r),
            duration=format_duration(r.duration_s),
        )
        for r in shown
    )
    return PlanPath(format_share(path.share), rows, said)


def name_gpus(held: EpochRange) -> str:
    """Write the GPUs of a range of epochs: ``8``, or ``8 a100`` where there are several types."""
    return f"{format_gpus(held.gpus)} {held.gpu_type}".rstrip()


def list_classes(parts: Sequence[ClassBreakdown], prices: Mapping[str, float] | None = None) -> list[ClassRow]:
    """List what each class uses and how long its jobs take.

    Parameters
    ----------
    parts
        The whole solution, taken apart by class.
    prices
        US dollars per hour by GPU type, for shares of the cost; None leaves them out.
    """
    gpus, time_s = sum(c.gpus for c in parts), sum(c.contribution_s for c in parts)
    usd = [] if prices is None else [sum(prices[t] * used for t, used in c.gpus_by_type.items()) for c in parts]
    total_usd = sum(usd)
    return [
        ClassRow(
            name=c.name,
            running=format_gpus(c.gpus_running),
            rescaling=format_gpus(c.gpus_rescaling),
            by_type=tuple(f"{format_gpus(used)} {gpu_type}" for gpu_type, used in c.gpus_by_type.items()),
            gpus_share=format_share(c.gpus / gpus),
            cost_share=format_share(usd[number] / total_usd) if usd else "",
            mean_jct=format_duration(c.mean_jct_s),
            time_share=format_share(c.contribution_s / time_s),
        )
        for number, c in enumerate(parts)
    ]


def choose_budgets(instance: BoaInstance, frontier: Frontier) -> list[float]:
    """Choose the budgets, in the instance's unit, at which a table looks at the frontier.

    Parameters
    ----------
    instance
        The problem; its budget, if any, is the middle.
    frontier
        Its frontier.

    Returns
    -------
    list of float
        Increasing: the least feasible one, some around the instance's own, and the one beyond which nothing improves.
    """
    least, far = float(frontier.budgets[0]), float(frontier.budgets[-1])
    middle = 1.5 * least if instance.budget is None else instance.budget_amount()
    between = (step * middle for step in _BUDGET_STEPS)
    return sorted({least, far, *(budget for budget in between if least < budget < far)})


def list_budgets(
    instance: BoaInstance, points: Sequence[FrontierPoint], *, reference: float | None = None
) -> list[BudgetRow]:
    """List what budgets buy.

    Parameters
    ----------
    instance
        The problem.
    points
        Of its frontier.
    reference
        The objective that the points are compared with; None for no comparison.
    """
    own = None if instance.budget is None else instance.budget_amount()
    rows = []
    for point in points:
        usd = cost_of_month(instance, point.budget)
        change = relative_difference(point.objective, reference)
        notes = ["the budget"] if point.budget == own else []
        is_least = point.shadow_price.less is None
        notes += ["the least that works"] if is_least else []
        notes += ["more buys nothing"] if point.shadow_price.more == 0 else []
        rows.append(
            BudgetRow(
                # Who types in the least that works must not fall short of it.
                gpus=f"{_round_up(point.budget):,.6g}" if is_least else format_gpus(point.budget),
                money=NOTHING if usd is None else format_usd(usd),
                objective=format_duration(point.objective),
                change=NOTHING if change is None else compare_durations(change),
                marginal=format_small_duration(point.shadow_price.more),
                note="; ".join(notes),
            )
        )
    return rows


def compare_solvers(instance: BoaInstance, results: Sequence[Result[Solution]]) -> list[SolverRow]:
    """Put results of the same problem side by side; the first is what the others are compared with.

    Parameters
    ----------
    instance
        The problem.
    results
        At least one.
    """
    summaries = {entry.name: entry.summary for entry in formulation_of(instance).solvers}
    reference = results[0].objective
    rows = []
    for result in results:
        above = relative_difference(result.objective, reference)
        usd = None if result.objective is None else cost_usd_per_hour(instance, result)
        rows.append(
            SolverRow(
                solver=result.solver,
                summary=summaries.get(result.solver, ""),
                objective=name_status(result)[0] if result.objective is None else format_duration(result.objective),
                above=NOTHING if above is None or result is results[0] else compare_durations(above),
                gpus=format_gpus(result.measures["gpus"]) if "gpus" in result.measures else NOTHING,
                cost=NOTHING if usd is None else format_usd(usd),
                bound=NOTHING if result.bound is None else format_duration(result.bound),
                gap=NOTHING if result.gap is None else format_share(result.gap),
                proof=PROOF_NAMES[result.bound_proof],
                seconds=format_seconds(result.solve_seconds),
            )
        )
    return rows


def list_limits(result: Result[Solution]) -> list[LimitRow]:
    """List the limits that would have to be relaxed, each followed by its parts; empty unless infeasible."""
    if result.infeasibility is None:
        return []
    rows = []
    for relaxation in result.infeasibility.relaxations:
        unit = "GPUs" if relaxation.unit == BudgetUnit.GPU.value else relaxation.unit
        least = _round_up(relaxation.least_feasible)  # enough when typed in as the new limit
        name = relaxation.limit.replace(QUOTA, "quota of ", 1)
        rows.append(LimitRow(name, f"{relaxation.given:,.6g} {unit}", f"{least:,.6g} {unit}"))
        rows += [LimitRow(f"of which {name}", "", f"{part:,.6g} {unit}") for name, part in relaxation.parts.items()]
    return rows


def _round_up(value: float) -> float:
    """Round up to six digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 5)
    return math.ceil(value / unit * (1.0 - _ROUNDING)) * unit
