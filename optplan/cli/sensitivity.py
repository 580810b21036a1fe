"""``optplan explain --wrong``: what becomes of a plan when the estimates behind it are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.console import Progress
from optplan.cli.options import flag, parse_share
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.contracts import Instance, Result, Solution

#: What may be wrong, and what stands for what a log says of that.
_KINDS = ("speedup", "noise", "size", "arrival")
_LOGGED = "log"


def read_errors(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> dict[str, float] | None:
    """Read relative standard deviations, as in ``speedup=10%``; None where nothing was asked. Click calls this."""
    errors: dict[str, float] = {}
    for text in texts:
        kind, _equals, value = text.partition("=")
        if text == _LOGGED:
            continue
        if kind not in _KINDS or kind in errors:
            known = ", ".join(f"{each}=..." for each in _KINDS)
            raise UsageError(f"{flag(option)}: got {text!r}; give one of {known}, each once, or {_LOGGED}")
        errors[kind] = parse_share(value.strip())
        if not 0 <= errors[kind] <= 2:
            raise UsageError(f"{flag(option)}: got {text!r}; a relative error from 0 to 2 is needed, as in {kind}=10%")
    return errors if texts else None


def show_sensitivity(
    instance: Instance,
    result: Result[Solution],
    outputs: Outputs,
    *,
    errors: dict[str, float],
    verify_command: str,
    **settings: Any,  # noqa: ANN401 - samples and their like, of analyse_sensitivity
) -> int:
    """Run a plan under sampled errors of its estimates; print and write it, and return the exit code."""
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.formulations.boa.study.sampling import logged_errors
    from optplan.reporting.boa.sensitivity_views import draw_panels, list_figures, say_errors
    from optplan.reporting.drawing import build_figures
    from optplan.reporting.presenters import Beside
    from optplan.reporting.reports import build_report
    from optplan.solving import analyse_sensitivity

    asked: dict[str, Any] = dict(errors)
    if isinstance(instance, BoaInstance):
        asked["by_class"] = logged_errors(instance, without=errors)
    with Progress("sampling") as progress:
        found = analyse_sensitivity(instance, result, asked, on_event=progress.listen, **settings)

    def draw(_: Path) -> str:
        times, uses = draw_panels(found)
        figures = [("Mean completion time in the samples", times), ("Use of the budget in the samples", uses)]
        return build_figures(instance.name, f"What wrong estimates do to the plan for {instance.name}", figures)

    beside = Beside(verify_command=verify_command, sensitivity=found)
    outputs.deliver(found, lambda: (say_errors(found), "", list_figures(found)))
    outputs.save_text("--plot", draw)
    outputs.save_text("--report", lambda _: build_report(instance, result, beside))
    return outputs.exit_code(0)
