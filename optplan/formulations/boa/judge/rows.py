"""The independent judge of rows of weights: no pure plan with whole widths keeps the limits and is better than U.

Rule ``boa-rows``. The content's ``rows`` are weights w, of the objective and of each limit, from 0 on:

    ``{"rows": [[objective, limit, ...], ...]}``

A plan within the limits b and better than U has w0 value + w . consumption < w0 U + w . b for every row. So the judge
lists all plans, class by class, and leaves out what some row excludes: a beginning of a plan whose weighted sum, with
the least that each other class adds, reaches that. The least is that of the class's paths which use exactly a set of
GPU types, once such a set is decided on. Of two beginnings that lack the same classes, with the same sets of types, one
that has no more of the objective and of any limit makes the other superfluous, whatever the rows are. What is left at
the end either exceeds a limit or is not better, or the certificate is refuted. All plans are covered by construction:
bad rows leave too much to list.

Margins are those of :mod:`optplan.formulations.boa.judge.trees`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts, RefutedError, UnlistedError, weigh
from optplan.contracts.result import TreeCertificate
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.judge.duality import path_costs
from optplan.formulations.boa.judge.evaluation import ROUNDING, TOLERANCE
from optplan.formulations.boa.judge.listing import find_undominated
from optplan.formulations.boa.judge.switching import TypedPaths
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

RULE = "boa-rows"

#: The most that rounding may add to what a row excludes, and that limits may be worth by a row, relative to the bound.
_MOST_MARGIN = 1e-6
_MOST_WORTH = 1e6
#: Rows of a certificate, and GPU types of a class.
_MOST_ROWS = 20_000
_MOST_TYPES = 6
#: Paths of a class that are few, and beginnings of paths that may be formed to find out.
_FEW = 300
_FEW_FORMED = 5_000
#: Beginnings that may be formed to list a class for some totals: more and more, all classes in turn; and for totals
#: that cannot be divided.
_FORMED = (2_000, 16_000)
_FORMED_AT_LAST = (128_000, 4_000_000)
#: Totals at once, beginnings of paths in all, and numbers that are compared at a time.
_MOST_TOTALS = 500_000
_MOST_FORMED = 40_000_000
_CELLS = 1 << 20
#: Numbers of all totals, of all beginnings of paths in a list, of least sums, and that rows and totals are weighed to
#: at a time: what bounds the memory.
_MOST_NUMBERS, _MOST_LEAST, _WEIGHED = 1 << 24, 1 << 24, 1 << 23
#: Rows under which a class is listed, or that joined totals are held against first; totals that it is listed for at a
#: time are at most so many, or leave amounts that differ by at most so much, relative to the bound.
_ROWS = 20
_PART = 400
_SPREAD = 0.016


@dataclass(eq=False)
class _Search:
    """What is looked for: better than ``bound`` within ``limits`` (L,); ``rows`` (R, 1 + L) exclude sums from (R,) on.

    ``least`` has by class (R, 1 + S) the least sums by set of types; the first is that of any set.
    """

    classes: list[TypedPaths]
    limits: FloatArray
    bound: float
    rows: FloatArray
    excluded: FloatArray
    stopwatch: Stopwatch
    least: list[FloatArray] = field(default_factory=list)
    formed: int = 0


def check_rows(instance: BoaInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Check that rows exclude every pure plan with whole widths that is better than the bound.

    Parameters
    ----------
    instance
        Problem whole or rescaling, policy pure, with a budget.
    certificate
        Of the rule ``boa-rows``; anything may stand in it.

    Raises
    ------
    RefutedError
        When the certificate does not prove its bound.
    OutOfTime
        When the stopwatch has run out.
    """
    bound, limits = certificate.bound, np.array(list(instance.limits.values()))
    if bound is None or not (np.isfinite(bound) and bound > 0.0) or certificate.limit:
        raise RefutedError("rows prove a bound on the objective, a finite number above zero")
    kinds = [instance.options(name).group for name in instance.classes]
    if max(int(kind.max()) for kind in kinds) >= _MOST_TYPES:
        raise RefutedError(f"rows divide classes of at most {_MOST_TYPES} GPU types")
    rows = _read(certificate.content.get("rows"), limits.size)
    rows = np.concatenate([rows, np.diag(np.append(0.0, 1.0 / np.maximum(limits, 1e-300)))[1:]])
    with np.errstate(all="ignore"):  # absurd weights overflow, and prove nothing by that
        rows, excluded = _find_excluded(rows, bound, limits)
        classes = [_pose(costs, kind) for costs, kind in zip(path_costs(instance), kinds, strict=True)]
        search = _Search(classes, limits, bound, rows, excluded, stopwatch)
        if len(rows) * sum(1 + each.num_sets for each in classes) > _MOST_LEAST:
            raise UnlistedError(f"{len(rows):,} rows for {len(classes):,} classes are more than are looked at")
        for each in classes:
            found = each.find_least(rows, stopwatch)
            search.least.append(np.concatenate([found.min(axis=1, keepdims=True), found], axis=1))
        _go_through(search)


