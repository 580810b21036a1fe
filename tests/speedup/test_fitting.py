import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from optplan.errors import DataError
from optplan.speedup import AmdahlSpeedup, Fit, PowerSpeedup, SpeedupCurve, fit_amdahl, fit_best, fit_power, fit_table

GPUS = [1, 2, 3, 4, 8, 16, 64]
FITS: list[Callable[..., Fit[SpeedupCurve]]] = [fit_amdahl, fit_power, fit_table, fit_best]
units = st.floats(1e-6, 1e6)


def throughput_of(curve: SpeedupCurve, gpus: list[int], scale: float = 1.0) -> list[float]:
    """Return exact throughput of a curve in some unit."""
    return list(scale * curve.at(np.array(gpus))[0])


@given(st.floats(1e-4, 1.0), units)
@example(0.0, 1.0)
@example(1.0, 7.0)
def test_amdahls_law_is_recovered_from_exact_points(fraction: float, scale: float) -> None:
    """Without noise the fit returns the fraction and the throughput of one GPU, in any unit."""
    fit = fit_amdahl(GPUS, throughput_of(AmdahlSpeedup.parse({"serial_fraction": fraction}), GPUS, scale))
    assert float(fit.curve.serial_fraction) == pytest.approx(fraction, rel=1e-8, abs=1e-12)
    assert fit.reference_throughput == pytest.approx(scale, rel=1e-8)
    assert fit.max_relative_error < 1e-8
    assert fit.rmse_log < 1e-8
    assert fit.r_squared == pytest.approx(1.0, abs=1e-8)
    assert fit.num_points == len(GPUS)


@given(st.floats(0.0, 1.0), units)
def test_the_power_law_is_recovered_from_exact_points(exponent: float, scale: float) -> None:
    """Without noise the fit returns the exponent and the throughput of one GPU, in any unit."""
    fit = fit_power(GPUS[1:], throughput_of(PowerSpeedup.parse({"exponent": exponent}), GPUS[1:], scale))
    assert float(fit.curve.exponent) == pytest.approx(exponent, rel=1e-8, abs=1e-12)
    assert fit.reference_throughput == pytest.approx(scale, rel=1e-8)
    assert fit.max_relative_error < 1e-8


@given(st.lists(st.tuples(st.integers(2, 128), st.floats(0.1, 100.0)), min_size=1, max_size=6), st.floats(0.1, 10.0))
def test_no_other_parameter_fits_better(points: list[tuple[int, float]], first: float) -> None:
    """On arbitrary measurements no parameter on a fine grid has a smaller squared log residual."""
    gpus, throughput = [1, *(k for k, _ in points)], [first, *(t for _, t in points)]
    log_throughput, k = np.log(throughput), np.array(gpus)
    amdahl, power = fit_amdahl(gpus, throughput), fit_power(gpus, throughput)
    shares = np.concatenate([np.linspace(0.0, 1.0, 301), np.geomspace(1e-7, 1.0, 300)])
    for fit, curve in (
        (amdahl, AmdahlSpeedup.parse({"serial_fraction": list(shares)})),
        (power, PowerSpeedup.parse({"exponent": list(shares)})),
    ):
        residuals = log_throughput - np.log(curve.at(k))
        least = residuals.std(axis=1).min()
        assert fit.rmse_log <= least * (1 + 1e-9) + 1e-12
    assert 0.0 <= float(amdahl.curve.serial_fraction) <= 1.0
    assert 0.0 <= float(power.curve.exponent) <= 1.0
    # A flat curve is within the bounds of both, so neither explains less than nothing.
    assert min(amdahl.r_squared, power.r_squared) >= -1e-9


def test_a_falling_throughput_ends_at_the_bound() -> None:
    """When more GPUs are slower the best law within bounds is flat, at the geometric mean, and the fit says so."""
    gpus, throughput = [1, 2, 4], [8.0, 4.0, 2.0]
    amdahl, power = fit_amdahl(gpus, throughput), fit_power(gpus, throughput)
    assert float(amdahl.curve.serial_fraction) == 1.0
    assert float(power.curve.exponent) == 0.0
    assert amdahl.message == "serial fraction 1, at its bound: the best curve does not scale"
    assert power.message == "exponent 0, at its bound: the best curve does not scale"
    for fit in (amdahl, power):
        # (8 * 4 * 2) ** (1/3) = 4: off by 4/8 - 1 = -1/2 and 4/2 - 1 = 1; log residuals log 2, 0, -log 2.
        assert fit.reference_throughput == pytest.approx(4.0, rel=1e-12)
        assert fit.max_relative_error == pytest.approx(1.0, rel=1e-12)
        assert fit.rmse_log == pytest.approx(np.log(2) * np.sqrt(2 / 3), rel=1e-12)
        assert fit.r_squared == pytest.approx(0.0, abs=1e-12)


