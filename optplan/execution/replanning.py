"""Planning the rest of a run anew where it has drifted from its plan.

That is looked at whenever segments have ended and nothing runs: there the cluster may change anyway, and every trial is
stored. What was measured since the plan was made goes into its instance first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from optplan.contracts.plan import Plan
from optplan.contracts.resources import Billing
from optplan.errors import OptplanError, UnsupportedError, UsageError
from optplan.execution.cluster import meter, take_stock
from optplan.execution.records import Noted, Record, Replanned
from optplan.execution.state import Phase, State
from optplan.formulations import formulation_named
from optplan.instances.parsing import parse_instance
from optplan.solving import solve
from optplan.units import format_duration

#: Relative gap at which a solver may stop, and seconds that it has: nodes are paid meanwhile.
_GAP, _TIME_S = 1e-3, 20.0
#: Drift that is rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Drift:
    """By what part more was taken than was planned since a plan was made; None where nothing was planned."""

    time: float | None
    cost: float | None

    @property
    def largest(self) -> float:
        """The larger one, whichever way it goes."""
        return max(abs(part) for part in (self.time or 0.0, self.cost or 0.0))

    def __str__(self) -> str:
        """Say both."""
        parts = [(f"{100 * part:+.0f} %", name) for name, part in (("time", self.time), ("cost", self.cost)) if part]
        return " and ".join(f"{part} {name}" for part, name in parts if part not in ("+0 %", "-0 %"))


@dataclass
class Replanner:
    """Looks for drift, and plans the rest of a run anew where it is ``above`` a part of what was planned.

    ``limits`` are this run's, as of :class:`~optplan.contracts.standing.Standing`; ``require`` raises UsageError for
    plans that the executor cannot follow.
    """

    state: State
    above: float
    limits: Mapping[str, float] = field(default_factory=dict)
    require: Callable[[Plan], None] | None = None
    #: Why the rest cannot be planned any more; empty while it can.
    refusal: str = ""

    def __call__(self, now_s: float) -> list[Record]:
        """Return the record by which another plan is followed; none where the run goes as planned."""
        drift = measure_drift(self.state, now_s)
        if drift.largest <= self.above + _ROUNDING:
            return []
        try:
            return self._plan_rest(now_s, drift)
        except OptplanError as error:
            text = f"the rest is not planned anew: {error}; it goes on as planned"
            return [] if text in self.state.notes else [Noted(now_s, text)]

    def _plan_rest(self, now_s: float, drift: Drift) -> list[Record]:
        plan, state = self.state.plan, self.state
        continue_plan = formulation_named(plan.formulation).continue_plan
        if not plan.instance:
            raise UnsupportedError("the plan does not hold its instance; make it anew with `optplan solve --plan`")
        instance = parse_instance(plan.instance, path="plan.instance")
        since_s = state.replans[-1].t if state.replans else 0.0
        standing = take_stock(state, now_s, since_s=since_s, limits=self.limits)
        with contextlib.suppress(UsageError):  # where nothing was measured it stays as it is
            instance, _ = formulation_named(plan.formulation).calibrate(instance, plan, standing)
        found = continue_plan(instance, plan, standing, partial(solve, gap=_GAP, time_limit_s=_TIME_S))
        if found.plan is None:
            reason = "" if found.infeasibility is None else f": {found.infeasibility.reason}"
            advice = "--resume with that limit goes on, and so it does as planned with --replan-above never"
            self.refusal = f"{drift} against the plan, and the rest has become infeasible{reason}; {advice}"
            return []
        if self.require is not None:
            self.require(found.plan)
        why = f"{drift} against the plan: the rest is planned anew, {describe_rest(found.plan, state, now_s)}"
        return [Replanned(now_s, found.plan.to_json_data(), why, *meter(state, now_s))]


def measure_drift(state: State, now_s: float) -> Drift:
    """Return by how much the segments that have ended since the plan was made took more than it says.

    Costs are compared without minimum charges, which come due when nodes are given back.
    """
    since_s = state.replans[-1].t if state.replans else 0.0
    ended = [
        each.segment
        for each in state.segments.values()
        if each.phase is Phase.ENDED and each.opened_s is not None and each.opened_s >= since_s
    ]
    planned_s = max((segment.end_s for segment in ended), default=since_s) - since_s
    planned_usd = planned_h = 0.0
    for segment in ended:
        resource, expected = state.plan.resources[segment.resource], segment.expected
        hours = expected.busy_gpu_hours if resource.billing is Billing.GPUS else expected.gpu_hours
        planned_h += hours
        planned_usd += hours * (resource.price_usd_per_hour or 0.0) / resource.gpus_per_node
    before = (state.replans[-1].spent_usd, state.replans[-1].spent_gpu_hours) if state.replans else (0.0, 0.0)
    used = [now - then for now, then in zip(meter(state, now_s), before, strict=True)]
    taken, planned = (used[0], planned_usd) if planned_usd > 0 else (used[1], planned_h)
    return Drift(
        (now_s - since_s) / planned_s - 1.0 if planned_s > 0 else None, taken / planned - 1.0 if planned > 0 else None
    )


def describe_rest(plan: Plan, state: State, now_s: float) -> str:
    """Say what a plan gives the segments that have not begun, and what they take from now on."""
    left = [each for each in plan.segments if each.id not in state.segments or state.segments[each.id].began_s is None]
    seconds = max((each.end_s for each in left), default=0.0) - now_s
    costs = [each.expected.cost_usd for each in left]
    usd = "" if None in costs else f" and ${sum(cost or 0.0 for cost in costs):,.2f}"
    first = left[0].label or left[0].id if left else "nothing"
    return f"{format_duration(seconds)}{usd} from now on, next: {first}"
