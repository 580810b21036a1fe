"""A solution taken apart adds up to what the evaluator says of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Instance, Result, Solution, Status, Termination
from optplan.errors import UsageError
from optplan.formulations.boa.data.gpu_types import Spot
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Policy, Problem
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.reporting.boa.breakdown import (
    break_down,
    load_gpus,
    price_usd_per_hour,
    require_boa,
    require_same_problem,
    type_prices,
)

if TYPE_CHECKING:
    from tests.reporting.boa.conftest import ResultMaker


def test_epochs_of_one_width_are_one_range(instance: BoaInstance, result: Result[Solution]) -> None:
    """Widths 2, 2, 4 are two ranges, and a range's time has the pause at its start."""
    vision, speech = break_down(instance, result)
    assert [(r.first, r.last, r.gpus) for r in vision.paths[0].ranges] == [(1, 2, 2.0), (3, 3, 4.0)]
    # 1 h / 1.6 + 180 s = 2,430 s; 1 h / 4 + 180 s = 1,080 s; together the 3,510 s of the whole job.
    assert [r.duration_s for r in vision.paths[0].ranges] == pytest.approx([2430.0, 1080.0])
    assert [(r.first, r.last, r.gpus) for r in speech.paths[0].ranges] == [(1, 2, 2.0)]


def test_parts_are_those_worked_out_by_hand(instance: BoaInstance, result: Result[Solution]) -> None:
    """GPUs and times of each class are the figures of the table in conftest."""
    vision, speech = break_down(instance, result)
    assert (vision.gpus_running, vision.gpus_rescaling) == pytest.approx((4.5, 0.6))
    assert (speech.gpus_running, speech.gpus_rescaling) == pytest.approx((2.5, 0.2))
    assert (vision.mean_jct_s, speech.mean_jct_s) == pytest.approx((3510.0, 4860.0))
    # Two of three jobs are vision jobs: 2/3 x 3,510 = 2,340 and 1/3 x 4,860 = 1,620.
    assert (vision.contribution_s, speech.contribution_s) == pytest.approx((2340.0, 1620.0))


def test_types_are_told_apart(typed_instance: BoaInstance, typed_result: Result[Solution]) -> None:
    """A change of type at the same width ends a range, and a class's GPUs are divided by type."""
    vision, speech, text = break_down(typed_instance, typed_result)
    assert [(r.first, r.last, r.gpus, r.gpu_type) for r in vision.paths[0].ranges] == [
        (1, 1, 1.0, "t4"),
        (2, 2, 1.0, "a100"),
    ]
    # 0.5 h + 180 s = 1,980 s on the t4; 0.25 h + 180 s + 180 s = 1,260 s on the a100.
    assert [r.duration_s for r in vision.paths[0].ranges] == pytest.approx([1980.0, 1260.0])
    assert vision.gpus_by_type == pytest.approx({"t4": 1.1, "a100": 0.7})
    assert speech.gpus_by_type == pytest.approx({"a100": 0.6})
    assert text.gpus_by_type == pytest.approx({"t4": 0.9})
    assert (vision.gpus_running, vision.gpus_rescaling) == pytest.approx((1.5, 0.3))
    assert type_prices(typed_instance) == {"t4": 1.0, "a100": 4.0}


def test_interruptions_are_part_of_times_and_gpus(
    typed_instance: BoaInstance, typed_solution: BoaSolution, make_result: ResultMaker
) -> None:
    """A restart of 0.1 h at 1 interruption an hour and GPU stretches 2 GPUs by 1 / (1 - 0.2): 0.45 h become 0.5625."""
    spot = Spot(interruptions_per_gpu_hour=1.0, restart_s=360.0)
    types = {**typed_instance.gpu_types, "t4": typed_instance.gpu_types["t4"].replace(spot=spot)}
    interrupted = typed_instance.replace(gpu_types=types)
    result = make_result(interrupted, typed_solution)
    text = break_down(interrupted, result)[2]
    assert text.mean_jct_s == pytest.approx(0.5625 * 3600.0)
    assert text.gpus_by_type["t4"] == pytest.approx(1.125)
    parts = break_down(interrupted, result)
    assert sum(part.gpus_by_type.get("t4", 0.0) for part in parts) == pytest.approx(result.measures["gpus.t4"])
    assert sum(part.contribution_s for part in parts) == pytest.approx(result.objective)


