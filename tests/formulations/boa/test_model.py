"""BOA's algebraic model in Pyomo: its sheet, its numbers, and its solve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import SolveRequest, Status
from optplan.errors import EngineError, UnsupportedError, UsageError
from optplan.formulations.boa import model as sheet
from optplan.formulations.boa.data import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.evaluation import evaluate
from optplan.formulations.boa.model import build_pyomo_model, solve_pyomo
from optplan.progress import Event, Stopwatch


def two_classes(problem: str = "rescaling", policy: str = "pure") -> BoaInstance:
    """Make a class with three epochs and a table that is no hull, and one with one epoch and Amdahl's law."""
    return BoaInstance.parse(
        {
            "name": "two-classes",
            "classes": {
                "bert large": {
                    "arrival_rate_per_hour": 2.0,
                    "epoch_size_gpu_hours": [1.0, 0.5, 2.0],
                    "speedup": {
                        "t4": {
                            "form": "table",
                            "gpus": [1, 2, 4],
                            "speedup": [[1.0, 1.5, 1.4], [1.0, 2.2, 3.0], [1.0, 1.1, 3.5]],
                        }
                    },
                    "rescale_s": 360.0,
                    "weight": 3.0,
                },
                "yolo": {
                    "arrival_rate_per_hour": 0.5,
                    "epoch_size_gpu_hours": [4.0],
                    "speedup": {"t4": {"form": "amdahl", "serial_fraction": 0.1}},
                    "widths": {"only": [1, 3]},
                },
            },
            "gpu_types": {"t4": {}},
            "budget": "14gpu",
            "problem": problem,
            "policy": policy,
        }
    )


def fix(model: Any, rows: dict[str, list[list[float]]], shares: dict[str, list[float]]) -> None:  # noqa: ANN401
    """Set x to shares of jobs that follow rows of widths, and z to the least that its constraint allows."""
    for variable in (*model.x.values(), *model.z.values()):
        variable.set_value(0.0)
    for i, branches in rows.items():
        for row, share in zip(branches, shares[i], strict=True):
            for j, k in enumerate(row, start=1):
                model.x[i, j, k].set_value(model.x[i, j, k].value + share)
    for i, j, k in model.CHANGES:
        model.z[i, j, k].set_value(max(0.0, model.x[i, j, k].value - model.x[i, j - 1, k].value))


def test_sets_parameters_and_families_carry_the_papers_names() -> None:
    """Sets, parameters, variables and constraint families are those of the sheet, in its units."""
    model = build_pyomo_model(two_classes())
    assert list(model.CLASSES) == ["bert large", "yolo"]
    assert list(model.EPOCHS["bert large"]) == [1, 2, 3]
    assert list(model.WIDTHS["yolo"]) == [1, 3]
    assert model.X["bert large", 2] == 0.5
    assert model.r["bert large"] == 0.1
    assert model.s["bert large", 3, 4] == 3.5
    assert model.s["yolo", 1, 3] == pytest.approx(1 / (0.1 + 0.9 / 3))
    assert model.b.value == 14.0
    # x: 3 epochs * 3 widths + 1 * 2; z and width_change: epochs 2 and 3 of bert; row_length: 3 + 1 epochs.
    sizes = {name: len(getattr(model, name)) for name in ("x", "z", "width_change", "row_length")}
    assert sizes == {"x": 11, "z": 6, "width_change": 6, "row_length": 4}


def test_the_sheet_names_every_family_of_the_evaluator() -> None:
    """What the evaluator can complain about is explained in the sheet."""
    instance = two_classes()
    solution = BoaSolution(branches={"bert large": (Branch(widths=np.ones(3)),), "yolo": (Branch(widths=np.ones(1)),)})
    families = {check.family for check in evaluate(instance, solution).checks}
    for family in families | {"every-class", "fraction-sum", "one-path", "row-length", "allowed-width", "budget"}:
        assert f"``{family}``" in (sheet.__doc__ or "")


