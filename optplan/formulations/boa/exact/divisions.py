"""From fractions of each epoch's jobs to branches of a class.

The continuous problem divides the jobs of a (class, epoch) among GPU types and widths, whatever they do in other
epochs; a solution names rows of widths over all epochs, each for a fraction of the class's jobs. Cutting the class at
every epoch's fractions at once gives such rows, one more than there are cuts (the north-west corner rule of
transportation problems).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance, Branch

#: Cuts closer than this are the same, and a smaller fraction is none.
_SAME_CUT = 1e-12


class Share(NamedTuple):
    """A fraction of the jobs in one epoch, and what they hold."""

    fraction: float
    gpu_type: str
    width: float


def write_divisions(instance: BoaInstance, epochs: Sequence[Sequence[Share]]) -> tuple[Branch, ...]:
    """Write what the jobs of a class hold in each epoch as branches.

    Parameters
    ----------
    instance
        For whether types have to be named.
    epochs
        (E,) How the jobs are divided in each epoch; fractions add up to 1.

    Returns
    -------
    tuple of Branch
        One where no epoch is divided.
    """
    ends = [np.cumsum([share.fraction for share in shares]) for shares in epochs]
    cuts = np.unique(np.concatenate([np.zeros(1), *(each[:-1] for each in ends)]))
    cuts = cuts[(np.diff(cuts, prepend=-1.0) > _SAME_CUT) & (cuts < 1.0 - _SAME_CUT)]
    branches = []
    for start, end in zip(cuts.tolist(), [*cuts[1:].tolist(), 1.0], strict=True):
        middle = 0.5 * (start + end)
        held = [
            shares[min(int(np.searchsorted(each, middle)), len(shares) - 1)]
            for shares, each in zip(epochs, ends, strict=True)
        ]
        branches.append(
            Branch(
                fraction=end - start,
                widths=np.array([share.width for share in held]),
                gpu_types=tuple(share.gpu_type for share in held) if len(instance.gpu_types) > 1 else None,
            )
        )
    return tuple(branches)
