"""What certificates about means prove of limits that are kept with a confidence.

Whatever keeps a limit often enough has a mean within a somewhat greater amount
(:mod:`optplan.formulations.rubberband.laws.variation`). So what is proven of the means within that amount is proven of
the instance: its optimum is no better, and where no mean keeps it, no plan keeps the limit often enough.
"""

from __future__ import annotations

from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.laws.variation import share_of_limit
from optplan.progress import Stopwatch


def limit_means(instance: RubberBandInstance, stopwatch: Stopwatch | None = None) -> tuple[RubberBandInstance, float]:
    """Return the problem of means of which every plan is one that counts in the instance, and its share of the limits.

    The instance itself and 1 where nothing is random or no confidence is asked for; zero or less where what is proven
    of means proves nothing.
    """
    if instance.confidence is None or not instance.is_random:
        return instance, 1.0
    if "means" not in instance.judge_cache:
        share = share_of_limit(instance, (stopwatch if stopwatch is not None else Stopwatch()).require)
        instance.judge_cache["means"] = (instance.of_means(share) if share > 0.0 else instance), share
    found: tuple[RubberBandInstance, float] = instance.judge_cache["means"]
    return found
