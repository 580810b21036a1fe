"""The constants of the step-time law, each with its unit, meaning and source, as ``constants.json`` has them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from optplan.schema import FrozenModel, PositiveAmount

#: Where they stand; ``benchmarks/fit_cards.py`` writes what it fits there.
CONSTANTS = Path(__file__).parent / "constants.json"


class Constants(FrozenModel):
    """Numbers of the law that depend neither on the model nor on the data of a GPU; the file says what each means."""

    ampere_efficiency: PositiveAmount
    hopper_efficiency: PositiveAmount
    attention_efficiency: PositiveAmount
    activation_passes: PositiveAmount
    launch_s: PositiveAmount
    link_efficiency: PositiveAmount
    latency_s: PositiveAmount
    optimizer_shard_traffic: PositiveAmount
    step_s: PositiveAmount
    recomputation: PositiveAmount
    weight_bytes: PositiveAmount
    state_bytes: PositiveAmount
    full_shard_bytes: PositiveAmount
    activation_bytes: PositiveAmount
    checkpoint_bytes: PositiveAmount
    logit_bytes: PositiveAmount
    context_bytes: PositiveAmount
    usable_memory: PositiveAmount
    pair_error: PositiveAmount
    error_beyond: PositiveAmount
    error_below: PositiveAmount
    error_elsewhere: PositiveAmount


@cache
def load_constants() -> Constants:
    """Return the constants of ``constants.json``."""
    rows = json.loads(CONSTANTS.read_text(encoding="utf-8"))["constants"]
    return Constants(**{name: row["value"] for name, row in rows.items()})
