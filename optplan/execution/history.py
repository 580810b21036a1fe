"""How a run went, as plain data that its page is drawn from: gathered from its records alone, whatever its kind."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from optplan.contracts.conditions import waits_for
from optplan.contracts.modes import Mode
from optplan.contracts.plan import Plan, UnitKind
from optplan.contracts.resources import Billing, Resource
from optplan.execution import records as told
from optplan.execution.fleets.state import FleetState
from optplan.execution.records import read_metric
from optplan.execution.runs import Run
from optplan.execution.standing import spent_usd
from optplan.execution.state import Member, NodeState, Phase, State
from optplan.execution.streams.state import JobState, StreamState
from optplan.units import SECONDS_PER_HOUR

#: Moments at which the cost of a run is noted; it grows evenly between two.
_MOMENTS = 200
#: How trials and jobs stand, and how their stays ended.
WINNER, DONE, RUNNING, WAITING, OUT, GIVEN_UP = "winner", "finished", "running", "waiting", "eliminated", "given up"
STOPPED, FAILED = "stopped", "failed"


class Moment(NamedTuple):
    """What is so high after so many seconds of the run, or iterations."""

    t: float
    height: float


class Span(NamedTuple):
    """GPUs that are held from when until when, and what that costs."""

    begin_s: float
    end_s: float
    gpus: float
    amount: float = 0.0


@dataclass(slots=True)
class Stay:
    """A trial, a job or a fleet on GPUs of nodes in one piece; it goes on while it has no end."""

    member: str
    label: str  #: The stage; empty where there is none.
    place: Mapping[str, int]
    begin_s: float
    end_s: float | None = None
    how: str = RUNNING  #: Or how it ended, with the reason.
    is_resized: bool = False  #: Whether it has other GPUs than the one before, without a promotion.


@dataclass(slots=True)
class Seen:
    """A trial or a job: how it stands, what it tries, has done, shown (iterations, metric) and held (seconds)."""

    name: str
    state: str
    configuration: Mapping[str, Any]
    iterations: int
    curve: Sequence[Moment]
    gpu_s: float
    place: Mapping[str, int] = field(default_factory=dict)  #: Where it is, or was last.
    restarts: int = 0
    usd: float | None = None  #: Of its GPUs, while it held them; None without prices.
    own: dict[str, object] = field(default_factory=dict)  #: What jobs of a stream have besides.


@dataclass
class History:
    """A run as far as it went: ``t`` is the time of its last record, ``gpus`` are those of a node by resource."""

    kind: str
    t: float
    metric: str
    is_most: bool  #: Whether more of the metric is better.
    is_priced: bool  #: Whether US dollars are counted; else GPU-hours.
    nodes: Sequence[NodeState]
    gpus: Mapping[str, int]
    members: Sequence[Seen]
    stays: Sequence[Stay]
    borders: list[tuple[float, str]] = field(default_factory=list)  #: When stages began.
    replans: list[tuple[float, str]] = field(default_factory=list)  #: When the rest was planned anew, and why.
    events: list[str] = field(default_factory=list)
    spent: list[Moment] = field(default_factory=list)
    #: What the first plan expects, and each one after it from when so much was spent on.
    forecasts: list[tuple[Moment, list[Span]]] = field(default_factory=list)


class _Stays:
    """What operations have done, by their names and by who trained."""

    def __init__(self, metric: str, *, in_stages: bool) -> None:
        self._metric, self._in_stages = metric, in_stages
        self.all, self.last = dict[str, Stay](), dict[str, Stay]()
        self.curves, self.failures = defaultdict[str, list[Moment]](list), Counter[str]()
        self.shown = ""  #: The first number that was shown, which counts where no metric is named.

    def see(self, record: told.Record) -> None:
        match record:
            case told.OperationWanted():
                label, before = record.segment if self._in_stages else "", self.last.get(record.trial)
                stay = Stay(record.trial, label, record.place, record.t)
                stay.is_resized = before is not None and before.label == label and _width(before) != _width(stay)
                self.all[record.operation] = self.last[record.trial] = stay
            case told.MetricsShown():
                for operation, points in record.curves.items():
                    _extend(self.curves[self.all[operation].member], points)
            case told.OperationEnded() | told.OperationFailed():
                stay, value = self.all[record.operation], read_metric(record.metrics.get(self._metric))
                stay.end_s, stay.how = record.t, DONE
                if isinstance(record, told.OperationFailed):
                    stay.how = f"{STOPPED if record.blameless else FAILED}: {record.why}"
                    self.failures[stay.member] += 1
                elif not record.complete:
                    stay.how = STOPPED
                numbers = (name for name, shown in record.metrics.items() if not math.isnan(read_metric(shown)))
                self.shown = next(numbers, self.shown)
                if record.iterations is not None and not math.isnan(value):
                    _extend(self.curves[stay.member], [(record.iterations, value)])

    def list_members(self, state: Any, seen: History, prices: Mapping[str, Resource]) -> Iterator[Seen]:  # noqa: ANN401
        """Describe trials or jobs, in their order, or a fleet's job, if its ranks have shown a metric."""
        gpu_s, usd = defaultdict[str, float](float), defaultdict[str, float](float)
        for stay in self.all.values():
            for name, gpus in stay.place.items():
                node, held_s = state.nodes[name], gpus * ((seen.t if stay.end_s is None else stay.end_s) - stay.begin_s)
                rate = node.usd_per_hour or prices[node.resource].price_usd_per_hour or 0.0
                gpu_s[stay.member] += held_s
                usd[stay.member] += held_s * rate / seen.gpus[node.resource] / SECONDS_PER_HOUR
        name_state, last = _name_states(state), self.last
        members: Mapping[str, Member] = getattr(state, "trials", None) or getattr(state, "jobs", {})
        for name, each in members.items():
            done = max([each.iterations, *(int(point.t) for point in self.curves[name][-1:])])
            one = Seen(name, name_state(each), each.configuration, done, self.curves[name], gpu_s[name])
            one.place = each.place or (last[name].place if name in last else {})
            one.restarts = max(0, self.failures[name] - bool(each.why_dropped))
            one.usd = usd[name] if seen.is_priced else None
            if isinstance(each, JobState):
                took_h = None if each.ended_s is None else (each.ended_s - each.arrived_s) / SECONDS_PER_HOUR
                one.own = {
                    "class": each.job_class,
                    "arrived (h)": each.arrived_s / SECONDS_PER_HOUR,
                    "took (h)": took_h,
                }
                one.own |= {"resizes": max(0, len(each.widths) - 1)}
            yield one
        if isinstance(state, FleetState):
            for name, curve in self.curves.items():
                how = DONE if state.ended is not None else RUNNING
                yield Seen(name, how, {}, int(curve[-1].t), curve, gpu_s[name])


