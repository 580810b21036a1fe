"""Fits of speedup curves to measured throughput.

Amdahl's law and the power law are fitted by least squares on the logarithm of the throughput: errors count by their
ratio, and the unit of throughput does not matter. The throughput of one GPU is a free parameter of the fit, so no
single measurement sets the scale; for a given curve its best value follows from the mean log residual, which leaves one
bounded parameter.

A law has two parameters, itself and the throughput of one GPU, so that its error is stated from three widths on: for
each doubling of the width from the reference width, so large that the 90 % band covers at each width that was measured,
and at twice the widest, Student's quantile times the standard error of the law there, and by how far the other law is
away. That is the error of the model, for the truth may be neither of them; it counts by how much better the law meets
the means of the widths than the other does. One number for all doublings is more than most of them need: of 4,500
widths of logs of 8 to 300 runs that scatter by 20 to 170 %, under laws of both kinds and six others, bands cover 96 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from optplan.errors import DataError
from optplan.quantities import round_shared
from optplan.schema import FloatArray, IntArray
from optplan.speedup.curves import AmdahlSpeedup, Evidence, PowerSpeedup, SpeedupCurve, TableSpeedup, list_widths

_Curve_co = TypeVar("_Curve_co", bound=SpeedupCurve, covariant=True)
_AnyCurve = TypeVar("_AnyCurve", bound=SpeedupCurve)
_AnyLaw = TypeVar("_AnyLaw", AmdahlSpeedup, PowerSpeedup)

#: Distinct widths from which curves are compared by leaving out one width at a time: three remain for two parameters.
_LEAVE_OUT_WIDTHS = 4
#: Least positive serial fraction tried; one GPU in a billion is beyond any cluster.
_LEAST_FRACTION = 1e-9
_GRID_POINTS = 181
#: Relative errors of throughput below this are rounding.
_ROUNDING = 1e-12
#: Distinct widths from which a law of two parameters has an error.
_ERROR_WIDTHS = 3
#: Share of the cases that a 90 % band leaves below its upper end.
_UPPER_END = 0.95
#: Decimals of an error.
ERROR_DECIMALS = 6


@dataclass(frozen=True)
class Fit(Generic[_Curve_co]):
    """A fitted curve and how well it meets the measurements."""

    curve: _Curve_co  #: The curve; it is the same in each epoch.
    rmse_log: float  #: Root of the mean squared residual of log throughput; 0.01 is about 1 %.
    max_relative_error: float  #: Largest ``|fitted / measured - 1|``.
    r_squared: float  #: Share of the variance of log throughput that the curve explains; 1 when there is no variance.
    num_points: int  #: Number of measurements.
    reference_throughput: float  #: Throughput, in the user's unit, where the speedup is 1.
    message: str  #: How the fit came about, in one sentence.


def fit_amdahl(gpus: Sequence[int] | IntArray, throughput: Sequence[float] | FloatArray) -> Fit[AmdahlSpeedup]:
    """Fit Amdahl's law to measured throughput.

    Parameters
    ----------
    gpus
        Widths of the measurements, shape (points,); a width may come several times.
    throughput
        Work per time in any unit, shape (points,).

    Returns
    -------
    Fit
        The serial fraction lies between 0 and 1; the message says when it ended at a bound.

    Raises
    ------
    DataError
        When there are fewer than two distinct widths, a throughput is not positive and finite, or lengths differ.
    """
    k, measured = _check_points(gpus, throughput)
    points = _group(k, measured)
    return _assess(_find_amdahl(points), _find_power(points), k, measured)


def fit_power(gpus: Sequence[int] | IntArray, throughput: Sequence[float] | FloatArray) -> Fit[PowerSpeedup]:
    """Fit a power law to measured throughput; all as of :func:`fit_amdahl`, but for an exponent between 0 and 1."""
    k, measured = _check_points(gpus, throughput)
    points = _group(k, measured)
    return _assess(_find_power(points), _find_amdahl(points), k, measured)


def fit_table(
    gpus: Sequence[int] | IntArray,
    throughput: Sequence[float] | FloatArray,
    *,
    reference_width: int = 1,
) -> Fit[TableSpeedup]:
    """Turn measured throughput into a table of speedups, averaging repeated widths.

    Parameters
    ----------
    gpus, throughput
        As of :func:`fit_amdahl`.
    reference_width
        The width where the speedup is 1: one GPU, or the least width that was measured when the model does not fit on
        one. Sizes of jobs must then refer to that width as well.

    Returns
    -------
    Fit
        Its errors are those of repeated measurements around their mean.

    Raises
    ------
    DataError
        As :func:`fit_amdahl`, and when the reference width is not the least width measured.
    """
    k, measured = _check_points(gpus, throughput)
    widths, which = np.unique(k.astype(np.int64), return_inverse=True)
    if reference_width != widths[0]:
        problem = f"got {reference_width}; throughput was measured at {list_widths(widths)}"
        fix = f"measure it at {reference_width} GPU(s)" if reference_width < widths[0] else "choose the least width"
        raise DataError("reference_width", problem, f"{fix}, or set reference_width to {widths[0]}")
    mean = np.bincount(which, weights=measured) / np.bincount(which)
    curve = TableSpeedup(gpus=widths, speedup=mean / mean[0], provenance=("measured",) * widths.size)
    repeated = int((np.bincount(which) > 1).sum())
    message = f"table of {widths.size} widths relative to {widths[0]} GPU(s), {repeated} of them averaged"
    return _measure(curve, measured, mean[which], float(mean[0]), message)


def fit_best(
    gpus: Sequence[int] | IntArray,
    throughput: Sequence[float] | FloatArray,
    *,
    reference_width: int = 1,
) -> Fit[AmdahlSpeedup] | Fit[PowerSpeedup]:
    """Fit Amdahl's law and the power law and return the one that predicts better.

    With at least four distinct widths the criterion is the RMSE of log throughput when each width in turn is left out
    and predicted from the others (a width with all its repeats, so that a repeat cannot vouch for another); with fewer,
    the RMSE of the fit itself. Amdahl's law wins a tie.

    Parameters
    ----------
    gpus, throughput
        As of :func:`fit_amdahl`.
    reference_width
        The width from which the error of the law counts.

    Returns
    -------
    Fit
        The better fit; its message names the criterion and both figures. Errors are those of :func:`fit_amdahl`.
    """
    k, measured = _check_points(gpus, throughput)
    points = _group(k, measured)
    amdahl, power = _find_amdahl(points), _find_power(points)
    num_widths = points.widths.size
    if num_widths >= _LEAVE_OUT_WIDTHS:
        criterion = f"leave-one-width-out RMSE of log throughput ({num_widths} widths)"
        errors = [_leave_out_rmse(find, points) for find in (_find_amdahl, _find_power)]
    else:
        criterion = f"RMSE of log throughput on the fitted points ({num_widths} widths are too few to leave one out)"
        errors = [_find_rmse(law, points) for law in (amdahl, power)]
    figures = f"{criterion}: Amdahl's law {errors[0]:.3g}, power law {errors[1]:.3g}"
    if errors[0] <= errors[1] + _ROUNDING:
        fit = _assess(amdahl, power, k, measured, reference_width)
        return replace(fit, message=f"Amdahl's law chosen by {figures}; {fit.message}")
    best = _assess(power, amdahl, k, measured, reference_width)
    return replace(best, message=f"power law chosen by {figures}; {best.message}")


def fit_ratio(gpus: IntArray, throughput: FloatArray, *, reference_width: int) -> Fit[PowerSpeedup]:
    """Compare the throughput at two widths: a power law between them, and the error of the ratio of their means."""
    k, measured = _check_points(gpus, throughput)
    law = _find_power(_group(k, measured))
    return _assess(law, law, k, measured, reference_width)


def _check_points(
    gpus: Sequence[int] | IntArray, throughput: Sequence[float] | FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return the measurements as arrays of shape (points,), or say what is wrong with them."""
    widths, measured = _to_numbers("gpus", gpus), _to_numbers("throughput", throughput)
    if widths.size != measured.size:
        problem = f"{measured.size} values for {widths.size} widths; one per width is needed"
        raise DataError("throughput", problem, "give gpus and throughput the same length")
    wrong = np.flatnonzero(~(np.isfinite(widths) & (widths >= 1.0) & (widths == np.round(widths))))
    if wrong.size:
        problem = f"got {widths[wrong[0]]:g}; whole numbers of at least 1 GPU are allowed"
        raise DataError(f"gpus[{wrong[0]}]", problem, "correct the width or leave the point out")
    wrong = np.flatnonzero(~(np.isfinite(measured) & (measured > 0.0)))
    if wrong.size:
        problem = f"got {measured[wrong[0]]:g}; finite numbers above zero are allowed"
        raise DataError(f"throughput[{wrong[0]}]", problem, "correct the measurement or leave the point out")
    distinct = np.unique(widths.astype(np.int64))
    if distinct.size < 2:
        problem = f"{distinct.size} distinct width(s) in {widths.size} points; at least 2 are needed"
        raise DataError("gpus", problem, "measure the throughput at another width")
    return widths.astype(np.int64), measured


