"""What differs between two instances or answers of any formulation, field by field and figure by figure.

BOA's are compared in its own terms, class by class; see :mod:`optplan.reporting.comparison`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from optplan.contracts import Instance, Plan, Result, Solution
from optplan.contracts.result import relative_gap
from optplan.reporting.differences import BETWEEN, COUNT, LEAST, SECONDS, SHARE, Difference, Fact, pair_facts

#: What an instance is called and where it comes from: no data.
_NO_DATA = ("name", "description", "source", "formulation", "version")
_SETTINGS, _ANSWER = "settings", "answer"
_SECONDS_ENDING = "_s"


def compare_data(a: Instance, b: Instance) -> list[Difference]:
    """List every field of two instances of one formulation."""
    return pair_facts(*(_state_data(instance) for instance in (a, b)))


def state_proof(answer: Result[Solution] | Plan) -> list[Fact]:
    """State who solved it, how it ended, what is proven of it, and what limits are worth or would have to be."""
    facts = [Fact(_ANSWER, "solver", "solver", answer.solver)]
    if isinstance(answer, Result):
        facts.append(Fact(_ANSWER, "status", "status", answer.status.value))
    facts += state_bound(answer)
    if isinstance(answer, Result):
        facts += _state_limits(answer)
    return facts


def measures_of(answer: Result[Solution] | Plan) -> Mapping[str, float]:
    """Return what the judge measured; empty without a solution."""
    return answer.expected if isinstance(answer, Plan) else answer.measures


def state_figures(answer: Result[Solution] | Plan, figures: Sequence[tuple[str, str, str]]) -> list[Fact]:
    """State what is proven, and those of some figures that were measured: of each what it is, its name and unit."""
    measures = measures_of(answer)
    known = [Fact(_ANSWER, what, name, measures[name], unit) for what, name, unit in figures if name in measures]
    return [*state_proof(answer), *known]


def state_bound(answer: Result[Solution] | Plan) -> list[Fact]:
    """State the bound that was proven, and the gap."""
    facts = []
    if answer.bound is not None:
        facts.append(Fact(_ANSWER, "proven bound", "bound", answer.bound, answer.objective_unit))
    gap = relative_gap(answer.objective, answer.bound)
    if gap is not None and math.isfinite(gap):
        facts.append(Fact(_ANSWER, "gap", "gap", gap, SHARE))
    return facts


def state_answer(answer: Result[Solution] | Plan) -> list[Fact]:
    """State what is proven, the objective, and everything that the judge measured."""
    facts = state_proof(answer)
    if answer.objective is not None:
        facts.append(Fact(_ANSWER, "objective", "objective", answer.objective, answer.objective_unit))
    return facts + [Fact(_ANSWER, _name(path), path, value, _unit(path)) for path, value in measures_of(answer).items()]


def _state_limits(result: Result[Solution]) -> Iterator[Fact]:
    for limit, price in result.shadow_prices.items():
        path, what = f"shadow_prices.{limit}", f"of the {limit}, {price.unit}"
        yield Fact(_ANSWER, f"worth of more {what}", f"{path}.more", price.more, price.unit)
        if price.less is not None:
            yield Fact(_ANSWER, f"cost of less {what}", f"{path}.less", price.less, price.unit)
    for one in result.infeasibility.relaxations if result.infeasibility is not None else ():
        path = f"{LEAST}{one.limit}"
        what = f"least {one.limit} that {'may work' if one.enough is None else 'works'}, {one.unit}"
        yield Fact(_ANSWER, what, path, one.least_feasible, one.unit)


def _state_data(instance: Instance) -> list[Fact]:
    data = {field: value for field, value in instance.to_json_data().items() if field not in _NO_DATA}
    facts = []
    for path, value in _list_leaves(data):
        of, _, rest = path.partition(".")
        group, field = (of, rest) if rest else (_SETTINGS, of)
        is_number = isinstance(value, float | int) and not isinstance(value, bool)
        unit = _unit(path) if is_number else ""
        facts.append(Fact(group, _name(field), path, float(value) if is_number else _write_text(value), unit))
    return facts


def _list_leaves(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """List what is at the ends of nested data; a list of numbers is one thing, and what is not given is left out."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _list_leaves(part, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        for number, part in enumerate(value, start=1):
            yield from _list_leaves(part, f"{path}.{number}")
    elif value is not None:
        yield path, value


def _name(path: str) -> str:
    return (path.removesuffix(_SECONDS_ENDING) if _is_in_seconds(path) else path).replace("_", " ")


def _is_in_seconds(path: str) -> bool:
    return path.endswith(_SECONDS_ENDING) and not path.endswith(f"_per{_SECONDS_ENDING}")


def _unit(path: str) -> str:
    if _is_in_seconds(path):
        return SECONDS
    return "usd" if path.endswith("_usd") else COUNT


def _write_text(value: object) -> str:
    if isinstance(value, list):
        return BETWEEN.join(f"{part:.12g}" if isinstance(part, float) else str(part) for part in value)
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
