"""The placement controller (RubberBand, section 4.4): which trial runs on which node, which nodes come and which go.

Rules:

- nodes are alike; none holds more than its GPUs;
- a trial that fits on a node is on one node; a larger one owns whole nodes, as few as hold it, and what is left of the
  last of them stays empty;
- a trial that keeps its number of GPUs stays where it is, unless it is displaced;
- *reserved* trials, which are running, are not touched, whatever number of GPUs is asked for them;
- a trial for which there is no room is left out;
- nodes to be released are those with the fewest trials.

Algorithm 3: trials to place are taken by falling allocation; each goes to the node that it fills best; where none has
room, trials with fewer GPUs are displaced from the nodes with most room, the smallest first and no more than are in the
way, and placed later in the same round; what was placed in the round stays. The algorithm may displace more trials than
necessary, and leave some out where there would be room for all. It does not depend on the order in which trials and
nodes are given.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from optplan.contracts.resources import Billing
from optplan.execution.records import NodeWanted, Record
from optplan.execution.standing import paid_s
from optplan.execution.state import Phase, SegmentState, State

#: By trial, the GPUs that it uses on each of its nodes.
Places = dict[str, dict[str, int]]


def want_nodes(state: State, segment: SegmentState, now_s: float) -> Iterator[Record]:
    """Yield the intents by which a segment's pool grows to what the segment wants."""
    wanted, pool = segment.segment.nodes, segment.segment.pool
    made = sum(1 for node in state.nodes.values() if node.pool == pool) if len(state.pools[pool]) < wanted else 0
    for number in range(wanted - len(state.pools[pool])):
        name = f"{pool}.node-{made + number + 1:05d}"
        replacement = segment.phase is Phase.RUNNING
        yield NodeWanted(now_s, name, pool, segment.segment.resource, segment.segment.id, replacement)


def choose_surplus(state: State, pool: str, wanted: int, trials: dict[str, int], now_s: float) -> list[str]:
    """Return the nodes that a pool gives back, of which ``wanted`` stay; ``trials`` are the GPUs of those that go on.

    While a node has not used up its minimum charge the oldest go first: no node then gives up more of it than it must.
    Otherwise those go on which the fewest trials are that go on (RubberBand's placement controller).
    """
    nodes = state.ready_nodes(pool)
    surplus = len(nodes) - wanted
    if surplus <= 0:
        return []
    resource = state.plan.resources[state.nodes[nodes[0]].resource]
    is_young = any(each_s < resource.minimum_charge_s for each_s in paid_s(state, pool, now_s))
    if resource.billing is Billing.NODES and is_young:
        return nodes[:surplus]
    last = _last_places(state, trials, nodes, resource.gpus_per_node)
    return choose_releases(trials, nodes, last, surplus)


def place_trials(state: State, pool: str, trials: dict[str, int], running: Sequence[str] = ()) -> Places:
    """Place trials, by their GPUs, on a pool's nodes (RubberBand, Algorithm 3); those ``running`` stay where they are.

    Those for which there is no room are left out.
    """
    nodes = state.ready_nodes(pool)
    if not nodes:
        return {}
    gpus = state.plan.resources[state.nodes[nodes[0]].resource].gpus_per_node
    fitting = {trial: wanted for trial, wanted in trials.items() if wanted <= len(nodes) * gpus}
    last = _last_places(state, fitting, nodes, gpus)
    return place(fitting, nodes, gpus, last=last, reserved=last.keys() & set(running))


def _last_places(state: State, trials: dict[str, int], nodes: Sequence[str], gpus: int) -> Places:
    """Return where trials were that can be there again: on nodes that are still held, as far as these have room."""
    room = dict.fromkeys(nodes, gpus)
    places: Places = {}
    for trial in trials:
        own = dict(state.trials[trial].place)
        needed = min(sum(own.values()), gpus)
        if own and all(room.get(node, 0) >= needed for node in own):
            for node in own:
                room[node] -= needed
            places[trial] = own
    return places


