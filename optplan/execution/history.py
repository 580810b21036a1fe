"""How a run went, as plain data that its page is drawn from: gathered record by record, whatever its kind.

Nothing but the records is needed, so that a run that goes on and one that ended years ago are read alike.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from optplan.contracts.conditions import Mode, waits_for
from optplan.contracts.plan import Plan, UnitKind
from optplan.contracts.resources import Billing
from optplan.execution import records as told
from optplan.execution.cluster import spent_usd
from optplan.execution.fleets.state import FleetState
from optplan.execution.runs import Run
from optplan.execution.scheduler import read_metric
from optplan.execution.state import Member, NodeState, Phase, State
from optplan.execution.streams.state import JobState, StreamState
from optplan.units import SECONDS_PER_HOUR

#: Most moments at which the cost of a run is noted; it grows evenly between two.
_MOST_MOMENTS = 400
#: How trials and jobs stand, and how their stays ended.
WINNER, DONE, RUNNING, WAITING, OUT, GIVEN_UP = "winner", "finished", "running", "waiting", "eliminated", "given up"
STOPPED, FAILED = "stopped", "failed"


class Moment(NamedTuple):
    """What is so high from a time on, in seconds since the run began, or after so many iterations."""

    t: float
    height: float


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


@dataclass(slots=True, kw_only=True)
class Seen:
    """A trial or a job: what it tries, how it stands, where it was last, what it has shown and taken."""

    name: str
    state: str
    configuration: Mapping[str, Any] = field(default_factory=dict)
    iterations: int = 0
    curve: Sequence[Moment] = ()
    place: Mapping[str, int] = field(default_factory=dict)
    restarts: int = 0
    gpu_s: float = 0.0
    usd: float | None = None  #: Of its GPUs, while it held them; None without prices.
    own: Mapping[str, str | float | None] = field(default_factory=dict)  #: What jobs of a stream have besides.


class Forecast(NamedTuple):
    """What a plan expects: GPUs that are held, and the amount spent, over time."""

    name: str
    gpus: list[Moment]
    spent: list[Moment]


@dataclass
class History:
    """A run as far as it went: ``gpus`` are those of a node by resource, ``t`` is the time of its last record."""

    kind: str
    t: float
    metric: str
    is_most: bool  #: Whether more of the metric is better.
    is_priced: bool  #: Whether US dollars are counted; else GPU-hours.
    nodes: list[NodeState]
    gpus: Mapping[str, int]
    members: list[Seen]
    stays: list[Stay]
    borders: list[tuple[float, str]] = field(default_factory=list)  #: When stages began.
    replans: list[tuple[float, str]] = field(default_factory=list)  #: When the rest was planned anew, and why.
    events: list[str] = field(default_factory=list)
    spent: list[Moment] = field(default_factory=list)
    forecasts: list[Forecast] = field(default_factory=list)  #: Of the first plan, and of each one after it.


class Historian:
    """Takes the records of a run one by one, and says at any time how it went; ``tell`` says what a reader should know.

    Of the run it looks at what that was made from, and at no record that is applied already.
    """

    def __init__(self, run: Run[Any, Any, Any, Any], tell: Callable[[told.Record], list[str]]) -> None:
        self._kind, self._state, self._tell, rules = run.kind, run.make_state(), tell, getattr(run, "rules", None)
        self._metric = (getattr(run.options, "metric", None) or "") if rules is None else rules.metric
        self._is_most = rules is not None and rules.mode is Mode.MAX
        self._sizes = getattr(run.options, "gpus_per_node", {})
        self._resources = dict(run.plan.resources)
        self._stays: dict[str, Stay] = {}
        self._last: dict[str, Stay] = {}
        self._failures, self._resizes = Counter[str](), Counter[str]()
        self._curves: dict[str, list[Moment]] = {}
        self._borders: list[tuple[float, str]] = []
        self._replans: list[tuple[float, str]] = []
        self._events: list[str] = []
        self._moments, self._apart_s = [Moment(0.0, 0.0)], 0.0
        self._forecasts = [foresee(run.plan)]

    def see(self, record: told.Record) -> None:
        """Take a record into account."""
        state = self._state
        if record.t > state.t >= self._moments[-1].t + self._apart_s:
            self._meter()
        state.apply(record)
        self._events += self._tell(record)
        match record:
            case told.OperationWanted():
                self._begin(record)
            case told.MetricsShown():
                for operation, points in record.curves.items():
                    self._show(self._stays[operation].member, points)
            case told.OperationEnded() | told.OperationFailed():
                self._end(record)
            case told.SegmentBegan():
                segment = state.segments[record.segment].segment
                self._borders.append((record.t, segment.label or segment.id))
            case told.Replanned():
                self._resources |= state.plan.resources
                self._replans.append((record.t, record.why))
                # Those of fleets count from when they are made.
                offset_s = record.t if self._kind == "fleet" else 0.0
                self._forecasts.append(foresee(state.plan, offset_s, Moment(record.t, self._spend())))
            case told.TablePublished():
                self._replans.append((record.t, f"new widths: {record.why}"))

    def write(self) -> History:
        """Say how it went until now."""
        self._meter()
        return History(
            self._kind,
            self._state.t,
            self._metric,
            self._is_most,
            self._is_priced,
            list(self._state.nodes.values()),
            {name: self._size(name) for name in self._resources},
            list(self._list_members()),
            list(self._stays.values()),
            self._borders,
            self._replans,
            self._events,
            self._moments,
            self._forecasts,
        )

    def _begin(self, record: told.OperationWanted) -> None:
        trial, label = record.trial, record.segment if self._kind == "search" else ""
        stay, last = Stay(trial, label, record.place, record.t), self._last.get(trial)
        if last is not None and last.label == label and sum(last.place.values()) != sum(stay.place.values()):
            stay.is_resized = True
            self._resizes[trial] += 1
        self._stays[record.operation] = self._last[trial] = stay

    def _end(self, record: told.OperationEnded | told.OperationFailed) -> None:
        stay, value = self._stays[record.operation], read_metric(record.metrics.get(self._metric))
        stay.end_s = record.t
        if isinstance(record, told.OperationEnded):
            stay.how = DONE if record.complete else STOPPED
        else:
            stay.how = f"{FAILED}: {record.why}"
            self._failures[stay.member] += 1
        if record.iterations is not None and not math.isnan(value):
            self._show(stay.member, [(record.iterations, value)])

    def _show(self, member: str, points: Sequence[tuple[int, float]]) -> None:
        """Add to a curve; what was done again from a checkpoint takes the place of what was shown before."""
        curve = self._curves.setdefault(member, [])
        for iterations, value in points:
            while curve and curve[-1].t >= iterations:
                curve.pop()
            curve.append(Moment(iterations, value))

    @property
    def _is_priced(self) -> bool:
        is_known = all(each.price_usd_per_hour is not None for each in self._resources.values())
        return is_known and not isinstance(self._state, StreamState)

    def _size(self, resource: str) -> int:
        is_stream = isinstance(self._state, StreamState)
        return int(self._sizes.get(resource, 1)) if is_stream else self._resources[resource].gpus_per_node

    def _meter(self) -> None:
        """Note what is spent by now; where that was noted too often, every second note is forgotten."""
        now_s = self._state.t
        if now_s > self._moments[-1].t:
            self._moments.append(Moment(now_s, self._spend()))
        if len(self._moments) > _MOST_MOMENTS:
            self._moments, self._apart_s = self._moments[::2], 2.0 * now_s / _MOST_MOMENTS

    def _spend(self) -> float:
        state = self._state
        if isinstance(state, FleetState):
            return state.spent_by(state.t)
        usd = spent_usd(state, state.t) if isinstance(state, State) else None
        return gpu_hours(state.nodes.values(), state.t, self._size) if usd is None else usd

    def _list_members(self) -> Iterator[Seen]:
        """Describe trials or jobs, in their order; a fleet has none."""
        state, name_state = self._state, _name_states(self._state)
        gpu_s, usd = defaultdict[str, float](float), defaultdict[str, float](float)
        for stay in self._stays.values():
            seconds = (state.t if stay.end_s is None else stay.end_s) - stay.begin_s
            for node, gpus in stay.place.items():
                of = state.nodes[node]
                rate = of.usd_per_hour or self._resources[of.resource].price_usd_per_hour or 0.0
                gpu_s[stay.member] += seconds * gpus
                usd[stay.member] += rate / self._size(of.resource) / SECONDS_PER_HOUR * seconds * gpus
        members: Mapping[str, Member] = getattr(state, "trials", None) or getattr(state, "jobs", {})
        for name, each in members.items():
            curve, last = self._curves.get(name, ()), self._last.get(name)
            yield Seen(
                name=name,
                state=name_state(each),
                configuration=each.configuration,
                iterations=max(each.iterations, int(curve[-1].t) if curve else 0),
                curve=curve,
                place=each.place or ({} if last is None else last.place),
                restarts=max(0, self._failures[name] - bool(each.why_dropped)),
                gpu_s=gpu_s[name],
                usd=usd[name] if self._is_priced else None,
                own=_describe_job(each, self._resizes[name]) if isinstance(each, JobState) else {},
            )


def _describe_job(job: JobState, resizes: int) -> dict[str, str | float | None]:
    took_h = None if job.ended_s is None else (job.ended_s - job.arrived_s) / SECONDS_PER_HOUR
    return {
        "class": job.job_class,
        "arrived (h)": job.arrived_s / SECONDS_PER_HOUR,
        "took (h)": took_h,
        "resizes": resizes,
    }


def held_s(node: NodeState, now_s: float) -> tuple[float, float]:
    """Return from when until when a node was held."""
    return node.wanted_s if node.launch_s is None else node.launch_s, now_s if node.end_s is None else node.end_s


def gpu_hours(nodes: Iterator[NodeState] | Any, now_s: float, size: Callable[[str], int]) -> float:  # noqa: ANN401
    """Add up for how long nodes were held."""
    spans = ((size(node.resource), *held_s(node, now_s)) for node in nodes)
    return sum(gpus * (end_s - begin_s) for gpus, begin_s, end_s in spans) / SECONDS_PER_HOUR


def _name_states(state: object) -> Callable[[Any], str]:
    """Return what says how a trial or a job stands."""
    if not isinstance(state, State):
        return lambda job: (
            (GIVEN_UP if job.why_dropped else DONE) if job.is_over else RUNNING if job.operation else WAITING
        )
    opened = [each for each in state.segments.values() if each.opened_s is not None]
    latest = {trial: each for each in opened for trial in each.members}
    running, is_over = {each.operation.trial for each in state.running}, state.ended is not None
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


def foresee(plan: Plan, offset_s: float = 0.0, since: Moment | None = None) -> Forecast:
    """Say what a plan expects from when so much was spent on: of a stream on average, of others by segments.

    Spent are US dollars, or GPU-hours where prices are not known, and of streams.
    """
    if any(unit.kind is UnitKind.JOB_CLASS for unit in plan.units):
        rates = {unit.id: getattr(unit, "arrival_rate_per_hour", 0.0) for unit in plan.units}
        gpus = sum(rates[each.unit] * each.share * each.expected.gpu_hours for each in plan.segments)
        return Forecast("planned, on average", [Moment(0.0, gpus)], [])
    first = since or Moment(0.0, 0.0)
    is_priced = all(each.expected.cost_usd is not None for each in plan.segments)
    gpus_at, rate_at = Counter[float](), defaultdict[float, float](float)
    for each in plan.segments:
        resource, what = plan.resources[each.resource], each.expected
        begin_s, end_s = offset_s + what.start_s, offset_s + what.start_s + what.seconds
        if begin_s < first.t or end_s <= begin_s:
            continue
        is_shared = resource.billing is Billing.GPUS
        gpus = min(each.at_once, each.members) * each.gpus if is_shared else each.nodes * resource.gpus_per_node
        rate = ((what.cost_usd or 0.0) if is_priced else what.gpu_hours) / what.seconds
        for t, sign in ((begin_s, 1), (end_s, -1)):
            gpus_at[t] += sign * gpus
            rate_at[t] += sign * rate
    times = sorted(gpus_at)
    spent, rates_now = [first], accumulate(rate_at[t] for t in times)
    rate = 0.0
    for t, after in zip(times, rates_now, strict=True):
        spent.append(Moment(t, spent[-1].height + rate * (t - spent[-1].t)))
        rate = after
    held = [Moment(t, n) for t, n in zip(times, accumulate(gpus_at[t] for t in times), strict=True)]
    return Forecast("planned" if since is None else "planned anew", [Moment(first.t, 0), *held], spent)
