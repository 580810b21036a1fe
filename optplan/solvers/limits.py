"""What is within a limit, for all solvers (the judge has its own, with room for rounding), and how figures are written.

Figures have the digits that tell them apart, and are rounded so that they are enough.

A plan whose consumption exceeds a limit by at most :data:`LIMIT_TOLERANCE` of it keeps it. Where that line is drawn
sums in another order may decide, so searches look for plans up to half a :data:`ROUNDING` beyond it, and what they find
is taken up to a quarter more: nothing on the line is lost, and nothing found is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.instance import Instance
from optplan.contracts.proofs import Hopeless, Infeasibility, TreeCertificate
from optplan.contracts.time_and_money import DEADLINE

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
    return bool(np.asarray(consumption <= limit * (1.0 + LIMIT_TOLERANCE + 0.75 * ROUNDING)).all())


def count_digits(number: float, other: float) -> int:
    """Count the digits that tell two numbers apart, four at least: 74.62 against 60, but 74.6203 against 74.6201."""
    apart = abs(number - other) / max(number, other)
    return max(4, 2 - math.floor(math.log10(max(LIMIT_TOLERANCE, apart))))


def write_digits(number: float, digits: int) -> str:
    """Write a number to so many significant digits, without an exponent while it is readable: 53,270 or 74.62."""
    return f"{float(f'{number:.{digits}g}'):,.{max(digits, 12)}g}"


def write_apart(number: float, other: float) -> str:
    """Write a number with the digits that tell it from another."""
    return write_digits(number, count_digits(number, other))


def write_up(number: float, given: float) -> str:
    """Write a number rounded up, apart from a lesser one, so that the figure, given as a limit, is enough."""
    digits = count_digits(number, given)
    unit = 10.0 ** (math.floor(math.log10(number)) + 1 - digits)
    # Rounding errors of the division must not lift a number that is whole already.
    return write_digits(math.ceil(number / unit * (1 - ROUNDING)) * unit, digits)


def write_down(number: float) -> str:
    """Write a number rounded down to four digits, so that the figure, given as a floor, is low enough."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 3)
    return write_digits(math.floor(number / unit * (1 + ROUNDING)) * unit, 4)


@dataclass(frozen=True)
class Nearest:
    """What takes the least of a limit on time or money, all other limits kept."""

    limit: str
    least: float | None  # how much of the limit it takes; None where nothing keeps the others
    plan: str = ""  # the same in words
    certificate: TreeCertificate | None = None


def explain_limits(
    instance: Instance[Any],
    nearest: Sequence[Nearest],
    what: str,
    *,
    factor: float | None = None,
    certificate: TreeCertificate | None = None,
) -> Infeasibility:
    """Say why no fleet, or no choice, keeps the limits: what each alone, or by which factor all, would have to be."""
    limits, sentences, relaxations, hopeless = instance.limits, [], [], []
    units = {limit: instance.limit_as_given(limit)[1] for limit in limits}
    for one in nearest:
        others = [limit for limit in limits if limit != one.limit]
        if one.least is None:
            hopeless.append(Hopeless(limit=one.limit, certificate=one.certificate))
            sentences.append(f"no {one.limit} alone would do: no {what} keeps the {' and the '.join(others)}")
            continue
        given, unit = limits[one.limit], units[one.limit]
        within = "".join(f" within {write_digits(limits[other], 4)} {units[other]}" for other in others)
        which, verb = ("fastest", "takes") if one.limit == DEADLINE else ("cheapest", "costs")
        sentences.append(
            f"the {which} {what}{within}, {one.plan}, {verb} {write_apart(one.least, given)} {unit}; "
            f"the {one.limit} is {write_apart(given, one.least)} {unit}"
        )
        relaxations.append(instance.relax(one.limit, one.least, enough=one.least, certificate=one.certificate))
    if factor is not None:
        known = " and ".join(f"{write_digits(amount, 4)} {units[limit]}" for limit, amount in limits.items())
        sentences.append(f"{known} would both have to grow by a factor of {factor:.4g}")
    return Infeasibility(
        reason="; ".join(sentences) or f"no {what} keeps the limits",
        relaxations=tuple(relaxations),
        hopeless=tuple(hopeless),
        certificate=certificate,
    )
