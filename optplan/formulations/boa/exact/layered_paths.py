"""Whole widths, with and without rescaling, and real widths of tables, on the engine of budgeted layered paths.

A class is a graph: layers are epochs, nodes are widths (of several GPU types: pairs of type and width), a switch is a
change of either. Without quotas, and where leaving a type costs nothing extra, types make no other problem. Tables are
taken as they are: widths off the hull can be optimal.

Where changes cost nothing, epochs choose apart. A mixed plan then has, in each epoch, fractions of the jobs on whole
widths: a point on the lower-left hull of (k / s, 1 / s), which is what a real width of a table stands for. So problem
(1), and (7) with tables, is that of mixed plans.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import JsonValue

from optplan.contracts import (
    Answer,
    BoundProof,
    EnumeratedCertificate,
    Frontier,
    FrontierPoint,
    LagrangianCertificate,
    ShadowPrice,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
)
from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import status_of
from optplan.errors import InfeasibleError
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.exact.costs import cost_steps, in_order
from optplan.formulations.boa.exact.feasibility import (
    answer_if_infeasible,
    infeasible_answer,
    least_budget,
    too_fast,
    too_little,
)
from optplan.formulations.boa.exact.paths import (
    certify_bound,
    certify_listing,
    price_of,
    write_branch,
    write_columns,
    write_mixture,
)
from optplan.solvers.paths import single, switching
from optplan.solvers.paths.search import Effort, OutOfEffortError

if TYPE_CHECKING:
    from optplan.solvers.paths import frontier


@in_order
def solve_layered_paths(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve exactly, with certificates and one-sided shadow prices of the mixed problem."""
    budget, graphs = instance.budget_amount(), state_graphs(instance)
    if instance.is_mixed:
        return _solve_mixed(instance, request, graphs, budget)
    found = single.solve_pure(
        graphs, budget, gap=request.gap, effort=Effort(request.stopwatch), near=find_near(request)
    )
    if isinstance(found, single.BudgetShortfall):
        return infeasible_answer(instance, *least_budget(instance))
    lagrangian = certify_bound(instance, found.lagrangian.multiplier, bound=found.lagrangian.bound)
    certificates: list[LagrangianCertificate | EnumeratedCertificate | TreeCertificate] = [lagrangian]
    proof = BoundProof.LAGRANGIAN
    if lagrangian.multipliers[BUDGET] != found.lagrangian.multiplier:
        # So close to the least budget that its price is lost in rounding few plans are left, and can be listed.
        proof = BoundProof.TREE if request.certify else BoundProof.SEARCHED
        listed: dict[str, JsonValue] = {"weights": [0.0, 1.0], "listed": True}
        tree = TreeCertificate(rule="boa-branches", bound=found.bound, content={"tree": [listed]})
        certificates += [tree] if request.certify else []
    elif found.exhaustion is not None:
        proof = BoundProof.ENUMERATED
        certificates.append(certify_listing(instance, found.exhaustion, found.bound))
    return Answer(
        status=status_of(found.value, found.bound, request.gap),
        termination=Termination.after(found.stopped_by),
        solution=write_columns(instance, found.paths.payload),
        objective=found.value,
        bound=found.bound,
        bound_proof=proof,
        certificates=tuple(certificates),
        shadow_prices=_price_budget(instance, graphs, found.lagrangian, request),
        counters={"passes": float(found.passes), "labels": float(found.labels), "pairs": float(found.pairs)},
    )


def find_near(request: SolveRequest) -> float | None:
    """Return the multiplier of the result that the request names; None where it names none that has one."""
    near = () if request.near is None or not request.near.objective else request.near.certificates
    found = [each.multipliers.get(BUDGET, 0.0) for each in near if isinstance(each, LagrangianCertificate)]
    return found[-1] if found and found[-1] > 0.0 else None


