"""How runs are followed: what users choose, for all kinds and of each its own; and a search's rules and limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from optplan.contracts.conditions import Mode, Promoted
from optplan.contracts.plan import Binding, Plan
from optplan.errors import UsageError
from optplan.schema import ByName, FrozenModel

Amount = Annotated[float, Field(ge=0)]
Limit = Annotated[float, Field(gt=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
_Command = Annotated[str, Field(min_length=1)]
#: Executors that start something.
REAL = ("local", "command", "ray", "slurm")
#: Heartbeats that a silent VM has to come back, unless options say otherwise.
RETURN_HEARTBEATS = 6
#: Why a virtual run takes no command.
NOTHING_STARTS = "nothing is started on a virtual clock; leave it out, or use --executor local"


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


class RunOptions(FrozenModel):
    """What runs of all kinds take; stored with the run, so that going on needs nothing else."""

    executor: Literal["virtual", "local", "command", "ray", "slurm"] = "virtual"  #: Where it runs.
    command: str = ""  #: A command line: what trains, or what starts and ends fleets.
    #: How often what has failed is started again: a trial or a job after failures of its own; a fleet that lost no VM,
    #: and each VM that came back.
    retries: Annotated[int, Field(ge=0)] = 2
    grace_s: Amount = 30.0  #: Seconds to store the state and to end when that is asked for.
    checkpoint_every_s: Limit = 60.0  #: Seconds after which the state is stored on the way, unasked.
    address: str = ""  #: Of a Ray cluster, ``HOST:PORT`` or ``auto``; empty makes one on this machine.
    #: sbatch, gres: On Slurm: options of sbatch by their long name, and what a GPU is called in ``--gres``; empty asks
    #: for none.
    sbatch: ByName[str] = Field(default_factory=dict)
    gres: str = "gpu"

    #: By option, the executors that look at it; all do where it is not named.
    LOOKED_AT: ClassVar[Mapping[str, Collection[str]]] = dict.fromkeys(("sbatch", "gres"), ("slurm",))
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
        if self.address and self.executor != "ray":
            raise UsageError(f"address: executor {self.executor!r} has none; give --executor ray, or leave it out")


class TrainingOptions(RunOptions):
    """What searches and streams take besides, whose trials and jobs are processes that :mod:`optplan` starts."""

    #: ``module:name`` or ``file.py:name`` of the trainable; in place of a command, or started by executor ``command``.
    train: str = ""
    folder: str = "."  #: Relative files and modules of these are looked for there.
    metric: str | None = None  #: What is shown after each iteration; None takes the plan's.
    #: ``single``: one process for a trial, whatever GPUs it has; ``torchrun``: one for each worker (on Ray an actor).
    launcher: Literal["single", "torchrun"] = "single"
    #: On Ray: the URL of checkpoints where machines share no folder, such as ``s3://bucket/runs/first``.
    storage: str = ""
    #: GPUs or CPU slots of this machine that may be used, or of a Ray cluster that is made here; None: the machine's
    #: GPUs, or as many as are wanted where it has none.
    slots: AtLeastOne | None = None
    setup: Setup = Setup()  #: What machines need before they train.
    orphan_after_s: Limit = 600.0  #: Seconds without a driver after which a trial stores its state and ends.
    #: Seconds after which an iteration is taken to hang, so that its trial has failed; None: 20 times what the plan
    #: expects, and at least 5 minutes.
    step_timeout_s: Limit | None = None

    LOOKED_AT: ClassVar[Mapping[str, Collection[str]]] = {
        **RunOptions.LOOKED_AT,
        **dict.fromkeys(("retries", "grace_s", "checkpoint_every_s", "setup"), REAL),
        **dict.fromkeys(("orphan_after_s", "step_timeout_s"), REAL),
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


class SearchOptions(TrainingOptions):
    """What searches and single jobs take besides."""

    mode: Mode | None = None  #: Which values of the metric are better; None takes the plan's.
    seed: Annotated[int, Field(ge=0)] = 0  #: Draws configurations, and on the virtual clock luck.
    lucky: bool = False  #: Whether times vary on the virtual clock.
    #: budget_usd, deadline_s: Hard limits of this run; they take the place of those that the plan says are hard.
    budget_usd: Limit | None = None
    deadline_s: Limit | None = None
    node_wait_s: Amount = 600.0  #: Seconds to wait for nodes before the run is paused.
    #: Least seconds of an iteration; what is left of them is waited. For shows on machines without GPUs.
    step_wait_s: Amount = 0.0
    checkpoint_bytes: Amount = 10e9  #: What checkpoints may take before those of trials that are out are deleted.
    #: By what part time or cost may be others than planned before the rest is planned anew; None never does.
    replan_above: Amount | None = 0.2
    #: slower, dearer: On the virtual clock: how many times as long trials take, and as much nodes cost, as planned.
    slower: Limit = 1.0
    dearer: Limit = 1.0

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
    def is_varied(self) -> bool:
        """Whether it has a virtual clock that is to differ from the plan."""
        return self.is_virtual and (self.lucky or (self.slower, self.dearer) != (1.0, 1.0))

    @property
    def is_trained(self) -> bool:
        """Whether anything is trained."""
        return bool(self.train) or not self.is_virtual


class FleetOptions(RunOptions):
    """What fleets take besides."""

    grace_s: Limit = 60.0
    checkpoint_every_s: Amount = 600.0
    heartbeat_s: Limit = 5.0  #: How often every rank reports.
    launch_s: Amount | None = None  #: Until new VMs can train, for the plans of the rest; None: as the instance says.
    launch_wait_s: Limit = 900.0  #: How long to wait for a VM's first report before it is taken for lost.
    #: How long a VM that has fallen silent has to come back, from when it is missed: then it is taken back, and the
    #: fleet starts again as it was. None: :data:`RETURN_HEARTBEATS` heartbeats.
    return_s: Amount | None = None
    detach_s: Amount = 0.0  #: Until what a lost VM has stored can be used.
    time_limit_s: Limit = 20.0  #: For each plan of the rest: VMs are paid meanwhile. The paper gives 1 s (5.4).
    #: deadline_s, budget_usd: Limits in place of the instance's, for a run that is gone on with.
    deadline_s: Limit | None = None
    budget_usd: Limit | None = None

    FIXED: ClassVar[frozenset[str]] = RunOptions.FIXED | {"heartbeat_s"}
