"""The largest search of a given shape that a deadline and a budget can buy.

A *shape* is the stages of a search in their proportions. Of size n, with trials growing, stage i has
max(1, floor(n_i n / n_1)) trials; with iterations growing, max(1, floor(x_i n / sum of x)) iterations. A plan for a
size is one for every smaller size: each stage has no more trials or iterations, so on the GPUs that its trials had it
takes no longer, needs no more instances, and costs no more, minimum charges included: in the mean, and, but for what
minimum charges are expected to add, run by run, so that limits are kept no less often. So where no plan keeps the
limits at a size, none does at a larger one: a size that can be planned, beside the next one that cannot, is the proof.
Only mode ``any`` has that property: the paper's rule may allow many trials on GPUs that it forbids fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from optplan.contracts.result import Result
from optplan.errors import UnsupportedError, UsageError
from optplan.formulations.rubberband.data.experiment import MOST_ITERATIONS, MOST_TRIALS, Stage, StagesExperiment
from optplan.formulations.rubberband.data.instance import AllocationRule, RubberBandInstance, RubberBandSolution

_Result = Result[RubberBandSolution]


class Growing(StrEnum):
    """What a larger search has more of."""

    #: Trials, of as many iterations.
    TRIALS = "trials"
    #: Iterations, of as many trials.
    ITERATIONS = "iterations"


@dataclass(frozen=True)
class LargestSearch:
    """The answer: a search of a ``size`` (0: none) and its plan, and the refusal of the ``larger`` one."""

    growing: Growing
    size: int
    instance: RubberBandInstance | None
    result: _Result | None
    larger: RubberBandInstance | None
    refusal: _Result | None
    solves: int

    @property
    def is_proven(self) -> bool:
        """Whether no larger search keeps the limits: one more is proven to need more, or is not allowed."""
        return self.refusal is None or self.refusal.infeasibility is not None

    def to_json_data(self) -> dict[str, Any]:
        """Return the answer as plain data, with the instances and results that ``verify`` takes."""
        named = {"instance": self.instance, "result": self.result, "larger": self.larger, "refusal": self.refusal}
        records = {name: None if record is None else record.to_json_data() for name, record in named.items()}
        return {"growing": self.growing.value, "size": self.size, "proven": self.is_proven, **records}


def require_shape(instance: RubberBandInstance) -> tuple[Stage, ...]:
    """Return the stages that are made larger; refuse searches that have no one size."""
    if len(instance.brackets) > 1 or any(a.trials < b.trials for a, b in pairwise(instance.brackets[0])):
        raise UnsupportedError("a search of several brackets has no one size; give the stages of one of them")
    if instance.mode is not AllocationRule.ANY:
        message = "mode fair may allow a search on GPUs that it forbids a smaller one, so that no size is the largest"
        raise UnsupportedError(f"{message}; ask for mode any")
    if instance.asks_for_both and instance.has_minimum_charges:
        message = (
            "with expected minimum charges a smaller search may keep the budget less often, so that no size is the"
        )
        raise UnsupportedError(f"{message} largest; set cloud.minimum_charge_s=0, or leave the confidence out")
    return instance.brackets[0]


def resize(instance: RubberBandInstance, growing: Growing, size: int) -> RubberBandInstance:
    """Return the search of the same shape and another size: trials of the first stage, or a trial's iterations."""
    stages = require_shape(instance)
    if growing is Growing.TRIALS:
        first = stages[0].trials
        changed = [stage.replace(trials=max(1, stage.trials * size // first)) for stage in stages]
    else:
        total = sum(stage.iterations for stage in stages)
        changed = [stage.replace(iterations=max(1, stage.iterations * size // total)) for stage in stages]
    return instance.replace(experiment=StagesExperiment(stages=tuple(changed)))


def find_largest(
    instance: RubberBandInstance, growing: Growing, solve: Callable[..., _Result], *, time_limit_s: float | None = None
) -> LargestSearch:
    """Find the largest search of a shape within the limits, by doubling and halving sizes, a time limit for each."""
    stages = require_shape(instance)
    if not instance.has_limit and instance.ceiling is None:
        raise UsageError(f"instance {instance.name!r} has no limit; give --deadline, --budget, or both")
    asked = instance if instance.has_limit else instance.exchanged()
    found: dict[int, _Result] = {}

    def fits(size: int) -> bool:
        try:
            found[size] = solve(resize(asked, growing, size), check=False, time_limit_s=time_limit_s)
        except UnsupportedError as error:
            if instance.budget is not None:
                raise
            raise UnsupportedError(
                f"of {size:,} {growing}: {error}, or give --budget, which larger ones break"
            ) from None
        return found[size].solution is not None

    most = MOST_TRIALS if growing is Growing.TRIALS else MOST_ITERATIONS
    now = stages[0].trials if growing is Growing.TRIALS else sum(stage.iterations for stage in stages)
    low, high, size = 0, most + 1, now
    while high - low > 1:
        low, high = (size, high) if fits(size) else (low, size)
        # Twice as large until one is too large, half as large until one fits, then in the middle.
        size = min(2 * low, most) if high > most else (low + high) // 2
    best, larger = (resize(asked, growing, size) if 0 < size <= most else None for size in (low, high))
    settings = {"time_limit_s": time_limit_s}
    return LargestSearch(
        growing=growing,
        size=low,
        instance=best,
        result=None if best is None else solve(best, **settings),
        larger=larger,
        refusal=None if larger is None else solve(larger, **settings),
        solves=len(found),
    )
