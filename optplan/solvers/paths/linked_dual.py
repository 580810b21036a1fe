"""The Lagrangian bound of several linking limits, the mixed plan that attains it, and its shadow prices.

For multipliers y >= 0, L(y) = sum of the graphs' least reduced costs - y . limits bounds every plan within the limits
from below, mixed plans included. L is concave and piecewise linear, and its greatest value is that of the best mixed
plan: the linear program over all paths. Column generation (Dantzig and Wolfe, "Decomposition principle for linear
programs", Operations Research 8, 1960) solves it: the paths seen so far make a restricted program, whose multipliers
ask for better paths, until no path is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optplan.solvers.limits import LIMIT_TOLERANCE, ROUNDING, is_lost, is_within, most_within
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.column_generation import Aim, ColumnGeneration, MasterSolution, Progress
from optplan.solvers.paths.families import FloatArray, IntArray, Mixture, PathBatch, PathFamily, mix_columns
from optplan.solvers.paths.search import Effort, OutOfEffortError


@dataclass(frozen=True, eq=False)
class LinkedBound:
    """The greatest Lagrangian bound at some limits."""

    #: (L,) The limits that were kept: those of the family, unless they can be kept only within the tolerance.
    limits: FloatArray
    #: (L,) Multipliers that attain the bound; 0 for limits that do not bind.
    multipliers: FloatArray
    #: L(multipliers), evaluated: no plan within the limits has less value.
    bound: float
    #: A best mixed plan: it keeps the limits within the tolerance, and its value is the bound. None when time ran out
    #: before any was found.
    mixture: Mixture | None
    #: Whether the mixture's value meets the bound; False when time ran out, or the best bound is lost in rounding.
    attained: bool
    #: (C,) All paths seen, and whose they are.
    graph: IntArray
    columns: PathBatch
    #: Passes over all graphs that it took.
    passes: int

    @property
    def num_graphs(self) -> int:
        """How many graphs there are, G."""
        return int(self.graph.max()) + 1


@dataclass(frozen=True, eq=False)
class LinkedShortfall:
    """Proof that no plan keeps all limits, not even a mixed one."""

    #: (L,) The limits.
    limits: FloatArray
    #: (L,) Weights of the limits with multipliers . limits = 1: even the least weighted consumption exceeds that.
    multipliers: FloatArray
    #: The least weighted consumption under ``multipliers``. It is the least number by which all limits together have to
    #: be multiplied; a lower bound on it when time ran out.
    factor: float
    #: (C,) All paths seen, and whose they are.
    graph: IntArray
    columns: PathBatch
    #: Passes over all graphs that it took.
    passes: int


@dataclass(frozen=True, eq=False)
class LeastLimit:
    """The least that one limit has to be while all others stay."""

    #: Its least value that some mixed plan keeps, or a lower bound on it when time ran out; infinite where no value
    #: helps, because the others cannot be kept without it either.
    least: float
    #: (L,) Proof: 1 for the limit itself, and the least weighted consumption less multipliers . (the other limits) is
    #: ``least``. Where no value helps 0, and even the least weighted consumption exceeds the limits so weighted.
    multipliers: FloatArray
    #: Whether a plan keeps the limits with ``least`` in place; False where time ran out, or no value helps.
    attained: bool


@dataclass(frozen=True, eq=False)
class PriceRange:
    """What a limit is worth, on both sides."""

    #: Value lost per unit when the limit shrinks a little, +inf where nothing less is feasible; and gained when it
    #: grows a little.
    less: float
    more: float
    #: (L,) Multipliers of all limits with which each is found. Where nothing less is feasible the first are the proof,
    #: as those of :class:`LeastLimit`.
    less_multipliers: FloatArray
    more_multipliers: FloatArray


def maximise_bound(
    family: PathFamily,
    *,
    effort: Effort | None = None,
    known: Sequence[tuple[IntArray, PathBatch]] = (),
    feasible: bool = False,
) -> LinkedBound | LinkedShortfall:
    """Return the greatest Lagrangian bound and a mixed plan that attains it, or a proof that no plan keeps the limits.

    The bound is returned always, unless the limits cannot be kept. At a limit of the effort it is the best
    one so far. ``known`` are paths of the family to begin with, and whose they are, such as those that are best at
    similar limits; where a mixture of these is known to keep the limits, ``feasible``, nobody has to look for one.
    """
    generation = ColumnGeneration(family, effort if effort is not None else Effort())
    limits, nothing = family.limits, np.zeros(family.limits.size)
    progress, feasibility = Progress(np.zeros(limits.size)), Progress(np.zeros(limits.size))
    try:
        if feasible:
            for graph, columns in known:
                generation.add(graph, columns)
            generation.minimise(Aim.least_value(limits), progress)
        elif _seed(generation, progress):
            # What is beyond a limit by no more than the tolerance is what the limit stands for.
            limits = np.maximum(limits, generation.columns.total_consumption)
        else:
            for graph, columns in known:
                generation.add(graph, columns)
            generation.find_factor(limits, feasibility)
            if feasibility.bound <= most_within(1.0):
                limits = widen(limits, feasibility)
                generation.minimise(Aim.least_value(limits), progress)
    except OutOfEffortError:
        progress.attained = False
    if feasibility.bound > most_within(1.0):
        multipliers = feasibility.multipliers / math.fsum((feasibility.multipliers * limits).tolist())
        return LinkedShortfall(
            limits, multipliers, feasibility.bound, generation.graph, generation.columns, generation.passes
        )
    if is_lost(progress.bound, float(progress.multipliers @ limits)):
        # Without multipliers there is a bound that can be trusted, though not a good one.
        progress.multipliers, progress.attained = nothing, False
        progress.bound = generation.family.best_paths(nothing).total_value
    graph, columns = generation.graph, generation.columns
    mixture = None
    if progress.master is not None:
        used = np.flatnonzero(progress.master.fractions)
        used = used[np.argsort(graph[used], kind="stable")]
        mixture = mix_columns(graph[used], progress.master.fractions[used], columns.take(used))
    return LinkedBound(
        limits=limits,
        multipliers=progress.multipliers,
        bound=progress.bound,
        mixture=mixture,
        attained=progress.attained,
        graph=graph,
        columns=columns,
        passes=generation.passes,
    )


def _seed(generation: ColumnGeneration, progress: Progress) -> bool:
    """Put the paths of least value into the pool; return whether they keep the limits and are the answer."""
    family = generation.family
    nothing = np.zeros(family.limits.size)
    free = generation.start()
    generation.add(np.arange(family.num_graphs), free)
    generation.note_bound(Aim.least_value(family.limits), progress, nothing, free)
    progress.attained = is_within(free.total_consumption, family.limits)
    if progress.attained:
        progress.master = MasterSolution(progress.bound, np.ones(family.num_graphs), nothing, free.value)
    return progress.attained


def widen(limits: FloatArray, feasibility: Progress) -> FloatArray:
    """Return the limits, larger by rounding where they can be kept within the tolerance only."""
    factor = 1.0 if feasibility.master is None else feasibility.master.objective
    # The bound says whether the limits can be kept; the master's own factor may lie a rounding error beyond that, and
    # a program without any room at all is more than the engine can tell from an infeasible one.
    factor = max(factor, feasibility.bound) * (1.0 + 0.25 * ROUNDING)
    return limits * factor if 1.0 < factor <= 1.0 + 2.0 * LIMIT_TOLERANCE else limits


def find_price_range(family: PathFamily, bound: LinkedBound, limit: int, *, effort: Effort | None = None) -> PriceRange:
    """Return the value lost per unit when a limit shrinks a little, and gained when it grows a little.

    These are shadow prices of the mixed optimum. They differ only where it has a kink in that limit; the first is +inf
    where nothing less is feasible, the second 0 where more gains nothing.
    """
    mixture = bound.mixture
    generation = ColumnGeneration(family, effort if effort is not None else Effort())
    generation.add(bound.graph, bound.columns)
    if mixture is not None and mixture.consumption[limit] < bound.limits[limit] * (1.0 - 2.0 * TUNING.small_changes[0]):
        without = np.where(np.arange(bound.multipliers.size) == limit, 0.0, bound.multipliers)
        # A limit of next to nothing may be left alone and still have its price: room there costs less than rounding.
        if not bound.multipliers[limit] or _is_best(generation, bound, without):
            return PriceRange(0.0, 0.0, without, without)
    less, more = (
        bound.multipliers if _keeps_basis(bound, limit, sign) else _find_end(generation, bound, limit, sign)
        for sign in (-1.0, 1.0)
    )
    if more is None:  # within rounding of the least
        more = bound.multipliers
    if less is None:
        proof = _prove_least(generation, bound, limit)
        if proof is not None:
            return PriceRange(math.inf, float(more[limit]), proof, more)
        less = bound.multipliers
    if less[limit] < more[limit]:  # where both are the same, rounding may turn their order
        less = more
    return PriceRange(float(less[limit]), float(more[limit]), less, more)


def _keeps_basis(bound: LinkedBound, limit: int, sign: float) -> bool:
    """Whether the mixture's paths are a basis that stays optimal a little beside a limit: so do its multipliers then.

    That is ranging of the right-hand side: one path for each graph, and a further one for each limit that binds.
    """
    mixture, binding = bound.mixture, np.flatnonzero(bound.multipliers)
    if mixture is None or not bound.attained or mixture.graph.size - bound.num_graphs != binding.size:
        return False
    change = TUNING.small_changes[0] * np.where(np.arange(bound.limits.size) == limit, sign, 0.0)
    is_base = np.diff(mixture.graph, prepend=-1) > 0
    base, extra = is_base.nonzero()[0], (~is_base).nonzero()[0]
    own = base[mixture.graph[extra]]
    shares, value = mixture.columns.consumption / bound.limits, mixture.columns.value
    steps = shares[extra] - shares[own]
    try:
        worth = np.linalg.solve(steps[:, binding], value[own] - value[extra])
        moved = np.linalg.solve(steps[:, binding].T, change[binding])
    except np.linalg.LinAlgError:
        return False
    if not np.allclose(worth, (bound.multipliers * bound.limits)[binding], rtol=TUNING.same_bound, atol=0.0):
        return False
    fraction = mixture.fraction.copy()
    fraction[extra] += moved
    np.subtract.at(fraction, own, moved)
    room = 1.0 + change - mixture.consumption / bound.limits - moved @ steps
    room[binding] = 1.0
    return bool(fraction.min() > 0.0 and room.min() > 0.0)


def _find_end(generation: ColumnGeneration, bound: LinkedBound, limit: int, sign: float) -> FloatArray | None:
    """Return multipliers (L,) that are best at a limit and a little beside it; None where none were found."""
    for change in TUNING.small_changes:
        limits = bound.limits.copy()
        limits[limit] *= 1.0 + sign * change
        feasibility, progress = Progress(np.zeros(limits.size)), Progress(np.zeros(limits.size))
        try:
            generation.find_factor(limits, feasibility)
            if feasibility.bound > 1.0 + ROUNDING:
                continue
            generation.minimise(Aim.least_value(limits), progress)
        except OutOfEffortError as error:
            if error.limit != "engine" or not bound.attained:
                raise
            continue  # a little more or less may be what HiGHS can tell
        if _is_best(generation, bound, progress.multipliers):
            return progress.multipliers
    return None


def _prove_least(generation: ColumnGeneration, bound: LinkedBound, limit: int) -> FloatArray | None:
    """Return weights (L,), 1 for the limit, by which no mixture needs less of it; None where one does."""
    found = _relax(generation, limit)
    if found.least == math.inf:  # the others are kept within the tolerance only
        return None
    if not found.attained and (generation.effort.stopwatch.expired or not bound.attained):
        raise OutOfEffortError("time")
    if not found.attained:  # HiGHS cannot tell
        return None
    return found.multipliers if found.least >= bound.limits[limit] * (1.0 - TUNING.small_changes[0]) else None


def _is_best(generation: ColumnGeneration, bound: LinkedBound, multipliers: FloatArray) -> bool:
    """Whether the bound at multipliers (L,) is as good as the greatest one, as far as rounding lets one tell.

    One that is better is not either: where the greatest was lost in rounding, a lesser one stands in its place.
    """
    paid = float(multipliers @ bound.limits)
    reached = generation.price(multipliers, 1.0).weigh(multipliers).sum() - paid
    return bool(abs(bound.bound - reached) <= TUNING.same_bound * (bound.bound + paid))


def find_relaxations(family: PathFamily, shortfall: LinkedShortfall) -> tuple[LeastLimit, ...]:
    """Return for each limit the least that it has to be for the others to be kept."""
    generation = ColumnGeneration(family, Effort())
    generation.add(shortfall.graph, shortfall.columns)
    return tuple(_relax(generation, limit) for limit in range(family.limits.size))


def _relax(generation: ColumnGeneration, limit: int) -> LeastLimit:
    """Return the least of one limit."""
    limits = generation.family.limits.copy()
    limits[limit] = math.inf
    weights = np.zeros(limits.size)
    weights[limit] = 1.0
    feasibility, progress = Progress(np.zeros(limits.size)), Progress(np.zeros(limits.size), bound=0.0)
    try:
        if limits.size > 1:
            generation.find_factor(limits, feasibility)
            if feasibility.bound > most_within(1.0):
                return LeastLimit(math.inf, feasibility.multipliers, attained=False)
        generation.minimise(Aim(0.0, weights, widen(limits, feasibility)), progress)
    except OutOfEffortError:
        progress.attained = False
    return LeastLimit(progress.bound, weights + progress.multipliers, progress.attained)
