"""Every fleet that reaches the global batch exactly, listed one by one without a dead end.

Sums of samples that the first types can reach are kept as the bits of a whole number, so that types are gone through
from the last to the first and every choice leaves a remainder that the types before can reach.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from optplan.formulations.srift.data.instance import SriftInstance, VmGroup

#: (type, count, batch) of a group.
_Choice = tuple[str, int, int]


@dataclass(frozen=True)
class CountRange:
    """How many VMs of a type a fleet may have; a least count of zero allows fleets without the type."""

    name: str
    least: int
    most: int


@dataclass
class FleetList:
    """Lists the fleets of an instance that reach its global batch; availability is said by the ranges of every list.

    ``batches`` are the samples per VM to choose from, by type, ascending.
    """

    instance: SriftInstance
    batches: Mapping[str, tuple[int, ...]]
    one_batch: bool
    _unit: int = field(init=False)
    _target: int = field(init=False)
    _mask: int = field(init=False)
    _reach: dict[tuple[CountRange, ...], int] = field(init=False)
    _order: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        samples = self.instance.global_batch
        self._unit = math.gcd(samples, *(batch for choices in self.batches.values() for batch in choices))
        self._target = samples // self._unit
        self._mask = (1 << (self._target + 1)) - 1
        self._reach = {(): 1}
        self._order = {name: number for number, name in enumerate(self.instance.types)}

    def fleets(self, ranges: Sequence[CountRange]) -> Iterator[tuple[VmGroup, ...]]:
        """List the fleets with so many VMs of each type, and none of any other type.

        Parameters
        ----------
        ranges
            One for each type that a fleet may have. Lists of many ranges with a common beginning share their work.

        Yields
        ------
        tuple of VmGroup
            In the order of the instance's types, the largest batch first.
        """
        for allowed in self._split(tuple(ranges)):
            if self._reached_by(allowed) >> self._target & 1:
                for choices in self._choose(allowed, self._target):
                    yield self._write(choices)

    def _split(self, ranges: tuple[CountRange, ...]) -> list[tuple[CountRange, ...]]:
        """Where types must not be mixed, make a list of its own for each type."""
        if self.instance.mixed:
            return [ranges]
        needed = [each for each in ranges if each.least]
        if len(needed) > 1:
            return []
        return [(CountRange(each.name, max(1, each.least), each.most),) for each in needed or ranges]

    def _reached_by(self, ranges: tuple[CountRange, ...]) -> int:
        """Return the sums that some types can reach together: bit s stands for s units of samples."""
        known = self._reach.get(ranges)
        if known is None:
            before, last = self._reached_by(ranges[:-1]), ranges[-1]
            known = self._extend_once(before, last) if self.one_batch else self._extend_any(before, last)
            self._reach[ranges] = known
        return known

    def _extend_once(self, before: int, last: CountRange) -> int:
        reached = before if last.least == 0 else 0
        for batch in self._units(last.name):
            for count in range(max(1, last.least), min(last.most, self._target // batch) + 1):
                reached |= before << (batch * count)
        return reached & self._mask

    def _extend_any(self, before: int, last: CountRange) -> int:
        reached = 0
        for sums in self._tabulate(before, last)[-1][last.least :]:
            reached |= sums
        return reached

    def _tabulate(self, before: int, last: CountRange) -> list[list[int]]:
        """Return the sums reached with the first j batches (rows) on exactly k VMs (columns) of a type."""
        table = [[before] + [0] * last.most]
        for batch in self._units(last.name):
            row = [before]
            for count in range(1, last.most + 1):
                row.append((table[-1][count] | row[-1] << batch) & self._mask)
            table.append(row)
        return table

    def _choose(self, ranges: tuple[CountRange, ...], units: int) -> Iterator[list[_Choice]]:
        """List the choices of some types that reach so many units together."""
        if not ranges:
            yield []
            return
        before, last = self._reached_by(ranges[:-1]), ranges[-1]
        pick = self._pick_once if self.one_batch else self._pick_any
        for rest, chosen in pick(before, last, units):
            for earlier in self._choose(ranges[:-1], rest):
                yield earlier + chosen

    def _pick_once(self, before: int, last: CountRange, units: int) -> Iterator[tuple[int, list[_Choice]]]:
        """List the choices of a type: the units that they leave to the types before, and the groups."""
        if last.least == 0 and before >> units & 1:
            yield units, []
        for batch in reversed(self._units(last.name)):
            for count in range(max(1, last.least), min(last.most, units // batch) + 1):
                if before >> (units - batch * count) & 1:
                    yield units - batch * count, [(last.name, count, batch * self._unit)]

    def _pick_any(self, before: int, last: CountRange, units: int) -> Iterator[tuple[int, list[_Choice]]]:
        table = self._tabulate(before, last)
        for count in range(last.least, last.most + 1):
            if table[-1][count] >> units & 1:
                yield from self._pick_batches(table, last.name, count, units)

    def _pick_batches(
        self, table: list[list[int]], name: str, count: int, units: int
    ) -> Iterator[tuple[int, list[_Choice]]]:
        """List the ways to give the first batches of the table to exactly so many VMs of a type."""
        if len(table) == 1:
            yield units, []
            return
        batch = self._units(name)[len(table) - 2]
        for number in range(min(count, units // batch), -1, -1):
            if table[-2][count - number] >> (units - number * batch) & 1:
                chosen = [(name, number, batch * self._unit)] if number else []
                for rest, others in self._pick_batches(table[:-1], name, count - number, units - number * batch):
                    yield rest, others + chosen

    def _units(self, name: str) -> list[int]:
        return [batch // self._unit for batch in self.batches[name]]

    def _write(self, choices: list[_Choice]) -> tuple[VmGroup, ...]:
        ordered = sorted(choices, key=lambda choice: (self._order[choice[0]], -choice[2]))
        return tuple(VmGroup(type=name, count=count, batch=batch) for name, count, batch in ordered)
