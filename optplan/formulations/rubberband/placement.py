"""The placement controller (RubberBand, section 4.4): which trial runs on which node.

Rules, whichever method is used:

- a trial that fits on a node is on one node; a larger one owns whole nodes, as many as it needs, and what is left of
  the last of them stays empty;
- a trial that keeps its number of GPUs stays where it is, unless it is displaced or its node is to be released;
- the placements of *reserved* trials, which have been announced and not yet acquired, are not touched;
- nodes that are to be released are emptied.

``published`` is Algorithm 3: trials to place are taken by falling allocation; each goes to the node that it fills best;
where none has room, trials with fewer GPUs are displaced from the node with most room, and placed later in the same
round; what was placed in the round stays. It may leave trials without a place where there would be one for all of
them; these are named. ``exact`` (:mod:`~optplan.formulations.rubberband.placement_model`) moves the fewest trials, and
leaves one out only if there is no room for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from optplan.errors import DataError, UsageError, show_value
from optplan.schema import ByName, FrozenModel

#: Trials below which ``auto`` takes the exact method.
EXACT_TRIALS = 50


class Method(StrEnum):
    """How a placement is found."""

    AUTO = "auto"
    PUBLISHED = "published"
    EXACT = "exact"


class Placement(FrozenModel):
    """Where trials run.

    Parameters
    ----------
    trials
        By trial, the GPUs that it uses on each of its nodes.
    """

    trials: ByName[ByName[Annotated[int, Field(ge=1)]]] = Field(default_factory=dict)

    def gpus(self, trial: str) -> int:
        """Return how many GPUs a trial has; 0 where it has no place."""
        return sum(self.trials.get(trial, {}).values())


@dataclass(frozen=True)
class PlacementChange:
    """A new placement, and what has to happen for it.

    Parameters
    ----------
    placement
        The new one.
    started
        Trials that had no place before.
    resized
        Trials that get another number of GPUs; they start anew from their checkpoints.
    moved
        Trials that keep their number of GPUs and change their place.
    left
        Trials without a place.
    released
        Nodes that are empty, and were asked to be.
    """

    placement: Placement
    started: tuple[str, ...]
    resized: tuple[str, ...]
    moved: tuple[str, ...]
    left: tuple[str, ...]
    released: tuple[str, ...]


@dataclass
class _Cluster:
    """Nodes while a placement is being made."""

    node_gpus: int
    free: dict[str, int]
    places: dict[str, dict[str, int]] = field(default_factory=dict)

    def put(self, trial: str, place: Mapping[str, int]) -> None:
        self.places[trial] = dict(place)
        for node, gpus in place.items():
            self.free[node] -= gpus if len(place) == 1 else self.node_gpus

    def take(self, trial: str) -> None:
        place = self.places.pop(trial)
        for node, gpus in place.items():
            self.free[node] += gpus if len(place) == 1 else self.node_gpus


def place(
    trials: Mapping[str, int],
    nodes: Sequence[str],
    node_gpus: int,
    *,
    last: Placement | None = None,
    reserved: Set[str] = frozenset(),
    release: int | Set[str] = 0,
    method: Method | str = Method.AUTO,
) -> PlacementChange:
    """Place trials on nodes.

    Parameters
    ----------
    trials
        GPUs by trial.
    nodes
        Names of the nodes, those to be released included.
    node_gpus
        GPUs of each node.
    last
        Where trials are now; trials that are not listed any more have ended.
    reserved
        Trials whose placement must stay as it is.
    release
        Nodes to be emptied, or how many: those whose trials are fewest.
    method
        ``published``, ``exact``, or ``auto``: exact below 50 trials.

    Raises
    ------
    DataError
        When an allocation, a node or the last placement is impossible; the message names it.
    UsageError
        When the method is unknown.
    """
    last = last or Placement()
    _check(trials, nodes, node_gpus, last, reserved)
    trials = {trial: last.gpus(trial) if trial in reserved else gpus for trial, gpus in trials.items()}
    chosen = _choose_method(method, len(trials))
    leaving = choose_releases(trials, nodes, last, reserved, release)
    if chosen is Method.EXACT:
        from optplan.formulations.rubberband.placement_model import place_exactly

        # Which of several nodes are emptied is the model's choice.
        count = release if isinstance(release, int) else None
        places, leaving = place_exactly(trials, nodes, node_gpus, last, reserved, leaving, count)
    else:
        staying = [node for node in nodes if node not in leaving]
        places = _place_as_published(trials, staying, node_gpus, last, reserved)
    return _describe(trials, last, places, leaving)


def place_stages(
    stages: Sequence[tuple[int, int, int]], node_gpus: int, *, method: Method | str = Method.PUBLISHED
) -> list[PlacementChange]:
    """Place the trials of a search stage by stage on a cluster that changes its size.

    Which trials survive is known only when a stage ends; here those drawn first do.

    Parameters
    ----------
    stages
        For each stage: trials that run at a time, GPUs of each, nodes held.
    node_gpus
        GPUs of each node.
    method
        As in :func:`place`.
    """
    changes: list[PlacementChange] = []
    nodes: list[str] = []
    placement, made = Placement(), 0
    for running, gpus, held in stages:
        surplus = max(0, len(nodes) - held)
        nodes += [f"node-{number:05d}" for number in range(made + 1, made + 1 + held - len(nodes))]
        made = max(made, len(nodes), *(int(node.removeprefix("node-")) for node in nodes))
        trials = {f"trial-{number:05d}": gpus for number in range(1, running + 1)}
        change = place(trials, nodes, node_gpus, last=placement, release=surplus, method=method)
        nodes = [node for node in nodes if node not in change.released]
        placement = change.placement
        changes.append(change)
    return changes


def choose_releases(
    trials: Mapping[str, int],
    nodes: Sequence[str],
    last: Placement,
    reserved: Set[str],
    release: int | Set[str],
) -> tuple[str, ...]:
    """Return the nodes to be emptied: those named, or those whose trials, and then whose GPUs, are fewest.

    Raises
    ------
    DataError
        When there are not so many nodes, or a reserved trial is on one that is named.
    """
    holding: dict[str, list[tuple[str, int]]] = {node: [] for node in nodes}
    for trial, own in last.trials.items():
        if trial in trials and (own_gpus := sum(own.values())) == trials[trial]:
            for node in own:
                holding[node].append((trial, own_gpus))
    locked = {node for trial in reserved for node in last.trials.get(trial, {})}
    if not isinstance(release, int):
        for node in sorted(release):
            if node not in holding:
                raise DataError("release", f"got the node {node!r}, which is not in the cluster", "name other nodes")
            if node in locked:
                raise DataError("release", f"got the node {node!r}, which a reserved trial is on", "wait for it")
        return tuple(sorted(release))
    free = [node for node in nodes if node not in locked]
    if not 0 <= release <= len(free):
        problem = f"got {release}; of {len(nodes)} nodes {len(free)} can be released"
        raise DataError("release", problem, "ask for fewer, or name them")
    ranked = sorted(free, key=lambda node: (len(holding[node]), sum(gpus for _, gpus in holding[node]), node))
    return tuple(sorted(ranked[:release]))


def count_nodes(gpus: int, node_gpus: int) -> int:
    """Return how many nodes a trial is on."""
    return -(-gpus // node_gpus)


def _place_as_published(
    trials: Mapping[str, int], nodes: Sequence[str], node_gpus: int, last: Placement, reserved: Set[str]
) -> dict[str, dict[str, int]]:
    """Run Algorithm 3."""
    cluster = _Cluster(node_gpus, dict.fromkeys(sorted(nodes), node_gpus))
    for trial in sorted(last.trials):
        own = last.trials[trial]
        unchanged = trials.get(trial) == sum(own.values()) and all(node in cluster.free for node in own)
        if trial in trials and (unchanged or trial in reserved):
            cluster.put(trial, own)
    fixed = set(reserved)
    waiting = [trial for trial in trials if trial not in cluster.places]
    while waiting:
        waiting.sort(key=lambda trial: (-trials[trial], trial))
        trial = waiting.pop(0)
        found = _find_room(cluster, trials[trial])
        if found is None:
            found, displaced = _make_room(cluster, trials, trials[trial], fixed)
            waiting += displaced
        if found is not None:
            cluster.put(trial, found)
            fixed.add(trial)
    return cluster.places


def _find_room(cluster: _Cluster, gpus: int) -> dict[str, int] | None:
    """Return the place that a trial fills best, or None."""
    if gpus <= cluster.node_gpus:
        fitting = [(free, node) for node, free in cluster.free.items() if free >= gpus]
        return {min(fitting)[1]: gpus} if fitting else None
    empty = [node for node, free in cluster.free.items() if free == cluster.node_gpus]
    return _spread(gpus, empty, cluster.node_gpus)


def _make_room(
    cluster: _Cluster, trials: Mapping[str, int], gpus: int, fixed: Set[str]
) -> tuple[dict[str, int] | None, list[str]]:
    """Displace trials with fewer GPUs from the nodes with most room; nothing is displaced if that is not enough."""
    needed, unit = count_nodes(gpus, cluster.node_gpus), min(gpus, cluster.node_gpus)
    chosen: list[str] = []
    displaced: list[str] = []
    for node in sorted(cluster.free, key=lambda name: (-cluster.free[name], name)):
        room, going = cluster.free[node], []
        movable = [
            trial for trial, place in cluster.places.items() if node in place and trial not in fixed and len(place) == 1
        ]
        for trial in sorted(movable, key=lambda name: (trials[name], name)):
            if room >= unit or trials[trial] >= gpus:
                break
            going.append(trial)
            room += trials[trial]
        if room >= unit:
            chosen.append(node)
            displaced += going
        if len(chosen) == needed:
            for trial in displaced:
                cluster.take(trial)
            return (_spread(gpus, chosen, cluster.node_gpus) if needed > 1 else {chosen[0]: gpus}), displaced
    return None, []


def _spread(gpus: int, nodes: Sequence[str], node_gpus: int) -> dict[str, int] | None:
    needed = count_nodes(gpus, node_gpus)
    if len(nodes) < needed:
        return None
    rest = gpus - (needed - 1) * node_gpus
    return {node: node_gpus if number < needed - 1 else rest for number, node in enumerate(nodes[:needed])}


def _describe(
    trials: Mapping[str, int], last: Placement, places: Mapping[str, Mapping[str, int]], leaving: Sequence[str]
) -> PlacementChange:
    placement = Placement(trials={trial: dict(places[trial]) for trial in sorted(places)})
    groups: dict[str, list[str]] = {"started": [], "resized": [], "moved": []}
    for trial, own in placement.trials.items():
        before = last.trials.get(trial)
        if before is None:
            groups["started"].append(trial)
        elif sum(before.values()) != trials[trial]:
            groups["resized"].append(trial)
        elif set(before) != set(own):
            groups["moved"].append(trial)
    used = {node for own in placement.trials.values() for node in own}
    return PlacementChange(
        placement=placement,
        started=tuple(groups["started"]),
        resized=tuple(groups["resized"]),
        moved=tuple(groups["moved"]),
        left=tuple(sorted(set(trials) - set(placement.trials))),
        released=tuple(node for node in leaving if node not in used),
    )


def _choose_method(method: Method | str, trials: int) -> Method:
    try:
        chosen = Method(method)
    except ValueError:
        known = ", ".join(Method)
        raise UsageError(f"method: got {show_value(method)}; one of {known} is needed") from None
    if chosen is not Method.AUTO:
        return chosen
    return Method.EXACT if trials < EXACT_TRIALS else Method.PUBLISHED


def _check(
    trials: Mapping[str, int], nodes: Sequence[str], node_gpus: int, last: Placement, reserved: Set[str]
) -> None:
    """Refuse what cannot be placed, or was never placed so."""
    if node_gpus < 1:
        raise DataError("node_gpus", f"got {node_gpus}", "give the GPUs of a node, at least 1")
    if len(set(nodes)) != len(nodes):
        twice = next(node for number, node in enumerate(nodes) if node in nodes[:number])
        raise DataError("nodes", f"name {twice!r} twice", "give every node a name of its own")
    for trial, gpus in trials.items():
        if gpus < 1:
            raise DataError(f"trials.{trial}", f"got {gpus} GPUs", "give at least 1, or leave the trial out")
        if count_nodes(gpus, node_gpus) > len(nodes):
            problem = f"needs {gpus} GPUs; {len(nodes)} nodes of {node_gpus} have {len(nodes) * node_gpus}"
            raise DataError(f"trials.{trial}", problem, "add nodes, or give the trial fewer GPUs")
    room = dict.fromkeys(nodes, node_gpus)
    for trial, own in last.trials.items():
        for node, gpus in own.items():
            if node not in room:
                raise DataError(
                    f"last.{trial}", f"is on the node {node!r}, which is not in the cluster", "add the node"
                )
            room[node] -= gpus if len(own) == 1 else node_gpus
            if room[node] < 0:
                problem = f"is on the node {node!r}, which has more trials than its {node_gpus} GPUs hold"
                raise DataError(f"last.{trial}", problem, "give the placement that is in force")
    for trial in sorted(reserved):
        if trial not in last.trials or trial not in trials:
            raise DataError("reserved", f"name {trial!r}, which has no placement", "reserve trials that are placed")
