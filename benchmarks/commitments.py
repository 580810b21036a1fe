"""Ways to commit GPUs on newTrace 1 to 5: planned on one trace, billed on each of the others.

``python benchmarks/commitments.py DATA`` with the folder of public data. The rival is the quantile rule: the least
number that is exceeded for no more of the time than one minus the discount, for the widths that are best on demand;
beside it the usual advice, to commit the P95. Widths and number together get the rule's bill as their
budget. Shares are of the bill on demand of the same widths; *at the same mean* compares bills where the rule, at other
budgets, takes as long.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

from optplan.errors import DataWarning
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.job_logs.columns import to_texts
from optplan.instances.job_traces import JobTrace
from optplan.lab.traces.sia_boa import build_sia_instance
from optplan.lab.traces.sia_workloads import read_workload
from optplan.solving import solve
from optplan.solving.billing import BilledPlan, compare_commitments
from optplan.units import Amount, BudgetUnit

TRACES = range(1, 6)
DISCOUNTS = (0.3, 0.45, 0.6)
#: Budgets around the one asked for, on which the rule is looked at where it takes as long as both together.
AROUND = (0.92, 0.96, 1.0, 1.04, 1.08)


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


def compare_at_same_mean(rules: list[BilledPlan], both: BilledPlan) -> float:
    """Return by how much the bill on a trace is above that of the rule where it takes as long there."""
    billed = sorted((rule.trace.mean_jct_s, rule.trace.bill) for rule in rules if rule.trace is not None)
    assert both.trace is not None
    means_s, bills = ([pair[place] for pair in billed] for place in (0, 1))
    return both.trace.bill / float(np.interp(both.trace.mean_jct_s, means_s, bills)) - 1.0


def time_solve(instance: BoaInstance) -> float:
    """Return the processor time of a solve, the second of two."""
    solve(instance, ranges=False)
    start = time.process_time()
    solve(instance, ranges=False)
    return time.process_time() - start


def main() -> None:
    """Print a line for each trace planned on and each discount."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--gpus", type=float, default=130.0, help="budget on demand")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    sia = asked.data / "sia"
    paths = {number: sia / f"workloads/newtrace/workload-{number}.csv" for number in TRACES}
    print("trace, discount, rule saves, P95 saves, both: mean by the law, bill at the same mean, time of a solve")
    for number in TRACES:
        instance = build_sia_instance(paths[number], sia / "traces", "aws")
        plain_s = time_solve(instance.replace(budget=Amount(asked.gpus, BudgetUnit.GPU)))
        for discount in DISCOUNTS:
            saved, advice, same_mean, law = [], [], [], 1.0
            for other in set(TRACES) - {number}:
                jobs = read_jobs(paths[other], instance)
                found = [compare_commitments(commit(instance, discount, share * asked.gpus), jobs) for share in AROUND]
                _, p95, rule, both, _ = found[AROUND.index(1.0)]
                assert rule.trace is not None
                assert p95.trace is not None
                saved.append(rule.trace.saved)
                advice.append(p95.trace.saved)
                law = both.objective / rule.objective
                same_mean.append(compare_at_same_mean([plans[2] for plans in found], both))
            solve_s = time_solve(commit(instance, discount, rule.law.bill))
            rule_saves, p95_saves = (f"{min(each):6.1%} to {max(each):.1%}" for each in (saved, advice))
            around, times = f"{min(same_mean):+.1%} to {max(same_mean):+.1%}", f"{solve_s / plain_s:.1f}x"
            print(
                f"{number}  {discount:8.0%}  {rule_saves}  {p95_saves}  {law - 1:+.2%}  {around}  {times}", flush=True
            )


if __name__ == "__main__":
    main()
