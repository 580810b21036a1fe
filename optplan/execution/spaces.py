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

from optplan.contracts import configurations
from optplan.contracts.configurations import Configuration, Range
from optplan.contracts.plan import Plan, UnitKind
from optplan.errors import DataError, DataWarning, nearest_name_hint, show_value
from optplan.execution.scheduler import read_metric
from optplan.formulations.seer.data.search_space import list_values
from optplan.instances.plain_data import require_json
from optplan.schema import LARGEST_AMOUNT, LARGEST_EXACT

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
    read = {str(name): _read_values(values, f"{path}.{name}") for name, values in space.items()}
    drawn = configurations.draw_configurations(read, count, seed)
    if len(drawn) < count:
        problem = f"has {len(drawn)} configurations; the plan has {count} trials"
        raise DataError(path, problem, "none is tried twice: widen it")
    return drawn


def draw_configurations(plan: Plan, names: Sequence[str], space: object, seed: int) -> dict[str, Configuration]:
    """Draw what each of a plan's trials tries, in the order of names; without a space from the plan's own.

    Places that that has no configurations for stay empty, with a DataWarning.
    """
    if space is None:
        drawn = configurations.draw_configurations(list_values(getattr(plan, "search_space", {})), len(names), seed)
        if len(drawn) < len(names):
            shortage = f"{len(drawn)} configurations, and the plan has {len(names)} trials; the last places stay empty"
            warnings.warn(f"plan.search_space: has {shortage}", DataWarning, stacklevel=3)
        return dict(zip(names, drawn, strict=False))
    if plan.units[0].kind is UnitKind.FLEET_GROUP and isinstance(space, dict) and not space:
        return {names[0]: {}}
    return dict(zip(names, draw(space, len(names), seed=seed), strict=True))


def _read_values(values: object, path: str) -> Sequence[Any] | Range:
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
        return ends
    numbers = not any(math.isnan(read_metric(end)) for end in ends)
    if len(ends) != 2 or not numbers or not ends[0] < ends[1]:
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", "two numbers, the lower one first, are needed")
    if kind == "loguniform" and not ends[0] > 0:
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", "numbers above zero have logarithms")
    if kind == "integer" and not all(isinstance(end, int) for end in ends):
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", "whole numbers are needed; both ends are included")
    most = LARGEST_EXACT if kind == "integer" else LARGEST_AMOUNT
    if kind != "loguniform" and max(map(abs, ends)) > most:
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", f"numbers from -{most:g} to {most:g} are allowed")
    return range(ends[0], ends[1] + 1) if kind == "integer" else Range(ends[0], ends[1], kind == "loguniform")
