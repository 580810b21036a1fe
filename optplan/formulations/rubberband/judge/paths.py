"""Beginnings of paths over instances held, for the judge: their minimum charges, and which are worth going on with.

An instance whose life has mean m and variance v misses at least max(0, M - m) of a minimum charge M (Jensen), and at
most (sqrt(v + (M - m)^2) + M - m) / 2 (Scarf, 1958); nothing where one of its stages alone is certain to last so long.
The oldest instances go first: of all that came, in their order, those up to the number released so far are gone. Whole
paths are charged exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import JUDGE_TOLERANCE
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.laws.lifetimes import latest_law
from optplan.formulations.rubberband.laws.stages import StageOptions, stage_cdf, stage_law
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

#: Pairs of a path's stages whose charges are bounded at once.
_AT_ONCE = 1 << 21


@dataclass(frozen=True, eq=False)
class Paths:
    """Beginnings of paths; (L,), or (L, j) by stage: expected sums without minimum charges, ends and their variance."""

    node: IntArray
    seconds: FloatArray
    usd: FloatArray
    held: IntArray
    gpus: IntArray
    ends_s: FloatArray
    variance: FloatArray
    lasting: IntArray

    @classmethod
    def at_start(cls, seconds: FloatArray, usd: FloatArray, stages: int = 0) -> Paths:
        """Return paths that are at each node, of no stage, or else none."""
        whole, real = np.zeros((usd.size, stages), dtype=np.int64), np.zeros((usd.size, stages))
        return cls(np.arange(usd.size), seconds, usd, whole, whole, real, real, whole)

    def take(self, rows: IntArray) -> Paths:
        """Return some of them, in that order."""
        return Paths(*(column[rows] for column in vars(self).values()))


def join_paths(parts: list[Paths]) -> Paths:
    """Return all paths one after another; at least one part."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return Paths(*(np.concatenate(column) for column in columns))


def list_cohorts(held: IntArray) -> IntArray:
    """Count the instances (L, J, J) requested before one stage and released after another, from (L, J) held."""
    change = np.diff(held, axis=1, prepend=0)
    come = np.cumsum(np.maximum(change, 0), axis=1)
    gone = np.cumsum(np.maximum(-change, 0), axis=1)
    come_before = np.concatenate([np.zeros_like(come[:, :1]), come[:, :-1]], axis=1)
    gone_after = np.concatenate([gone[:, 1:], come[:, -1:]], axis=1)
    first = np.maximum(come_before[:, :, None], gone[:, None, :])
    return np.asarray(np.maximum(np.minimum(come[:, :, None], gone_after[:, None, :]) - first, 0))


