"""Problem (1), real widths, on the sorted-slopes engine: one budget, and the whole frontier.

Tables enter by the lower-left hull of (k / s, 1 / s), on which a real width between two vertices stands for a fraction
of the jobs at each of the two; Amdahl and power law enter by their closed forms. Goodput curves have no closed form and
enter as tables at the allowed whole widths.
"""

from __future__ import annotations

import math
import time

import numpy as np

from optplan.contracts import (
    Answer,
    BoundProof,
    Frontier,
    FrontierPoint,
    LagrangianCertificate,
    ShadowPrice,
    SolveRequest,
    Termination,
)
from optplan.errors import InfeasibleError
from optplan.formulations.boa.answers import PRICE_UNIT, status_of
from optplan.formulations.boa.data import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.evaluation import BUDGET
from optplan.formulations.boa.feasibility import infeasible_answer, least_budget
from optplan.schema import FloatArray
from optplan.solvers import slopes
from optplan.speedup import AmdahlSpeedup, PowerSpeedup
from optplan.units import SECONDS_PER_HOUR

#: Points that a frontier's drawing has at most; queries between them are exact.
_DRAWN_POINTS = 1000


def solve_sorted_slopes(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve problem (1) exactly.

    Parameters
    ----------
    instance
        Problem continuous, with a budget.
    request
        For the gap.

    Returns
    -------
    Answer
        With a Lagrangian certificate and one-sided shadow prices.

    Raises
    ------
    UsageError
        When the instance has no budget.
    """
    budget = instance.budget_gpus()
    found = slopes.solve_budget(state_choices(instance), budget)
    if isinstance(found, slopes.OutOfReach):
        return infeasible_answer(instance, *least_budget(instance))
    certificate = LagrangianCertificate(multipliers={BUDGET: found.multiplier_right}, bound=found.bound)
    return Answer(
        status=status_of(found.value, found.bound, request),
        termination=Termination.COMPLETED,
        solution=_write_solution(instance, found.choices),
        objective=found.value,
        bound=min(found.bound, found.value),
        bound_proof=BoundProof.LAGRANGIAN,
        certificates=(certificate,),
        shadow_prices={BUDGET: price_of(found.multiplier_left, found.multiplier_right)},
    )


def build_continuous_frontier(instance: BoaInstance) -> Frontier:
    """Compute the whole frontier of problem (1).

    Parameters
    ----------
    instance
        Problem continuous; its budget is ignored.

    Returns
    -------
    Frontier
        Piecewise linear where all speedups are tables; with closed forms every query is an exact search.
    """
    start = time.perf_counter()
    blocks = state_choices(instance)
    line = slopes.trace_frontier(blocks)
    curve = line.curve(_DRAWN_POINTS)
    smooth = any(isinstance(block, slopes.SmoothBlock) for block in blocks)

    def at(budget: float) -> FrontierPoint:
        point = line.at(budget)
        if isinstance(point, slopes.OutOfReach):
            raise InfeasibleError(too_little(point.least, budget))
        return _write_point(point)

    def budget_for(objective_s: float) -> FrontierPoint:
        point = line.for_value(objective_s)
        if isinstance(point, slopes.OutOfReach):
            raise InfeasibleError(too_fast(point.least, objective_s))
        return _write_point(point)

    def solution_at(budget: float) -> BoaSolution:
        found = line.select(budget)
        if isinstance(found, slopes.OutOfReach):
            raise InfeasibleError(too_little(found.least, budget))
        return _write_solution(instance, found.choices)

    return Frontier(
        formulation=instance.formulation,
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        budget_unit="gpu",
        objective_unit="s",
        budgets=curve.consumption,
        objectives=curve.value,
        at=at,
        budget_for=budget_for,
        solution_at=solution_at,
        exact_between=not smooth and curve.consumption.size == line.consumption.size,
        solve_seconds=time.perf_counter() - start,
    )


def state_choices(instance: BoaInstance) -> list[slopes.Block]:
    """State problem (1) as one block of choices per class: a row per epoch.

    Returns
    -------
    list of Block
        Values in seconds of (weighted) mean completion time, consumption in time-average GPUs.
    """
    seconds_per_hour = SECONDS_PER_HOUR / instance.total_weighted_rate_per_hour
    return [_state_class(instance, name, seconds_per_hour * c.weight) for name, c in instance.classes.items()]


def price_of(less: float, more: float) -> ShadowPrice:
    """Return a shadow price; infinite on the side on which nothing is feasible becomes None."""
    return ShadowPrice(less=less if math.isfinite(less) else None, more=more, unit=PRICE_UNIT)


def _state_class(instance: BoaInstance, name: str, seconds_per_hour: float) -> slopes.Block:
    job_class = instance.classes[name]
    curve = job_class.speedup[instance.only_gpu_type]
    load = job_class.arrival_rate_per_hour * job_class.epoch_size_gpu_hours
    weight = np.full(load.size, seconds_per_hour)
    widths = instance.allowed_widths(name).astype(float)
    if isinstance(curve, AmdahlSpeedup | PowerSpeedup):
        amdahl = isinstance(curve, AmdahlSpeedup)
        parameter = curve.serial_fraction if isinstance(curve, AmdahlSpeedup) else curve.exponent
        return slopes.SmoothBlock(
            form=slopes.SmoothForm.AMDAHL if amdahl else slopes.SmoothForm.POWER_LAW,
            scale=load,
            weight=weight,
            parameter=np.broadcast_to(parameter, load.shape).astype(float),
            width_min=np.full(load.size, widths[0]),
            width_max=np.full(load.size, widths[-1]),
        )
    speeds = instance.speeds(name)
    if len(speeds) == 1:
        return slopes.SharedTableBlock(widths / speeds[0], 1.0 / speeds[0], load, weight)

    def make(start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        hours = load[start:stop, None] / speeds[start:stop]
        return hours * widths, hours * seconds_per_hour

    return slopes.LazyTableBlock(load.size, widths.size, make)


def _write_solution(
    instance: BoaInstance, choices: tuple[slopes.TableChoice | slopes.SmoothChoice, ...]
) -> BoaSolution:
    return BoaSolution(
        branches={
            name: (Branch(widths=_real_widths(instance, name, choice)),)
            for name, choice in zip(instance.classes, choices, strict=True)
        }
    )


def _real_widths(
    instance: BoaInstance, name: str, choice: slopes.TableChoice | slopes.SmoothChoice
) -> FloatArray:
    """Turn choices into real widths: the GPU-hours of a mixture over its hours."""
    if isinstance(choice, slopes.SmoothChoice):
        return choice.width
    allowed = instance.allowed_widths(name)
    widths = allowed[choice.lower].astype(float)
    mixed = np.flatnonzero(choice.fraction)
    if mixed.size:
        speeds = np.broadcast_to(instance.speeds(name), (widths.size, allowed.size))
        share = choice.fraction[mixed]
        hours_lower = (1.0 - share) / speeds[mixed, choice.lower[mixed]]
        hours_upper = share / speeds[mixed, choice.upper[mixed]]
        upper = allowed[choice.upper[mixed]]
        widths[mixed] = (hours_lower * widths[mixed] + hours_upper * upper) / (hours_lower + hours_upper)
    return widths


def _write_point(point: slopes.SlopesPoint) -> FrontierPoint:
    return FrontierPoint(
        budget=point.consumption,
        objective=point.value,
        shadow_price=price_of(point.multiplier_left, point.multiplier_right),
        certificate=LagrangianCertificate(multipliers={BUDGET: point.multiplier_right}, bound=point.value),
    )


def too_little(least_gpus: float, budget_gpus: float) -> str:
    """Say that a frontier does not reach down to a budget."""
    return f"the frontier starts at a budget of {least_gpus:.6g} GPUs; got {budget_gpus:.6g}"


def too_fast(least_s: float, asked_s: float) -> str:
    """Say that no budget reaches a mean completion time."""
    return f"no budget brings the mean completion time below {least_s:.6g} s; got {asked_s:.6g} s"
