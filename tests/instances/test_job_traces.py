"""Job traces: drawn from an instance at its rates, or read from the jobs table of a log."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import optplan
from optplan.errors import DataError, DataWarning, UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.instances.job_traces import draw_trace, read_trace

if TYPE_CHECKING:
    from tests.conftest import Runner

EXAMPLE = Path(__file__).parents[2] / "docs/examples/sacct.txt"
HEADER = "id,class,submit_s,start_s,run_s,gpus,gpu_type,state,completed,size_gpu_hours"
HOURS = [0.0] * 12 + [2.0] * 12


def _instance(**fields: object) -> BoaInstance:
    classes = {
        "a": JobClass(
            arrival_rate_per_hour=6.0,
            epoch_size_gpu_hours=[1.0, 1.0],
            speedup={"t4": {"form": "amdahl", "serial_fraction": 0.1}},
        ).replace(**fields),
        "b": JobClass(
            arrival_rate_per_hour=2.0,
            epoch_size_gpu_hours=[4.0],
            speedup={"t4": {"form": "amdahl", "serial_fraction": 0.0}},
        ),
    }
    return BoaInstance(name="two", classes=classes, gpu_types={"t4": {}}, widths={"max": 8})


def _logged(spread: float) -> dict[str, Any]:
    return {
        "jobs": 9, "measured_jobs": 9, "span_hours": 9.0, "rate_low_per_hour": 5.0, "rate_high_per_hour": 7.0,
        "size_spread": spread, "gpus": 1.0, "run_s": 1.0, "gpu_hours": 1.0, "arrival_error": 0.1, "size_error": 0.1,
    }  # fmt: skip


def _write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return path


def test_rates_of_a_drawn_trace() -> None:
    """In 1,000 hours 6,000 and 2,000 jobs arrive, within five standard deviations, at mean size, in their order."""
    trace = draw_trace(_instance(), span_s=3.6e6, seed=1)
    counts = trace.counts()
    assert counts["a"] == pytest.approx(6000, abs=5 * 6000**0.5)
    assert counts["b"] == pytest.approx(2000, abs=5 * 2000**0.5)
    assert trace.of_class("b").size == counts["b"]
    assert (trace.size == 1.0).all()
    assert np.isnan(trace.gpus).all()
    assert trace.span_s == 3.6e6
    gaps = np.diff(trace.arrive_s[trace.of_class("a")])  # of a Poisson stream as large as they spread: 600 s
    assert gaps.mean() == pytest.approx(600.0, rel=0.07)
    assert gaps.std() == pytest.approx(600.0, rel=0.07)


def test_a_number_of_jobs() -> None:
    """Exactly so many are drawn, the same whatever else is asked; another seed draws others."""
    trace = draw_trace(_instance(), jobs=500, seed=3)
    assert len(trace) == 500
    assert trace.arrive_s[-1] == trace.span_s == pytest.approx(500 / 8 * 3600, rel=0.3)
    longer = draw_trace(_instance(), jobs=900, seed=3)
    np.testing.assert_allclose(longer.arrive_s[:500], trace.arrive_s, rtol=1e-12)
    assert not np.isin(draw_trace(_instance(), jobs=500, seed=4).arrive_s, trace.arrive_s).any()


def test_hours_and_clumps() -> None:
    """No job comes at night, twice as many by day; a dispersion of 3 makes clumps of two that come at once."""
    instance = _instance(arrivals={"hourly": HOURS, "dispersion": 3.0})
    trace = draw_trace(instance, span_s=1000 * 86_400.0)
    times_s = trace.arrive_s[trace.of_class("a")]
    assert (times_s % 86_400 >= 43_200).all()
    assert times_s.size == pytest.approx(144_000, rel=0.02)
    assert np.unique(times_s).size == pytest.approx(72_000, rel=0.02)
    counts = np.histogram(times_s, np.arange(0, 1001 * 43_200, 43_200))[0][1::2]
    assert counts.var() / counts.mean() == pytest.approx(3.0, rel=0.25)


def test_sizes_spread_as_in_the_log() -> None:
    """They have mean 1, and the relative standard deviation of the log; without one they are all the mean."""
    trace = draw_trace(_instance(logged=_logged(1.5)), span_s=3.6e7)
    sizes = trace.size[trace.of_class("a")]
    assert sizes.mean() == pytest.approx(1.0, rel=0.05)
    assert sizes.std() == pytest.approx(1.5, rel=0.15)
    assert (trace.size[trace.of_class("b")] == 1.0).all()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "give one of them"),
        ({"jobs": 3, "span_s": 4.0}, "give one of them"),
        ({"jobs": 0}, "got 0 jobs"),
        ({"span_s": math.inf}, "got inf s"),
        ({"jobs": 10**9}, "jobs are drawn"),
    ],
)
def test_what_cannot_be_drawn(asked: dict[str, Any], message: str) -> None:
    """How many jobs or how long, and no more than fit into memory."""
    with pytest.raises(UsageError, match=message):
        draw_trace(_instance(), **asked)


def test_nobody_arrives() -> None:
    """A span so short that it has no job is refused."""
    with pytest.raises(DataError, match="no job arrives in 1e-09 s"):
        draw_trace(_instance(), span_s=1e-9)


def test_a_jobs_table(tmp_path: Path) -> None:
    """Sizes are relative to the class's mean: 1 of 2 GPU-hours is 0.5, 6 of 4 are 1.5; times count from the first."""
    path = _write(
        tmp_path / "jobs.csv",
        "y,b,1100.0,1160.0,60.0,2,t4,completed,true,6.0",
        "x,a,1000.0,1000.0,90.0,4,t4,completed,true,1.0",
        ",a,,1300.0,,1,t4,running,false,",
    )
    with pytest.warns(DataWarning, match="the sizes of 1 jobs, which are not known"):
        trace = read_trace(path, _instance())
    assert trace.ids.tolist() == ["x", "y", "job-3"]
    assert trace.class_index.tolist() == [0, 1, 0]
    assert trace.arrive_s.tolist() == [0.0, 100.0, 300.0]
    assert trace.size.tolist() == [0.5, 1.5, 1.0]
    assert trace.gpus.tolist() == [4.0, 2.0, 1.0]
    np.testing.assert_equal(trace.wait_s, [0.0, 60.0, np.nan])
    np.testing.assert_equal(trace.run_s, [90.0, 60.0, np.nan])
    assert trace.span_s == 450.0  # a mean gap, 150 s, after the last
    assert "mean of their class" in trace.left_out


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x,c,0,0,1,1,t4,completed,true,1.0", "class 'c' of 1 jobs is not in the instance 'two'.*known: a, b"),
        ("x,c,0,0,1,1,t4,running,false,", "no job of the instance's classes"),
        ("x,a,,,1,1,t4,completed,true,1.0", "submit_s: is missing, and so is start_s"),
        ("x,a,soon,0,1,1,t4,completed,true,1.0", ":2.*submit_s is 'soon'; a number from 0 to"),
        ("x,a,0,0,1,1,t4,completed,true,1e12", r":2.*size_gpu_hours is '1e12'; a number from 0 to 1e\+11 is needed"),
        ("x,a,0,0,1,1,t4,completed,true,-1", ":2.*size_gpu_hours is '-1'"),
        ("x,a,0", ":2.*3 fields where the header has 10"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, row: str, message: str) -> None:
    """Classes that the instance lacks, and what is no number, are named with their place."""
    with pytest.raises(DataError, match=message):
        read_trace(_write(tmp_path / "jobs.csv", row), _instance())


