"""Trees that prove that no fleet is better: the certificates of the best-first search, written when it has ended.

With the optimum known, all that a bound does not exclude at once is divided again, level by level, and noted: by kind
of fleets, the numbers of the divided ones. The judge builds the same parts from the instance alone and bounds each by
code of its own (:mod:`optplan.formulations.srift.judge.trees` says how the content is read).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from optplan.contracts.result import SolveRequest, TreeCertificate
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.exact.branches import Branch, Nodes
from optplan.formulations.srift.exact.goals import JudgedFleet, LeastGoal
from optplan.formulations.srift.exact.search import FleetSpace
from optplan.progress import Stopwatch
from optplan.schema import FloatArray

#: How the judge knows the rule.
RULE = "srift-fleets"
#: By how much less than the claim, relatively, a part may reach: half of what the judge allows, who rounds otherwise.
_MARGIN = 5e-10
#: What bounds must exceed limits by, relatively, so that they do for the judge, too.
_CLEAR = 1e-11
#: Characters that the numbers of a certificate may take.
_MOST_CHARACTERS = 900_000
#: Pairs of a fleet and an option that are looked at together.
_PAIRS = 150_000


class _Claim(LeastGoal):
    """Keeps whatever is not excluded: fleets that may be within the limits and below a bound (none: at all)."""

    def __init__(self, instance: SriftInstance, bound: float | None) -> None:
        super().__init__(instance)
        self._most_s, self._most_usd = self._most_s * (1.0 + _CLEAR), self._most_usd * (1.0 + _CLEAR)
        self._less = np.inf if bound is None else bound * (1.0 - _MARGIN)

    def keeps(self, time_s: FloatArray, cost_usd: FloatArray, vms: FloatArray) -> NDArray[np.bool_]:
        """Say which fleets no bound excludes."""
        return super().keeps(time_s, cost_usd, vms) & (self.rank(time_s, cost_usd) < self._less)

    def allows(self, fleet: JudgedFleet) -> bool:
        """Whether a fleet is no counterexample."""
        return not (fleet.keeps_limits and np.isfinite(fleet.cost_usd)) or fleet.objective >= self._less


def write_tree(
    space: FleetSpace, bound: float | None, stopwatch: Stopwatch, *, limit: str = ""
) -> TreeCertificate | None:
    """Write the tree that proves a bound, or without one that none keeps the limits; None if too large or too late."""
    # ``limit`` is the one that the space's instance lacks, and has as its objective.
    if any(kind.network is None for kind in space.kinds):
        return None
    claim, writer = _Claim(space.instance, bound), _Writer(stopwatch)
    trees: list[JsonValue] = []
    for kind in space.kinds:
        if space.foresee(claim, kind).size:
            levels = writer.divide(space, claim, Branch(space.setting, kind))
            if levels is None:
                return None
            if levels:
                slowest = space.setting.choices[kind.position]
                trees.append([slowest.name, slowest.batch, kind.network, levels])
    names = list(space.instance.types)
    content: dict[str, JsonValue] = {"order": [names[number] for number in space.setting.order], "trees": trees}
    return TreeCertificate(rule=RULE, bound=bound, limit=limit, content=content)


def say_uncertified(request: SolveRequest) -> str:
    """Say why there is no certificate where one was wanted."""
    why = "no time was left for it" if request.stopwatch.expired else "it would be larger than certificates may be"
    return f"no certificate was written, since {why}: the proof rests on the search alone"


@dataclass
class _Writer:
    """Divides kinds of fleets until a bound excludes all that is left, within time and size."""

    stopwatch: Stopwatch
    characters: int = 0

    def divide(self, space: FleetSpace, claim: _Claim, branch: Branch) -> list[JsonValue] | None:
        """Return by level the numbers of divided fleets, each as its distance from the one before; None: given up."""
        nodes, found = branch.start(claim.keeps), []
        while len(nodes) and nodes.level < branch.levels:
            steps = np.diff(nodes.numbers, prepend=-1).tolist()
            self.characters += sum(len(str(step)) + 1 for step in steps)
            if self.characters > _MOST_CHARACTERS:
                return None
            found.append(steps)
            parts = []
            width = max(1, _PAIRS // branch.widest(nodes.level))
            for start in range(0, len(nodes), width):
                if self.stopwatch.expired:
                    return None
                part = branch.decide(nodes.take(slice(start, start + width)), claim.keeps)
                parts.append(replace(part, numbers=part.numbers + start * branch.widest(nodes.level)))
            nodes = Nodes.join(parts)
        return found if self._exclude(space, claim, branch, nodes) else None

    def _exclude(self, space: FleetSpace, claim: _Claim, branch: Branch, nodes: Nodes) -> bool:
        """Whether no complete fleet refutes the claim."""
        for picks in nodes.picks:
            if self.stopwatch.expired or not claim.allows(space.judge(branch, picks)):
                return False
        return not self.stopwatch.expired
