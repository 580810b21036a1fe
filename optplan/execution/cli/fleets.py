"""Fleets of Srift's, followed by heartbeats and planned anew when VMs are lost: what the command line knows of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.errors import DataError, UsageError
from optplan.execution.cli.kinds import RunKind, Told
from optplan.execution.cli.run_view import Teller
from optplan.execution.fleets.running import FleetOutcome, watch
from optplan.execution.fleets.virtual import Course, Loss
from optplan.execution.pages.fleets import build_fleet_page, describe_record, list_facts
from optplan.formulations.srift.planning import SriftPlan
from optplan.reporting.tables import fact_table

if TYPE_CHECKING:
    from optplan.cli.console import Shown
    from optplan.contracts.plan import Plan
    from optplan.execution.loop import Listener
    from optplan.reporting.pages import Page


class _Fleets(RunKind):
    KIND = "fleet"
    NAME = "a fleet"
    OWN = frozenset({"lose", "notice", "back", "boots", "iteration_takes"})  # what happens on the virtual clock

    def begin(self, plan: Plan, own: dict[str, Any], listener: Listener, fields: dict[str, Any]) -> FleetOutcome:
        assert isinstance(plan, SriftPlan)  # as the kind of the plan says
        if not plan.segments:
            raise DataError("plan.segments", "has none, so that nothing would run", "make the plan anew")
        out = own.pop("out", None)
        return watch(plan, out=out, course=_read_course(own), listener=listener, **fields)

    def telling(self, *_: object) -> Teller:
        return Teller(describe_record)

    def present(self, outcome: FleetOutcome) -> list[Shown]:
        told = ["virtual fleet: nothing was trained; what happened is what was asked for"] if outcome.virtual else []
        return [*told, fact_table(list_facts(outcome))]

    def build_page(self, told: Told) -> Page:
        return build_fleet_page(told.outcome)

    def stop(self, folder: Path, process: int | None) -> tuple[str, bool]:
        """Ask the process that follows a fleet to pause: its VMs go on."""
        going_on = f"its VMs go on, and `optplan run --resume {folder} --abort` gives them back"
        outcome = None if process is not None else self.read(folder).outcome
        if outcome is not None and outcome.status != "ended" and not outcome.virtual:
            return f"{folder}: nobody follows it; {going_on}", False
        said, is_stopped = super().stop(folder, process)
        return said if process is None else f"{said}; {going_on}", is_stopped


def _read_course(given: dict[str, Any]) -> Course | None:
    """Return what happens on the virtual clock; None where nothing was said."""
    if not given:
        return None
    useless = sorted(given.keys() & {"notice", "back"})
    if useless and "lose" not in given:
        raise UsageError(f"--{useless[0]}: says how the VMs go that --lose names; give it, or leave both out")
    how = given.get("notice", 0.0), given.get("back", math.inf)
    losses = [Loss(name, at_s, *how) for name, at_s in given.get("lose", ())]
    return Course(tuple(losses), given.get("boots", ()), given.get("iteration_takes", ()))


KIND = _Fleets()
