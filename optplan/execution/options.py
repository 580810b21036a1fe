"""What users choose for runs, for all kinds and of each its own; a search's rules and limits, and its trials' space.

That says for each hyperparameter what values it may have, or lists whole configurations::

    learning_rate: {loguniform: [1e-4, 1e-1]}
    momentum: {uniform: [0.5, 0.99]}
    layers: {integer: [2, 6]}
    optimizer: {choice: [sgd, adam]}

None is drawn twice. A plan's own search space (SEER's) is used where no file is given.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from optplan.contracts import configurations
from optplan.contracts.conditions import Promoted
from optplan.contracts.configurations import Configuration, Range
from optplan.contracts.modes import Mode
from optplan.contracts.plan import Binding, Plan, UnitKind
from optplan.errors import DataError, DataWarning, UsageError, nearest_name_hint, show_value
from optplan.execution.fields import Amount, FleetFields, Limit, RunFields, SearchFields, TrainingFields
from optplan.execution.records import read_metric
from optplan.formulations.seer.data.search_space import list_values
from optplan.instances.plain_data import require_json
from optplan.schema import LARGEST_AMOUNT, LARGEST_EXACT, ByName, FrozenModel

_Command = Annotated[str, Field(min_length=1)]
#: Executors that start something.
REAL = ("local", "command", "ray", "slurm")
#: Heartbeats that a silent VM has to come back, unless options say otherwise.
RETURN_HEARTBEATS = 6
#: Why a virtual run takes no command.
NOTHING_STARTS = "nothing is started on a virtual clock; leave it out, or use --executor local"
#: What values of a hyperparameter may be.
_KINDS = ("uniform", "loguniform", "integer", "choice")


class Setup(FrozenModel):
    """What a machine needs before it trains."""

    #: Container image of what is trained; for Ray, which runs it with podman. Empty for what is installed.
    image: str = ""
    #: Of a shell, run one after another on each machine before its first trial. Variables in them are the shell's, so
    #: that secrets come from the environment and are written nowhere.
    commands: tuple[_Command, ...] = ()
    #: By resource of the plan, what Ray reserves for one of its nodes, by Ray's names; what is not named has as many
    #: GPUs as the plan says, and as many CPUs.
    nodes: ByName[ByName[Limit]] = Field(default_factory=dict)


class RunOptions(FrozenModel, RunFields):
    """What runs of all kinds take; stored with the run, so that going on needs nothing else."""

    sbatch: ByName[str] = Field(default_factory=dict)  #: On Slurm: options of sbatch by their long name.

    #: By option, the executors that look at it; all do where it is not named.
    LOOKED_AT: ClassVar[Mapping[str, Collection[str]]] = {"sbatch": ("slurm",), "gres": ("slurm",), "address": ("ray",)}
    #: Options that a run keeps to its end.
    FIXED: ClassVar[frozenset[str]] = frozenset({"executor"})

    @property
    def is_virtual(self) -> bool:
        """Whether the clock jumps."""
        return self.executor == "virtual"

    def require_effect(self) -> None:
        """Refuse options that the executor does not look at; what is as by default may stay."""
        for name, executors in self.LOOKED_AT.items():
            value, field = getattr(self, name), type(self).model_fields[name]
            if self.executor not in executors and value != field.get_default(call_default_factory=True):
                *others, last = executors
                use = f"leave it out, or use {', '.join(others)}{' or ' if others else ''}{last}"
                raise UsageError(f"{name}: got {value!r}, which means nothing to executor {self.executor!r}; {use}")


class TrainingOptions(RunOptions, TrainingFields):
    """What searches and streams take besides, whose trials and jobs are processes that :mod:`optplan` starts."""

    folder: str = "."  #: Relative files and modules of what is trained are looked for there.
    setup: Setup = Setup()  #: What machines need before they train.

    LOOKED_AT: ClassVar[Mapping[str, Collection[str]]] = {
        **RunOptions.LOOKED_AT,
        **dict.fromkeys(
            ("retries", "grace_s", "checkpoint_every_s", "orphan_after_s", "step_timeout_s", "setup"), REAL
        ),
        "launcher": ("local", "ray", "slurm"),
        "storage": ("ray",),
    }

    def require_effect(self) -> None:
        """Refuse options that do not fit together: who trains, and where."""
        if self.executor != "ray" and self.setup.image:
            raise UsageError("setup.image: trials are processes of this machine; leave it out, or use --executor ray")
        super().require_effect()
        if self.executor == "command" and not (self.train and self.command):
            what = "starts and ends by --command what is trained by --train"
            raise UsageError(f"command: executor 'command' {what}; give both")
        if self.train and self.command and self.executor != "command":
            raise UsageError("train: a command is given as well; give one of the two")
        if self.is_virtual:
            if self.command:
                raise UsageError(f"command: {NOTHING_STARTS}")
        elif not (self.train or self.command):
            what = f"executor {self.executor!r} needs something to train; give --train or --command"
            raise UsageError(f"train: {what}")

    def require_one_node(self, whose: str, gpus: int, most: int, instead: str = "") -> None:
        """Refuse more GPUs than a node has for what is one process, which is on one machine but on this one's slots."""
        if gpus <= most or self.executor == "local" or self.launcher == "torchrun":
            return
        field, fix = "launcher", "give --launcher torchrun, which makes a process for each worker"
        if self.executor == "command":
            field, fix = "executor", "use --executor slurm or ray with --launcher torchrun"
        raise UsageError(f"{field}: {whose}, on nodes of {most}; {instead}{fix}")


