"""Fleets of Srift's, followed by heartbeats and planned anew when VMs are lost: how they are begun, told and shown."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.errors import DataError, UsageError
from optplan.execution.cli.kinds import Account, RunKind
from optplan.execution.fleets.running import Course, FleetOutcome, Loss, watch
from optplan.formulations.srift.planning import SriftPlan
from optplan.formulations.srift.study.replanning import name_vms
from optplan.reporting.pages import Card
from optplan.reporting.phrases import NOTHING, format_amount, format_seconds, format_usd
from optplan.reporting.srift.words import format_relaxation

if TYPE_CHECKING:
    from optplan.contracts.plan import Plan
    from optplan.execution.runs import Listener

#: What is said of a fleet on the virtual clock.
_VIRTUAL = "virtual fleet: nothing was trained; what happened is what was asked for"


class _Fleets(RunKind):
    KIND = "fleet"
    NAME = "a fleet"
    OWN = frozenset({"lose", "notice", "back", "boots", "iteration_takes"})  # what happens on the virtual clock

    def begin(self, plan: Plan, own: dict[str, Any], listener: Listener, fields: dict[str, Any]) -> FleetOutcome:
        assert isinstance(plan, SriftPlan)  # as the kind of the plan says
        if not plan.segments:
            raise DataError("plan.segments", "has none, so that nothing would run", "make the plan anew")
        out = own.pop("out", None)
        if own and fields.get("executor", "virtual") != "virtual":
            what = f"what happens is not up to executor {fields['executor']!r}"
            raise UsageError(f"{min(own)}: {what}; leave it out, or use virtual")
        return watch(plan, out=out, course=_read_course(own), listener=listener, **fields)

    def tell(self, outcome: FleetOutcome) -> Account:
        fleet = outcome.fleets[-1] if outcome.fleets else "no fleet"
        done = f"{outcome.iterations:,} of {outcome.target:,}"
        cards = [
            Card("time", format_seconds(outcome.time_s)),
            Card("cost", format_usd(outcome.cost_usd)),
            Card("VMs lost", f"{sum(outcome.lost.values()):,}", name_vms(outcome.lost)),
        ]
        facts = [
            ("fleets", ", then ".join(outcome.fleets) or NOTHING),
            ("iterations", done),
            ("checkpoint", outcome.checkpoint or NOTHING),
        ]
        if outcome.infeasibility is not None:
            would = " or ".join(
                f"a {one.limit} of {format_relaxation(one)} (it is {format_amount(one.limit, one.given)})"
                for one in outcome.infeasibility.relaxations
            )
            facts.append(("to go on", f"--resume DIR with {would}" if would else "no limit alone would do"))
            facts.append(("to give up", "--resume DIR --abort"))
        clock = _VIRTUAL if outcome.virtual else ""
        return Account(f"{done} iterations on {fleet}", clock, cards, facts, (), "The run")

    def stop(self, folder: Path, process: int | None) -> tuple[str, bool]:
        """Ask the process that follows a fleet to pause: its VMs go on."""
        outcome = None if process is not None else self.read(folder).outcome
        names = "" if outcome is None or not outcome.held else f" ({', '.join(outcome.held)})"
        going_on = f"its VMs{names} go on, and `optplan run --resume {folder} --abort` gives them back"
        if outcome is not None and outcome.status != "ended" and not outcome.virtual:
            return f"{folder}: nobody follows it; {going_on}", False
        said, is_stopped = super().stop(folder, process)
        return said if process is None else f"{said}; {going_on}", is_stopped


def _read_course(given: dict[str, Any]) -> Course | None:
    if not given:
        return None
    useless = sorted(given.keys() & {"notice", "back"})
    if useless and "lose" not in given:
        raise UsageError(f"--{useless[0]}: says how the VMs go that --lose names; give it, or leave both out")
    how = given.get("notice", 0.0), given.get("back", math.inf)
    losses = [Loss(name, at_s, *how) for name, at_s in given.get("lose", ())]
    return Course(tuple(losses), given.get("boots", ()), given.get("iteration_takes", ()))


KIND = _Fleets()
