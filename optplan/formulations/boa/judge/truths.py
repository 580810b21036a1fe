"""What a plan amounts to where speedups lie elsewhere within their bands, from instance and decisions alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optplan.contracts.judgement import Evaluation
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Problem
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.laws.bands import apply_speeds, find_bands, list_pairs


def judge_truth(
    instance: BoaInstance, solution: BoaSolution, shifts: Mapping[str, Mapping[str, float]]
) -> Evaluation | None:
    """Evaluate decisions in a truth, NaN where its shifts are not of the bands; None where widths are real."""
    if instance.problem is Problem.CONTINUOUS:
        return None
    pairs = {(name, gpu_type) for name, by_type in shifts.items() for gpu_type in by_type}
    if pairs != set(list_pairs(instance)):
        return Evaluation(float("nan"), {}, {}, ())
    spread = {}
    for name, by_type in shifts.items():
        options = instance.options(name)
        shift = np.array([by_type.get(gpu_type, 0.0) for gpu_type in options.gpu_types])
        spread[name] = find_bands(instance)[name].spread(shift[options.group])
    return evaluate(apply_speeds(instance, spread), solution)