def gather(
    run: Run[Any, Any, Any, Any], records: Sequence[told.Record], tell: Callable[[told.Record], list[str]]
) -> History:
    """Gather how a run went from its records, of which ``tell`` says what readers should know.

    Of the run it looks at what that was made from, and at no record that is applied already.
    """
    state, metric, resources = run.make_state(), run.metric, dict(run.plan.resources)
    is_most = getattr(getattr(run, "rules", None), "mode", None) is Mode.MAX
    end_s = max((each.t for each in records), default=0.0)
    own, is_stream = getattr(run.options, "gpus_per_node", {}), isinstance(state, StreamState)
    sizes = {name: own.get(name, 1) if is_stream else each.gpus_per_node for name, each in resources.items()}
    seen = History(run.kind, end_s, metric, is_most, False, (), sizes, (), ())
    stays = _Stays(metric, in_stages=isinstance(state, State))
    seen.forecasts.append((Moment(0.0, 0.0), foresee(run.plan, end_s)))
    for record in records:
        if record.t >= len(seen.spent) * end_s / _MOMENTS and record.t > state.t:
            seen.spent.append(Moment(state.t, spend(state, sizes)))
        state.apply(record)
        stays.see(record)
        seen.events += tell(record)[:1]  # the output of what failed is in its log
        match record:
            case told.SegmentBegan():
                segment = state.segments[record.segment].segment
                seen.borders.append((record.t, segment.label or segment.id))
            case told.Replanned():
                resources |= state.plan.resources
                sizes |= {name: each.gpus_per_node for name, each in state.plan.resources.items()}
                spans = foresee(state.plan, end_s, record.t if isinstance(state, FleetState) else 0.0)
                later = [span for span in spans if span.begin_s >= record.t]
                seen.forecasts.append((Moment(record.t, spend(state, sizes)), later))
                seen.replans.append((record.t, record.why))
            case told.TablePublished():
                seen.replans.append((record.t, f"new widths: {record.why}"))
    seen.is_priced = not is_stream and all(each.price_usd_per_hour is not None for each in resources.values())
    seen.spent.append(Moment(end_s, spend(state, sizes)))
    seen.nodes, seen.stays = list(state.nodes.values()), list(stays.all.values())
    for vm in seen.nodes if isinstance(state, FleetState) else ():
        vm.launch_s = vm.wanted_s  # nobody tells when its launch begins
    for stay in seen.stays if isinstance(state, FleetState) else ():  # wanted before all of its VMs are there
        last_s = end_s if stay.end_s is None else stay.end_s
        ready = (state.nodes[name].ready_s for name in stay.place)
        stay.begin_s = min(last_s, max([stay.begin_s, *(last_s if t is None else t for t in ready)]))
    seen.metric = seen.metric or stays.shown
    seen.members = list(stays.list_members(state, seen, resources))
    return seen


