"""Instances from logs: rates, sizes, what they rest on, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from optplan.errors import DataError, DataWarning
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import Widths
from optplan.instances.job_logs.boa import LogTerms, build_log_instance
from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.records import LeftOut, Row
from optplan.instances.job_logs.speedups import Measured, SpeedupSources, Throughputs

HOUR = 3600.0

#: Few jobs are pointed out, which is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore:.*rests on:optplan.errors.DataWarning")


def _job(submit_h: float, hours: float | None = 2.0, gpus: int = 2, kind: str = "t4") -> Row:
    run_s = None if hours is None else HOUR * hours
    return Row("", "", "job", "", HOUR * submit_h, HOUR * submit_h + 600.0, run_s, gpus, kind, "", 0)


def _build(
    classes: Mapping[str, Sequence[Row]],
    *,
    assumed: Mapping[str, str] | None = None,
    throughputs: Throughputs | None = None,
    pauses: Mapping[str, float] | None = None,
    fit_runs: Mapping[str, str] | None = None,
    left_out: LeftOut | None = None,
    **terms: object,
) -> BoaInstance:
    given: dict[str, object] = {"since_s": 0.0, "until_s": 100 * HOUR, **terms}
    stated = {"": "linear"} if assumed is None else assumed
    sources = SpeedupSources(Measured(throughputs or {}, pauses or {}), stated, fit_runs=fit_runs or {})
    made = LogTerms("mine", {"log": "jobs.txt"}, "by hand", **given)  # type: ignore[arg-type]
    return build_log_instance({name: Jobs.of(jobs) for name, jobs in classes.items()}, sources, made, left_out)[0]


def test_rates_and_sizes_by_hand() -> None:
    """Four jobs in 100 h of 2, 4, 6 and 8 h on two GPUs that are twice as fast: 10 h on one, 0.04 an hour."""
    instance = _build({"a": [_job(hour, hours) for hour, hours in ((5, 2.0), (30, 4.0), (60, 6.0), (99, 8.0))]})
    job_class = instance.classes["a"]
    assert job_class.arrival_rate_per_hour == pytest.approx(0.04)
    assert job_class.epoch_size_gpu_hours.tolist() == pytest.approx([10.0])
    logged = job_class.logged
    assert logged is not None
    assert (logged.jobs, logged.measured_jobs, logged.gpus, logged.run_s, logged.wait_s) == (4, 4, 2.0, 18000.0, 600.0)
    # Sizes 4, 8, 12, 16: standard deviation sqrt(80 / 3) = 5.164, of 10; its error is half of that, the rate's 1 / 2.
    assert logged.size_spread == pytest.approx(0.5164, rel=1e-4)
    assert [logged.size_error, logged.arrival_error] == pytest.approx([0.2582, 0.5], rel=1e-4)
    assert logged.gpu_hours == pytest.approx(10.0)
    assert list(instance.gpu_types) == ["t4"]


def test_a_fitted_law_goes_to_twice_the_widest_that_ran() -> None:
    """Class a ran on 1, 2 and 4 GPUs, b on 64: a has up to 8, and 64 where the user says it or its law is assumed."""
    ran = [_job(n, 8.0 * (0.1 + 0.9 / gpus) * (1.0 + 0.1 * (n % 2)), gpus) for n in range(4) for gpus in (1, 2, 4)]
    classes = {"a": ran, "b": [_job(n, gpus=64) for n in range(3)]}
    for given, stated, most in ((None, {"b": "linear"}, 8), (64, {}, 64), (None, {"a": "linear"}, 64)):
        built = _build(classes, assumed=stated, max_width=given)
        assert built.classes["a"].widths == Widths(max=most)


def test_everything_assumed_is_said() -> None:
    """The law, one epoch, no pauses, the widest width; nothing of it where the user says it."""
    said = _build({"a": [_job(1), _job(2)]}).source
    assert said["speedups"] == "a: assumed: linear"
    assert said["epochs"].startswith("assumed: one")
    assert said["pauses"].startswith("assumed: none; the log does not say")
    assert said["largest width"].startswith("8, assumed")
    told = _build({"a": [_job(1), _job(2)]}, epochs={"": (1.0, 3.0)}, rescale_s=30.0, max_width=16)
    assert not {"epochs", "pauses"} & set(told.source)
    assert told.source["largest width"] == "16, as given"
    assert told.classes["a"].epoch_size_gpu_hours.tolist() == pytest.approx([1.0, 3.0])
    assert told.classes["a"].rescale_s == 30.0


def test_pauses_that_were_measured() -> None:
    """They hold for their class, unless the user states one for all."""
    jobs = {"a": [_job(1), _job(2)], "b": [_job(1), _job(2)]}
    instance = _build(jobs, pauses={"a": 40.0})
    assert [each.rescale_s for each in instance.classes.values()] == [40.0, 0.0]
    assert instance.source["pauses"].startswith("measured: a; assumed of b: none")
    stated = _build(jobs, pauses={"a": 40.0}, rescale_s=7.0)
    assert [each.rescale_s for each in stated.classes.values()] == [7.0, 7.0]


def test_arrivals_without_a_size_count_as_arrivals() -> None:
    """Of three jobs one runs still: three arrivals, the mean of two sizes."""
    instance = _build({"a": [_job(1, 2.0), _job(2, 4.0), _job(3, None)]})
    logged = instance.classes["a"].logged
    assert logged is not None
    assert (logged.jobs, logged.measured_jobs) == (3, 2)
    assert instance.classes["a"].size_gpu_hours == pytest.approx(6.0)


def test_widths_beyond_a_table_count_as_arrivals() -> None:
    """The table ends at four GPUs; a job on eight has no size."""
    table: Throughputs = {"a": ([2, 4], [10.0, 18.0])}
    left_out = LeftOut()
    instance = _build({"a": [_job(1), _job(2, gpus=8)]}, throughputs=table, left_out=left_out)
    assert instance.classes["a"].reference_width == 2
    assert instance.classes["a"].size_gpu_hours == pytest.approx(2.0)
    assert "1 sizes of jobs at widths beyond their table (first: a on 8 GPUs)" in instance.source["left out"]


def test_a_class_with_one_job() -> None:
    """It is pointed out, its rate lies between a fortieth and five times the estimate, its spread is the others'."""
    with pytest.warns(DataWarning, match=r"classes\.b: its size rests on one job"):
        instance = _build({"a": [_job(hour, 1.0 + hour % 2) for hour in range(40)], "b": [_job(5, 1.0)]})
    a, b = instance.classes["a"].logged, instance.classes["b"].logged
    assert a is not None
    assert b is not None
    assert b.size_spread == a.size_spread
    assert [b.rate_low_per_hour, b.rate_high_per_hour] == pytest.approx([0.000253, 0.0557], rel=1e-2)


