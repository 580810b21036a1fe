"""What trials are drawn from: a file that says for each hyperparameter what values it may have, or lists whole ones.

::

    learning_rate: {loguniform: [1e-4, 1e-1]}
    momentum: {uniform: [0.5, 0.99]}
    layers: {integer: [2, 6]}
    optimizer: {choice: [sgd, adam]}

None is drawn twice. A plan's own search space (SEER's) is used where no file is given.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optplan.contracts.plan import Plan, UnitKind
from optplan.errors import DataError, DataWarning, nearest_name_hint, show_value
from optplan.instances.plain_data import require_json
from optplan.schema import LARGEST_AMOUNT, LARGEST_EXACT

Configuration = dict[str, Any]

_KINDS = ("uniform", "loguniform", "integer", "choice")


def draw(space: object, count: int, *, seed: int = 0, path: str = "space") -> list[Configuration]:
    """Draw configurations, none of them twice, from a space as in the module's text; the same seed draws the same ones.

    A list of configurations is taken in its order. DataError, with the ``path`` of the data, where there are fewer.
    """
    if isinstance(space, list):
        require_json(space, path)
        for number, each in enumerate(space):
            if not isinstance(each, Mapping):
                raise DataError(f"{path}.{number}", f"got {show_value(each)}", "a configuration names its values")
        if len(space) < count:
            raise DataError(path, f"lists {len(space)} configurations; the plan has {count} trials", "add the others")
        return [dict(each) for each in space[:count]]
    if not isinstance(space, Mapping):
        raise DataError(path, f"got {show_value(space)}", "a mapping by hyperparameter, or a list, is needed")
    parts = _read_parts(space, path)
    many, rng = _count_all(parts), np.random.default_rng(seed)
    if many is None:
        return [{name: _draw(*part, rng) for name, part in parts.items()} for _ in range(count)]
    if many < count:
        problem = f"has {many} configurations; the plan has {count} trials"
        raise DataError(path, problem, "none is tried twice: widen it")
    # Numbers of more configurations than this are drawn until they differ: there is no list of them to choose from.
    numbers = rng.choice(many, size=count, replace=False) if many <= _LISTED else _draw_different(many, count, rng)
    return [_at(parts, int(number)) for number in numbers]


def describe_plan_space(space: Mapping[str, Any]) -> dict[str, Any]:
    """Return a SEER plan's own space (of ``choices`` and ``interval``) as this module reads spaces."""
    read: dict[str, Any] = {}
    for name, each in space.items():
        if each["form"] == "choices":
            read[name] = {"choice": each["values"]}
        else:
            kind = "loguniform" if each.get("scale") == "log" else "uniform"
            read[name] = {kind: [each["low"], each["high"]]}
    return read


def draw_configurations(plan: Plan, names: Sequence[str], space: object, seed: int) -> dict[str, Configuration]:
    """Draw what each of a plan's trials tries, in the order of names; without a space from the plan's own.

    Places that that has no configurations for stay empty, with a DataWarning.
    """
    if space is None:
        own = describe_plan_space(plan.to_json_data().get("search_space", {}))
        many = count_configurations(own)
        if many is not None and many < len(names):
            shortage = f"{many} configurations, and the plan has {len(names)} trials; the last places stay empty"
            warnings.warn(f"plan.search_space: has {shortage}", DataWarning, stacklevel=3)
            names = names[:many]
        space = own
    if plan.units[0].kind is UnitKind.FLEET_GROUP and isinstance(space, dict) and not space:
        return {names[0]: {}}
    return dict(zip(names, draw(space, len(names), seed=seed), strict=True))


#: Configurations up to which all their numbers are listed.
_LISTED = 10_000_000


def count_configurations(space: Mapping[str, Any], *, path: str = "space") -> int | None:
    """Return how many configurations a space has; None where there is no end of them, or no space."""
    return _count_all(_read_parts(space, path))


def _read_parts(space: Mapping[Any, Any], path: str) -> dict[str, tuple[str, Sequence[Any]]]:
    return {str(name): _read_part(values, f"{path}.{name}") for name, values in space.items()}


def _count_all(parts: Mapping[str, tuple[str, Sequence[Any]]]) -> int | None:
    sizes = [_count(kind, values) for kind, values in parts.values()]
    if not sizes or None in sizes:
        return None
    return math.prod(size for size in sizes if size is not None)


def _draw_different(many: int, count: int, rng: np.random.Generator) -> list[int]:
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        chosen[int(rng.integers(many)) if many < 2**63 else int(rng.integers(2**62))] = None
    return list(chosen)


def _read_part(values: object, path: str) -> tuple[str, Sequence[Any]]:
    if not isinstance(values, Mapping) or len(values) != 1:
        allowed = "one of {uniform: [lo, hi]}, {loguniform: [lo, hi]}, {integer: [lo, hi]}, {choice: [...]} is needed"
        raise DataError(path, f"got {show_value(values)}", allowed)
    ((kind, ends),) = values.items()
    if kind not in _KINDS:
        raise DataError(f"{path}.{kind}", "no such kind of values", nearest_name_hint(str(kind), _KINDS))
    if not isinstance(ends, list) or not ends:
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", "a list is needed")
    if kind == "choice":
        require_json(ends, f"{path}.{kind}")
        return kind, ends
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) and math.isfinite(end) for end in ends)
    if len(ends) != 2 or not numbers or not ends[0] < ends[1]:
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", "two numbers, the lower one first, are needed")
    if kind == "loguniform" and not ends[0] > 0:
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", "numbers above zero have logarithms")
    if kind == "integer" and not all(isinstance(end, int) for end in ends):
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", "whole numbers are needed; both ends are included")
    most = LARGEST_EXACT if kind == "integer" else LARGEST_AMOUNT
    if kind != "loguniform" and max(map(abs, ends)) > most:
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", f"numbers from -{most:g} to {most:g} are allowed")
    return kind, ends


def _count(kind: str, values: Sequence[Any]) -> int | None:
    if kind == "choice":
        return len(values)
    return values[1] - values[0] + 1 if kind == "integer" else None


def _draw(kind: str, values: Sequence[Any], rng: np.random.Generator) -> object:
    match kind:
        case "choice":
            return values[int(rng.integers(len(values)))]
        case "integer":
            return int(rng.integers(values[0], values[1] + 1))
        case "uniform":
            return float(rng.uniform(values[0], values[1]))
    return math.exp(rng.uniform(math.log(values[0]), math.log(values[1])))


def _at(parts: Mapping[str, tuple[str, Sequence[Any]]], number: int) -> Configuration:
    """Return the configuration of a number, counting values like digits."""
    configuration: Configuration = {}
    for name, (kind, values) in parts.items():
        number, digit = divmod(number, _count(kind, values) or 1)
        configuration[name] = values[digit] if kind == "choice" else values[0] + digit
    return configuration
