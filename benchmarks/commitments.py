"""Ways to commit GPUs on newTrace 1 to 5: planned on one trace, billed on each of the others.

``python benchmarks/commitments.py DATA`` with the folder of public data. Traces have the slowdowns of Sia's cluster, as
in ``held_budgets.py``. The rival is the quantile rule: the least number that is exceeded for no more of the time than
one minus the discount, for the widths that are best on demand; beside it the usual advice, to commit the P95. Shares
are of the bill on demand of the same widths. Widths and number together get the rule's bill as their budget, and give
way to the rule's widths where the trace that was planned on does not confirm them. Their bill is set beside that of
the rule where it takes as long, at other budgets: by the law, on the trace planned on, on each that was kept apart, and
on all of these. ``--drawn N`` looks at N traces instead that are drawn from the law itself, ``--span HOURS`` long, and
lets nothing give way: what is chance.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from optplan.contracts import Result
from optplan.errors import DataWarning
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.exact.peak.demand import find_demand
from optplan.formulations.boa.laws.demand import Demand, bill_demand
from optplan.instances.job_logs.columns import to_texts
from optplan.instances.job_traces import JobTrace, draw_trace
from optplan.lab.billing import keep_confirmed, replay_widths
from optplan.lab.traces.sia_boa import build_sia_instance
from optplan.lab.traces.sia_workloads import read_workload
from optplan.solving import solve
from optplan.units import SECONDS_PER_HOUR, Amount, BudgetUnit

TRACES = range(1, 6)
DISCOUNTS = (0.3, 0.45, 0.6)
#: Budgets around the one asked for, on which the rule is looked at where it takes as long as both together.
AROUND = tuple(np.linspace(0.9, 1.1, 21).round(2).tolist())
RIVAL = 0.95


class Plan(NamedTuple):
    """A plan, its mean completion time and GPUs in use: by the law, and on each of some traces."""

    result: Result[BoaSolution]
    law: tuple[float, dict[str, Demand]]
    traces: list[tuple[float, dict[str, Demand]]]


def read_jobs(path: Path, instance: BoaInstance) -> JobTrace:
    """Read a workload of Sia as jobs of an instance's classes, of mean size."""
    workload = read_workload(path)
    places = np.array([list(instance.classes).index(name) for name in workload.applications])
    unknown = np.full(len(workload.job_names), np.nan)
    return JobTrace(
        name=path.stem,
        classes=tuple(instance.classes),
        class_index=places[workload.application_index],
        arrive_s=workload.submission_s,
        size=np.ones(unknown.size),
        ids=to_texts(list(workload.job_names)),
        gpus=unknown,
        run_s=unknown,
        wait_s=unknown,
        span_s=workload.span_s,
    )


def commit(instance: BoaInstance, discount: float, gpus: float) -> BoaInstance:
    """Return the instance with a discount on committed GPUs, and a budget."""
    term = {"commitments": {"term": {"discount": discount}}}
    types = {name: kind.replace(**term) for name, kind in instance.gpu_types.items()}
    return instance.replace(gpu_types=types, budget=Amount(gpus, BudgetUnit.GPU))


def find_plan(instance: BoaInstance, traces: Sequence[JobTrace]) -> Plan | None:
    """Solve, and look at the plan on traces; None where there is none."""
    result = solve(instance, ranges=False)
    if result.solution is None:
        return None
    laws = {name: find_demand(instance, result.solution, name) for name in instance.gpu_types}
    replayed = [replay_widths(instance, result.solution, trace) for trace in traces]
    return Plan(result, (result.measures["mean_jct_s"], laws), [(mean_s, in_use) for in_use, mean_s in replayed])


def bill(
    instance: BoaInstance, plan: Plan, level: float | None = None
) -> tuple[list[tuple[float, float]], list[float]]:
    """Return mean and bill, by the law and on each trace, at a quantile of the law or the best; and what is saved."""
    best = {name: each.number for name, each in bill_demand(instance, plan.law[1]).items()}
    number = best if level is None else {name: np.ceil(law.quantile(level)) for name, law in plan.law[1].items()}
    points, saved = [], []
    for mean_s, in_use in (plan.law, *plan.traces):
        total = sum(each.total for each in bill_demand(instance, in_use, number).values())
        points.append((mean_s, total))
        saved.append(1.0 - total / sum(law.mean for law in in_use.values()))
    return points, saved


def compare_at_same_mean(rules: Sequence[tuple[float, float]], both: tuple[float, float]) -> float:
    """Return by how much a bill is above that of the rule where it takes as long."""
    means_s, bills = zip(*sorted(rules), strict=True)
    return both[1] / float(np.interp(both[0], means_s, bills)) - 1.0


def average(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the average over traces of as many jobs."""
    mean_s, total = np.mean(points, axis=0).tolist()
    return mean_s, total


def tell(shares: Sequence[float], digits: int) -> str:
    """Write shares in percent."""
    return " ".join(f"{100.0 * each:+6.{digits}f}" for each in shares)


def main() -> None:
    """Print a line for each trace planned on, budget and discount."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--budgets", type=float, nargs="+", default=[130.0, 160.0, 200.0], help="GPUs on demand")
    parser.add_argument("--drawn", type=int, default=0, help="billed on as many traces drawn from the law, instead")
    parser.add_argument("--span", type=float, default=48.0, help="hours of each of these")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    sia = asked.data / "sia"
    paths = {number: sia / f"workloads/newtrace/workload-{number}.csv" for number in TRACES}
    print("trace, budget, discount; in percent: rule saves | P95 saves | both beside the rule: law, known, apart, all")
    for number in TRACES:
        instance = build_sia_instance(paths[number], sia / "traces", "aws", slowdown=True)
        span_s = asked.span * SECONDS_PER_HOUR
        traces = [draw_trace(instance, span_s=span_s, seed=seed) for seed in range(asked.drawn)]
        known = None if traces else read_jobs(paths[number], instance)
        traces = traces or [read_jobs(paths[other], instance) for other in TRACES if other != number]
        traces = traces if known is None else [known, *traces]
        apart = 1 if known is None else 2
        for gpus in asked.budgets:
            plans = {}
            for share in AROUND:
                plan = find_plan(instance.replace(budget=Amount(share * gpus, BudgetUnit.GPU)), traces)
                if plan is not None:
                    plans[share] = plan
            for discount in DISCOUNTS if 1.0 in plans else ():
                terms = commit(instance, discount, gpus)
                rules = {share: bill(terms, plan) for share, plan in plans.items()}
                (law, *_), saved = rules[1.0]
                found = find_plan(commit(instance, discount, law[1]), traces)
                beside = [plans[share].result for share in (1.0, 0.98, 1.02) if share in plans]
                both = plans[1.0]
                if found is not None and keep_confirmed(terms, beside, found.result, known) is found.result:
                    both = found
                points = bill(terms, both)[0]
                above = [
                    compare_at_same_mean([rule[place] for rule, _ in rules.values()], point)
                    for place, point in enumerate(points)
                ]
                together = compare_at_same_mean(
                    [average(rule[apart:]) for rule, _ in rules.values()], average(points[apart:])
                )
                p95 = bill(terms, plans[1.0], RIVAL)[1]
                told = f"{tell(saved[apart:], 0)} | {tell(p95[apart:], 0)} | {tell([*above, together], 1)}"
                print(f"{number}  {gpus:g}  {discount:.0%}  {told}", flush=True)


if __name__ == "__main__":
    main()
