"""What is within a limit: one definition for all solvers; the judge has its own, with room for this one's rounding.

A plan whose consumption exceeds a limit by at most :data:`LIMIT_TOLERANCE` of it keeps it. Where that line is drawn
sums in another order may decide, so searches look for plans up to half a :data:`ROUNDING` beyond it, and what they find
is taken up to a quarter more: nothing on the line is lost, and nothing found is refused.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

#: A total consumption that exceeds its limit by at most this fraction of the limit keeps it.
LIMIT_TOLERANCE = 1e-9
#: Two sums of the same numbers that differ by less than this fraction are the same.
ROUNDING = 1e-12

#: Up to how much more than the bound itself limits may be worth by its multipliers.
MOST_WORTH = 4e5

Amount = TypeVar("Amount", float, NDArray[np.float64])


def most_within(limit: Amount) -> Amount:
    """Return up to which consumption plans are looked for."""
    return limit * (1.0 + LIMIT_TOLERANCE + 0.5 * ROUNDING)


def is_lost(bound: float, worth: float) -> bool:
    """Whether a bound is lost in the rounding of what its multipliers weigh: no judge can take it for a proof."""
    return not worth <= MOST_WORTH * abs(bound)


def is_within(consumption: float | NDArray[np.float64], limit: float | NDArray[np.float64]) -> bool:
    """Whether total consumptions keep their limits, the rounding of the sums included."""
    return bool(np.all(consumption <= limit * (1.0 + LIMIT_TOLERANCE + 0.75 * ROUNDING)))
