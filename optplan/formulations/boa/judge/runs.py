"""The independent judge of divisions of pure plans within quotas, whose parts are bounded by runs.

Rule ``boa-runs``. A part is all plans of one path per class, with some options closed in some epochs. A *run* is a
stretch of epochs on options of one GPU type, between others on other types. In a part, each class cannot but take
something of a type's quota; a run of another class that takes more than what all of them leave, together with that
class's other epochs in which only the type is open, is in none of its plans within the limits. So a part's least
weighted sum is that of paths of other runs only.

The content's ``weights`` are lists of weights of the objective and of each limit; its ``tree`` is a list of whole
numbers, entry after entry, in the order in which a walk meets the parts:

    ``0, w``: weights number w, from 0 on, close the part;

    ``1, w``: weights number w close options in epochs, by class: those through which no path is light enough for a plan
    that is better than the bound; after that the part goes on;

    ``3, class, type, most``: the part is divided into the plans whose class has at most so many runs on a type (from 0
    on), and, after all entries of those, the plans in which it has more;

    ``2, class, epoch, first, behind``: the part is divided into the plans whose class (from 0 on) holds in that epoch
    (from 0 on) one of the options from ``first`` to before ``behind``, and, after all entries of those, the others.

A list of weights may go on with threes of numbers: class, type, and what each run of the class on the type is
charged, c, of either sign. In a part in which there are from m to M such runs, a plan pays at most c M where c > 0, and
c m where c < 0; that is added to w . b below, and counts in margins by its size.

A part's least weighted sum must reach what plans within the limits b and better than the bound U stay below,
w0 U + w . b; where no bound is claimed, weights have 0 for the objective. Where a limit is dropped, its consumption
takes the objective's place, and no run exceeds it. A part in which the classes cannot but exceed a quota together, or
in which some class has no path, has no plans. Parts cover all plans by construction, and the judge finds runs, sums and
closed options itself, so what is listed can be refuted, and can close nothing by itself.

Margins: U is proven up to a relative 1e-9 of |U| + w . b / w0, but never by more than 1e-6 of |U|, and weights with
w . b > 1e6 w0 |U| prove nothing: the rounding of such sums could be taken for a proof. Without a bound, plans that
exceed limits by less than a relative 1e-9 count as keeping them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from optplan.contracts.judgement import PathCosts, RefutedError
from optplan.contracts.result import TreeCertificate
from optplan.formulations.boa.data.instance import QUOTA, BoaInstance, Policy
from optplan.formulations.boa.judge.duality import path_costs
from optplan.formulations.boa.judge.evaluation import ROUNDING, TOLERANCE
from optplan.formulations.boa.judge.loops import ClassRuns
from optplan.progress import Stopwatch
from optplan.schema import FloatArray

RULE = "boa-runs"

#: The most that rounding may add to what a part proves, and that limits may be worth by weights, relative to the bound.
_MOST_MARGIN = 1e-6
_MOST_WORTH = 1e6
#: Where limits are worth nothing: plans that take nothing keep them.
_MORE_THAN_NOTHING = 1e-300
_MOST_CHARGE = 1e200
#: Divisions that lie within one another, and steps of one pass over a class: a proof that needs more is none.
_MOST_DEPTH = 10_000
_MOST_STEPS = 200_000_000


def check_runs(instance: BoaInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Check a division of the pure plans by parts that are bounded by runs; anything may stand in it."""
    bound = certificate.bound
    if instance.policy is not Policy.PURE:
        raise RefutedError(f"{RULE} proves bounds of pure plans")
    if bound is not None and not (np.isfinite(bound) and bound > 0.0):
        raise RefutedError("the bound is a finite number above zero, or none")
    part = _Part(instance, bound, certificate.limit, stopwatch)
    rows = _read_weights(certificate.content.get("weights"), 1 + part.limits.size)
    numbers = _read_numbers(certificate.content.get("tree"))
    with np.errstate(all="ignore"):  # absurd weights overflow, and prove nothing by that
        _walk(part, rows, numbers)


