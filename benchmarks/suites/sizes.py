"""The suite of own clusters: the best policy found for each size, beside equal shares, which many would run.

The first size is load over 0.8, by which many would choose it. A row's ``objective`` is the mean completion time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.files import read_instance
from optplan.instances.job_traces import draw_trace
from optplan.lab.benchmarks.best_known import Row, reset_peak
from optplan.lab.cluster.policies.in_turn import EqualShare
from optplan.lab.cluster.traced_jobs import simulate_trace
from optplan.lab.sizing import size
from optplan.solving import frontier
from suites.rows import make_goal_row

_TRACE, _SEED, _JOBS, _GPUS_PER_NODE = "boa-newtrace", 1, 960, 4
#: Load over GPUs of the cluster.
_LOADS = (0.8, 0.7, 0.6, 0.5)


def run(*, quick: bool, full: bool) -> Iterator[Row]:
    """Measure every row of the suite; quick takes the first size and fewer jobs, full makes no difference."""
    del full
    instance = read_instance(_TRACE, BoaInstance).replace(budget=None)
    trace = draw_trace(instance, jobs=_JOBS // 10 if quick else _JOBS, seed=_SEED)
    load_gpus = float(frontier(instance).budgets[0])
    for share in _LOADS[:1] if quick else _LOADS:
        nodes = math.ceil(load_gpus / share / _GPUS_PER_NODE)
        label = f"{_TRACE}, {len(trace)} jobs on {nodes * _GPUS_PER_NODE} GPUs"
        reset_peak()
        start = time.process_time()
        found = size(instance, trace, [nodes], gpus_per_node=_GPUS_PER_NODE).sizes[0]
        seconds = time.process_time() - start
        for what, replay in (("least mean", found.best), ("least P95", found.best_p95)):
            extra = {"p95_jct_s": replay.p95_jct_s, "replays": float(found.replays)}
            name = f"{what}: {replay.policy}" + ("" if replay.budget_gpus is None else f" of {replay.budget_gpus:.0f}")
            yield make_goal_row(label, name, seconds, None, extra, objective=replay.mean_jct_s)
        start = time.process_time()
        jct_s = simulate_trace(instance, trace, EqualShare(), gpus_per_node=_GPUS_PER_NODE, nodes=nodes).jct_s
        extra = {"p95_jct_s": float(np.percentile(jct_s, 95))}
        yield make_goal_row(
            label, "equal-share", time.process_time() - start, None, extra, objective=float(jct_s.mean())
        )
