"""Plans: decisions as a desired state that any executor can follow, with everything needed to run and to price them.

A plan does not list actions. It says which *segments* there are: who (a *unit*: a class of jobs, trials by rank, a
group of VMs) holds what (nodes of a *resource*, workers, GPUs), from when until when (typed conditions). What an
executor has to do is the difference between that and what it observes, so that every step can be repeated and a run
can be resumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from optplan.contracts.conditions import Arrived, Entry, EpochsDone, Exit, waits_for
from optplan.contracts.faces import Shown
from optplan.contracts.resources import Resource
from optplan.contracts.time_and_money import BUDGET, DEADLINE
from optplan.errors import DataError, nearest_name_hint
from optplan.schema import AtLeastZero, ByName, Count, FrozenModel

#: Trials of a plan, nodes of a segment and GPUs of a trial or job up to which plans are followed, each with its record.
MOST_FOLLOWED = 100_000
_Name = Annotated[str, Field(min_length=1)]


class UnitKind(StrEnum):
    """What a unit is."""

    JOB_CLASS = "job-class"
    TRIALS = "trials"
    JOB = "job"
    FLEET_GROUP = "fleet-group"


class Unit(FrozenModel):
    """Who holds resources: a class of jobs, trials that start together, a group of VMs of one job."""

    #: id, label: For programs, and for people.
    id: _Name
    label: str = ""
    kind: UnitKind  #: What it is.
    members: Count = 1  #: Trials, numbered from 1 in the order of drawing; 1 for other kinds.


class Expected(FrozenModel):
    """What a segment is expected to take; means, as the instance has them."""

    start_s: AtLeastZero = 0.0  #: When it begins, since the plan's origin of time.
    seconds: AtLeastZero  #: How long it lasts, pause included.
    #: pause_s, launch_s: Seconds at its beginning without progress, while nodes are launched and members are moved; and
    #: those of them until the last new node is ready.
    pause_s: AtLeastZero = 0.0
    launch_s: AtLeastZero = 0.0
    #: member_s, member_sd_s: Seconds for which one of its members is busy, and their standard deviation, 0 where nobody
    #: knows it; where it ends by the clock, as long as it trains.
    member_s: AtLeastZero = 0.0
    member_sd_s: AtLeastZero = 0.0
    iteration_s: AtLeastZero | None = None  #: Mean seconds of an iteration of one member; None where it is not known.
    #: gpu_hours, busy_gpu_hours: Held by the segment (its nodes' GPUs where nodes are paid), and those of them that
    #: belong to busy members.
    gpu_hours: AtLeastZero
    busy_gpu_hours: AtLeastZero
    #: What it adds to the bill, its share of minimum charges included; None where prices are not known.
    cost_usd: AtLeastZero | None = None


class Segment(FrozenModel):
    """What some of a unit's members hold between two conditions."""

    #: id, label: For programs, and for people.
    id: _Name
    label: str = ""
    unit: _Name  #: Whose.
    #: first_rank, last_rank: Which of its members, by rank; before a metric is known, in the order of drawing.
    first_rank: Count = 1
    last_rank: Count = 1
    at_once: Count = 1  #: How many of them run at a time; the others wait for their turn.
    share: Annotated[float, Field(gt=0, le=1)] = 1.0  #: Fraction of the unit's jobs that have the segment.
    #: resource, pool, nodes: Nodes of a resource that are held while it runs, together with all segments of the same
    #: pool; of a class of jobs, by each job.
    resource: _Name
    pool: _Name
    nodes: Count
    #: workers, gpus_per_worker, batch_per_worker: Processes of one member, GPUs of each, and samples of an iteration of
    #: each where they are known.
    workers: Count
    gpus_per_worker: Count = 1
    batch_per_worker: Count | None = None
    #: enter, exit: When it begins and ends.
    enter: Entry
    exit: Exit
    expected: Expected  #: What it is expected to take.

    @property
    def members(self) -> int:
        """How many members it has."""
        return self.last_rank - self.first_rank + 1

    @property
    def gpus(self) -> int:
        """GPUs of one member."""
        return self.workers * self.gpus_per_worker

    @property
    def end_s(self) -> float:
        """When it is expected to end."""
        return self.expected.start_s + self.expected.seconds