def test_a_superlinear_throughput_ends_at_the_other_bound() -> None:
    """Faster than k GPUs can be is fitted by perfect scaling."""
    gpus, throughput = [1, 2, 4], [1.0, 3.0, 9.0]
    amdahl, power = fit_amdahl(gpus, throughput), fit_power(gpus, throughput)
    assert float(amdahl.curve.serial_fraction) == 0.0
    assert float(power.curve.exponent) == 1.0
    assert amdahl.message == "serial fraction 0, at its bound: the best curve scales perfectly"
    assert power.message == "exponent 1, at its bound: the best curve scales perfectly"


def test_a_constant_throughput_is_explained_completely() -> None:
    """Where there is no variance, there is none left to explain."""
    assert fit_power([1, 2, 4], [3.0, 3.0, 3.0]).r_squared == 1.0
    assert fit_amdahl([1, 2, 4], [0.1, 0.1, 0.1]).r_squared == 1.0


def test_an_inner_parameter_is_reported() -> None:
    """The message of a fit within the bounds is the parameter."""
    assert fit_power([1, 4], [1.0, 2.0]).message == "exponent 0.5"
    # 1 / (f + (1 - f)/4) = 16/7 at f = 1/4.
    assert fit_amdahl([1, 4], [7.0, 16.0]).message == "serial fraction 0.25"


def test_a_table_averages_repeats_and_starts_at_one() -> None:
    """Two measurements at 2 GPUs, 15 and 21, average to 18; relative to 10 on one GPU that is 1.8."""
    fit = fit_table([4, 2, 1, 2], [30.0, 15.0, 10.0, 21.0])
    assert fit.curve.gpus.tolist() == [1, 2, 4]
    assert fit.curve.speedup == pytest.approx([1.0, 1.8, 3.0], rel=1e-15)
    assert fit.curve.provenance == ("measured", "measured", "measured")
    assert fit.message == "table of 3 widths relative to 1 GPU(s), 1 of them averaged"
    assert fit.reference_throughput == 10.0
    assert fit.num_points == 4
    # 18 against 15 is off by a fifth, against 21 by a seventh.
    assert fit.max_relative_error == pytest.approx(0.2, rel=1e-12)
    expected = np.sqrt((np.log(18 / 15) ** 2 + np.log(18 / 21) ** 2) / 4)
    assert fit.rmse_log == pytest.approx(expected, rel=1e-12)


def test_a_table_may_start_at_the_least_width_when_asked() -> None:
    """A model that does not fit on one GPU is measured relative to its least width, on request."""
    fit = fit_table([8, 4], [18.0, 10.0], reference_width=4)
    assert fit.curve.speedup == pytest.approx([1.0, 1.8], rel=1e-15)
    assert fit.message == "table of 2 widths relative to 4 GPU(s), 0 of them averaged"


@pytest.mark.parametrize(("reference_width", "fix"), [(1, r"measure it at 1 GPU\(s\)"), (8, "choose the least width")])
def test_a_table_never_guesses_its_reference(reference_width: int, fix: str) -> None:
    """Without one GPU measured the reference has to be stated, and nothing but the least width will do."""
    message = (
        rf"^reference_width: got {reference_width}; throughput was measured at 4, 8 GPUs; {fix}, or set reference_"
    )
    with pytest.raises(DataError, match=message + r"width to 4$"):
        fit_table([4, 8], [10.0, 18.0], reference_width=reference_width)


def test_the_better_law_wins_by_leaving_widths_out() -> None:
    """With at least four widths the law that made the data predicts what it has not seen, and the message says so."""
    amdahl = throughput_of(AmdahlSpeedup.parse({"serial_fraction": 0.1}), GPUS, 5.0)
    power = throughput_of(PowerSpeedup.parse({"exponent": 0.8}), GPUS, 5.0)
    best = fit_best(GPUS, amdahl)
    assert isinstance(best.curve, AmdahlSpeedup)
    assert best.message.startswith(
        "Amdahl's law chosen by leave-one-width-out RMSE of log throughput (7 widths): Amdahl's"
    )
    assert best.message.endswith("; serial fraction 0.1")
    best = fit_best(GPUS, power)
    assert isinstance(best.curve, PowerSpeedup)
    assert best.message.startswith(
        "power law chosen by leave-one-width-out RMSE of log throughput (7 widths): Amdahl's "
    )
    assert best.message.endswith("; exponent 0.8")
    assert best.reference_throughput == pytest.approx(5.0, rel=1e-9)


def test_few_widths_are_compared_by_the_fit_itself() -> None:
    """Three widths, however often measured, leave too few for leaving one out; perfect scaling is a tie for Amdahl."""
    fit = fit_best([1, 1, 2, 2, 4], [1.0, 1.0, 2.0, 2.0, 4.0])
    assert isinstance(fit.curve, AmdahlSpeedup)
    assert fit.message.startswith(
        "Amdahl's law chosen by RMSE of log throughput on the fitted points (3 widths are too few to leave one out): "
    )


