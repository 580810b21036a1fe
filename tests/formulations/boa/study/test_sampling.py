"""Sampled errors: factors of mean 1 and the stated spread, the same for the same seed, applied where they belong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.study.sensitivity import (
    EstimateErrors,
    apply_factors,
    draw_factors,
    list_errors,
    logged_errors,
)
from optplan.instances.files import read_instance
from optplan.schema import FloatArray

#: Samples of the statistical tests; all limits below are four standard errors.
SAMPLES = 2000


def table(*speeds: float) -> dict[str, Any]:
    """Return a speedup on 1, 2 and 4 GPUs."""
    return {"form": "table", "gpus": [1, 2, 4], "speedup": list(speeds)}


def build(**changes: Any) -> BoaInstance:  # noqa: ANN401 - fields of the instance
    """Return two classes on one type; sizes of the second are times on 2 GPUs."""
    job = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0, 3.0], "speedup": {"v100": table(1.0, 1.6, 2.0)}}
    other = job | {"reference_width": 2, "speedup": {"v100": table(0.6, 1.0, 1.5)}}
    fields: dict[str, Any] = {
        "formulation": "boa",
        "classes": {"first": job, "second": other},
        "gpu_types": {"v100": {}},
        "budget": "10gpu",
        "problem": "whole",
    }
    return BoaInstance.parse(fields | changes)


def build_types() -> BoaInstance:
    """Return one class on two types."""
    speedup = {"t4": table(1.0, 1.6, 2.0), "a100": table(2.0, 4.0, 7.0)}
    return build(
        classes={"job": {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": speedup}},
        gpu_types={"t4": {}, "a100": {}},
    )


def draw(instance: BoaInstance, name: str, **errors: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the factors (S,), (S,), (S, K) of a class's arrivals, sizes and speeds in many samples."""
    sizes = EstimateErrors.parse(errors)
    drawn = [draw_factors(instance, sizes, seed=7, number=number)[name] for number in range(SAMPLES)]
    return (
        np.array([each.arrival for each in drawn]),
        np.array([each.size for each in drawn]),
        np.array([np.atleast_2d(each.speed)[0] for each in drawn]),
    )


def assert_spread(factors: FloatArray, error: float) -> None:
    """Mean 1 and relative standard deviation ``error``, each within four standard errors of the estimate."""
    deviation = factors - 1.0
    assert abs(deviation.mean()) <= 4 * factors.std() / math.sqrt(SAMPLES)
    square = deviation**2
    assert abs(square.mean() - error**2) <= 4 * square.std() / math.sqrt(SAMPLES)


def test_every_error_has_mean_one_and_its_stated_spread() -> None:
    """Arrivals, sizes, the noise of single widths, and the speed at the width farthest from the reference."""
    arrival, size, speed = draw(build(), "first", arrival=0.2, size=0.3, noise=0.1)
    assert_spread(arrival, 0.2)
    assert_spread(size, 0.3)
    assert_spread(speed[:, 1], 0.1)
    assert_spread(speed[:, 2], 0.1)
    _, _, speed = draw(build(), "first", speedup=0.1)
    assert_spread(speed[:, 2], 0.1)
    # Half as far on the logarithmic scale: half the deviation of the logarithm, which is sqrt(log(1 + 0.1^2)).
    assert_spread(speed[:, 1], math.sqrt(math.expm1(math.log1p(0.1**2) / 4)))


def test_nothing_is_wrong_at_the_reference_width() -> None:
    """Sizes are times there, so the speed is 1 by definition."""
    _, _, speed = draw(build(), "first", speedup=0.1, noise=0.2)
    assert (speed[:, 0] == 1.0).all()
    _, _, speed = draw(build(), "second", speedup=0.1, noise=0.2)
    assert (speed[:, 1] == 1.0).all()


def test_scaling_better_means_slower_below_the_reference_width() -> None:
    """As of a wrong exponent: with z and -z the product of the factors at 1 and 4 GPUs is exp(-sigma^2)."""
    _, _, speed = draw(build(), "second", speedup=0.1)
    assert speed[:, 0] * speed[:, 2] == pytest.approx(1 / 1.01)
    assert_spread(speed[:, 0], 0.1)


def test_errors_are_independent() -> None:
    """Of one another and between classes, to four standard errors of a correlation; what is not asked for is exact."""
    errors = {"arrival": 0.2, "size": 0.3, "speedup": 0.1}
    columns = [column for name in ("first", "second") for column in draw(build(), name, **errors)[:2]]
    columns += [draw(build(), name, **errors)[2][:, 2] for name in ("first", "second")]
    correlation = np.corrcoef(columns) - np.eye(len(columns))
    assert np.abs(correlation).max() <= 4 / math.sqrt(SAMPLES)
    arrival, size, speed = draw(build(), "first", arrival=0.2)
    assert arrival.std() > 0
    assert (size == 1.0).all()
    assert (speed == 1.0).all()


