"""Streams of jobs served by a BOA plan's widths: what the command line knows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optplan.errors import UsageError
from optplan.execution.cli.kinds import RunKind, Told
from optplan.execution.cli.run_view import Teller

if TYPE_CHECKING:
    from optplan.cli.console import Shown
    from optplan.contracts.plan import Plan
    from optplan.execution.loop import Listener
    from optplan.execution.records import Record
    from optplan.execution.streams.outcomes import StreamOutcome
    from optplan.reporting.pages import Page


class _Streams(RunKind):
    KIND = "stream"
    NAME = "a stream of jobs"
    OWN = frozenset({"jobs", "learn", "truth"})

    def begin(self, plan: Plan, own: dict[str, Any], listener: Listener, fields: dict[str, Any]) -> StreamOutcome:
        from optplan.execution.streams.arrivals import read_jobs
        from optplan.execution.streams.running import run_stream
        from optplan.formulations.boa.data.instance import BoaInstance
        from optplan.formulations.boa.planning import BoaPlan
        from optplan.instances.files import read_instance

        if "jobs" not in own:
            what = "a plan of a stream is followed for a list of jobs, as in run PLAN jobs.yaml"
            raise UsageError(f"JOBS is missing; {what}")
        assert isinstance(plan, BoaPlan)  # no other has classes of jobs
        known = {name: read_instance(own[name], BoaInstance) for name in ("learn", "truth") if name in own}
        instances = {"instance": known.get("learn"), "truth": known.get("truth")}
        return run_stream(plan, read_jobs(own["jobs"]), out=own.get("out"), listener=listener, **instances, **fields)

    def telling(self, *_: object) -> Teller:
        return Teller(_describe)

    def present(self, outcome: StreamOutcome) -> list[Shown]:
        from optplan.execution.pages.streams import class_table, list_facts
        from optplan.reporting.tables import fact_table

        told = ["virtual stream: nothing was trained; times are those of the instance"] if outcome.virtual else []
        return [*told, class_table(outcome), "", fact_table(list_facts(outcome))]

    def build_page(self, told: Told) -> Page:
        from optplan.execution.pages.streams import build_stream_page

        return build_stream_page(told.outcome)


def _describe(record: Record) -> str:
    """Say what a reader should know while a stream is served; empty for the rest."""
    from optplan.execution.records import Noted, OperationFailed, TablePublished, TrialDropped

    match record:
        case TablePublished():
            return f"new widths: {record.why}"
        case OperationFailed():
            return f"{record.operation} {record.why}"
        case Noted():
            return record.text
        case TrialDropped():
            return f"{record.trial} is given up: {record.why}"
        case _:
            return ""


KIND = _Streams()
