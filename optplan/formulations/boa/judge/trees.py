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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts, RefutedError
from optplan.contracts.result import TreeCertificate
from optplan.formulations.boa.data.instance import BoaInstance, Policy
from optplan.formulations.boa.judge import peak, rows
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
#: Numbers of one class that are weighed at a time.
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


@dataclass(frozen=True, eq=False)
class _Part:
    """Some plans: those of the part that it is made from which hold certain options (K,) of a class in an epoch.

    Or those whose class uses, all in all, one of certain sets (2^F,) of GPU types.
    """

    whole: _Part | None = None
    number: int = 0
    epoch: int = 0
    kept: NDArray[np.bool_] | None = None
    sets: NDArray[np.bool_] | None = None

    def find_sets(self, number: int) -> NDArray[np.bool_] | None:
        """Return which sets of types (2^F,) a class may use; None where that is not divided."""
        found: NDArray[np.bool_] | None = None
        for part in self._by_class.get(number, ()):
            if part.sets is not None:
                found = part.sets if found is None else found & part.sets
        return found

    def close(self, number: int, closed: NDArray[np.bool_]) -> bool:
        """Mark in (E, K) the options that are closed to a class; return whether there are any."""
        found = False
        for part in self._by_class.get(number, ()):
            if part.kept is not None:
                closed[part.epoch] |= ~part.kept
                found = True
        return found

    @cached_property
    def _by_class(self) -> dict[int, list[_Part]]:
        """The part and all that it is made from, by the class that each of them divides."""
        found: dict[int, list[_Part]] = {}
        part: _Part | None = self
        while part is not None:
            found.setdefault(part.number, []).append(part)
            part = part.whole
        return found


@dataclass(frozen=True, eq=False)
class _Closed:
    """A part that is not divided, and what is said to close it."""

    part: _Part
    weights: FloatArray
    listed: bool