#: Class, epoch, first option and that behind the last; or class, None, type and the most runs.
_Division = tuple[int, int | None, int, int]


@dataclass(frozen=True)
class _Weights:
    """Weights (1 + L,) of the objective and of each limit; and class, type and charge of runs."""

    numbers: FloatArray
    charges: tuple[tuple[int, int, float], ...]


class _Part:
    """The part that a walk is at: by class what is open, and what runs that leaves possible."""

    def __init__(self, instance: BoaInstance, bound: float | None, dropped: str, stopwatch: Stopwatch) -> None:
        self.bound, self.stopwatch = bound, stopwatch
        every, amounts = path_costs(instance), instance.limits
        if dropped:
            every = drop_limit(every, dropped)
        names = list(every[0].limits)
        self.limits = np.array([amounts[name] for name in names])
        # Where no bound is claimed, plans that exceed limits by less than the tolerance count as keeping them.
        self._room = self.limits * (1.0 + (TOLERANCE - ROUNDING if bound is None else ROUNDING))
        self._classes, self._own = [], []
        kinds_of: list[list[int]] = []
        for costs, name in zip(every, instance.classes, strict=True):
            if not bool((costs.enter_value == costs.enter_value[:, :1]).all()):
                raise RefutedError("what coming to an option costs differs from epoch to epoch")
            options = instance.options(name)
            quotas = [f"{QUOTA}{gpu_type}" for gpu_type in options.gpu_types]
            own = np.array([names.index(each) + 1 if each in names else 0 for each in quotas])
            steps = np.concatenate([costs.run_value[None], costs.run_consumption])
            entries = np.concatenate([costs.enter_value[None], costs.enter_consumption])[:, :, 0]
            if steps[0].size * len(steps[0]) > _MOST_STEPS:
                raise RefutedError(f"a pass over class {name} takes more than {_MOST_STEPS:,} steps")
            kinds = np.searchsorted(options.group, np.arange(own.size + 1))
            parts = [slice(*ends) for ends in zip(kinds[:-1].tolist(), kinds[1:].tolist(), strict=True)]
            takes = [steps[:, :, own].any(axis=(1, 2)) | entries[:, :, own].any(axis=(1, 2)) for own in parts]
            self._classes.append(
                ClassRuns(
                    np.ascontiguousarray(steps),
                    np.ascontiguousarray(entries),
                    kinds.astype(np.intp),
                    own.astype(np.intp),
                    np.array(takes, dtype=np.uint8),
                )
            )
            self._own.append(own)
            kinds_of.append(kinds.tolist())
        #: By class and type: the fewest and the most runs; and what these were, with depths, before they were changed.
        self._counts = [np.array([np.zeros(own.size), np.full(own.size, np.inf)]) for own in self._own]
        self._before: list[tuple[int, int, int, int, float]] = []
        self._kinds = kinds_of
        self._changed = set(range(len(self._own)))
        self._needs = [np.zeros(own.size) for own in self._own]
        self._left = [np.full(own.size, np.nan) for own in self._own]

    def require_division(self, division: _Division) -> None:
        """Refuse a division that names no class, type, epoch or options."""
        number, epoch, first, behind = division
        if number >= len(self._classes):
            raise RefutedError(f"a division names one of {len(self._classes)} classes")
        if epoch is None:
            if first >= self._own[number].size:
                raise RefutedError(f"a division names one of {self._own[number].size} types")
            return
        epochs, options = self._classes[number].closed.shape
        if epoch >= epochs or not first < behind <= options:
            raise RefutedError(f"a division names one of {epochs} epochs and some of {options} options")

    def divide(self, division: _Division, depth: int, *, within: bool) -> None:
        """Go on with one side of a division."""
        number, epoch, first, behind = division
        if epoch is None:
            self._bound_runs(number, first, behind, depth, within=within)
            return
        self._classes[number].divide(epoch, first, behind, within, depth)
        self._changed.add(number)

    def _bound_runs(self, number: int, kind: int, most: int, depth: int, *, within: bool) -> None:
        """Have a class at most so many runs on a type, or more; where it has none, close the type's options."""
        counts, side = self._counts[number], int(within)
        self._before.append((depth, number, side, kind, float(counts[side, kind])))
        counts[side, kind] = min(counts[1, kind], most) if within else max(counts[0, kind], most + 1)
        if counts[1, kind] == 0:
            first, behind = self._kinds[number][kind : kind + 2]
            for epoch in range(self._classes[number].closed.shape[0]):
                self._classes[number].divide(epoch, first, behind, False, depth)
            self._changed.add(number)

    def reopen(self, depth: int) -> None:
        """Go back to what was open at a depth."""
        while self._before and self._before[-1][0] > depth:
            _, number, side, kind, old = self._before.pop()
            self._counts[number][side, kind] = old
        self._changed.update(number for number, each in enumerate(self._classes) if each.reopen(depth))

    def require_closed(self, weights: _Weights) -> None:
        """Refute unless weights close the part."""
        if not self._bind():
            return
        most = self._find_most(weights)
        if most is not None and math.fsum(self._find_least(weights)) >= most:
            return
        least = self._find_least(_Weights(np.eye(1 + self.limits.size)[0], ()))
        if math.isfinite(math.fsum(least)):  # else some class has no path that is left
            raise RefutedError("a part's least weighted sum leaves room for what is said not to exist")

    def close(self, weights: _Weights, depth: int) -> None:
        """Close options through which no path of their class is light enough."""
        most = self._find_most(weights)
        if most is None or not self._bind():
            return
        least = self._find_least(weights)
        total = math.fsum(least)
        if not math.isfinite(total):
            return
        for number, (each, own) in enumerate(zip(self._classes, least, strict=True)):
            self.stopwatch.require()
            if each.close(self._weights_of(number, weights), most - (total - own), depth):
                self._changed.add(number)

    def _find_least(self, weights: _Weights) -> list[float]:
        found = []
        for number, each in enumerate(self._classes):
            self.stopwatch.require()
            found.append(each.find_least(self._weights_of(number, weights)))
        return found

    def _weights_of(self, number: int, weights: _Weights) -> FloatArray:
        """Return the weights (1 + L,) of a class, with charges (1 + L + F,) where there are any."""
        own = np.zeros(self._own[number].size)
        for owner, kind, charge in weights.charges:
            if owner == number:
                own[kind] += charge
        return np.concatenate([weights.numbers, own]) if weights.charges else weights.numbers

    def _find_most(self, weights: _Weights) -> float | None:
        """Return what better plans of the part stay below, weighted; None where weights can prove nothing."""
        paid = []
        for number, kind, charge in weights.charges:
            if number >= len(self._own) or kind >= self._own[number].size:
                raise RefutedError(f"a charge names one of {len(self._own)} classes, and one of its types")
            paid.append(charge * float(self._counts[number][int(charge > 0.0), kind]) if charge else 0.0)
        return find_most(weights.numbers, self.limits, self.bound, paid)

    def _bind(self) -> bool:
        """Find what each class leaves to the runs of the others; return whether the part has any plan."""
        taken = np.zeros(1 + self.limits.size)
        for number, (each, own) in enumerate(zip(self._classes, self._own, strict=True)):
            for kind in np.flatnonzero(own).tolist():
                if number in self._changed:
                    self._needs[number][kind] = each.find_need(kind)
                taken[own[kind]] += self._needs[number][kind]
        if (taken[1:] > self._room).any():
            return False
        for number, (each, own) in enumerate(zip(self._classes, self._own, strict=True)):
            for kind in np.flatnonzero(own).tolist():
                left = float(self._room[own[kind] - 1] - (taken[own[kind]] - self._needs[number][kind]))
                if number in self._changed or left != self._left[number][kind]:
                    self._left[number][kind] = left
                    each.bind(kind, left)
        self._changed.clear()
        return True


