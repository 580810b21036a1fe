"""Decisions by what has changed: the same as from nothing, whatever happens, and looking at few jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.execution.online.decisions import Allocator, decide
from optplan.execution.online.division import Line
from optplan.execution.online.jobs import ActiveJob, Order, Rules

MakeTable = Callable[..., Any]

KINDS = ("a100", "t4")
CLASSES = ("c1", "c2", "c3")

_cells = st.tuples(st.integers(1, 6), st.sampled_from(KINDS))
_tables = st.fixed_dictionaries({name: st.lists(_cells, min_size=1, max_size=3) for name in CLASSES[:2]})
_rules = st.builds(
    lambda sizes, most, quota, order, runnable: Rules(
        dict(zip(KINDS, sizes, strict=True)), most, {} if quota is None else {"t4": quota}, order, runnable
    ),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.none() | st.integers(4, 16),
    st.none() | st.integers(4, 10),
    st.sampled_from(Order),
    st.sampled_from([{}, {"c1": (1, 2, 4), "c2": (2, 3, 5)}]),
)
_steps = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "arrive", "come", "come", "do", "do", "epoch", "end", "stop", "lose", "publish"]),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=40,
)


class Story:
    """A cluster as it is, and an allocator that is told only what changes."""

    def __init__(self, tables: list[Any], rules: Rules, *, at_once: bool = False) -> None:
        self.tables, self.table, self.rules = tables, tables[0], rules
        self.allocator = Allocator(self.table, rules, at_once=at_once)
        self.jobs: dict[str, ActiveJob] = {}
        self.nodes: dict[int, str] = {}
        self.made = self.came = 0

    def put(self, job: ActiveJob) -> None:
        """Change a job."""
        self.jobs[job.name] = job
        self.allocator.put(job)

    def step(self, what: str, which: int) -> None:
        """Let something happen."""
        job = list(self.jobs.values())[which % len(self.jobs)] if self.jobs else None
        match what:
            case "arrive":
                self.made += 1
                self.put(ActiveJob(f"j{self.made}", CLASSES[which % 3], submitted_s=which % 4, expected_left_s=which))
            case "come":  # every other node is ready before the one that was asked for before it
                self.came += 1
                number = self.came + (1 if self.came % 2 else -1)
                kind = KINDS[which % 2]
                self.nodes[number] = kind
                self.allocator.add_node(f"n{number}", self.nodes[number], number)
            case "lose" if self.nodes:
                number = sorted(self.nodes)[which % len(self.nodes)]
                del self.nodes[number]
                self.allocator.drop_node(f"n{number}")
            case "publish":
                self.table = self.tables[which % len(self.tables)]
                self.allocator.follow(self.table)
            case "do":
                for name, place in self.allocator.decide().places.items():
                    self.put(replace(self.jobs[name], place=place))
            case "epoch" if job is not None:
                rich = 1e5 * which
                self.put(
                    replace(job, epochs_done=job.epochs_done + 1, expected_left_s=9.0 - which, attained_gpu_s=rich)
                )
            case "stop" if job is not None:
                self.put(replace(job, place={}))
            case "end" if job is not None:
                del self.jobs[job.name]
                self.allocator.drop(job.name)


@given(st.lists(_tables, min_size=1, max_size=2), _rules, _steps, st.booleans())
def test_any_story_is_decided_as_from_nothing(
    make_typed_table: MakeTable, tables: list[Any], rules: Rules, steps: list[tuple[str, int]], at_once: bool
) -> None:
    """Arrivals, epochs, ends, losses, nodes and tables: places, nodes, who is short and what is idle are the same."""
    story = Story([make_typed_table(table) for table in tables], rules, at_once=at_once)
    for what, which in steps:
        story.step(what, which)
        nodes = {f"n{number}": story.nodes[number] for number in sorted(story.nodes)}
        whole = decide(story.table, list(story.jobs.values()), nodes, rules, at_once=at_once)
        changes = story.allocator.decide()
        assert {name: job.place for name, job in story.jobs.items()} | dict(changes.places) == whole.places
        assert (changes.nodes, changes.short, changes.idle) == (whole.nodes, whole.short, whole.idle)


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("waiting", [10, 1000])
def test_a_decision_looks_at_no_more_jobs_where_more_wait(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, order: Order, waiting: int
) -> None:
    """Four jobs of two GPUs run on eight; one ends, and five at most are looked at: those who run, and the next."""
    rules = Rules({"a100": 4}, most_gpus=8, order=order)
    allocator = Allocator(make_table(two=[2]), rules)
    for number in (1, 2):
        allocator.add_node(f"n{number}", "a100", number)
    jobs = {f"j{k:04d}": ActiveJob(f"j{k:04d}", "two", submitted_s=float(k)) for k in range(waiting)}
    for job in jobs.values():
        allocator.put(job)
    begun = allocator.decide().places
    assert len(begun) == 4
    for name, place in begun.items():
        allocator.put(replace(jobs[name], place=place))
    assert not allocator.decide().places
    seen: list[str] = []
    walk = Line.walk

    def note(self: Line, *args: Any) -> Any:  # noqa: ANN401 - as it is
        for one in walk(self, *args):
            seen.append(one.job.name)
            yield one

    monkeypatch.setattr(Line, "walk", note)
    allocator.drop("j0000")
    assert allocator.decide().places == {"j0004": {"n1": 2}}
    assert len(seen) <= 5
    assert allocator.decide() is allocator.decide()


def test_what_does_not_matter_decides_nothing_anew(make_table: MakeTable) -> None:
    """An epoch after which the table says the same, and a job that is over already, leave what was decided."""
    allocator = Allocator(make_table(two=[2, 2, 1]), Rules({"a100": 4}))
    allocator.add_node("n1", "a100", 1)
    job = ActiveJob("job", "two", place={"n1": 2})
    allocator.put(job)
    decided = allocator.decide()
    allocator.put(replace(job, epochs_done=1))
    allocator.drop("gone")
    allocator.drop_node("gone")
    assert allocator.decide() is decided
    allocator.put(replace(job, epochs_done=2))
    assert allocator.decide().places == {"job": {"n1": 1}}
