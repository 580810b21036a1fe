"""Widths that follow the jobs, on traces kept apart: how close they come to the plan of somebody who knows the trace.

Each trace is replayed on rented nodes, as measured with Sia's slowdown, under: the plan of somebody who knows the trace
(*knows*); that of another trace, which stays (*stale*); ``boa-online`` from the instance of that other trace (*other
trace*); and from one without any of its classes (*nothing*), so that rates, sizes and speeds are learned as jobs come.
Beside the mean completion time stands by how much it is above the frontier of who knows the trace, at as many GPUs; and
the processor time::

    python benchmarks/learning_widths.py --data ../shared/data [--budget 130gpu] [--traces 2 3 4 5] [--known 1]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from optplan import BoaInstance, build_plan, frontier, solve
from optplan.lab.cluster.jobs import SchedulingPolicy
from optplan.lab.cluster.policies.boa import BoaOnline, follow_plan
from optplan.lab.cluster.profiled_jobs import make_jobs
from optplan.lab.cluster.replaying import replay
from optplan.lab.traces.sia_boa import build_sia_instance
from optplan.lab.traces.sia_workloads import read_workload

GPU, MAX_WIDTH, SPAN_H = "aws", 64, 48.0
#: What is known where nothing is: one class that never comes, of the median pause; the others begin as new ones do.
NOTHING = {
    "name": "nothing",
    "formulation": "boa",
    "gpu_types": {"t4": {}},
    "problem": "rescaling",
    "widths": {"max": MAX_WIDTH},
    "classes": {
        "none": {
            "arrival_rate_per_hour": 1e-6,
            "epoch_size_gpu_hours": [1.0],
            "rescale_s": 60.0,
            "speedup": {"t4": {"form": "amdahl", "serial_fraction": 0.1}},
        }
    },
}


def main() -> None:
    """Replay each trace under each policy, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the data pack's folder")
    parser.add_argument("--budget", default="130gpu")
    parser.add_argument("--traces", type=int, nargs="+", default=[2])
    parser.add_argument("--known", type=int, default=1)
    asked = parser.parse_args()
    data: Path = asked.data
    profiles = data / "sia" / "traces"

    def path_of(number: int) -> Path:
        return data / "sia" / "workloads" / "newtrace" / f"workload-{number}.csv"

    def read(number: int) -> BoaInstance:
        made = build_sia_instance(path_of(number), profiles, GPU, slowdown=True, max_width=MAX_WIDTH)
        return made.replace(budget=asked.budget)

    def follow(instance: BoaInstance) -> SchedulingPolicy:
        return follow_plan(build_plan(instance, solve(instance)))

    known, nothing = read(asked.known), BoaInstance.parse({**NOTHING, "budget": asked.budget})
    print("trace  policy       GPUs   mean (min)  above who knows  seconds")
    for number in asked.traces:
        actual = read(number)
        line = frontier(actual)
        policies: dict[str, Callable[[BoaInstance], SchedulingPolicy]] = {
            "knows": follow,
            "stale": lambda _: follow(known),
            "other trace": lambda _: BoaOnline(known),
            "nothing": lambda _: BoaOnline(nothing),
        }
        for name, make in policies.items():
            jobs, gpus_per_node = make_jobs(read_workload(path_of(number)), profiles, GPU, slowdown=True)
            begun = time.process_time()
            outcome = replay(jobs, make(actual), gpus_per_node=gpus_per_node)
            seconds = time.process_time() - begun
            gpus, mean_s = outcome.gpu_hours / SPAN_H, float(outcome.jct_s.mean())
            inside = line.budgets[0] <= gpus <= line.budgets[-1]
            above = f"{mean_s / line.at(gpus).objective - 1.0:15.1%}" if inside else " " * 15
            print(f"{number:5}  {name:11}  {gpus:5.1f}  {mean_s / 60.0:10.1f}  {above}  {seconds:7.1f}", flush=True)


if __name__ == "__main__":
    main()
