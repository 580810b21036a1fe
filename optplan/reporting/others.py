"""Results for other amounts of a limit, solved for a report whose readers may try them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from optplan.contracts import Instance, Result, Solution, Status
from optplan.errors import DataError, UnsupportedError
from optplan.progress import Stopwatch
from optplan.reporting.pareto import thin
from optplan.reporting.presenters import Others
from optplan.solving import solve

#: Amounts relative to the instance's own where no frontier says which matter: a quarter to four times.
STEPS = tuple(2.0 ** (step / 2) for step in range(-4, 5))
#: Nearer ones: half to twice.
NEAR = tuple(2.0 ** (step / 4) for step in range(-4, 5))
#: Amounts that are solved for at most, and seconds that all of them may take, and the last one has.
_MOST, _LIMIT_S, _LEAST_S = 40, 5.0, 0.1


def change_limit(instance: Instance, limit: str, amount: float) -> Instance:
    """Return an instance with another amount of a limit, in the unit that its field has."""
    unit = instance.limit_as_given(limit)[1]
    fields = type(instance).model_fields
    name = next((name for name in (limit, f"{limit}_{unit}") if name in fields), None)
    if name is None:
        raise UnsupportedError(f"{limit}: what other amounts buy is not asked this way; use --set and solve again")
    return instance.replace(**{name: amount if name != limit else f"{amount!r}{unit}"})


def solve_others(instance: Instance, limit: str, amounts: Sequence[float], *, exact: bool = False) -> Others:
    """Solve for other amounts of a limit, nearest first, in limited time; ``exact`` if plans change at these alone."""
    stopwatch = Stopwatch(_LIMIT_S, clock=time.thread_time)  # the same whatever else the machine has to do
    found: list[tuple[float, Instance, Result[Solution]]] = []
    own, chosen = instance.limit_as_given(limit)[0], [amounts[place] for place in thin(len(amounts), _MOST)]
    for amount in sorted(chosen, key=lambda each: abs(math.log(each / own))):
        if stopwatch.expired:
            break
        try:
            there = change_limit(instance, limit, amount)
            result = solve(there, time_limit_s=max(_LEAST_S, stopwatch.remaining_s or 0.0))
        except (DataError, UnsupportedError):  # an amount that the instance cannot have, or no solver takes
            continue
        if result.solution is not None:
            found.append((amount, there, result))
    found.sort(key=lambda each: each[0])
    is_all = len(found) == len(amounts) and all(one.status is Status.OPTIMAL for _, _, one in found)
    return Others(limit, found, exact and is_all)
