"""``optplan explain``: why each class gets the GPUs that it gets, and what wrong estimates do to the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

import optplan
from optplan.cli.amending import amendments_but, read_amended, say_check
from optplan.cli.commands import command, refuse_but
from optplan.cli.console import Progress, Shown
from optplan.cli.options import FILE, TIME, argument, complete_instance, flag, option, parse_share
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError

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
    instance: optplan.Instance,
    result: optplan.Result[optplan.Solution],
    outputs: Outputs,
    *,
    errors: dict[str, float],
    verify_command: str,
    **settings: Any,  # noqa: ANN401 - samples and their like, of analyse_sensitivity
) -> int:
    """Run a plan under sampled errors of its estimates; print and write it, and return the exit code."""
    from optplan.formulations.boa.study.sensitivity import logged_errors
    from optplan.reporting.boa.ranges import draw_panels, list_figures, say_errors
    from optplan.reporting.presenters import Beside
    from optplan.reporting.reports import build_figures, build_report

    asked: dict[str, Any] = dict(errors)
    if isinstance(instance, optplan.BoaInstance):
        asked["by_class"] = logged_errors(instance, without=errors)
    with Progress("sampling") as progress:
        found = optplan.analyse_sensitivity(instance, result, asked, on_event=progress.listen, **settings)

    def draw(_: Path) -> str:
        times, uses = draw_panels(found)
        figures = [("Mean completion time in the samples", times), ("Use of the budget in the samples", uses)]
        return build_figures(instance.name, f"What wrong estimates do to the plan for {instance.name}", figures)

    beside = Beside(verify_command=verify_command, sensitivity=found)
    outputs.deliver(found, lambda: (say_errors(found), "", list_figures(found)))
    outputs.save_text("--plot", draw)
    outputs.save_text("--report", lambda _: build_report(instance, result, beside))
    return outputs.exit_code(0)


#: Seconds for each re-solve: most are proven in a hundredth of that, and with quotas some would take minutes.
RESOLVE_LIMIT_S = 2.0
#: Options of a plan under wrong estimates.
_OF_SAMPLES = (
    *("instance_name", "errors", "samples", "robust_samples", "no_compare", "seed", "processes"),
    *("output", "plot", "report"),
)


@command(
    short_help="Say why each class gets its GPUs, or what wrong estimates do to its plan (boa).",
    examples=(
        "optplan solve boa-newtrace -o result.json && optplan explain result.json",
        "optplan explain result.json --class bert --class imagenet",
        "optplan explain result.json --instance mine.yaml --budget 100gpu",
        "optplan explain result.json --json -o why.json",
        "optplan explain result.json --report why.html",
        "optplan explain result.json --wrong speedup=10% --wrong arrival=20% --robust 200 --processes 2",
        "optplan explain result.json --instance mine.json --wrong log --plot samples.html",
    ),
    writes={
        "output": "the explanation as JSON, or every sample",
        "plot": "Write a figure of the samples as HTML.",
        "report": "Write an HTML report.",
    },
)
@amendments_but("deadline")
def explain(
    result_path: Path = argument(metavar="RESULT", type=FILE),
    *,
    instance_name: str | None = option(
        "--instance",
        metavar="INSTANCE",
        shell_complete=complete_instance,
        help="What the result solves: a file or a name of the library; the library's by default.",
    ),
    only: tuple[str, ...] = option(
        "--class", multiple=True, metavar="NAME", help="Explain this class only. May be repeated."
    ),
    time_limit: float | None = option(
        default=f"{RESOLVE_LIMIT_S:g}s",
        type=TIME,
        help="For each re-solve; what is not proven by then is given as a range.",
    ),
    errors: dict[str, float] | None = option(
        "--wrong",
        multiple=True,
        metavar="KIND=ERROR",
        callback=read_errors,
        help="See instead what wrong estimates do to the plan: speedup (of the speed at the widest widths), noise (at "
        "each single width), size or arrival, with a relative error, as in speedup=10%. May be repeated. What is not "
        "given is wrong by what the log says that the instance comes from: log alone takes all from there.",
    ),
    samples: int = option(type=click.IntRange(min=1), default=1000, help="With --wrong: how many truths to draw."),
    robust_samples: int = option(
        "--robust",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="With --wrong: also make the plan that is best on average over N other samples.",
    ),
    no_compare: bool = option(is_flag=True, help="With --wrong: leave out what knowing each truth is worth."),
    seed: int = option(type=click.IntRange(min=0), default=0, help="Of the samples."),
    processes: int = option(type=click.IntRange(min=1), default=1, help="How many share the samples."),
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Say for each choice in a RESULT (a file of `optplan solve -o`) of formulation boa what its neighbours would do.

    For every class and run of epochs: the next narrower and wider width, any other GPU type, and one width throughout.
    "alone" is the change of the mean completion time and of the use of the budget if that one choice changes; "forced"
    is what it costs within the same limits to force it for all jobs of the class, everything else decided anew. Those
    are solved, not guessed.

    With --wrong the widths stay as planned, and the jobs run at true speeds that are drawn. Shown are completion time
    and use of the budget, and how far the plan is from what somebody who knew each truth could do with the same use of
    it. Errors are relative standard deviations. Speedups that are assumed are never taken for exact: unless an error
    of the speedup is given, they may be anything from no gain to a linear one.

    Changes of the instance that the result carries (--budget, --set and so on of the solve) are made again.
    """
    from optplan.reporting.presenters import Beside
    from optplan.reporting.reports import build_report

    _refuse_instance(result_path)
    result = optplan.read_result(result_path)
    instance = read_solved(result, instance_name, changes)
    check = say_check(instance_name or result.instance_name, result_path, changes, solved=result.changes)
    if errors is not None:
        refuse_but(*_OF_SAMPLES, *changes, why="has no meaning with --wrong")
        settings = {"samples": samples, "robust_samples": robust_samples, "seed": seed, "processes": processes}
        return show_sensitivity(
            instance, result, outputs, errors=errors, verify_command=check, compare=not no_compare, **settings
        )
    refuse_but("instance_name", "only", "time_limit", "output", "report", *changes, why="goes with --wrong")
    with Progress("explain") as progress:
        explanation = optplan.explain(instance, result, only=only, time_limit_s=time_limit, on_event=progress.listen)
    beside = Beside(verify_command=check, explanation=explanation)
    outputs.deliver(explanation, lambda: show_explanation(instance, explanation))
    outputs.save_text("--report", lambda _: build_report(instance, result, beside))
    return outputs.exit_code(0)