def place(
    trials: Mapping[str, int],
    nodes: Sequence[str],
    node_gpus: int,
    *,
    last: Places,
    reserved: Set[str] = frozenset(),
) -> Places:
    """Place trials (GPUs by trial) on nodes; see the module for the rules.

    ``last`` is where some of these trials are now, on these nodes; ``reserved`` ones stay as they are there.
    """
    sizes = {trial: sum(last[trial].values()) if trial in reserved else gpus for trial, gpus in trials.items()}
    cluster = _Cluster(
        sizes, node_gpus, dict.fromkeys(nodes, node_gpus), {node: set() for node in nodes}, set(reserved)
    )
    for trial in _list_unchanged(sizes, last):
        cluster.put(trial, last[trial])
    waiting = [(-gpus, trial) for trial, gpus in sizes.items() if trial not in cluster.places]
    heapq.heapify(waiting)
    while waiting:
        _, trial = heapq.heappop(waiting)
        found = _find_room(cluster, sizes[trial])
        if found is None:
            found, displaced = _make_room(cluster, sizes[trial])
            for other in displaced:
                cluster.take(other)
                heapq.heappush(waiting, (-sizes[other], other))
        if found is not None:
            cluster.put(trial, cluster.spread(sizes[trial], found))
            cluster.fixed.add(trial)
    return {trial: cluster.places[trial] for trial in sorted(cluster.places)}


def choose_releases(trials: Mapping[str, int], nodes: Sequence[str], last: Places, number: int) -> list[str]:
    """Choose so many nodes to be released: those whose trials that stay, and then whose GPUs, are fewest."""
    holding: dict[str, list[int]] = {node: [] for node in nodes}
    for trial in _list_unchanged(trials, last):
        for node in last[trial]:
            holding[node].append(trials[trial])
    return sorted(sorted(nodes, key=lambda node: (len(holding[node]), sum(holding[node]), node))[:number])


def _list_unchanged(trials: Mapping[str, int], last: Places) -> list[str]:
    return [trial for trial, own in last.items() if sum(own.values()) == trials[trial]]


@dataclass
class _Cluster:
    """The nodes while trials are being placed: where these are, and what is free."""

    sizes: Mapping[str, int]  # GPUs by trial
    node_gpus: int
    free: dict[str, int]  # GPUs by node
    on: dict[str, set[str]]  # trials by node
    fixed: set[str]  # trials that nobody displaces any more
    places: Places = field(default_factory=dict)

    def span(self, gpus: int) -> int:
        return -(-gpus // self.node_gpus)

    def taken(self, gpus: int) -> int:
        """Return the GPUs that a trial takes from each of its nodes: what it has, or the whole node."""
        return min(gpus, self.node_gpus)

    def spread(self, gpus: int, nodes: Sequence[str]) -> dict[str, int]:
        """Divide a trial's GPUs over the nodes; the last gets the rest."""
        rest = gpus - (len(nodes) - 1) * self.node_gpus
        return {**dict.fromkeys(nodes[:-1], self.node_gpus), nodes[-1]: rest}

    def put(self, trial: str, nodes: Mapping[str, int]) -> None:
        self.places[trial] = dict(nodes)
        for node in nodes:
            self.free[node] -= self.taken(self.sizes[trial])
            self.on[node].add(trial)

    def take(self, trial: str) -> None:
        for node in self.places.pop(trial):
            self.free[node] += self.taken(self.sizes[trial])
            self.on[node].remove(trial)


def _find_room(cluster: _Cluster, gpus: int) -> list[str] | None:
    """Return the nodes that a trial fills best without displacing another one, or None."""
    needed, span = cluster.taken(gpus), cluster.span(gpus)
    fitting = sorted((free, node) for node, free in cluster.free.items() if free >= needed)
    return [node for _, node in fitting[:span]] if len(fitting) >= span else None


def _make_room(cluster: _Cluster, gpus: int) -> tuple[list[str] | None, list[str]]:
    """Find nodes for a trial, and those with fewer GPUs that are in its way; nothing if that is not enough."""
    needed, span = cluster.taken(gpus), cluster.span(gpus)
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
    sizes = cluster.sizes
    share = {trial: cluster.taken(sizes[trial]) for trial in cluster.on[node]}
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