def find_most(
    weights: FloatArray, limits: FloatArray, bound: float | None, charges: Sequence[float] = ()
) -> float | None:
    """Return what better plans within the limits and charges stay below, weighted; None where nothing is proven."""
    of_limits, of_runs = float(weights[1:] @ limits), sum(charges)
    size = of_limits + sum(map(abs, charges))
    if weights[0] == 0.0:
        most = of_limits + of_runs + max((TOLERANCE - ROUNDING) * size, _MORE_THAN_NOTHING)
    else:
        if bound is None or not size / weights[0] <= _MOST_WORTH * bound:
            return None
        margin = min(TOLERANCE * (bound + size / weights[0]), _MOST_MARGIN * bound)
        most = float(weights[0]) * (bound - margin) + of_limits + of_runs
    return most if math.isfinite(most) else None


def drop_limit(every: list[PathCosts], limit: str) -> list[PathCosts]:
    """Return the costs with the consumption of a limit as the value, and the others as they were."""
    names = every[0].limits
    if limit not in names or len(names) == 1:
        raise RefutedError(f"{limit!r} is not one of several limits ({', '.join(names)})")
    return [each.turned(limit) for each in every]


def _walk(part: _Part, rows: list[_Weights], numbers: Iterator[int]) -> None:
    """Walk through the parts as listed and check that each is closed, marked by 1 + the divisions it holds for."""
    waiting: list[tuple[_Division, int]] = []
    depth = 0
    while True:
        part.stopwatch.require()
        entry = _next(numbers)
        if entry in {2, 3}:
            number = _next(numbers)
            division = (number, _next(numbers) if entry == 2 else None, _next(numbers), _next(numbers))
            part.require_division(division)
            if depth >= _MOST_DEPTH:
                raise RefutedError(f"more than {_MOST_DEPTH:,} divisions lie within one another")
            waiting.append((division, depth))
            depth += 1
            part.divide(division, 1 + depth, within=True)
            continue
        at = _next(numbers)
        if entry > 3 or at >= len(rows):
            raise RefutedError(f"entries of the tree are 0 and 1, with one of {len(rows)} lists of weights, 2 and 3")
        if entry == 1:
            part.close(rows[at], 1 + depth)
            continue
        part.require_closed(rows[at])
        if not waiting:
            break
        division, above = waiting.pop()
        part.reopen(1 + above)
        depth = above + 1
        part.divide(division, 1 + depth, within=False)
    if next(numbers, None) is not None:
        raise RefutedError("the tree lists more than the parts of its divisions")