def _width(stay: Stay) -> int:
    return sum(stay.place.values())


def _extend(curve: list[Moment], points: Iterable[tuple[int, float]]) -> None:
    """Add to a curve; what was done again from a checkpoint takes the place of what was shown before."""
    for iterations, value in points:
        while curve and curve[-1].t >= iterations:
            curve.pop()
        curve.append(Moment(iterations, value))


def held(nodes: Iterable[NodeState], now_s: float, sizes: Mapping[str, int]) -> Iterator[Span]:
    """Yield for each node its GPUs, and from when until when they were held."""
    for node in nodes:
        begin_s = node.wanted_s if node.launch_s is None else node.launch_s
        yield Span(begin_s, now_s if node.end_s is None else node.end_s, sizes[node.resource])


def spend(state: Any, sizes: Mapping[str, int]) -> float:  # noqa: ANN401 - the state of a run
    """Return what was spent until now: US dollars, or GPU-hours where prices are not known, and of streams."""
    if isinstance(state, FleetState):
        return state.spent_by(state.t)
    usd = spent_usd(state, state.t) if isinstance(state, State) else None
    gpu_s = (span.gpus * (span.end_s - span.begin_s) for span in held(state.nodes.values(), state.t, sizes))
    return sum(gpu_s) / SECONDS_PER_HOUR if usd is None else usd


def foresee(plan: Plan, until_s: float, offset_s: float = 0.0) -> list[Span]:
    """Say what a plan expects: of a stream on average until a time, of others segment by segment."""
    if any(unit.kind is UnitKind.JOB_CLASS for unit in plan.units):
        rates = {unit.id: getattr(unit, "arrival_rate_per_hour", 0.0) for unit in plan.units}
        gpus = sum(rates[each.unit] * each.share * each.expected.gpu_hours for each in plan.segments)
        return [Span(0.0, until_s, gpus, gpus * until_s / SECONDS_PER_HOUR)]
    is_priced = all(each.expected.cost_usd is not None for each in plan.segments)
    spans = []
    for each in plan.segments:
        resource, what = plan.resources[each.resource], each.expected
        is_shared, at_once = resource.billing is Billing.GPUS, min(each.at_once, each.members)
        gpus = at_once * each.gpus if is_shared else each.nodes * resource.gpus_per_node
        amount = (what.cost_usd or 0.0) if is_priced else what.gpu_hours
        spans.append(Span(offset_s + what.start_s, offset_s + each.end_s, gpus, amount))
    return spans


def _name_states(state: object) -> Callable[[Any], str]:
    if not isinstance(state, State):
        return lambda job: (
            GIVEN_UP if job.why_dropped else DONE if job.is_over else RUNNING if job.operation else WAITING
        )
    opened = [each for each in state.segments.values() if each.opened_s is not None]
    latest = {trial: each for each in opened for trial in each.members}
    running, is_over = {each.operation.trial for each in state.operations.values()}, state.ended is not None
    winner = None if state.ended is None else state.ended.winner

    def name(trial: Member) -> str:
        last = latest.get(trial.name)
        if trial.why_dropped or trial.name in (*running, winner):
            return GIVEN_UP if trial.why_dropped else RUNNING if trial.name in running else WINNER
        if last is None or last.phase is not Phase.ENDED:
            return OUT if is_over else WAITING
        later = [each for each in state.segments.values() if last.segment.id in waits_for(each.segment.enter)]
        return DONE if not later else OUT if is_over or all(each.opened_s is not None for each in later) else WAITING

    return name
