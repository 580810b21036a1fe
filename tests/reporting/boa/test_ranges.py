"""Ranges in the first words of an answer, what to measure next, and the panels of speedups."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.contracts import Result
from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.reporting.boa.breakdown import require_same_problem
from optplan.reporting.boa.presenter import PRESENTER
from optplan.reporting.boa.ranges import list_measurements, make_measurement_card, say_own, say_range, write_command
from optplan.solving import solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugins.pages import Visitor


def job(speedup: dict[str, Any], **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of the class
    """Return a class of one job an hour of 1 GPU-hour."""
    return {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": speedup} | fields


def build(budget: str, classes: dict[str, Any], **changes: Any) -> BoaInstance:  # noqa: ANN401 - fields
    """Return an instance on one type."""
    types = {"t4": {"price_usd_per_hour": 2.0}}
    fields = {"formulation": "boa", "name": "mine", "problem": "whole", "gpu_types": types, "classes": classes}
    return BoaInstance.parse(fields | {"budget": budget} | changes)


#: On 2 GPUs 1.6 times as fast, from 1.28 to 2 times in truth.
TABLE = {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.6], "error": [0.0, 0.25], "provenance": "fitted"}


def test_first_words_are_a_range() -> None:
    """2250 s on 2 GPUs; 1800 to 3600 s in truth, as 1.5625 of 1.3 GPUs are too many. The plan's own: 2812.5 s."""
    instance = build("1.3gpu", {"job": job({"t4": TABLE})})
    result = solve(instance)
    assert PRESENTER.answer(instance, result) == (
        "With 1.30 GPUs on average, of which 1.25 are used, jobs finish in 37 min 30 s on average. Within the errors "
        "of speedups: 30 min 00 s to 1 h 00 min; job 1 to 2 GPUs."
    )
    counts = {"jobs": 9, "measured_jobs": 9, "size_error": 0.1, "arrival_error": 0.2}
    means = dict.fromkeys(("span_hours", "size_spread", "gpus", "run_s", "gpu_hours"), 1.0)
    logged = counts | means | {"rate_low_per_hour": 0.1, "rate_high_per_hour": 2.0}
    same = instance.replace(classes={"job": instance.classes["job"].replace(logged=logged)})
    assert say_own(same, result).endswith(" Errors of sizes and arrivals come on top (optplan explain --wrong log).")
    assert say_own(instance, result) == (
        " This very plan takes 30 min 00 s to 46 min 53 s then, and uses 1 to 1.56 of a budget of 1.3: it exceeds the "
        "budget where speedups are worse than stated."
    )
    assert make_measurement_card(instance, result) == []  # knowing it makes nothing faster
    assert list_measurements(instance, ()) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda truth: truth["consumption"].clear(), "range: does not say the consumption of budget; solve"),
        (lambda truth: truth["shifts"].update(eval={"t4": 1.0}), "range: speaks of eval on t4, which the instance"),
        (lambda truth: truth["shifts"]["job"].update(h100=0.5), "range: speaks of job on h100, which the instance"),
    ],
)
def test_ranges_of_something_else(change: Callable[[dict[str, Any]], None], message: str) -> None:
    """No verification looks at a range, so that a page does."""
    instance = build("1.3gpu", {"job": job({"t4": TABLE})})
    data = solve(instance).to_json_data()
    change(data["range"]["truths"][1])
    with pytest.raises(DataError, match=message):
        require_same_problem(instance, Result[BoaSolution].parse(data))


def test_budgets_in_money_and_plans_that_keep_them() -> None:
    """1.6 GPUs are enough for 1.5625, at 2 dollars an hour: 1 to 1.5625 of them are 2 to 3.125 dollars."""
    instance = build("3.2usd/hour", {"job": job({"t4": TABLE})})
    result = solve(instance)
    assert say_range(instance, result) == " Within the errors of speedups: 30 min 00 s to 46 min 53 s."
    assert say_own(instance, result).endswith(" then, and uses $2.00 to $3.125 of a budget of $3.20.")


def test_no_plan_at_the_end_of_a_band() -> None:
    """On 2 GPUs alone, which may be too many."""
    instance = build("1.3gpu", {"job": job({"t4": TABLE}, widths={"only": [2]})})
    assert say_range(instance, solve(instance)) == (
        " Within the errors of speedups: 30 min 00 s to no plan within the limits."
    )


def test_a_plan_that_was_not_found_in_time_may_exist() -> None:
    """Where time was too short at the lower end, it is not said that there is no plan."""
    instance = build("1.3gpu", {"job": job({"t4": TABLE})})
    result = solve(instance)
    assert result.range is not None
    first, second, *others = result.range.truths
    truths = (first, second.model_copy(update={"best_objective": None}), *others)
    late = result.replace(range=result.range.replace(truths=truths))
    assert say_range(instance, late).startswith(
        " Within the errors of speedups: 30 min 00 s to no plan found in time; job 1 to"
    )
    assert "range   1,800 s to unknown within the errors of speedups" in str(late)


def test_each_limit_that_may_be_exceeded_is_named() -> None:
    """On 2 GPUs jobs take 37.5 min and 1.25 GPUs, and 46.9 min and 1.56 GPUs at worst: later than 40 min."""
    due = job({"t4": TABLE}, most_mean_jct_s=2400.0)
    for budget, said in (("1.6gpu", "due date of job"), ("1.3gpu", "budget and due date of job")):
        instance = build(budget, {"job": due})
        assert say_own(instance, solve(instance)).endswith(
            f" of a budget of {budget[:3]}: it exceeds the {said} where speedups are worse than stated."
        )


