"""Problem (7) with quotas, and with real widths on several GPU types: a row per (class, epoch), a multiplier per limit.

Sets: classes i, their epochs j, GPU types h on which the class can run. Variables: the fraction ``p[i,j,h,k]`` of the
jobs of class i that run epoch j on k GPUs of type h, at least 0; k is any real width where the class has a closed form
on a type that is not interrupted, and one of the allowed whole widths otherwise. Parameters: load ``rho[i,j]``, speed
``s[i,j,h](k)``, price ``c[h]``, quota ``q[h]``, and what interruptions make of time and GPU-time, ``wall[h](k)`` and
``held[h](k)``::

    minimise    sum p[i,j,h,k] rho[i,j] wall[h](k) / s[i,j,h](k)             (weighted, seconds of mean completion time)
    subject to  sum p[i,j,h,k] rho[i,j] c[h] k held[h](k) / s[i,j,h](k) <= b   (family ``budget``)
                sum over i, j, k of the same without c[h] <= q[h]              (family ``quota.<type>``)
                sum over h, k of p[i,j,h,k] = 1                                (family ``fraction-sum``)

The Lagrangian with a multiplier ``mu`` for the budget and ``nu[h]`` for each quota falls apart into the rows: each
takes the type and the width of least ``(weight + (mu c[h] + nu[h]) k held) wall / s``, which has a closed form where
the speedup has one. Without quotas the multiplier is found to the last bit
(:mod:`optplan.solvers.choices.one_limit`); with them by column generation (:mod:`optplan.solvers.paths.bounds`). An
optimum divides at most as many rows as limits bind.

Deviations and errata: the paper's (7) has neither quotas nor interruptions nor an upper limit on widths. It is not
convex in fractions and widths as printed; it is in fractions and GPU-time by type. The hull of the union of all types'
points, which solves (7), is wrong with quotas: a type off that hull may be what a quota leaves.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

import numpy as np

from optplan.contracts import (
    Answer,
    BoundProof,
    Frontier,
    FrontierPoint,
    LagrangianCertificate,
    SolveRequest,
    Termination,
)
from optplan.contracts.result import status_of
from optplan.errors import InfeasibleError
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, has_real_widths
from optplan.formulations.boa.exact.answers import certify_bound
from optplan.formulations.boa.exact.barred import without_barred
from optplan.formulations.boa.exact.continuous import price_of, too_fast, too_little
from optplan.formulations.boa.exact.costs import cost_options, load_of, state_curve
from optplan.formulations.boa.exact.divisions import Share, write_divisions
from optplan.formulations.boa.exact.feasibility import explain_shortfall, infeasible_answer, least_budget
from optplan.formulations.boa.exact.linked_frontier import build_linked_frontier
from optplan.formulations.boa.exact.linked_limits import certify, find_prices, say_end
from optplan.formulations.boa.exact.orders import in_order
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.choices import one_limit
from optplan.solvers.choices.alternatives import CurveWidths, LinkedChoices, TableOptions
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths import bounds, mixing
from optplan.solvers.paths.effort import Effort

#: Multipliers at which the frontier with real widths is drawn; queries between them are exact.
_DRAWN_POINTS = 500
#: Drawn points closer than this, relatively, are one.
_SAME_POINT = 1e-12


@dataclass(frozen=True, eq=False)
class StatedTypes:
    """Problem (7), stated.

    Parameters
    ----------
    instance
        Whose problem it is.
    family
        A row per (class, epoch), class by class; values in seconds of (weighted) mean completion time.
    first
        By class: the row of its first epoch.
    options
        For each alternative of the family: the positions (K,) in the class's options that are its columns, or the GPU
        type of its widths.
    """

    instance: BoaInstance
    family: LinkedChoices
    first: dict[str, int]
    options: tuple[IntArray | str, ...]

    def write_solution(self, mixture: mixing.Mixture) -> BoaSolution:
        """Write a mixture as branches; widths of one row on one curve are made one."""
        merged = self.family.merge_widths(mixture)
        starts = np.searchsorted(merged.graph, np.arange(self.family.num_rows + 1)).tolist()
        branches = {}
        for name, job_class in self.instance.classes.items():
            rows = range(self.first[name], self.first[name] + job_class.num_epochs)
            epochs = [
                [self._share(name, merged, column) for column in range(starts[row], starts[row + 1])] for row in rows
            ]
            branches[name] = write_divisions(self.instance, epochs)
        return BoaSolution(branches=branches)

    def _share(self, name: str, mixture: mixing.Mixture, column: int) -> Share:
        """Return what one column of a class's row says."""
        number, position = mixture.columns.payload[column].tolist()
        fraction, what = float(mixture.fraction[column]), self.options[int(number)]
        if isinstance(what, str):
            return Share(fraction, what, position)
        options = self.instance.options(name)
        chosen = int(what[int(position)])
        return Share(fraction, options.gpu_types[int(options.group[chosen])], float(options.widths[chosen]))


