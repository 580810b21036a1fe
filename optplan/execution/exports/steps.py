"""A plan as exports see it: steps with safe names, what each member holds on the target's nodes, and what follows."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from optplan.contracts.conditions import Elapsed, EpochsDone, IterationsDone, Promoted, waits_for
from optplan.contracts.plan import Binding, Plan, Segment, UnitKind, count_levels, follow, last_of_each_unit, span
from optplan.errors import UsageError
from optplan.execution.journal import Kind

#: Characters of a step's name. Of the 63 that a pod of Kubernetes has, 12 are the export's, 16 a job's of a stream, and
#: 15 the JobSet's for group, replica, node and chance.
LONGEST_NAME = 20
#: Standard deviation relative to the mean that is taken for the sizes of a class of which no log says it.
UNKNOWN_SPREAD = 1.0


class CannotExpressError(UsageError):
    """A target has no words for what the plan asks; the message says which, and what to do instead."""

    exit_code = 1


@dataclass(frozen=True)
class Step:
    """A segment as the files of an export name it.

    ``name`` is of lower-case letters, digits and hyphens, distinct within the plan; ``after`` has names of steps. A
    member holds so many ``nodes`` of the target's. It has ``done`` so many iterations (streams: epochs) before, and
    ends after ``target``; both are None where the clock ends it. After ``limit_s`` it is ended, margin included.
    """

    name: str
    segment: Segment
    nodes: int
    after: tuple[str, ...]
    done: int | None
    limit_s: int

    @property
    def gpus_per_node(self) -> int:
        """GPUs of one member on each of its nodes."""
        return self.segment.gpus // self.nodes

    @property
    def workers_per_node(self) -> int:
        """Processes of one member on each of its nodes."""
        return self.segment.workers // self.nodes

    @property
    def target(self) -> int | None:
        """Iterations or epochs after which it ends, counted from the member's beginning."""
        end = self.segment.exit
        if isinstance(end, IterationsDone):
            return end.iterations
        return end.epochs if isinstance(end, EpochsDone) else None

    @property
    def is_promoted(self) -> bool:
        """Whether its members are chosen by what others have shown."""
        return isinstance(self.segment.enter, Promoted)


@dataclass(frozen=True)
class Way:
    """What a fraction of a class's jobs does: steps that follow one another from the arrival to the last epoch."""

    name: str
    unit: str
    share: float
    steps: tuple[Step, ...]

    @property
    def step_names(self) -> list[str]:
        """Names of its steps."""
        return [step.name for step in self.steps]


@dataclass(frozen=True)
class Outline:
    """All that exports need of a plan: a step for each segment, in its order; of a stream also its jobs' ways."""

    plan: Plan
    kind: Kind
    steps: tuple[Step, ...]
    ways: tuple[Way, ...] = ()

    def levels(self) -> list[tuple[Step, ...]]:
        """Return the steps that may run side by side: each waits only for steps of earlier levels."""
        level = count_levels(self.plan.segments)
        many = max(level.values()) + 1
        return [tuple(step for step in self.steps if level[step.segment.id] == number) for number in range(many)]

    def last(self) -> tuple[Step, ...]:
        """Return the last steps of each unit: who was left behind in an earlier one has not won."""
        ids = {segment.id for segment in last_of_each_unit(self.plan.segments)}
        return tuple(step for step in self.steps if step.segment.id in ids)


def outline(plan: Plan, *, margin: float = 0.5, quantile: float = 0.99, gpus_per_node: int | None = None) -> Outline:
    """Take a plan apart.

    Time limits are this quantile of the seconds that one member takes, times one plus the margin. ``gpus_per_node`` is
    of the target's nodes, the resource's by default; a member's GPUs have to divide into equal nodes.
    """
    kind = kind_of(plan)
    names = _name_all([segment.id for segment in plan.segments])
    steps: dict[str, Step] = {}
    for segment in plan.segments:
        waited = tuple(dict.fromkeys(waits_for(segment.enter)))
        done: int | None = span(segment)[0] if kind == "stream" else 0
        if waited and kind == "search":
            done = steps[waited[0]].target  # all that its members come from have done as much
        steps[segment.id] = Step(
            name=names[segment.id],
            segment=segment,
            nodes=_count_nodes(plan, segment, gpus_per_node),
            after=tuple(names[each] for each in waited),
            done=done,
            limit_s=_limit(segment, kind, margin, quantile),
        )
    ways = tuple(_list_ways(plan, steps)) if kind == "stream" else ()
    return Outline(plan, kind, tuple(steps.values()), ways)


