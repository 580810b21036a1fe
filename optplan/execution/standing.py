"""Where a run of a plan stands: what it has cost and has measured; and planning its rest anew where that drifts.

The meter runs from the beginning of a node's launch (or from when it is ready, where launches are free) until it is
given back, idle time and minimum charges included; where GPUs are billed, while operations have them.

Drift is looked at whenever segments have ended and nothing runs: there the cluster may change anyway, and every trial
is stored. What was measured since the plan was made goes into its instance first.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from optplan.contracts.plan import Plan, Segment
from optplan.contracts.resources import Billing
from optplan.contracts.standing import MeasuredNode, MeasuredTrial, Standing, Took
from optplan.errors import OptplanError, UnsupportedError, UsageError
from optplan.execution.records import Noted, Record, Replanned
from optplan.execution.state import NodeState, Phase, SegmentState, State
from optplan.formulations import formulation_named
from optplan.instances.parsing import parse_instance
from optplan.solving import solve
from optplan.units import SECONDS_PER_HOUR, format_duration

#: Relative gap at which a solver may stop, and seconds that it has: nodes are paid meanwhile.
_GAP, _TIME_S = 1e-3, 20.0
#: Drift that is rounding.
_ROUNDING = 1e-9


class _Bill(NamedTuple):
    """What is paid of a node: ``start_usd`` once, then by the second; nothing by the second where GPUs are billed."""

    node: NodeState
    start_usd: float
    usd_per_s: float
    gpus: int  #: That are paid by the second.
    minimum_s: float
    begin_s: float
    end_s: float  #: Now, while it is held.

    @property
    def held_s(self) -> float:
        return self.end_s - self.begin_s

    def charged_s(self, *, minima: bool = True) -> float:
        """Return for how long it is paid: with ``minima``, or once it is gone, for its minimum charge at least."""
        return max(self.held_s, self.minimum_s) if minima or self.node.end_s is not None else self.held_s


def _list_bills(state: State, now_s: float, nodes: Iterable[NodeState]) -> Iterator[_Bill]:
    """Yield what is paid of nodes, as far as that has begun."""
    for node in nodes:
        resource = state.plan.resources[node.resource]
        begin_s = node.launch_s if resource.launch_billed else node.ready_s
        if begin_s is not None:
            is_paid, price = resource.billing is Billing.NODES, node.usd_per_hour or resource.price_usd_per_hour or 0.0
            usd_per_s, gpus = (price / SECONDS_PER_HOUR, resource.gpus_per_node) if is_paid else (0.0, 0)
            end_s = now_s if node.end_s is None else node.end_s
            yield _Bill(node, resource.start_usd, usd_per_s, gpus, resource.minimum_charge_s, begin_s, end_s)


def _gpu_usd_per_s(state: State, segment: Segment) -> float:
    """Return the price of a GPU that an operation has; nothing where nodes are billed."""
    resource = state.plan.resources[segment.resource]
    if resource.billing is not Billing.GPUS:
        return 0.0
    return (resource.price_usd_per_hour or 0.0) / resource.gpus_per_node / SECONDS_PER_HOUR


def _busy_gpu_s(state: State, segment: SegmentState, now_s: float) -> float:
    running = (state.operations[name] for name in segment.running)
    return segment.busy_gpu_s + sum((now_s - each.wanted_s) * each.operation.gpus for each in running)


def _busy_usd(state: State, segment: SegmentState, now_s: float) -> float:
    return _busy_gpu_s(state, segment, now_s) * _gpu_usd_per_s(state, segment.segment)


def spent_usd(state: State, now_s: float, *, minima: bool = True) -> float | None:
    """Return what the run has cost; None without prices.

    With ``minima`` the minimum charges of nodes that are held count in full, else what they have used up of them.
    """
    if any(resource.price_usd_per_hour is None for resource in state.plan.resources.values()):
        return None
    usd = sum(_busy_usd(state, segment, now_s) for segment in state.segments.values())
    for bill in _list_bills(state, now_s, state.nodes.values()):
        usd += bill.start_usd + bill.charged_s(minima=minima) * bill.usd_per_s
    return usd


def meter(state: State, now_s: float) -> tuple[float, float]:
    """Return US dollars and GPU-hours of what was held, or used where GPUs are billed; no other charges."""
    usd = gpu_s = 0.0
    for bill in _list_bills(state, now_s, state.nodes.values()):
        gpu_s, usd = gpu_s + bill.gpus * bill.held_s, usd + bill.held_s * bill.usd_per_s
    for segment in state.segments.values():
        if state.plan.resources[segment.segment.resource].billing is Billing.GPUS:
            gpu_s, usd = gpu_s + _busy_gpu_s(state, segment, now_s), usd + _busy_usd(state, segment, now_s)
    return usd, gpu_s / SECONDS_PER_HOUR


def spent_gpu_hours(state: State, now_s: float) -> float:
    """Return the GPU-hours for which operations have had GPUs."""
    return sum(_busy_gpu_s(state, segment, now_s) for segment in state.segments.values()) / SECONDS_PER_HOUR


def lasts_until_s(state: State, now_s: float, usd: float) -> float:
    """Return until when so many US dollars last at least, if nothing new is paid.

    Either all that is held is paid, or, until the first minimum charge is used up, what has used up its own.
    """
    nodes = (state.nodes[name] for names in state.pools.values() for name in names)
    held = (bill for bill in _list_bills(state, now_s, nodes) if bill.gpus)
    running = (each.operation for each in state.operations.values())
    paid = [(_gpu_usd_per_s(state, state.segments[each.segment].segment) * each.gpus, -math.inf) for each in running]
    paid += [(bill.usd_per_s, bill.begin_s + bill.minimum_s) for bill in held]
    most, rate = (sum(usd_per_s for usd_per_s, used_up_s in paid if used_up_s <= t) for t in (math.inf, now_s))
    at_most_s, at_rate_s = (now_s + usd / each if each > 0 else math.inf for each in (most, rate))
    return max(at_most_s, min(at_rate_s, *(used_up_s for _, used_up_s in paid if used_up_s > now_s), math.inf))


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
    staying = sorted(state.pools[what.pool], reverse=True)[: what.nodes]  # the youngest
    held = list(_list_bills(state, now_s, map(state.nodes.__getitem__, staying)))
    for bill in held:
        own_s = max(bill.held_s + what.expected.seconds, bill.minimum_s) - bill.charged_s()
        spent += own_s * bill.usd_per_s
    unpaid_s = resource.request_s if resource.launch_billed else what.expected.launch_s
    new_s = max(what.expected.seconds - unpaid_s, resource.minimum_charge_s)
    return spent + (what.nodes - len(held)) * (resource.start_usd + usd_per_s * new_s)


def paid_s(state: State, pool: str, now_s: float) -> tuple[float, ...]:
    """Return for how long each of the nodes of a pool has been paid that are ready, the oldest first."""
    ready = map(state.nodes.__getitem__, state.ready_nodes(pool))
    return tuple(bill.held_s for bill in _list_bills(state, now_s, ready))


def segment_usd(state: State, segment: SegmentState, now_s: float, *, minima: bool = True) -> float | None:
    """Return what a segment has cost: the pool's nodes from its opening to the next one's, or until now.

    Minimum charges count as in :func:`spent_usd`.
    """
    what, usd = segment.segment, _busy_usd(state, segment, now_s)
    if state.plan.resources[what.resource].price_usd_per_hour is None:
        return None
    if segment.opened_s is None:
        return usd
    pool = [each for each in state.segments.values() if each.segment.pool == what.pool]
    later = [each.opened_s for each in pool if each.opened_s is not None and each.opened_s > segment.opened_s]
    until_s = min(later, default=now_s)
    for bill in _list_bills(state, now_s, (node for node in state.nodes.values() if node.pool == what.pool)):
        usd += bill.start_usd if bill.node.segment == what.id else 0.0
        gone_s = bill.end_s if bill.node.releasing_s is None else bill.node.releasing_s
        held_s = max(0.0, min(gone_s, until_s) - max(bill.begin_s, segment.opened_s))
        if held_s > 0 and gone_s <= until_s:  # it went with this segment
            held_s += bill.end_s - gone_s + bill.charged_s(minima=minima) - bill.held_s
        usd += held_s * bill.usd_per_s
    return usd


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


@dataclass(frozen=True)
class Drift:
    """By what part more was taken than was planned since a plan was made; None where nothing was planned."""

    time: float | None
    cost: float | None

    @property
    def largest(self) -> float:
        """The larger one, whichever way it goes."""
        return max(abs(part) for part in (self.time or 0.0, self.cost or 0.0))

    def __str__(self) -> str:
        """Say both."""
        parts = [(f"{100 * part:+.0f} %", name) for name, part in (("time", self.time), ("cost", self.cost)) if part]
        return " and ".join(f"{part} {name}" for part, name in parts if part not in ("+0 %", "-0 %"))


@dataclass
class Replanner:
    """Looks for drift, and plans the rest of a run anew where it is ``above`` a part of what was planned.

    ``limits`` are this run's, as of :class:`~optplan.contracts.standing.Standing`; ``require`` raises UsageError for
    plans that the executor cannot follow.
    """

    state: State
    above: float
    limits: Mapping[str, float] = field(default_factory=dict)
    require: Callable[[Plan], None] | None = None
    #: Why the rest cannot be planned any more; empty while it can.
    refusal: str = ""

    def __call__(self, now_s: float) -> list[Record]:
        """Return the record by which another plan is followed; none where the run goes as planned."""
        drift = measure_drift(self.state, now_s)
        if drift.largest <= self.above + _ROUNDING:
            return []
        try:
            return self._plan_rest(now_s, drift)
        except OptplanError as error:
            text = f"the rest is not planned anew: {error}; it goes on as planned"
            return [] if text in self.state.notes else [Noted(now_s, text)]

    def _plan_rest(self, now_s: float, drift: Drift) -> list[Record]:
        plan, state = self.state.plan, self.state
        continue_plan = formulation_named(plan.formulation).continue_plan
        if not plan.instance:
            raise UnsupportedError("the plan does not hold its instance; make it anew with `optplan solve --plan`")
        instance = parse_instance(plan.instance, path="plan.instance")
        since_s = state.replans[-1].t if state.replans else 0.0
        standing = take_stock(state, now_s, since_s=since_s, limits=self.limits)
        with contextlib.suppress(UsageError):  # where nothing was measured it stays as it is
            instance, _ = formulation_named(plan.formulation).calibrate(instance, plan, standing)
        found = continue_plan(instance, plan, standing, partial(solve, gap=_GAP, time_limit_s=_TIME_S))
        if found.plan is None:
            reason = "" if found.infeasibility is None else f": {found.infeasibility.reason}"
            advice = "--resume with that limit goes on, and so it does as planned with --replan-above never"
            self.refusal = f"{drift} against the plan, and the rest has become infeasible{reason}; {advice}"
            return []
        if self.require is not None:
            self.require(found.plan)
        why = f"{drift} against the plan: the rest is planned anew, {describe_rest(found.plan, state, now_s)}"
        return [Replanned(now_s, found.plan.to_json_data(), why, *meter(state, now_s))]


def measure_drift(state: State, now_s: float) -> Drift:
    """Return by how much the segments that have ended since the plan was made took more than it says.

    Costs are compared without minimum charges, which come due when nodes are given back.
    """
    since_s = state.replans[-1].t if state.replans else 0.0
    ended = [
        each.segment
        for each in state.segments.values()
        if each.phase is Phase.ENDED and each.opened_s is not None and each.opened_s >= since_s
    ]
    planned_s = max((segment.end_s for segment in ended), default=since_s) - since_s
    planned_usd = planned_h = 0.0
    for segment in ended:
        resource, expected = state.plan.resources[segment.resource], segment.expected
        hours = expected.busy_gpu_hours if resource.billing is Billing.GPUS else expected.gpu_hours
        planned_h += hours
        planned_usd += hours * (resource.price_usd_per_hour or 0.0) / resource.gpus_per_node
    before = (state.replans[-1].spent_usd, state.replans[-1].spent_gpu_hours) if state.replans else (0.0, 0.0)
    used = [now - then for now, then in zip(meter(state, now_s), before, strict=True)]
    taken, planned = (used[0], planned_usd) if planned_usd > 0 else (used[1], planned_h)
    return Drift(
        (now_s - since_s) / planned_s - 1.0 if planned_s > 0 else None, taken / planned - 1.0 if planned > 0 else None
    )


def describe_rest(plan: Plan, state: State, now_s: float) -> str:
    """Say what a plan gives the segments that have not begun, and what they take from now on."""
    left = [each for each in plan.segments if each.id not in state.segments or state.segments[each.id].began_s is None]
    seconds = max((each.end_s for each in left), default=0.0) - now_s
    costs = [each.expected.cost_usd for each in left]
    usd = "" if None in costs else f" and ${sum(cost or 0.0 for cost in costs):,.2f}"
    first = left[0].label or left[0].id if left else "nothing"
    return f"{format_duration(seconds)}{usd} from now on, next: {first}"