def state_types(instance: BoaInstance, limits: FloatArray) -> StatedTypes:
    """State problem (7): every (class, epoch) chooses a type and a width, and may mix.

    Parameters
    ----------
    instance
        Problem continuous; its budget is not looked at.
    limits
        (L,) Amounts of the limits, in the order of ``instance.limit_names``.
    """
    alternatives: list[TableOptions | CurveWidths] = []
    options: list[IntArray | str] = []
    first: dict[str, int] = {}
    num_rows = 0
    for name, job_class in instance.classes.items():
        first[name] = num_rows
        rows = np.arange(num_rows, num_rows + job_class.num_epochs)
        num_rows += rows.size
        own, counts = instance.options(name), cost_options(instance, name).counts
        curves = {
            gpu_type: state_curve(instance, name, gpu_type)
            for gpu_type in own.gpu_types
            if has_real_widths(instance, name, gpu_type)
        }
        whole = np.flatnonzero([own.gpu_types[group] not in curves for group in own.group.tolist()])
        if whole.size:
            alternatives.append(_state_options(instance, name, rows, whole))
            options.append(whole)
        for gpu_type, curve in curves.items():
            alternatives.append(CurveWidths(rows, curve, counts[:, own.of_type(gpu_type).start]))
            options.append(gpu_type)
    return StatedTypes(instance, LinkedChoices(num_rows, limits, tuple(alternatives)), first, tuple(options))


def _state_options(instance: BoaInstance, name: str, rows: IntArray, columns: IntArray) -> TableOptions:
    """State the options of a class at some columns."""
    hourly = cost_options(instance, name)
    hours = load_of(instance, name)[:, None] / instance.options(name).speeds[:, columns]
    return TableOptions(
        rows=rows,
        value=hourly.seconds[columns] * hours,
        amount=hourly.gpus[columns] * hours,
        counts=hourly.counts[:, columns],
    )