class SearchOptions(TrainingOptions, SearchFields):
    """What searches and single jobs take besides; where ``replan_above`` is None, nothing is ever planned anew."""

    #: Least seconds of an iteration; what is left of them is waited. For shows on machines without GPUs.
    step_wait_s: Amount = 0.0

    LOOKED_AT: ClassVar[Mapping[str, Collection[str]]] = {
        **TrainingOptions.LOOKED_AT,
        **dict.fromkeys(("checkpoint_bytes", "step_wait_s"), REAL),
        **dict.fromkeys(("slots", "node_wait_s"), ("virtual", "local", "ray")),
        **dict.fromkeys(("lucky", "slower", "dearer"), ("virtual",)),
    }
    FIXED: ClassVar[frozenset[str]] = RunOptions.FIXED | {"seed"}

    def to_json_data(self) -> dict[str, Any]:
        """Return plain data that is read back the same; that nothing is planned anew is no default."""
        return super().to_json_data() | {"replan_above": self.replan_above}


class Rules(SearchOptions):
    """What holds for a whole run of a search: its options, and where they say nothing what its plan says."""

    metric: str = "loss"
    mode: Mode = Mode.MIN
    budget_gpu_hours: Limit | None = None  #: A hard limit, too.

    @classmethod
    def of(cls, plan: Plan, options: SearchOptions | None = None) -> Rules:
        """Return a run's rules: of its plan the first promotion counts, and limits that are hard."""
        chosen = {name: getattr(options or SearchOptions(), name) for name in SearchOptions.model_fields}
        promoted = [segment.enter for segment in plan.segments if isinstance(segment.enter, Promoted)]
        metric, mode = (promoted[0].metric, promoted[0].mode) if promoted else ("loss", Mode.MIN)
        least: dict[str, float] = {}
        for limit in plan.limits.values():
            if limit.binding is Binding.HARD:
                unit, amount = ("gpu-h", limit.amount / 60.0) if limit.unit == "gpu-min" else (limit.unit, limit.amount)
                least[unit] = min(amount, least.get(unit, amount))
        limits = {"budget_usd": least.get("usd"), "deadline_s": least.get("s"), "budget_gpu_hours": least.get("gpu-h")}
        planned = {"metric": metric, "mode": mode, **limits}
        return cls(**chosen | {name: value for name, value in planned.items() if chosen.get(name) is None})

    @property
    def is_as_planned(self) -> bool:
        """Whether it has a virtual clock that is not to differ from the plan."""
        return self.is_virtual and not self.lucky and self.slower == self.dearer == 1.0

    @property
    def is_trained(self) -> bool:
        """Whether anything is trained."""
        return bool(self.train) or not self.is_virtual