def show_explanation(instance: optplan.Instance, explanation: optplan.Explanation) -> Iterator[Shown]:
    """Show rates, the neighbours of each choice, and what is worth measuring."""
    from optplan.reporting.boa.breakdown import require_boa
    from optplan.reporting.boa.explanation_tables import list_explanations, say_rates
    from optplan.reporting.boa.ranges import show_measurements

    yield from (say_rates(instance, explanation), "", list_explanations(explanation))
    yield from show_measurements(require_boa(instance), explanation.measurements)


def _refuse_instance(path: Path) -> None:
    """Refuse the name of an instance where a result is needed, which a missing file would not explain."""
    from optplan.instances.library import names

    if str(path) in names() and not path.exists():
        raise UsageError(
            f"RESULT: {path} is an instance; solve it first, `optplan solve {path} -o result.json`, and explain what "
            "that writes"
        )


def read_solved(
    result: optplan.Result[optplan.Solution], name: str | None, changes: dict[str, Any]
) -> optplan.Instance:
    """Read the instance that a result solves, by its name or that given, changed as for the solve; refuse another."""
    from optplan.instances.library import names

    if name is None and result.instance_name not in names():
        raise UsageError(
            f"the result solves {result.instance_name!r}, which is not in the library; say where it is: --instance FILE"
        )
    instance = read_amended(name or result.instance_name, changes, result)
    if instance.content_hash() != result.instance_hash:
        raise UsageError(
            f"the result solves {result.instance_name!r} with hash {result.instance_hash[:12]}, and what was given has "
            f"hash {instance.content_hash()[:12]}; give the options that changed it for the solve, such as --budget, "
            "--policy or --set, or its own file with --instance"
        )
    return instance