def test_one_row_by_hand() -> None:
    """Bert on 2, 4, 4 and yolo on 1: two pauses of 0.1 h, at 2 and at 4 GPUs, and no others.

    Bert: 1/1.5 + 0.5/3 + 2/3.5 = 1.404762 h running, 0.2 h pausing; GPU-hours 2/1.5 + 4*0.5/3 + 4*2/3.5 + 0.2 + 0.4.
    Mean with weights 3 * 2 and 1 * 0.5: (6 * 1.604762 + 0.5 * 4) / 6.5 h. GPUs: 2 * 4.885714 + 0.5 * 4.
    """
    model = build_pyomo_model(two_classes())
    fix(model, {"bert large": [[2, 4, 4]], "yolo": [[1]]}, {"bert large": [1.0], "yolo": [1.0]})
    assert pyo.value(model.mean_jct_s) == pytest.approx(3600 * (6 * 1.604762 + 2) / 6.5, rel=1e-6)
    assert pyo.value(model.gpus) == pytest.approx(2 * 4.885714 + 2, rel=1e-6)


@settings(max_examples=30)
@given(data=st.data())
def test_objective_and_budget_are_the_evaluators(data: st.DataObject) -> None:
    """For any widths, pure or mixed, Pyomo's two expressions are what the evaluator computes.

    Of two rows mixed, the model may let part of the jobs trade places and so pause less, never more.
    """
    problem = data.draw(st.sampled_from(["whole", "rescaling"]))
    instance = two_classes(problem, "mixed")
    share = data.draw(st.sampled_from([1.0, 0.25]))
    rows = {
        i: [[float(data.draw(st.sampled_from(instance.allowed_widths(i).tolist()))) for _ in range(c.num_epochs)]]
        for i, c in instance.classes.items()
    }
    shares = {i: [1.0] for i in rows}
    if share < 1.0:
        rows["yolo"].append([1.0])
        shares["yolo"] = [share, 1.0 - share]
    model = build_pyomo_model(instance)
    fix(model, rows, shares)
    solution = BoaSolution(
        branches={
            i: tuple(Branch(fraction=f, widths=np.array(row)) for f, row in zip(shares[i], rows[i], strict=True))
            for i in rows
        }
    )
    evaluation = evaluate(instance, solution)
    assert pyo.value(model.mean_jct_s) == pytest.approx(evaluation.objective, rel=1e-12)
    assert pyo.value(model.gpus) == pytest.approx(evaluation.consumption["budget"], rel=1e-12)


def test_without_rescaling_there_are_no_changes() -> None:
    """In the problem whole there is no z, and the rescale time counts for nothing."""
    model = build_pyomo_model(two_classes("whole"))
    assert len(model.z) == 0
    fix(model, {"bert large": [[2, 4, 4]], "yolo": [[1]]}, {"bert large": [1.0], "yolo": [1.0]})
    assert pyo.value(model.mean_jct_s) == pytest.approx(3600 * (6 * 1.404762 + 2) / 6.5, rel=1e-6)


def test_the_policy_is_the_domain_of_x() -> None:
    """Pure plans are binary, mixed ones lie between zero and one."""
    assert all(x.is_binary() for x in build_pyomo_model(two_classes()).x.values())
    mixed = build_pyomo_model(two_classes(policy="mixed"))
    assert all(x.is_continuous() and x.bounds == (0, 1) for x in mixed.x.values())


def test_solve_reports_engine_and_progress() -> None:
    """The answer names HiGHS, its version, and a listener hears of the solve."""
    events: list[Event] = []
    answer = solve_pyomo(two_classes(), SolveRequest(stopwatch=Stopwatch(listener=events.append)))
    assert answer.status is Status.OPTIMAL
    assert answer.engine == "HiGHS through Pyomo"
    assert answer.engine_version.count(".") == 2
    assert [event.stage for event in events] == ["pyomo"]


def test_an_unknown_ending_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A termination condition that the table does not know is not guessed at."""
    monkeypatch.setattr(sheet, "_ENDINGS", {})
    with pytest.raises(EngineError, match="HiGHS, called by Pyomo, ended with convergenceCriteriaSatisfied, which has"):
        solve_pyomo(two_classes(), SolveRequest())


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_the_continuous_problem_is_stated_elsewhere() -> None:
    """Real widths are refused, and the message says which solver has them."""
    with pytest.raises(UnsupportedError, match="the problem 'continuous' is stated in the solver 'conic'"):
        build_pyomo_model(two_classes("continuous"))


def test_a_budget_is_needed() -> None:
    """A model without a budget cannot be stated."""
    with pytest.raises(UsageError, match="has no budget; give one"):
        build_pyomo_model(two_classes().replace(budget=None))
