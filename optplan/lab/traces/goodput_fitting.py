"""Fits of the goodput model's step time to measured passes.

The objective is that of AdaptDL: the RMSE of log compute time, plus the RMSE of log step time, plus a little for
overlap (gamma) and for synchronisation that grows with the number of GPUs. It is minimised in the logarithms of the
six times, with exact gradients: in the times themselves, whose sizes differ by orders of magnitude, quasi-Newton
methods end early, and what looks like a flat optimum is not one.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021, section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optplan.errors import DataError
from optplan.schema import FloatArray, IntArray
from optplan.speedup.goodput import ThroughputParameters

_NAMES = ("alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r")
_ALPHA_C, _BETA_C, _ALPHA_N, _BETA_N, _ALPHA_R, _BETA_R, _GAMMA = range(7)
#: AdaptDL's start, in the order of the parameters.
_START = (0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001)
#: Bounds of the times. AdaptDL has the lower one; the upper one only keeps the search off overflow.
_LEAST_S, _LARGEST_S = 1e-8, 1e8
_GAMMA_BOUNDS = (1.0, 10.0)
#: AdaptDL's weights of the two regularising terms.
_OVERLAP_WEIGHT, _GROWTH_WEIGHT = 1e-3, 1e-2
#: Where nothing was measured across nodes, AdaptDL takes it to be this much slower than within one.
_ACROSS_FACTOR = 1.1
_OPTIONS = {"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-13, "gtol": 1e-8}
#: Those of the agents in the simulators published with Pollux and Sia.
_QUICK_OPTIONS = {"ftol": 1e-5, "gtol": 1e-5}
#: Newton's steps at most, and how far beside a point the gradient is looked at for the second derivatives.
_MOST_STEPS, _SHIFT = 20, 1e-5


@dataclass(frozen=True)
class GoodputFit:
    """Fitted parameters of the step time, how well they meet the measurements, and which of them none bears on."""

    parameters: ThroughputParameters
    objective: float
    rmse_log: float
    max_relative_error: float
    num_points: int
    unobserved: tuple[str, ...]
    message: str


class _Points(NamedTuple):
    nodes: FloatArray
    gpus: FloatArray
    local_batch: FloatArray
    step_s: FloatArray
    compute_s: FloatArray

    def in_order(self) -> _Points:
        """Return the same measurements in one order, whatever order they came in."""
        order = np.lexsort(self[::-1])
        return _Points(*(column[order] for column in self))

    @property
    def across(self) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.nodes > 1
        return mask

    @property
    def within(self) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = (self.nodes == 1) & (self.gpus > 1)
        return mask


def fit_goodput(
    num_nodes: Sequence[int] | IntArray,
    gpus: Sequence[int] | IntArray,
    local_batch_sizes: Sequence[float] | IntArray | FloatArray,
    step_time_s: Sequence[float] | FloatArray,
    sync_time_s: Sequence[float] | FloatArray,
    *,
    thorough: bool = True,
) -> GoodputFit:
    """Fit the seven parameters of the step time.

    A parameter that no measurement bears on (nothing was measured across nodes, say) keeps a conventional value and is
    named in ``unobserved``; predictions that rest on it are guesses.

    Parameters
    ----------
    num_nodes, gpus
        N and k of each measurement, shape (points,), 1 <= N <= k.
    local_batch_sizes
        Samples per GPU in one pass, shape (points,).
    step_time_s
        Seconds of a pass with synchronisation, shape (points,).
    sync_time_s
        The part of it that synchronisation adds to the compute time, below the step time, shape (points,).
    thorough
        Whether to search until nothing changes, on any processor; else as long as Pollux's agents do, to a relative
        1e-5, which takes a tenth of the time.

    Returns
    -------
    GoodputFit
        The best parameters found from AdaptDL's start; deterministic.

    Raises
    ------
    DataError
        When there is no point, lengths differ, or a value is out of its range.
    """
    from scipy.optimize import minimize

    points = _check_points(
        num_nodes=num_nodes,
        gpus=gpus,
        local_batch_sizes=local_batch_sizes,
        step_time_s=step_time_s,
        sync_time_s=sync_time_s,
    )
    if thorough:  # sums in another order have other last digits, and may lead the search elsewhere
        points = points.in_order()
    start, bounds, unobserved = _start(points)
    options = _OPTIONS if thorough else _QUICK_OPTIONS
    found = minimize(_objective, start, args=(points,), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    polished = _polish(found.x, bounds, points) if thorough else found.x
    objective, parameters = _objective(polished, points)[0], _complete(polished, points)
    fitted = parameters.iteration_time_s(points.nodes, points.gpus, points.local_batch)
    message = f"{found.nit} iterations of L-BFGS-B on {points.step_s.size} points, objective {objective:.6g}"
    if unobserved:
        message += f"; no measurement bears on {', '.join(unobserved)}"
    return GoodputFit(
        parameters=parameters,
        objective=objective,
        rmse_log=float(np.sqrt(np.mean(np.log(fitted / points.step_s) ** 2))),
        max_relative_error=float(np.abs(fitted / points.step_s - 1.0).max()),
        num_points=points.step_s.size,
        unobserved=unobserved,
        message=message,
    )


def _start(points: _Points) -> tuple[FloatArray, list[tuple[float, float]], tuple[str, ...]]:
    """Return the start and the bounds in logarithms, and the names of what is not observed (which stays put)."""
    start = np.array([*np.log(_START[:_GAMMA]), _START[_GAMMA]])
    bounds = [(float(np.log(_LEAST_S)), float(np.log(_LARGEST_S)))] * _GAMMA + [_GAMMA_BOUNDS]
    fixed: dict[int, float] = {}
    if np.unique(points.local_batch).size == 1:
        fixed[_ALPHA_C] = float(np.log(points.compute_s.mean() / 2.0))
    for kind, alpha, beta in ((points.across, _ALPHA_N, _BETA_N), (points.within, _ALPHA_R, _BETA_R)):
        if not kind.any():
            fixed[alpha] = float(start[alpha])
        if not (kind & (points.gpus > 2)).any():
            fixed[beta] = float(np.log(_LEAST_S))
    if not (points.gpus > 1).any():
        fixed[_GAMMA] = 1.0
    for index, value in fixed.items():
        start[index] = value
        bounds[index] = (value, value)
    return start, bounds, tuple([*_NAMES, "gamma"][index] for index in sorted(fixed))


def _polish(found: FloatArray, bounds: list[tuple[float, float]], points: _Points) -> FloatArray:
    """Take Newton's steps from where L-BFGS-B ended: that depends on the processor, the gradient's root does not."""
    least, most = np.array(bounds).T
    best = found
    steep = _objective(best, points)[1]
    for _ in range(_MOST_STEPS):
        free = np.flatnonzero((best > least) & (best < most))
        shifts = _SHIFT * np.eye(found.size)[free]
        sides = [(_objective(best + by, points)[1] - _objective(best - by, points)[1])[free] for by in shifts]
        if not free.size or not np.isfinite(sides).all():
            break
        tried = best.copy()
        tried[free] -= np.linalg.lstsq(np.array(sides) / (2.0 * _SHIFT), steep[free], rcond=None)[0]
        slope = _objective(tried, points)[1]
        inside = bool(np.all((tried >= least) & (tried <= most)))
        if not inside or not np.abs(slope[free]).max() < np.abs(steep[free]).max():
            break
        best, steep = tried, slope
    return best


def _complete(found: FloatArray, points: _Points) -> ThroughputParameters:
    """Return the parameters, with conventions where nothing was measured across nodes or within one."""
    values = [*(float(value) for value in np.exp(found[:_GAMMA])), float(found[_GAMMA])]
    if not points.within.any():
        # Synchronising within a node takes no longer than across nodes.
        values[_ALPHA_R : _BETA_R + 1] = values[_ALPHA_N : _BETA_N + 1] if points.across.any() else [_LEAST_S] * 2
    if not points.across.any():
        values[_ALPHA_N : _BETA_N + 1] = [_ACROSS_FACTOR * value for value in values[_ALPHA_R : _BETA_R + 1]]
    return ThroughputParameters(**dict(zip([*_NAMES, "gamma"], values, strict=True)))


def _objective(x: FloatArray, points: _Points) -> tuple[float, FloatArray]:
    """Return AdaptDL's objective and its gradient; x holds the logarithms of the six times, and gamma."""
    alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r = np.exp(x[:_GAMMA])
    gamma = float(x[_GAMMA])
    beyond_two = np.maximum(points.gpus - 2.0, 0.0)
    compute = alpha_c + beta_c * points.local_batch
    sync = np.where(points.across, alpha_n + beta_n * beyond_two, alpha_r + beta_r * beyond_two)
    # One GPU does not synchronise. Its log is any finite number: it is multiplied by a weight of zero below.
    alone = points.gpus == 1.0
    log_compute, log_sync = np.log(compute), np.where(alone, 0.0, np.log(sync))
    log_power = np.logaddexp(gamma * log_compute, np.where(alone, -np.inf, gamma * log_sync))
    weight = np.exp(gamma * log_compute - log_power)  # of the compute time in the step time, from 0 to 1
    compute_error = log_compute - np.log(points.compute_s)
    step_error = log_power / gamma - np.log(points.step_s)
    (compute_rmse, by_compute), (step_rmse, by_step) = _rmse(compute_error), _rmse(step_error)

    growth = np.array([beta_n / alpha_n, beta_r / alpha_r]) ** 2
    value = compute_rmse + step_rmse + _OVERLAP_WEIGHT * (gamma - 1.0) ** 2 + _GROWTH_WEIGHT * float(growth.sum())

    along_compute = (by_compute + by_step * weight) / compute
    along_sync = by_step * (1.0 - weight) / sync
    across, within = along_sync * points.across, along_sync * points.within
    steep = 2.0 * _GROWTH_WEIGHT * growth
    along_gamma = (weight * log_compute + (1.0 - weight) * log_sync - log_power / gamma) / gamma
    gradient = [
        alpha_c * along_compute.sum(),
        beta_c * (along_compute * points.local_batch).sum(),
        alpha_n * across.sum() - steep[0],
        beta_n * (across * beyond_two).sum() + steep[0],
        alpha_r * within.sum() - steep[1],
        beta_r * (within * beyond_two).sum() + steep[1],
        (by_step * along_gamma).sum() + 2.0 * _OVERLAP_WEIGHT * (gamma - 1.0),
    ]
    return float(value), np.array(gradient)


