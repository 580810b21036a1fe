"""What a plan's GPUs cost with some of them committed: by the law of its demand, and on the jobs of a trace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from optplan.contracts.result import Result
from optplan.errors import DataError, InfeasibleError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.exact.peak.demand import find_demand
from optplan.formulations.boa.judge.following import follow_solution, types_along
from optplan.formulations.boa.laws.demand import Demand, bill_demand
from optplan.formulations.boa.planning import choose_way
from optplan.schema import ByName, FloatArray, FrozenModel
from optplan.solving import solve
from optplan.units import SECONDS_PER_HOUR, Amount

if TYPE_CHECKING:
    from optplan.instances.job_traces import JobTrace


#: The share of the time for which the rival's number of committed GPUs is enough.
_RIVAL = 0.95
#: Budgets beside the one asked for, as shares of it: what the rule costs where its jobs take a little more or less.
_BESIDE = (0.98, 1.02)


def compare_commitments(
    instance: BoaInstance, trace: JobTrace | None = None, *, time_limit_s: float | None = None
) -> tuple[BilledPlan, ...]:
    """Set ways to commit GPUs side by side: rules for the widths that are best on demand, and both together.

    Parameters
    ----------
    instance
        With commitments and a budget.
    trace
        Jobs of its classes, on which each way is billed besides: widths and numbers committed as they are, each job on
        rented GPUs as soon as it asks for them; the span is billed, from an empty cluster on.
    time_limit_s
        Of each solve: three, and with a trace five.

    Returns
    -------
    tuple of BilledPlan
        For the widths of the plan on demand: nothing committed, as many as are enough for 95 % of the time, and the
        number that is best by the law of its demand; then widths and number together, for the bill of that (the
        same where law or jobs say that they are as good), and for the whole budget. Those without a plan are left out.

    Raises
    ------
    UsageError
        Without commitments or a budget, or when the trace has other classes.
    InfeasibleError
        When no plan was found for any of these.
    DataError
        When the jobs of the trace arrive at once.
    """
    if not instance.commits:
        some = next(iter(instance.gpu_types))
        fix = f"give a GPU type some, as in --set 'gpu_types.{some}.commitments={{1-year: {{discount: 0.37}}}}'"
        raise UsageError(f"commitments: no GPU type of {instance.name!r} has any; {fix}")
    if trace is not None and not np.ptp(trace.arrive_s):
        raise DataError("jobs.arrive_s", f"all {len(trace)} jobs arrive at once", "there is no time to bill: take more")
    dear = {name: kind.replace(commitments=None, spot_market=None) for name, kind in instance.gpu_types.items()}
    budget = instance.budget_amount()
    budgets = [Amount(budget * share, instance.budget_unit) for share in (1.0, *(_BESIDE if trace is not None else ()))]
    ruled = [instance.replace(gpu_types=dear, budget=each) for each in budgets]
    plain, *beside = [solve(each, time_limit_s=time_limit_s, ranges=False) for each in ruled]
    together = solve(instance, time_limit_s=time_limit_s, ranges=False)
    rows: list[BilledPlan] = []

    def add(name: str, result: Result[BoaSolution], level: float | None, bound: float | None) -> None:
        if result.solution is None or result.objective is None:
            return
        law, *on_trace = bill_plan(instance, result, trace, level)
        rows.append(
            BilledPlan(name=name, objective=result.objective, bound=bound, law=law, trace=next(iter(on_trace), None))
        )

    add("nothing committed", plain, 0.0, plain.bound)
    add("P95 committed, same widths", plain, _RIVAL, plain.bound)
    add("best number, same widths", plain, None, plain.bound)
    if rows:
        bill = Amount(rows[-1].law.bill, instance.budget_unit)
        same = solve(instance.replace(budget=bill), time_limit_s=time_limit_s, ranges=False)
        kept = keep_confirmed(instance, [plain, *beside], same, trace)
        add("with widths, same bill", kept, None, same.bound)
    add("with widths, whole budget", together, None, together.bound)
    if not rows:
        claim = together.infeasibility
        raise InfeasibleError(claim.reason if claim is not None else together.warnings[-1])
    return tuple(rows)


def keep_confirmed(
    instance: BoaInstance, rules: Sequence[Result[BoaSolution]], same: Result[BoaSolution], trace: JobTrace | None
) -> Result[BoaSolution]:
    """Return the plan of widths and number together, or the first plain one where law or jobs say that it is no worse.

    On a trace, the rule's bill is taken where its jobs take as long: between those of plain plans for other budgets.
    """
    plain = rules[0]
    if same.objective is None or (plain.objective is not None and plain.objective <= same.objective):
        return plain
    if trace is None or plain.objective is None:
        return same
    billed = [bill_plan(instance, each, trace)[-1] for each in (same, *rules) if each.solution is not None]
    both, *points = [(each.mean_jct_s, each.bill) for each in billed]
    means_s, bills = np.array(sorted(points)).T
    return same if both[1] <= np.interp(both[0], means_s, bills) else plain


def bill_plan(
    instance: BoaInstance, result: Result[BoaSolution], trace: JobTrace | None, level: float | None = None
) -> list[Billed]:
    """Bill a plan by the law of its demand, at a quantile of it or the best number; and so many on a trace."""
    assert result.solution is not None
    laws = {each: find_demand(instance, result.solution, each) for each in instance.gpu_types}
    committed = None
    if level is not None:
        committed = {each: math.ceil(law.quantile(level)) if level else 0.0 for each, law in laws.items()}
    law = _bill(instance, laws, result.measures["mean_jct_s"], committed)
    replayed = [] if trace is None else [replay_widths(instance, result.solution, trace)]
    return [law, *(_bill(instance, *each, law.committed) for each in replayed)]


def _bill(
    instance: BoaInstance, laws: Mapping[str, Demand], mean_jct_s: float, committed: Mapping[str, float] | None
) -> Billed:
    """Bill what is in use of each GPU type, with numbers committed, or the best ones."""
    bills, prices = bill_demand(instance, laws, committed), instance.prices_on_demand
    return Billed(
        gpus=math.fsum(law.mean for law in laws.values()),
        mean_jct_s=mean_jct_s,
        bill=math.fsum(bill.total for bill in bills.values()),
        on_demand=math.fsum(prices[name] * law.mean for name, law in laws.items()),
        committed={name: bill.number for name, bill in bills.items()},
    )


def replay_widths(instance: BoaInstance, solution: BoaSolution, trace: JobTrace) -> tuple[dict[str, Demand], float]:
    """Return by GPU type for how much of a trace how many are in use, and the mean completion time in seconds."""
    if trace.classes != tuple(instance.classes):
        raise UsageError(
            f"the trace {trace.name!r} has the classes {', '.join(trace.classes)}, and the instance "
            f"{', '.join(instance.classes)}; give the trace of this instance"
        )
    span_h, ended_h = trace.span_s / SECONDS_PER_HOUR, 0.0
    events: dict[str, list[tuple[FloatArray, FloatArray]]] = {name: [] for name in instance.gpu_types}
    for name, ways in follow_solution(instance, solution).items():
        branches, jobs = solution.branches[name], trace.of_class(name)
        shares, dealt, taken = [branch.fraction for branch in branches], [0] * len(ways), list[int]()
        for _ in range(jobs.size if len(ways) > 1 else 0):
            taken.append(choose_way(shares, dealt))
            dealt[taken[-1]] += 1
        for number, (branch, times) in enumerate(zip(branches, ways, strict=True)):
            own = jobs[np.array(taken) == number] if len(ways) > 1 else jobs
            types, size = types_along(instance, branch), trace.size[own]
            at_h = trace.arrive_s[own] / SECONDS_PER_HOUR
            ended_h -= float(at_h.sum())
            for first, end in pairwise([*np.flatnonzero(times.change).tolist(), branch.widths.size]):
                part = slice(first, end)
                run_h, pause_h = ((times.wall[part] * each[part]).sum() for each in (times.run_h, times.pause_h))
                gpus = np.full(size.size, float(times.paid[first] * times.held[first] / times.wall[first]))
                done_h = at_h + size * run_h + pause_h
                events[str(types[first])] += [(at_h, gpus), (done_h, -gpus)]
                at_h = done_h
            ended_h += float(at_h.sum())
    found = {name: _sum_up(own, span_h) for name, own in events.items()}
    return found, ended_h / len(trace) * SECONDS_PER_HOUR


def _sum_up(events: list[tuple[FloatArray, FloatArray]], span_h: float) -> Demand:
    """Return for how much of a span how many GPUs are in use, from when numbers of them come and go."""
    at_h = np.concatenate([np.zeros(1), *(each for each, _ in events), np.full(1, span_h)])
    order = np.argsort(at_h, kind="stable")
    change = np.concatenate([np.zeros(1), *(each for _, each in events), np.zeros(1)])[order]
    lasts = np.diff(np.minimum(at_h[order], span_h)) / span_h
    # Whole but for rounding, or where interruptions make a mean of them.
    in_use = np.maximum(np.round(np.cumsum(change)[:-1], 6), 0.0)[lasts > 0.0]
    lasts, below = lasts[lasts > 0.0], np.floor(in_use).astype(np.int64)
    size = int(below.max(initial=0)) + 2
    chances: FloatArray = np.bincount(below, lasts * (1.0 - in_use + below), size).astype(np.float64)
    return Demand((chances + np.bincount(below + 1, lasts * (in_use - below), size))[None])


class Billed(FrozenModel):
    """What a plan takes on average, by the law of its demand or on a trace; money in the unit of the budget."""

    gpus: float  # in use
    mean_jct_s: float
    bill: float  # committed GPUs at all hours, and what more is in use
    on_demand: float  # what the GPUs in use cost with none committed
    committed: ByName[float]  # by GPU type

    @property
    def saved(self) -> float:
        """The share of the bill on demand that commitments save; below zero where they cost more."""
        return 1.0 - self.bill / self.on_demand if self.on_demand else 0.0


class BilledPlan(FrozenModel):
    """One way to choose widths and numbers of committed GPUs."""

    name: str
    objective: float  # seconds of (weighted) mean completion time
    bound: float | None  # of the solve that the widths come from
    law: Billed
    trace: Billed | None
