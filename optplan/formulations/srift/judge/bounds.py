"""What the judge knows of fleets of which only some VMs are decided: lower bounds of what they take, and why they hold.

Written from the sheet and apart from the solvers' bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr

from optplan.contracts.judgement import JUDGE_ROUNDING
from optplan.formulations.srift.judge.offers import Load
from optplan.schema import FloatArray, IntArray

#: What is taken off sums and products for their rounding, relatively.
ROUNDING = JUDGE_ROUNDING
#: The quadrature: from so many deviations below the slowest VM's mean to so many above, in panels with so many nodes.
_LOWEST, _HIGHEST, _PANEL, _NODES = -6.5, 8.0, 0.5, 8
#: Deviations up to this share of the largest are left out: they would be too sharp for those nodes.
_SHARP = 0.4
#: Error of the quadrature in the largest deviation, with up to so many VMs (measured: 5e-8).
_ERROR, _MOST_VMS = 1e-6, 1000


class StragglerFloor:
    """The least mean time of the straggler of fleets that have certain VMs at least.

    ``E[max] = a + integral from a of (1 - F)``, where F(a) is as good as zero; the logarithm of F adds up over VMs.
    Leaving VMs out makes E[max] no larger; nor does taking a VM's mean for what it takes (Jensen's inequality): so a
    slowest VM that hardly deviates is taken for its mean, where the integral then starts.

    Of the (C,) loads that may be in the fleet the slowest is the last.
    """

    def __init__(self, loads: Sequence[Load]) -> None:
        slowest, largest = loads[-1], max(load.deviation_s for load in loads)
        sharp = [load.deviation_s <= _SHARP * largest for load in loads]
        lowest = 0.0 if sharp[-1] else _LOWEST
        ends = np.arange(lowest, _HIGHEST + _PANEL / 2.0, _PANEL)
        at, weights = np.polynomial.legendre.leggauss(_NODES)
        points = (ends[:-1, None] + _PANEL / 2.0 * (at + 1.0)).ravel()
        self._weights = largest * _PANEL / 2.0 * np.tile(weights, ends.size - 1)
        self._floor_s = slowest.raw_s + lowest * largest - _ERROR * largest
        seconds = slowest.raw_s + largest * points
        #: (C, Q) Logarithm of the distribution of one VM at each node.
        self._single = np.array(
            [
                np.zeros(points.size) if left_out else log_ndtr((seconds - load.raw_s) / load.deviation_s)
                for load, left_out in zip(loads, sharp, strict=True)
            ]
        )

    def seconds(self, counts: IntArray) -> FloatArray:
        """Return (N,) the least means of fleets with (N, C) VMs of each load, one of the slowest at least."""
        logarithms = np.minimum(counts, _MOST_VMS).astype(np.float64) @ self._single
        integral = -(np.expm1(logarithms) @ self._weights)
        return np.asarray((self._floor_s + integral) * (1.0 - ROUNDING), dtype=np.float64)
