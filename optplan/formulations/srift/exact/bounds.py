"""Lower bounds of what fleets take, from what is known of them so far (design 4.7).

Fleets are sorted by their slowest VM: of all pairs of a type and a batch, that with the largest raw time, which must be
there, while all others may be as slow at most. For each bound the reason why no fleet can pass it stands with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from optplan.formulations.srift.data.bandwidth import MeasuredBandwidth, volume_factor
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.laws.interruptions import expected_seconds
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import ROUNDING
from optplan.units import SECONDS_PER_HOUR

#: Panels of the quadrature in standard deviations from the slowest VM's mean, and the nodes of each.
_PANELS = (-6.5, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.5, 8.0)
_PANEL_NODES = (6, 10, 10, 10, 10, 10, 10, 10, 8)
#: Deviations below this share of the largest are too sharp for those nodes.
_SHARP = 0.5
#: Error of the quadrature in the largest deviation, with so many VMs of a choice (measured with five times as many:
#: 1.4e-5).
_QUADRATURE_ERROR = 2e-5
MOST_COUNTED = 1000


@dataclass(frozen=True, slots=True)
class Choice:
    """A type of VM with one of its batches.

    Parameters
    ----------
    name
        Of the type.
    batch
        Samples per VM.
    number
        Of the type in the instance.
    raw_s
        Forward and backward seconds without deviation.
    forward_s
        The part of it that is forward.
    deviation_s
        Standard deviation of the sum.
    """

    name: str
    batch: int
    number: int
    raw_s: float
    forward_s: float
    deviation_s: float


def list_choices(instance: SriftInstance, model: IterationModel) -> list[Choice]:
    """List the pairs of a type and a batch, the quickest first.

    Of equally quick ones the evaluator takes for the slowest the one with the longest backward pass, then the last kind
    of GPU by name, then the first in the order of types, with the largest batch. Here that one comes last, so that of
    any fleet the last choice in this list is the evaluator's slowest.
    """
    found = []
    for number, (name, vm) in enumerate(instance.types.items()):
        share = instance.job.devices[vm.gpu].deviation
        for batch in instance.batches_of[name] if instance.most_of(name) else ():
            forward, backward = model.passes_s(name, batch)
            raw = forward + backward
            found.append(Choice(name, batch, number, raw, forward, share * raw))
    gpus = [vm.gpu for vm in instance.types.values()]
    return sorted(found, key=lambda each: (each.raw_s, -each.forward_s, gpus[each.number], -each.number, each.batch))


def _place_nodes() -> tuple[FloatArray, FloatArray]:
    points, weights = [], []
    for start, end, count in zip(_PANELS[:-1], _PANELS[1:], _PANEL_NODES, strict=True):
        at, weight = np.polynomial.legendre.leggauss(count)
        points.append(start + (end - start) / 2.0 * (at + 1.0))
        weights.append(weight * (end - start) / 2.0)
    return np.concatenate(points), np.concatenate(weights)


_POINTS, _WEIGHTS = _place_nodes()


class StragglerBound:
    """Bounds the mean time of the straggler from below, for fleets with one slowest choice.

    ``E[max] = a + integral from a of (1 - F)``, where F is the distribution of the largest of all VMs and F(a) is as
    good as zero. Its logarithm adds up over VMs. Three things may be left out, as each makes E[max] no larger:

    * VMs: the largest of fewer variables is nowhere larger.
    * What a VM deviates: by Jensen's inequality, max being convex, ``E[max(X, Y)] >= E[max(E[X], Y)]`` for independent
      X and Y. So a slowest choice without or with a sharp deviation stands for its mean, at which the integral starts.
    * The tail above the last node.

    Parameters
    ----------
    slowest
        The slowest choice.
    others
        All that may be in the fleet with it, none slower.
    """

    def __init__(self, slowest: Choice, others: Sequence[Choice]) -> None:
        largest = max(choice.deviation_s for choice in (slowest, *others))
        self._margin_s = _QUADRATURE_ERROR * largest + ROUNDING * slowest.raw_s
        self._at = slowest.raw_s + largest * _POINTS
        self._weights = largest * _WEIGHTS
        self._sharp = _SHARP * largest
        self._slowest = slowest
        if slowest.deviation_s <= self._sharp:
            # Above the mean only; the nodes below it are dropped with their panels.
            above = _POINTS > 0.0
            self._at, self._weights = self._at[above], self._weights[above]
            self._start_s = slowest.raw_s
        else:
            self._start_s = slowest.raw_s + largest * _PANELS[0]

    def logarithms(self, choice: Choice, counts: IntArray) -> FloatArray:
        """Return (N, Q) the logarithms of the distributions of the largest of so many VMs at the nodes.

        They are zero where the choice is left out; of very many VMs only as many count as the quadrature can do with.
        """
        if choice.deviation_s <= self._sharp:
            return np.zeros((counts.size, self._at.size))
        single = log_ndtr((self._at - choice.raw_s) / choice.deviation_s)
        return np.asarray(np.minimum(counts, MOST_COUNTED)[:, None] * single, dtype=np.float64)

    def left_out(self, choice: Choice, counts: IntArray) -> FloatArray:
        """Return (N,) by how many seconds at most E[max] is larger for so many VMs of a choice that is left out.

        With X the slowest VM and Y one that is left out, ``max(.., X, Y) <= max(.., X) + max(Y - X, 0)``, and the mean
        of the last term is that of a normal variable above zero. Infinite where no such bound is at hand.
        """
        if choice.deviation_s > self._sharp:
            return np.where(counts <= MOST_COUNTED, 0.0, np.inf)
        spread = math.hypot(choice.deviation_s, self._slowest.deviation_s)
        if spread == 0.0:
            return np.zeros(counts.size)
        distance = (self._slowest.raw_s - choice.raw_s) / spread
        density = math.exp(-0.5 * distance * distance) / math.sqrt(2.0 * math.pi)
        each_s = spread * (density - distance * float(ndtr(-distance)))
        return np.asarray(counts * each_s, dtype=np.float64)

    @property
    def whole(self) -> bool:
        """Whether the slowest choice counts with its deviation."""
        return self._slowest.deviation_s > self._sharp or self._slowest.deviation_s == 0.0

    @property
    def margin_s(self) -> float:
        """Seconds by which bounds are lowered for the error of the quadrature."""
        return self._margin_s

    def seconds(self, logarithms: FloatArray) -> FloatArray:
        """Return (N,) the least E[max] of fleets that have at least certain VMs.

        Parameters
        ----------
        logarithms
            (N, Q) Summed over those VMs, the slowest included.
        """
        integral = -(np.expm1(logarithms) @ self._weights)
        return np.asarray(self._start_s + integral - self._margin_s, dtype=np.float64)


class ExchangeBound:
    """Bounds the end of the exchange from below by straight lines in the seconds of the backward pass.

    Let transfers 1 to T be in the order in which they are ready, transfer t after the share ``r_t`` of the backward
    pass. In the simulation of 4.3:

    * All active transfers together never move more than b_cap: either their own bandwidths add up to less, or each of
      c has b_cap / c at most. The bytes of transfers t to T cannot move before ``r_t t_bw``, so
      ``t_pe >= r_t t_bw + V(t..T) / b_cap``.
    * No transfer moves faster than alone, so ``t_pe >= r_t t_bw + V_t / b_t``.

    V grows with the ranks; b_cap, and each b_t, is no larger for a set of types than for any one of them. So lines of
    one type and of fewer ranks hold for more types and more ranks, when b_t is replaced by the largest for so many
    ranks or more (the plain model's only falls; a table's is largest at that number of ranks or at a later row).

    With a constant factor at t_bw and another at the bytes, a line whose share and bytes are no larger than another's
    is never above it: of the first kind only the corners of the upper hull over (share, bytes) are kept, of the second
    those for each size that bandwidth is asked for.

    Parameters
    ----------
    instance
        The problem.
    model
        Its iterations.
    """

    def __init__(self, instance: SriftInstance, model: IterationModel) -> None:
        self._instance = instance
        #: Whether a set of types is as fast as its network with the least capacity.
        self.plain = not isinstance(instance.bandwidth, MeasuredBandwidth)
        found: dict[tuple[float, str], str] = {}
        for name in instance.types:
            label, capacity = instance.networks_of([name])[0]
            found.setdefault((capacity, "" if self.plain else label), name)
        ordered = sorted(found)
        #: A type of each network, the least capacity first.
        self._types = [found[key] for key in ordered]
        #: (M,) By type, the number of its network.
        self.network_of: list[int] = []
        for name in instance.types:
            label, capacity = instance.networks_of([name])[0]
            self.network_of.append(ordered.index((capacity, "" if self.plain else label)))
        self._capacity = [capacity for capacity, _ in ordered]
        self._sizes = np.unique(model.transfers(next(iter(instance.types.values())).gpu)[2])
        self._own: list[dict[int, FloatArray]] = [{} for _ in self._types]
        self._best: list[dict[int, FloatArray]] = [{} for _ in self._types]
        gpus = {vm.gpu for vm in instance.types.values()}
        self._lines = {gpu: _keep_lines(*model.transfers(gpu), self._sizes) for gpu in gpus}

    @property
    def networks(self) -> int:
        """How many different networks there are."""
        return len(self._types)

    def types_of(self, networks: int) -> tuple[str, ...]:
        """Return a type of each network, sorted; networks are the bits of a number."""
        return tuple(sorted(name for number, name in enumerate(self._types) if networks >> number & 1))

    def seconds(self, gpu: str, network: int, ranks: IntArray, backward_s: FloatArray, *, complete: bool) -> FloatArray:
        """Return (N,) the least t_pe of fleets.

        Parameters
        ----------
        gpu
            Of the slowest choice.
        network
            One that is in all of them.
        ranks
            (N,) That each has at least.
        backward_s
            (N,) The least seconds of its backward pass.
        complete
            Whether the fleets have exactly so many ranks.
        """
        shares, volumes, sizes = self._lines[gpu]
        known = (self._own if complete else self._best)[network]
        different, place = (ranks, 0) if ranks.size == 1 else np.unique(ranks, return_inverse=True)
        tails = np.zeros((different.size, shares.size))
        for row, number in enumerate(different.tolist()):
            if number > 1:
                if number not in known:
                    known[number] = self._ask(network, number, complete=complete)
                pace = np.append(known[number], self._capacity[network])
                tails[row] = volume_factor(number) * volumes / pace[sizes]
        reached = np.max(backward_s[:, None] * shares + tails[place], axis=1)
        return np.where(ranks > 1, reached * (1.0 - ROUNDING), 0.0)

    def _ask(self, network: int, ranks: int, *, complete: bool) -> FloatArray:
        """Return the bus bandwidth of each size among so many ranks, or the largest among so many or more."""
        bandwidth = self._instance.bandwidth
        networks = self._instance.networks_of([self._types[network]])
        found = bandwidth.bus_bytes_per_s(networks, ranks, self._sizes)
        if not complete and isinstance(bandwidth, MeasuredBandwidth):
            for more in bandwidth.tables[networks[0][0]].ranks.tolist():
                if more > ranks:
                    found = np.maximum(found, bandwidth.bus_bytes_per_s(networks, more, self._sizes))
        return found


def _keep_lines(
    ready: FloatArray, sent: FloatArray, asked: FloatArray, sizes: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return shares, bytes, and the number of the size whose bandwidth divides the bytes; the last is the capacity."""
    rows: list[tuple[float, float, int]] = []
    kinds = [(ready, np.cumsum(sent[::-1])[::-1], sizes.size)]
    kinds += [(ready[asked == size], sent[asked == size], number) for number, size in enumerate(sizes.tolist())]
    for shares, volumes, number in kinds:
        rows += [(share, volume, number) for share, volume in _upper_hull(shares, volumes)]
    columns = list(zip(*rows, strict=True))
    return np.array(columns[0]), np.array(columns[1]), np.array(columns[2], dtype=np.int64)


