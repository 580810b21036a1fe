"""Runs of searches and single jobs: what the command line knows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optplan.execution.cli.kinds import RunKind, Told

if TYPE_CHECKING:
    from optplan.cli.console import Shown
    from optplan.contracts.plan import Plan
    from optplan.execution.cli.run_view import RunView
    from optplan.execution.loop import Listener
    from optplan.execution.outcomes import RunOutcome
    from optplan.execution.runs import Run
    from optplan.reporting.pages import Page


class _Searches(RunKind):
    KIND = "search"
    NAME = "a search or of one job"
    OWN = frozenset({"space"})

    def begin(self, plan: Plan, own: dict[str, Any], listener: Listener, fields: dict[str, Any]) -> RunOutcome:
        from optplan.execution.running import run
        from optplan.instances.plain_data import read_data

        space = read_data(own["space"]) if "space" in own else None
        return run(plan, space=space, out=own.get("out"), listener=listener, **fields)

    def telling(self, plan: Plan, options: dict[str, Any], run: Run[Any, Any, Any, Any] | None) -> RunView:
        from optplan.execution.cli.run_view import RunView
        from optplan.execution.options import SearchOptions, make_rules
        from optplan.execution.state import State

        if run is not None:
            return RunView(run.state, make_rules(plan, run.options))
        return RunView(State(plan), make_rules(plan, SearchOptions(**options)))

    def present(self, outcome: RunOutcome) -> list[Shown]:
        from optplan.execution.pages.runs import describe_clock, outcome_table, segment_table

        clock = describe_clock(outcome)
        return [*([clock] if clock else []), segment_table(outcome), "", outcome_table(outcome)]

    def build_page(self, told: Told) -> Page:
        from optplan.execution.pages.runs import build_run_page

        return build_run_page(told.outcome, name=told.name)


KIND = _Searches()
