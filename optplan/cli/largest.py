"""``optplan largest``: the largest search of a shape that a deadline and a budget can buy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from optplan.cli.amending import amendments_but, read_amended
from optplan.cli.commands import Command
from optplan.cli.console import Progress, Shown
from optplan.cli.options import TIME, instance_argument
from optplan.cli.outputs import Outputs

if TYPE_CHECKING:
    from optplan.formulations.rubberband.study.largest import LargestSearch

#: Exit code where not even the smallest search keeps the limits, or where it is not proven that none is larger.
_INFEASIBLE, _NOT_PROVEN = 3, 4


@click.command(
    cls=Command,
    short_help="Find the largest search within a deadline and a budget (rubberband).",
    examples=(
        "optplan largest my-search.yaml --deadline 2h --budget 100usd",
        "optplan largest rubberband-resnet101-20min --budget 25usd --grow iterations --new-instance larger.json",
    ),
    writes={
        "output": "sizes, plan and proof as JSON",
        "new_instance": "Write the largest search as an instance, for `optplan solve`.",
    },
)
@instance_argument
@amendments_but("problem", "policy")
@click.option(
    "--grow",
    type=click.Choice(["trials", "iterations"]),
    default="trials",
    help="What a larger search has more of; the stages keep their proportions.",
)
@click.option(
    "--time-limit", default="10s", type=TIME, help="For each size that is looked at; larger ones take longer."
)
def largest(
    instance_name: str,
    *,
    grow: str,
    time_limit: float | None,
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Find the largest search of the shape of INSTANCE that keeps its deadline and its budget, with proof.

    The proof is the plan of that size, and that no plan keeps the limits for a search of one more; the JSON has both,
    as instances and results that `optplan verify` takes.

    Exits with 3 when even a search of one does not keep them, and with 4 when the time was too short for the proof.
    """
    from optplan.formulations.rubberband.study.largest import Growing, find_largest
    from optplan.reporting.rubberband.words import require_search
    from optplan.solving import solve

    search = require_search(read_amended(instance_name, changes))
    with Progress("sizes"):
        found = find_largest(search, Growing(grow), solve, time_limit_s=time_limit)
    outputs.answer(found.to_json_data(), lambda: _show(found))
    outputs.save_json(found.to_json_data())
    if found.instance is not None:
        outputs.save_json(found.instance, "--new-instance")
    if found.instance is None:
        return outputs.exit_code(_INFEASIBLE)
    return outputs.exit_code(0 if found.is_proven else _NOT_PROVEN)


def _show(found: LargestSearch) -> list[Shown]:
    """Say how large the search is, why it is not larger, and what its plan is."""
    from optplan.reporting.rubberband.presenter import present_result
    from optplan.reporting.rubberband.words import say_largest
    from optplan.reporting.tables import plain_text

    parts: list[Shown] = [plain_text(say_largest(found), "bold")]
    if found.instance is not None and found.result is not None:
        parts += ["", *present_result(found.instance, found.result)]
    return parts
