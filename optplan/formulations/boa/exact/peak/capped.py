"""A limit on the GPUs in use at once: the best plan found that keeps it, with the optimum without it as the bound.

The chance that more than C GPUs are in use is not additive in what jobs hold, and its feasible set is not convex.
Chernoff's bound on it is: the sum over jobs of e^(theta k) - 1, k their GPUs. As a limit by itself it is several times
too strict; as a second budget, of which the amount is tuned until the chance itself, hours and clumps included, is what
is allowed, it finds good plans. The slope theta is searched over one to two times z / sd, which is that of a normal law
at the quantile.

What is proven about the best of these plans is the bound without the limit, or a higher one by what all plans that keep
the limit have in common (:mod:`~optplan.formulations.boa.exact.peak.lower_tail`). That no plan at all keeps it is
proven by the same, or since jobs that hold the least that they may, for the shortest time that they can take, break it
already: job by job every plan has at least those GPUs in use. The judge checks either by a computation of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist

import numpy as np

from optplan.contracts import (
    Answer,
    BoundProof,
    Infeasibility,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
)
from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import Hopeless
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.data.problems import PeakLimit
from optplan.formulations.boa.exact.costs import cost_steps, describe
from optplan.formulations.boa.exact.feasibility import answer_beyond, weaken
from optplan.formulations.boa.exact.layered_paths import solve_layered_paths
from optplan.formulations.boa.exact.linked_limits import solve_linked_paths
from optplan.formulations.boa.exact.paths import PathsAnswer, add_up, solve_costs
from optplan.formulations.boa.exact.peak.demand import find_demand, transform
from optplan.formulations.boa.exact.peak.lower_tail import RULE, TAIL, find_least_reach, prove_bound, refute, weigh_jobs
from optplan.formulations.boa.laws.demand import Demand, Stay, gather_crowd
from optplan.progress import OutOfTime

#: Slopes that are tried, as multiples of z / sd, and solves for each.
_SLOPES = (1.0, 1.3, 1.7, 2.0)
_TRIES = 7
#: A chance this close below the one allowed is as good, relatively.
_CLOSE = 0.02
#: Relative gap of the solves along the way: what is behind it is far less than what the slopes differ by.
_GAP = 1e-3
#: Beyond this exponent a width is out of the question.
_LARGEST_EXPONENT = 40.0
_LEAST_CHANCE = 1e-15
_ROUNDING = 1e-9
_KEPT = "whether the limit on the GPUs in use at once is kept then"
#: By how much a chance must be above the one allowed for the judge to agree.
_REFUTED = 1e-8


@dataclass(frozen=True)
class _Candidate:
    solution: BoaSolution
    objective: float
    over: float


def refuse_uncapped(instance: BoaInstance) -> str:
    """Return why this solver does not take an instance; nothing where it does."""
    return "" if instance.most_gpus is not None else "solver 'capped-paths' is for instances with most_gpus"


def solve_capped_paths(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Find a good plan with whole widths within a limit on the GPUs at once, with the bound of that without it."""
    limit = instance.most_gpus
    free = instance.replace(most_gpus=None)
    plain = describe(free).features <= {"gpu-types", "whole-nodes"}
    base = (solve_layered_paths if plain else solve_linked_paths)(free, request)
    if limit is None or base.solution is None or base.objective is None:
        return base if base.infeasibility is None else replace(base, infeasibility=weaken(base.infeasibility, _KEPT))
    allowed = 1.0 - limit.probability
    demand = find_demand(instance, base.solution)
    if demand.over(limit.gpus) <= allowed:
        return base
    if (certify := _refute(instance, limit)) is not None:
        return _explain(instance, limit, certify)
    if demand.unit == 1:  # in cells of several GPUs, plans are judged by another law, if one close by
        with contextlib.suppress(OutOfTime):
            proven = prove_bound(instance, limit, base.solution, request)
            if proven is not None and base.bound is not None and proven[0] > base.bound:
                certificates = (*base.certificates, proven[1])
                base = replace(base, bound=proven[0], bound_proof=BoundProof.TREE, certificates=certificates)
    found: list[_Candidate] = []
    try:
        for candidate in _search(instance, limit, demand, request):
            found.append(candidate)
            request.stopwatch.emit("most_gpus", objective=candidate.objective, bound=base.bound)
    except OutOfTime:
        pass
    kept = [candidate for candidate in found if candidate.over <= allowed]
    best = min(kept, key=lambda candidate: candidate.objective, default=None)
    plan, advice = (None, _advise(instance, limit, found)) if best is None else ((best.objective, best.solution), [])
    return answer_beyond(base, request, plan, len(found), advice)


