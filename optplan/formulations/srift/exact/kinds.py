"""Kinds of fleets: those with one slowest choice and one network of least capacity. Every fleet is of one kind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.exact.bounds import Choice
from optplan.formulations.srift.exact.exchanges import MOST_NETWORKS, ExchangeBound
from optplan.schema import FloatArray


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
