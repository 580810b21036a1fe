"""Iterations drawn one by one, as the paper's simulator draws them (4.3): the check of the means, and their spread.

Every VM draws its compute time, the largest is the straggler's, and its passes are stretched to it. Beyond the paper,
layers that run only sometimes are drawn too, and gradients are exchanged anew in every iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optplan.errors import UsageError
from optplan.formulations.srift.data.bandwidth import volume_factor
from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.laws.exchange import exchange_seconds
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.formulations.srift.laws.stragglers import sample_maximum
from optplan.schema import FloatArray

#: What the layers' stream of random numbers is set apart by from the stragglers' of the same seed.
_LAYERS = 1


def sample_iterations(
    instance: SriftInstance, groups: Sequence[VmGroup], *, iterations: int = 1000, seed: int = 0
) -> FloatArray:
    """Draw iterations of a fleet.

    Parameters
    ----------
    instance
        The problem.
    groups
        Of the fleet, one at least.
    iterations
        To draw.
    seed
        Of the random numbers.

    Returns
    -------
    array
        (iterations,) Seconds of each. Their mean is the predicted time where the backward pass is always longer than
        the exchange; where it is longer in some iterations only, the two differ a little.

    Raises
    ------
    UsageError
        When less than one iteration is asked for.
    """
    if iterations < 1:
        message = f"iterations: got {iterations}; at least 1 is needed"
        raise UsageError(message)
    model = IterationModel(instance)
    mean = model.predict(groups)
    compute_s = sample_maximum(*model.compute_times(groups), samples=iterations, seed=seed)
    backward_s = compute_s * mean.backward_s / (mean.forward_s + mean.backward_s)
    if mean.ranks == 1:
        return compute_s
    gpu = instance.types[groups[mean.slowest].type].gpu
    own, capacity = model.bus_of(tuple(sorted({group.type for group in groups})), mean.ranks)
    ready = model.transfers(gpu)[0]
    volumes = volume_factor(mean.ranks) * model.sample_bytes(iterations, np.random.default_rng((seed, _LAYERS)))
    exchange_s = np.zeros(iterations)
    for number, (backward, volume) in enumerate(zip(backward_s.tolist(), volumes, strict=True)):
        sent = volume > 0.0
        exchange_s[number] = exchange_seconds(ready[sent] * backward, volume[sent], own[sent], capacity)
    return compute_s - backward_s + np.maximum(backward_s, exchange_s)
