"""The rule ``srift-fleets``: that no fleet within the limits is better than a bound, by dividing all fleets.

Read from the certificate: ``order``, the names of all types; ``trees``, a list of ``[type, batch, network, levels]``,
one for each kind of fleets of which some are divided. Everything else the judge makes itself, so that every fleet
lies in exactly one part whatever the certificate says:

* Every fleet is of one kind: its slowest VM (raw time; of equally slow ones that with the longest backward pass, the
  last GPU by name, the first type, the largest batch) and its least network (by capacity; with measured tables then by
  the table's name), numbered from the least.
* A kind is decided level by level: how many VMs of the slowest; then, by type, which batch and how many, the largest
  batch first and none before all (several batches per type: a level for each). The slowest's own type comes first,
  then types with the kind's network, then the others; within each in the certificate's ``order``.
* A part's number on its level is the place of its parent among the divided parts, times the number of options, plus
  that of the option. ``levels`` has, by level, the distances of the numbers of divided parts from one to the next, the
  first from -1. Being listed excludes nothing: it only asks the judge to look at all children instead.
* A child that is not listed must be impossible (no fleet has such VMs, or it is of another kind) or excluded: its least
  time or cost is beyond a limit, or its least objective is not below the bound, less 1e-9 of it. A fleet that never
  ends is none. Children of the last level are single fleets, which are evaluated where no bound does. How near to the
  truth the judge's own bounds are decides how far a tree has to divide (:mod:`.bounds`, :mod:`.exchanges`).

Where ``limit`` names a limit, that one is dropped, and ``bound`` is about it instead of the objective.

On trust remain rounding (:data:`~.parts.MARGIN`, and 1e-12 of each bound) and the error of quadratures (1e-6 of the
largest deviation here, 1e-9 of the straggler's time in the evaluator).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from optplan.contracts.judgement import JUDGE_TOLERANCE, RefutedError, keep_latest
from optplan.contracts.result import BoundProof, TreeCertificate
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.judge.bounds import Offers
from optplan.formulations.srift.judge.exchanges import ExchangeFloor
from optplan.formulations.srift.judge.parts import BoundClaim, KindOfFleets
from optplan.progress import Stopwatch
from optplan.schema import IntArray

RULE = "srift-fleets"
#: Numbers that a certificate may list, and the largest of them.
_MOST_NUMBERS, _LARGEST = 1 << 20, 1 << 40


def list_proofs(_: SriftInstance) -> frozenset[BoundProof]:
    """Return the kinds of certificate that prove anything about fleets: trees, whatever is asked."""
    return frozenset({BoundProof.TREE})


def check_tree(instance: SriftInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Check that a certificate proves what it claims; see the module's text."""
    claim = _read_claim(instance, certificate)
    order, trees = _read_content(instance, certificate.content)
    exchange = _know_exchanges(instance)
    kinds = {kind.key: kind for kind in exchange.offers.kinds()}
    unknown = trees.keys() - kinds.keys()
    if unknown:
        raise RefutedError(f"there are no fleets of the kind {unknown.pop()}")
    for key, kind in kinds.items():
        stopwatch.require()
        fleets = KindOfFleets(exchange, kind, order)
        if not fleets.is_excluded(claim):
            fleets.check(claim, trees.get(key, []), stopwatch)


@keep_latest  # each certificate of an instance adds to what is known of its exchanges
def _know_exchanges(instance: SriftInstance) -> ExchangeFloor:
    return ExchangeFloor(Offers(instance))


def _read_claim(instance: SriftInstance, certificate: TreeCertificate) -> BoundClaim:
    if certificate.rule != RULE:
        raise RefutedError(f"trees of this problem are read by the rule {RULE}, not {certificate.rule!r}")
    limits, limit = instance.limits, certificate.limit
    if limit and limit not in limits:
        raise RefutedError(f"the instance has no limit {limit!r} to drop")
    if certificate.bound is not None and not math.isfinite(certificate.bound):
        raise RefutedError("the bound is no finite number")
    kept = {name: amount * (1.0 + JUDGE_TOLERANCE) for name, amount in limits.items() if name != limit}
    about_cost = limit == BUDGET if limit else instance.objective is Objective.COST
    return BoundClaim(kept.get(DEADLINE, math.inf), kept.get(BUDGET, math.inf), about_cost, certificate.bound)


def _read_content(
    instance: SriftInstance, content: Mapping[str, object]
) -> tuple[list[int], dict[tuple[str, int, int], list[IntArray]]]:
    """Return the types' numbers in order, and by kind the numbers of divided parts by level."""
    if set(content) != {"order", "trees"}:
        raise RefutedError("the content must have order and trees, and nothing else")
    order, listed, names = content["order"], content["trees"], list(instance.types)
    if not isinstance(order, list) or sorted(map(repr, order)) != sorted(map(repr, names)):
        raise RefutedError("order must name every type once")
    if not isinstance(listed, list):
        raise RefutedError("trees must be a list")
    trees: dict[tuple[str, int, int], list[IntArray]] = {}
    numbers = 0
    for entry in listed:
        if not isinstance(entry, list) or len(entry) != 4:
            raise RefutedError("a tree must be a list of type, batch, network and levels")
        name, batch, network, levels = entry
        numbered = _is_number(batch) and _is_number(network)
        if not (isinstance(name, str) and numbered and isinstance(levels, list)):
            raise RefutedError("a tree must have a type, a batch, the number of a network, and levels")
        if (name, batch, network) in trees:
            raise RefutedError(f"there are two trees of the kind {(name, batch, network)}")
        found = trees[name, batch, network] = [_read_level(level) for level in levels]
        numbers += sum(level.size + 1 for level in found)
        if numbers > _MOST_NUMBERS:
            raise RefutedError(f"a certificate may list {_MOST_NUMBERS:,} numbers at most")
    return [names.index(name) for name in order], trees


def _read_level(level: object) -> IntArray:
    if not isinstance(level, list) or not all(_is_number(step) and 0 < step <= _LARGEST for step in level):
        raise RefutedError(f"a level must list whole numbers from 1 to {_LARGEST:,}")
    return np.cumsum(np.array(level, dtype=np.int64)) - 1


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
