"""The division that branching made of all plans, written as a certificate of the rule ``boa-branches``.

What stands in it is in :mod:`optplan.formulations.boa.judge.trees`, which checks it without sight of this.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from optplan.contracts import TreeCertificate
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.schema import FloatArray
from optplan.solvers.paths import branching, switching

#: Characters of a certificate; a search that needs more goes without.
_MOST_CHARACTERS = 1_000_000


def write_tree(
    instance: BoaInstance,
    family: switching.LinkedGraphs,
    region: branching.Region,
    bound: float | None,
    limit: str = "",
    trails: switching.Trails | None = None,
) -> TreeCertificate | None:
    """Write a division as a certificate.

    Parameters
    ----------
    region
        All plans, divided; every part that is not divided proves the bound.
    bound
        No plan within the limits is better; None where none keeps them.
    limit
        Of which limit the family's values are the consumption; empty where they are the objective.
    trails
        The graphs that were divided, where these are not the family.

    Returns
    -------
    TreeCertificate or None
        None when it would be larger than a megabyte.
    """
    parts: list[JsonValue] = []
    waiting = [region]
    while waiting:
        part = waiting.pop()
        if part.split is None or part.parts is None:
            closed: dict[str, JsonValue] = {"weights": list(part.weights.tolist())}
            parts.append(closed | ({"listed": True} if part.listed else {}))
            continue
        parts.append(_write_split(instance, family, part.split, trails))
        waiting.extend(reversed(part.parts))
    if len(json.dumps(parts)) > _MOST_CHARACTERS:
        return None
    return TreeCertificate(rule="boa-branches", bound=bound, limit=limit, content={"tree": parts})


def write_rows(rows: FloatArray, bound: float) -> TreeCertificate:
    """Write the weights (R, 1 + L) by which levels excluded all better plans as a certificate of the rule ``boa-rows``.

    What stands in it is in :mod:`optplan.formulations.boa.judge.rows`, which checks it without sight of this.
    """
    return TreeCertificate(rule="boa-rows", bound=bound, content={"rows": rows.tolist()})


def _write_split(
    instance: BoaInstance, family: switching.LinkedGraphs, split: branching.Split, trails: switching.Trails | None
) -> dict[str, JsonValue]:
    """Write what one side of a division is: options of an epoch, or exactly the types that are used."""
    name = list(instance.classes)[split.graph]
    if split.visited:
        known = instance.options(name).gpu_types
        return {"class": name, "types": [each for bit, each in enumerate(known) if split.visited >> bit & 1]}
    numbers = (family if trails is None else trails.graphs).numbers(split.graph, split.side)
    if trails is not None:
        numbers = np.unique(trails.node[split.graph][numbers])
    ranges: list[JsonValue] = [[first, behind] for first, behind in join_ranges(numbers)]
    return {"class": name, "epoch": split.layer + 1, "options": ranges}


def join_ranges(numbers: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Return numbers as ranges from a first one to the one behind the last."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return [(int(run[0]), int(run[-1]) + 1) for run in runs if run.size]
