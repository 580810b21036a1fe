"""The cluster manager: which nodes to ask for and to give back, and a meter of what they cost.

The meter runs from the beginning of a node's launch (or from when it is ready, where launches are free) until it is
given back, idle time and minimum charges included; where GPUs are billed, while operations have them. Taking stock says
where a run stands by that meter, and what it has measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from optplan.contracts.resources import Billing, Resource
from optplan.contracts.standing import MeasuredNode, MeasuredTrial, Standing, Took
from optplan.execution.placement import Places, choose_releases, place
from optplan.execution.records import NodeReleasing, NodeWanted, Record
from optplan.execution.state import HELD, NodeState, Phase, SegmentState, State
from optplan.units import SECONDS_PER_HOUR


def want_nodes(state: State, segment: SegmentState, now_s: float) -> Iterator[Record]:
    """Yield the intents by which a segment's pool grows to what the segment wants."""
    wanted, pool = segment.segment.nodes, segment.segment.pool
    made = sum(1 for node in state.nodes.values() if node.pool == pool) if len(state.pools[pool]) < wanted else 0
    for number in range(wanted - len(state.pools[pool])):
        name = f"{pool}.node-{made + number + 1:05d}"
        replacement = segment.phase is Phase.RUNNING
        yield NodeWanted(now_s, name, pool, segment.segment.resource, segment.segment.id, replacement)


def ready_nodes(state: State, pool: str) -> list[str]:
    """Return the nodes of a pool that can train, the oldest first."""
    return sorted(name for name in state.pools[pool] if state.nodes[name].phase is Phase.READY)


def release_all(state: State, pool: str, now_s: float) -> Iterator[Record]:
    """Yield the intents by which all nodes of a pool are given back."""
    for name in sorted(state.pools[pool]):
        if state.nodes[name].phase in HELD:
            yield NodeReleasing(now_s, name)


def choose_surplus(state: State, pool: str, wanted: int, trials: dict[str, int], now_s: float) -> list[str]:
    """Return the nodes that a pool gives back, of which ``wanted`` stay; ``trials`` are the GPUs of those that go on.

    While a node has not used up its minimum charge the oldest go first: no node then gives up more of it than it must.
    Otherwise those go on which the fewest trials are that go on (RubberBand's placement controller).
    """
    nodes = ready_nodes(state, pool)
    surplus = len(nodes) - wanted
    if surplus <= 0:
        return []
    resource = state.plan.resources[state.nodes[nodes[0]].resource]
    is_young = any(each_s < resource.minimum_charge_s for each_s in paid_s(state, pool, now_s))
    if resource.billing is Billing.NODES and is_young:
        return nodes[:surplus]
    last = last_places(state, trials, nodes, resource.gpus_per_node)
    return choose_releases(trials, nodes, last, surplus)


def place_trials(state: State, pool: str, trials: dict[str, int], running: Sequence[str] = ()) -> Places:
    """Place trials, by their GPUs, on a pool's nodes (RubberBand, Algorithm 3); those ``running`` stay where they are.

    Those for which there is no room are left out.
    """
    nodes = ready_nodes(state, pool)
    if not nodes:
        return {}
    gpus = state.plan.resources[state.nodes[nodes[0]].resource].gpus_per_node
    fitting = {trial: wanted for trial, wanted in trials.items() if wanted <= len(nodes) * gpus}
    last = last_places(state, fitting, nodes, gpus)
    return place(fitting, nodes, gpus, last=last, reserved=last.keys() & set(running))


def last_places(state: State, trials: dict[str, int], nodes: Sequence[str], gpus: int) -> Places:
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


def spent_usd(state: State, now_s: float, *, minima: bool = True) -> float | None:
    """Return what the run has cost; None without prices.

    With ``minima`` the minimum charges of nodes that are held count in full, else what they have used up of them.
    """
    if any(resource.price_usd_per_hour is None for resource in state.plan.resources.values()):
        return None
    usd = sum(_busy_usd(state, segment, now_s) for segment in state.segments.values())
    for node in state.nodes.values():
        resource = state.plan.resources[node.resource]
        usd += 0.0 if _paid_from(node, resource) is None else resource.start_usd
        usd += _paid_s(node, resource, now_s, minima=minima or node.end_s is not None) * _usd_per_s(node, resource)
    return usd


def meter(state: State, now_s: float) -> tuple[float, float]:
    """Return US dollars and GPU-hours of what was held, or used where GPUs are billed; no other charges."""
    usd = gpu_s = 0.0
    for node in state.nodes.values():
        resource = state.plan.resources[node.resource]
        held_s = _paid_s(node, resource, now_s, minima=False)
        gpu_s, usd = gpu_s + resource.gpus_per_node * held_s, usd + held_s * _usd_per_s(node, resource)
    for segment in state.segments.values():
        resource = state.plan.resources[segment.segment.resource]
        if resource.billing is Billing.GPUS:
            busy_s = _busy_gpu_s(state, segment, now_s)
            gpu_s, usd = gpu_s + busy_s, usd + busy_s * _gpu_usd_per_s(resource)
    return usd, gpu_s / SECONDS_PER_HOUR


