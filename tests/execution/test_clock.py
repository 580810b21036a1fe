"""The virtual clock: order, ties, cancelled things and the end."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from optplan.execution.progress import VirtualClock


def drain(clock: VirtualClock[str], until: float = math.inf) -> list[tuple[float, str]]:
    """Return what happens, and when."""
    happened = []
    while (item := clock.advance(until)) is not None:
        happened.append((clock.now, item))
    return happened


def test_things_happen_in_the_order_of_time_and_of_scheduling() -> None:
    """Two at 2: the one scheduled first; what lies in the past happens now."""
    clock: VirtualClock[str] = VirtualClock(now=1.0)
    for at, item in ((2.0, "b"), (3.0, "d"), (2.0, "c"), (0.0, "a")):
        clock.schedule(at, item)
    assert drain(clock) == [(1.0, "a"), (2.0, "b"), (2.0, "c"), (3.0, "d")]
    assert clock.advance() is None
    assert clock.now == 3.0


def test_what_is_cancelled_does_not_happen() -> None:
    """Cancelling twice, or after it happened, does nothing."""
    clock: VirtualClock[str] = VirtualClock()
    first, second = clock.schedule(1.0, "a"), clock.schedule(2.0, "b")
    clock.cancel(first)
    clock.cancel(first)
    assert (len(clock), clock.next_at) == (1, 2.0)
    assert drain(clock) == [(2.0, "b")]
    clock.cancel(second)
    assert (len(clock), clock.next_at) == (0, math.inf)


def test_the_clock_stops_before_what_lies_beyond() -> None:
    """It stays where it is, and the thing still happens later; exactly at the end is in time."""
    clock: VirtualClock[str] = VirtualClock()
    clock.schedule(1.0, "a")
    clock.schedule(2.0, "b")
    assert drain(clock, until=1.0) == [(1.0, "a")]
    assert clock.now == 1.0
    assert drain(clock) == [(2.0, "b")]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_it_is_a_stable_sort(things: list[tuple[int, bool]]) -> None:
    """Whatever is scheduled and not cancelled happens, sorted by time and then by order of scheduling."""
    clock: VirtualClock[str] = VirtualClock()
    tickets = [clock.schedule(at, str(number)) for number, (at, _) in enumerate(things)]
    for ticket, (_, kept) in zip(tickets, things, strict=True):
        if not kept:
            clock.cancel(ticket)
    wanted = sorted((at, number) for number, (at, kept) in enumerate(things) if kept)
    assert drain(clock) == [(float(at), str(number)) for at, number in wanted]
