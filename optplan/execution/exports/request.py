"""What a user asks of an export: options, what a template may hold, and the plan as steps of the target's nodes.

Steps have safe names, what each member holds, and what follows. There is a record for each target.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from importlib.resources import files
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any, ClassVar

import yaml
from pydantic import Field

from optplan.contracts.conditions import Elapsed, EpochsDone, IterationsDone, Promoted, waits_for
from optplan.contracts.plan import Plan, Segment, UnitKind, count_levels, follow, last_of_each_unit, span
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.execution.fields import ExportFields
from optplan.execution.journal import Kind
from optplan.execution.options import draw_configurations
from optplan.execution.scheduler import list_trials
from optplan.schema import ByName, FrozenModel

#: Characters of a step's name. Of the 63 that a pod of Kubernetes has, 12 are the export's, 16 a job's of a stream, and
#: 15 the JobSet's for group, replica, node and chance.
LONGEST_NAME = 20
#: Standard deviation relative to the mean that is taken for the sizes of a class of which no log says it.
UNKNOWN_SPREAD = 1.0
#: Two braces that stand for one, or the name of a placeholder between two.
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")


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


class Template(FrozenModel):
    """What is merged into the files of every target; ``setup`` is of shell, ``optplan`` how that is called there."""

    setup: str = ""
    env: ByName[str] = Field(default_factory=dict)
    optplan: Annotated[str, Field(min_length=1)] = "optplan"


class Export(FrozenModel, ExportFields):
    """What is asked of the export of a plan to one target, which is a subclass: a template, and the files it writes.

    The fields are the options of ``optplan export``. ``command`` is empty where each class of a stream has its own in
    ``commands``; ``folder`` is where the files go, which gives what is made elsewhere names of its own.
    """

    #: For `optplan list exporters`: what a plan becomes, and what has to be there to use it.
    SUMMARY: ClassVar[str]
    NEEDS: ClassVar[str]
    #: Whether the target copies the working folder to its nodes and sets them up; else the launcher goes to that folder
    #: and runs the set-up before each command.
    PREPARES: ClassVar[bool] = False
    #: Whether jobs are pods: their image says what there is, and an overlay is merged into them.
    IN_PODS: ClassVar[bool] = False

    plan: Plan
    to: str
    command: str = ""
    commands: ByName[str] = Field(default_factory=dict)
    folder: str = ""
    template: Template
    overlay: ByName[Any] = Field(default_factory=dict)
    space: Any = None
    grace_s: Annotated[int, Field(ge=1)] = 30

    @abstractmethod
    def write_files(self) -> Mapping[str, str]:
        """Return the target's own files by their path below the folder; those that end in ``.sh`` can be run.

        Jobs start through ``launch.sh``, which is written besides.
        """

    @cached_property
    def outline(self) -> Outline:
        """The plan, taken apart."""
        return outline(self.plan, margin=self.margin, quantile=self.time_quantile, gpus_per_node=self.gpus_per_node)

    @cached_property
    def workplace(self) -> str | None:
        """Where the command runs: as given, or where the caller stands; None where the image says it."""
        if self.IN_PODS:
            if self.workdir is not None and not self.workdir.startswith("/"):
                raise UsageError(f"workdir: got {self.workdir!r}; give a path in the containers, from / on")
            return self.workdir
        place = Path(self.workdir or ".").expanduser()
        if not place.is_dir():
            raise UsageError(f"workdir: {self.workdir!r} is no folder; give the one in which the command is to run")
        return str(place.resolve())

    @cached_property
    def configurations(self) -> tuple[Mapping[str, Any], ...]:
        """What each trial tries, in the order of drawing, from the space that was given or the plan's own.

        There is one for a job, and none for streams.
        """
        kind = self.outline.kind
        if kind == "stream":
            if self.space is not None:
                raise UsageError("space: jobs of a stream have no configurations of the plan's; leave it out")
            for name in ("metric", "mode"):
                if getattr(self, name) is not None:
                    raise UsageError(f"{name}: jobs of a stream are not ranked; leave it out")
            return ()
        if self.space is None and not self.plan.to_json_data().get("search_space"):
            if kind == "search" and "trial" not in placeholders(self.command):
                message = "space: is missing, and the plan has none: nothing would tell one trial from another"
                raise UsageError(f"{message}; give --space, or use {{trial}} in the command")
            return ()
        return tuple(draw_configurations(self.plan, list_trials(self.plan), self.space, self.seed).values())

    @cached_property
    def export_id(self) -> str:
        """The same for the same plan, options and folder: it names what is made elsewhere."""
        asked = [self.plan.plan_id, self.workplace, self.configurations, self.model_dump(exclude={"plan", "space"})]
        return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @property
    def tag(self) -> str:
        """The beginning of the export's id, for names."""
        return f"op-{self.export_id[:8]}"

    @property
    def optplan(self) -> str:
        """How optplan is called where jobs run, in words of shell."""
        return shlex.join(split(self.template.optplan, "template.optplan"))

    def require_one_group(self, why: str) -> None:
        """Refuse a fleet of several groups, saying why and what else could be done."""
        groups = self.outline.steps
        if self.outline.kind == "fleet" and len(groups) > 1:
            raise CannotExpressError(f"cannot express: the fleet has {len(groups)} groups of nodes, {why}")

    @property
    def cases(self) -> str:
        """For a script of a stream: what each way sets."""
        return "".join(f"  {way.name}) steps='{' '.join(way.step_names)}' ;;\n" for way in self.outline.ways)

    def write_script(self, name: str, /, **blanks: object) -> str:
        """Return a text of the folder ``scripts``; between ``@`` stands the name of a blank, or of an attribute."""
        text = re.sub("@(LOCK|STREAM)@", lambda found: _read(f"{found[1].lower()}.sh"), _read(name))

        def fill(found: re.Match[str]) -> str:
            blank = found[1].lower()
            return str(blanks[blank] if blank in blanks else getattr(self, blank))

        return re.sub("@([A-Z_]+)@", fill, text)

    def write_manifest(self, name: str, /, **blanks: object) -> dict[str, Any]:
        """Return a manifest of the folder ``scripts`` with what stands after ``$`` filled in; ``$export`` is this.

        Behind a point stands an attribute of what was before it. What is empty is left out.
        """

        def fill(part: Any) -> Any:  # noqa: ANN401 - plain data
            if isinstance(part, Mapping):
                filled = {key: (each, fill(each)) for key, each in part.items()}
                return {
                    key: found for key, (each, found) in filled.items() if each == found or found not in (None, {}, [])
                }
            if isinstance(part, list):
                return [fill(each) for each in part]
            if not isinstance(part, str) or not part.startswith("$"):
                return part
            first, *attributes = part[1:].split(".")
            return reduce(getattr, attributes, {"export": self, **blanks}.get(first))

        found: dict[str, Any] = fill(yaml.safe_load(_read(name)))
        return found


def _read(name: str) -> str:
    return (files("optplan.execution.exports") / "scripts" / name).read_text(encoding="utf-8")


def write_yaml(data: Mapping[str, Any]) -> str:
    """Write plain data; whatever a text holds, it is read back as that text."""
    return yaml.safe_dump(data, sort_keys=False, width=10_000, allow_unicode=False)


def require_known(field: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names in a template's field that the plan does not have: what they say would be lost without a word."""
    names = sorted(set(known))
    for name in given:
        if name not in names:
            raise DataError(
                f"template.{field}.{name}", "the plan has none of that name", nearest_name_hint(name, names)
            )


def split(command: str, field: str = "command") -> list[str]:
    """Take a command, which a field holds, apart as a shell would."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{field}: got {command!r} ({error}); close the quotes") from None
    if not words:
        raise UsageError('command: is empty; give a program, as in --command "python train.py --gpus {gpus}"')
    if any("\0" in word for word in words):
        raise UsageError("command: holds the character NUL, which no program's argument can; leave it out")
    return words


def placeholders(command: str) -> set[str]:
    """Return the names that stand in braces."""
    return {found.group(1) for found in PLACEHOLDER.finditer(command) if found.group(1)}
