"""Other amounts of a limit to try on a page: results that were solved for, each as the parts of a page of its own."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from optplan.contracts import Instance, Result, Solution, Status
from optplan.errors import DataError, UnsupportedError
from optplan.formulations import formulation_of
from optplan.progress import Stopwatch
from optplan.reporting.pages import Control, Page, build_parts, pack
from optplan.reporting.presenters import Beside, Others, plan_words_of
from optplan.reporting.sections import relaxations_of, say_evidence, share_load, solve_again
from optplan.solving import solve
from optplan.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE, format_duration

#: Builds a page; that of the formulation's presenter.
BuildPage: TypeAlias = Callable[[Instance, Result[Solution], Beside], Page]
#: What stands for the amount in the command that solves for it.
AMOUNT = "AMOUNT"
_SECONDS = {"s": 1.0, "min": SECONDS_PER_MINUTE, "h": SECONDS_PER_HOUR}


def build_control(
    build_page: BuildPage, instance: Instance, result: Result[Solution], page: Page, beside: Beside, others: Others
) -> Control:
    """Build the control by which readers move a page to the plans for other amounts of a limit."""
    limit = others.limit
    own, unit = instance.limit_as_given(limit)
    # Charts of what every amount buys follow by their mark, the other sections as wholes.
    shown = [each.id for each in page.sections if each.follows and each.id not in ("budgets", "frontier")]
    factor = 1.0
    if unit in _SECONDS:
        named = next((name for name in ("h", "min") if own * _SECONDS[unit] >= 3 * _SECONDS[name]), "s")
        factor, unit = _SECONDS[unit] / _SECONDS[named], named
    states = [
        write_state(build_page, there, found, limit, shown, is_exact=others.exact, background=beside.background)
        for _, there, found in others.results
    ]
    asked = _frame(instance, limit, unit)
    between = (
        "for more than one and less than the next, the lesser one's plan stays the best"
        if others.exact
        else "for amounts between, it shows the plan for the lesser: one that keeps the limits, not proven best there"
    )
    said = (
        "What other amounts buy is not known before they are solved for. Here or with: "
        if len(states) < 2
        else (
            f"Figures, plan and pictures follow, without a server, through {len(states)} plans, each solved for and "
            f"checked when this page was written; {between}. Exactly: "
        )
    )
    shares = share_load(instance)
    evidence = f" Speedups behind the load: {say_evidence(shares)}." if shares else ""
    units = {name: seconds / _SECONDS[unit] for name, seconds in _SECONDS.items()} if unit in _SECONDS else {unit: 1.0}
    data = {
        "name": limit,
        "unit": unit,
        "units": units,  # those that links may name
        "amount": AMOUNT,
        "own": own * factor,
        "per": own * factor / instance.limits[limit],
        "serves": False,
        "parts": shown,
        "states": pack(json.dumps(states, allow_nan=False, separators=(",", ":"))),
        "exact": others.exact,
        "plan": _locate(instance, result, limit),
        "words": {
            "amount": asked,
            "own": f"{_say(instance, result)}, the plan that this page was written for",
            "none": f"No plan keeps a {limit} of {asked}.",
            "unknown": f"This page has no plan for a {limit} of {asked}.",
            "fewest": f"The least for which this page has a plan is {asked}.",
            "less": f"This is the plan for {asked}; for more there may be a better one.{evidence}",
            "stays": f"This part is about the plan for a {limit} of {asked}.",
        },
    }
    command = solve_again(
        beside.verify_command, f"--{limit}", f"{AMOUNT}{unit}", "--report", "report.html", but=f"--{limit}"
    )
    return Control(limit, unit, said, command, data)


def write_state(
    build_page: BuildPage,
    instance: Instance,
    result: Result[Solution],
    limit: str,
    parts: Sequence[str],
    *,
    is_exact: bool = False,
    background: Any = None,  # noqa: ANN401 - the formulation's own
) -> dict[str, Any]:
    """Write what a page shows where it was moved to a result; ``is_exact`` if the plan stays the best for some more."""
    page = build_page(instance, result, Beside(background=background, is_moved=True))
    holds = is_exact and "on_time_probability" not in result.measures
    if holds:  # the heading tells of the amount that is asked for, which may be more
        written = plan_words_of(instance).format_limit(instance, instance.limits[limit], limit)
        head, found, tail = page.title.rpartition(written)
        asked = _frame(instance, limit, instance.limit_as_given(limit)[1])
        page = page._replace(title=f"{head}{asked if found else ''}{tail}")
    state = {"amount": instance.limits[limit], "holds": holds, "says": _say(instance, result), "badge": page.badge}
    return state | (_locate(instance, result, limit) or {}) | build_parts(page, parts)


def _locate(instance: Instance, result: Result[Solution], limit: str) -> dict[str, float] | None:
    """Return how much of a limit a plan takes, and what it reaches."""
    if result.solution is None:
        return None
    judged = formulation_of(instance).evaluate(instance, result.solution)
    return {"used": judged.consumption[limit], "objective": judged.objective}


def _say(instance: Instance, result: Result[Solution]) -> str:
    """Say in a few words what a plan reaches, or where there is none which limits would help."""
    if result.objective is None:
        helping = (f"a {one.limit} of {one.describe()}" for one in relaxations_of(result))
        return "; ".join(["no plan", *(f"{said.replace('_', ' ')} would help" for said in helping)])
    if result.objective_unit == "s":
        return format_duration(result.objective)
    words = plan_words_of(instance)
    return f"{words.name_objective(instance)} {words.format_objective(instance, result.objective)}"


def _frame(instance: Instance, limit: str, unit: str) -> str:
    """Write an amount of a limit with its unit, as the script fills it in."""
    if unit in _SECONDS and instance.limit_as_given(limit)[1] == "s":
        return "{budget:duration}"
    what, _, period = unit.partition("/")
    if what == "usd":
        return f"{{given:cost}} {'an' if period == 'hour' else 'a'} {period}" if period else "{given:cost}"
    return "{given:count}" if unit == "gpu" else f"{{given:gpus}} {unit.replace('gpu', 'GPU')}"


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
    from optplan.reporting.pareto import thin  # not needed where nothing is tried

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
