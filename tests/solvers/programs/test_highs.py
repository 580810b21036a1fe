"""Programs in HiGHS: optima by hand, both forms of text, processes of their own, and ends that are asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest

from optplan.contracts import SolveRequest, Status, Termination
from optplan.errors import UnsupportedError
from optplan.progress import Interruption, Stopwatch, interruptible
from optplan.solvers.programs import TUNING, highs
from optplan.solvers.programs.program import Program, ProgramOutcome, ReadModel, TrivialInfeasibilityError, read_program


def knapsack(items: int = 3, *, relaxed: bool = False) -> pyo.ConcreteModel:
    """State the most value of items k = 1, 2, ... of weight k + 1 and value 2 k + 1, up to half of all weight.

    Of three with weights 2, 3 and 4 and values 3, 5 and 7 the limit is 4.5: the last one alone, 7; in shares
    4 / 4 * 7 + 0.5 / 3 * 5 = 7.8333.
    """
    m = pyo.ConcreteModel()
    m.ITEMS = pyo.Set(initialize=range(1, items + 1))
    m.x = pyo.Var(m.ITEMS, domain=pyo.UnitInterval if relaxed else pyo.Binary)
    m.weight = pyo.Constraint(expr=sum((k + 1) * m.x[k] for k in m.ITEMS) <= sum(k + 1 for k in m.ITEMS) / 2)
    m.value = pyo.Objective(expr=sum((2 * k + 1) * m.x[k] for k in m.ITEMS) + 100, sense=pyo.maximize)
    return m


def solve(read: ReadModel) -> ProgramOutcome:
    """Solve with the default request."""
    return highs.solve_program(read.program, SolveRequest(gap=1e-9))


def test_optima_bounds_and_duals_by_hand() -> None:
    """The sense and the constant are the model's own; a linear program has the price of its row, 5 / 3 a unit."""
    model = knapsack()
    read = read_program(model)
    found = solve(read)
    assert (found.status, found.termination) == (Status.OPTIMAL, Termination.COMPLETED)
    assert found.bound is not None
    assert read.program.value_of(found.bound) == pytest.approx(107)
    assert found.values is not None
    read.load(found.values)
    assert [pyo.value(model.x[k]) for k in model.ITEMS] == [0, 0, 1]
    linear = read_program(knapsack(relaxed=True))
    found = solve(linear)
    assert found.duals is not None
    assert linear.program.value_of(found.bound or 0.0) == pytest.approx(100 + 7 + 2.5 / 3)
    assert abs(found.duals[0]) == pytest.approx(5 / 3)


def test_what_has_no_optimum_is_named() -> None:
    """Infeasible and unbounded are told apart, and a row that nothing keeps is found while reading."""
    model = knapsack()
    model.heavy = pyo.Constraint(expr=sum(model.x.values()) >= 3)
    assert solve(read_program(model)).status is Status.INFEASIBLE
    model = knapsack()
    model.free = pyo.Var(domain=pyo.NonNegativeReals)
    model.value.set_value(model.value.expr + model.free)
    found = solve(read_program(model))
    assert found.is_unbounded
    assert found.values is None
    model = knapsack()
    model.never = pyo.Constraint(expr=0 * model.x[1] >= 1)
    with pytest.raises(TrivialInfeasibilityError, match="never"):
        read_program(model)


def test_models_without_one_linear_objective_are_refused() -> None:
    """The message names what is too many, or not linear."""
    model = knapsack()
    model.other = pyo.Objective(expr=model.x[1])
    with pytest.raises(UnsupportedError, match=r"^a model needs one active objective, and this one has value, other"):
        read_program(model)
    model = knapsack()
    model.curved = pyo.Constraint(expr=model.x[1] * model.x[2] <= 0.5)
    with pytest.raises(UnsupportedError, match=r"^only linear models can be handed over as matrices: .*curved"):
        read_program(model)