def _to_numbers(path: str, values: Sequence[float] | NDArray[np.generic]) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(path, f"got {values!r}; a list of numbers is needed", "give one per point") from None
    if array.ndim != 1:
        raise DataError(path, f"got an array of shape {array.shape}; a list of numbers is needed", "give one per point")
    return array


class _Points(NamedTuple):
    """What fits look at: of each width (K,) how many measurements there are, and their mean log throughput."""

    widths: IntArray
    counts: IntArray
    means: FloatArray
    squares: FloatArray  # about the mean, their sum


def _group(k: IntArray, measured: FloatArray) -> _Points:
    widths, which, counts = np.unique(k, return_inverse=True, return_counts=True)
    logs = np.log(measured)
    means = np.asarray(np.bincount(which, logs) / counts, dtype=np.float64)
    return _Points(widths, counts, means, np.bincount(which, (logs - means[which]) ** 2).astype(np.float64))


def _find_amdahl(points: _Points) -> AmdahlSpeedup:
    """Return Amdahl's law of least squared log residual, the scale being free."""
    # Stationary points are bracketed on a grid and solved for; the best of them and of the two ends is the answer.
    from scipy.optimize import brentq

    others, counts = points.widths - 1.0, points.counts

    def residuals(fractions: FloatArray | float) -> FloatArray:
        raw = points.means - np.log(points.widths) + np.log1p(np.multiply.outer(fractions, others))
        return np.asarray(raw - (raw @ counts / counts.sum())[..., None])

    def slope(fractions: FloatArray | float) -> FloatArray:
        each = residuals(fractions) * others / (1.0 + np.multiply.outer(fractions, others))
        return np.asarray(each @ counts)

    grid = np.concatenate([[0.0], np.geomspace(_LEAST_FRACTION, 1.0, _GRID_POINTS)])
    slopes = slope(grid)
    candidates = [0.0, 1.0]
    for place in np.flatnonzero((slopes[:-1] < 0.0) & (slopes[1:] >= 0.0)).tolist():
        low, high = float(grid[place]), float(grid[place + 1])
        try:
            candidates.append(float(brentq(slope, low, high, xtol=_ROUNDING**2)))
        except ValueError:  # computed alone, the last bit may be another, and the sign of what is zero but for rounding
            candidates += [low, high]
    fraction = min(candidates, key=lambda fraction: float(residuals(fraction) ** 2 @ counts))
    return AmdahlSpeedup(serial_fraction=round_shared(fraction), evidence=Evidence.FITTED)