def spent_gpu_hours(state: State, now_s: float) -> float:
    """Return the GPU-hours for which operations have had GPUs."""
    return sum(_busy_gpu_s(state, segment, now_s) for segment in state.segments.values()) / SECONDS_PER_HOUR


def lasts_until_s(state: State, now_s: float, usd: float) -> float:
    """Return until when so many US dollars last at least, if nothing new is paid.

    Either all that is held is paid, or, until the first minimum charge is used up, what has used up its own.
    """
    most = rate = 0.0
    used_up_s = math.inf
    for names in state.pools.values():
        for node in map(state.nodes.__getitem__, names):
            resource = state.plan.resources[node.resource]
            begin_s = _paid_from(node, resource)
            if resource.billing is Billing.NODES and begin_s is not None:
                most += _usd_per_s(node, resource)
                if begin_s + resource.minimum_charge_s > now_s:
                    used_up_s = min(used_up_s, begin_s + resource.minimum_charge_s)
                else:
                    rate += _usd_per_s(node, resource)
    for running in (each.operation for each in state.operations.values()):
        resource = state.plan.resources[state.segments[running.segment].segment.resource]
        if resource.billing is Billing.GPUS:
            most, rate = (each + _gpu_usd_per_s(resource) * running.gpus for each in (most, rate))
    at_most_s, at_rate_s = (now_s + usd / each if each > 0 else math.inf for each in (most, rate))
    return max(at_most_s, min(at_rate_s, used_up_s))


def committed_usd(state: State, segment: SegmentState, now_s: float) -> float | None:
    """Return what the run will have cost at least once a segment has ended that begins now; None without prices.

    Nodes that stay, and new ones, are paid until the segment is expected to end, or for their minimum charge; nodes
    that are given back, and those of other pools, are paid as if they went now.
    """
    spent, what = spent_usd(state, now_s), segment.segment
    resource = state.plan.resources[what.resource]
    if spent is None or resource.price_usd_per_hour is None:
        return None
    if resource.billing is Billing.GPUS:
        return spent + (what.expected.cost_usd or 0.0)
    told = [node.usd_per_hour for node in state.nodes.values() if node.resource == what.resource and node.usd_per_hour]
    usd_per_s = (told[-1] if told else resource.price_usd_per_hour) / SECONDS_PER_HOUR  # new nodes cost what others do
    held = sorted(state.pools[what.pool], reverse=True)[: what.nodes]  # the youngest stay
    for node in map(state.nodes.__getitem__, held):
        begin_s = _paid_from(node, resource)
        paid_s = what.expected.seconds if begin_s is None else now_s + what.expected.seconds - begin_s
        charged_s = 0.0 if begin_s is None else max(now_s - begin_s, resource.minimum_charge_s)
        own_s = max(paid_s, resource.minimum_charge_s) - charged_s
        spent += own_s * _usd_per_s(node, resource)
    unpaid_s = resource.request_s if resource.launch_billed else what.expected.launch_s
    new_s = max(what.expected.seconds - unpaid_s, resource.minimum_charge_s)
    return spent + (what.nodes - len(held)) * (resource.start_usd + usd_per_s * new_s)


def paid_s(state: State, pool: str, now_s: float) -> tuple[float, ...]:
    """Return for how long each of the nodes of a pool has been paid that are ready, the oldest first."""
    nodes = [state.nodes[name] for name in ready_nodes(state, pool)]
    begins = (_paid_from(node, state.plan.resources[node.resource]) for node in nodes)
    return tuple(now_s - begin_s for begin_s in begins if begin_s is not None)


def segment_usd(state: State, segment: SegmentState, now_s: float, *, minima: bool = True) -> float | None:
    """Return what a segment has cost: the pool's nodes from its opening to the next one's, or until now.

    Minimum charges count as in :func:`spent_usd`.
    """
    resource = state.plan.resources[segment.segment.resource]
    if resource.price_usd_per_hour is None:
        return None
    usd = _busy_usd(state, segment, now_s)
    if segment.opened_s is None:
        return usd
    pool = [each for each in state.segments.values() if each.segment.pool == segment.segment.pool]
    later = [each.opened_s for each in pool if each.opened_s is not None and each.opened_s > segment.opened_s]
    until_s = min(later, default=now_s)
    for node in state.nodes.values():
        if node.pool != segment.segment.pool:
            continue
        begin_s, end_s = _paid_from(node, resource), now_s if node.end_s is None else node.end_s
        if begin_s is None:
            continue
        usd += resource.start_usd if node.segment == segment.segment.id else 0.0
        if resource.billing is Billing.NODES:
            gone_s = end_s if node.releasing_s is None else node.releasing_s
            held_s = max(0.0, min(gone_s, until_s) - max(begin_s, segment.opened_s))
            if held_s > 0 and gone_s <= until_s:  # it went with this segment
                held_s += end_s - gone_s
                if minima or node.end_s is not None:
                    held_s += max(0.0, resource.minimum_charge_s - (end_s - begin_s))
            usd += held_s * _usd_per_s(node, resource)
    return usd