def _rmse(error: FloatArray) -> tuple[float, FloatArray]:
    """Return the root mean square and its derivative by each entry (zero where the root is not smooth)."""
    rmse = float(np.sqrt(np.mean(error**2)))
    return rmse, error / (rmse * error.size) if rmse > 0.0 else np.zeros_like(error)


def _check_points(**given: Sequence[float] | NDArray[np.generic]) -> _Points:
    arrays = {name: _to_column(name, values) for name, values in given.items()}
    nodes, k, local, step, sync = arrays.values()
    if not step.size:
        raise DataError("step_time_s", "there is no measurement", "give at least one point")
    for name, column in arrays.items():
        if column.size != step.size:
            problem = f"{column.size} values for {step.size} step times; one per point is needed"
            raise DataError(name, problem, "give all columns the same length")
    _refuse("num_nodes", nodes, (nodes == np.round(nodes)) & (nodes >= 1), "whole numbers of at least 1 are allowed")
    _refuse("gpus", k, (k == np.round(k)) & (k >= nodes), "whole numbers of at least one GPU per node are allowed")
    _refuse("local_batch_sizes", local, local > 0, "samples per GPU above zero are allowed")
    _refuse("step_time_s", step, step > 0, "seconds above zero are allowed")
    _refuse("sync_time_s", sync, (sync >= 0) & (sync < step), "seconds from zero to below the step time are allowed")
    return _Points(nodes, k, local, step, step - sync)


def _to_column(name: str, values: Sequence[float] | NDArray[np.generic]) -> FloatArray:
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(name, f"got {values!r}; a list of numbers is needed", "give one per point") from None
    if column.ndim != 1:
        raise DataError(name, f"got an array of shape {column.shape}; a list is needed", "give one number per point")
    _refuse(name, column, np.isfinite(column), "finite numbers are allowed")
    return column


def _refuse(name: str, column: FloatArray, good: NDArray[np.bool_], allowed: str) -> None:
    wrong = np.flatnonzero(~good)
    if wrong.size:
        problem = f"got {float(column[wrong[0]])!r}; {allowed}"
        raise DataError(f"{name}[{wrong[0]}]", problem, "correct the measurement or leave the point out")
