"""Which widths are allowed, and what others would be worth: all of them, or wider ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import Steps, Widths
from optplan.schema import IntArray


def allow_all(instance: BoaInstance) -> BoaInstance | None:
    """Return the problem with every width between those that are allowed; None where that is no other problem."""
    rules = [instance.widths, *(job_class.widths for job_class in instance.classes.values())]
    if all(rule is None or rule.steps is Steps.ALL for rule in rules):
        return None
    classes = {
        name: job_class if job_class.widths is None else job_class.replace(widths=_free(job_class.widths))
        for name, job_class in instance.classes.items()
    }
    widths = None if instance.widths is None else _free(instance.widths)
    return instance.replace(widths=widths, classes=classes)


def list_wider(instance: BoaInstance) -> Iterator[tuple[str, int, BoaInstance]]:
    """Yield by class the next known width, or by formula twice the widest, and the problem that allows it."""
    for name, job_class in instance.classes.items():
        wider: set[int] = set()
        allowed: IntArray = np.zeros(0, dtype=np.int64)
        for gpu_type, speedup in job_class.speedup.items():
            own, known = instance.allowed_widths(name, gpu_type), speedup.known_widths()
            if not own.size:
                continue  # interruptions come faster than restarts at all of them
            allowed = np.union1d(allowed, own)
            beyond = np.array([2 * own[-1]]) if known is None else known[known > own[-1]]
            wider |= {int(beyond[0])} if beyond.size else set()
        if wider and len(job_class.speedup) == 1:
            width = min(wider)
            rule = Widths(only=[*allowed.tolist(), width])
            yield name, width, instance.replace(classes=dict(instance.classes) | {name: job_class.replace(widths=rule)})


def _free(rule: Widths) -> Widths:
    return rule.replace(steps=Steps.ALL)
