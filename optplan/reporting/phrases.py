"""Numbers and findings in plain words: one place, so that terminal, figures and pages say the same thing alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optplan.contracts import BoundProof, Instance
from optplan.contracts.result import CERTIFIED
from optplan.contracts.time_and_money import BUDGET, DEADLINE
from optplan.units import HOURS_PER_DAY, SECONDS_PER_HOUR, SECONDS_PER_MINUTE, format_duration

#: What tables show where there is no value.
NOTHING = "-"
#: Relative differences and spreads, and shares, up to this are rounding: in all that is told.
ROUNDING = 1e-9
#: From here on nobody counts the digits of a number.
_MOST_IN_DIGITS = 1e12
#: The smallest share that is written as a number.
LEAST_SHARE = 1e-5

#: How each bound can be checked.
PROOF_WORDS = {
    BoundProof.LAGRANGIAN: "can be checked without the solver, in one pass",
    BoundProof.ENUMERATED: "can be checked without the solver, by a small enumeration",
    BoundProof.TREE: "can be checked without the solver, part by part",
    BoundProof.ENGINE: "is the word of a general engine and cannot be checked cheaply",
    BoundProof.SEARCHED: "rests on a search that left no plan out, and is checked only by searching again",
    BoundProof.NONE: "does not exist: this solver proves nothing",
}
#: The same in a word or two.
PROOF_NAMES = dict.fromkeys(CERTIFIED, "certificate") | {
    BoundProof.ENGINE: "engine's word",
    BoundProof.SEARCHED: "search to the end",
    BoundProof.NONE: "none",
}
#: Up to so many seconds a figure keeps three digits; longer ones are written in minutes, hours and days.
_SHORT_S = 10.0


def format_gpus(gpus: float) -> str:
    """Write a number of GPUs, whole or on average: ``8``, ``119.9``, ``3.42``, ``1e+30``."""
    if abs(gpus) >= _MOST_IN_DIGITS:
        return f"{gpus:.3g}"
    if abs(gpus - round(gpus)) <= ROUNDING * max(1.0, abs(gpus)):
        return f"{round(gpus):,}"
    if abs(gpus) >= 10:
        return f"{gpus:,.1f}"
    return f"{gpus:.2f}" if abs(gpus) >= 0.1 else f"{gpus:.2g}"


def count_gpus(gpus: float) -> str:
    """Write a number of GPUs with its noun: ``1 GPU``, ``8 GPUs``."""
    text = format_gpus(gpus)
    return f"{text} GPU" if text == "1" else f"{text} GPUs"


def format_share(share: float) -> str:
    """Write a fraction as a percentage: ``0 %``, ``0.062 %``, ``3.4 %``, ``26 %``."""
    if abs(share) <= ROUNDING:
        return "0 %"
    if abs(share) < LEAST_SHARE:
        return "less than 0.001 %"
    percent = 100.0 * share
    return f"{percent:.0f} %" if abs(percent) >= 10 else f"{percent:.2g} %"


def format_gap(gap: float) -> str:
    """Write how far a bound is at most, as a percentage that is not below it: ``0.063 %``, ``3.5 %``, ``27 %``."""
    if not math.isfinite(gap) or gap < LEAST_SHARE:
        return format_share(gap)
    unit = 10.0 ** (min(0, math.floor(math.log10(100.0 * gap))) - (gap < 0.1))
    return f"{math.ceil(100.0 * gap / unit * (1.0 - ROUNDING)) * unit:.12g} %"


def compare_durations(above: float) -> str:
    """Write how far one duration lies above another, as a fraction: ``the same``, ``12 % longer``, ``3 % shorter``."""
    if abs(above) < LEAST_SHARE:
        return "the same"
    return f"{format_share(abs(above))} {'longer' if above > 0 else 'shorter'}"


def format_usd(usd: float) -> str:
    """Write US dollars: ``$0.978``, ``$12.50``, ``$83,220``."""
    if usd >= 100:
        return f"${usd:,.0f}"
    return f"${usd:,.2f}" if round(usd, 2) == round(usd, 3) or usd >= 10 else f"${usd:,.3f}"


def format_seconds(seconds: float) -> str:
    """Write how long a computation took: ``12 ms``, ``3.4 s``, ``2 min 05 s``."""
    if 0.0 < seconds < 1.0:
        return f"{1000 * seconds:.2g} ms" if seconds < 0.01 else f"{1000 * seconds:.0f} ms"
    return format_duration(seconds)


def format_small_duration(seconds: float) -> str:
    """Write a duration that may be tiny, such as what one GPU is worth: ``19 s``, ``0.42 s``, ``less than 1 ms``."""
    return "nothing" if seconds == 0 else "less than 1 ms" if seconds < 1e-3 else format_duration(seconds)


def join_words(words: Sequence[str]) -> str:
    """Join words as a sentence does: ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def relative_difference(objective: float | None, reference: float | None) -> float | None:
    """Return how far one objective lies above another, as a fraction; None unless there are both."""
    if objective is None or reference is None or not math.isfinite(objective) or reference == 0:
        return None
    return objective / reference - 1.0


