"""Expected maxima of independent durations, by quadrature in one dimension.

With F the distribution function of the maximum and U a point that it never exceeds, E[max] = U - integral of F up to
U. In standard deviations the integrand of normal variables is smooth and at most one wide, so that Gauss-Legendre
panels of width one reach the precision of floats, whatever the number of variables.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from optplan.formulations.rubberband.data.distributions import (
    ConstantDistribution,
    Distribution,
    EmpiricalDistribution,
    LogNormalDistribution,
    NormalDistribution,
)
from optplan.schema import FloatArray, IntArray

#: Deviations from the mean beyond which a normal variable of a million lies with a probability below 1e-12.
_REACH = 10

#: Nodes of a panel.
_NODES = 12

#: Counts for which maxima are computed at once: bounds the memory.
_BLOCK = 2048


def expected_maximum(distribution: Distribution, counts: IntArray) -> FloatArray:
    """Return the expected maxima (K,) of numbers of independent draws, to a relative 1e-10; that of none is zero."""
    maxima = np.zeros(counts.shape)
    for first in range(0, counts.size, _BLOCK):
        block = slice(first, first + _BLOCK)
        maxima[block] = _expected_maximum(distribution, counts[block])
    return np.where(counts > 0, maxima, 0.0)


def _expected_maximum(distribution: Distribution, counts: IntArray) -> FloatArray:
    if distribution.is_constant:
        return np.full(counts.shape, distribution.expected_s)
    match distribution:
        case EmpiricalDistribution():
            size = distribution.values_s.size
            below = (np.arange(size + 1) / size) ** counts[:, None]
            return np.asarray(np.diff(below, axis=1) @ distribution.values_s)
        case NormalDistribution():
            return _maximum_of_clipped_normals(distribution, counts)
        case LogNormalDistribution():
            return _maximum_of_log_normals(distribution, counts)
        case ConstantDistribution():
            return np.full(counts.shape, distribution.value_s)


def _maximum_of_clipped_normals(distribution: NormalDistribution, counts: IntArray) -> FloatArray:
    from scipy.special import ndtr

    mean, sd = distribution.mean_s, distribution.sd_s
    lowest = max(-mean / sd, -float(_REACH))
    z, weight = _panels(lowest, float(_REACH))
    below = np.power(ndtr(z), counts[:, None]) @ weight
    return np.asarray(mean + sd * (_REACH - below))


def _maximum_of_log_normals(distribution: LogNormalDistribution, counts: IntArray) -> FloatArray:
    """Integrate in the logarithm: the maximum of logarithms is the logarithm of the maximum."""
    from scipy.special import log_ndtr

    mu, sigma = distribution.log_mean, distribution.log_sd
    # The largest summands lie sigma further up than the variable does.
    z, weight = _panels(-float(_REACH), _REACH + sigma)
    log_density = -0.5 * z * z - 0.5 * np.log(2 * np.pi)
    draws = np.maximum(counts, 1)[:, None]
    maxima: FloatArray = np.exp(mu + sigma * z + log_density + (draws - 1) * log_ndtr(z) + np.log(draws)) @ weight
    return maxima


def expected_chain_maximum(
    mean_s: FloatArray, sd_s: FloatArray, waves: IntArray, long_chains: IntArray, short_chains: IntArray
) -> FloatArray:
    """Return the expected time (A,) until the last of several chains of normal trials ends, to a relative 1e-10.

    A long chain has w trials, ``waves``, and there is at least one; a short one has w - 1.
    """
    from scipy.special import ndtr

    z, weight = _panels(-float(_REACH), float(_REACH))
    maxima = waves * mean_s
    noisy = np.flatnonzero(sd_s > 0)
    for first in range(0, noisy.size, _BLOCK):
        rows = noisy[first : first + _BLOCK]
        w, sd = waves[rows].astype(float), sd_s[rows]
        below = np.power(ndtr(z), long_chains[rows, None])
        mixed = np.flatnonzero((short_chains[rows] > 0) & (w > 1))
        if mixed.size:
            # Where a long chain is z deviations from its mean, a short one is one trial's mean further up.
            above = (np.sqrt(w[mixed])[:, None] * z + (mean_s[rows] / sd)[mixed, None]) / np.sqrt(w[mixed] - 1)[:, None]
            below[mixed] *= np.power(ndtr(above), short_chains[rows][mixed, None])
        maxima[rows] += np.sqrt(w) * sd * (_REACH - below @ weight)
    return maxima


@cache
def _panels(lowest: float, highest: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss-Legendre panels of width one or less."""
    count = max(int(np.ceil(highest - lowest)), 1)
    edges = np.linspace(lowest, highest, count + 1)
    node, weight = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(edges)[:, None] / 2
    nodes = (edges[:-1, None] + half * (node + 1)).ravel()
    return nodes, (half * weight).ravel()
