"""Plans: decisions as actions that any executor can run, with everything needed to run and to price them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from optplan.schema import ByName, FrozenModel


class Action(StrEnum):
    """What an executor does at a step."""

    START = "start"
    RESIZE = "resize"
    #: To another GPU type, with the same or another number of them.
    MOVE = "move"
    CONTINUE = "continue"
    STOP = "stop"


class Price(FrozenModel):
    """A price and where it comes from.

    Parameters
    ----------
    usd_per_hour
        For one GPU, in US dollars.
    source, date
        Who published it and when.
    """

    usd_per_hour: Annotated[float, Field(gt=0)]
    source: str = ""
    date: str = ""


class PlanStep(FrozenModel):
    """One action and how long what follows is expected to last.

    Parameters
    ----------
    subject
        Whom it concerns: a job class, a trial, the job.
    branch, share
        Which of the subject's alternatives, numbered from 1, and the fraction of its jobs that take it.
    trigger, until
        Events between which the step lasts, such as ``arrival`` and ``end of epoch 12``.
    action
        What to do at the trigger.
    gpu_type, gpus
        Resources held from then on.
    expected_overhead_s
        Seconds at the start of the step without progress (checkpoint, restart).
    expected_duration_s
        Seconds of the whole step, overhead included.
    expected_gpu_hours
        ``gpus * expected_duration_s / 3600``.
    """

    subject: str
    branch: Annotated[int, Field(ge=1)] = 1
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    trigger: str
    until: str
    action: Action
    gpu_type: str
    gpus: Annotated[int, Field(ge=1)]
    expected_overhead_s: Annotated[float, Field(ge=0)] = 0.0
    expected_duration_s: Annotated[float, Field(ge=0)]
    expected_gpu_hours: Annotated[float, Field(ge=0)]


class Plan(FrozenModel):
    """What every formulation's plan has in common.

    Parameters
    ----------
    version
        Version of the schema; a reader refuses those it does not know.
    formulation, instance_name, instance_hash
        What the plan solves.
    solver, objective, objective_unit, bound
        Who found it, how good it is, and how good anything could be.
    prices
        By GPU type; empty when the instance has none.
    expected
        Measures of the plan as it will be run; names carry units.
    steps
        What to do. Totals can be recomputed from them alone.
    """

    version: Literal[1] = 1
    formulation: str
    instance_name: str
    instance_hash: str
    solver: str
    objective: float
    objective_unit: str
    bound: float | None = None
    prices: ByName[Price] = Field(default_factory=dict)
    expected: ByName[float] = Field(default_factory=dict)
    steps: tuple[PlanStep, ...]
