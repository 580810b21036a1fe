"""What is written down so that others can check a bound: a multiplier, or lists of undominated choices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import JsonValue

from optplan.contracts.proofs import pack_integers
from optplan.contracts.result import LagrangianCertificate, TreeCertificate
from optplan.formulations.seer.data.instance import BUDGET, DEADLINE, SeerInstance
from optplan.schema import FloatArray

#: The rule of the lists, and the unit of their amounts in all brackets together, relative to budget and bound.
_RULE, _UNIT = "seer-rows", 2.0**-33
_NODES_RULE = "seer-nodes"
#: Most pairs of all lists together: a certificate of up to a megabyte.
MOST_LISTED = 50_000


def certify_budget(instance: SeerInstance) -> LagrangianCertificate:
    """Make the certificate that the budget is a bound."""
    return LagrangianCertificate(multipliers={BUDGET: 1.0, DEADLINE: 0.0}, bound=instance.budget_gpu_min)


def certify_nodes(bound: float) -> TreeCertificate:
    """Make the certificate that no search on paid nodes trains for longer; whoever checks it lists all of them."""
    return TreeCertificate(rule=_NODES_RULE, bound=bound, content={})


def certify_rows(instance: SeerInstance, pairs: Sequence[FloatArray], bound: float) -> TreeCertificate | None:
    """Write down what the best choices for the wider brackets spend and train, as a bound's proof; None if too long.

    ``pairs`` are, for all brackets but the narrowest, from the widest on: (2, L) spent and trained above the published
    rows, by increasing spending; or (3, L) with what is held between the two.
    """
    unit = _UNIT / (len(pairs) + 1)
    # Of choices that spend more only those that train for longer, or hold less, are worth a line.
    short = [each[:, np.diff(each[1], prepend=-1.0) > 0.0] if len(each) == 2 else each for each in pairs]
    if sum(each.shape[1] for each in short) > MOST_LISTED:
        return None
    lists: list[JsonValue] = []
    for *taken, trained in short:
        most = (instance.budget_gpu_min, instance.most_gpus_held or 1.0)
        parts = [np.floor(each / (limit * unit)) for each, limit in zip(taken, most, strict=False)]
        parts.append(np.ceil(trained / (bound * unit)))
        lists.append([pack_integers(part.astype(np.int64)) for part in parts])
    return TreeCertificate(rule=_RULE, bound=bound, content={"pairs": lists})
