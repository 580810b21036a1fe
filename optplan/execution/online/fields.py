"""What users choose for the width calculator; as :mod:`optplan.execution.fields`, it loads nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from annotated_types import Ge, Gt, Le


class Hold(StrEnum):
    """How a budget is held."""

    #: Widths are those of the budget, whatever is spent.
    NO = "no"
    #: The multiplier follows the debt, which stays.
    DEBT = "debt"
    #: More slowly, and with an integral that repays it in the long run.
    REPAID = "repaid"

    @property
    def per_hour(self) -> float:
        """By how much the multiplier's logarithm rises for each hour of debt; the integral's gain is its square / 4."""
        return {Hold.NO: 0.0, Hold.DEBT: 0.2, Hold.REPAID: 0.1}[self]


@dataclass
class TermFields:
    """When widths are calculated, and what for."""

    #: Time after which widths are calculated again at the latest (the paper: 15 minutes).
    every_s: Annotated[float, Ge(1), Le(1e9)] = 900.0
    window_h: Annotated[float, Gt(0), Le(1e9)] = 72.0  #: What was seen so long ago weighs 1/e of what is seen now.
    #: How the budget holds on other arrivals than are estimated: the price of GPUs follows what was committed, and
    #: leaves a ``debt``, or it is ``repaid`` in the long run; either moves running jobs.
    hold_budget: Hold = Hold.NO


@dataclass
class ServiceFields(TermFields):
    """What services take besides."""

    #: Part by which a rate, a size or a speed has to move for widths to be calculated at once, as in 5%.
    move: Annotated[float, Gt(0), Le(1)] = 0.05
    #: By what part of the mean completion time a table has to be better to be published, as running jobs are rescaled
    #: for it; one that exceeds the budget or lacks a class is replaced by any.
    least_gain: Annotated[float, Ge(0), Le(1)] = 0.02
    #: What new classes are taken for until they are measured: ``linear``, ``amdahl:FRACTION`` or ``power:EXPONENT``.
    new_speedup: Annotated[str, "LAW"] = "linear"
    gpus_per_node: Annotated[int, Ge(1), Le(1024)] = 4  #: Of the nodes that AdaptDL's hints come from.
