"""Whether a budget is spent, without adding all nodes up each time that the loop looks."""

from __future__ import annotations

import math

from optplan.contracts.resources import Billing
from optplan.execution.cluster import rate_usd_per_s, spent_usd
from optplan.execution.records import NodeChanged, OperationWanted, Record
from optplan.execution.state import State


class BudgetWatch:
    """Knows until when a budget in US dollars lasts at least; ``lateness`` is by what part the cost may be over it.

    A run's cost grows by no more than its rate until something new is paid, so until then nothing has to be added up:
    that is worked out again when the time has come, or when a node begins to be paid.
    """

    def __init__(self, state: State, budget_usd: float | None, lateness: float) -> None:
        self._state = state
        self._budget_usd = budget_usd
        self._lateness = lateness
        self._lasts_until_s = -math.inf
        billed = {resource.billing for resource in state.plan.resources.values()}
        self._adds = (NodeChanged, OperationWanted) if Billing.GPUS in billed else (NodeChanged,)

    def note(self, record: Record) -> None:
        """Take note of a record that was applied to the state: something new may be paid from now on."""
        if isinstance(record, self._adds):
            self._lasts_until_s = -math.inf

    def is_spent(self, now_s: float) -> bool:
        """Whether the cost is above the budget."""
        if self._budget_usd is None or now_s < self._lasts_until_s:
            return False
        return (spent_usd(self._state, now_s) or 0.0) > self._budget_usd * (1.0 + self._lateness)

    def lasts_until_s(self, now_s: float) -> float:
        """Return a time until which the budget is not spent; soon after it, or later, it is."""
        if self._budget_usd is not None and now_s >= self._lasts_until_s:
            rate = rate_usd_per_s(self._state)
            # Twice as late, so that what is looked at then is above the budget and not just at it.
            most_usd = self._budget_usd * (1.0 + 2.0 * self._lateness)
            left_usd = max(0.0, most_usd - (spent_usd(self._state, now_s) or 0.0))
            self._lasts_until_s = now_s + left_usd / rate if rate > 0 else math.inf
        return math.inf if self._budget_usd is None else self._lasts_until_s
