"""``optplan sensitivity``: what becomes of a plan when the estimates behind it are wrong."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from optplan.cli.amending import amendments_but, read_amended, write_amendments
from optplan.cli.commands import Command
from optplan.cli.console import Progress
from optplan.cli.options import GAP, Kind, instance_argument, known_name, list_solver_choices, parse_share
from optplan.cli.outputs import Outputs
from optplan.errors import InfeasibleError, UsageError


def _parse_error(text: str, *, what: str) -> float:
    """Read a relative standard deviation: 0.1 or 10%."""
    value = parse_share(text.strip())
    if not 0 <= value <= 2:
        raise UsageError(f"{what}: got {text!r}; a relative error from 0 to 2 is needed, as in 0.1 or 10%")
    return value


_ERROR = Kind("ERROR", _parse_error)


@click.command(
    cls=Command,
    short_help="See what wrong estimates do to a plan, and make one that expects them (boa).",
    examples=(
        "optplan sensitivity boa-newtrace --speedup 10% --arrival 20%",
        "optplan sensitivity boa-newtrace --noise 0.05 --robust 200 --processes 2",
        "optplan sensitivity mine.yaml --size 0.3 --samples 5000 -o samples.json --plot samples.html",
    ),
    writes={"output": "every sample as JSON", "plot": "Write a figure as HTML.", "report": "Write an HTML report."},
)
@instance_argument
@amendments_but("deadline")
@click.option("--speedup", type=_ERROR, help="Of the speed at the widest widths, as in 10%.")
@click.option("--noise", type=_ERROR, help="Of the speed at each single width.")
@click.option("--size", type=_ERROR, help="Of each class's sizes.")
@click.option("--arrival", type=_ERROR, help="Of each class's arrival rate.")
@click.option("--samples", type=click.IntRange(min=1), default=1000, help="How many truths to draw.")
@click.option(
    "--robust",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Also make the plan that is best on average over N other samples.",
)
@click.option("--no-compare", is_flag=True, help="Do not solve each sample for what knowing the truth is worth.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the samples.")
@click.option("--processes", type=click.IntRange(min=1), default=1, help="How many share the samples.")
@click.option(
    "--solver",
    default="auto",
    metavar="NAME",
    help="Whose plan is asked about.",
    **known_name("solver", list_solver_choices),
)
@click.option("--gap", type=GAP, default=1e-6, help="Relative gap at which a solver may stop.")
def sensitivity(
    instance_name: str,
    *,
    speedup: float | None,
    noise: float | None,
    size: float | None,
    arrival: float | None,
    samples: int,
    robust: int,
    no_compare: bool,
    seed: int,
    processes: int,
    solver: str,
    gap: float,
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Run the best plan for an INSTANCE of formulation boa under sampled errors of its estimates.

    The widths stay as planned, the jobs run at their true speeds. Shown are completion time and use of the budget, and
    how far the plan is from what somebody who knew each truth could do with the same use of it. Errors are relative
    standard deviations. Those that are not given are, class by class, what the log says that an instance of `optplan
    import jobs` comes from; of other instances at least one is needed. Speedups that are assumed are never taken for
    exact: unless --speedup is given, they may be anything from no gain to a linear one.

    Exits with 3 when no plan keeps the limit.
    """
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.formulations.boa.study.sampling import logged_errors
    from optplan.reporting.boa.sensitivity_views import draw_panels, list_figures, say_errors
    from optplan.reporting.drawing import build_figures
    from optplan.reporting.presenters import Beside
    from optplan.reporting.reports import build_report
    from optplan.solving import analyse_sensitivity
    from optplan.solving import solve as solve_instance

    given = {"speedup": speedup, "noise": noise, "size": size, "arrival": arrival}
    errors: dict[str, Any] = {name: error for name, error in given.items() if error is not None}
    instance = read_amended(instance_name, changes)
    if isinstance(instance, BoaInstance):
        errors["by_class"] = logged_errors(instance, without=errors)
    if not any(errors.values()):
        raise UsageError("no errors to sample; give at least one of --speedup, --noise, --size, --arrival, as in 10%")
    with Progress("sensitivity") as progress:
        result = solve_instance(instance, solver=solver, gap=gap, on_event=progress.listen)
        if result.infeasibility is not None:
            raise InfeasibleError(result.infeasibility.reason)
        found = analyse_sensitivity(
            instance,
            result,
            errors,
            samples=samples,
            robust_samples=robust,
            compare=not no_compare,
            seed=seed,
            processes=processes,
            on_event=progress.listen,
        )

    def draw(_: Path) -> str:
        times, uses = draw_panels(found)
        figures = [("Mean completion time in the samples", times), ("Use of the budget in the samples", uses)]
        return build_figures(instance.name, f"What wrong estimates do to the plan for {instance.name}", figures)

    def write_page(_: Path) -> str:
        options = [*write_amendments(changes), "--solver", solver, "--gap", f"{gap:g}"]
        again = shlex.join(["optplan", "solve", instance_name, *options, "-o", "result.json"])
        check = shlex.join(["optplan", "verify", instance_name, "result.json", *write_amendments(changes)])
        beside = Beside(verify_command=f"{again} && {check}", sensitivity=found)
        return build_report(instance, result, beside)

    outputs.deliver(found, lambda: (say_errors(found), "", list_figures(found)))
    outputs.save_text("--plot", draw)
    outputs.save_text("--report", write_page)
    return outputs.exit_code(0)
