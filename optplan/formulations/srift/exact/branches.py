"""The fleets of one kind, decided type by type, the slowest choice first: what can be chosen, and lower bounds.

A kind of fleets has one slowest choice and one network of least capacity; every fleet is of one kind. Where the VMs of
a type may get several batches, each batch is a level of its own. Many fleets of which only the first types are decided
are looked at together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.exact.bounds import (
    MOST_NETWORKS,
    QUANTITIES,
    Choice,
    ExchangeBound,
    Level,
    Remainders,
    StragglerBound,
    bound_training,
)
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import ROUNDING


@dataclass(frozen=True)
class Setting:
    """What all branches of an instance share."""

    instance: SriftInstance
    choices: list[Choice]  # the quickest first
    order: list[int]  # (M,) numbers of the types in the order of decisions
    exchange: ExchangeBound

    @cached_property
    def amounts(self) -> FloatArray:
        """(M, 3) Price in US dollars per second, ranks and VMs of one VM of each type."""
        return np.array([[vm.price_usd_per_s, float(vm.gpus), 1.0] for vm in self.instance.types.values()])

    @cached_property
    def most(self) -> list[int]:
        """(M,) VMs of each type that a fleet can have."""
        return [self.instance.most_of(name) for name in self.instance.types]


@dataclass(frozen=True, order=True)
class Kind:
    """What the fleets of a branch have in common."""

    position: int  # of the slowest choice
    network: int | None  # the one with the least capacity, which is there; None: not told apart


def list_kinds(setting: Setting) -> list[Kind]:
    """List the kinds of fleets; every fleet is of one kind."""
    exchange, found = setting.exchange, []
    for position, slowest in enumerate(setting.choices):
        own = exchange.network_of[slowest.number]
        if exchange.networks > MOST_NETWORKS:
            found.append(Kind(position, None))
            continue
        present = {exchange.network_of[choice.number] for choice in setting.choices[:position]} | {own}
        if not setting.instance.mixed:
            present = {own}
        found += [Kind(position, network) for network in sorted(present) if network <= own]
    return found


def list_others(setting: Setting, kind: Kind) -> list[Choice]:
    """List the choices that fleets of a kind can have besides the slowest."""
    own, network = setting.choices[kind.position].number, kind.network
    found = setting.choices[: kind.position]
    # A type's VMs have one batch where the instance says so, and the slowest choice has that of its own type.
    if setting.instance.one_batch_per_type:
        found = [each for each in found if each.number != own]
    if not setting.instance.mixed:
        found = [each for each in found if each.number == own]
    return [each for each in found if network is None or setting.exchange.network_of[each.number] >= network]


@dataclass(frozen=True, eq=False)
class Nodes:
    """Fleets that are decided up to one level of one branch; arrays over them."""

    #: (N,) Places among all that the fleets one level before could become: place of that fleet times the number of
    #: options, plus the number of the option.
    numbers: IntArray
    picks: IntArray  # (N, levels) number of the option at each level
    rest: IntArray  # (N,) samples that no VM has yet
    amounts: FloatArray  # (3, N) price in US dollars per second, ranks and VMs so far
    used: IntArray  # (N,) VMs of the last type so far
    launched: IntArray  # (N,) whether VMs are launched
    risk: FloatArray  # (N,) interruptions per hour so far
    networks: IntArray  # (N,) bits of the networks that are there
    #: (N,) Lower bounds of what any fleet takes that each can become; none before they are known.
    time_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    cost_usd: FloatArray = field(default_factory=lambda: np.zeros(0))
    vms: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return self.rest.size

    @property
    def level(self) -> int:
        """The first level that is undecided."""
        return int(self.picks.shape[1])

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the fleets of all parts, in their order."""
        columns = {each.name: [getattr(part, each.name) for part in parts] for each in fields(cls)}
        last = {"amounts": 1}
        return cls(**{name: np.concatenate(each, axis=last.get(name, 0)) for name, each in columns.items()})

    def take(self, which: IntArray | slice) -> Self:
        """Return some of the fleets."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        amounts = values.pop("amounts")
        return type(self)(amounts=amounts[:, which], **{name: value[which] for name, value in values.items()})


#: Says of fleets, by lower bounds of their time, cost and VMs, which are worth keeping.
Keeps = Callable[[FloatArray, FloatArray, FloatArray], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class _Options:
    """What can be chosen at a level; arrays over the options. The first is to take no VM, but of the slowest choice."""

    number: int
    batches: IntArray
    counts: IntArray
    samples: IntArray
    amounts: FloatArray
    risk: FloatArray
    networks: IntArray
    logarithms: FloatArray
    running: int
    available: int
    starts_type: bool
    ends_type: bool


class Branch:
    """The fleets of one kind."""

    def __init__(self, setting: Setting, kind: Kind) -> None:
        self._setting, self.kind = setting, kind
        self._slowest = setting.choices[kind.position]
        self._network = kind.network
        self._names = list(setting.instance.types)
        others = list_others(setting, kind)
        self._straggler = StragglerBound(self._slowest, others)
        columns = [[self._slowest], *self._divide(others)]
        self._forward = self._slowest.forward_s / self._slowest.raw_s if self._slowest.raw_s > 0.0 else 0.0
        self._gpu = setting.instance.types[self._slowest.name].gpu
        self._remainders = Remainders([self._level(column) for column in columns[1:]], setting.instance.global_batch)
        self._options = [self._list_options(columns, place) for place in range(len(columns))]
        #: Whether some type that must be there cannot be.
        present, types = {self._slowest.name, *(each.name for each in others)}, setting.instance.types
        self._impossible = any(vm.running and name not in present for name, vm in types.items())
        #: After how many levels the network must be there; zero where it is there from the start.
        self._settled = 0
        if kind.network is not None and kind.network != setting.exchange.network_of[self._slowest.number]:
            networks = [setting.exchange.network_of[column[0].number] for column in columns]
            self._settled = 1 + max(place for place, network in enumerate(networks) if network == kind.network)

    @property
    def levels(self) -> int:
        """How many decisions there are."""
        return len(self._options)

    def widest(self, level: int) -> int:
        """Return how many options there are at a level."""
        return self._options[level].counts.size

    def start(self, keeps: Keeps) -> Nodes:
        """Return the fleets worth keeping in which only the number of VMs of the slowest choice is decided."""
        none, batch = np.zeros(1, dtype=np.int64), np.array([self._setting.instance.global_batch])
        picks, amounts = np.zeros((1, 0), dtype=np.int64), np.zeros((QUANTITIES, 1))
        root = Nodes(none, picks, batch, amounts, used=none, launched=none, risk=np.zeros(1), networks=none)
        return root.take(none[:0]) if self._impossible else self.decide(root, keeps)

    def decide(self, nodes: Nodes, keeps: Keeps) -> Nodes:
        """Decide one more level of nodes that are all of one level."""
        level = nodes.level
        options = self._options[level]
        rest = nodes.rest[:, None] - options.samples
        used = options.counts + (0 if options.starts_type else nodes.used[:, None])
        possible = (rest >= 0) & (used <= options.available)
        if options.ends_type:
            possible &= used >= options.running
        if level + 1 == self.levels:
            possible &= rest == 0
        if self._network is not None and level + 1 == self._settled:
            there = nodes.networks[:, None] | options.networks
            possible &= (there >> self._network & 1).astype(np.bool_)
        parent, option = np.nonzero(possible)
        rest, used = rest[parent, option], np.broadcast_to(used, possible.shape)[parent, option]
        if level + 1 == self.levels:
            least_more = np.where(rest == 0, 0.0, np.inf) * np.ones((QUANTITIES, 1))
        else:
            least_more = self._remainders.least(level, rest)
        amounts = nodes.amounts[:, parent] + options.amounts[:, option]
        kept = np.flatnonzero(np.isfinite(least_more[0]))
        parent, option, rest, used = parent[kept], option[kept], rest[kept], used[kept]
        least_more, amounts = least_more[:, kept], amounts[:, kept]
        decided = Nodes(
            numbers=parent * options.counts.size + option,
            picks=np.column_stack([nodes.picks[parent], option]),
            rest=rest,
            amounts=amounts,
            used=used,
            launched=nodes.launched[parent] | (used > options.running),
            risk=nodes.risk[parent] + options.risk[option],
            networks=nodes.networks[parent] | options.networks[option],
        )
        logarithms = self._sum_logarithms(nodes)[parent] + options.logarithms[option]
        return self._assess(decided, logarithms, least_more, keeps)

    def write(self, picks: IntArray) -> tuple[VmGroup, ...]:
        """Return the groups of a fleet, in the order of the instance's types, the largest batch first."""
        found = [
            (options.number, int(options.batches[pick]), int(options.counts[pick]))
            for options, pick in zip(self._options, picks.tolist(), strict=True)
            if options.counts[pick]
        ]
        found.sort(key=lambda group: (group[0], -group[1]))
        return tuple(VmGroup(type=self._names[number], count=count, batch=batch) for number, batch, count in found)

    def _divide(self, others: Sequence[Choice]) -> list[list[Choice]]:
        """Sort choices into levels, largest batch first: the slowest's type, those of the network due, the others."""
        own, network_of = self._slowest.number, self._setting.exchange.network_of
        order = sorted(self._setting.order, key=lambda number: (number != own, network_of[number] != self._network))
        by_type = [
            sorted((each for each in others if each.number == number), key=lambda each: -each.batch) for number in order
        ]
        if self._setting.instance.one_batch_per_type:
            return [column for column in by_type if column]
        return [[each] for column in by_type for each in column]

    def _level(self, column: Sequence[Choice]) -> Level:
        number = column[0].number
        vm = self._setting.instance.types[column[0].name]
        return Level(
            number=number,
            batches=tuple(sorted(each.batch for each in column)),
            least=vm.running if self._setting.instance.one_batch_per_type else 0,
            most=self._setting.most[number],
            each=self._setting.amounts[number],
        )

    def _list_options(self, columns: Sequence[Sequence[Choice]], place: int) -> _Options:
        instance, column = self._setting.instance, columns[place]
        name, number = column[0].name, column[0].number
        vm, most = instance.types[name], self._setting.most[number]
        spans = [np.arange(1, min(most, instance.global_batch // each.batch) + 1, dtype=np.int64) for each in column]
        spans = spans if place == 0 else [np.zeros(1, dtype=np.int64), *spans]
        column = column if place == 0 else [column[0], *column]
        counts, batches = np.concatenate(spans), [each.batch for each in column]
        logarithms = [self._straggler.logarithms(each, span) for each, span in zip(column, spans, strict=True)]
        before = None if place == 0 else columns[place - 1][0].number
        after = None if place + 1 == len(columns) else columns[place + 1][0].number
        network = self._setting.exchange.network_of[number]
        bit, repeated = (
            1 << network if network < MOST_NETWORKS else 0,
            np.repeat(batches, [span.size for span in spans]),
        )
        return _Options(
            number=number,
            batches=repeated,
            counts=counts,
            samples=counts * repeated,
            amounts=counts * self._setting.amounts[number][:, None],
            risk=np.asarray(counts * vm.interruptions_per_hour, dtype=np.float64),
            networks=np.where(counts > 0, bit, 0),
            logarithms=np.concatenate(logarithms),
            running=vm.running,
            available=most,
            starts_type=before != number,
            ends_type=after != number,
        )

    def _sum_logarithms(self, nodes: Nodes) -> FloatArray:
        """Return (N, Q) the logarithms of the distributions of the VMs that are decided."""
        total = np.zeros((len(nodes), self._options[0].logarithms.shape[1]))
        for options, picks in zip(self._options, nodes.picks.T, strict=False):
            total += options.logarithms[picks]
        return np.asarray(total, dtype=np.float64)

    def _assess(self, decided: Nodes, logarithms: FloatArray, least_more: FloatArray, keeps: Keeps) -> Nodes:
        """Bound what fleets take and cost, and return those that are worth keeping."""
        amounts, compute_s = decided.amounts + least_more, self._straggler.seconds(logarithms)
        iteration_s = self._bound_iteration(decided, amounts[1].astype(np.int64), compute_s)
        instance = self._setting.instance
        training_s, billed_s = bound_training(instance, instance.iterations * iteration_s, decided.risk)
        launch_s = decided.launched * instance.launch_s
        billed_s = billed_s + (launch_s if instance.launch_billed else 0.0)
        bounds = launch_s + training_s, amounts[0] * billed_s * (1.0 - ROUNDING), amounts[2]
        nodes = replace(decided, time_s=bounds[0], cost_usd=bounds[1], vms=bounds[2])
        return nodes.take(np.flatnonzero(keeps(*bounds)))

    def _bound_iteration(self, decided: Nodes, ranks: IntArray, compute_s: FloatArray) -> FloatArray:
        """Return (N,) the least seconds of an iteration."""
        complete, least_s = decided.level == self.levels, compute_s.copy()
        own = 0 if self._network is None else 1 << self._network
        present = self._setting.exchange.stand_for(decided.networks | own)
        for networks in np.unique(present).tolist() if self._forward < 1.0 else []:
            which = np.flatnonzero((present == networks) & (ranks > 1) & (compute_s > 0.0))
            if not networks or not which.size:
                continue
            paces = self._setting.exchange.paces(self._gpu, networks, complete=complete)
            backward_s = (1.0 - self._forward) * compute_s[which]
            least_s[which] = paces.iteration_s(ranks[which], backward_s, self._forward / (1.0 - self._forward))
        return least_s * (1.0 - ROUNDING)
