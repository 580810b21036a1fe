"""``optplan calibrate``: what a run measured, for instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optplan.cli.amending import amendments, read_amended
from optplan.cli.commands import command
from optplan.cli.console import note
from optplan.cli.options import FILE, INSTANCE, argument
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


@command(
    short_help="Write what a run measured back into an instance.",
    examples=(
        "optplan calibrate runs/first search.yaml -o measured.json",
        "optplan calibrate runs/first rubberband-resnet101-20min -o measured.json",
    ),
    writes={"output": "the instance with what was measured"},
)
@amendments
def calibrate(
    folder: Path = argument(metavar="DIR", type=FILE),
    instance_name: str = INSTANCE,
    *,
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Put what the run in DIR measured in place of what INSTANCE says: times of iterations, starts, launches, prices.

    Of a stream these are sizes and speeds of its classes, and what jobs and nodes take to start. Every figure that is
    another one now is listed. What was not measured stays as it was; seconds of iterations at other widths keep their
    ratio to those that were. The next `optplan solve` plans with it.
    """
    from optplan.execution.journal import read_kind
    from optplan.execution.running import SearchRun
    from optplan.execution.runs import read_run
    from optplan.execution.standing import take_stock
    from optplan.execution.streams.learning import calibrate as calibrate_stream
    from optplan.formulations import formulation_of

    run: Any = read_run(folder, "stream" if read_kind(folder) == "stream" else "search")
    plan = run.state.plan if isinstance(run, SearchRun) else run.plan
    instance: Any = read_amended(instance_name, changes)
    formulation = formulation_of(instance).name
    if formulation != plan.formulation:
        problem = f"{folder} is a run of a {plan.formulation} plan, and {instance_name} is of {formulation}"
        raise UsageError(f"{problem}; give the instance that the plan was made from")
    if isinstance(run, SearchRun):
        standing = take_stock(run.state, run.state.t)
        calibrated, said = formulation_of(instance).calibrate(instance, plan, standing)
    else:
        calibrated, said = calibrate_stream(instance, run.past, run.make_state())
    where = "on the virtual clock, where nothing is measured, " if run.options.is_virtual else ""
    source = dict(calibrated.source) | {"measured": f"{where}in a run of plan {plan.plan_id[:12]}"}
    calibrated = calibrated.replace(source=source)
    if run.options.is_virtual:
        said = ("virtual run: these are the times and prices of its clock, and none was measured", *said)
    told = {"changes": list(said), "instance": calibrated.to_json_data()}
    outputs.answer(told, lambda: said or ("all is as the instance says",))
    outputs.save_json(calibrated)
    if "--out" not in outputs and not outputs.as_json:
        note("give -o FILE to write the instance")
    return outputs.exit_code(0)
