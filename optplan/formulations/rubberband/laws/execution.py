"""What a solution makes happen: trials side by side or in line in each stage, and who holds instances how long."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optplan.errors import DataError
from optplan.formulations.rubberband.data.allocations import explain_refusal, read_allocations
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution


@dataclass(frozen=True)
class StageRun:
    """One stage as it is executed; trial i waits for trial i - ``slots``."""

    stage: int
    trials: int
    iterations: int
    gpus_per_trial: int
    nodes_per_trial: int
    seconds_per_iteration: float
    slots: int
    held: int
    added: int

    @property
    def waves(self) -> int:
        """Trials in the longest chain."""
        return -(-self.trials // self.slots)


@dataclass(frozen=True)
class Cohort:
    """Instances that are added in one stage and released after the barrier of another."""

    count: int
    first: int
    last: int


def list_runs(instance: RubberBandInstance, solution: RubberBandSolution, bracket: int = 0) -> tuple[StageRun, ...]:
    """List a bracket's stages as the solution executes them; refuse what cannot be executed so."""
    if len(solution.brackets) != len(instance.brackets):
        problem = f"got {len(solution.brackets)} chains of stages; the experiment has {len(instance.brackets)}"
        raise DataError("brackets", problem, "give one for each cluster")
    if not 0 <= bracket < len(instance.brackets):
        raise DataError("bracket", f"got {bracket}; numbers from 0 to {len(instance.brackets) - 1} are allowed")
    stages, allocations = instance.brackets[bracket], solution.brackets[bracket]
    if len(allocations) != len(stages):
        problem = f"got {len(allocations)} stages; the experiment has {len(stages)}"
        raise DataError(f"brackets.{bracket}", problem, "give an allocation for each stage")
    runs: list[StageRun] = []
    for number, (stage, allocation) in enumerate(zip(stages, allocations, strict=True)):
        before = runs[-1].held if runs else 0
        path, gpus = f"brackets.{bracket}.{number}", allocation.gpus
        refusal = explain_refusal(instance, stage, gpus)
        if refusal:
            raise DataError(f"{path}.gpus", f"got {gpus}; {refusal}")
        read = read_allocations(instance, stage.trials, np.array([gpus], dtype=np.int64))
        needed = int(read.instances[0])
        if allocation.instances < needed:
            problem = f"got {allocation.instances}; {gpus} GPUs for {stage.trials} trials are on {needed} instances"
            raise DataError(f"{path}.instances", problem, f"hold at least {needed}, or use fewer GPUs")
        runs.append(
            StageRun(
                stage=number,
                trials=stage.trials,
                iterations=stage.iterations,
                gpus_per_trial=int(read.gpus_per_trial[0]),
                nodes_per_trial=int(read.spanned[0]),
                seconds_per_iteration=float(instance.training.seconds(read.gpus_per_trial, read.spanned)[0]),
                slots=int(read.slots[0]),
                held=allocation.instances,
                added=max(0, allocation.instances - before),
            )
        )
    return tuple(runs)


def group_held(counts: Sequence[int]) -> tuple[Cohort, ...]:
    """Group instances by when they come and go, from how many each stage holds; no order costs less minimum charge."""
    cohorts: list[Cohort] = []
    held: deque[tuple[int, int]] = deque()  # (first stage, count), the oldest first
    for stage, (before, now, after) in enumerate(zip([0, *counts], counts, [*counts[1:], 0], strict=False)):
        if now > before:
            held.append((stage, now - before))
        surplus = now - after
        while surplus > 0:
            first, count = held.popleft()
            gone = min(count, surplus)
            cohorts.append(Cohort(gone, first, stage))
            if count > gone:
                held.appendleft((first, count - gone))
            surplus -= gone
    return tuple(cohorts)
