"""What a run measured, written back into the instance: pauses at the start of rounds, and how trials scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from optplan.contracts.standing import MeasuredTrial, Standing
from optplan.errors import UsageError
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.seer.data.prior import TrialScaling
from optplan.formulations.seer.planning import SeerPlan
from optplan.units import format_duration

#: Relative differences below it are none.
_SAME = 1e-3


def calibrate(instance: SeerInstance, plan: SeerPlan, standing: Standing) -> tuple[SeerInstance, tuple[str, ...]]:
    """Write what was measured into an instance; without anything measured, refuse.

    ``resize_s`` becomes the mean time until trials trained again in rounds after the first, and where there is a prior,
    its scaling the iterations a second at the widths that trials had.
    """
    rounds = {segment.id: segment.round for segment in plan.segments}
    again = [trial.start_s for trial in standing.trials if rounds.get(trial.segment, 1) > 1]
    scaling = None if instance.prior is None else _scale(instance.prior.scaling, standing.trials)
    if not again and scaling is None:
        raise UsageError("nothing was measured: no trial has trained in a round after the first")
    said: list[str] = []
    fields: dict[str, Any] = {}
    if again:
        fields["resize_s"] = float(np.mean(again))
        said.append(f"resize_s: {format_duration(fields['resize_s'])}, was {format_duration(instance.resize_s)}")
    if instance.prior is not None and scaling is not None:
        fields["prior"] = instance.prior.replace(scaling=scaling)
        for gpus, speedup in zip(scaling.gpus.tolist(), scaling.speedup.tolist(), strict=True):
            before = instance.prior.scaling.of(gpus)
            if not math.isclose(speedup, before, rel_tol=_SAME):
                said.append(f"prior.scaling on {gpus} GPUs: {speedup:.3g}, was {before:.3g}")
    return instance.replace(**fields), tuple(said)


def _scale(scaling: TrialScaling, trials: Sequence[MeasuredTrial]) -> TrialScaling | None:
    """Put measured speedups where there are any; relative to the narrowest width measured, which stays as it was."""
    by_width: dict[int, list[MeasuredTrial]] = {}
    for trial in trials:
        if trial.iteration_s > 0:
            by_width.setdefault(trial.gpus, []).append(trial)
    if len(by_width) < 2:
        return None
    rates = {
        gpus: sum(t.iterations for t in own) / sum(t.iterations * t.iteration_s for t in own)
        for gpus, own in sorted(by_width.items())
    }
    first = min(rates)
    measured = {gpus: scaling.of(first) * rate / rates[first] for gpus, rate in rates.items()}
    gpus = sorted({1, *map(int, scaling.gpus), *measured})
    speedup = [1.0 if each == 1 else measured.get(each, scaling.of(each)) for each in gpus]
    return TrialScaling(gpus=np.array(gpus), speedup=np.array(speedup))
