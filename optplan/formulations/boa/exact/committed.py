"""Commitments: the widths, and how many GPUs to commit, for which jobs are done soonest within a bill.

The bill is least at a quantile of the GPUs in use (:mod:`~optplan.formulations.boa.laws.commitments`), and no sum over
jobs. Its derivative in the mean number of a class's jobs on k GPUs is: by how much the mean of what is paid beyond the
committed GPUs grows when a clump of such jobs comes on top (Mecke's formula for Poisson sums). With these as the jobs'
weights a plan is a path per class, as with prices. So plans are tuned: from the weights of prices on, the amount of a
row of weights by secants until the bill itself is the budget, then the weights at the plan found, a few times; the best
plan that keeps the budget is the answer.

What is proven is the optimum at prices that no bill is below, idle GPUs free: :attr:`GpuType.least_price`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optplan.contracts import Answer, SolveRequest, Status, Termination
from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import status_of
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.description import describe
from optplan.formulations.boa.exact.feasibility import weaken
from optplan.formulations.boa.exact.layered_paths import solve_layered_paths
from optplan.formulations.boa.exact.linked_limits import solve_linked_paths
from optplan.formulations.boa.exact.paths import solve_costs, value_of
from optplan.formulations.boa.exact.peak.demand import find_demand, list_stays
from optplan.formulations.boa.laws.commitments import Bill, Tariff, bill_demand, sum_beyond
from optplan.formulations.boa.laws.demand import Demand, gather_crowd
from optplan.progress import OutOfTime
from optplan.schema import FloatArray
from optplan.solvers.layered_graphs import least_path

#: A bill this little below the budget is as good, and one above it by less than the judge's tolerance is not taken.
_CLOSE, _ROUNDING = 1e-4, 1e-9
#: Plans whose use differs by such a part say how the bill grows.
_FAR = 1e-3
#: Solves for each set of weights, and their relative gap; and where further limits make each of them take long. Those
#: for the prices on demand find the plan of who chooses widths first, and are not to miss it.
_ALONE, _LINKED = ((6, 4, 4), 1e-5), ((2, 2, 2), 1e-3)
#: Jobs of a clump that are looked at, and the chance of more that is left out.
_MOST_JOBS, _LEFT = 200, 1e-9

_KEPT = "whether the bill, committed GPUs included, keeps the budget then"


@dataclass(frozen=True)
class _Priced:
    """A plan with its bill, and by GPU type the law of those in use and what is paid for them."""

    solution: BoaSolution
    objective: float
    bill: float
    laws: dict[str, Demand]
    bills: dict[str, Bill]


def refuse_uncommitted(instance: BoaInstance) -> str:
    """Return why this solver does not take an instance; nothing where it does."""
    return "" if instance.commits else "solver 'committed-paths' is for instances with commitments"


def solve_committed_paths(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Find good whole widths and the best number of committed GPUs within a bill, with the bound at least prices."""
    plain = describe(instance).features <= {"gpu-types", "whole-nodes", "commitments"}
    base = (solve_layered_paths if plain else solve_linked_paths)(instance, request)
    if base.solution is None or base.objective is None:
        if base.infeasibility is None:
            return base
        return replace(base, infeasibility=weaken(base.infeasibility, _KEPT))
    budget, costs, found = instance.budget_amount(), cost_steps(instance), list[_Priced]()
    first = _price(instance, base.solution, costs)
    if first.bill <= budget:
        return base if instance.prices_in_budget == instance.prices_on_demand else replace(base, shadow_prices={})
    try:
        # Of several types, one is used much where it is committed and little where it is not: so from both sides.
        for weighed in (_weigh(instance, costs, None), *([costs] if len(instance.gpu_types) > 1 else [])):
            for candidate in _search(instance, first, costs, weighed, request):
                found.append(candidate)
                request.stopwatch.emit("commitments", objective=candidate.objective, bound=base.bound)
    except OutOfTime:
        pass
    kept = [one for one in found if one.bill <= budget * (1.0 + _ROUNDING)]
    best = min(kept, key=lambda one: one.objective, default=None)
    ended = Termination.TIME_LIMIT if request.stopwatch.expired else Termination.COMPLETED
    answer = replace(base, termination=ended, shadow_prices={}, counters={"solves": float(len(found))})
    if best is None:
        least = min([first, *found], key=lambda one: one.bill)
        share = f"the least bill found is {least.bill / budget:.4g} times the budget"
        said = (*base.warnings, f"no plan was found whose bill, committed GPUs included, keeps the budget; {share}")
        return replace(answer, status=Status.UNKNOWN, solution=None, objective=None, warnings=said)
    status = status_of(best.objective, base.bound, request.gap)
    return replace(answer, status=status, solution=best.solution, objective=best.objective)


