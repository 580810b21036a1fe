"""Where a run of a plan stands between two segments, and what was measured until then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optplan.contracts.plan import Plan
from optplan.contracts.result import Infeasibility, Result


@dataclass(frozen=True)
class MeasuredTrial:
    """One trial, in one segment, from its start to its end.

    Iterations take ``iteration_s`` in the mean; for ``overhead_s`` it had its GPUs and did none (starting, loading and
    storing its state), of which ``start_s`` until the first one.
    """

    segment: str
    gpus: int
    nodes: int
    iterations: int
    iteration_s: float
    iteration_sd_s: float | None
    overhead_s: float
    start_s: float


@dataclass(frozen=True)
class MeasuredNode:
    """One node that was got.

    Seconds are from the request to the beginning of its launch, and from there until it could train.
    """

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
    """Where a run stands.

    The plan's clock showed zero at ``origin_s``, when its first segment began. What it has taken is without what nodes
    that are held have not used up of their minimum charge, and None without prices. By segment that has ended: what it
    took, and its trials that were not given up; by pool, for how many seconds each of the nodes that are ready has been
    paid, the oldest first. Limits of this run take the place of the instance's: ``deadline`` in seconds, ``budget`` in
    US dollars, and the ``gpus`` that there are at a time.
    """

    now_s: float
    origin_s: float = 0.0
    spent_usd: float | None = None
    spent_gpu_hours: float = 0.0
    took: Mapping[str, Took] = field(default_factory=dict)
    alive: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    trials: tuple[MeasuredTrial, ...] = ()
    nodes: tuple[MeasuredNode, ...] = ()


#: Solves an instance.
Solver = Callable[[Any], Result[Any]]


@dataclass(frozen=True)
class Continuation:
    """How a run goes on.

    The plan has what has ended as it went, and the rest anew; None where the rest cannot keep the limits, which are
    those of the whole run.
    """

    plan: Plan | None
    infeasibility: Infeasibility | None = None
