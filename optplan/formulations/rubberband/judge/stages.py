"""The judge's list of a stage's options: every allocation that the rules allow.

Written apart from the solver's, which lists only what can be best.
"""

from __future__ import annotations

from optplan.errors import DataError
from optplan.formulations.rubberband.data.allocations import explain_refusal, list_allowed
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.laws.stages import StageOptions, option_of, time_allocations
from optplan.progress import Stopwatch


def list_costs(
    instance: RubberBandInstance, bracket: int, stage: int, stopwatch: Stopwatch | None = None
) -> StageOptions:
    """Return every allowed allocation of a stage with its costs; cached."""
    which = instance.brackets[bracket][stage]
    key = ("costs", which.trials, which.iterations)
    if key not in instance.judge_cache:
        watch = stopwatch if stopwatch is not None else Stopwatch()
        allowed = list_allowed(instance, which.trials)
        instance.judge_cache[key] = time_allocations(instance, which, allowed, watch.require)
    costs: StageOptions = instance.judge_cache[key]
    return costs


def cost_of(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> StageOptions:
    """Return the costs of the one allocation of a stage with that many GPUs; refuse one that is not allowed."""
    which = instance.brackets[bracket][stage]
    reason = explain_refusal(instance, which, gpus)
    if reason:
        raise DataError(f"brackets.{bracket}.{stage}.gpus", f"got {gpus}; {reason}")
    return option_of(instance, bracket, stage, gpus)
