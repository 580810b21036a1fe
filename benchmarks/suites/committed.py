"""The suite of commitments: widths and number together, beside the rules that many would take.

A row's ``objective`` is the mean completion time; ``bill`` and ``saved`` are by the law of demand, and with ``on_jobs``
those on jobs drawn. The time of a row that is chosen by a rule is that of all ways at its discount.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.files import read_instance
from optplan.instances.job_traces import draw_trace
from optplan.lab.benchmarks.best_known import Row, reset_peak
from optplan.lab.billing import compare_commitments
from optplan.units import Amount, BudgetUnit
from suites.rows import make_goal_row

_TRACE, _SEED, _JOBS, _BUDGET_GPUS = "boa-newtrace", 1, 960, 130.0


def run(*, quick: bool, full: bool) -> Iterator[Row]:
    """Measure every row of the suite; quick takes one discount and fewer jobs, full makes no difference."""
    del full
    plain = read_instance(_TRACE, BoaInstance).replace(budget=Amount(_BUDGET_GPUS, BudgetUnit.GPU))
    trace = draw_trace(plain, jobs=_JOBS // 10 if quick else _JOBS, seed=_SEED)
    for discount in (0.45,) if quick else (0.3, 0.45, 0.6):
        terms = {"term": {"discount": discount}}
        types = {name: kind.replace(commitments=terms) for name, kind in plain.gpu_types.items()}
        reset_peak()
        start = time.process_time()
        ways = compare_commitments(plain.replace(gpu_types=types), trace)
        seconds = time.process_time() - start
        for way in ways:
            assert way.trace is not None
            extra = {
                "bill": way.law.bill,
                "saved": way.law.saved,
                "bill_on_jobs": way.trace.bill,
                "saved_on_jobs": way.trace.saved,
            }
            label = f"{_TRACE}, {len(trace)} jobs, {discount:.0%} off"
            yield make_goal_row(label, way.name, seconds, None, extra, objective=way.objective)
