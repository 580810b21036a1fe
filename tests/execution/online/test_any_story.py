"""Whatever a calculator is told, and however its clock jumps, it goes on with a table that can be followed."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from optplan.execution.online.calculator import WidthCalculator
from optplan.execution.online.messages import OnlineEvent, Terms, Verdict, parse_event
from optplan.execution.online.width_table import WidthTable
from optplan.formulations.boa.data.instance import BoaInstance

_START_S = 1_800_000_000.0
_TABLE = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}
_LAW = {"form": "amdahl", "serial_fraction": 0.2}
_BUDGET = 6.0

_names = st.sampled_from(["a", "b", "new", "other"])
_times = st.none() | st.floats(_START_S - 1e6, _START_S + 1e6)
_gpus = st.integers(1, 8)
_speeds = st.floats(1e-20, 1e20)
_runs = st.lists(st.fixed_dictionaries({"gpus": _gpus, "seconds": st.floats(0, 1e6)}), max_size=3)
_hints = st.fixed_dictionaries(
    {
        "initBatchSize": st.integers(1, 1000),
        "maxBatchSize": st.none() | st.integers(1, 100_000),
        "localBszBounds": st.none() | st.lists(st.integers(1, 5000), min_size=2, max_size=2),
        "gradParams": st.none() | st.fixed_dictionaries({"norm": st.floats(0, 1e9), "var": st.floats(0, 1e9)}),
        "perfParams": st.none()
        | st.fixed_dictionaries(
            {name: st.floats(1e-8, 10.0) for name in ("alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r")}
            | {"gamma": st.floats(1.0, 10.0)}
        ),
    }
)
_events = st.one_of(
    st.fixed_dictionaries({"kind": st.just("arrival"), "job_class": _names, "at_s": _times}),
    st.fixed_dictionaries({"kind": st.just("measurement"), "job_class": _names, "gpus": _gpus, "speed": _speeds}),
    st.fixed_dictionaries(
        {"kind": st.just("completion"), "job_class": _names, "ran": _runs, "whole": st.booleans(), "at_s": _times}
    ),
    st.fixed_dictionaries({"kind": st.just("hints"), "job_class": _names, "hints": _hints}),
)
_steps = st.lists(st.tuples(st.floats(-1e5, 1e5), st.lists(_events, max_size=6)), min_size=1, max_size=6)


def _instance() -> BoaInstance:
    return BoaInstance(
        classes={
            "a": {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [0.5, 0.5], "speedup": {"t4": _TABLE}},
            "b": {
                "arrival_rate_per_hour": 0.5,
                "epoch_size_gpu_hours": [1.0],
                "speedup": {"t4": _LAW},
                "widths": {"max": 6},
                "rescale_s": 30.0,
            },
        },
        gpu_types={"t4": {}},
        budget=f"{_BUDGET}gpu",
    )


@settings(max_examples=20)
@given(_steps)
def test_any_story_leaves_a_table_that_can_be_followed(steps: list[tuple[float, list[dict[str, object]]]]) -> None:
    """Every table is whole and keeps the budget, and is the same after JSON; none comes where the load does not fit."""
    calculator = WidthCalculator(_instance(), Terms(window_h=5.0), now_s=_START_S)
    now_s, number, over = _START_S, 0, False
    for step_s, told in steps:
        now_s = max(now_s + step_s, 0.0)
        events: list[OnlineEvent] = []
        for each in told:
            events.append(parse_event({"id": str(number), **{k: v for k, v in each.items() if v is not None}}))
            number += 1
        calculator.take(events, now_s)
        made = calculator.consider(now_s)
        assert calculator.table is not None or (made is not None and made.verdict is Verdict.OVER_BUDGET) or over
        over = made.verdict is Verdict.OVER_BUDGET if made is not None else over
        assert (
            calculator.table is None
            or WidthTable.parse(json.loads(json.dumps(calculator.table.to_json_data()))) == calculator.table
        )
        if made is not None and made.verdict is Verdict.PUBLISHED:
            assert calculator.table is not None
            assert set(calculator.table.classes) == set(calculator.knowledge.classes)
            assert made.planned is not None
            assert made.planned <= _BUDGET * (1 + 1e-6)
        if made is not None:
            assert made.verdict is not Verdict.FAILED, made.notes
        state = json.loads(json.dumps(calculator.to_json_data(), allow_nan=False))
        assert WidthCalculator(_instance(), Terms(window_h=5.0), now_s=now_s, state=state).to_json_data() == state


def _are_same(one: object, other: object) -> bool:
    """Whether two tables differ by rounding at most: an estimate that was looked at twice was added up twice."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_are_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-9)
    return one == other


@settings(max_examples=20)
@given(_steps)
@example([(0.0, []), (1.0, []), (1.0, [{"kind": "arrival", "job_class": "new", "at_s": None}])])  # differs by rounding
def test_what_cannot_have_moved_needs_no_look(steps: list[tuple[float, list[dict[str, object]]]]) -> None:
    """A calculator that looks at every estimate whenever it is asked makes the same calculations and tables."""

    class Eager(WidthCalculator):
        def _find_moved(self, names: Iterable[str]) -> bool:
            for name in self.knowledge.classes:
                self._look(name)
            return super()._find_moved(names)

    terms = Terms(window_h=5.0, settle_s=0.0, every_s=1e9)
    pair = [kind(_instance(), terms, now_s=_START_S) for kind in (WidthCalculator, Eager)]
    now_s, number = _START_S, 0
    for step_s, told in steps:
        now_s = max(now_s + abs(step_s) / 100.0, 0.0)
        events = [
            parse_event({"id": str(number + k), **{name: v for name, v in each.items() if v is not None}})
            for k, each in enumerate(told)
        ]
        number += len(told)
        for calculator in pair:
            calculator.take(events, now_s)
        lazy, eager = (calculator.consider(now_s) for calculator in pair)
        assert (lazy and (lazy.verdict, lazy.reason)) == (eager and (eager.verdict, eager.reason))
        tables = [calculator.to_json_data()["table"] for calculator in pair]
        assert _are_same(*tables)
