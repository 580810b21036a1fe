"""Commitments: the widths, and how many GPUs to commit, for which jobs are done soonest within a bill.

The bill is least at a quantile of the GPUs in use (:mod:`~optplan.formulations.boa.laws.demand`), and no sum over
jobs. Its derivative in the mean number of a class's jobs on k GPUs is: by how much the mean of what is paid beyond the
committed GPUs grows when a clump of such jobs comes on top (Mecke's formula for Poisson sums). With these as the jobs'
weights a plan is a path per class, as with prices. So plans are tuned: from the weights of prices on, the amount of a
row of weights by secants until the bill itself is the budget, then the weights at the plan found, a few times; the best
plan that keeps the budget is the answer.

What is proven is the optimum at prices that no bill is below, idle GPUs free: :attr:`GpuType.least_price`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optplan.contracts import Answer, SolveRequest
from optplan.contracts.judgement import PathCosts
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Policy
from optplan.formulations.boa.exact.costs import cost_steps, describe, find_least_paths
from optplan.formulations.boa.exact.feasibility import answer_beyond, weaken
from optplan.formulations.boa.exact.layered_paths import solve_layered_paths
from optplan.formulations.boa.exact.linked_limits import solve_linked_paths
from optplan.formulations.boa.exact.paths import add_up, list_better, solve_costs
from optplan.formulations.boa.exact.peak.demand import find_demand, follow_branch
from optplan.formulations.boa.laws.demand import Bill, Demand, Tariff, bill_demand, count_jobs, sum_beyond
from optplan.progress import OutOfTime
from optplan.schema import FloatArray
from optplan.solvers.paths.search import Effort, OutOfEffortError

#: Relative gap to which the relaxation is solved, as most bills lie further from it; and how near a plan is for which
#: it is solved to its end. So it is where its own plan keeps the bill.
_RELAXED, _NEAR = 1e-2, 3e-2
#: A bill this little below the budget is as good, and one above it by less than the judge's tolerance is not taken.
_CLOSE, _ROUNDING = 1e-4, 1e-9
#: Plans whose use differs by such a part say how the bill grows.
_FAR = 1e-3
#: Solves for each set of weights, and their relative gap; and where further limits make each of them take long. Those
#: for the prices on demand find the plan of who chooses widths first, and are not to miss it.
_ALONE, _LINKED = ((6, 4, 4), 1e-5), ((2, 2, 2), 1e-3)
#: Better plans on demand are listed up to such multiples of the one whose bill is the budget: to the last, or further
#: where they are this few. So many are billed; of more, those whose bill seems to be above the budget by such a part at
#: most. Labels that these lists may take, the last one the larger number, and pairs.
_AROUND, _BILLED, _DOUBT, _LABELS, _PAIRS = (2.0, 1.02, 1.003), 8, 1e-4, (1_000, 1_000_000), 2_000_000
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
    relax = solve_layered_paths if plain else solve_linked_paths
    base = relax(instance, replace(request, gap=max(request.gap, _RELAXED)))
    if base.solution is None or base.objective is None:
        return base if base.infeasibility is None else replace(base, infeasibility=weaken(base.infeasibility, _KEPT))
    budget, costs, found = instance.budget_amount(), cost_steps(instance), list[_Priced]()
    first = _price(instance, base.solution, costs)
    if first.bill <= budget:
        base = relax(instance, request)
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
    if best is not None and base.bound is not None and best.objective * (1.0 - _NEAR) < base.bound:
        exact = relax(instance, request)
        base = exact if exact.bound is not None and exact.bound > base.bound else base
    share = f"the least bill found is {min(one.bill for one in (first, *found)) / budget:.4g} times the budget"
    advice = [f"no plan was found whose bill, committed GPUs included, keeps the budget; {share}"]
    plan = None if best is None else (best.objective, best.solution)
    return answer_beyond(base, request, plan, len(found), advice)


def _search(
    instance: BoaInstance,
    first: _Priced,
    costs: Sequence[PathCosts],
    begin: Sequence[PathCosts],
    request: SolveRequest,
) -> Iterator[_Priced]:
    """Yield plans, from the first weights on: for each those along the secants of the bill over the row's amount."""
    budget, at, weighed, reach, on_demand = instance.budget_amount(), first, begin, 0.0, begin is not costs
    others = list(instance.limits.values())[1:]
    linked = bool(others) or any(each.num_groups > 1 for each in costs)
    most, gap = _LINKED if linked else _ALONE
    for number, tries in enumerate(most):
        weighed = _weigh(instance, costs, at) if number else weighed
        taken, first_alone = _use(instance, weighed, at.solution), np.eye(1 + len(others))[0]
        least = sum(find_least_paths(weighed, first_alone).values()) * (1.0 + _ROUNDING)
        # By so much a bill grows with what is taken: by all of it, and of prices on demand by a share.
        steep = slope = 1.0 if number else at.bill / taken
        # On demand the budget itself is an amount that keeps it.
        bill, low, high, best = at.bill, least if number or not on_demand else max(least, budget), np.inf, None
        amount = taken + (budget - bill) / slope
        for attempt in range(tries + 1):
            if attempt == tries:
                if best is not None or number:
                    break
                amount = low
            request.stopwatch.require()
            amount = max(amount, low)
            limits = np.array([amount, *others])
            answer = solve_costs(instance, weighed, limits=limits, gap=gap, stopwatch=request.stopwatch)
            if answer is None or answer.solution is None:
                low = amount
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
            break
        at = best
        reach = reach or _use(instance, begin, best.solution) + (budget - best.bill) / slope
    if reach and not linked and instance.policy is Policy.PURE:
        yield from _look_around(instance, at, costs, begin, reach, request)


