"""Plans of version 1, which listed steps in words, as plans of version 2.

What version 1 did not say is left at its default: limits, how long launches take, which nodes GPUs are on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optplan.contracts import Plan
from optplan.instances.earlier_plans.searches import (
    EarlierRubberBandPlan,
    EarlierSeerPlan,
    read_rubberband,
    read_seer,
)
from optplan.instances.earlier_plans.steps import EarlierPlan
from optplan.instances.earlier_plans.training import EarlierBoaPlan, EarlierSriftPlan, read_boa, read_srift

_READERS: dict[str, tuple[type[EarlierPlan], Callable[[Any], Plan]]] = {
    "boa": (EarlierBoaPlan, read_boa),
    "rubberband": (EarlierRubberBandPlan, read_rubberband),
    "seer": (EarlierSeerPlan, read_seer),
    "srift": (EarlierSriftPlan, read_srift),
}
#: Those that had plans of version 1.
FORMULATIONS = frozenset(_READERS)


def translate(formulation: str, fields: dict[str, Any], path: str = "") -> Plan:
    """Read a plan of version 1.

    Parameters
    ----------
    formulation
        One of :data:`FORMULATIONS`.
    fields
        What the file holds.
    path
        Its name, for messages.

    Raises
    ------
    DataError
        When it is no such plan.
    """
    kind, read = _READERS[formulation]
    return read(kind.parse(fields, path=path))
