"""The placement controller (RubberBand, section 4.4): which trial runs on which node.

Rules:

- nodes are alike, as instances of one type are; none holds more than its GPUs;
- a trial that fits on a node is on one node; a larger one owns whole nodes, as few as hold it, and what is left of the
  last of them stays empty;
- a trial that keeps its number of GPUs stays where it is, unless it is displaced or its node is to be released;
- the placements of *reserved* trials, which have been announced and not yet acquired, are not touched; where another
  number of GPUs is asked for one, that is *deferred* to a later call;
- nodes that are to be released are emptied before anything else; if only their number is given, they are chosen;
- no trial is lost: one for which there is no room is *left*, and named.

Algorithm 3: trials to place are taken by falling allocation; each goes to the node that it fills best; where none has
room, trials with fewer GPUs are displaced from the nodes with most room, the smallest first and no more than are in the
way, and placed later in the same round; what was placed in the round stays. Nodes to be released are those with the
fewest trials. The algorithm may displace more trials than necessary, and leave some where there would be room for all.
It does not depend on the order in which trials and nodes are given.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from pydantic import Field

from optplan.errors import DataError
from optplan.schema import ByName, FrozenModel

#: By trial, the GPUs that it uses on each of its nodes.
Places = dict[str, dict[str, int]]


class Placement(FrozenModel):
    """Where trials run: by trial, the GPUs that it uses on each of its nodes."""

    trials: ByName[Annotated[ByName[Annotated[int, Field(ge=1)]], Field(min_length=1)]] = Field(default_factory=dict)

    def gpus(self, trial: str) -> int:
        """Return how many GPUs a trial has; 0 where it has no place."""
        return sum(self.trials.get(trial, {}).values())


@dataclass(frozen=True)
class PlacementChange:
    """A new placement, and what has to happen for it."""

    placement: Placement  # the new one
    started: tuple[str, ...]  # trials that had no place before
    resized: tuple[str, ...]  # trials that get another number of GPUs; they start anew from their checkpoints
    moved: tuple[str, ...]  # trials that keep their number of GPUs and change their place
    left: tuple[str, ...]  # trials without a place
    deferred: tuple[str, ...]  # reserved trials that keep their GPUs although another number was asked for
    released: tuple[str, ...]  # nodes that were asked to be emptied, and are
    empty: tuple[str, ...]  # all nodes without a trial: those released, and those that could be as well


@dataclass(frozen=True)
class _Task:
    """What has to be placed, checked: of reserved trials the GPUs that they have; ``last`` has none that ended."""

    trials: Mapping[str, int]
    nodes: tuple[str, ...]
    node_gpus: int
    last: Placement
    reserved: frozenset[str]

    @cached_property
    def unchanged(self) -> tuple[str, ...]:
        """Trials that keep their number of GPUs and are not reserved: they should stay."""
        return tuple(
            trial
            for trial in sorted(self.last.trials)
            if trial not in self.reserved and self.last.gpus(trial) == self.trials[trial]
        )

    def span(self, gpus: int) -> int:
        """Return how many nodes a trial is on."""
        return -(-gpus // self.node_gpus)

    def taken(self, gpus: int) -> int:
        """Return the GPUs that a trial takes from each of its nodes: what it has, or the whole node."""
        return min(gpus, self.node_gpus)

    def spread(self, gpus: int, nodes: Sequence[str]) -> dict[str, int]:
        """Divide a trial's GPUs over the first of the nodes, as many as it needs; the last gets the rest."""
        span = self.span(gpus)
        rest = gpus - (span - 1) * self.node_gpus
        return {node: self.node_gpus if number < span - 1 else rest for number, node in enumerate(nodes[:span])}


def place(
    trials: Mapping[str, int],
    nodes: Sequence[str],
    node_gpus: int,
    *,
    last: Placement | None = None,
    reserved: Set[str] = frozenset(),
    release: int | Set[str] = 0,
) -> PlacementChange:
    """Place trials (GPUs by trial) on nodes, those to be released included; see the module for the rules.

    ``last`` is where trials are now, of which those not listed any more have ended; ``reserved`` trials stay as they
    are; ``release`` names nodes to be emptied, or says how many. A DataError names what is impossible.
    """
    last = last or Placement()
    _check_nodes(nodes, node_gpus)
    _check_last(nodes, node_gpus, last)
    for trial in sorted(reserved):
        if trial not in last.trials or trial not in trials:
            raise DataError("reserved", f"name {trial!r}, which has no placement", "reserve trials that are placed")
    staying = len(nodes) - (release if isinstance(release, int) else len(release))
    task = _Task(
        trials={trial: last.gpus(trial) if trial in reserved else gpus for trial, gpus in trials.items()},
        nodes=tuple(sorted(nodes)),
        node_gpus=node_gpus,
        last=Placement(trials={trial: own for trial, own in last.trials.items() if trial in trials}),
        reserved=frozenset(reserved),
    )
    leaving = _choose_releases(task, release)
    _check_trials(trials, staying, node_gpus)
    places = _place(task, leaving)
    deferred = tuple(trial for trial in sorted(reserved) if trials[trial] != last.gpus(trial))
    return _describe(task, places, leaving, deferred)