def _search(
    instance: BoaInstance,
    first: _Priced,
    costs: Sequence[PathCosts],
    weighed: Sequence[PathCosts],
    request: SolveRequest,
) -> Iterator[_Priced]:
    """Yield plans, from the first weights on: for each those along the secants of the bill over the row's amount."""
    budget, at = instance.budget_amount(), first
    others = list(instance.limits.values())[1:]
    most, gap = _LINKED if others or any(each.num_groups > 1 for each in costs) else _ALONE
    for number, tries in enumerate(most):
        weighed = _weigh(instance, costs, at) if number else weighed
        taken, least = _use(instance, weighed, at.solution), _find_least(instance, weighed) * (1.0 + _ROUNDING)
        # By so much a bill grows with what is taken: by all of it, and of prices on demand by a share.
        steep = slope = 1.0 if number else at.bill / taken
        bill, low, high, best = at.bill, least, np.inf, None
        amount = taken + (budget - bill) / slope
        for attempt in range(tries + 1):
            if attempt == tries:
                if best is not None:
                    break
                amount = least if number else budget  # on demand that keeps the budget
            request.stopwatch.require()
            amount = max(amount, least)
            limits = np.array([amount, *others])
            answer = solve_costs(instance, weighed, limits=limits, gap=gap, stopwatch=request.stopwatch)
            if answer is None or answer.solution is None:
                least = low = amount
                amount = 0.5 * (amount + taken)
                continue
            one = _price(instance, answer.solution, costs)
            yield one
            took, billed, taken, bill = taken, bill, _use(instance, weighed, one.solution), one.bill
            if abs(taken - took) > _FAR * taken:
                slope = min(max((bill - billed) / (taken - took), 0.5 * steep), 2.0 * steep)
            # Bills go in steps: amounts from what a plan takes to that for which it is best would give it again.
            if bill <= budget:
                again = best is not None and best.bill == bill
                best, low, end = min(one, best or one, key=lambda each: each.objective), amount, amount
                if again or bill >= budget * (1.0 - _CLOSE):
                    break
            else:
                high = end = min(high, taken)
            amount = end + (budget * (1.0 - 0.5 * _CLOSE) - bill) / slope
            amount = amount if low < amount < high else 0.5 * (low + high)
        if best is None or (number and best.objective > at.objective * (1.0 - gap)):
            return
        at = best


def _price(instance: BoaInstance, solution: BoaSolution, costs: Sequence[PathCosts]) -> _Priced:
    """Return what a plan takes, its bill in the unit of the budget, and what that is made of."""
    laws = {name: find_demand(instance, solution, name) for name in instance.gpu_types}
    bills = bill_demand(instance, laws)
    total = sum(bill.total for bill in bills.values())
    return _Priced(solution, value_of(instance, costs, solution), total, laws, bills)


def _weigh(instance: BoaInstance, costs: Sequence[PathCosts], at: _Priced | None) -> list[PathCosts]:
    """Return the costs with the budget's row in prices on demand, or in what jobs add to the bill of a plan."""
    weighed = []
    for each in costs:
        options = instance.options(each.name)
        weight = np.empty(options.paid.size)
        for gpu_type in options.gpu_types:
            own, price = options.of_type(gpu_type), instance.prices_on_demand[gpu_type]
            adds = options.paid[own]
            if at is not None and instance.gpu_types[gpu_type].commitments is not None:
                adds = _add_clumps(instance, at, each.name, gpu_type, adds)
            weight[own] = price * adds / (options.paid[own] * options.price[own])
        run, enter = each.run_consumption.copy(), each.enter_consumption.copy()
        run[0], enter[0] = run[0] * weight, enter[0] * weight
        weighed.append(replace(each, run_consumption=run, enter_consumption=enter))
    return weighed


def _add_clumps(instance: BoaInstance, at: _Priced, name: str, gpu_type: str, gpus: FloatArray) -> FloatArray:
    """Return (K,) what one more job of a class on numbers of GPUs adds on average to what is paid beyond committed."""
    tariff, demand, committed = Tariff.of(instance.gpu_types[gpu_type]), at.laws[gpu_type], at.bills[gpu_type].number
    arrivals, chances = instance.classes[name].arrivals, demand.any_time
    goes_on = 0.0 if arrivals is None else arrivals.repeat
    if arrivals is not None:  # more of them come at some hours
        own = [stay for stay in list_stays(instance, at.solution) if stay.job_class == name]
        by_hour = gather_crowd(instance, own, steady=False).jobs.sum(axis=1)
        chances = by_hour / by_hour.sum() @ np.broadcast_to(demand.chances, (by_hour.size, chances.size))
    in_use: FloatArray = np.arange(chances.size, dtype=np.float64) * demand.unit
    members = np.arange(1, 2 + min(_MOST_JOBS, int(np.log(_LEFT) / np.log(goes_on)) if goes_on else 0))
    sizes = (1.0 - goes_on) * goes_on ** (members - 1.0)

    def rest(added: FloatArray) -> FloatArray:
        excess = sum_beyond(chances, in_use, committed - added)
        kept = 1.0 - tariff.spot_share
        on_demand = sum_beyond(chances, in_use * kept, committed - added * kept)
        return tariff.spot_price * excess + (1.0 - tariff.spot_price) * on_demand

    grown = rest(np.multiply.outer(gpus, members)) - rest(np.zeros(1))
    adds: FloatArray = (1.0 - goes_on) * (grown @ sizes)
    return adds


def _use(instance: BoaInstance, costs: Sequence[PathCosts], solution: BoaSolution) -> float:
    """Return how much of the first limit a plan takes."""
    return value_of(instance, [each.turned(BUDGET) for each in costs], solution)


def _find_least(instance: BoaInstance, costs: Sequence[PathCosts]) -> float:
    """Return the least of the first limit that any plan takes."""
    least = 0.0
    for each in costs:
        run, enter = (turned := each.turned(BUDGET)).weighted(np.zeros(len(turned.limits)))
        least += least_path(run, enter, instance.options(each.name).group if len(enter) > 1 else None)[0]
    return least
