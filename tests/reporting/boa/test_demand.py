"""GPUs in use at once, as a terminal and a page show them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import ArrivalPattern, JobClass
from optplan.reporting.boa.demand import draw_demand, list_demand, say_demand, tell_demand
from optplan.reporting.pages import Page, build_page
from optplan.solving import solve
from optplan.speedup import TableSpeedup

if TYPE_CHECKING:
    from tests.plugins.pages import Visitor


def make_instance(pattern: ArrivalPattern | None = None, **fields: object) -> BoaInstance:
    """Return a job an hour that holds a GPU for an hour."""
    table = TableSpeedup(gpus=np.array([1]), speedup=np.array([1.0]))
    job = JobClass(arrival_rate_per_hour=1.0, epoch_size_gpu_hours=[1.0], speedup={"t4": table}, arrivals=pattern)
    given = {"gpu_types": {"t4": GpuType(gpus_per_node=4)}, "budget": "1gpu", **fields}
    return BoaInstance.parse({"classes": {"job": job}, "problem": "whole", **given})


def test_steady_figures_are_called_so() -> None:
    """Without patterns there is one row, under its name, and the assumption is said."""
    instance = make_instance()
    result = solve(instance)
    table = list_demand(instance, result)
    assert table is not None
    assert table.rows == [["all, if arrivals were steady", "1", "1", "3", "4"]]
    said = say_demand(instance, result)
    assert "assumed to be steady" in said[0]
    assert "nodes of 4 t4" in said[1]


def test_patterns_come_first() -> None:
    """With a pattern, its row comes first, with the busiest hour; the chart has both lines."""
    instance = make_instance(ArrivalPattern(hourly=[24.0, *[0.0] * 23]))
    result = solve(instance)
    table = list_demand(instance, result)
    assert table is not None
    assert [next(iter(row)) for row in table.rows] == ["all", "all, if arrivals were steady"]
    assert [column.name for column in table.columns] == ["GPUs", "mean", "P50", "P95", "P99", "busiest hour's P95"]
    assert result.solution is not None
    assert [line.name for line in draw_demand(instance, result.solution).data] == [
        "all",
        "all, if arrivals were steady",
    ]
    assert "clumps" in say_demand(instance, result)[0]


def test_a_browser_draws_both_lines(visit: Visitor, tmp_path: Path) -> None:
    """By pattern and steady, on a phone."""
    instance = make_instance(ArrivalPattern(hourly=[24.0, *[0.0] * 23]))
    opened = visit(build_page(Page("", "Demand", sections=tell_demand(instance, solve(instance)))), tmp_path, 400)
    assert opened.page.locator("#chart-demand-1 .scatterlayer .js-line").count() == 2
    assert (opened.complaints, opened.list_collisions(), opened.read_back()) == ([], [], [])


def test_a_result_without_a_plan_has_no_section() -> None:
    """An infeasible budget shows nothing of demand."""
    instance = make_instance(budget="0.5gpu")
    assert tell_demand(instance, solve(instance)) == []
