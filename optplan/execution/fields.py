"""What users choose for runs and exports: each field with its range, its default and, after ``#:``, what it is.

Options of the command line are made from these as well as the records that check them. As ``--help`` shows the
options, neither pydantic nor NumPy is loaded here. Text within ``Annotated`` is how help calls an option, or its value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen

from optplan.contracts.modes import Mode
from optplan.execution.online.jobs import Order

Amount = Annotated[float, Ge(0)]
Limit = Annotated[float, Gt(0)]
AtLeastOne = Annotated[int, Ge(1)]


@dataclass
class RunFields:
    """What runs of all kinds take."""

    #: Where it runs.
    executor: Literal["virtual", "local", "command", "ray", "slurm"] = "virtual"
    #: A command line: what trains, or what starts and ends it (executor ``command``) or fleets.
    command: Annotated[str, "TEXT"] = ""
    #: How often what has failed is started again: a trial or a job after failures of its own; a fleet that lost no VM,
    #: and each VM that came back.
    retries: Annotated[int, Ge(0)] = 2
    grace_s: Amount = 30.0  #: Time to store the state and to end when that is asked for.
    checkpoint_every_s: Limit = 60.0  #: Time after which the state is stored on the way, unasked.
    address: Annotated[str, "ADDR"] = ""  #: Of a Ray cluster, ``HOST:PORT`` or ``auto``; without it one is made here.
    gres: Annotated[str, "NAME"] = "gpu"  #: What a GPU is called in Slurm's ``--gres``, which an empty one leaves out.


@dataclass
class TrainingFields(RunFields):
    """What searches and streams take besides."""

    #: What to train in place of a command, or started by executor ``command``: ``module:name`` or ``file.py:name``.
    train: Annotated[str, "TARGET"] = ""
    #: What is shown after each iteration, by which trials are ranked; the plan's unless given, ``loss`` of streams.
    metric: Annotated[str | None, MinLen(1), "NAME"] = None
    #: ``single``: one process for a trial, whatever GPUs it has; ``torchrun``: one for each worker (on Ray an actor).
    launcher: Literal["single", "torchrun"] = "single"
    #: On Ray, the URL of checkpoints where machines share no folder: ``s3://bucket/run``.
    storage: Annotated[str, "URL"] = ""
    #: GPUs or CPU slots of this machine that may be used, or of a Ray cluster that is made here; unless given the
    #: machine's GPUs, or as many as are wanted where it has none.
    slots: AtLeastOne | None = None
    #: Time without a driver after which what was started stores its state and ends.
    orphan_after_s: Limit = 600.0
    #: Time after which an iteration is taken to hang, so that its trial has failed; unless given 20 times what the plan
    #: expects, and at least 5 minutes.
    step_timeout_s: Limit | None = None


@dataclass
class LimitFields(RunFields):
    """What searches and fleets take besides."""

    budget_usd: Limit | None = None  #: A hard limit on the cost in place of the plan's, of a fleet when it goes on.
    deadline_s: Limit | None = None  #: A hard limit on the time, likewise.


@dataclass
class SearchFields(LimitFields, TrainingFields):
    """What searches and single jobs take besides."""

    mode: Mode | None = None  #: Which values of the metric are better; the plan's unless given.
    seed: Annotated[int, Ge(0)] = 0  #: Draws configurations, and luck on the virtual clock.
    lucky: Annotated[bool, "--sample"] = False  #: Whether times vary on the virtual clock.
    node_wait_s: Amount = 600.0  #: Time to wait for nodes before the run is paused.
    #: What checkpoints may take before those of trials that are out are deleted.
    checkpoint_bytes: Annotated[Amount, "--checkpoint-space"] = 10e9
    #: By what part time or cost may be others than planned before the rest is planned anew, as in 20%, or never.
    replan_above: Amount | None = 0.2
    slower: Annotated[Limit, "FACTOR"] = 1.0  #: On the virtual clock: how many times as long trials take as planned.
    dearer: Annotated[Limit, "FACTOR"] = 1.0  #: On the virtual clock: how many times as much nodes cost as planned.


@dataclass
class StreamFields(TrainingFields):
    """What streams take besides; an iteration is an epoch."""

    metric: Annotated[str | None, MinLen(1)] = "loss"
    most_gpus: Annotated[AtLeastOne | None, "N"] = None  #: The most GPUs at a time, in all; jobs queue for them.
    order: Order = Order.FIRST_COME  #: Who comes first where jobs queue.
    #: Is run whenever the wanted nodes change, with ``OPTPLAN_NODES`` and ``OPTPLAN_GPU_TYPE`` for each type.
    scale_command: Annotated[str, "TEXT"] = ""


@dataclass
class FleetFields(LimitFields):
    """What fleets take besides."""

    grace_s: Limit = 60.0
    checkpoint_every_s: Amount = 600.0
    heartbeat_s: Limit = 5.0  #: How often every rank reports.
    #: Until new VMs can train, for the plans of the rest; as the instance says unless given.
    launch_s: Amount | None = None
    launch_wait_s: Limit = 900.0  #: How long to wait for a VM's first report before it is taken for lost.
    #: How long a VM that has fallen silent has to come back, from when it is missed: then it is taken back, and the
    #: fleet starts again as it was; 6 heartbeats unless given.
    return_s: Annotated[Amount | None, "--return-wait"] = None
    detach_s: Amount = 0.0  #: Until what a lost VM has stored can be used.
    time_limit_s: Limit = 20.0  #: For each plan of the rest, while VMs are paid; the paper gives 1 s (5.4).


@dataclass
class ExportFields:
    """What exports take besides the plan, the target and the command."""

    #: Where the command runs; here unless given, and in containers where images say.
    workdir: Annotated[str | None, MinLen(1), "DIR"] = None
    launcher: Literal["single", "torchrun"] = "single"  #: What starts the command.
    seed: Annotated[int, Ge(0)] = 0  #: Draws the configurations.
    metric: Annotated[str | None, MinLen(1), "NAME"] = None  #: By what trials are ranked; the plan's unless given.
    mode: Mode | None = None  #: Which values of it are better; the plan's unless given.
    time_quantile: Annotated[float, Ge(0.5), Lt(1)] = 0.99  #: Time limits cover this fraction of the times.
    margin: Annotated[float, Ge(0), Le(100)] = 0.5  #: Time limits are that quantile times one plus this.
    gpus_per_node: AtLeastOne | None = None  #: GPUs of one of the target's nodes; the plan's unless given.
    retries: Annotated[int, Ge(0)] = 2  #: Starts of a job after it has failed.
    #: Whether the program reads ``OPTPLAN_GPUS`` and its like itself.
    sizes_known: Annotated[bool, "--sizes-by-environment"] = False