def test_several_types_are_wrong_as_wholes_too() -> None:
    """The speed of a whole type at the reference width; at the widest both errors: (1 + e^2)^2 - 1 is the variance."""
    _, _, speed = draw(build_types(), "job", speedup=0.1)
    assert_spread(speed[:, 0], 0.1)
    assert_spread(speed[:, 3], 0.1)
    assert_spread(speed[:, 5], math.sqrt(1.01**2 - 1))
    assert abs(np.corrcoef(speed[:, 0], speed[:, 3])[0, 1]) <= 4 / math.sqrt(SAMPLES)


def test_noise_with_several_types_has_no_exact_width() -> None:
    """No speed is 1 by definition there."""
    _, _, speed = draw(build_types(), "job", noise=0.1)
    for column in range(6):
        assert_spread(speed[:, column], 0.1)


def test_seed_and_number_make_the_sample() -> None:
    """Whatever was drawn before; another number or seed makes another sample; asking for more errors changes none."""
    errors = EstimateErrors(speedup=0.1, arrival=0.2)

    def arrivals(seed: int, number: int, errors: EstimateErrors = errors) -> list[float]:
        return [each.arrival for each in draw_factors(build(), errors, seed=seed, number=number).values()]

    first = arrivals(1, 5)
    arrivals(1, 6)
    assert arrivals(1, 5) == first
    assert arrivals(1, 6) != first
    assert arrivals(2, 5) != first
    assert arrivals(1, 5, EstimateErrors(noise=0.3, size=1.0, arrival=0.2)) == first


def test_factors_are_applied_where_they_belong() -> None:
    """Rates, sizes and the speeds at the allowed widths, formulas included; everything else stays as estimated."""
    instance = read_instance("boa-two-classes")
    assert isinstance(instance, BoaInstance)
    factors = draw_factors(instance, EstimateErrors(speedup=0.1, noise=0.1, size=0.1, arrival=0.1), seed=0, number=0)
    truth = apply_factors(instance, factors)
    for name, job_class in instance.classes.items():
        drawn, true = factors[name], truth.classes[name]
        assert true.arrival_rate_per_hour == job_class.arrival_rate_per_hour * drawn.arrival
        assert (true.epoch_size_gpu_hours == job_class.epoch_size_gpu_hours * drawn.size).all()
        assert (truth.allowed_widths(name) == instance.allowed_widths(name)).all()
        assert (truth.speeds(name) == instance.speeds(name) * drawn.speed).all()
        assert true.rescale_s == job_class.rescale_s
    assert (truth.limits, truth.policy, truth.problem) == (instance.limits, instance.policy, instance.problem)


def test_one_row_of_speeds_stands_for_all_epochs() -> None:
    """In the truth as in the estimates."""
    instance = build()
    factors = draw_factors(instance, EstimateErrors(speedup=0.1), seed=0, number=0)
    truth = apply_factors(instance, factors)
    assert (truth.speeds("first") == np.array([1.0, 1.6, 2.0]) * factors["first"].speed).all()
    assert truth.classes["first"].num_epochs == 2


def test_truth_of_a_spot_type_keeps_the_widths_that_finish() -> None:
    """Widths on which no job ever finishes are not allowed in the estimates, and not in the truth."""
    spot = {"interruptions_per_gpu_hour": 0.5, "restart_s": 1800, "lost_work_s": 1800}
    with pytest.warns(UserWarning, match="these widths are left out"):
        instance = build(gpu_types={"v100": {"spot": spot}})
    truth = apply_factors(instance, draw_factors(instance, EstimateErrors(size=0.1), seed=0, number=0))
    # 1 - 0.5 k (0.5 + 0.5) is positive for 1 GPU only.
    assert truth.allowed_widths("first").tolist() == instance.allowed_widths("first").tolist() == [1]


def test_continuous_problem_is_sampled_as_it_is_run() -> None:
    """A table says nothing about real widths."""
    instance = build(problem="continuous", policy="mixed")
    factors = draw_factors(instance, EstimateErrors(size=0.1), seed=0, number=0)
    with pytest.raises(ValueError, match="whole widths; sample the problem that it is run as"):
        apply_factors(instance, factors)


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ({"size": -0.1}, r"size: got -0\.1; input should be greater than or equal to 0"),
        ({"size": 2.5}, r"size: got 2\.5; input should be less than or equal to 2"),
        ({"size": "10%"}, "size: got '10%'"),
        ({"speed": 0.1}, "speed: unknown field 'speed'; did you mean 'speedup'"),
    ],
)
def test_errors_that_are_refused(errors: dict[str, Any], message: str) -> None:
    """Out of range, not a number, unknown."""
    with pytest.raises(DataError, match=message):
        EstimateErrors.parse(errors)


