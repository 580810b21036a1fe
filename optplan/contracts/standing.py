"""Where a run of a plan stands between two segments, and what was measured until then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optplan.contracts.plan import Plan
from optplan.contracts.result import Infeasibility, Result


@dataclass(frozen=True)
class MeasuredTrial:
    """One trial, in one segment, from its start to its end."""

    segment: str
    gpus: int
    nodes: int
    iterations: int
    iteration_s: float  #: In the mean.
    iteration_sd_s: float | None
    overhead_s: float  #: With GPUs and without iterations: starting, loading and storing its state.
    start_s: float  #: Of that, until the first iteration.


@dataclass(frozen=True)
class MeasuredNode:
    """One node that was got: seconds from the request to its launch, and from there until it could train."""

    resource: str
    request_s: float
    launch_s: float
    usd_per_hour: float | None


@dataclass(frozen=True)
class Took:
    """What a segment took: seconds since it opened, and US dollars where prices are known."""

    start_s: float
    seconds: float
    cost_usd: float | None


@dataclass(frozen=True)
class Standing:
    """Where a run stands; its clock showed zero at ``origin_s``, when the plan's first segment began."""

    now_s: float
    origin_s: float = 0.0
    spent_usd: float | None = None  #: Without what held nodes have not used up of their minimum charge.
    spent_gpu_hours: float = 0.0
    took: Mapping[str, Took] = field(default_factory=dict)  #: By segment that has ended.
    #: By segment that has ended: its trials that were not given up.
    alive: Mapping[str, int] = field(default_factory=dict)
    #: By pool: seconds that each ready node has been paid, the oldest first.
    held: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    #: In place of the instance's: ``deadline`` in seconds, ``budget`` in US dollars, ``gpus`` at a time.
    limits: Mapping[str, float] = field(default_factory=dict)
    trials: tuple[MeasuredTrial, ...] = ()
    nodes: tuple[MeasuredNode, ...] = ()


#: Solves an instance.
Solver = Callable[[Any], Result[Any]]


@dataclass(frozen=True)
class Continuation:
    """How a run goes on: what has ended as it went, and the rest anew."""

    plan: Plan | None  #: None where the rest cannot keep the limits of the whole run.
    infeasibility: Infeasibility | None = None
