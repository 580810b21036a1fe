"""What a result keeps of the events of its solve."""

from __future__ import annotations

import math

from optplan.contracts.result import SolveEvent
from optplan.progress import Event, Listener

#: Events that a result keeps of its solve; beyond that, every other one goes.
_MOST_EVENTS = 1000


class Trajectory:
    """Passes events on to a listener, and keeps those in which objective or bound is another than before."""

    def __init__(self, listener: Listener | None) -> None:
        self._listener = listener
        self._events: list[SolveEvent] = []

    def listen(self, event: Event) -> None:
        """Keep an event if it says something new."""
        self._keep(event.stage, event.elapsed_s, event.objective, event.bound)
        if self._listener is not None:
            self._listener(event)

    def end(self, elapsed_s: float, objective: float | None, bound: float | None) -> tuple[SolveEvent, ...]:
        """Return what was kept, the end of it what the result says."""
        self._keep("result", elapsed_s, objective, bound)
        return tuple(self._events)

    def _keep(self, stage: str, elapsed_s: float, objective: float | None, bound: float | None) -> None:
        last = self._events[-1] if self._events else SolveEvent(stage="", elapsed_s=0.0)
        # What an event does not mention is what it was; an infinity is no news.
        objective = objective if objective is not None and math.isfinite(objective) else last.objective
        bound = bound if bound is not None and math.isfinite(bound) else last.bound
        if (objective, bound) != (last.objective, last.bound):
            self._events.append(SolveEvent(stage=stage, elapsed_s=elapsed_s, objective=objective, bound=bound))
            if len(self._events) > _MOST_EVENTS:
                del self._events[1:-1:2]
