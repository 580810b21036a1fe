"""What the speedups behind a plan rest on: shares of its GPUs by where these speedups come from."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from optplan.contracts.judgement import keep_latest
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.judge.following import epochs_by_type, follow_epochs
from optplan.speedup import Evidence
from optplan.speedup.curves import find_weakest


@keep_latest
def share_evidence(instance: BoaInstance, solution: BoaSolution | None) -> dict[str, float]:
    """Return the shares of a plan's GPUs by where the speedups behind them come from; without a plan, of the load.

    Of a class that has an assumed speed at any width which it may get, all GPUs rest on that: the plan weighed it.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for name, job_class in instance.classes.items():
        rate = job_class.arrival_rate_per_hour
        kinds = {
            kind
            for gpu_type, curve in job_class.speedup.items()
            for kind in curve.evidence_at(instance.allowed_widths(name, gpu_type))
        }
        weakest = find_weakest(kinds)
        if solution is None:
            found[weakest].append(rate * job_class.size_gpu_hours * job_class.reference_width)
            continue
        for branch in solution.branches[name]:
            times = follow_epochs(instance, name, branch)
            gpus = rate * branch.fraction * times.paid * times.held_h
            if len(kinds) == 1 or weakest == Evidence.ASSUMED:
                found[weakest].append(float(gpus.sum()))
                continue
            for kind, used in zip(_list_kinds(instance, name, branch), gpus.tolist(), strict=True):
                found[kind].append(used)
    used = {kind: math.fsum(gpus) for kind, gpus in sorted(found.items())}
    total = math.fsum(used.values())
    return {kind: gpus / total for kind, gpus in used.items() if gpus > 0.0}


def _list_kinds(instance: BoaInstance, name: str, branch: Branch) -> list[str]:
    """List for each epoch of a branch where the speed at its width comes from."""
    kinds = [""] * branch.widths.size
    for gpu_type, epochs in epochs_by_type(instance, branch):
        said = instance.classes[name].speedup[gpu_type].evidence_at(branch.widths[epochs])
        for epoch, kind in zip(np.arange(branch.widths.size)[epochs].tolist(), said, strict=True):
            kinds[epoch] = kind
    return kinds
