"""Configurations: what trials of a search try, counted and drawn at random, none of them twice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

#: A configuration by hyperparameter.
Configuration = dict[str, Any]
#: From so many configurations on, a space is as good as without limit.
_MANY = 2**62


class Range(NamedTuple):
    """Every number between two ends; with ``is_log`` their logarithms are equally likely."""

    low: float
    high: float
    is_log: bool = False


#: By hyperparameter its values, each as likely as any other.
Space = Mapping[str, Sequence[Any] | Range]


def count_configurations(space: Space) -> int | None:
    """Return how many configurations a space has; None where there is no limit, or no hyperparameter."""
    if not space or any(isinstance(values, Range) for values in space.values()):
        return None
    count = math.prod(map(len, space.values()))
    return None if count > _MANY else count


def draw_configurations(space: Space, count: int, seed: int) -> list[Configuration]:
    """Draw so many, the same for the same seed; or all that there are, in random order."""
    rng, most = np.random.default_rng(seed), count_configurations(space)
    if most is None:
        return [{name: _draw(values, rng) for name, values in space.items()} for _ in range(count)]
    return [_at(space, int(number)) for number in rng.choice(most, size=min(count, most), replace=False)]


def _draw(values: Sequence[Any] | Range, rng: np.random.Generator) -> object:
    if not isinstance(values, Range):
        return values[int(rng.integers(len(values)))]
    if not values.is_log:
        return float(rng.uniform(values.low, values.high))
    return math.exp(rng.uniform(math.log(values.low), math.log(values.high)))


def _at(space: Mapping[str, Sequence[Any]], number: int) -> Configuration:
    """Return the configuration of a number, counting values like digits."""
    configuration: Configuration = {}
    for name, values in space.items():
        number, digit = divmod(number, len(values))
        configuration[name] = values[digit]
    return configuration