def _choose_releases(task: _Task, release: int | Set[str]) -> tuple[str, ...]:
    """Return the nodes to be emptied: those named, or those whose trials that stay, and then whose GPUs, are fewest."""
    locked = {node for trial in task.reserved for node in task.last.trials[trial]}
    if not isinstance(release, int):
        for node in sorted(release):
            if node not in task.nodes:
                raise DataError("release", f"got the node {node!r}, which is not in the cluster", "name other nodes")
            if node in locked:
                raise DataError("release", f"got the node {node!r}, which a reserved trial is on", "wait for it")
        return tuple(sorted(release))
    free = [node for node in task.nodes if node not in locked]
    if not 0 <= release <= len(free):
        problem = f"got {release}; of {len(task.nodes)} nodes {len(free)} can be released"
        raise DataError("release", problem, "ask for fewer, or name them")
    holding: dict[str, list[int]] = {node: [] for node in task.nodes}
    for trial in task.unchanged:
        for node in task.last.trials[trial]:
            holding[node].append(task.trials[trial])
    ranked = sorted(free, key=lambda node: (len(holding[node]), sum(holding[node]), node))
    return tuple(sorted(ranked[:release]))


@dataclass
class _Cluster:
    """The nodes that stay, while a placement is being made: where trials are, and what is free."""

    task: _Task
    free: dict[str, int]
    on: dict[str, set[str]]
    places: Places = field(default_factory=dict)
    #: Trials that nobody displaces any more.
    fixed: set[str] = field(default_factory=set)

    def put(self, trial: str, place: Mapping[str, int]) -> None:
        self.places[trial] = dict(place)
        for node in place:
            self.free[node] -= self.task.taken(self.task.trials[trial])
            self.on[node].add(trial)

    def take(self, trial: str) -> None:
        for node in self.places.pop(trial):
            self.free[node] += self.task.taken(self.task.trials[trial])
            self.on[node].remove(trial)


def _place(task: _Task, leaving: Sequence[str]) -> Places:
    """Run Algorithm 3 on the nodes that stay."""
    nodes = [node for node in task.nodes if node not in set(leaving)]
    cluster = _Cluster(task, dict.fromkeys(nodes, task.node_gpus), {node: set() for node in nodes})
    for trial in (*sorted(task.reserved), *task.unchanged):
        if all(node in cluster.free for node in task.last.trials[trial]):
            cluster.put(trial, task.last.trials[trial])
    cluster.fixed |= task.reserved
    waiting = [(-gpus, trial) for trial, gpus in task.trials.items() if trial not in cluster.places]
    heapq.heapify(waiting)
    while waiting:
        _, trial = heapq.heappop(waiting)
        gpus = task.trials[trial]
        found = _find_room(cluster, gpus)
        if found is None:
            found, displaced = _make_room(cluster, gpus)
            for other in displaced:
                cluster.take(other)
                heapq.heappush(waiting, (-task.trials[other], other))
        if found is not None:
            cluster.put(trial, task.spread(gpus, found))
            cluster.fixed.add(trial)
    return cluster.places


def _find_room(cluster: _Cluster, gpus: int) -> list[str] | None:
    """Return the nodes that a trial fills best without displacing another one, or None."""
    needed, span = cluster.task.taken(gpus), cluster.task.span(gpus)
    fitting = sorted((free, node) for node, free in cluster.free.items() if free >= needed)
    return [node for _, node in fitting[:span]] if len(fitting) >= span else None