class Binding(StrEnum):
    """How strictly a limit holds."""

    HARD = "hard"  #: In every run: nothing begins that would break it.
    AVERAGE = "average"  #: In the mean over runs, or over time.


class Limit(FrozenModel):
    """A limit that the plan was made to keep."""

    #: amount, unit: Such as 1200 and ``s``, 25 and ``usd``, 120 and ``gpu``.
    amount: Annotated[float, Field(gt=0)]
    unit: _Name
    binding: Binding  #: How strictly it holds.
    probability: Annotated[float, Field(gt=0, lt=1)] | None = None  #: With which it is kept, where one was asked for.


def limit_time_and_money(
    limits: Mapping[str, float], binding: Binding, probability: float | None = None
) -> dict[str, Limit]:
    """Write a deadline in seconds and a budget in US dollars, those that there are, as a plan's limits."""
    units = {DEADLINE: "s", BUDGET: "usd"}
    return {
        name: Limit(amount=amount, unit=units[name], binding=binding, probability=probability)
        for name, amount in limits.items()
    }


class Semantics(FrozenModel):
    """What the plan's words mean."""

    #: iteration, epoch: What they are.
    iteration: str = ""
    epoch: str = ""
    #: clock, origin: Which clock counts, and when it shows zero.
    clock: Literal["wall"] = "wall"
    origin: str
    rounding: str = ""  #: How numbers became whole.
    winner: str = ""  #: What a search returns.


class Plan(Shown, FrozenModel):
    """What every formulation's plan has in common."""

    LATER: ClassVar[frozenset[str]] = frozenset({"instance"})

    version: Literal[2] = 2  #: Version of the schema; a reader refuses those it does not know.
    #: SHA-256 of everything else; a plan that was changed by hand is refused, and so is a file without it. A program
    #: that makes a plan leaves it empty, to have it computed.
    plan_id: str = ""
    supersedes: str = ""  #: The id of the plan that this one takes the place of; empty where it is the first.
    #: formulation, instance_name, instance_hash: What the plan solves.
    formulation: str
    instance_name: str
    instance_hash: str
    #: The problem as data, where what is left of a run can be planned anew; empty elsewhere.
    instance: ByName[Any] = Field(default_factory=dict)
    #: solver, objective, objective_unit, bound: Who found it, how good it is, and how good anything could be.
    solver: str
    objective: float
    objective_unit: str
    bound: float | None = None
    limits: ByName[Limit] = Field(default_factory=dict)  #: By name.
    resources: ByName[Resource]  #: By name.
    #: units, segments: Who holds what, and when; a segment waits for earlier ones only.
    units: tuple[Unit, ...]
    segments: tuple[Segment, ...]
    semantics: Semantics  #: What the words mean.
    #: Measures of the plan as it will be run; names carry units. Totals can be recomputed from the segments.
    expected: ByName[float] = Field(default_factory=dict)

    def __repr__(self) -> str:
        """Say in one line which plan it is."""
        return f"<{type(self).__name__} {self.plan_id[:12]} of {self.instance_name} by {self.solver}>"

    @model_validator(mode="after")
    def _check(self) -> Self:
        _require_distinct("units", [unit.id for unit in self.units])
        _require_distinct("segments", [segment.id for segment in self.segments])
        units = {unit.id: unit for unit in self.units}
        known: set[str] = set()
        for number, segment in enumerate(self.segments):
            path = f"segments.{number}"
            _require_known(f"{path}.unit", segment.unit, units)
            _require_known(f"{path}.resource", segment.resource, self.resources)
            for other in waits_for(segment.enter):
                _require_known(f"{path}.enter", other, known)
            if not segment.first_rank <= segment.last_rank <= units[segment.unit].members:
                problem = f"got ranks {segment.first_rank} to {segment.last_rank}"
                fix = f"unit {segment.unit!r} has ranks 1 to {units[segment.unit].members}"
                raise DataError(f"{path}.last_rank", problem, fix)
            first, last = span(segment)
            if isinstance(segment.exit, EpochsDone) and last <= first:
                problem = f"is after {last} epochs, and the segment begins after {first}"
                raise DataError(f"{path}.exit", problem, "let it end after more epochs than it begins after")
            known.add(segment.id)
        return self._seal()

    def _seal(self) -> Self:
        """Compute the plan's id, or compare the given one with the content."""
        given = self.plan_id
        self.__dict__["plan_id"] = ""
        computed = self.content_hash()
        self.__dict__["plan_id"] = computed
        if given not in ("", computed):
            problem = f"is {given[:12]}..., and the content's is {computed[:12]}...: the plan was changed by hand"
            raise DataError("plan_id", problem, "change the instance instead, and make the plan anew")
        return self

    @property
    def prices(self) -> dict[str, float]:
        """By resource, US dollars an hour of one of its GPUs; those without a price are left out."""
        priced = {name: each for name, each in self.resources.items() if each.price_usd_per_hour is not None}
        return {name: (each.price_usd_per_hour or 0.0) / each.gpus_per_node for name, each in priced.items()}

    def segment(self, name: str) -> Segment:
        """Return the segment of that id; a DataError where there is none."""
        for segment in self.segments:
            if segment.id == name:
                return segment
        raise DataError("segments", f"none is {name!r}", nearest_name_hint(name, [s.id for s in self.segments]))

    def totals(self) -> dict[str, float]:
        """Recompute from the segments alone what the plan takes in all; its time is that of the longest chain."""
        ends: dict[str, float] = {}
        for segment in self.segments:
            begin_s = max((ends[other] for other in waits_for(segment.enter)), default=0.0)
            ends[segment.id] = begin_s + segment.expected.seconds
        expected = [segment.expected for segment in self.segments]
        totals = {
            "time_s": max(ends.values(), default=0.0),
            "gpu_hours": sum(each.gpu_hours for each in expected),
            "busy_gpu_hours": sum(each.busy_gpu_hours for each in expected),
        }
        costs = [each.cost_usd for each in expected if each.cost_usd is not None]
        return totals | ({"cost_usd": sum(costs)} if len(costs) == len(expected) else {})


