"""What a plan's GPUs cost on the jobs of a trace, some of them committed: arrivals and durations, nobody queues."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from optplan.contracts.result import Result, require_solution
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.judge.following import follow_solution, types_along
from optplan.formulations.boa.laws.commitments import Bill, Tariff, make_bill
from optplan.formulations.boa.laws.demand import Demand
from optplan.formulations.boa.planning import choose_way
from optplan.instances.job_traces import JobTrace
from optplan.schema import FloatArray
from optplan.units import SECONDS_PER_HOUR


def bill_trace(
    instance: BoaInstance,
    result: Result[BoaSolution],
    trace: JobTrace,
    committed: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Bill the widths of a result on the jobs of a trace, each on rented GPUs as soon as it asks for them.

    Parameters
    ----------
    instance
        Of which GPU types with ``commitments`` say the prices; the result's, or one with other prices.
    trace
        Of the instance's classes; its span, from an empty cluster on, is billed.
    committed
        By GPU type, how many are committed; None takes the number that is best for the trace, in hindsight.

    Returns
    -------
    dict
        ``gpus`` in use on average, ``mean_jct_s``; ``bill`` and its parts ``bill.committed``, ``bill.spot`` and
        ``bill.on_demand`` in the unit of the budget; ``committed.TYPE`` for each type that has commitments.

    Raises
    ------
    UsageError
        When the trace has other classes than the instance.
    """
    found, mean_jct_s = replay_widths(instance, require_solution(result), trace)
    bills: dict[str, Bill] = {}
    for name, demand in found.items():
        kind = instance.gpu_types[name]
        if kind.commitments is None:
            bills[name] = Bill({}, 0.0, 0.0, demand.mean)
        else:
            bills[name] = make_bill(Tariff.of(kind), demand, None if committed is None else committed[name])
    prices = instance.prices_on_demand
    parts = {
        f"bill.{part}": sum(prices[name] * float(getattr(bill, part)) for name, bill in bills.items())
        for part in ("committed", "spot", "on_demand")
    }
    return {
        "gpus": sum(demand.mean for demand in found.values()),
        "mean_jct_s": mean_jct_s,
        "bill": sum(parts.values()),
        **parts,
        **{f"committed.{name}": sum(bill.gpus.values()) for name, bill in bills.items() if bill.gpus},
    }


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
    chances = np.bincount(below, lasts * (1.0 - in_use + below), size)
    return Demand((chances + np.bincount(below + 1, lasts * (in_use - below), size))[None])
