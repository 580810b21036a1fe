"""What a probability to keep a limit says of the mean: Cantelli's inequality.

A plan's time is a sum of independent durations, and so is its cost, each weighted by what is paid meanwhile. When no
duration's standard deviation is more than c of its mean, neither is that of a sum: standard deviations add up at most,
as means do, and what does not vary only adds to the mean. By Cantelli's inequality (1928) a sum is at most its mean
less k standard deviations with a probability of at most 1 / (1 + k^2). So what keeps a limit L with a probability p has
a mean of at most L / (1 - c sqrt((1 - p) / p)).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from optplan.formulations.rubberband.data.allocations import list_allowed
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.laws.convolutions import Law
from optplan.formulations.rubberband.laws.lifetimes import latest_law
from optplan.formulations.rubberband.laws.stages import stage_law

#: Durations that are looked at; nothing is known of an instance that has more.
_MOST_DURATIONS = 8_192
#: By how much a plan that counts may fall short of the confidence, with what its probability may be off; and by how
#: much, relatively, a deviation on a grid may be too small.
_SHORT_OF, _NARROWED = 1e-4, 1e-3


def share_of_limit(instance: RubberBandInstance, go_on: Callable[[], None] = lambda: None) -> float:
    """Return s > 0 such that every plan that keeps a limit L with the confidence has a mean of at most L / s; cached.

    At most 1; zero or less where nothing follows. ``go_on``, called all along, raises to end the work.
    """
    if "share" not in instance.law_cache:
        probability = (instance.confidence or 0.0) - _SHORT_OF
        most = (1.0 + _NARROWED) * _vary(instance, go_on)
        instance.law_cache["share"] = 1.0 - most * math.sqrt(1.0 / probability - 1.0)
    share: float = instance.law_cache["share"]
    return share


def _vary(instance: RubberBandInstance, go_on: Callable[[], None]) -> float:
    """Return the greatest coefficient of variation of any duration of any plan; infinite where there are too many."""
    stages = [
        (number, stage, list_allowed(instance, which.trials))
        for number, chain in enumerate(instance.brackets)
        for stage, which in enumerate(chain)
    ]
    cloud = instance.cloud
    # More instances than some stage needs never are worth their price.
    most = max(int(allowed.instances.max()) for _, _, allowed in stages)
    counts = [1] if cloud.initialise_s.is_constant else range(1, most + 1)
    if sum(allowed.gpus.size for _, _, allowed in stages) + len(counts) > _MOST_DURATIONS:
        return math.inf
    found = _vary_of(cloud.provision_s)
    for added in counts:
        go_on()
        found = max(found, _vary_of(latest_law(instance, added)))
    for number, stage, allowed in stages:
        for gpus in allowed.gpus.tolist():
            go_on()
            found = max(found, _vary_of(stage_law(instance, number, stage, gpus)))
    return found


def _vary_of(law: Law) -> float:
    """Return the coefficient of variation of a duration; none where it takes no time."""
    return law.deviation_s / law.expected_s if law.expected_s > 0.0 else 0.0
