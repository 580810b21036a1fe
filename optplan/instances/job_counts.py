"""How far the rates of an imported trace can be believed: a class of few jobs may carry most of the load."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

from optplan.errors import DataWarning
from optplan.formulations.boa.data.instance import BoaInstance

#: Standard error of the whole load, relative, from which one class that causes it alone is named.
_NOTABLE_ERROR = 0.15


def warn_few_jobs(instance: BoaInstance, jobs: Mapping[str, int]) -> None:
    """Warn of classes whose rates rest on so few jobs that the load of the whole instance is uncertain.

    Of a class with n jobs and a share w of the load, the load's relative standard error is w / sqrt(n), were arrivals a
    Poisson process; they come in clumps, so it is more.

    Parameters
    ----------
    instance
        What was imported.
    jobs
        By class, how many there are in the trace.
    """
    loads = {name: each.arrival_rate_per_hour * each.size_gpu_hours for name, each in instance.classes.items()}
    total = sum(loads.values())
    for name, load in loads.items():
        if load / total / math.sqrt(jobs[name]) > _NOTABLE_ERROR:
            count = f"{jobs[name]} job{'s' if jobs[name] > 1 else ''}"
            message = (
                f"classes.{name}.arrival_rate_per_hour rests on {count}, and the class carries {load:.3g} of "
                f"{total:.3g} GPUs; see what other rates would do, or import a longer trace"
            )
            warnings.warn(message, DataWarning, stacklevel=3)