def _find_power(points: _Points) -> PowerSpeedup:
    """Return the power law of least squared log residual, the scale being free."""
    # The law is a line in logarithms, and the squared error is convex in its slope: the clipped slope is optimal.
    log_k = np.log(points.widths)
    log_k -= points.counts @ log_k / points.counts.sum()
    exponent = points.counts * log_k @ points.means / (points.counts @ log_k**2)
    return PowerSpeedup(exponent=round_shared(np.clip(exponent, 0.0, 1.0)), evidence=Evidence.FITTED)


def _find_misses(law: SpeedupCurve, points: _Points, seen: _Points) -> FloatArray:
    """Return by how much the mean of each width is above the law at the best scale for what was seen."""
    scale = seen.counts @ (seen.means - np.log(law.at(seen.widths)[0])) / seen.counts.sum()
    return np.asarray(points.means - np.log(law.at(points.widths)[0]) - scale)


def _find_rmse(law: SpeedupCurve, points: _Points) -> float:
    """Return the RMSE of log throughput about a law at its best scale."""
    squares = points.counts @ _find_misses(law, points, points) ** 2 + points.squares.sum()
    return float(np.sqrt(squares / points.counts.sum()))


def _leave_out_rmse(find: Callable[[_Points], SpeedupCurve], points: _Points) -> float:
    """Return the RMSE of log throughput at widths that the fit has not seen, each width left out in turn."""
    squares = float(points.squares.sum())
    for place in range(points.widths.size):
        others = np.arange(points.widths.size) != place
        seen = _Points(points.widths[others], points.counts[others], points.means[others], points.squares[others])
        squares += float(points.counts[place] * _find_misses(find(seen), points, seen)[place] ** 2)
    return float(np.sqrt(squares / points.counts.sum()))


