"""How a plan is followed: what users choose for a run, and the rules and limits that follow from it and the plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from optplan.contracts.conditions import Mode
from optplan.contracts.plan import Binding, Plan
from optplan.errors import UsageError
from optplan.execution.driver import Limits
from optplan.execution.scheduler import Rules
from optplan.execution.setups import Setup
from optplan.schema import ByName, FrozenModel

_Amount = Annotated[float, Field(ge=0)]
_Limit = Annotated[float, Field(gt=0)]
_REAL = ("local", "command", "ray", "slurm")
#: Options that only some executors look at.
_LOOKED_AT = {
    **dict.fromkeys(("retries", "grace_s", "checkpoint_every_s", "checkpoint_bytes", "setup"), _REAL),
    **dict.fromkeys(("step_wait_s", "orphan_after_s", "step_timeout_s"), _REAL),
    "launcher": ("local", "ray", "slurm"),
    "storage": ("ray",),
    "lucky": ("virtual",),
    **dict.fromkeys(("slots", "node_wait_s"), ("virtual", "local", "ray")),
    **dict.fromkeys(("sbatch", "gres"), ("slurm",)),
}


class RunOptions(FrozenModel):
    """How a plan is followed; stored with the run, so that resuming needs nothing else.

    Parameters
    ----------
    executor
        Where it runs.
    train
        ``module:name`` or ``file.py:name`` of the trainable.
    command
        A command line instead; of executor ``command``, what starts and ends trials.
    folder
        Relative files and modules of these are looked for there.
    metric, mode
        By what trials are ranked; None takes the plan's.
    seed
        Draws configurations, and on the virtual clock luck.
    lucky
        Whether times vary on the virtual clock.
    budget_usd, deadline_s
        Hard limits of this run; they take the place of those that the plan says are hard.
    retries
        How often a trial is started again after a failure of its own.
    grace_s
        Seconds that a trial has to store its state when it is stopped.
    orphan_after_s
        Seconds without a driver after which a trial stores its state and ends.
    step_timeout_s
        Seconds after which an iteration is taken to hang, so that its trial has failed; None: 20 times what the plan
        expects, and at least 5 minutes.
    node_wait_s
        Seconds to wait for nodes before the run is paused.
    slots
        GPUs or CPU slots of this machine that may be used; None: its GPUs, or as many as the plan wants where it has
        none.
    launcher
        ``single``: one process for a trial, whatever GPUs it has; ``torchrun``: one for each worker (on Ray an actor).
    address
        Of a Ray cluster, ``HOST:PORT`` or ``auto``; empty makes one on this machine.
    storage
        On Ray: the URL of checkpoints where machines share no folder, such as ``s3://bucket/runs/first``.
    sbatch, gres
        On Slurm: options of sbatch by their long name, and what a GPU is called in ``--gres``; empty asks for none.
    step_wait_s
        Least seconds of an iteration; what is left of them is waited. For shows on machines without GPUs.
    checkpoint_every_s
        Seconds after which a trial stores its state on the way.
    checkpoint_bytes
        What checkpoints may take before those of trials that are out are deleted.
    replan_above
        By what part time or cost may be others than planned before the rest is planned anew; None never does.
    setup
        What machines need before they train.
    slower, dearer
        On the virtual clock: how many times as long trials take, and as much nodes cost, as planned.
    """

    executor: Literal["virtual", "local", "command", "ray", "slurm"] = "virtual"
    train: str = ""
    command: str = ""
    folder: str = "."
    metric: str | None = None
    mode: Mode | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    lucky: bool = False
    budget_usd: _Limit | None = None
    deadline_s: _Limit | None = None
    retries: Annotated[int, Field(ge=0)] = 2
    grace_s: _Amount = 30.0
    orphan_after_s: _Limit = 600.0
    step_timeout_s: _Limit | None = None
    node_wait_s: _Amount = 600.0
    slots: Annotated[int, Field(ge=1)] | None = None
    launcher: Literal["single", "torchrun"] = "single"
    address: str = ""
    storage: str = ""
    sbatch: ByName[str] = Field(default_factory=dict)
    gres: str = "gpu"
    step_wait_s: _Amount = 0.0
    checkpoint_every_s: _Limit = 60.0
    checkpoint_bytes: _Amount = 10e9
    replan_above: _Amount | None = 0.2
    setup: Setup = Setup()
    slower: _Limit = 1.0
    dearer: _Limit = 1.0

    def to_json_data(self) -> dict[str, Any]:
        """Return plain data that is read back the same; that nothing is planned anew is no default."""
        return super().to_json_data() | {"replan_above": self.replan_above}


def make_rules(plan: Plan, options: RunOptions) -> Rules:
    """Return what holds for a whole run: the options, or else what the plan says."""
    rules = Rules.of(plan, options.metric, options.mode, options.retries)
    if options.executor != "virtual":
        return rules
    is_varied = options.lucky or (options.slower, options.dearer) != (1.0, 1.0)
    return replace(rules, is_virtual=True, is_varied=is_varied, is_trained=bool(options.train))


def make_limits(plan: Plan, options: RunOptions) -> Limits:
    """Return the run's own limits, or else those of the plan that every run has to keep."""
    hard = [limit for limit in plan.limits.values() if limit.binding is Binding.HARD]

    def least(unit: str, own: float | None, scale: float = 1.0) -> float | None:
        amounts = [limit.amount * scale for limit in hard if limit.unit == unit]
        return own if own is not None else min(amounts, default=None)

    hours = [least("gpu-h", None), least("gpu-min", None, 1.0 / 60.0)]
    return Limits(
        budget_usd=least("usd", options.budget_usd),
        budget_gpu_hours=min((amount for amount in hours if amount is not None), default=None),
        deadline_s=least("s", options.deadline_s),
        node_wait_s=options.node_wait_s,
        grace_s=options.grace_s,
    )


