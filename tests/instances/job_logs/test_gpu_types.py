"""Logs of several GPU types: how these compare, by classes that ran on several, and where the others stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.job_logs.boa import LogTerms, build_log_instance
from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.gpu_types import list_types
from optplan.instances.job_logs.records import LeftOut, Row
from optplan.instances.job_logs.speedups import Measured, SpeedupSources
from optplan.speedup import TableSpeedup

pytestmark = pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")

WIDTHS = np.array([1, 2, 4])


def _run(kind: str, hours: float, gpus: int = 1, *, completed: bool = True) -> Row:
    return Row("", "", "job", "", 0.0, 0.0, 3600.0 * hours, gpus, kind, "", 0, completed)


def _build(
    classes: Mapping[str, Sequence[Row]], left_out: LeftOut | None = None, **options: bool | str | int
) -> BoaInstance:
    """Build an instance of jobs that came in 100 hours; speedups are linear unless the log says them."""
    terms = LogTerms("mine", {}, "by hand", since_s=0.0, until_s=360000.0, **options)  # type: ignore[arg-type]
    sources = SpeedupSources(Measured({}), {"": "linear"})
    return build_log_instance({name: Jobs.of(rows) for name, rows in classes.items()}, sources, terms, left_out)[0]


def _table(instance: BoaInstance, name: str, gpu_type: str) -> TableSpeedup:
    curve = instance.classes[name].speedup[gpu_type]
    assert isinstance(curve, TableSpeedup)
    return curve


#: Jobs of 4 and 9 hours on three old GPUs, of 2 and 4.5 on new ones: twice as fast by the geometric means 6 and 3.
BOTH = [_run("old", 4.0), _run("old", 9.0), _run("old", 6.0), _run("new", 2.0), _run("new", 4.5)]


def test_a_class_on_two_types_says_how_they_compare() -> None:
    """Sizes of 4, 6 and 9 h by 2 and 4.5: twice as fast, within Student's 90 % band of 3 degrees of freedom."""
    instance = _build({"a": BOTH}, max_width=4)
    assert list(instance.gpu_types) == ["old", "new"]
    table = _table(instance, "a", "new")
    assert table.gpus.tolist() == [1, 2, 3, 4]
    # Old is the reference, with three runs of five; a linear curve, times two.
    assert table.speedup == pytest.approx([2.0, 4.0, 6.0, 8.0])
    # Deviations of the logarithm are ln 1.5 four times and 0: s^2 = 4 ln(1.5)^2 / 3; t(0.95, 3) = 2.3534.
    standard = np.log(1.5) * np.sqrt(4 / 3 * (1 / 3 + 1 / 2))
    low, high = table.band_at(np.array([1]), 1)
    assert high[0, 0] == pytest.approx(2.0 * np.exp(2.3534 * standard), rel=1e-3)
    assert low[0, 0] * high[0, 0] == pytest.approx(4.0)
    # Sizes are times on one old GPU: (4 + 9 + 6 + 4 + 9) / 5.
    assert instance.classes["a"].size_gpu_hours == pytest.approx(6.4)
    assert "new is 2 times as fast by 2 runs, within" in instance.source["speedups"]
    assert instance.source["GPU types"].endswith("on others classes do not run")


def test_runs_at_several_widths_give_a_type_a_curve_of_its_own() -> None:
    """Linear on the new type, k^0.5 on the old one, on which there are more runs; one new GPU is twice an old one."""
    old = [_run("old", 8.0 / k**0.5 * factor, k) for k in (1, 4, 16) for factor in (0.9, 1.0, 1 / 0.9)]
    new = [_run("new", 4.0 / k * factor, k) for k in (1, 2, 4) for factor in (0.9, 1 / 0.9)]
    instance = _build({"a": [*old, *new]}, max_width=16)
    assert instance.classes["a"].speedup["old"].at(WIDTHS)[0] == pytest.approx(WIDTHS**0.5, rel=1e-3)
    assert _table(instance, "a", "new").at(WIDTHS)[0] == pytest.approx(2.0 * WIDTHS, rel=1e-3)
    assert set(_table(instance, "a", "new").provenance or ()) == {"fitted"}


def test_classes_on_one_type_stay_there() -> None:
    """Class b ran on old GPUs only, whatever class a says of new ones."""
    kept = _build({"a": BOTH, "b": [_run("old", 1.0), _run("old", 2.0)]})
    assert set(kept.classes["b"].speedup) == {"old"}


def test_a_stated_curve_is_scaled_and_says_no_more_than_it_did() -> None:
    """What is assumed on one type is assumed on the other, too."""
    terms = LogTerms("mine", {}, "by hand", since_s=0.0, until_s=360000.0, max_width=2)
    sources = SpeedupSources(Measured({}), {"a": "amdahl:1"})
    instance, sizes = build_log_instance({"a": Jobs.of(BOTH)}, sources, terms)
    assert _table(instance, "a", "new").speedup == pytest.approx([2.0, 2.0])
    assert set(_table(instance, "a", "new").provenance or ()) == {"assumed"}
    assert sizes["a"] == pytest.approx([4.0, 9.0, 6.0, 4.0, 9.0])


def test_what_cannot_be_compared_is_told() -> None:
    """No run completed on the new type, and one job does not say its type: both have come, and are of no known size."""
    rows = [_run("old", 1.0), _run("old", 2.0), _run("new", 1.0, completed=False), _run("", 5.0)]
    left_out = LeftOut()
    instance = _build({"a": rows, "b": BOTH}, left_out)
    logged = instance.classes["a"].logged
    assert logged is not None
    assert (logged.jobs, logged.measured_jobs) == (4, 2)
    assert set(instance.classes["a"].speedup) == {"old"}
    assert "1 sizes of jobs whose GPU type is not said (first: a)" in str(left_out)
    assert "1 sizes of jobs on a GPU type that their class's completed runs do not compare" in str(left_out)


def test_a_class_that_does_not_say_its_type_is_refused() -> None:
    """Of two types nobody knows which it was."""
    with pytest.raises(DataError, match=r"classes\.b: no run says on which of old, new it was; .* as in --gpu old"):
        _build({"a": BOTH, "b": [_run("", 1.0)]})


def test_a_type_that_is_chosen_is_the_only_one() -> None:
    """As is one that the log does not name, under a name of ours."""
    assert list(_build({"a": [_run("", 1.0), _run("", 2.0)]}).gpu_types) == ["gpu"]
    assert list(_build({"a": [_run("", 1.0), _run("", 2.0)]}, gpu_type="t4").gpu_types) == ["t4"]
    assert list_types({"a": Jobs.of(BOTH)}) == ["old", "new"]


def test_the_order_of_jobs_and_classes_does_not_matter() -> None:
    """Nor does that of the types with it."""
    classes = {"a": BOTH, "b": [_run("old", 1.0), _run("old", 2.0)]}
    turned = {name: classes[name][::-1] for name in ("b", "a")}
    first, second = (_build(each).to_json_data() for each in (classes, turned))
    assert first["gpu_types"] == second["gpu_types"]
    for name in classes:
        assert first["classes"][name] == second["classes"][name]
