"""Two of BOA's instances, results or plans side by side, class by class."""

from __future__ import annotations

from collections.abc import Mapping

from optplan.contracts import Plan
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan
from optplan.reporting.boa.answer_differences import compare_answers, compare_class_answers
from optplan.reporting.boa.breakdown import require_boa
from optplan.reporting.boa.data_differences import (
    compare_class,
    compare_gpu_types,
    compare_settings,
    price_fact,
    rate_fact,
)
from optplan.reporting.boa.width_differences import compare_paths, list_paths
from optplan.reporting.comparison import Compared, nothing_in_common
from optplan.reporting.differences import Difference, merge_names, pair_facts, pair_presence


def compare_sides(a: Compared, b: Compared) -> list[Difference]:
    """Compare two instances, results or plans class by class.

    Raises
    ------
    UsageError
        When they have nothing in common.
    """
    rows: list[Difference] = []
    if a.instance is not None and b.instance is not None:
        instances = require_boa(a.instance), require_boa(b.instance)
        rows += [*compare_settings(*instances), *compare_gpu_types(*instances)]
    else:
        rows += _compare_prices(a, b)
    if a.answer is not None and b.answer is not None:
        rows += compare_answers(a.answer, b.answer, types=_name_types(a, b))
    elif a.kind != b.kind and "result" in (a.kind, b.kind):
        raise nothing_in_common(a, b)
    known_a, known_b = _list_classes(a), _list_classes(b)
    if known_a and known_b:  # an answer without a plan names no classes
        for name in merge_names(known_a, known_b):
            in_a, in_b = name in known_a, name in known_b
            alone = pair_presence(name, "class", f"classes.{name}", in_a=in_a, in_b=in_b)
            rows += _compare_class(a, b, name) if in_a and in_b else [alone]
    return rows


def _compare_class(a: Compared, b: Compared, name: str) -> list[Difference]:
    """List what both say about a class that both have."""
    rows: list[Difference] = []
    rates = (_rates(a), _rates(b))
    if a.instance is not None and b.instance is not None:
        rows += compare_class(require_boa(a.instance), require_boa(b.instance), name)
    elif rates[0] is not None and rates[1] is not None:
        rows += pair_facts([rate_fact(name, rates[0][name])], [rate_fact(name, rates[1][name])])
    if a.answer is not None and b.answer is not None:
        rows += compare_class_answers(name, a.answer, b.answer)
        types = _name_types(a, b)
        paths = [list_paths(one, only_type=of).get(name) for one, of in zip((a.answer, b.answer), types, strict=True)]
        if paths[0] and paths[1]:
            rows += compare_paths(name, paths[0], paths[1])
    return rows


def _compare_prices(a: Compared, b: Compared) -> list[Difference]:
    """List the prices where both know some, without the other data of GPU types."""
    prices_a, prices_b = _prices(a), _prices(b)
    if prices_a is None or prices_b is None:
        return []
    rows = []
    for name in merge_names(prices_a, prices_b):
        rows += pair_facts(
            *([price_fact(name, known[name])] if name in known else [] for known in (prices_a, prices_b))
        )
    return rows


def _prices(side: Compared) -> dict[str, float] | None:
    """Return US dollars per hour by GPU type; None where prices are not among the data."""
    if side.instance is not None:
        types = require_boa(side.instance).gpu_types
        return {n: t.price_usd_per_hour for n, t in types.items() if t.price_usd_per_hour is not None}
    if isinstance(side.answer, Plan):
        return {name: price.usd_per_hour for name, price in side.answer.prices.items()}
    return None


def _rates(side: Compared) -> Mapping[str, float] | None:
    """Return arrivals per hour by class; None where they are not among the data."""
    if side.instance is not None:
        return {name: c.arrival_rate_per_hour for name, c in require_boa(side.instance).classes.items()}
    return side.answer.arrival_rate_per_hour if isinstance(side.answer, BoaPlan) else None


def _list_classes(side: Compared) -> list[str]:
    rates = _rates(side)
    if rates is not None:
        return list(rates)
    return [] if side.answer is None else list(list_paths(side.answer))


def _name_types(a: Compared, b: Compared) -> tuple[str, str]:
    """Name the GPU type of each answer that has one only, where it does not go without saying."""
    known_a, known_b = _only_type(a), _only_type(b)
    if known_a and known_b:
        return ("", "") if known_a == known_b else (known_a, known_b)
    return known_a if _names_types(b) else "", known_b if _names_types(a) else ""


def _names_types(side: Compared) -> bool:
    """Whether an answer says of which type its GPUs are."""
    paths = {} if side.answer is None else list_paths(side.answer)
    return any(held.gpu_type for of_class in paths.values() for path in of_class for held in path.held[:1])


def _only_type(side: Compared) -> str:
    """Return the GPU type where it is known that there is one only, else nothing."""
    types = set()
    if side.instance is not None:
        types = set(require_boa(side.instance).gpu_types)
    elif isinstance(side.answer, BoaPlan):
        types = set(side.answer.resources)
    return types.pop() if len(types) == 1 else ""


def note_sides(a: Compared, b: Compared) -> list[str]:
    """Say that two instances ask different problems, if they do."""
    if not isinstance(a.instance, BoaInstance) or not isinstance(b.instance, BoaInstance):
        return []
    if a.instance.problem is b.instance.problem:
        return []
    asked = f"A asks the {a.instance.problem.value} problem and B the {b.instance.problem.value} one"
    return [f"{asked}: a plan of one may not do for the other"]