def test_nothing_is_said_without_a_range() -> None:
    """Of exact speedups, and where it was not asked for."""
    instance = build("1.3gpu", {"job": job({"t4": TABLE})})
    result = solve(instance, ranges=False)
    assert (say_range(instance, result), say_own(instance, result)) == ("", "")
    assert make_measurement_card(instance, result) == []


def test_many_classes_are_counted() -> None:
    """Four are named."""
    instance = build("8.4gpu", {f"job{number}": job({"t4": TABLE}) for number in range(7)})
    assert say_range(instance, solve(instance)).endswith("; job4 1 to 2 GPUs; 3 more classes.")


def test_types_are_named() -> None:
    """A width is one of a GPU type."""
    both = {"t4": TABLE, "v100": TABLE | {"speedup": [1.5, 2.4]}}
    types = {"t4": {"price_usd_per_hour": 2.0}, "v100": {"price_usd_per_hour": 3.1}}
    instance = build("2.4usd/hour", {"job": job(both)}, gpu_types=types)
    result = solve(instance)
    assert result.range is not None
    (card,) = make_measurement_card(instance, result)
    assert card.value == "job at 2 v100"
    table = list_measurements(instance, result.range.measurements)
    assert table is not None
    assert [row[:2] for row in table.rows] == [("job", "2 v100"), ("job", "2 t4")]
    assert say_range(instance, result).endswith("; job 2 t4 and 1 to 2 v100.")


def test_command_measures_at_doublings_of_the_reference_width() -> None:
    """Assumed up to 12 GPUs, of sizes on 1: at 1, 2, 4, 8, and the last."""
    law = {"form": "amdahl", "serial_fraction": 0.1, "evidence": "assumed"}
    instance = build("1.5gpu", {"job": job({"t4": law}, widths={"max": 12})})
    result = solve(instance)
    assert result.range is not None
    (measurement,) = result.range.measurements
    assert measurement.worth > 0.0
    command = write_command(instance, measurement.replace(gpus=12))
    assert command == (
        'optplan measure jobs --command "python train.py" --gpus 1,2,4,8,12 --into mine.json --class job --gpu t4 '
        "-o measured.json"
    )
    (card,) = make_measurement_card(instance, result)
    assert (card.name, card.value) == ("measure next", f"job at {measurement.gpus} GPUs")
    spaced = instance.replace(name="my instance", classes={"a job": instance.classes["job"]})
    command = write_command(spaced, measurement.replace(subject="a job"))
    assert shlex.split(command)[7:13] == ["--into", "my instance.json", "--class", "a job", "--gpu", "t4"]


@pytest.mark.slow
def test_panels_show_points_band_and_chosen_width() -> None:
    """One for each of the twelve classes with most GPUs: an open point where nothing was measured, and a diamond."""
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    from optplan.reporting.boa.speedups import draw_speedups, tell_speedups

    exact = TABLE | {"error": None, "provenance": "measured"}
    classes = {f"job{number:02}": job({"t4": TABLE}, arrival_rate_per_hour=1.0 + number) for number in range(13)}
    instance = build("300gpu", classes | {"exact": job({"t4": exact}, arrival_rate_per_hour=50.0)})
    result = solve(instance)
    drawn = draw_speedups(instance, result)
    assert list(drawn) == ["exact", *(f"job{number:02}" for number in range(12, 1, -1))]
    band, curve, chosen = drawn["job12"].data
    assert list(band.y) == pytest.approx([1.0, 2.0, 1.28, 1.0])
    assert (list(curve.x), list(curve.y)) == ([1, 2], [1.0, 1.6])
    assert set(curve.marker.symbol) == {"circle-open"}
    assert (list(chosen.x), list(chosen.y)) == ([2], [1.6])
    curve, _ = drawn["exact"].data
    assert set(curve.marker.symbol) == {"circle"}
    assert "Shown are the 12 classes" in str(tell_speedups(instance, result).blocks[0])


def test_panels_of_thousands_of_widths_stay_small() -> None:
    """Of 4,096 widths of a law some are drawn, the first and the last among them."""
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    from optplan.reporting.boa.speedups import draw_speedups

    law = {"form": "amdahl", "serial_fraction": 0.001}
    instance = build("2000gpu", {"law": job({"t4": law}, widths={"max": 4096})})
    (figure,) = draw_speedups(instance, solve(instance)).values()
    line = next(trace for trace in figure.data if trace.name == "t4")
    assert (line.x[0], line.x[-1], len(line.x) <= 200) == (1, 4096, True)


def test_report_opens_with_its_panels(visit: Visitor, tmp_path: Path) -> None:
    """Everything drawn, nothing overflows on a phone, and the measurement with its command is there."""
    for package in ("plotly", "jinja2", "playwright"):
        pytest.importorskip(package, reason=f'{package} is not installed; pip install "optplan[test]" brings it')
    from optplan.reporting.presenters import Beside
    from optplan.reporting.reports import build_report

    law = {"form": "amdahl", "serial_fraction": 0.1, "evidence": "assumed"}
    rows = {"form": "table", "gpus": [1, 2, 4], "speedup": [[1, 1.9, 3.4], [1, 1.5, 2.0]], "error": 0.1}
    classes = {"law": job({"t4": law}, widths={"max": 12}), "rows": job({"t4": rows}, epoch_size_gpu_hours=[1, 2])}
    instance = build("6gpu", classes)
    opened = visit(build_report(instance, solve(instance), Beside()), tmp_path, 400)
    assert opened.complaints == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 400
    assert opened.page.locator("#speedups .chart").count() == 2
    assert opened.read_back() == []
    assert "optplan measure jobs" in opened.page.locator("#speedups pre").inner_text()
    assert "Within the errors of speedups" in opened.page.locator("h1").inner_text()