def _next(numbers: Iterator[int]) -> int:
    """Return the next number of a tree."""
    number = next(numbers, None)
    if number is None:
        raise RefutedError("the tree ends before all parts of its divisions are closed")
    return number


def _read_numbers(given: object) -> Iterator[int]:
    """Return the numbers of a tree."""
    if not isinstance(given, list) or not all(type(each) is int and 0 <= each < 1 << 31 for each in given):
        raise RefutedError("the content needs a list 'tree' of whole numbers from 0 on")
    return iter(given)


def _read_weights(given: object, size: int) -> list[_Weights]:
    """Return lists of weights (1 + L,) of the objective and of the limits, with charges on runs."""
    if not isinstance(given, list) or not all(
        isinstance(each, list) and len(each) >= size and (len(each) - size) % 3 == 0 for each in given
    ):
        lists = f"lists of {size}, of the objective and of each limit, and of threes, each of class, type and charge"
        raise RefutedError(f"the content needs a list 'weights' of {lists}")
    for row in given:
        if not all(type(number) in (int, float) and 0.0 <= number <= 1e300 for number in row[:size]) or not any(row):
            raise RefutedError("weights are finite numbers from 0 on, not all of them 0")
        places, charges = row[size::3] + row[size + 1 :: 3], row[size + 2 :: 3]
        if not all(type(place) is int and 0 <= place < 1 << 31 for place in places):
            raise RefutedError("a charge names a class and a type by numbers from 0 on")
        if not all(type(charge) in (int, float) and abs(charge) <= _MOST_CHARGE for charge in charges):
            raise RefutedError("charges are finite numbers")
    threes = [zip(row[size::3], row[size + 1 :: 3], map(float, row[size + 2 :: 3]), strict=True) for row in given]
    return [_Weights(np.array(row[:size], dtype=float), tuple(own)) for row, own in zip(given, threes, strict=True)]