def solve_fixed_width(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Find the best plan of one width per class, a common policy, which bounds nothing."""
    graphs = switching.LinkedGraphs.from_costs([_merge_layers(costs) for costs in cost_steps(instance)])
    found = single.solve_pure(graphs, instance.budget_amount(), gap=request.gap, effort=Effort(request.stopwatch))
    if isinstance(found, single.BudgetShortfall):
        infeasible = answer_if_infeasible(instance, request.stopwatch)
        if infeasible is not None:
            return infeasible
        # A plan that changes widths fits; this policy has none, and that is all it can say.
        return Answer(Status.UNKNOWN, Termination.COMPLETED, warnings=("no plan of one width per class fits",))
    branches: dict[str, tuple[Branch, ...]] = {
        name: (write_branch(instance, name, np.full(c.num_epochs, node)),)
        for (name, c), node in zip(instance.classes.items(), found.paths.payload[:, 0], strict=True)
    }
    return Answer(
        status=Status.FEASIBLE,
        termination=Termination.after(found.stopped_by),
        solution=BoaSolution(branches=branches),
        objective=found.value,
    )


def build_layered_frontier(instance: BoaInstance) -> Frontier:
    """Compute the whole frontier of mixed plans, of any problem with no limit but the budget and no closed forms."""
    from optplan.solvers.paths import frontier

    start = time.perf_counter()
    line = frontier.build_frontier(state_graphs(instance))

    def locate(budget: float) -> frontier.LayeredPoint:
        point = line.at(budget)
        if isinstance(point, single.BudgetShortfall):
            raise InfeasibleError(too_little(instance, point.least_budget, budget))
        return point

    def budget_for(objective_s: float) -> FrontierPoint:
        point = line.for_value(objective_s)
        if point is None:
            raise InfeasibleError(too_fast(float(line.value[-1]), objective_s))
        return _write_point(instance, point)

    return Frontier(
        **instance.origin(),
        budget_unit=instance.budget_unit.value,
        objective_unit="s",
        budgets=line.consumption,
        objectives=line.value,
        at=lambda budget: _write_point(instance, locate(budget)),
        budget_for=budget_for,
        solution_at=lambda budget: write_mixture(instance, line.plan_at(locate(budget))),
        exact_between=True,
        solve_seconds=time.perf_counter() - start,
    )


def state_graphs(instance: BoaInstance) -> switching.LinkedGraphs:
    """State the problem as one layered graph per class: (weighted) seconds of mean completion time, and the budget."""
    return switching.LinkedGraphs.from_costs(cost_steps(instance))


def _merge_layers(costs: PathCosts) -> PathCosts:
    """Return the costs of staying on one node through all layers, as those of a graph of one layer."""
    return replace(
        costs,
        run_value=costs.run_value.sum(axis=0, keepdims=True),
        run_consumption=costs.run_consumption.sum(axis=1, keepdims=True),
        enter_value=costs.enter_value[:, :1],
        enter_consumption=costs.enter_consumption[:, :, :1],
    )


def _solve_mixed(
    instance: BoaInstance, request: SolveRequest, graphs: switching.LinkedGraphs, budget: float
) -> Answer[BoaSolution]:
    bound = single.maximise_bound(graphs, budget, effort=Effort(request.stopwatch), near=find_near(request))
    if isinstance(bound, single.BudgetShortfall):
        return infeasible_answer(instance, *least_budget(instance))
    plan, certificate = single.mix_paths(bound), certify_bound(instance, bound.multiplier, bound=bound.bound)
    return Answer(
        status=status_of(plan.value, certificate.bound, request.gap),
        termination=Termination.COMPLETED if bound.attained else Termination.TIME_LIMIT,
        solution=write_mixture(instance, plan),
        objective=plan.value,
        bound=min(certificate.bound, plan.value),
        bound_proof=BoundProof.LAGRANGIAN,
        certificates=(certificate,),
        shadow_prices=_price_budget(instance, graphs, bound, request),
        counters={"passes": float(bound.passes)},
    )


def _price_budget(
    instance: BoaInstance, graphs: switching.LinkedGraphs, bound: single.LagrangianBound, request: SolveRequest
) -> dict[str, ShadowPrice]:
    """Return the slopes of the mixed frontier on both sides of the budget; nothing when time runs out."""
    if not bound.attained:
        return {}
    try:
        prices = single.find_multiplier_range(graphs, bound, effort=Effort(request.stopwatch))
    except OutOfEffortError:
        return {}
    return {BUDGET: price_of(instance, *prices)}


def _write_point(instance: BoaInstance, point: frontier.LayeredPoint) -> FrontierPoint:
    return FrontierPoint(
        budget=point.budget,
        objective=point.value,
        shadow_price=price_of(instance, point.less_multiplier, point.more_multiplier),
        certificate=LagrangianCertificate(multipliers={BUDGET: point.more_multiplier}, bound=point.value),
    )
