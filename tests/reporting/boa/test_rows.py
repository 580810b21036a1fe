"""Rows of tables: what is left out is said, and what is rounded is rounded to the safe side."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from optplan.contracts import Frontier, Infeasibility, Relaxation, Result, Solution, Status, Termination
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting.boa.tables import choose_budgets, list_relaxations


@given(least=st.floats(1e-3, 1e9))
@example(least=6.2)
@example(least=74.61197621736805)
def test_least_that_works_is_rounded_up(least: float) -> None:
    """The figure shown, typed in again, is enough, and by no more than its last digit."""
    shown = float(show_limit(least).removesuffix(" GPUs").replace(",", ""))
    assert shown >= least * (1.0 - 1e-9)
    assert shown <= least + 10.0 ** (math.floor(math.log10(least)) - 5) * (1.0 + 1e-6)


@pytest.mark.parametrize(("least", "text"), [(6.2, "6.2 GPUs"), (74.61197621736805, "74.612 GPUs"), (5.0, "5 GPUs")])
def test_short_figures_stay_short(least: float, text: str) -> None:
    """Rounding up changes no figure that six digits write exactly."""
    assert show_limit(least) == text


def show_limit(least: float) -> str:
    """Return what the table shows for the least budget that works."""
    relaxation = Relaxation(limit="budget", given=least / 2, least_feasible=least, enough=least, unit="gpu")
    result: Result[Solution] = Result[Solution](
        formulation="boa",
        instance_name="",
        instance_hash="",
        solver="",
        engine="",
        engine_version="",
        optplan_version="",
        status=Status.INFEASIBLE,
        termination=Termination.COMPLETED,
        objective_unit="s",
        gap_target=0.0,
        infeasibility=Infeasibility(reason="too little", relaxations=(relaxation,)),
    )
    table = list_relaxations(result)
    assert table is not None
    (row,) = table.set_rows
    return str(row.cells[-1])


def test_budgets_around_the_own_one(instance: BoaInstance, frontier: Frontier) -> None:
    """From the least to the one beyond which nothing improves, with steps around 8 GPUs."""
    assert choose_budgets(instance, frontier) == pytest.approx([6.2, 7.2, 8.0, 8.8, 9.6, 10.8])
    # Without a budget the steps are around one and a half times the least, 9.3.
    assert choose_budgets(instance.replace(budget=None), frontier) == pytest.approx(
        [6.2, 6.975, 8.37, 9.3, 10.23, 10.8]
    )