@settings(max_examples=40)
@given(
    widths=st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=6, max_size=6),
    share=st.floats(0.01, 0.99),
    weight=st.floats(0.1, 10.0),
    problem=st.sampled_from(list(Problem)),
)
def test_parts_add_up_to_the_evaluation(widths: list[float], share: float, weight: float, problem: Problem) -> None:
    """For any widths, shares, weights and problem the classes add up to the evaluator's objective and GPUs."""
    curve = {"a": {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}}
    base = {"speedup": curve, "rescale_s": 100.0}
    instance = BoaInstance.parse(
        {
            "classes": {
                "x": {**base, "arrival_rate_per_hour": 2.0, "epoch_size_gpu_hours": [1.0, 0.3], "weight": weight},
                "y": {**base, "arrival_rate_per_hour": 0.5, "epoch_size_gpu_hours": [3.0, 1.0]},
            },
            "gpu_types": {"a": {}},
            "policy": "mixed",
            "problem": problem,
        }
    )
    solution = BoaSolution(
        branches={
            "x": (
                Branch(fraction=share, widths=np.array(widths[:2])),
                Branch(fraction=1.0 - share, widths=np.array(widths[2:4])),
            ),
            "y": (Branch(widths=np.array(widths[4:])),),
        }
    )
    judged = evaluate(instance, solution)
    result: Result[Solution] = Result[Solution](
        formulation="boa",
        instance_name="",
        instance_hash="",
        solver="",
        engine="",
        engine_version="",
        optplan_version="",
        status=Status.FEASIBLE,
        termination=Termination.COMPLETED,
        objective=judged.objective,
        objective_unit="s",
        gap_target=0.0,
        solution=solution,
    )
    parts = break_down(instance, result)
    assert sum(p.contribution_s for p in parts) == pytest.approx(judged.objective, rel=1e-12)
    assert sum(p.gpus_running for p in parts) == pytest.approx(judged.measures["gpus_running"], rel=1e-12)
    assert sum(p.gpus_rescaling for p in parts) == pytest.approx(judged.measures["gpus_rescaling"], rel=1e-12)
    for part in parts:
        assert part.mean_jct_s == pytest.approx(judged.measures[f"classes.{part.name}.mean_jct_s"], rel=1e-12)


def test_nothing_to_take_apart_without_a_solution(instance: BoaInstance, unknown_result: Result[Solution]) -> None:
    """A result without a solution has no parts."""
    assert break_down(instance, unknown_result) == []


def test_load_and_price(instance: BoaInstance) -> None:
    """The load is 2 x 2 h + 1 x 2 h = 6 GPUs; the price is that of the one GPU type, and none without a price."""
    assert load_gpus(instance) == pytest.approx(6.0)
    assert price_usd_per_hour(instance) == 2.0
    assert price_usd_per_hour(instance.replace(gpu_types={"v100": {}})) is None
    assert type_prices(instance) is None


def test_another_formulation_is_refused() -> None:
    """Reports say which formulation they cannot show."""
    with pytest.raises(UsageError, match="instance 'x' is of formulation ''; tables and reports show 'boa' only"):
        require_boa(Instance(name="x"))


def test_a_result_of_another_problem_is_refused(
    instance: BoaInstance, solution: BoaSolution, make_result: ResultMaker
) -> None:
    """Another budget is another problem, whose objective means nothing here; another policy may be compared."""
    require_same_problem(instance, make_result(instance.replace(policy=Policy.MIXED), solution))
    other = make_result(instance.replace(budget="11gpu"), solution)
    with pytest.raises(UsageError, match=r"'layered-paths' was made for instance 'by-hand' with hash \w{12}, this one"):
        require_same_problem(instance, other)