def _make_room(cluster: _Cluster, gpus: int) -> tuple[list[str] | None, list[str]]:
    """Find nodes for a trial, and those with fewer GPUs that are in its way; nothing if that is not enough."""
    task = cluster.task
    needed, span = task.taken(gpus), task.span(gpus)
    chosen: list[str] = []
    displaced: list[str] = []
    queue = deque(sorted(cluster.free, key=lambda name: (-cluster.free[name], name)))
    while queue and len(chosen) < span:
        node = queue.popleft()
        if node in chosen:
            continue
        going = _clear(cluster, node, gpus, needed, displaced)
        if going is None:
            continue
        chosen.append(node)
        displaced += going
        # Where a trial with several nodes has to go, its other nodes have most room.
        queue.extendleft(sorted((other for trial in going for other in cluster.places[trial]), reverse=True))
    return (chosen, displaced) if len(chosen) == span else (None, [])


def _clear(cluster: _Cluster, node: str, gpus: int, needed: int, displaced: Sequence[str]) -> list[str] | None:
    """Return the smaller trials that have to go beside those displaced, the smallest first; None if not enough."""
    sizes = cluster.task.trials
    share = {trial: cluster.task.taken(sizes[trial]) for trial in cluster.on[node]}
    room = cluster.free[node] + sum(share[trial] for trial in displaced if trial in share)
    movable = [
        trial for trial in share if sizes[trial] < gpus and trial not in cluster.fixed and trial not in displaced
    ]
    going: list[str] = []
    for trial in sorted(movable, key=lambda name: (sizes[name], name)):
        if room >= needed:
            break
        going.append(trial)
        room += share[trial]
    if room < needed:
        return None
    for trial in tuple(going):
        if room - share[trial] >= needed:
            going.remove(trial)
            room -= share[trial]
    return going


def _describe(task: _Task, places: Places, leaving: Sequence[str], deferred: tuple[str, ...]) -> PlacementChange:
    placement = Placement(trials={trial: places[trial] for trial in sorted(places)})
    groups: dict[str, list[str]] = {"started": [], "resized": [], "moved": []}
    for trial, own in placement.trials.items():
        before = task.last.trials.get(trial)
        if before is None:
            groups["started"].append(trial)
        elif sum(before.values()) != task.trials[trial]:
            groups["resized"].append(trial)
        elif set(before) != set(own):
            groups["moved"].append(trial)
    used = {node for own in placement.trials.values() for node in own}
    return PlacementChange(
        placement=placement,
        started=tuple(groups["started"]),
        resized=tuple(groups["resized"]),
        moved=tuple(groups["moved"]),
        left=tuple(sorted(set(task.trials) - set(placement.trials))),
        deferred=deferred,
        released=tuple(leaving),
        empty=tuple(node for node in task.nodes if node not in used),
    )


def _check_nodes(nodes: Sequence[str], node_gpus: int) -> None:
    if node_gpus < 1:
        raise DataError("node_gpus", f"got {node_gpus}", "give the GPUs of a node, at least 1")
    if len(set(nodes)) != len(nodes):
        twice = next(node for number, node in enumerate(nodes) if node in nodes[:number])
        raise DataError("nodes", f"name {twice!r} twice", "give every node a name of its own")


def _check_trials(trials: Mapping[str, int], staying: int, node_gpus: int) -> None:
    """Refuse allocations for which there is no room even in an empty cluster."""
    for trial, gpus in trials.items():
        if gpus < 1:
            raise DataError(f"trials.{trial}", f"got {gpus} GPUs", "give at least 1, or leave the trial out")
        if gpus > staying * node_gpus:
            problem = f"needs {gpus} GPUs; the {staying} nodes of {node_gpus} that stay have {staying * node_gpus}"
            raise DataError(f"trials.{trial}", problem, "add nodes, release fewer, or give the trial fewer GPUs")


def _check_last(nodes: Sequence[str], node_gpus: int, last: Placement) -> None:
    """Refuse a placement that was never in force on these nodes."""
    room = dict.fromkeys(nodes, node_gpus)
    fix = "give the placement that is in force"
    for trial, own in last.trials.items():
        gpus = sum(own.values())
        for node, share in own.items():
            if node not in room:
                raise DataError(
                    f"last.{trial}", f"is on the node {node!r}, which is not in the cluster", "add the node"
                )
            if share > node_gpus:
                raise DataError(f"last.{trial}", f"has {share} GPUs on the node {node!r} of {node_gpus}", fix)
            room[node] -= min(gpus, node_gpus)
            if room[node] < 0:
                problem = f"is on the node {node!r}, which has more trials than its {node_gpus} GPUs hold"
                raise DataError(f"last.{trial}", problem, fix)
        span = -(-gpus // node_gpus)
        if len(own) != span:
            problem = f"is on {len(own)} nodes; {gpus} GPUs belong on {span} of {node_gpus}"
            raise DataError(f"last.{trial}", problem, fix)
