"""``optplan solve --state``: the rest of a run after VMs were lost, within what is left of its limits."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optplan
from optplan.cli.console import Progress
from optplan.cli.interruptions import heed_signals
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.formulations.srift.study.replanning import FleetContinuation
    from optplan.formulations.srift.study.timelines import Timeline
    from optplan.reporting.pages import Page

#: Exit codes of answers without a plan that keeps the limits.
_INFEASIBLE, _UNKNOWN = 3, 4


def solve_rest(
    whole: optplan.Instance, state_path: Path, outputs: Outputs, settings: dict[str, Any], *, again: str
) -> int:
    """Plan the rest of a run whose VMs were lost (Srift, 4.5); print and write it, and return the exit code."""
    # ``again`` is the command that does so, and writes new-instance.json and result.json.
    from optplan.formulations.srift.study.timelines import build_timeline
    from optplan.reporting.presenters import require_kind
    from optplan.reporting.srift.continuations import present_continuation
    from optplan.reporting.srift.words import require_fleet

    why = "whose plans are not made anew in the middle of a run; that of srift is"
    require_run = require_kind(
        optplan.SriftInstance, f"INSTANCE: {{name!r}} is of formulation {{formulation!r}}, {why}"
    )
    instance, state = require_run(whole), _read_state(state_path)

    def solve_remainder(rest: optplan.SriftInstance) -> optplan.Result[optplan.SriftSolution]:
        with Progress("solve", rest.objective_unit) as progress:
            return optplan.solve(rest, on_event=progress.listen, **settings)

    with heed_signals() as signals:
        continuation = optplan.continue_run(instance, state, solve_remainder)
    solution = continuation.result.solution
    new = None if solution is None else require_fleet(solution)
    timeline = build_timeline(instance, state, continuation.remainder, new=new)
    data = _write_course(continuation, timeline)
    outputs.answer(data, lambda: present_continuation(instance, state, continuation, timeline))
    _write_rest(outputs, continuation, timeline, again)
    if continuation.infeasibility is not None:
        return outputs.exit_code(signals.exit_code or _INFEASIBLE)
    return outputs.exit_code(signals.exit_code or (_UNKNOWN if new is None or continuation.remainder.gone else 0))


def _read_state(path: Path) -> optplan.FleetStanding:
    data = optplan.read_data(path)
    if not isinstance(data, dict):
        raise UsageError(f"--state: {path} is no state; its fields are {', '.join(optplan.FleetStanding.model_fields)}")
    return optplan.FleetStanding.parse(data, path=path.name)


def _write_course(continuation: FleetContinuation, timeline: Timeline) -> dict[str, Any]:
    infeasibility = continuation.infeasibility
    return {
        "instance": continuation.remainder.instance.to_json_data(),
        "used": dict(continuation.remainder.used),
        "gone": list(continuation.remainder.gone),
        "result": continuation.result.to_json_data(),
        **({} if infeasibility is None else {"infeasibility": infeasibility.to_json_data()}),
        "timeline": list(map(dataclasses.asdict, timeline.segments)),
        "end_s": timeline.end_s,
        "spent_usd": timeline.spent_usd,
        "spare": timeline.spare,
    }


def _write_rest(outputs: Outputs, continuation: FleetContinuation, timeline: Timeline, again: str) -> None:
    rest, result = continuation.remainder.instance, continuation.result
    places = [str(path.absolute()) for path in map(outputs.path, ("--new-instance", "--out")) if path is not None]
    both = places if len(places) == 2 else ["new-instance.json", "result.json"]
    check = ("" if both is places else f"{again} && ") + shlex.join(["optplan", "verify", *both])

    def build_page() -> Page:
        from optplan.reporting.presenters import Beside, gather
        from optplan.reporting.srift.presenter import build_continuation_page

        with Progress("report"):
            checked = optplan.verify(rest, result)
            checked.require()
            beside = gather(rest, result, Beside((), None, checked, check))
            return build_continuation_page(continuation, timeline, beside)

    outputs.save_json(result)
    outputs.save_json(rest, "--new-instance")
    outputs.save_page("--report", build_page)