@in_order
@without_barred
def solve_typed_choices(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve problem (7) exactly, with any quotas and real widths on any types.

    With a Lagrangian certificate and one-sided shadow prices of every limit.
    """
    stated = state_types(instance, np.array(list(instance.limits.values())))
    if not instance.quotas:
        return _solve_budget(stated, request)
    effort = Effort(request.stopwatch)
    found = bounds.maximise_bound(stated.family, effort=effort)
    if isinstance(found, bounds.LinkedShortfall):
        return explain_shortfall(instance, stated.family, found)
    mixture = None if found.mixture is None else stated.family.merge_widths(found.mixture)
    objective, certificate = None if mixture is None else mixture.value, certify(instance, found)
    prices = find_prices(instance, stated.family, found, Effort(request.stopwatch))
    return Answer(
        status=status_of(objective, certificate.bound, request.gap),
        termination=say_end(instance, request, prices),
        solution=None if mixture is None else stated.write_solution(mixture),
        objective=objective,
        bound=certificate.bound if objective is None else min(certificate.bound, objective),
        bound_proof=BoundProof.LAGRANGIAN,
        certificates=(certificate,),
        shadow_prices=prices,
        counters={"passes": float(found.passes)},
    )


def _solve_budget(stated: StatedTypes, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve without quotas."""
    instance = stated.instance
    found = one_limit.solve_one_limit(stated.family)
    if found is None:
        return infeasible_answer(instance, *least_budget(instance))
    objective, certificate = found.mixture.value, certify_bound(instance, found.bound, found.multiplier)
    return Answer(
        status=status_of(objective, certificate.bound, request.gap),
        termination=Termination.COMPLETED,
        solution=stated.write_solution(found.mixture),
        objective=objective,
        bound=min(certificate.bound, objective),
        bound_proof=BoundProof.LAGRANGIAN,
        certificates=(certificate,),
        shadow_prices={BUDGET: price_of(instance, found.price_less, found.price_more)},
    )


def build_typed_frontier(instance: BoaInstance, stopwatch: Stopwatch | None = None) -> Frontier:
    """Compute the frontier of problem (7) with quotas, or with real widths on several types.

    Parameters
    ----------
    instance
        Problem continuous; its budget is ignored.
    stopwatch
        With quotas, points that are not known when it has expired are left out.

    Returns
    -------
    Frontier
        Points; every query between them is solved.

    Raises
    ------
    InfeasibleError
        When no budget is enough for the quotas.
    """
    state = partial(state_types, instance)
    if instance.quotas:
        return build_linked_frontier(
            instance,
            state=lambda limits: state(limits).family,
            write=state(np.ones(1)).write_solution,
            stopwatch=stopwatch,
        )
    return _build_curved_frontier(instance)


def _build_curved_frontier(instance: BoaInstance) -> Frontier:
    start = time.perf_counter()
    family = state_types(instance, np.ones(1)).family
    least = one_limit.least_consumption(family)
    fastest_s = one_limit.value_at(family, 0.0)
    budgets, objectives = _draw(family, least)

    def locate(budget: float) -> tuple[StatedTypes, one_limit.OneLimitSolution]:
        stated = state_types(instance, np.array([budget]))
        found = one_limit.solve_one_limit(stated.family)
        if found is None:
            raise InfeasibleError(too_little(instance, least, budget))
        return stated, found

    def at(budget: float) -> FrontierPoint:
        found = locate(budget)[1]
        used = float(found.mixture.consumption[0])
        return FrontierPoint(
            budget=budget if found.multiplier > 0.0 else min(budget, used),
            objective=found.mixture.value,
            shadow_price=price_of(instance, found.price_less, found.price_more),
            certificate=LagrangianCertificate(multipliers={BUDGET: found.multiplier}, bound=found.bound),
        )

    def budget_for(objective_s: float) -> FrontierPoint:
        if objective_s < fastest_s * (1.0 - LIMIT_TOLERANCE):
            raise InfeasibleError(too_fast(fastest_s, objective_s))
        return at(max(least, one_limit.limit_for_value(family, max(objective_s, fastest_s))))

    def solution_at(budget: float) -> BoaSolution:
        stated, found = locate(budget)
        return stated.write_solution(found.mixture)

    return Frontier(
        **instance.origin(),
        budget_unit=instance.budget_unit.value,
        objective_unit="s",
        budgets=budgets,
        objectives=objectives,
        at=at,
        budget_for=budget_for,
        solution_at=solution_at,
        exact_between=False,
        solve_seconds=time.perf_counter() - start,
    )


def _draw(family: LinkedChoices, least: float) -> tuple[FloatArray, FloatArray]:
    """Return exact points of the frontier, at multipliers from where the least budget begins to where none binds."""
    highest = one_limit.find_crossing(family, least * (1.0 + _SAME_POINT)).above
    most = one_limit.consumption_at(family, 0.0)
    lowest = one_limit.find_crossing(family, most * (1.0 - _SAME_POINT)).above
    grid = np.geomspace(highest, lowest, _DRAWN_POINTS) if 0.0 < lowest < highest else np.array([highest])
    points = [(one_limit.consumption_at(family, mu), one_limit.value_at(family, mu)) for mu in [*grid.tolist(), 0.0]]
    consumption, value = np.array(points).T
    moved = np.diff(consumption, prepend=-np.inf) > _SAME_POINT * consumption
    return consumption[moved], value[moved]
