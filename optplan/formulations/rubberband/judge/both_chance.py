"""The judge of plans that keep a deadline and a budget, both, with a confidence: the rule ``rubberband-both-chance``.

The content is ``points``, how many points the grid has, in either direction, to which times and instance-seconds are
rounded down. About the objective: no plan below ``bound`` keeps all limits with the confidence. Without a bound: no
plan does. With a ``limit``: no plan does although this limit is ``bound``, or, without a bound, whatever it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from optplan.contracts.judgement import RefutedError
from optplan.contracts.result import TreeCertificate
from optplan.formulations.rubberband.data.instance import BUDGET, DEADLINE, RubberBandInstance
from optplan.formulations.rubberband.judge.both_walks import BothWalks
from optplan.formulations.rubberband.judge.tolerances import TOLERANCE

if TYPE_CHECKING:
    from optplan.progress import Stopwatch

#: The least and most points of a grid.
_POINTS = (2, 256)


def check_both_chance(instance: RubberBandInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Raise unless a certificate proves its claim; see the module's text."""
    points = certificate.content.get("points")
    least, most = _POINTS
    if not (isinstance(points, int) and not isinstance(points, bool) and least <= points <= most):
        raise RefutedError(f"points must be a whole number from {least} to {most}")
    limits, below, bound = instance.limits, math.inf, certificate.bound
    if bound is not None and not 0.0 < bound < math.inf:
        raise RefutedError("a bound above zero is needed")
    if certificate.limit:
        limits[certificate.limit] = math.inf if bound is None else bound * (1.0 - TOLERANCE)
    elif bound is not None:
        below = bound * (1.0 - TOLERANCE)
    both = (limits.get(DEADLINE, math.inf), limits.get(BUDGET, math.inf))
    found = BothWalks(instance, both, points, below, stopwatch).find()
    if found:
        raise RefutedError(found)
