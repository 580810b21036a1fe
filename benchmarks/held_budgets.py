"""Replay plans of one trace on others of its family: as they are, and at the multiplier that holds the budget.

Plans are made on newtrace/workload-1 of the Sia artifact and replayed on rented GPUs for workloads 2 to 5, one by one,
all four in a row, and three times so. Spend is GPU-hours that jobs held over the hours of arrivals, the debt what that
is too much, in hours of budget; *behind* is the mean completion time over that of the exact frontier of the replayed
trace at the same spend: of somebody who knew it. Needs optplan and the public data, in ``../shared/data`` or in the
folder that ``OPTPLAN_DATA`` names::

    python benchmarks/held_budgets.py
    python benchmarks/held_budgets.py --node-start 120 --budgets 160
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from optplan.contracts import Frontier
from optplan.execution.online.fields import Hold
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import build_plan
from optplan.lab.cluster.jobs import Job
from optplan.lab.cluster.policies.boa import BudgetHeld, follow_plan
from optplan.lab.cluster.policies.in_turn import InTurn
from optplan.lab.cluster.profiled_jobs import make_jobs
from optplan.lab.cluster.replaying import replay
from optplan.lab.traces.sia_boa import build_sia_instance
from optplan.lab.traces.sia_workloads import read_workload
from optplan.solving import frontier, solve
from optplan.units import SECONDS_PER_HOUR, Amount, BudgetUnit

#: The folder of the public data; each trace has arrivals for so many hours.
DATA = Path(os.environ.get("OPTPLAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")) / "sia"
HOURS = 48.0
POLICIES: dict[str, Callable[[BoaInstance], InTurn]] = {
    "the plan as it is": lambda instance: follow_plan(build_plan(instance, solve(instance))),
    "held": BudgetHeld,
    "held, debt repaid": lambda instance: BudgetHeld(instance, Hold.REPAID),
}


def state(number: int) -> BoaInstance:
    """Return the instance of a trace."""
    return build_sia_instance(find_workload(number), DATA / "traces", "aws", slowdown=True)


def find_workload(number: int) -> Path:
    """Return the file of a trace."""
    return DATA / "workloads" / "newtrace" / f"workload-{number}.csv"


def list_jobs(numbers: Sequence[int]) -> list[Job]:
    """List the jobs of traces that follow one another."""
    jobs = []
    for place, number in enumerate(numbers):
        made, _ = make_jobs(read_workload(find_workload(number)), DATA / "traces", "aws", slowdown=True)
        for job in made:
            job.name = f"{place}/{job.name}"
            job.submitted_s += place * HOURS * SECONDS_PER_HOUR
        jobs += made
    return jobs


def know(instances: Sequence[BoaInstance]) -> Frontier:
    """Return the frontier of traces that follow one another: classes are the same, and rates the mean."""
    first = instances[0]
    classes = {
        name: each.replace(
            arrival_rate_per_hour=sum(one.classes[name].arrival_rate_per_hour for one in instances) / len(instances)
        )
        for name, each in first.classes.items()
    }
    return frontier(first.replace(classes=classes))


def main() -> None:
    """Print a line for each budget, trace and policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", type=float, nargs="+", default=[130.0, 160.0, 200.0], metavar="GPUS")
    parser.add_argument("--node-start", type=float, default=0.0, metavar="SECONDS")
    given = parser.parse_args()
    instances = {number: state(number) for number in range(1, 6)}
    print("budget  traces       policy            spend           mean     behind  debt")
    for gpus in given.budgets:
        planned = instances[1].replace(budget=Amount(gpus, BudgetUnit.GPU))
        for numbers in ((2,), (3,), (4,), (5,), (2, 3, 4, 5), 3 * (2, 3, 4, 5)):
            line = know([instances[number] for number in numbers])
            for name, make in POLICIES.items():
                policy = make(planned)
                outcome = replay(list_jobs(numbers), policy, gpus_per_node=4, start_s=given.node_start)
                spent, mean_s = outcome.gpu_hours / HOURS / len(numbers), float(outcome.jct_s.mean())
                behind = mean_s / line.at(spent).objective - 1.0 if spent >= line.budgets[0] else float("nan")
                over = spent / gpus - 1.0
                debt = f"{over * HOURS * len(numbers):+.1f} h"
                told = f"{spent:6.1f} ({over:+6.1%})  {mean_s:6.0f} s  {behind:+6.1%}  {debt}"
                print(f"{gpus:6g}  {''.join(map(str, numbers)):12} {name:18} {told}", flush=True)


if __name__ == "__main__":
    main()