def test_errors_of_single_classes() -> None:
    """They take the place of those of all, kind by kind; what is drawn for other classes stays the same."""
    instance = build()
    alike = draw_factors(instance, EstimateErrors(arrival=0.2, size=0.1), seed=0, number=0)
    own = EstimateErrors(arrival=0.2, size=0.1, by_class={"first": {"arrival": 0.0, "speedup": 0.3}})
    drawn = draw_factors(instance, own, seed=0, number=0)
    assert (drawn["first"].arrival, drawn["first"].size) == (1.0, alike["first"].size)
    assert drawn["first"].speed.tolist() != alike["first"].speed.tolist()
    assert (drawn["second"].arrival, drawn["second"].size) == (alike["second"].arrival, alike["second"].size)
    assert EstimateErrors(by_class={"first": {"arrival": 0.0}}).are_zero
    assert not own.are_zero


def test_errors_that_a_log_says() -> None:
    """Those of the record that an import leaves; none for classes without one, none of zero, none that is left out."""
    logged = {
        "jobs": 4,
        "measured_jobs": 4,
        "span_hours": 100.0,
        "rate_low_per_hour": 0.01,
        "rate_high_per_hour": 0.1,
        "size_spread": 0.4,
        "gpus": 2.0,
        "run_s": 60.0,
        "gpu_hours": 1.0,
        "arrival_error": 0.5,
        "size_error": 0.2,
    }
    instance = build()
    first = instance.classes["first"].replace(logged=logged)
    instance = instance.replace(classes={**instance.classes, "first": first})
    assert logged_errors(instance) == {"first": {"arrival": 0.5, "size": 0.2}}
    assert logged_errors(instance, without=["size"]) == {"first": {"arrival": 0.5}}
    assert logged_errors(instance, without=["size", "arrival"]) == {}
    assert logged_errors(build()) == {}


def banded(**fields: Any) -> BoaInstance:  # noqa: ANN401 - of Amdahl's law
    """Return the two classes, the first with a law of its own up to 16 GPUs."""
    law = {"form": "amdahl", "serial_fraction": 0.0} | fields
    first = build().classes["first"].replace(speedup={"v100": law}, widths={"only": [1, 4, 16]})
    return build(classes={**build().classes, "first": first})


def test_speedups_are_as_wrong_as_their_bands_where_nobody_says_how_wrong() -> None:
    """Assumed linear, up to 16 times: the logarithm is off by ln(16) at one end, ln(16) / 2 / 1.645 = 0.843 counts."""
    instance = banded(evidence="assumed")
    deviation = math.log(16.0) / 2.0 / 1.645
    error = {"speedup": pytest.approx(math.sqrt(math.exp(deviation**2) - 1.0))}
    assert logged_errors(instance) == {}
    assert list_errors(instance, EstimateErrors()) == {"first": error}
    own = EstimateErrors(size=0.1, by_class={"second": {"arrival": 0.3}})
    assert list_errors(instance, own) == {"first": error, "second": {"arrival": 0.3}}
    for said in (EstimateErrors(speedup=0.05), EstimateErrors(by_class={"first": {"speedup": 0.05}})):
        assert "speedup" not in list_errors(instance, said).get("second", {})
        assert list_errors(instance, said).get("first", {"speedup": 0.05}) == {"speedup": 0.05}


def test_truths_lie_within_a_band_in_nine_of_ten_cases() -> None:
    """Off by 10 % for each doubling: at 16 GPUs by up to 1.1^4, as often above as below, and all widths alike."""
    _, _, speed = draw(banded(error=0.1), "first")
    assert (speed[:, 0] == 1.0).all()
    inside = np.abs(np.log(speed[:, 2])) <= 4 * math.log(1.1)
    assert abs(inside.mean() - 0.9) <= 4 * math.sqrt(0.9 * 0.1 / SAMPLES)
    assert abs((speed[:, 2] > 1.0).mean() - 0.5) <= 4 * 0.5 / math.sqrt(SAMPLES)
    assert np.log(speed[:, 2]) == pytest.approx(2 * np.log(speed[:, 1]))


def test_an_assumed_gain_is_never_more_than_linear() -> None:
    """Assumed linear: half of the truths are so, and one in twenty gains nothing at all, or less."""
    _, _, speed = draw(banded(evidence="assumed"), "first")
    assert speed.max() == 1.0
    assert abs((speed[:, 2] == 1.0).mean() - 0.5) <= 4 * 0.5 / math.sqrt(SAMPLES)
    assert abs((speed[:, 2] <= 1 / 16).mean() - 0.05) <= 4 * math.sqrt(0.05 * 0.95 / SAMPLES)
