"""The independent judge of divisions: pure plans with whole widths, divided until every part has a bound.

Rule ``boa-branches``. A part is all plans of one path per class, with some options closed in some epochs. The content's
``tree`` lists parts in the order in which a walk meets them, each either divided,

    ``{"class": name, "epoch": number from 1, "options": [[first, behind], ...]}``

into the plans whose class holds one of these options (positions in the class's options) in that epoch, and, after all
parts of those, the plans in which it holds another; or divided,

    ``{"class": name, "types": [name, ...]}``

into the plans whose class uses exactly these GPU types, all epochs together, and those in which it uses others or not
all of them; or closed by weights of the objective and of each limit,

    ``{"weights": [objective, limit, ...]}``, with ``"listed": true`` where that alone is not enough.

The parts of a division cover it by construction. A closed part's least weighted sum must reach what plans within the
limits b and better than the bound U stay below, w0 U + w . b; where it is listed, all its plans below that are, and
none of them may keep the limits and be better. Where a limit is dropped, its consumption takes the objective's place.
Where no bound is claimed, no part may have a plan within the limits, so that weights have 0 for the objective.

Margins: U is proven up to a relative 1e-9 of |U| + w . b / w0, but never by more than 1e-6 of |U|, and weights with
w . b > 1e6 w0 |U| prove nothing: the rounding of such sums could be taken for a proof. Without a bound, plans that
exceed limits by less than a relative 1e-9 count as keeping them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts, RefutedError
from optplan.contracts.result import TreeCertificate
from optplan.formulations.boa.data.instance import BoaInstance, Policy
from optplan.formulations.boa.judge import peak, rows, runs
from optplan.formulations.boa.judge.duality import path_costs
from optplan.formulations.boa.judge.evaluation import ROUNDING, TOLERANCE
from optplan.formulations.boa.judge.listing import OpenPaths, find_least_plan
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

RULE = "boa-branches"

#: The most that rounding may add to what a part proves, relative to the bound.
_MOST_MARGIN = 1e-6
#: The most that the limits may be worth by the weights, relative to the bound.
_MOST_WORTH = 1e6
#: Parts of a division; a search that made more has no certificate.
_MOST_PARTS = 200_000
#: GPU types of a class that sets of them are formed of.
_MOST_TYPES = 6
#: Numbers that are weighed at a time, all classes together.
_BATCH_CELLS = 2_000_000


@dataclass(frozen=True, eq=False)
class _Question:
    """What a certificate is about: costs by class, the limits (L,) that are kept, and the bound if there is one.

    ``kinds`` has by class the GPU type (K,) of each option, ``types`` the types' names.
    """

    costs: list[PathCosts]
    kinds: list[IntArray]
    types: list[tuple[str, ...]]
    limits: FloatArray
    bound: float | None

    @cached_property
    def graphs(self) -> list[OpenPaths]:
        """By class, all that is open where nothing is divided; weighs nothing."""
        return [
            OpenPaths.of_costs(each, np.zeros(1 + len(each.limits)), np.zeros(each.run_value.shape, dtype=np.bool_))
            for each in self.costs
        ]


@dataclass(frozen=True, eq=False)
class _Division:
    """One side of a division: plans whose class holds one of certain options in an epoch, or none of them.

    ``options`` is as it is listed; or there are ``sets`` (2^F,) of GPU types, of which the class uses one, or none.
    """

    number: int
    epoch: int
    is_within: bool
    options: object = None
    sets: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class _Closed:
    """A part that is not divided, and what is said to close it.

    By class that is divided, ``closed`` has the options (E, K) that are closed to it, and ``sets`` the sets (2^F,) of
    GPU types that it may use.
    """

    weights: FloatArray
    listed: bool
    closed: dict[int, NDArray[np.bool_]]
    sets: dict[int, NDArray[np.bool_]]


class _Way:
    """The divisions from all plans to the part that a walk is at: how many of them close each option, and each set.

    Coming to a part and leaving it again takes as long as its own division is, however many are behind it.
    """

    def __init__(self, question: _Question) -> None:
        self._shapes = [costs.run_value.shape for costs in question.costs]
        #: By class: how many divisions close an option (E, K), or a set of types (2^F,).
        self._closing: dict[int, IntArray] = {}
        self._barring: dict[int, IntArray] = {}
        #: By class, how many divisions there are of each kind.
        self._of_options, self._of_sets = Counter[int](), Counter[int]()

    def move(self, division: _Division, by: int) -> None:
        """Add a division (1) or take it back (-1)."""
        number = division.number
        if division.sets is not None:
            out = ~division.sets if division.is_within else division.sets
            barring = self._barring.setdefault(number, np.zeros(out.size, dtype=np.int64))
            barring += by * out
            self._of_sets[number] += by
            return
        epochs, options = self._shapes[number]
        kept = _read_options(division.options, options)
        closing = self._closing.setdefault(number, np.zeros((epochs, options), dtype=np.int64))
        closing[division.epoch] += by * (~kept if division.is_within else kept)
        self._of_options[number] += by

    def close(self, weights: FloatArray, *, listed: bool) -> _Closed:
        """Return the part, closed."""
        closed = {number: self._closing[number] > 0 for number, many in self._of_options.items() if many}
        sets = {number: self._barring[number] == 0 for number, many in self._of_sets.items() if many}
        return _Closed(weights, listed, closed, sets)


def check_tree(instance: BoaInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Check a division of the pure plans with whole widths.

    Parameters
    ----------
    instance
        Problem whole or rescaling, policy pure, with a budget; mixed where nothing is divided or listed.
    certificate
        Of the rule ``boa-branches``, or of one that a module beside this one explains: ``boa-runs`` (``runs``),
        ``boa-rows`` (``rows``) or ``boa-peak`` (``peak``); anything may stand in it.

    Raises
    ------
    RefutedError
        When the certificate does not prove its bound.
    OutOfTime
        When the stopwatch has run out.
    """
    if certificate.rule == rows.RULE:
        rows.check_rows(instance, certificate, stopwatch)
        return
    if certificate.rule == runs.RULE:
        runs.check_runs(instance, certificate, stopwatch)
        return
    if certificate.rule == peak.RULE and certificate.content.get("least_jobs") is True:
        peak.check_least_jobs(instance, certificate, stopwatch)
        return
    if certificate.rule not in {RULE, peak.RULE}:
        known = ", ".join(map(repr, (RULE, rows.RULE, runs.RULE, peak.RULE)))
        raise RefutedError(f"BOA has no rule {certificate.rule!r}; it has {known}")
    question = _pose(instance, certificate, stopwatch)
    with np.errstate(all="ignore"):  # absurd weights overflow, and prove nothing by that
        batch: list[_Closed] = []
        size = max(1, _BATCH_CELLS // sum(costs.enter_value.size for costs in question.costs))
        for closed in _read_parts(certificate.content.get("tree"), question, stopwatch):
            if instance.policy is Policy.MIXED and (closed.listed or closed.closed or closed.sets):
                raise RefutedError("mixed plans are not divided or listed: the tree has one part, closed by weights")
            batch.append(closed)
            if len(batch) == size:
                _check_batch(question, batch, stopwatch)
                batch = []
        if batch:
            _check_batch(question, batch, stopwatch)


def _pose(instance: BoaInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> _Question:
    """Return what is asked: of the objective, or of a limit that is dropped."""
    costs, names, bound = path_costs(instance), list(instance.limit_names), certificate.bound
    amounts = list(instance.limits.values())
    if certificate.rule == peak.RULE:
        costs, most = peak.add_peak(instance, certificate, stopwatch)
        names, amounts = list(costs[0].limits), [*amounts, *most]
    if bound is not None and not (np.isfinite(bound) and bound > 0.0):
        raise RefutedError("the bound is a finite number above zero, or none")
    every = [instance.options(name) for name in instance.classes]
    kinds, types = [each.group for each in every], [each.gpu_types for each in every]
    if not certificate.limit:
        return _Question(costs, kinds, types, np.array(amounts), bound)
    if certificate.limit not in names or len(names) == 1:
        raise RefutedError(f"{certificate.limit!r} is not one of several limits ({', '.join(names)})")
    dropped = names.index(certificate.limit)
    others = [number for number in range(len(names)) if number != dropped]
    limits = np.array(amounts)[others]
    turned = [
        replace(
            each,
            limits=tuple(names[number] for number in others),
            run_value=each.run_consumption[dropped],
            run_consumption=each.run_consumption[others],
            enter_value=each.enter_consumption[dropped],
            enter_consumption=each.enter_consumption[others],
        )
        for each in costs
    ]
    return _Question(turned, kinds, types, limits, bound)


def _read_parts(listed: object, question: _Question, stopwatch: Stopwatch) -> Iterator[_Closed]:
    """Walk through the parts as they are listed and yield those that are not divided."""
    if not isinstance(listed, list) or not 0 < len(listed) <= _MOST_PARTS:
        raise RefutedError(f"the content needs a list 'tree' of 1 to {_MOST_PARTS:,} parts")
    num_weights = 1 + len(question.costs[0].limits)
    numbers = {each.name: number for number, each in enumerate(question.costs)}
    way = _Way(question)
    # Sides of divisions that the walk has still to come to (1), or to leave (-1); all plans are no side of any.
    waiting: list[tuple[_Division | None, int]] = [(None, 1)]
    for entry in listed:
        stopwatch.require()
        if not _go_on(way, waiting) or not isinstance(entry, dict):
            raise RefutedError("the tree lists more than the parts of its divisions, or something that is no part")
        if "weights" in entry:
            yield way.close(_read_weights(entry["weights"], num_weights), listed=entry.get("listed") is True)
            continue
        within = _read_division(entry, question, numbers)
        waiting += [(replace(within, is_within=False), 1), (within, 1)]
    if any(by > 0 for _, by in waiting):
        raise RefutedError("the tree ends before all parts of its divisions are closed")


def _go_on(way: _Way, waiting: list[tuple[_Division | None, int]]) -> bool:
    """Leave the sides that are done, and come to the next part; False when there is none."""
    while waiting:
        division, by = waiting.pop()
        if division is not None:
            way.move(division, by)
            waiting += [(division, -1)] if by > 0 else []
        if by > 0:
            return True
    return False


def _read_division(entry: dict[str, object], question: _Question, numbers: dict[str, int]) -> _Division:
    """Return the first side of a division."""
    name, epoch = entry.get("class"), entry.get("epoch")
    number = numbers.get(name) if isinstance(name, str) else None
    if number is not None and "types" in entry:
        return _Division(number, 0, is_within=True, sets=_read_types(entry["types"], question.types[number]))
    if number is None or type(epoch) is not int or not 1 <= epoch <= len(question.costs[number].run_value):
        raise RefutedError("a division names a class and one of its epochs")
    return _Division(number, epoch - 1, is_within=True, options=entry.get("options"))


def _read_weights(given: object, size: int) -> FloatArray:
    """Return the weights (1 + L,) of objective and limits."""
    if not isinstance(given, list) or len(given) != size:
        raise RefutedError(f"a closed part has {size} weights, of the objective and of each limit")
    if not all(type(number) in (int, float) and 0.0 <= number <= 1e300 for number in given) or not any(given):
        raise RefutedError("weights are finite numbers from 0 on, not all of them 0")
    return np.array(given, dtype=float)


def _read_types(given: object, known: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return (2^F,) the one set of types that is named, among all."""
    if len(known) > _MOST_TYPES:
        raise RefutedError(f"a class with more than {_MOST_TYPES} types cannot be divided by these")
    if not isinstance(given, list) or not all(isinstance(each, str) and each in known for each in given):
        raise RefutedError(f"a division by types names some of {', '.join(known)}")
    sets = np.zeros(1 << len(known), dtype=np.bool_)
    sets[sum({1 << known.index(each) for each in given})] = True
    return sets


def _read_options(given: object, num_options: int) -> NDArray[np.bool_]:
    """Return which options (K,) stand in ranges of positions."""
    kept = np.zeros(num_options, dtype=np.bool_)
    if not isinstance(given, list) or len(given) > num_options:
        raise RefutedError("a division has a list of ranges of options")
    for pair in given:
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(end) is int for end in pair)):
            raise RefutedError("a range of options has a first position and the one behind its last")
        first, behind = pair
        if not 0 <= first < behind <= num_options:
            raise RefutedError(f"a range of options lies between 0 and {num_options}")
        kept[first:behind] = True
    return kept


def _check_batch(question: _Question, batch: list[_Closed], stopwatch: Stopwatch) -> None:
    """Check that every part of a batch is closed."""
    weights = np.array([closed.weights for closed in batch])
    least = np.zeros(len(batch))
    for number in range(len(question.costs)):
        least += _weigh_least(question, number, batch, weights, stopwatch)
        for place, closed in enumerate(batch):
            if number in closed.sets:
                stopwatch.require()
                least[place] += _open(question, number, closed).find_least()[0]
    paid = weights[:, 1:] @ question.limits
    for closed, sum_, worth in zip(batch, least.tolist(), paid.tolist(), strict=True):
        if _is_beyond(question, closed.weights[0], sum_, worth):
            continue
        if not closed.listed:
            message = f"a part's least weighted sum is {sum_!r}, which leaves room for what is said not to exist"
            raise RefutedError(message)
        _check_listed(question, closed, stopwatch)


def _is_beyond(question: _Question, objective_weight: float, least: float, paid: float) -> bool:
    """Whether a least weighted sum excludes all plans that the certificate says are none."""
    bound = question.bound
    if objective_weight == 0.0:
        return least > paid * (1.0 + TOLERANCE - ROUNDING)
    if bound is None:
        return False
    worth = paid / objective_weight
    if not worth <= _MOST_WORTH * bound:
        return False
    margin = min(TOLERANCE * (bound + worth), _MOST_MARGIN * bound)
    return bool((least - paid) / objective_weight >= bound - margin)


def _weigh_least(
    question: _Question, number: int, batch: list[_Closed], weights: FloatArray, stopwatch: Stopwatch
) -> FloatArray:
    """Return the least weighted sum (B,) of a class's paths in each part, epoch by epoch; 0 where types divide it."""
    group, graph = question.costs[number].group, question.graphs[number]
    members = [np.flatnonzero(group == left) for left in range(graph.entries.shape[1])]
    run = np.tensordot(weights, graph.steps, 1)
    for place, closed in enumerate(batch):
        if number in closed.closed:
            run[place][closed.closed[number]] = np.inf
    enter = np.tensordot(weights, graph.entries, 1)
    best = enter[:, group, 0, np.arange(group.size)] + run[:, 0]
    for epoch in range(1, run.shape[1]):
        stopwatch.require()
        entering = enter[:, :, min(epoch, enter.shape[2] - 1)]
        come = best
        for left, own in enumerate(members):
            come = np.minimum(come, best[:, own].min(axis=1, initial=np.inf)[:, None] + entering[:, left])
        best = run[:, epoch] + come
    divided = np.array([number in closed.sets for closed in batch])
    return np.where(divided, 0.0, best.min(axis=1))


def _open(question: _Question, number: int, closed: _Closed) -> OpenPaths:
    """Return what is open to a class in a part."""
    graph = question.graphs[number]
    paths = replace(graph, weights=closed.weights, closed=closed.closed.get(number, graph.closed))
    return paths if number not in closed.sets else paths.visiting(question.kinds[number], closed.sets[number])


def _check_listed(question: _Question, closed: _Closed, stopwatch: Stopwatch) -> None:
    """List what the weights leave open in a part, and check that nothing of it is what is said not to exist."""
    graphs = [_open(question, number, closed) for number in range(len(question.costs))]
    bound = question.bound
    if bound is None:
        if closed.weights[0] > 0.0:
            raise RefutedError("a part without plans is listed with weight 0 of the objective")
        found = find_least_plan(graphs, np.inf, question.limits * (1.0 + TOLERANCE - ROUNDING), stopwatch)
        if np.isfinite(found):
            raise RefutedError("a part that is said to have no plan within the limits has one")
        return
    found = find_least_plan(graphs, bound, question.limits, stopwatch)
    if found < bound * (1.0 - TOLERANCE):
        raise RefutedError(f"a listed part has a plan of {found!r}")