def test_least_violations_are_those_of_the_chosen_rows() -> None:
    """With all three items wanted, the weight is missed by 4.5, or the wish by 2, whichever may be."""
    model = knapsack()
    model.all_of_them = pyo.Constraint(expr=sum(model.x.values()) >= 3)
    program = read_program(model).program
    for row, amount in (("weight", 4.5), ("all_of_them", 2.0)):
        softened = program.soften(np.array([name == row for name in program.rows]))
        found = highs.solve_program(softened, SolveRequest())
        assert found.values is not None
        assert found.values[program.cost.size :].sum() == pytest.approx(amount)


@pytest.mark.parametrize("form", ["lp", "mps"])
def test_written_models_have_the_same_optimum(form: str, tmp_path: Path) -> None:
    """What is written is read by HiGHS again, with names that both formats allow; those that coincide are numbered."""
    model = knapsack()
    model.add_component("x 1", pyo.Var(domain=pyo.Binary))
    model.add_component("x.1", pyo.Constraint(expr=model.component("x 1") <= 0))
    model.value.set_value(model.value.expr - model.component("x 1"))
    path = tmp_path / f"model.{form}"
    text = highs.write_program(read_program(model).program, form)  # type: ignore[arg-type]
    path.write_text(text, encoding="utf-8")
    assert "x_1" in text
    engine = highspy.Highs()
    engine.setOptionValue("output_flag", False)
    engine.readModel(str(path))
    engine.run()
    assert engine.getInfo().objective_function_value == pytest.approx(-107)
    assert highs._clean(["a b", "a_b", "a.b"]) == ["a_b", "a_b_2", "a.b"]


def ladder(items: int = 40) -> Program:
    """Return a knapsack of many items that are alike, which takes a search."""
    return read_program(knapsack(items)).program


@pytest.mark.slow
def test_large_models_are_solved_elsewhere_and_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same values and bound as here; out of time there is nothing but the engine's name."""
    here = highs.solve_program(ladder(), SolveRequest())
    monkeypatch.setattr("optplan.solvers.programs.highs.TUNING", replace(TUNING, many_columns=1))
    elsewhere = highs.solve_program(ladder(), SolveRequest())
    assert here.status is elsewhere.status is Status.OPTIMAL
    assert elsewhere.bound == here.bound
    assert np.array_equal(elsewhere.values, here.values)  # type: ignore[arg-type]
    late = highs.solve_program(ladder(), SolveRequest(stopwatch=Stopwatch(0.0)))
    assert (late.status, late.termination, late.values) == (Status.UNKNOWN, Termination.TIME_LIMIT, None)
    assert (late.engine, late.engine_version) == (here.engine, here.engine_version)


def test_incumbents_and_bounds_are_reported() -> None:
    """Each keeps the limit, and no bound on the way is better than the end."""
    reports: list[ProgramOutcome] = []
    program = ladder()
    found = highs.run_highs(program, 0.0, 0, False, Stopwatch(), reports.append)
    plans = [each for each in reports if each.values is not None]
    assert plans
    for each in plans:
        assert each.values is not None
        assert (each.status, each.termination) == (Status.FEASIBLE, Termination.TIME_LIMIT)
        assert (program.matrix @ each.values <= program.row_upper * (1 + 1e-9)).all()
    assert all(each.bound is None or each.bound <= (found.bound or 0.0) + 1e-6 for each in reports)


def test_engines_stop_when_they_are_asked_to() -> None:
    """Before anything is found, the outcome is that of a time limit."""
    with interruptible() as interruption:
        stopwatch = Stopwatch()
        interruption.interrupt()
        found = highs.run_highs(ladder(400), 0.0, 0, False, stopwatch)
    assert found.termination is Termination.TIME_LIMIT
    assert found.status in (Status.UNKNOWN, Status.FEASIBLE)


def test_what_is_raised_while_highs_runs_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A KeyboardInterrupt between two of its steps stops HiGHS, and is not lost."""

    def interrupt(_: object) -> bool:
        raise KeyboardInterrupt

    stopwatch, program = Stopwatch(), ladder(400)
    monkeypatch.setattr(Interruption, "wanted", property(interrupt, lambda *_: None), raising=False)
    monkeypatch.setattr(Stopwatch, "remaining_s", None)
    with pytest.raises(KeyboardInterrupt):
        highs.run_highs(program, 0.0, 0, False, stopwatch)
