"""``optplan solve --problem largest``: the largest search of a shape that a deadline and a budget can buy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optplan.cli.console import Progress, Shown
from optplan.cli.outputs import Outputs

if TYPE_CHECKING:
    from optplan.contracts import Instance
    from optplan.formulations.rubberband.study.largest import LargestSearch

#: What ``--problem`` calls it.
LARGEST = "largest"
#: Seconds for each size that is looked at, unless said.
_SIZE_LIMIT_S = 10.0
#: Exit code where not even the smallest search keeps the limits, or where it is not proven that none is larger.
_INFEASIBLE, _NOT_PROVEN = 3, 4


def solve_largest(instance: Instance, outputs: Outputs, *, grow: str | None, time_limit_s: float | None) -> int:
    """Find the largest search of the shape of an instance; print and write it, and return the exit code."""
    from optplan.formulations.rubberband.study.largest import Growing, find_largest
    from optplan.reporting.rubberband.words import require_search
    from optplan.solving import solve

    search = require_search(instance)
    with Progress("sizes"):
        found = find_largest(search, Growing(grow or "trials"), solve, time_limit_s=time_limit_s or _SIZE_LIMIT_S)
    outputs.answer(found.to_json_data(), lambda: _show(found))
    outputs.save_json(found.to_json_data())
    if found.instance is not None:
        outputs.save_json(found.instance, "--new-instance")
    if found.instance is None:
        return outputs.exit_code(_INFEASIBLE)
    return outputs.exit_code(0 if found.is_proven else _NOT_PROVEN)


def _show(found: LargestSearch) -> list[Shown]:
    """Say how large the search is, why it is not larger, and what its plan is."""
    from optplan.reporting.rubberband.presenter import PRESENTER
    from optplan.reporting.rubberband.words import say_largest
    from optplan.reporting.tables import plain_text

    parts: list[Shown] = [plain_text(say_largest(found), "bold")]
    if found.instance is not None and found.result is not None:
        parts += ["", *PRESENTER.present_result(found.instance, found.result)]
    return parts
