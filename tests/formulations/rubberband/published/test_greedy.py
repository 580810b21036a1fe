"""Algorithm 2's loop by itself: ladders, candidates, the marginal benefit and when the walk ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.formulations.rubberband.data.instance import StageAllocation
from optplan.formulations.rubberband.exact.bracket_choice import PricedChain
from optplan.formulations.rubberband.published.planners import (
    Ladder,
    Steps,
    benefit,
    end_with,
    list_candidates,
    saves,
    walk_down,
)
from optplan.progress import Event, Stopwatch

#: Three trials on instances of four GPUs: 1 to 12 GPUs by factors and multiples, p = 3 and p = 4 both need 3 instances.
LADDER = StageAllocation.of_stages([1, 1, 2, 3, 3], [1, 3, 6, 9, 12])


def _below(ladder: Ladder, instances: int, gpus: int) -> list[tuple[int, int]]:
    """Return instances and GPUs of the ladder that ends with an allocation."""
    ended = end_with(ladder, StageAllocation(instances=instances, gpus=gpus))
    return [(each.instances, each.gpus) for each in ended]


def judged(seconds: float, usd: float) -> PricedChain:
    """Make figures without a plan."""
    return PricedChain((), seconds, usd)


class Table:
    """Says what plans take and cost from a table, and remembers who asked."""

    def __init__(self, rows: dict[Steps, tuple[float, float]]) -> None:
        self.rows = rows
        self.asked: list[Steps] = []

    def __call__(self, steps: Steps) -> PricedChain:
        """Look a plan up."""
        self.asked.append(steps)
        return judged(*self.rows[steps])


def test_a_ladder_ends_with_the_static_allocation() -> None:
    """On 3 instances, 10 GPUs used: below are 9 GPUs on as many instances, and all that needs fewer."""
    assert _below(LADDER, 3, 10) == [(1, 1), (1, 3), (2, 6), (3, 9), (3, 10)]
    assert _below(LADDER, 3, 12) == [(1, 1), (1, 3), (2, 6), (3, 9), (3, 12)]
    # Held but not needed: the first step gives back what is idle.
    assert _below(LADDER, 7, 12) == [(1, 1), (1, 3), (2, 6), (3, 9), (3, 12), (7, 12)]
    assert _below(StageAllocation.of_stages([2], [8]), 1, 3) == [(1, 3)]


def test_candidates_step_down_in_one_stage() -> None:
    """One for each stage that is not at its foot."""
    assert list_candidates((2, 0, 1)) == [(1, 0, 1), (2, 0, 0)]
    assert list_candidates((0, 0)) == []


def test_the_benefit_is_dollars_per_second() -> None:
    """4 usd for 10 s (0.4) come after 2 usd for 4 s (0.5), both after 1 usd for nothing, all before what costs more."""
    now = judged(100.0, 10.0)
    candidates = {
        "dearer and faster": judged(90.0, 11.0),
        "dearer": judged(110.0, 10.5),
        "0.4": judged(110.0, 6.0),
        "0.5": judged(104.0, 8.0),
        "no slower": judged(100.0, 9.0),
        "faster, saves more": judged(99.0, 8.5),
    }
    order = sorted(candidates, key=lambda name: benefit(now, candidates[name]))
    assert order == list(candidates)
    assert benefit(now, candidates["0.4"])[1] == pytest.approx(0.4)


def test_rounding_is_no_saving() -> None:
    """A cost that is lower by a relative 1e-12 is the same cost, on any scale."""
    for scale in (1e-9, 1.0, 1e9):
        assert not saves(judged(1.0, scale), judged(2.0, scale * (1 - 1e-12)))
        assert saves(judged(1.0, scale), judged(2.0, scale * (1 - 1e-6)))


def test_the_walk_takes_the_best_benefit_and_not_the_largest_saving() -> None:
    """From 10 usd: 3 usd for 30 s (0.1) loses to 2 usd for 10 s (0.2); then 8 - 6.5 = 1.5 usd for 30 s is taken."""
    table = Table({(1, 1): (50, 10), (0, 1): (80, 7), (1, 0): (60, 8), (0, 0): (90, 6.5)})
    found = walk_down((1, 1), table, 100.0, Stopwatch())
    assert (found.seconds, found.usd) == (90, 6.5)
    assert table.asked == [(1, 1), (0, 1), (1, 0), (0, 0)]


def test_the_walk_does_not_try_the_second_best() -> None:
    """The best candidate breaks the deadline: the walk ends, although the other one would keep it and save."""
    table = Table({(1, 1): (50, 10), (0, 1): (120, 1), (1, 0): (60, 9.9)})
    assert walk_down((1, 1), table, 100.0, Stopwatch()).usd == 10
    # 9 usd for 70 s is 0.13 a second, 0.1 usd for 10 s is 0.01; without the deadline the walk goes on.
    table.rows[0, 0] = (130, 0.9)
    assert walk_down((1, 1), table, 200.0, Stopwatch()).usd == 0.9


def test_the_walk_may_pass_over_what_breaks_the_deadline() -> None:
    """Told to, it takes the 9.9 usd within 60 s, and ends when nothing keeps the deadline."""
    table = Table({(1, 1): (50, 10), (0, 1): (120, 1), (1, 0): (60, 9.9), (0, 0): (130, 0.9)})
    assert walk_down((1, 1), table, 100.0, Stopwatch(), skip=True).usd == 9.9


def test_a_plan_at_the_deadline_keeps_it() -> None:
    """To within a relative 1e-9, however times were added up."""
    table = Table({(1,): (1.0, 2.0), (0,): (0.1 + 0.2, 1.0)})
    assert walk_down((1,), table, 0.3, Stopwatch()).usd == 1.0


def test_an_expired_stopwatch_ends_the_walk_where_it_is() -> None:
    """The warm start is what there is; a listener hears of every step that is accepted."""
    rows: dict[Steps, tuple[float, float]] = {(2,): (1.0, 3.0), (1,): (2.0, 2.0), (0,): (3.0, 1.0)}
    assert walk_down((2,), Table(rows), 10.0, Stopwatch(limit_s=0.0)).usd == 3.0
    events: list[Event] = []
    assert walk_down((2,), Table(rows), 10.0, Stopwatch(listener=events.append)).usd == 1.0
    assert [(event.stage, event.objective) for event in events] == [("greedy steps", 2.0), ("greedy steps", 1.0)]


@given(
    seconds=st.lists(st.lists(st.integers(1, 50), min_size=4, max_size=4), min_size=1, max_size=3),
    usd=st.lists(st.lists(st.integers(1, 50), min_size=4, max_size=4), min_size=3, max_size=3),
    room=st.integers(0, 100),
)
def test_the_walk_never_gets_dearer_and_keeps_the_deadline(
    seconds: list[list[int]], usd: list[list[int]], room: int
) -> None:
    """Of any plans whose figures add up over stages; the warm start keeps the deadline."""

    def predict(steps: Steps) -> PricedChain:
        places = list(enumerate(steps))
        return judged(sum(seconds[stage][step] for stage, step in places), sum(usd[s][step] for s, step in places))

    start = (3,) * len(seconds)
    deadline_s = predict(start).seconds + room
    found = walk_down(start, predict, deadline_s, Stopwatch())
    assert found.usd <= predict(start).usd
    assert found.seconds <= deadline_s
