"""What all plans of version 1 had in common: steps in words, prices by GPU type."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field

from optplan.contracts.resources import Price
from optplan.errors import DataError
from optplan.schema import ByName, FrozenModel

_Amount = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=1)]


class EarlierStep(FrozenModel):
    """One action of version 1, and how long what follows lasts."""

    subject: str
    branch: _Count = 1
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    trigger: str
    until: str
    action: Literal["start", "resize", "move", "continue", "stop"]
    gpu_type: str
    gpus: _Count
    expected_overhead_s: _Amount = 0.0
    expected_duration_s: _Amount
    expected_gpu_hours: _Amount


class EarlierPlan(FrozenModel):
    """What every plan of version 1 had."""

    version: Literal[1] = 1
    formulation: str
    instance_name: str
    instance_hash: str
    solver: str
    objective: float
    objective_unit: str
    bound: float | None = None
    prices: ByName[Price] = Field(default_factory=dict)
    expected: ByName[float] = Field(default_factory=dict)
    steps: tuple[EarlierStep, ...]

    def common(self) -> dict[str, Any]:
        """Return the fields that version 2 has unchanged."""
        names = ("formulation", "instance_name", "instance_hash", "solver", "objective", "objective_unit", "bound")
        return {name: getattr(self, name) for name in (*names, "expected")}

    def price_fields(self, gpu_type: str, gpus_per_node: int = 1) -> dict[str, Any]:
        """Return what a resource of version 2 says of its price."""
        price = self.prices.get(gpu_type)
        if price is None:
            return {}
        usd_per_hour = price.usd_per_hour * gpus_per_node
        return {"price_usd_per_hour": usd_per_hour, "price_source": price.source, "price_date": price.date}


def read_number(pattern: str, text: str, path: str) -> int:
    """Return the number in one of version 1's sentences, such as ``end of epoch 12``.

    Raises
    ------
    DataError
        When the text is not the pattern's sentence.
    """
    found = re.fullmatch(pattern, text)
    if found is None:
        sentence = pattern.replace(r"(\d+)", "N")
        raise DataError(path, f"got {text!r}", f"plans of version 1 have {sentence!r} here")
    return int(found[1])