def require_effect(
    options: FrozenModel, executor: str, looked_at: Mapping[str, Collection[str]], instead: Mapping[str, str]
) -> None:
    """Refuse options that the executor does not look at.

    Parameters
    ----------
    options
        What users chose; what is as by default may stay.
    executor
        Where it runs.
    looked_at
        By option, the executors that look at it.
    instead
        By option, what to do about it, where that is not just to leave it out.
    """
    for name, executors in looked_at.items():
        value = getattr(options, name)
        field = type(options).model_fields[name]
        if executor not in executors and value != field.get_default(call_default_factory=True):
            *others, last = executors
            fix = instead.get(name, f"leave it out, or use {', '.join(others)}{' or ' if others else ''}{last}")
            raise UsageError(f"{name}: got {value!r}, which means nothing to executor {executor!r}; {fix}")


def require_starter(executor: str, train: str, command: str) -> None:
    """Refuse the executor ``command`` where it has nothing to start, or nothing to start it with."""
    if executor == "command" and not (train and command):
        what = "starts and ends by --command what is trained by --train"
        raise UsageError(f"command: executor 'command' {what}; give both")


def require_training(options: RunOptions) -> None:
    """Refuse options that do not fit together: who trains, and where."""
    if options.executor != "ray" and options.setup.image:
        raise UsageError("setup.image: trials are processes of this machine; leave it out, or use --executor ray")
    require_effect(options, options.executor, _LOOKED_AT, {})
    if options.address and options.executor != "ray":
        raise UsageError(f"address: executor {options.executor!r} has none; give --executor ray, or leave it out")
    require_starter(options.executor, options.train, options.command)
    if options.train and options.command and options.executor != "command":
        raise UsageError("train: a command is given as well; give one of the two")
    if options.executor != "virtual" and (options.slower, options.dearer) != (1.0, 1.0):
        raise UsageError("slower, dearer: they are for the virtual clock; leave them out")
    if options.executor == "virtual":
        if options.command:
            raise UsageError("command: nothing is started on a virtual clock; leave it out, or use --executor local")
    elif not options.train and not options.command:
        raise UsageError(f"train: executor {options.executor!r} needs something to train; give --train or --command")