def compare_amounts(above: float) -> str:
    """Write how far one amount lies above another, as a fraction: ``the same``, ``12 % more``, ``3 % less``."""
    if abs(above) < ROUNDING:
        return "the same"
    return f"{format_share(abs(above))} {'more' if above > 0 else 'less'}"


def capitalise(sentence: str) -> str:
    """Write the first letter large, and leave the others as they are."""
    return sentence[:1].upper() + sentence[1:]


def format_cost(usd: float) -> str:
    """Write dollars as a price tag: ``$15.68``, ``$0.380``, ``$1,204``, ``$0.00321``, ``$0`` below a millionth."""
    if abs(usd) < 1e-6:
        return "$0"
    if usd < 0.01:
        return f"${usd:.3g}"
    return f"${usd:,.{0 if usd >= 1000 else 2 if usd >= 1 else 3}f}"


def format_amount(limit: str, amount: float) -> str:
    """Write an amount of one of the limits with its unit."""
    if limit == DEADLINE:
        return format_duration(amount)
    return format_cost(amount) if limit == BUDGET else f"{amount:,g}"


def format_least(limit: str, amount: float) -> str:
    """Write the least amount of a limit that is enough, rounded up, so that it is still enough when typed in."""
    if limit == DEADLINE:
        steps = ((_SHORT_S, 0.01), (SECONDS_PER_HOUR, 1.0), (HOURS_PER_DAY * SECONDS_PER_HOUR, SECONDS_PER_MINUTE))
        step = next((step for below, step in steps if amount < below), SECONDS_PER_HOUR)
    elif limit == BUDGET:
        step = 1.0 if amount >= 1000 else 0.01 if amount >= 1 else 0.001 if amount >= 0.01 else 0.0
    else:
        step = 1.0
    if step == 0.0:
        step = 10.0 ** (math.floor(math.log10(amount)) - 2)
    return format_amount(limit, step * math.ceil(amount / step * (1 - ROUNDING)))


def frontier_limit(instance: Instance) -> str:
    """Return which limit the frontier runs along: that on what is not made least."""
    return DEADLINE if instance.objective_unit == "usd" else BUDGET


def format_limit(instance: Instance, amount: float, limit: str = "") -> str:
    """Write an amount of a limit with its unit; without a name, of the frontier's."""
    return format_amount(limit or frontier_limit(instance), amount)


def format_objective(instance: Instance, objective: float) -> str:
    """Write an objective with its unit: dollars or seconds."""
    return format_cost(objective) if instance.objective_unit == "usd" else format_duration(objective)


def say_limits(instance: Instance, said: str) -> str:
    """End a sentence with the limits, where there are any."""
    limits = ", ".join(f"the {limit} is {format_amount(limit, amount)}" for limit, amount in instance.limits.items())
    return f"{said}; {limits}." if limits else f"{said}."
