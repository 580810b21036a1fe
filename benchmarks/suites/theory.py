"""Theorem 2 of the paper in figures: what it promises of a search's final loss under a prior, as printed and corrected.

The theorem bounds the final loss with probability 1 - delta. With gamma (how fast trials converge at the slowest), F
(how terminal losses are distributed), lambda (how trials scale), u, and a bracket of N = M eta^(K-1) trials on P GPUs,

    condition  first + second <= 1,   first  = a integral from u to 1 of gamma^-1((F^-1(t) - l*)/4) dt
                                      second = b log(2 q*/delta) gamma^-1((F^-1(u) - l*)/4)
    promise    final loss - l* <= 4 (F^-1(u) - l*)

for at least one bracket j. As printed and as corrected these differ in

====================  =================================================  ===========================================
..                    printed                                            corrected
====================  =================================================  ===========================================
u                     log(2 q*/delta) / R*                               log(2 M q*/delta) / eta^(K-1), of bracket j
a                     2 eta / lambda(nu^(q*-j))                          2 eta / (lambda(P_j) t_1)
b                     20 eta^2 / (3 R* nu^(q*-j) lambda(nu^j))           10 eta / (3 N lambda(P_j) t_1)
unit of time          t_min                                              t_1 is written out
brackets              j <= q*, nu^(q*-j) eta^(K-1) trials                all with M >= 1
====================  =================================================  ===========================================

Why: the proof needs u* >= u, and R* > eta^(K-1) denies it, so that the printed promise is stronger than what is proven.
A bracket's GPUs are P[j] = nu^(j-1), in both terms. Lemmas 3 and 4 together ask for t_1 >= eta/lambda (2 integral +
10/(3 N) log(...) gamma^-1), of which Lemma 5 writes another second term and leaves t_1 out. In both readings F^-1(z) is
the least y with F(y) >= z (the paper prints <=, for which there is no least one), and p_min may be more than one GPU.
Lemma 3 is taken as the paper states it. The proof looks at each bracket as successive halving of its own, although
trials move between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from optplan.errors import UsageError
from optplan.formulations.seer.data.brackets import ROUNDING, SearchBrackets, floor_loosely
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.seer.data.prior import ParametricPrior, TablePrior
from optplan.formulations.seer.laws.expectation import require_prior
from optplan.schema import FloatArray

#: Panels of the integral, each with so many points, in equal ratios from u to 1.
_PANELS, _POINTS = 64, 12
#: Of a share times a number of runs, relative, for what floats make of it.
_ROUNDING = 1e-12


class ParametricShape:
    """Of a parametric prior the inverses of F and gamma."""

    def __init__(self, prior: ParametricPrior) -> None:
        self._prior = prior
        self.best_loss = prior.terminal_low_loss  #: The least terminal loss, l*.
        self.jumps = np.zeros(0)  #: Shares at which F^-1 jumps.

    def quantile(self, shares: FloatArray) -> FloatArray:
        """Return F^-1: the least terminal loss y with F(y) at least so much."""
        prior = self._prior
        span = prior.terminal_high_loss - prior.terminal_low_loss
        return np.asarray(prior.terminal_low_loss + span * np.asarray(shares) ** (1.0 / prior.terminal_shape))

    def minutes_within(self, distances: FloatArray) -> FloatArray:
        """Return gamma^-1: minutes on one GPU after which every trial is as near to its terminal loss; may be inf."""
        prior = self._prior
        most = prior.start_loss - prior.terminal_low_loss
        with np.errstate(divide="ignore"):
            times = np.maximum(1.0, most / np.asarray(distances, dtype=np.float64))
        progress = np.log(times) if prior.exponent is None else times ** (1.0 / prior.exponent) - 1.0
        return np.asarray(progress / prior.rate_low_per_min)


class TableShape:
    """The same of a table of past runs."""

    def __init__(self, prior: TablePrior) -> None:
        losses = np.asarray(prior.losses if prior.accuracies is None else 1.0 - prior.accuracies)
        table = np.concatenate((np.full((len(losses), 1), prior.start_loss), losses), axis=1)
        epochs = np.arange(1.0, losses.shape[1] + 1) if prior.epochs is None else prior.epochs
        away = np.abs(table - table[:, -1:]).max(axis=0)
        self._minutes = np.concatenate(([0.0], epochs * prior.epoch_min)) * prior.pace_spread
        self._falling = np.maximum.accumulate(away[::-1])[::-1]  # the most that any curve is off, from a column on
        self._ends = np.sort(table[:, -1])
        self.best_loss = float(self._ends[0])
        self.jumps = np.arange(1, self._ends.size) / self._ends.size  # one for each configuration

    def quantile(self, shares: FloatArray) -> FloatArray:
        """Return F^-1: the least last loss y with F(y) at least so much."""
        ranks = np.ceil(np.asarray(shares) * self._ends.size * (1.0 - _ROUNDING)).astype(np.int64)
        return np.asarray(self._ends[np.clip(ranks - 1, 0, self._ends.size - 1)])

    def minutes_within(self, distances: FloatArray) -> FloatArray:
        """Return gamma^-1: minutes on one GPU after which all are as near to their last loss, the table's end at most.

        Losses may be equal to the best one: then the time in which nothing is left of any distance counts.
        """
        known, falling = self._minutes, self._falling
        wanted = np.asarray(distances, dtype=np.float64)
        # Ascending negatives: the first column that is near enough.
        right = np.minimum(np.searchsorted(-falling, -wanted, side="left"), known.size - 1)
        left = np.maximum(right - 1, 0)
        drop = falling[left] - falling[right]
        share = np.divide(falling[left] - wanted, drop, out=np.ones(wanted.shape), where=drop > 0.0)
        return np.asarray(np.where(right == 0, 0.0, known[left] + share * (known[right] - known[left])))


Shape: TypeAlias = ParametricShape | TableShape


def shape_of(prior: ParametricPrior | TablePrior) -> Shape:
    """Return what the theorem asks of a prior."""
    return TableShape(prior) if isinstance(prior, TablePrior) else ParametricShape(prior)


@dataclass(frozen=True)
class GuaranteeTerm:
    """The condition for one bracket, with the figures on the way."""

    bracket: int  # j, from 1
    groups: int  # M: groups of eta^(K-1) trials, one of which is trained to the end
    share: float  # u, at most 1; F^-1(1) is the worst there is
    quantile_loss: float  # F^-1(u)
    integral_min: float  # integral from u to 1 of gamma^-1((F^-1(t) - l*)/4): minutes on one GPU
    tail_min: float  # gamma^-1((F^-1(u) - l*)/4): minutes on one GPU
    first: float  # the two terms of the condition
    second: float

    @property
    def condition(self) -> float:
        """The left-hand side, which must not be above 1."""
        return self.first + self.second

    @property
    def holds(self) -> bool:
        """Whether the condition does."""
        return self.condition <= 1.0


@dataclass(frozen=True)
class Guarantee:
    """What one reading of the theorem says."""

    best_loss: float  # l*, the least terminal loss
    terms: tuple[GuaranteeTerm, ...]  # by bracket

    @property
    def term(self) -> GuaranteeTerm:
        """The bracket that promises most; where none promises anything, the one that comes nearest."""
        holding = [each for each in self.terms if each.holds]
        if holding:
            return min(holding, key=lambda each: each.quantile_loss)
        return min(self.terms, key=lambda each: each.condition)

    @property
    def bound_loss(self) -> float | None:
        """Final loss that is not exceeded with probability 1 - delta; None where the theorem says nothing."""
        if not self.term.holds:
            return None
        return self.best_loss + 4.0 * (self.term.quantile_loss - self.best_loss)


@dataclass(frozen=True)
class Theorem2:
    """Both readings of Theorem 2."""

    delta: float  # probability with which the promise may fail
    printed: Guarantee
    corrected: Guarantee


def evaluate_theorem2(instance: SeerInstance, *, delta: float = 0.1) -> Theorem2:
    """Evaluate Theorem 2, which may fail with probability ``delta``, for the published search of an instance.

    Its prior gives gamma, F and lambda. The printed form is for p_max = infinity and takes no notice of ``most_gpus``;
    the corrected one looks at the brackets that there are.
    """
    if not 0.0 < delta < 1.0:
        raise UsageError(f"delta: got {delta!r}; a probability between 0 and 1 is needed, as 0.1")
    prior, published = require_prior(instance), instance.brackets
    if published is None:
        raise UsageError(f"instance {instance.name!r} is infeasible: there is no search whose loss could be bounded")
    shape = shape_of(prior)
    return Theorem2(
        delta=delta,
        printed=Guarantee(shape.best_loss, _list_printed(instance, shape, published, delta)),
        corrected=Guarantee(shape.best_loss, _list_corrected(instance, shape, published, delta)),
    )


def _list_printed(
    instance: SeerInstance, shape: Shape, published: SearchBrackets, delta: float
) -> tuple[GuaranteeTerm, ...]:
    """Evaluate (1) as printed, with times in units of t_min; p_min multiplies the GPUs."""
    scaling = require_prior(instance).scaling
    levels, eta, nu = published.levels, instance.eta, instance.nu
    logarithm, unit_min = math.log(2.0 * levels / delta), instance.least_round_min
    terms = []
    for j in range(1, levels + 1):
        wide = nu ** (levels - j)
        first = 2.0 * eta / scaling.of(instance.least_gpus * wide)
        second = 20.0 * eta**2 / (3.0 * published.ratio * wide * scaling.of(instance.least_gpus * nu**j))
        share = min(1.0, logarithm / published.ratio)
        factors = first / unit_min, second * logarithm / unit_min
        terms.append(_make_term(shape, j, floor_loosely(wide), share, *factors))
    return tuple(terms)


def _list_corrected(
    instance: SeerInstance, shape: Shape, published: SearchBrackets, delta: float
) -> tuple[GuaranteeTerm, ...]:
    """Evaluate the condition that the lemmas give, for every bracket that trains a trial to the end."""
    scaling = require_prior(instance).scaling
    levels, eta = published.levels, instance.eta
    group = eta ** (published.rounds - 1)
    terms = []
    for number, bracket in enumerate(published.brackets, start=1):
        groups = floor_loosely(bracket.trials[0] * (1.0 + ROUNDING) / group)
        if groups >= 1:
            share = min(1.0, math.log(2.0 * groups * levels / delta) / group)
            pace = scaling.of(bracket.gpus) * published.round_min
            second = 10.0 * eta * math.log(2.0 * levels / delta) / (3.0 * groups * group * pace)
            terms.append(_make_term(shape, number, groups, share, 2.0 * eta / pace, second))
    return tuple(terms)


def _make_term(shape: Shape, bracket: int, groups: int, share: float, first: float, second: float) -> GuaranteeTerm:
    """Return the condition of a bracket, whose terms are factors of the integral and of gamma^-1((F^-1(u) - l*)/4)."""
    quantile = shape.quantile(np.array(share))
    tail = float(shape.minutes_within((quantile - shape.best_loss) / 4.0))
    integral = _integrate(shape, share)
    last = second * tail if second else 0.0  # an infinite time times nothing is nothing
    return GuaranteeTerm(bracket, groups, share, float(quantile), integral, tail, first * integral, last)


def _integrate(shape: Shape, share: float) -> float:
    """Return the integral from u to 1 of gamma^-1((F^-1(t) - l*)/4), by Gauss's rule between the jumps of F^-1."""
    if share >= 1.0:
        return 0.0
    jumps = shape.jumps
    ends = np.unique(np.concatenate([np.geomspace(share, 1.0, _PANELS + 1), jumps[jumps > share]]))
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    half = np.diff(ends)[:, None] / 2.0
    shares = (ends[:-1, None] + ends[1:, None]) / 2.0 + half * nodes
    return float((half * weights * shape.minutes_within((shape.quantile(shares) - shape.best_loss) / 4.0)).sum())