class FleetOptions(RunOptions, FleetFields):
    """What fleets take besides."""

    FIXED: ClassVar[frozenset[str]] = RunOptions.FIXED | {"heartbeat_s"}


def draw(space: object, count: int, *, seed: int = 0, path: str = "space") -> list[Configuration]:
    """Draw configurations, none of them twice, from a space as in the module's text; the same seed draws the same ones.

    A list of configurations is taken in its order. DataError, with the ``path`` of the data, where there are fewer.
    """
    if isinstance(space, list):
        require_json(space, path)
        for number, each in enumerate(space):
            if not isinstance(each, Mapping):
                raise DataError(f"{path}.{number}", f"got {show_value(each)}", "a configuration names its values")
        if len(space) < count:
            raise DataError(path, f"lists {len(space)} configurations; the plan has {count} trials", "add the others")
        return [dict(each) for each in space[:count]]
    if not isinstance(space, Mapping):
        raise DataError(path, f"got {show_value(space)}", "a mapping by hyperparameter, or a list, is needed")
    read = {str(name): _read_values(values, f"{path}.{name}") for name, values in space.items()}
    drawn = configurations.draw_configurations(read, count, seed)
    if len(drawn) < count:
        problem = f"has {len(drawn)} configurations; the plan has {count} trials"
        raise DataError(path, problem, "none is tried twice: widen it")
    return drawn


def draw_configurations(plan: Plan, names: Sequence[str], space: object, seed: int) -> dict[str, Configuration]:
    """Draw what each of a plan's trials tries, in the order of names; without a space from the plan's own.

    Places that that has no configurations for stay empty, with a DataWarning.
    """
    if space is None:
        drawn = configurations.draw_configurations(list_values(getattr(plan, "search_space", {})), len(names), seed)
        if len(drawn) < len(names):
            shortage = f"{len(drawn)} configurations, and the plan has {len(names)} trials; the last places stay empty"
            warnings.warn(f"plan.search_space: has {shortage}", DataWarning, stacklevel=3)
        return dict(zip(names, drawn, strict=False))
    if plan.units[0].kind is UnitKind.FLEET_GROUP and isinstance(space, dict) and not space:
        return {names[0]: {}}
    return dict(zip(names, draw(space, len(names), seed=seed), strict=True))


def _read_values(values: object, path: str) -> Sequence[Any] | Range:
    if not isinstance(values, Mapping) or len(values) != 1:
        allowed = "one of {uniform: [lo, hi]}, {loguniform: [lo, hi]}, {integer: [lo, hi]}, {choice: [...]} is needed"
        raise DataError(path, f"got {show_value(values)}", allowed)
    ((kind, ends),) = values.items()
    if kind not in _KINDS:
        raise DataError(f"{path}.{kind}", "no such kind of values", nearest_name_hint(str(kind), _KINDS))
    if not isinstance(ends, list) or not ends:
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", "a list is needed")
    if kind == "choice":
        require_json(ends, f"{path}.{kind}")
        return ends
    numbers = not any(math.isnan(read_metric(end)) for end in ends)
    if len(ends) != 2 or not numbers or not ends[0] < ends[1]:
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", "two numbers, the lower one first, are needed")
    if kind == "loguniform" and not ends[0] > 0:
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", "numbers above zero have logarithms")
    if kind == "integer" and not all(isinstance(end, int) for end in ends):
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", "whole numbers are needed; both ends are included")
    most = LARGEST_EXACT if kind == "integer" else LARGEST_AMOUNT
    if kind != "loguniform" and max(map(abs, ends)) > most:
        raise DataError(f"{path}.{kind}", f"got {show_value(ends)}", f"numbers from -{most:g} to {most:g} are allowed")
    return range(ends[0], ends[1] + 1) if kind == "integer" else Range(ends[0], ends[1], kind == "loguniform")