def _search(instance: BoaInstance, limit: PeakLimit, demand: Demand, request: SolveRequest) -> Iterator[_Candidate]:
    """Yield plans: for each slope those along the secants of the log of the chance over the amount of the limit."""
    costs = cost_steps(instance)
    numbers = np.arange(demand.any_time.size) * demand.unit
    deviation = float(np.sqrt(demand.any_time @ (numbers - demand.mean) ** 2))
    z = max(NormalDist().inv_cdf(limit.probability), 0.5)
    allowed = max(1.0 - limit.probability, _LEAST_CHANCE)
    for slope in _SLOPES:
        theta = slope * z / deviation
        exponents = [np.minimum(theta * instance.options(each.name).paid, _LARGEST_EXPONENT) for each in costs]
        weighed = [weigh_jobs(instance, each, np.expm1(k)) for each, k in zip(costs, exponents, strict=True)]
        least = _solve(instance, [each.turned(TAIL) for each in weighed], None, request)
        if least is None or least.solution is None or least.objective is None:
            return
        frugal = _judge(instance, limit, least.solution, costs)
        yield frugal
        low, high = (least.objective, np.log(max(frugal.over, _LEAST_CHANCE))), None
        if frugal.over > allowed:
            continue  # no plan of this slope has less
        amount = max(theta * limit.gpus - 0.5 * (theta * deviation) ** 2, low[0] * 1.01)
        for _ in range(_TRIES):
            answer = _solve(instance, weighed, amount, request)
            if answer is None or answer.solution is None:  # too little for a pure plan, or too hard to say
                low = (amount, low[1])
                amount = _next_amount(low, high, float(np.log(allowed)))
                continue
            one = _judge(instance, limit, answer.solution, costs)
            yield one
            point = (amount, float(np.log(max(one.over, _LEAST_CHANCE))))
            if one.over <= allowed:
                if one.over >= allowed * (1.0 - _CLOSE):
                    break
                low = point
            else:
                high = point
            amount = _next_amount(low, high, float(np.log(allowed * (1.0 - 0.5 * _CLOSE))))


def _next_amount(low: tuple[float, float], high: tuple[float, float] | None, wanted: float) -> float:
    """Return the amount between two at which a line through their logarithms has the one wanted."""
    if high is None:
        return 1.5 * low[0]
    share = (wanted - low[1]) / (high[1] - low[1]) if high[1] > low[1] else 0.5
    return low[0] + min(max(share, 0.05), 0.95) * (high[0] - low[0])


def _solve(
    instance: BoaInstance, costs: Sequence[PathCosts], amount: float | None, request: SolveRequest
) -> PathsAnswer | None:
    """Solve with one more limit; the plan's objective is in the costs' own terms."""
    request.stopwatch.require()
    limits = np.array([*instance.limits.values(), *(() if amount is None else (amount,))])
    return solve_costs(instance, costs, limits=limits, gap=_GAP, stopwatch=request.stopwatch)


def _judge(instance: BoaInstance, limit: PeakLimit, solution: BoaSolution, costs: Sequence[PathCosts]) -> _Candidate:
    over = find_demand(instance, solution).over(limit.gpus)
    return _Candidate(solution, add_up(instance, costs, solution)[0], over)


def find_least_peak(instance: BoaInstance, probability: float) -> float:
    """Return a number of GPUs such that no plan, whatever its budget, keeps a lower one with a probability."""
    jobs = _find_least_demand(instance)
    proven = max(jobs.quantile(probability), find_least_reach(instance, probability, max(jobs.mean, 1.0))[0])
    return float(np.ceil(proven - _ROUNDING))  # GPUs in use are whole


def _refute(instance: BoaInstance, limit: PeakLimit) -> Callable[[str], TreeCertificate] | None:
    """Return what certifies that no plan keeps the limit, with any of the instance's other limits or without it."""
    jobs = _find_least_demand(instance)
    if jobs.over(limit.gpus) > 1.0 - limit.probability + _REFUTED:
        return lambda without: TreeCertificate(rule=RULE, limit=without, content={"least_jobs": True})
    reach, slope = find_least_reach(instance, limit.probability, max(jobs.mean, 1.0))
    return partial(refute, instance, limit, slope) if limit.gpus < reach * (1.0 - _ROUNDING) else None


def _find_least_demand(instance: BoaInstance) -> Demand:
    """Find the distribution of GPUs in use where each job holds the least, for the shortest time."""
    stays = []
    for name, job_class in instance.classes.items():
        options = instance.options(name)
        least = np.array([float(options.paid.min())])
        hours = (job_class.epoch_size_gpu_hours[:, None] / options.speeds * options.wall).min(axis=1).sum()
        hours += float((options.pause_h * options.wall).min())
        alone = np.zeros(1), np.array([hours]), np.array([float((options.held / options.wall).min())])
        stays.append(Stay(name, options.gpu_types[0], least, job_class.arrival_rate_per_hour, *alone))
    return transform(gather_crowd(instance, stays, steady=False))


def _explain(instance: BoaInstance, limit: PeakLimit, certify: Callable[[str], TreeCertificate]) -> Answer[BoaSolution]:
    """Answer that no plan keeps the limit, and which number of GPUs none can do without."""
    reason = (
        f"no plan, whatever its budget, has at most {limit.gpus:g} GPUs in use for {limit.probability:.4g} of the "
        f"time; none can do with fewer than {find_least_peak(instance, limit.probability):g}: most_gpus.gpus has to be "
        "that at least, or its probability lower"
    )
    hopeless = tuple(Hopeless(limit=other, certificate=certify(other)) for other in instance.limits)
    proof = Infeasibility(reason=reason, relaxations=(), hopeless=hopeless, certificate=certify(""))
    return Answer(Status.INFEASIBLE, Termination.COMPLETED, infeasibility=proof)


def _advise(instance: BoaInstance, limit: PeakLimit, found: Sequence[_Candidate]) -> list[str]:
    """Say what limit the plans that were found would keep."""
    if not found:
        return []
    best = min(found, key=lambda candidate: candidate.over)
    gpus = find_demand(instance, best.solution).quantile(limit.probability)
    return [
        f"no plan was found that keeps most_gpus; that with the least tail has more than {limit.gpus:g} GPUs in use "
        f"for {best.over:.2%} of the time: it keeps most_gpus.gpus={gpus:g}, or most_gpus.probability="
        f"{1.0 - best.over:.4f}"
    ]