def check_tree(instance: BoaInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Check a division of the pure plans with whole widths.

    Parameters
    ----------
    instance
        Problem whole or rescaling, policy pure, with a budget; mixed where nothing is divided or listed.
    certificate
        Of the rule ``boa-branches``, or ``boa-rows`` or ``boa-peak``, which :mod:`optplan.formulations.boa.judge.rows`
        and :mod:`optplan.formulations.boa.judge.peak` explain; anything may stand in it.

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
    if certificate.rule == peak.RULE and certificate.content.get("least_jobs") is True:
        peak.check_least_jobs(instance, certificate)
        return
    if certificate.rule not in {RULE, peak.RULE}:
        raise RefutedError(f"BOA has no rule {certificate.rule!r}; it has {RULE!r}, {rows.RULE!r} and {peak.RULE!r}")
    question = _pose(instance, certificate)
    with np.errstate(all="ignore"):  # absurd weights overflow, and prove nothing by that
        batch: list[_Closed] = []
        size = max(1, _BATCH_CELLS // max(costs.run_value.size for costs in question.costs))
        for closed in _read_parts(certificate.content.get("tree"), question, stopwatch):
            if instance.policy is Policy.MIXED and (closed.listed or closed.part.whole is not None):
                raise RefutedError("mixed plans are not divided or listed: the tree has one part, closed by weights")
            batch.append(closed)
            if len(batch) == size:
                _check_batch(question, batch, stopwatch)
                batch = []
        if batch:
            _check_batch(question, batch, stopwatch)


def _pose(instance: BoaInstance, certificate: TreeCertificate) -> _Question:
    """Return what is asked: of the objective, or of a limit that is dropped."""
    costs, names, bound = path_costs(instance), list(instance.limit_names), certificate.bound
    amounts = list(instance.limits.values())
    if certificate.rule == peak.RULE:
        costs, most = peak.add_peak(instance, certificate)
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
    costs = question.costs
    numbers = {each.name: number for number, each in enumerate(costs)}
    waiting = [_Part()]
    for entry in listed:
        stopwatch.require()
        if not waiting or not isinstance(entry, dict):
            raise RefutedError("the tree lists more than the parts of its divisions, or something that is no part")
        part = waiting.pop()
        if "weights" in entry:
            yield _Closed(part, _read_weights(entry["weights"], len(costs[0].limits)), entry.get("listed") is True)
            continue
        name, epoch = entry.get("class"), entry.get("epoch")
        number = numbers.get(name) if isinstance(name, str) else None
        if number is not None and "types" in entry:
            sets = _read_types(entry["types"], question.types[number])
            waiting.append(_Part(part, number, sets=~sets))
            waiting.append(_Part(part, number, sets=sets))
            continue
        if number is None or type(epoch) is not int or not 1 <= epoch <= len(costs[number].run_value):
            raise RefutedError("a division names a class and one of its epochs")
        kept = _read_options(entry.get("options"), len(costs[number].labels))
        waiting.append(_Part(part, number, epoch - 1, ~kept))
        waiting.append(_Part(part, number, epoch - 1, kept))
    if waiting:
        raise RefutedError("the tree ends before all parts of its divisions are closed")


def _read_weights(given: object, num_limits: int) -> FloatArray:
    """Return the weights (1 + L,) of objective and limits."""
    if not isinstance(given, list) or len(given) != 1 + num_limits:
        raise RefutedError(f"a closed part has {1 + num_limits} weights, of the objective and of each limit")
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
    for number, costs in enumerate(question.costs):
        stopwatch.require()
        least += _weigh_least(costs, number, batch, weights)
        for place, closed in enumerate(batch):
            sets = closed.part.find_sets(number)
            if sets is not None:
                stopwatch.require()
                least[place] += _open(question, number, closed, sets).find_least()[0]
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


def _weigh_least(costs: PathCosts, number: int, batch: list[_Closed], weights: FloatArray) -> FloatArray:
    """Return the least weighted sum (B,) of a class's paths in each part, epoch by epoch; 0 where types divide it."""
    epochs, nodes = costs.run_value.shape
    closed = np.zeros((len(batch), epochs, nodes), dtype=np.bool_)
    any_closed = [each.part.close(number, mask) for each, mask in zip(batch, closed, strict=True)]
    run = np.tensordot(weights, np.concatenate([costs.run_value[None], costs.run_consumption]), 1)
    if any(any_closed):
        run[closed] = np.inf
    entries = np.concatenate([costs.enter_value[None], costs.enter_consumption])
    alike = bool((entries == entries[:, :, :1]).all())
    enter = np.tensordot(weights, entries[:, :, :1] if alike else entries, 1)
    members = [np.flatnonzero(costs.group == group) for group in range(costs.num_groups)]
    best = enter[:, costs.group, 0, np.arange(nodes)] + run[:, 0]
    for epoch in range(1, epochs):
        entering = enter[:, :, 0 if alike else epoch]
        come = np.minimum(best, best[:, members[0]].min(axis=1, initial=np.inf)[:, None] + entering[:, 0])
        for group in range(1, costs.num_groups):
            np.minimum(
                come, best[:, members[group]].min(axis=1, initial=np.inf)[:, None] + entering[:, group], out=come
            )
        best = run[:, epoch] + come
    divided = np.array([each.part.find_sets(number) is not None for each in batch])
    return np.where(divided, 0.0, best.min(axis=1))


def _open(question: _Question, number: int, closed: _Closed, sets: NDArray[np.bool_] | None) -> OpenPaths:
    """Return what is open to a class in a part."""
    costs = question.costs[number]
    mask = np.zeros(costs.run_value.shape, dtype=np.bool_)
    closed.part.close(number, mask)
    paths = OpenPaths.of_costs(costs, closed.weights, mask)
    return paths if sets is None else paths.visiting(question.kinds[number], sets)


def _check_listed(question: _Question, closed: _Closed, stopwatch: Stopwatch) -> None:
    """List what the weights leave open in a part, and check that nothing of it is what is said not to exist."""
    graphs = [_open(question, number, closed, closed.part.find_sets(number)) for number in range(len(question.costs))]
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
