"""What users choose for simulations: each field with its range, its default and, after ``#:``, what it is.

As :mod:`optplan.execution.fields` for runs: options of the command line are made from these, so that nothing heavy is
loaded here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from annotated_types import Ge, Le, Lt


class Knowledge(StrEnum):
    """What a policy knows about speeds."""

    #: All, as it was measured.
    TRUTH = "truth"
    #: What a model says that each job fits to what it has run on.
    LEARNED = "learned"


class Batch(StrEnum):
    """How jobs choose their batch size."""

    #: Anew for each epoch and whatever they hold, as Pollux's and Sia's agents do.
    ADAPTED = "adapted"
    #: Not at all: it is the trace's own.
    FIXED = "fixed"
    #: Anew in each round and for each epoch, by the model that each job fits to what it has run on.
    LEARNED = "learned"


@dataclass
class CellFields:
    """How a workload is simulated."""

    #: GPUs of a node; what the instance says of the GPU type unless given.
    gpus_per_node: Annotated[int | None, Ge(1), "N"] = None
    #: What Pollux knows about speeds: all, or what a model says that each job fits to what it has run on.
    knowledge: Knowledge = Knowledge.TRUTH
    #: Whether jobs adapt their batch size after every epoch, keep that of the workload, or choose it by what they have
    #: learned from running, as Pollux's agents do.
    batch: Annotated[Batch, "--batches"] = Batch.ADAPTED
    #: Times that the workload runs, one after another, each but the first turned within its span at random.
    repeat: Annotated[int, Ge(1), Le(10_000), "--repeats", "N"] = 1
    #: Time until a rented node can be used; as the instance says unless given.
    node_start_s: Annotated[float | None, Ge(0)] = None
    #: Of one GPU, such as 0.978usd/hour: tells the cost of the nodes that were rented, until they were reclaimed.
    price_usd_per_hour: Annotated[float | None, Ge(0), "--price"] = None


@dataclass
class WorldFields:
    """What makes a cluster less than ideal."""

    #: Time for which a node is still paid after it was given back (BOA, appendix D).
    reclaim_s: Annotated[float, Ge(0)] = 0.0
    #: Time until a node can be used that is rented again before it was reclaimed (--reclaim; 5.4); as --node-start
    #: unless given.
    warm_start_s: Annotated[float | None, Ge(0)] = None
    #: Share of their speed that jobs on several nodes lose where they share one.
    interference: Annotated[float, Ge(0), Lt(1), "SHARE"] = 0.0
    #: Whether a job that is stopped begins its epoch again, as in a stream.
    loses_epoch: bool = False