def _busy_usd(state: State, segment: SegmentState, now_s: float) -> float:
    resource = state.plan.resources[segment.segment.resource]
    if resource.billing is not Billing.GPUS:
        return 0.0
    return _busy_gpu_s(state, segment, now_s) * _gpu_usd_per_s(resource)


def _busy_gpu_s(state: State, segment: SegmentState, now_s: float) -> float:
    busy_s = segment.busy_gpu_s
    for name in segment.running:
        running = state.operations[name]
        busy_s += (now_s - running.wanted_s) * running.operation.gpus
    return busy_s


def _gpu_usd_per_s(resource: Resource) -> float:
    return (resource.price_usd_per_hour or 0.0) / resource.gpus_per_node / SECONDS_PER_HOUR


def _paid_s(node: NodeState, resource: Resource, now_s: float, *, minima: bool) -> float:
    """Return for how long a node is paid: where GPUs are billed, not at all."""
    begin_s = _paid_from(node, resource)
    if begin_s is None or resource.billing is Billing.GPUS:
        return 0.0
    held_s = (now_s if node.end_s is None else node.end_s) - begin_s
    return max(held_s, resource.minimum_charge_s) if minima else held_s


def _usd_per_s(node: NodeState, resource: Resource) -> float:
    return (node.usd_per_hour or resource.price_usd_per_hour or 0.0) / SECONDS_PER_HOUR


def _paid_from(node: NodeState, resource: Resource) -> float | None:
    return node.launch_s if resource.launch_billed else node.ready_s


def take_stock(
    state: State, now_s: float, *, since_s: float = 0.0, limits: Mapping[str, float] | None = None
) -> Standing:
    """Say where a run stands; measurements count from ``since_s`` on, and limits take the place of the instance's."""
    ended = [each for each in state.segments.values() if each.phase is Phase.ENDED]
    took = {
        each.segment.id: Took(
            each.opened_s or 0.0,
            (each.ended_s or 0.0) - (each.opened_s or 0.0),
            segment_usd(state, each, now_s, minima=False),
        )
        for each in ended
    }
    alive = {each.segment.id: sum(not state.trials[trial].why_dropped for trial in each.ranking) for each in ended}
    return Standing(
        now_s=now_s,
        origin_s=state.origin_s or 0.0,
        spent_usd=spent_usd(state, now_s, minima=False),
        spent_gpu_hours=spent_gpu_hours(state, now_s),
        took=took,
        alive=alive,
        held={pool: paid_s(state, pool, now_s) for pool in state.pools},
        limits=limits or {},
        trials=tuple(_list_trials(state, since_s)),
        nodes=tuple(_list_nodes(state, since_s)),
    )


def _list_trials(state: State, since_s: float) -> list[MeasuredTrial]:
    """List the operations that ended in good order, and did iterations.

    Where what was seen of one does not tell its iterations from its start, they are taken for what they were planned to
    take, and all else for the start.
    """
    measured = []
    for each in state.past_operations:
        operation, timings = each.operation, each.timings
        steps = int(timings.get("steps", 0.0))
        if each.phase is not Phase.ENDED or each.wanted_s < since_s or not steps:
            continue
        step_s = timings.get("step_s")
        if step_s is None:
            planned_s = state.segments[operation.segment].segment.expected.iteration_s
            if planned_s is None:
                continue
            step_s = min(planned_s, each.busy_s / steps)
        measured.append(
            MeasuredTrial(
                segment=operation.segment,
                gpus=operation.gpus,
                nodes=max(1, len(operation.place)),
                iterations=steps,
                iteration_s=step_s,
                iteration_sd_s=timings.get("step_sd_s"),
                overhead_s=max(0.0, each.busy_s - steps * step_s),
                start_s=timings.get("start_s", 0.0),
            )
        )
    return measured


def _list_nodes(state: State, since_s: float) -> list[MeasuredNode]:
    return [
        MeasuredNode(node.resource, node.launch_s - node.wanted_s, node.ready_s - node.launch_s, node.usd_per_hour)
        for node in state.nodes.values()
        if node.ready_s is not None and node.launch_s is not None and node.wanted_s >= since_s
    ]