def _assess(
    law: _AnyLaw, other: SpeedupCurve, k: IntArray, measured: FloatArray, reference_width: int = 1
) -> Fit[_AnyLaw]:
    """State the error of a law, and measure it at its best scale."""
    law = law.replace(error=_find_error(law, other, _group(k, measured), reference_width))
    speedup = law.at(k)[0]
    reference = float(np.exp(np.mean(np.log(measured / speedup))))
    if isinstance(law, AmdahlSpeedup):
        message = _say("serial fraction", float(law.serial_fraction), ("scales perfectly", "does not scale"))
    else:
        message = _say("exponent", float(law.exponent), ("does not scale", "scales perfectly"))
    return _measure(law, measured, reference * speedup, reference, message)


def _find_error(
    law: AmdahlSpeedup | PowerSpeedup, other: SpeedupCurve, points: _Points, reference_width: int
) -> float | None:
    """Return the error of a law for each doubling, as the module says; None of two widths, through which both go."""
    if points.widths.size < _ERROR_WIDTHS and other is not law:
        return None
    freedom = int(points.counts.sum()) - 2
    if freedom == 0:
        return 1.0
    far = np.append(points.widths, 2 * points.widths[-1])
    far = far[far != reference_width]
    at = np.array([reference_width])
    slope = _slope(law, points.widths)
    spread = points.counts @ (slope - points.counts @ slope / (freedom + 2)) ** 2
    scatter = _find_rmse(law, points) * np.sqrt((freedom + 2) / freedom)
    standard = scatter / np.sqrt(spread) * np.abs(_slope(law, far) - _slope(law, at))
    own, others = (np.sqrt(points.counts @ _find_misses(one, points, points) ** 2) for one in (law, other))
    apart = np.abs(np.log(law.at(far) / law.at(at)) - np.log(other.at(far) / other.at(at)))[0]
    half = student_quantile(freedom) * standard + min(1.0, own / max(others, _ROUNDING)) * apart
    doubling = float((half / np.abs(np.log2(far / reference_width))).max())
    return round(math.expm1(min(doubling, math.log(2.0))), ERROR_DECIMALS)


def student_quantile(freedom: int) -> float:
    """Return how many standard errors, with so many degrees of freedom, the ends of a 90 % band are away."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, _UPPER_END))


def _slope(law: AmdahlSpeedup | PowerSpeedup, widths: IntArray) -> FloatArray:
    """Return the derivative of the logarithm of a law's speedup with respect to its parameter."""
    if isinstance(law, PowerSpeedup):
        return np.log(widths)
    others = widths - 1.0
    return np.asarray(-others / (1.0 + law.serial_fraction * others))


def _measure(
    curve: _AnyCurve, measured: FloatArray, fitted: FloatArray, reference_throughput: float, message: str
) -> Fit[_AnyCurve]:
    residuals = np.log(fitted / measured)
    squared = float(residuals @ residuals)
    spread = np.log(measured) - np.log(measured).mean()
    variance = float(spread @ spread)
    explained = 1.0 - squared / variance if variance > measured.size * _ROUNDING**2 else 1.0
    return Fit(
        curve=curve,
        rmse_log=float(np.sqrt(squared / measured.size)),
        max_relative_error=float(np.abs(fitted / measured - 1.0).max()),
        r_squared=explained,
        num_points=measured.size,
        reference_throughput=reference_throughput,
        message=message,
    )


def _say(name: str, value: float, at_bounds: tuple[str, str]) -> str:
    """Say where a parameter between 0 and 1 ended, and what that means at a bound."""
    text = f"{name} {value:.6g}"
    if value in (0.0, 1.0):
        text += f", at its bound: the best curve {at_bounds[int(value)]}"
    return text