def _upper_hull(shares: FloatArray, volumes: FloatArray) -> list[tuple[float, float]]:
    """Return the corners where a positive combination of the two can be largest."""
    hull: list[tuple[float, float]] = []
    points = sorted(zip(shares.tolist(), volumes.tolist(), strict=True), key=lambda point: (-point[0], -point[1]))
    for share, volume in points:
        if hull and volume <= hull[-1][1]:
            continue
        while len(hull) > 1 and _below(hull[-2], hull[-1], (share, volume)):
            hull.pop()
        hull.append((share, volume))
    return hull


def _below(first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]) -> bool:
    """Whether the middle point lies on or below the segment between its neighbours (shares falling, bytes rising)."""
    across = (first[0] - last[0]) * (middle[1] - first[1]) - (first[0] - middle[0]) * (last[1] - first[1])
    return across <= 0.0


def bound_training(
    instance: SriftInstance, work_s: FloatArray, interruptions_per_hour: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (N,) the least seconds that training takes, and the least that are billed.

    Both grow with the work and with the rate (:func:`~.interruptions.expect_training`).

    Parameters
    ----------
    work_s
        (N,) Of training, at least.
    interruptions_per_hour
        (N,) Of the fleet, at least.
    """
    if instance.interruptions is None:
        return work_s, work_s
    rate_per_s = interruptions_per_hour / SECONDS_PER_HOUR * (1.0 - ROUNDING)
    total_s, billed_s = expected_seconds(work_s * (1.0 - ROUNDING), rate_per_s, instance.interruptions)
    return total_s * (1.0 - ROUNDING), billed_s * (1.0 - ROUNDING)