def test_leaving_out_takes_all_repeats_of_a_width() -> None:
    """The figure in the message is that of predicting both measurements at 8 GPUs from the others, and so on."""
    gpus, throughput = [1, 2, 4, 8, 8], [1.0, 1.9, 3.0, 4.4, 4.6]
    squared = 0.0
    for left_out in (1, 2, 4, 8):
        seen = [(k, t) for k, t in zip(gpus, throughput, strict=True) if k != left_out]
        slope, offset = np.polyfit(np.log([k for k, _ in seen]), np.log([t for _, t in seen]), 1)
        hidden = [t for k, t in zip(gpus, throughput, strict=True) if k == left_out]
        squared += sum((offset + slope * np.log(left_out) - np.log(t)) ** 2 for t in hidden)
    assert f"power law {np.sqrt(squared / 5):.3g}" in fit_best(gpus, throughput).message


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(
    ("gpus", "throughput", "message"),
    [
        (
            [1, 2, 4],
            [1.0, 2.0],
            r"^throughput: 2 values for 3 widths; one per width is needed; give gpus and throughput",
        ),
        (
            [1, 2.5],
            [1.0, 2.0],
            r"^gpus\[1\]: got 2\.5; whole numbers of at least 1 GPU are allowed; correct the width or",
        ),
        ([0, 1], [1.0, 2.0], r"^gpus\[0\]: got 0; whole numbers of at least 1 GPU"),
        ([1, float("inf")], [1.0, 2.0], r"^gpus\[1\]: got inf; whole numbers of at least 1 GPU"),
        (
            [1, 2],
            [1.0, 0.0],
            r"^throughput\[1\]: got 0; finite numbers above zero are allowed; correct the measurement",
        ),
        ([1, 2], [-1.0, 1.0], r"^throughput\[0\]: got -1; finite numbers above zero"),
        ([1, 2], [1.0, float("nan")], r"^throughput\[1\]: got nan; finite numbers above zero"),
        ([1, 2], [float("inf"), 1.0], r"^throughput\[0\]: got inf; finite numbers above zero"),
        (
            [2, 2],
            [1.0, 2.0],
            r"^gpus: 1 distinct width\(s\) in 2 points; at least 2 are needed; measure the throughput at",
        ),
        ([], [], r"^gpus: 0 distinct width\(s\) in 0 points; at least 2 are needed"),
        ([1, 2], "fast", r"^throughput: got 'fast'; a list of numbers is needed"),
        (4, [1.0], r"^gpus: got an array of shape \(\); a list of numbers is needed; give one per point"),
        ([[1, 2]], [1.0, 2.0], r"^gpus: got an array of shape \(1, 2\); a list of numbers is needed"),
    ],
)
def test_wrong_measurements_are_refused(
    fit: Callable[..., Fit[SpeedupCurve]], gpus: object, throughput: object, message: str
) -> None:
    """Every fit names the measurement that cannot be used."""
    with pytest.raises(DataError, match=message):
        fit(gpus, throughput)


def test_scipy_loads_on_use_only() -> None:
    """Importing curves, hulls and fits loads no SciPy."""
    code = "import sys, optplan.speedup; sys.exit(any(name.split('.')[0] == 'scipy' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("fit", [fit_amdahl, fit_power, fit_best])
def test_two_widths_leave_no_error_to_state(fit: Callable[..., Fit[SpeedupCurve]]) -> None:
    """A law and the throughput of one GPU go through any two widths, however often these were measured."""
    curve = fit([1, 1, 4, 4], [1.0, 1.1, 2.9, 3.0]).curve
    assert isinstance(curve, AmdahlSpeedup | PowerSpeedup)
    assert curve.error is None


def test_a_law_that_meets_all_points_has_no_error() -> None:
    """Nor does the other law count, which does not meet them."""
    for law, fit in ((AmdahlSpeedup(serial_fraction=0.1), fit_amdahl), (PowerSpeedup(exponent=0.8), fit_power)):
        assert fit([1, 2, 4, 8], throughput_of(law, [1, 2, 4, 8])).curve.error == pytest.approx(0.0, abs=1e-6)


def test_the_error_of_a_law_by_hand() -> None:
    """A power law of 1, 2, 4 GPUs off by 10 % in the middle: slope of the ends, as the middle one has no say.

    Residuals are 1/3, -2/3 and 1/3 of d = ln 1.1, so that their scatter is sqrt(2/3) d with one degree of freedom; the
    slope's standard error is that over sqrt(2) ln 2, and the law's for each doubling d / sqrt(3) times Student's 6.314.
    Amdahl's law, which fits worse, counts on top.
    """
    throughput = [1.0, 2.0**0.8 / 1.1, 4.0**0.8]
    error = fit_power([1, 2, 4], throughput).curve.error
    own = np.expm1(6.314 * np.log(1.1) / np.sqrt(3.0))
    assert error is not None
    assert own < error < 1.5 * own
    # Ten thousand such measurements leave the other law only.
    often = fit_best([1, 2, 4] * 10_000, throughput * 10_000).curve.error
    assert often is not None
    assert often < 0.1
