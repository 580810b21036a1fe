"""Bills of plans with committed GPUs, side by side."""

from __future__ import annotations

from optplan.schema import ByName, FrozenModel


class Billed(FrozenModel):
    """What a plan takes on average, by the law of its demand or on a trace; money in the unit of the budget."""

    gpus: float  # in use
    mean_jct_s: float
    bill: float  # committed GPUs at all hours, and what more is in use
    on_demand: float  # what the GPUs in use cost with none committed
    committed: ByName[float]  # by GPU type

    @property
    def saved(self) -> float:
        """The share of the bill on demand that commitments save; below zero where they cost more."""
        return 1.0 - self.bill / self.on_demand if self.on_demand else 0.0


class BilledPlan(FrozenModel):
    """One way to choose widths and numbers of committed GPUs."""

    name: str
    objective: float  # seconds of (weighted) mean completion time
    bound: float | None  # of the solve that the widths come from
    law: Billed
    trace: Billed | None