def bound_charges(
    instance: RubberBandInstance, paths: Paths, *, whole: bool = False, latest_s: float = math.inf
) -> tuple[FloatArray, FloatArray]:
    """Return between which ends (L,) minimum charges lie: if instances went now, or stayed until ``latest_s``."""
    if not instance.has_minimum_charges:
        nothing = np.zeros(paths.node.size)
        return nothing, nothing
    step = max(1, _AT_ONCE // paths.held.shape[1] ** 2)
    if paths.node.size > step:
        rows = np.arange(paths.node.size)
        parts = [
            bound_charges(instance, paths.take(rows[first : first + step]), whole=whole, latest_s=latest_s)
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
    missing_s = instance.cloud.minimum_charge_s - (paths.ends_s[:, None, :] - before_s - provision.expected_s)
    variance = np.maximum(paths.variance[:, None, :] - before_variance - provision.deviation_s**2, 0.0)
    enough = paths.lasting[:, None, :] > before_lasting
    least_s = missing_s.copy()
    if not whole:
        least_s[:, :, -1] -= np.maximum(latest_s - paths.ends_s[:, -1:], 0.0)
    least = np.where(enough, 0.0, usd * np.maximum(least_s, 0.0))
    most = np.where(enough, 0.0, usd * 0.5 * (np.sqrt(variance + missing_s**2) + missing_s))
    return np.asarray(least.sum(axis=(1, 2))), np.asarray(most.sum(axis=(1, 2)))


#: A missing minimum charge below this share of the cost is none.
_NO_CHARGE = 1e-13


class ChargedOptions:
    """The options of one bracket's stages, and what paths of them pay of minimum charges."""

    def __init__(
        self, instance: RubberBandInstance, bracket: int, options: list[StageOptions], stopwatch: Stopwatch
    ) -> None:
        self.instance = instance
        self.bracket = bracket
        self.options = options
        self.stopwatch = stopwatch
        self._described: dict[tuple[int, int], tuple[float, float]] = {}

    def observe(self, paths: Paths, stage: int, choice: IntArray, held: IntArray) -> tuple[FloatArray, IntArray]:
        """Return (L,) the sum of the variances and how many stages are certain to last, after options of a stage."""
        variance, lasting = np.zeros(choice.size), np.zeros(choice.size, dtype=np.int64)
        if not self.instance.has_minimum_charges:
            return variance, lasting
        added = held - (paths.held[:, -1] if stage else 0)
        for place, figure in ((choice, self._describe_option), (np.maximum(added, 0), self._describe_growth)):
            different, back = np.unique(place, return_inverse=True)
            figures = np.array([figure(stage, each) for each in different.tolist()]).reshape(-1, 2)[back]
            variance, lasting = variance + figures[:, 0], lasting + figures[:, 1].astype(np.int64)
        if stage:
            variance, lasting = variance + paths.variance[:, -1], lasting + paths.lasting[:, -1]
        return variance, lasting

    def _describe_option(self, stage: int, option: int) -> tuple[float, float]:
        """Return the variance of a stage's time, and 1 where it is certain to last as long as the minimum charge."""
        key = (stage, option)
        if key not in self._described:
            options, minimum_s = self.options[stage], self.instance.cloud.minimum_charge_s * (1.0 - JUDGE_TOLERANCE)
            if self.instance.is_random:
                self.stopwatch.require()
                asked = self.instance, self.bracket, stage, int(options.gpus[option])
                lasts = stage_cdf(*asked, np.array([minimum_s]))[0] <= _NO_CHARGE
                self._described[key] = stage_law(*asked).deviation_s ** 2, float(lasts)
            else:
                self._described[key] = 0.0, float(options.expected_s[option] > minimum_s)
        return self._described[key]

    def _describe_growth(self, stage: int, added: int) -> tuple[float, float]:  # noqa: ARG002 - as that of options
        """Return the variance of getting so many instances; no growth is ever held to last."""
        if not added or not self.instance.is_random:
            return 0.0, 0.0
        provision, latest = self.instance.cloud.provision_s, latest_law(self.instance, added)
        return provision.deviation_s**2 + latest.deviation_s**2, 0.0

    def may_apply(self) -> bool:
        """Whether some stage may be over before a minimum charge is used up."""
        if not self.instance.has_minimum_charges:
            return False
        return any(
            not self._describe_option(stage, option)[1]
            for stage, options in enumerate(self.options)
            for option in range(options.gpus.size)
        )

    def missing_after(self, stage: int, option: int) -> float:
        """Return E[max(minimum charge - time, 0)] of an option of a stage; 0 without such charges."""
        if not self.vary:
            return 0.0
        self.stopwatch.require()
        law = stage_law(self.instance, self.bracket, stage, int(self.options[stage].gpus[option]))
        return float(law.shortfall(np.array([self.instance.cloud.minimum_charge_s]))[0])

    @cached_property
    def vary(self) -> bool:
        """Whether lives are random, so that charges are known exactly only at the end."""
        return self.instance.has_minimum_charges and self.instance.is_random


@dataclass(frozen=True, eq=False)
class Cut:
    """Paths whose weighted sum is within a limit with the least that can follow (K,), ``ahead`` with the stage."""

    usd_weight: float
    s_weight: float
    limit: float
    rest: list[FloatArray]
    ahead: list[FloatArray]

    def weigh(self, seconds: FloatArray, usd: FloatArray) -> FloatArray:
        """Return weighted sums."""
        return self.usd_weight * usd + self.s_weight * seconds

    def admits(self, seconds: FloatArray, usd: FloatArray, ahead: FloatArray | float = 0.0) -> NDArray[np.bool_]:
        """Say which sums are within the limit with the least that is ahead of them."""
        return np.asarray(self.weigh(seconds, usd) + ahead <= self.limit)
