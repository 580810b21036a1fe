"""The log beside the plan: figures by hand, and nothing where there is no log."""

from __future__ import annotations

from typing import Any

import pytest

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting.boa.logs import compare_with_log, list_logged, tell_log
from optplan.solving import solve

#: Ten jobs, one in ten hours, for two hours on four GPUs each.
LOGGED: dict[str, Any] = {
    "jobs": 10,
    "measured_jobs": 8,
    "span_hours": 100.0,
    "rate_low_per_hour": 0.048,
    "rate_high_per_hour": 0.184,
    "dispersion": 2.5,
    "size_spread": 0.25,
    "gpus": 4.0,
    "run_s": 7200.0,
    "wait_s": 600.0,
    "gpu_hours": 8.0,
    "arrival_error": 0.5,
    "size_error": 0.1,
}


def _build(**changes: object) -> BoaInstance:
    """Return one class whose jobs take 4 h on one GPU and 2.5 h on two."""
    table = {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.6]}
    job = {"arrival_rate_per_hour": 0.1, "epoch_size_gpu_hours": [4.0], "speedup": {"t4": table}, **changes}
    types = {"t4": {"price_usd_per_hour": 2.0}}
    return BoaInstance.parse({"formulation": "boa", "classes": {"a": job}, "gpu_types": types, "budget": "0.5gpu"})


def _rows(table: Any) -> list[list[str]]:  # noqa: ANN401 - a table, or nothing
    return [[getattr(cell, "text", cell) for cell in row.cells] for row in table.set_rows]


def test_what_the_log_says_of_each_class() -> None:
    """Jobs, their interval, how uneven they come, and of how many the size is known."""
    (row,) = _rows(list_logged(_build(logged=LOGGED)))
    assert row == ["a", "10", "0.048 to 0.184", "x 2.5", "4", "10 min 00 s", "2 h 00 min", "8", "25 %"]


def test_the_log_beside_the_plan() -> None:
    """Within half a GPU jobs get two: 2.5 h and 5 GPU-hours; for 2 dollars and a tenth of a job an hour, 730 hours."""
    instance = _build(logged=LOGGED)
    row, total = _rows(compare_with_log(instance, solve(instance)))
    # 8 GPU-hours of the log are 0.1 * 8 * 2 * 730 = 1,168 dollars a month, 5 of the plan 730.
    figures = ["4", "10 min 00 s", "2 h 00 min", "8", "2", "2 h 30 min", "5", "$1,168", "$730"]
    assert (row, total) == (["a", *figures], ["all jobs", *figures])


def test_both_tables_give_a_class_the_same_gpus() -> None:
    """Half the jobs hold 2 GPUs for 3 h, half 8 for 1 h: 14 GPU-hours in 4 h, 3.5 GPUs at a time, though 5 by job."""
    instance = _build(logged=LOGGED | {"gpus": 5.0, "gpu_hours": 7.0, "run_s": 7200.0})
    logged, compared = list_logged(instance), compare_with_log(instance, solve(instance))
    assert _rows(logged)[0][4] == _rows(compared)[0][1] == "3.50"


def test_a_log_without_waits_and_prices() -> None:
    """Nothing is said of what nobody knows."""
    logged = {name: figure for name, figure in LOGGED.items() if name != "wait_s"} | {"dispersion": 1.0}
    instance = _build(logged=logged)
    instance = instance.replace(gpu_types={"t4": {}})
    assert _rows(list_logged(instance))[0][3:6] == ["-", "4", "-"]
    row, total = _rows(compare_with_log(instance, solve(instance)))
    assert len(row) == len(total) == 8
    assert (row[2], total[2]) == ("-", "-")


def test_nothing_without_a_log() -> None:
    """Neither tables nor a section."""
    instance = _build()
    result = solve(instance)
    assert list_logged(instance) is None
    assert compare_with_log(instance, result) is None
    assert tell_log(instance, result) == []


@pytest.mark.parametrize("budget", ["0.5gpu", "0.01gpu"])
def test_the_section_of_a_report(budget: str) -> None:
    """Without a plan the log is shown alone."""
    instance = _build(logged=LOGGED).replace(budget=budget)
    (section,) = tell_log(instance, solve(instance))
    assert len(section.blocks) == (3 if budget == "0.5gpu" else 1)