def follow(segments: Sequence[Segment]) -> Iterator[tuple[Segment, ...]]:
    """Yield the ways that jobs of a class take through its segments, each from an arrival on, end to end."""
    way: list[Segment] = []
    for segment in segments:
        if isinstance(segment.enter, Arrived) and way:
            yield tuple(way)
            way = []
        way.append(segment)
    if way:
        yield tuple(way)


def count_levels(segments: Sequence[Segment]) -> dict[str, int]:
    """Return by segment of a plan how many others end before it, one after the other."""
    level: dict[str, int] = {}
    for segment in segments:
        level[segment.id] = 1 + max((level[other] for other in waits_for(segment.enter)), default=-1)
    return level


def last_of_each_unit(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return the segments from which a search's winner comes: those who stopped in an earlier one are out."""
    level = count_levels(segments)
    latest: dict[str, int] = {}
    for segment in segments:
        latest[segment.unit] = max(latest.get(segment.unit, 0), level[segment.id])
    return tuple(segment for segment in segments if level[segment.id] == latest[segment.unit])


def span(segment: Segment) -> tuple[int, int]:
    """Return the epochs completed when a segment of a class of jobs begins and ends."""
    first = segment.enter.epochs if isinstance(segment.enter, EpochsDone) else 0
    last = segment.exit.epochs if isinstance(segment.exit, EpochsDone) else first
    return first, last


def _require_distinct(field: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            raise DataError(f"{field}.{number}.id", f"got {name!r} twice", "give each an id of its own")
        seen.add(name)


def _require_known(path: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise DataError(path, f"got {name!r}", nearest_name_hint(name, known))


def require_size(plan: Plan) -> None:
    """Raise where whoever follows a plan would never come to an end of listing what it holds."""
    sizes = {f"units.{each.id}.members": each.members for each in plan.units}
    for each in plan.segments:
        sizes |= {f"segments.{each.id}.nodes": each.nodes, f"segments.{each.id}.workers": each.gpus}
    for path, size in sizes.items():
        if size > MOST_FOLLOWED:
            of = " GPUs" if path.endswith("workers") else ""
            fix = f"up to {MOST_FOLLOWED:,} are followed; make a smaller plan"
            raise DataError(path, f"got {size:,}{of}", fix)
