"""The independent judge of audits: what jobs take at least at a price, and how many of them stand for which size.

Written from Lemma 4.8 alone; it imports no solver. The least path of a class at the prices is found by loops of the
judge's own. Sizes between two that are told apart count as shares of both, which is no more than they take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from optplan.contracts.audits import AuditBound, AuditedClass
from optplan.contracts.judgement import PathCosts, RefutedError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.relaxing import relax
from optplan.formulations.boa.judge.duality import path_costs
from optplan.judging.enumeration import least_path
from optplan.progress import Stopwatch
from optplan.schema import FloatArray


def derive_least(
    instance: BoaInstance, classes: Mapping[str, AuditedClass], bound: AuditBound, stopwatch: Stopwatch
) -> dict[str, float]:
    """Return by class the least of what is bounded, and of the other at the bound's price, over all its jobs."""
    relaxed = relax(instance, {name: each.jobs for name, each in classes.items()}, pauses=bound.pauses)
    prices = np.array([1.0, bound.price] if bound.of == "mean_jct_s" else [bound.price, 1.0])
    least = {}
    for graph in path_costs(relaxed):
        own, total = classes[graph.name], 0.0
        running = _favour(relaxed, graph)
        for size, weight in zip(own.sizes.tolist(), own.weights.tolist(), strict=True):
            stopwatch.require()
            scaled = replace(
                graph,
                run_value=size * running * graph.run_value,
                run_consumption=size * running * graph.run_consumption,
            )
            total += weight / own.jobs * least_path(scaled, prices)
        least[graph.name] = total
    return least


def list_favoured(instance: BoaInstance, classes: Mapping[str, AuditedClass]) -> tuple[str, ...]:
    """List the classes of which running takes less than stated at some end of a band."""
    relaxed = relax(instance, {name: each.jobs for name, each in classes.items()}, pauses=False)
    return tuple(graph.name for graph in path_costs(relaxed) if (_favour(relaxed, graph) < 1.0).any())


def _favour(instance: BoaInstance, graph: PathCosts) -> FloatArray:
    """Return (E, K) what running takes of the stated time where speeds are at the upper ends of their bands."""
    options, job_class = instance.options(graph.name), instance.classes[graph.name]
    fastest = np.array(options.speeds)
    for gpu_type in options.gpu_types:
        own = options.of_type(gpu_type)
        _, high = job_class.speedup[gpu_type].band_at(options.widths[own], job_class.reference_width)
        fastest[:, own] = np.maximum(fastest[:, own], high)
    share: FloatArray = options.speeds / fastest
    return np.broadcast_to(share, graph.run_value.shape)


def share_out(sizes: FloatArray, own: AuditedClass) -> FloatArray:
    """Return (S,) how many jobs of sizes (n,) stand for each size that is told apart; a RefutedError if they cannot."""
    if (np.diff(own.sizes) <= 0.0).any():
        raise RefutedError("sizes must ascend")
    if not (own.sizes[0] <= sizes.min() and sizes.max() <= own.sizes[-1]):
        raise RefutedError(f"jobs have sizes from {sizes.min():.6g} to {sizes.max():.6g}, which are not between these")
    if own.sizes.size == 1:
        return np.array([float(sizes.size)])
    above = np.searchsorted(own.sizes, sizes, side="left").clip(1)
    low, high = own.sizes[above - 1], own.sizes[above]
    of_low = (high - sizes) / (high - low)
    shares = np.zeros(own.sizes.size)
    np.add.at(shares, above - 1, of_low)
    np.add.at(shares, above, 1.0 - of_low)
    return shares