def test_another_table(tmp_path: Path) -> None:
    """A table that lacks a column is told which, and who writes one."""
    path = tmp_path / "jobs.csv"
    path.write_text("id,class\nx,a\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"no column submit_s, .*; found id, class"):
        read_trace(path, _instance())


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_import_log_wrote(run: Runner, tmp_path: Path, suffix: str) -> None:
    """The jobs of a log have the mean size of their class on average, and arrive as often as the class."""
    if suffix == "parquet":
        pytest.importorskip("polars", reason="Parquet needs the extra logs")
    mine, path = tmp_path / "mine.json", tmp_path / f"jobs.{suffix}"
    told = run("import", "log", EXAMPLE, "--from", "sacct", "--class-pattern", "^[a-z]+", "-o", mine, "--jobs", path)
    assert told.code == 0, told.err
    instance = optplan.read_instance(mine)
    assert isinstance(instance, BoaInstance)
    with pytest.warns(DataWarning, match="not known"):
        trace = read_trace(path, instance)
    for name, count in trace.counts().items():
        rate = instance.classes[name].arrival_rate_per_hour
        assert count == pytest.approx(rate * trace.span_s / 3600, rel=1e-2)
        assert trace.size[trace.of_class(name)].mean() == pytest.approx(1.0, rel=1e-3)
    assert len(set(trace.ids.tolist())) == len(trace)


def test_columns_that_do_not_fit() -> None:
    """A trace is refused whose columns differ in length, do not ascend, or name no class."""
    trace = draw_trace(_instance(), jobs=3)
    wrong: tuple[tuple[str, Any, str], ...] = (
        ("size", np.ones(2), "different length"),
        ("size", np.array([1.0, -1.0, 1.0]), "size: not all are numbers"),
        ("class_index", np.array([0, 2, 0]), "there are 2 classes"),
        ("arrive_s", trace.arrive_s[::-1].copy(), "do not ascend"),
    )
    for field, value, message in wrong:
        with pytest.raises(DataError, match=message):
            replace(trace, **{field: value})
    none: dict[str, Any] = {name: column[:0] for name, column in vars(trace).items() if isinstance(column, np.ndarray)}
    with pytest.raises(DataError, match="has no job"):
        replace(trace, **none)
