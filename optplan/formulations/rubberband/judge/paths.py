"""Beginnings of paths over instances held, and between which ends the minimum charges lie that they pay.

An instance whose life has mean m and variance v misses at least max(0, M - m) of a minimum charge M (Jensen), and at
most (sqrt(v + (M - m)^2) + M - m) / 2 (Scarf, 1958); nothing where one of its stages alone is certain to last so long.
The oldest instances go first: of all that came, in their order, those up to the number released so far are gone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.schema import FloatArray, IntArray

#: Pairs of a path's stages whose charges are bounded at once.
_AT_ONCE = 1 << 21


@dataclass(frozen=True, eq=False)
class Paths:
    """Beginnings of paths; arrays (L,), or (L, j) along the j stages so far.

    ``seconds`` and ``usd`` are expected so far, without minimum charges; ``ends_s`` is the expected end of each stage,
    ``variance`` the sum of the variances until then, and ``lasting`` how many stages until then are certain to last as
    long as the minimum charge.
    """

    node: IntArray
    seconds: FloatArray
    usd: FloatArray
    held: IntArray
    gpus: IntArray
    ends_s: FloatArray
    variance: FloatArray
    lasting: IntArray

    @classmethod
    def at_start(cls, seconds: FloatArray, usd: FloatArray) -> Paths:
        """Return the paths of no stage that are at each node."""
        whole, real = np.zeros((usd.size, 0), dtype=np.int64), np.zeros((usd.size, 0))
        return cls(np.arange(usd.size), seconds, usd, whole, whole, real, real, whole)

    def take(self, rows: IntArray) -> Paths:
        """Return some of them, in that order."""
        return Paths(*(column[rows] for column in vars(self).values()))

    def move(self, rows: IntArray, node: IntArray, seconds: FloatArray, usd: FloatArray) -> Paths:
        """Return what some of them are at other nodes."""
        there = self.take(rows)
        return Paths(node, seconds, usd, there.held, there.gpus, there.ends_s, there.variance, there.lasting)


def join_paths(parts: list[Paths]) -> Paths:
    """Return all paths one after another; at least one part."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return Paths(*(np.concatenate(column) for column in columns))


def list_cohorts(held: IntArray) -> IntArray:
    """Count the instances (L, J, J) requested at the start of one stage and released after another.

    ``held`` (L, J) are instances in each stage; after the last one all are released.
    """
    change = np.diff(held, axis=1, prepend=0)
    come = np.cumsum(np.maximum(change, 0), axis=1)
    gone = np.cumsum(np.maximum(-change, 0), axis=1)
    come_before = np.concatenate([np.zeros_like(come[:, :1]), come[:, :-1]], axis=1)
    gone_after = np.concatenate([gone[:, 1:], come[:, -1:]], axis=1)
    first = np.maximum(come_before[:, :, None], gone[:, None, :])
    return np.asarray(np.maximum(np.minimum(come[:, :, None], gone_after[:, None, :]) - first, 0))


def bound_charges(instance: RubberBandInstance, paths: Paths, *, whole: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return between which ends (L,) the minimum charges of paths lie, in US dollars.

    At least instances already released pay, and the others when the path is ``whole``; at most the others pay what they
    would if they went now.
    """
    if not instance.has_minimum_charges:
        nothing = np.zeros(paths.node.size)
        return nothing, nothing
    step = max(1, _AT_ONCE // paths.held.shape[1] ** 2)
    if paths.node.size > step:
        rows = np.arange(paths.node.size)
        parts = [
            bound_charges(instance, paths.take(rows[first : first + step]), whole=whole)
            for first in range(0, rows.size, step)
        ]
        return np.concatenate([least for least, _ in parts]), np.concatenate([most for _, most in parts])
    usd = instance.cloud.price_usd_per_s * list_cohorts(paths.held)
    before_s, before_variance, before_lasting = (
        np.concatenate([np.zeros_like(column[:, :1]), column[:, :-1]], axis=1)[:, :, None]
        for column in (paths.ends_s, paths.variance, paths.lasting)
    )
    provision = instance.cloud.provision_s
    # Paid from the start of the initialisation on: the request before it is not part of the life.
    mean_s = paths.ends_s[:, None, :] - before_s - provision.expected_s
    variance = np.maximum(paths.variance[:, None, :] - before_variance - provision.deviation_s**2, 0.0)
    missing_s = instance.cloud.minimum_charge_s - mean_s
    enough = paths.lasting[:, None, :] > before_lasting
    least = np.where(enough, 0.0, usd * np.maximum(missing_s, 0.0))
    most = np.where(enough, 0.0, usd * 0.5 * (np.sqrt(variance + missing_s**2) + missing_s))
    settled = least if whole else least[:, :, :-1]
    return np.asarray(settled.sum(axis=(1, 2))), np.asarray(most.sum(axis=(1, 2)))
