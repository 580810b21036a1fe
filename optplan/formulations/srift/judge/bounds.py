"""What the judge knows of fleets of which only some VMs are decided: lower bounds of what they take, and why they hold.

Written from the sheet and apart from the solvers' bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr, ndtr

from optplan.contracts.judgement import JUDGE_ROUNDING
from optplan.formulations.srift.data.bandwidth import MeasuredBandwidth, volume_factor
from optplan.formulations.srift.judge.offers import Load, Offers
from optplan.formulations.srift.laws.stragglers import standard_maximum
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

    Parameters
    ----------
    loads
        (C,) All that may be in the fleet, the slowest last.
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
        self._known = 2.0 * (_ERROR * largest + ROUNDING * slowest.raw_s)
        self._left_out = np.array([_exceed(load, slowest) if sharp[place] else 0.0 for place, load in enumerate(loads)])
        self._left_out[-1] = 0.0
        self._slowest_s = slowest.deviation_s if sharp[-1] else 0.0
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

    def slack(self, counts: IntArray) -> FloatArray:
        """Return (N,) by how many seconds the means of fleets with exactly these VMs are larger at most.

        A VM Y that was left out adds no more than the mean of max(Y - X, 0), X being one of the slowest; n of the
        slowest that were taken for their mean add no more than the largest of n + 1 deviations (Jensen's inequality).
        """
        found = np.full(len(counts), self._known)
        found += counts @ self._left_out
        if self._slowest_s:
            different, place = np.unique(counts[:, -1], return_inverse=True)
            largest = np.array([standard_maximum(count + 1) for count in different.tolist()])
            found += self._slowest_s * largest[place.reshape(-1)]
        return np.where((counts > _MOST_VMS).any(axis=1), np.inf, found)


def _exceed(load: Load, slowest: Load) -> float:
    """Return the mean of the seconds by which a VM takes longer than one of the slowest, none where it does not."""
    spread = math.hypot(load.deviation_s, slowest.deviation_s)
    if spread == 0.0:
        return 0.0
    behind = (slowest.raw_s - load.raw_s) / spread
    return spread * (math.exp(-0.5 * behind * behind) / math.sqrt(2.0 * math.pi) - behind * float(ndtr(-behind)))


class ExchangeFloor:
    """The least end of the exchange, counted from the beginning of the backward pass.

    Transfers t to T move nothing before t is ready, after the share r_t, and together never faster than the capacity;
    no transfer moves faster than alone: ``t_pe >= r_t t_bw + V(t..T) / b_cap`` and ``t_pe >= r_t t_bw + V_t / b_t``.
    Volumes grow with the ranks. A set of types has no larger capacity, and no transfer more bandwidth, than any of
    them alone. For so many ranks or more, b_t is the largest of any number of them: the plain model's falls, a table's
    is largest at the least number or in one of the later rows.

    Parameters
    ----------
    offers
        What there is.
    """

    def __init__(self, offers: Offers) -> None:
        self._offers = offers
        self._lines = {gpu: _draw_lines(*offers.model.transfers(gpu)) for gpu in set(offers.gpus)}
        self._known: dict[tuple[str, int, int, bool], FloatArray] = {}

    def seconds(self, gpu: str, network: int, ranks: IntArray, backward_s: FloatArray, *, exactly: bool) -> FloatArray:
        """Return (N,) the least t_pe.

        Parameters
        ----------
        gpu
            Of the straggler.
        network
            One that the fleets have.
        ranks
            (N,) That they have at least, or exactly.
        backward_s
            (N,) The least seconds of the backward pass.
        exactly
            Whether ranks are exact.
        """
        different, place = np.unique(ranks, return_inverse=True)
        taken = np.array([self._move(gpu, network, number, exactly) for number in different.tolist()])
        reached = (backward_s[:, None] * self._lines[gpu][0] + taken[place]).max(axis=1)
        return np.where(ranks > 1, reached * (1.0 - ROUNDING), 0.0)

    def _move(self, gpu: str, network: int, ranks: int, exactly: bool) -> FloatArray:  # noqa: FBT001 - part of a key
        """Return what the bytes of each line take to move."""
        key = gpu, network, ranks, exactly
        known = self._known.get(key)
        if known is None:
            _, together, alone, asked = self._lines[gpu]
            fastest = self._ask(network, ranks, asked, exactly=exactly) if ranks > 1 else np.full(asked.size, math.inf)
            factor = volume_factor(ranks)
            known = np.concatenate((factor * together / self._offers.capacities[network], factor * alone / fastest))
            self._known[key] = known
        return known

    def _ask(self, network: int, ranks: int, sizes: FloatArray, *, exactly: bool) -> FloatArray:
        """Return the most bandwidth that transfers have alone."""
        bandwidth = self._offers.instance.bandwidth
        networks = self._offers.instance.networks_of([self._offers.type_with[network]])
        numbers = [ranks]
        if not exactly and isinstance(bandwidth, MeasuredBandwidth):
            numbers += [row for row in bandwidth.tables[networks[0][0]].ranks.tolist() if row > ranks]
        found = [bandwidth.bus_bytes_per_s(networks, number, sizes) for number in numbers]
        return np.asarray(np.max(found, axis=0), dtype=np.float64)


def _draw_lines(
    ready: FloatArray, sent: FloatArray, asked: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the shares of all lines, those of sums first; the bytes of sums, those of single ones, and their sizes.

    Of lines with a larger share and no fewer bytes the others are never above; nor is one below the straight connection
    of two others, as the bytes have one factor.
    """
    shares, together = _envelop(ready, np.cumsum(sent[::-1])[::-1])
    alone: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for size in np.unique(asked):
        own = _envelop(ready[asked == size], sent[asked == size])
        alone.append((*own, np.full(own[0].size, size)))
    single_shares, single_bytes, sizes = (np.concatenate(column) for column in zip(*alone, strict=True))
    return np.concatenate((shares, single_shares)), together, single_bytes, sizes


def _envelop(shares: FloatArray, volumes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the points that are highest in some direction between the axes, from left to right."""
    order = np.lexsort((shares, volumes))[::-1]
    kept: list[tuple[float, float]] = []
    for share, volume in zip(shares[order].tolist(), volumes[order].tolist(), strict=True):
        if kept and share <= kept[-1][0]:
            continue
        while len(kept) > 1 and _bends_in(kept[-2], kept[-1], (share, volume)):
            kept.pop()
        kept.append((share, volume))
    return np.array([share for share, _ in kept]), np.array([volume for _, volume in kept])


def _bends_in(left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]) -> bool:
    run, whole = middle[0] - left[0], right[0] - left[0]
    return (left[1] - middle[1]) * whole >= (left[1] - right[1]) * run
