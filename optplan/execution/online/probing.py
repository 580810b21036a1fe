"""Probing widths: jobs of a new class run at a few widths in turn, until each of them was measured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optplan.execution.online.calculations import Terms
from optplan.execution.online.estimates import ClassEstimate
from optplan.execution.online.width_table import weigh
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Branch


def find_probing(
    instance: BoaInstance, classes: Mapping[str, ClassEstimate], terms: Terms
) -> tuple[dict[str, tuple[Branch, ...]], float]:
    """Return, by class that is probed, a row for each width that was not measured yet, each for as many of its jobs.

    And which part of the budget they take, as far as it is estimated: at most ``probe_part``. Classes that would take
    more get the widths that are best as far as they are known, as do all on a type of GPU with a quota.
    """
    left = terms.probe_part * instance.budget_amount()
    probed: dict[str, tuple[Branch, ...]] = {}
    taken = 0.0
    for name, estimate in classes.items():
        widths = _list_unmeasured(instance, name, estimate, terms)
        if not widths:
            continue
        gpu_type = next(iter(instance.classes[name].speedup))
        several = (gpu_type,) * instance.classes[name].num_epochs if len(instance.gpu_types) > 1 else None
        epochs = np.ones(instance.classes[name].num_epochs)
        rows = tuple(Branch(fraction=1.0 / len(widths), widths=gpus * epochs, gpu_types=several) for gpus in widths)
        alone = instance.replace(classes={name: instance.classes[name]})
        used = weigh(alone, BoaSolution(branches={name: rows})).consumption[BUDGET]
        if taken + used <= left:
            probed[name] = rows
            taken += used
    return probed, taken / instance.budget_amount()


def _list_unmeasured(instance: BoaInstance, name: str, estimate: ClassEstimate, terms: Terms) -> list[int]:
    if not estimate.is_new or estimate.hints or estimate.done >= terms.probe_jobs:
        return []
    gpu_type = next(iter(instance.classes[name].speedup))
    if gpu_type in instance.quotas:
        return []
    allowed = set(instance.allowed_widths(name, gpu_type).tolist())
    allowed.difference_update(estimate.levels.get(gpu_type, ()))
    return [gpus for gpus in dict.fromkeys(terms.probe_widths) if gpus in allowed]
