"""What to commit, as a terminal and a page show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.reporting.boa.demand import draw_demand, list_bills, tell_commitments
from optplan.reporting.boa.phrases import say_answer
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import Beside, gather
from optplan.reporting.reports import build_report
from optplan.solving import solve
from optplan.speedup import TableSpeedup

if TYPE_CHECKING:
    pass


def make_instance(**fields: object) -> BoaInstance:
    """Return 10 jobs an hour that hold a GPU for an hour: Poisson(10) in use."""
    table = TableSpeedup(gpus=np.array([1]), speedup=np.array([1.0]))
    job = JobClass(arrival_rate_per_hour=10.0, epoch_size_gpu_hours=[1.0], speedup={"t4": table})
    kind = {"price_usd_per_hour": 1.0, "commitments": {"1-year": {"discount": 0.5}}, **fields}
    return BoaInstance.parse({"classes": {"job": job}, "gpu_types": {"t4": kind}, "budget": "10gpu"})


def test_the_bill_is_told_in_its_parts() -> None:
    """10 at half the price, and 1.25 on demand, are 6.25 of 10."""
    instance = make_instance()
    result = solve(instance)
    parts, discounts = list_bills(instance, result)
    assert parts.rows == [("t4 for 1-year", "10", "80 %"), ("t4 on demand", "1.25", "20 %")]
    assert discounts.rows[3][:2] == ("45 %", "9")
    assert say_answer(instance, result).endswith(
        "Commit 10 t4 for 1-year: the bill is 37 % below that of the same GPUs on demand."
    )


def test_nothing_is_committed_where_it_does_not_pay() -> None:
    """At the price on demand idle hours cost more than is saved."""
    instance = make_instance(commitments={"1-year": {"discount": 0.0}})
    assert say_answer(instance, solve(instance)).endswith("Commit none: idle hours would cost more than that saves.")


def test_spot_has_a_row() -> None:
    """A fifth of the GPUs in use may be on spot, beyond the committed ones."""
    instance = make_instance(spot_market={"discount": 0.5, "share": 0.2})
    rows = list_bills(instance, solve(instance))[0].rows
    assert [next(iter(row)) for row in rows] == ["t4 for 1-year", "t4 on spot", "t4 on demand"]


def test_the_chart_of_gpus_at_once_marks_the_number() -> None:
    """Ten GPUs are committed, which is the median of those in use."""
    instance = make_instance()
    result = solve(instance)
    assert isinstance(result.solution, BoaSolution)
    assert [shape.x0 for shape in draw_demand(instance, result.solution).layout.shapes] == [10.0]


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{"commitments": None}, {"commitments": {"1-year": {"discount": 0.5}}}])
def test_the_page_has_a_section_where_there_are_commitments(fields: dict[str, object]) -> None:
    """And none elsewhere; the frontier is left out where there are some."""
    instance = make_instance(**fields)
    result = solve(instance)
    sections = tell_commitments(instance, result)
    assert bool(sections) == (fields["commitments"] is not None)
    assert ("What to commit" in build_report(instance, result)) == bool(sections)


def test_other_budgets_are_tried() -> None:
    """No frontier is known: some budgets from half to twice are solved for, of which those above 6.25 have a plan."""
    instance = make_instance()
    result = solve(instance)
    beside = gather(instance, result, Beside())
    assert beside.background is None
    assert beside.others is not None
    assert [amount for amount, _, _ in beside.others.results] == pytest.approx(
        [10.0 * 2 ** (n / 4) for n in range(-2, 5)]
    )
    control = presenter_of(instance).build_page(instance, result, beside).control
    assert control is not None
    assert control.data["parts"] == ["widths", "plan", "commitments"]
