"""Fleets of which only the first types are decided yet, many at once, with lower bounds of what they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np

from optplan.schema import FloatArray, IntArray


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