def _read(given: object, num_limits: int) -> FloatArray:
    """Return the rows (R, 1 + L) as they are listed."""
    if not isinstance(given, list) or not 0 < len(given) <= _MOST_ROWS:
        raise RefutedError(f"the content needs a list 'rows' of 1 to {_MOST_ROWS:,} rows")
    for row in given:
        if not isinstance(row, list) or len(row) != 1 + num_limits:
            raise RefutedError(f"a row has {1 + num_limits} weights, of the objective and of each limit")
        if not all(type(number) in (int, float) and 0.0 <= number <= 1e300 for number in row) or not any(row):
            raise RefutedError("weights are finite numbers from 0 on, not all of them 0")
    return np.array(given, dtype=float)


def _find_excluded(rows: FloatArray, bound: float, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rows that can be trusted, scaled to what they exclude: sums from that on are excluded."""
    paid, weight = rows[:, 1:] @ limits, rows[:, 0]
    worth = np.where(weight > 0.0, paid / np.where(weight > 0.0, weight, 1.0), 0.0)
    margin = np.minimum(TOLERANCE * (bound + worth), _MOST_MARGIN * bound)
    excluded = np.where(weight > 0.0, weight * (bound - margin) + paid, paid * (1.0 + TOLERANCE - ROUNDING))
    trusted = np.isfinite(excluded) & (excluded > 0.0) & (worth <= _MOST_WORTH * bound)
    scale = bound / excluded[trusted]
    return rows[trusted] * scale[:, None], excluded[trusted] * scale


def _pose(costs: PathCosts, kind: IntArray) -> TypedPaths:
    steps = np.concatenate([costs.run_value[None], costs.run_consumption])
    entries = np.concatenate([costs.enter_value[None], costs.enter_consumption])
    return TypedPaths(steps, entries[:, :, :1] if (entries == entries[:, :, :1]).all() else entries, costs.group, kind)


@dataclass(frozen=True, eq=False)
class _Totals:
    """Beginnings of plans: sums (N, 1 + L), and by class (N, G) -1 for a path, else the set of types, 0 for any."""

    sums: FloatArray
    sets: IntArray

    def take(self, places: IntArray | NDArray[np.bool_] | slice) -> _Totals:
        return _Totals(self.sums[places], self.sets[places])

    @classmethod
    def join(cls, parts: Sequence[_Totals]) -> _Totals:
        return cls(np.concatenate([part.sums for part in parts]), np.concatenate([part.sets for part in parts]))


def _go_through(search: _Search) -> None:
    """List all plans but those that are excluded or undercut, and refuse the first that should not be."""
    width, count = search.rows.shape[1], len(search.classes)
    totals = _Totals(np.zeros((1, width)), np.zeros((1, count), dtype=np.intp))
    totals, later = _join_small(search, totals)
    for number in later:
        totals = _choose_sets(search, totals, number)
    for _ in later:
        totals = _undercut(_lengthen_all(search, totals), search.stopwatch)
    _refuse(search, totals)


def _choose_sets(search: _Search, totals: _Totals, number: int) -> _Totals:
    """Return the totals with each set of types that a class may use, but those that are excluded."""
    many, kept, count = search.classes[number].num_sets, [totals.take(slice(0))], 0
    step = max(1, _MOST_TOTALS // many)
    for first in range(0, len(totals.sums), step):
        part = totals.take(slice(first, first + step))
        part = _Totals(np.repeat(part.sums, many, axis=0), np.repeat(part.sets, many, axis=0))
        part.sets[:, number] = np.tile(np.arange(1, many + 1), len(part.sums) // many)
        kept.append(_exclude(search, part))
        count += len(kept[-1].sums)
        _require(search, count)
    return _Totals.join(kept)


def _lengthen_all(search: _Search, totals: _Totals) -> _Totals:
    """Join one more class to all totals, to those together that leave about the same."""
    waiting, longer, count = _divide(totals), [totals.take(slice(0))], 0
    while waiting:
        search.stopwatch.require()
        part = waiting.pop()
        halves = _halve(part, search, _PART, _SPREAD)
        found = None if halves else _lengthen(search, part, _FORMED)
        if found is None:
            halves = halves or _halve(part, search)
            found = None if halves else _lengthen(search, part, _FORMED_AT_LAST)
        if found is not None:
            longer.append(found)
            count += len(found.sums)
            _require(search, count)
        elif halves:
            waiting += halves
        else:
            raise UnlistedError(f"the rows leave more than {_FORMED_AT_LAST[-1]:,} beginnings of paths")
    return _Totals.join(longer)


def _divide(totals: _Totals) -> list[_Totals]:
    """Divide totals by the sets of the classes to come."""
    _, which = np.unique(totals.sets, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(which.ravel()))[:-1])
    return [totals.take(part) for part in parts if part.size]


def _undercut(totals: _Totals, stopwatch: Stopwatch | None = None) -> _Totals:
    """Return the totals but those that another one with the same sets to come undercuts in value and every limit.

    What goes on from the latter, goes on from the former, keeps the limits, and is at least as good.
    """
    if not len(totals.sums):
        return totals
    _, which = np.unique(totals.sets, axis=0, return_inverse=True)
    return totals.take(find_undominated(which.ravel(), totals.sums, stopwatch))


def _refuse(search: _Search, totals: _Totals) -> None:
    """Refuse complete plans that keep the limits and are better than the bound."""
    fits = (totals.sums[:, 1:] <= search.limits).all(axis=1)
    best = float(totals.sums[fits, 0].min(initial=np.inf))
    if best < search.bound * (1.0 - TOLERANCE):
        raise RefutedError(f"the rows leave a plan of {best!r}")


def _join_small(search: _Search, totals: _Totals) -> tuple[_Totals, list[int]]:
    """Join the classes that have few paths; return the totals, and the classes that have many."""
    later = []
    for number in sorted(range(len(search.classes)), key=lambda number: search.classes[number].num_epochs):
        lists: list[tuple[int, FloatArray]] | None = []
        for kinds in range(1, search.classes[number].num_sets + 1):
            found = _list_paths(search, totals, number, kinds, _FEW_FORMED)
            lists = None if found is None or lists is None else [*lists, (kinds, found)]
            if lists is None or sum(len(each) for _, each in lists) > _FEW:
                lists = None
                break
        if lists is None:
            later.append(number)
        elif len(totals.sums):
            parts = [_join(search, totals, number, sums) for _, sums in lists]
            totals = _undercut(_Totals.join(parts), search.stopwatch)
    return totals, later


def _halve(totals: _Totals, search: _Search, few: int = 0, spread: float = 0.0) -> list[_Totals]:
    """Divide totals by what they leave; nothing where they are few and leave about the same, or all leave the same."""
    spreads = np.ptp(totals.sums, axis=0) * np.median(search.rows, axis=0) / search.bound
    widest = int(spreads.argmax())
    middle = 0.5 * (totals.sums[:, widest].min() + totals.sums[:, widest].max())
    low = totals.sums[:, widest] <= middle
    if low.all() or (len(low) <= few and spreads[widest] < spread):
        return []
    return [totals.take(low), totals.take(~low)]


def _lengthen(search: _Search, totals: _Totals, formed: Sequence[int]) -> _Totals | None:
    """Join the class that is quickest to list for some totals, which have the same sets; None where none is."""
    left = np.flatnonzero(totals.sets[0] >= 0).tolist()
    for most in formed:
        for number in left:
            found = _list_paths(search, totals, number, int(totals.sets[0, number]), most)
            if found is not None:
                return _join(search, totals, number, found)
    return None


def _list_paths(search: _Search, totals: _Totals, number: int, kinds: int, most: int) -> FloatArray | None:
    """List the sums of a class's paths that some of the totals may have; None where too much has to be formed."""
    if not len(totals.sums):
        return totals.sums
    room = np.full(len(search.rows), -np.inf)
    for part in _split(totals, _WEIGHED // len(search.rows)):
        search.stopwatch.require()
        np.maximum(room, (search.excluded - _weigh(search, part, number)).max(axis=0), out=room)
    spare = room - search.least[number][:, kinds]
    if spare.min() < 0.0:
        return totals.sums[:0]
    paths = search.classes[number]
    rows = min(_ROWS, _MOST_NUMBERS // paths.count_looked_at(kinds))
    if not rows:
        raise UnlistedError("a class has more options than are looked at")
    tight = np.argsort(spare, kind="stable")[:rows]
    most = min(most, _MOST_NUMBERS // search.rows.shape[1])
    found = paths.list_sums(kinds, search.rows[tight], room[tight], most, search.stopwatch)
    search.formed += found[1]
    if search.formed > _MOST_FORMED:
        raise UnlistedError(f"the rows leave more than {_MOST_FORMED:,} beginnings of paths")
    return found[0]


def _weigh(search: _Search, totals: _Totals, apart: int = -1) -> FloatArray:
    """Return (N, R) the sums of totals weighted by rows, with the least that classes to come add, one apart."""
    sums = weigh(search.rows, totals.sums.T).T
    for number, least in enumerate(search.least):
        come = np.flatnonzero(totals.sets[:, number] >= 0) if number != apart else np.empty(0, dtype=np.intp)
        if come.size:
            sums[come] += least[:, totals.sets[come, number]].T
    return np.asarray(sums)


def _exclude(search: _Search, totals: _Totals) -> _Totals:
    """Return the totals that no row excludes."""
    kept = [totals.take(slice(0))]
    for part in _split(totals, _CELLS // len(search.rows)):
        search.stopwatch.require()
        kept.append(part.take(np.flatnonzero((_weigh(search, part) < search.excluded).all(axis=1))))
    return _Totals.join(kept)


def _split(totals: _Totals, size: int) -> Iterator[_Totals]:
    """Yield totals in runs of a size, which is 1 at least."""
    for first in range(0, len(totals.sums), max(1, size)):
        yield totals.take(slice(first, first + max(1, size)))


def _join(search: _Search, totals: _Totals, number: int, paths: FloatArray) -> _Totals:
    """Return the totals with each of a class's paths, but those that are excluded."""
    parts, kept = [totals.take(slice(0))], 0
    step = max(1, _WEIGHED // len(search.rows))
    for first in range(0, len(paths), step):
        some = paths[first : first + step]
        costs = weigh(search.rows, some.T)
        for whole in _split(totals, step):
            for many in _join_some(search, whole, number, some, costs, kept):
                parts.append(many)
                kept += len(many.sums)
    return _Totals.join(parts)


def _join_some(
    search: _Search, totals: _Totals, number: int, paths: FloatArray, costs: FloatArray, kept: int
) -> Iterator[_Totals]:
    """Yield what :func:`_join` is asked for, of totals and paths whose weighted sums, ``costs`` (R, P), fit at once."""
    room = search.excluded - _weigh(search, totals, number)
    # Rows that leave least are asked first: hardly anything is left for the others.
    order = np.argsort(room.max(axis=0) - costs.min(axis=1), kind="stable").tolist()
    step = max(1, _CELLS // len(paths))
    for first in range(0, len(totals.sums), step):
        search.stopwatch.require()
        part = room[first : first + step]
        whose, place = np.nonzero(costs[order[0]] < part[:, order[0], None])
        for row in order[1:]:
            search.stopwatch.require()
            kept_on = costs[row, place] < part[whose, row]
            if not kept_on.all():
                whose, place = whose[kept_on], place[kept_on]
        kept += whose.size
        _require(search, kept)
        many = totals.take(first + whose)
        many.sums[:] += paths[place]
        many.sets[:, number] = -1
        yield many


def _require(search: _Search, count: int) -> None:
    most = min(_MOST_TOTALS, _MOST_NUMBERS // (search.rows.shape[1] + len(search.classes)))
    if count > most:
        raise UnlistedError(f"the rows leave more than {most:,} beginnings of plans")