def kind_of(plan: Plan) -> Kind:
    """Return what a plan runs; jobs of a stream are submitted one by one, as they arrive."""
    kinds: dict[UnitKind, Kind] = {UnitKind.FLEET_GROUP: "fleet", UnitKind.JOB_CLASS: "stream"}
    return kinds.get(plan.units[0].kind, "search")


def hard_deadline(plan: Plan) -> float | None:
    """Return the seconds from the first begin after which nothing more is started; None for no such limit."""
    deadline = plan.limits.get("deadline")
    return deadline.amount if deadline and deadline.binding is Binding.HARD and deadline.unit == "s" else None


def _limit(segment: Segment, kind: Kind, margin: float, quantile: float) -> int:
    """Return the whole seconds that one member may take; the clock's own end comes before it."""
    expected = segment.expected
    if isinstance(segment.exit, Elapsed):
        return math.ceil(expected.seconds) + 60
    busy_s = expected.member_s or expected.seconds
    spread = expected.member_sd_s / busy_s if busy_s else 0.0
    if kind == "stream" and not spread:  # nobody knows how much the sizes of a class differ
        spread = UNKNOWN_SPREAD
    longest_s = (busy_s * _times_mean(spread, quantile) + expected.pause_s) * (1 + margin)
    if math.isinf(longest_s):
        problem = f"a member may take {longest_s} s; check member_s, seconds and pause_s of what the plan expects"
        raise CannotExpressError(f"segment {segment.id!r}: {problem}")
    return max(60, math.ceil(longest_s))


def _times_mean(spread: float, quantile: float) -> float:
    """Return a quantile over the mean of a lognormal time with this standard deviation relative to the mean."""
    z = NormalDist().inv_cdf(quantile)
    wide = min(spread, 1e100)  # whose square is a number; sigma is z long before
    sigma = min(math.sqrt(math.log1p(wide**2)), z)  # beyond z, more spread would make the quantile smaller
    return max(1.0, math.exp(z * sigma - sigma**2 / 2))


def _count_nodes(plan: Plan, segment: Segment, gpus_per_node: int | None) -> int:
    """Return how many of the target's nodes a member holds, all of them alike."""
    gpus = segment.gpus
    if plan.units[0].kind is UnitKind.FLEET_GROUP and gpus_per_node is None:
        return segment.nodes
    size = gpus_per_node or plan.resources[segment.resource].gpus_per_node
    if gpus <= size:
        return 1
    if gpus % size or segment.workers % (gpus // size):
        problem = f"cannot express: segment {segment.id!r} gives {gpus} GPUs to a member, and nodes have {size}"
        raise CannotExpressError(f"{problem}; give --gpus-per-node 1 for nodes that are shared GPU by GPU")
    return gpus // size


def _list_ways(plan: Plan, steps: dict[str, Step]) -> Iterator[Way]:
    names = _name_all([unit.id for unit in plan.units])
    for unit in plan.units:
        own = [segment for segment in plan.segments if segment.unit == unit.id]
        for number, way in enumerate(follow(own), start=1):
            taken = tuple(steps[segment.id] for segment in way)
            yield Way(f"{names[unit.id]}-{number}", unit.id, way[0].share, taken)


def _name_all(ids: Sequence[str]) -> dict[str, str]:
    """Return by id a name of lower-case letters, digits and hyphens that begins with a letter.

    Where it would be too long, or that of others, six digits say which id it stands for.
    """
    names = {each: _spell(each) for each in ids}
    many = Counter(names.values())
    for each, name in names.items():
        if len(name) > LONGEST_NAME or many[name] > 1:
            digits = hashlib.sha256(each.encode()).hexdigest()[:6]
            names[each] = f"{name[: LONGEST_NAME - 7].strip('-')}-{digits}"
    return names


def _spell(text: str) -> str:
    safe = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return safe if safe[:1].isalpha() else f"s{safe}"