def test_the_span_of_a_log_that_nobody_gives() -> None:
    """Five arrivals in eight hours: a mean gap of two after the last makes ten hours."""
    instance = _build({"a": [_job(2 * number) for number in range(5)]}, since_s=None, until_s=None)
    assert instance.classes["a"].arrival_rate_per_hour == pytest.approx(0.5)
    assert "a mean gap after the last submission" in instance.source["arrival rates"]


def test_arrivals_in_clumps_are_said() -> None:
    """Twenty at once, in two of 100 hours."""
    instance = _build({"a": [_job(hour + 0.5) for hour in (3, 70) for _ in range(20)]})
    logged = instance.classes["a"].logged
    assert logged is not None
    assert logged.dispersion > 10
    assert "more uneven than by chance, as variance over mean in 1-h bins: a 20;" in instance.source["arrival rates"]


@pytest.mark.parametrize(
    ("classes", "options", "message"),
    [
        ({"a": [_job(1, None)]}, {}, r"no job has a known size; 1 jobs of classes of which none has a known size \(f"),
        ({"a": [_job(1), _job(1)]}, {"since_s": None, "until_s": None}, r"span: covers no time: .*--since and --until"),
        ({"a": [_job(1)]}, {"assumed": {"b": "linear"}}, r"--assume: there is no class 'b'; known: a"),
        ({"a": [_job(1)]}, {"fit_runs": {"b": "all"}}, r"--fit-runs: there is no class 'b'; known: a"),
        ({"a": [_job(1)]}, {"epochs": {"b": (1.0,)}}, r"--epochs: there is no class 'b'; known: a"),
        ({"a": [_job(1)]}, {"throughputs": {"a": ([4, 8], [1.0, 2.0])}}, r"jobs ran on \[2\] GPUs, which its table"),
    ],
)
def test_logs_that_make_no_instance(
    classes: Mapping[str, Sequence[Row]], options: dict[str, object], message: str
) -> None:
    """Each with what to do."""
    with pytest.raises(DataError, match=message):
        _build(classes, **options)  # type: ignore[arg-type]