def _look_around(
    instance: BoaInstance,
    at: _Priced,
    costs: Sequence[PathCosts],
    weighed: Sequence[PathCosts],
    reach: float,
    request: SolveRequest,
) -> Iterator[_Priced]:
    """Yield plans up to an amount of the row, and a bit beyond, better than one, until a bill keeps the budget."""
    # Bills may keep the budget again for amounts above one that does not.
    budget, weigh = instance.budget_amount(), _estimate(instance, at)
    own = sum(weigh(name, branch) for name in instance.classes for branch in at.solution.branches[name])
    value, most = at.objective * (1.0 - _ROUNDING), own + budget * (1.0 + _DOUBT) - at.bill
    for share in _AROUND:
        last = share == _AROUND[-1]
        effort = Effort(request.stopwatch, max_labels=_LABELS[last], max_pairs=_PAIRS)
        try:
            listed = list(list_better(instance, weighed, value, reach * share, weigh, effort))
        except OutOfEffortError:
            continue
        few = len(listed) <= _BILLED
        for _, write in [each for each in listed if few or each[0] <= most][:_BILLED] if few or last else ():
            request.stopwatch.require()
            yield (one := _price(instance, write(), costs))
            if one.bill <= budget:
                return
        if few:
            return


def _estimate(instance: BoaInstance, at: _Priced) -> Callable[[str, Branch], float]:
    """Return what tells what the jobs of a class on a path add to a bill; to first order bills differ by this."""
    adds: dict[tuple[str, str], FloatArray] = {}

    def weigh(name: str, branch: Branch) -> float:
        total, options = 0.0, instance.options(name)
        for stay in follow_branch(instance, name, branch):
            kind, paid = stay.gpu_type, options.paid[options.of_type(stay.gpu_type)]
            if (name, kind) not in adds:
                committed = instance.gpu_types[kind].commitments is not None
                chances = at.laws[kind].chances
                adds[name, kind] = _add_jobs(instance, at, name, kind, paid, chances) if committed else paid[None]
            jobs = count_jobs(instance, [stay])[2] * adds[name, kind][:, paid.searchsorted(stay.gpus)]
            total += instance.prices_on_demand[kind] * float(jobs.mean(axis=0).sum())
        return total

    return weigh


def _price(instance: BoaInstance, solution: BoaSolution, costs: Sequence[PathCosts]) -> _Priced:
    """Return what a plan takes, its bill in the unit of the budget, and what that is made of."""
    laws = {name: find_demand(instance, solution, name) for name in instance.gpu_types}
    bills = bill_demand(instance, laws)
    total = sum(bill.total for bill in bills.values())
    return _Priced(solution, add_up(instance, costs, solution)[0], total, laws, bills)


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
                chances = at.laws[gpu_type].any_time
                if instance.classes[each.name].arrivals is not None:  # more of them are there at some hours
                    stays = [
                        s for one in at.solution.branches[each.name] for s in follow_branch(instance, each.name, one)
                    ]
                    by_hour = count_jobs(instance, stays)[2].sum(axis=1)
                    chances = (
                        by_hour
                        / by_hour.sum()
                        @ np.broadcast_to(at.laws[gpu_type].chances, (by_hour.size, chances.size))
                    )
                adds = _add_jobs(instance, at, each.name, gpu_type, adds, chances)
            weight[own] = price * adds / (options.paid[own] * options.price[own])
        run, enter = each.run_consumption.copy(), each.enter_consumption.copy()
        run[0], enter[0] = run[0] * weight, enter[0] * weight
        weighed.append(replace(each, run_consumption=run, enter_consumption=enter))
    return weighed


def _add_jobs(
    instance: BoaInstance, at: _Priced, name: str, gpu_type: str, gpus: FloatArray, chances: FloatArray
) -> FloatArray:
    """Return (..., K) what one more job of a class on numbers of GPUs adds on average, by chances (..., N) of those."""
    tariff, committed = Tariff.of(instance.gpu_types[gpu_type]), at.bills[gpu_type].number
    arrivals = instance.classes[name].arrivals
    goes_on = 0.0 if arrivals is None else arrivals.repeat
    in_use: FloatArray = np.arange(chances.shape[-1], dtype=np.float64) * at.laws[gpu_type].unit
    members = np.arange(2 + min(_MOST_JOBS, int(np.log(_LEFT) / np.log(goes_on)) if goes_on else 0))
    sizes = (1.0 - goes_on) * goes_on ** (members[1:] - 1.0)
    added, kept = np.multiply.outer(gpus, members), 1.0 - tariff.spot_share
    paid = sum_beyond(chances, in_use * kept, committed - added * kept)
    if tariff.spot_share:
        paid += tariff.spot_price * (sum_beyond(chances, in_use, committed - added) - paid)
    adds: FloatArray = (1.0 - goes_on) * np.einsum("...m,m->...", paid[..., 1:] - paid[..., :1], sizes)
    return adds


def _use(instance: BoaInstance, costs: Sequence[PathCosts], solution: BoaSolution) -> float:
    """Return how much of the first limit a plan takes."""
    return float(add_up(instance, costs, solution)[1][0])
