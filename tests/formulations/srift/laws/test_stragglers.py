from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.errors import UsageError
from optplan.formulations.srift.laws.iteration import expected_maximum, standard_maximum
from optplan.schema import FloatArray

_GROUP = st.tuples(st.floats(0.1, 2.0), st.floats(0.0, 0.3), st.integers(1, 64))


@pytest.mark.parametrize(
    ("count", "mean"),
    [
        (1, 0.0),
        # Known in closed form: two and three standard normals.
        (2, 1 / math.sqrt(math.pi)),
        (3, 1.5 / math.sqrt(math.pi)),
        # E[max of 4] = 3/sqrt(pi) * (1/2 + asin(1/3)/pi), of order statistics of the normal distribution.
        (4, 3 / math.sqrt(math.pi) * (0.5 + math.asin(1 / 3) / math.pi)),
    ],
)
def test_few_standard_normals_have_the_known_maximum(count: int, mean: float) -> None:
    """The quadrature meets the closed forms."""
    assert standard_maximum(count) == pytest.approx(mean, rel=1e-12, abs=1e-15)


def test_equal_groups_are_one_group() -> None:
    """3 and 4 variables of one distribution are 7 of it."""
    together = expected_maximum([1.0], [0.1], [7])
    assert expected_maximum([1.0, 1.0], [0.1, 0.1], [3, 4]) == pytest.approx(together, rel=1e-12)
    assert together == pytest.approx(1.0 + 0.1 * standard_maximum(7), rel=1e-15)


def test_groups_that_never_win_do_not_count() -> None:
    """VMs at half the time of the slowest, some ten deviations away, leave its maximum as it is."""
    alone = expected_maximum([1.0], [0.036], [4])
    assert expected_maximum([1.0, 0.5], [0.036, 0.018], [4, 64]) == pytest.approx(alone, rel=1e-12)


def test_without_deviation_the_largest_mean_is_the_maximum() -> None:
    """Constants have a maximum without any probability; so has a constant far above a variable."""
    assert expected_maximum([1.0, 3.0, 2.0], [0.0, 0.0, 0.0], [1, 2, 3]) == 3.0
    assert expected_maximum([3.0, 1.0], [0.0, 0.01], [1, 64]) == 3.0
    # The positive part of a standard normal has the mean 1/sqrt(2 pi).
    assert expected_maximum([0.0, 0.0], [0.0, 1.0], [1, 1]) == pytest.approx(1 / math.sqrt(2 * math.pi), rel=1e-12)


@given(groups=st.lists(_GROUP, min_size=1, max_size=4))
def test_quadrature_agrees_with_the_papers_sampling(
    groups: list[tuple[float, float, int]], sample_maximum: Callable[..., FloatArray]
) -> None:
    """The mean of the paper's samples lies within five standard errors of the quadrature.

    What happens less than ten times in 20,000 samples may not be seen at all, nor its share of the error.
    """
    means, shares, counts = zip(*groups, strict=True)
    deviations = [mean * share for mean, share in zip(means, shares, strict=True)]
    drawn = sample_maximum(means, deviations, counts, samples=20_000, seed=7)
    error = float(drawn.std()) / math.sqrt(drawn.size)
    allowed = 5 * error + 10 / drawn.size * max(deviations) + 1e-11
    assert abs(float(drawn.mean()) - expected_maximum(means, deviations, counts)) <= allowed


@given(st.lists(_GROUP, min_size=1, max_size=4), _GROUP)
def test_one_more_vm_is_never_faster(groups: list[tuple[float, float, int]], more: tuple[float, float, int]) -> None:
    """A further group of VMs can only delay the straggler, and the mean is at least the largest mean."""

    def maximum(of: list[tuple[float, float, int]]) -> float:
        return expected_maximum([m for m, _, _ in of], [m * s for m, s, _ in of], [n for _, _, n in of])

    alone = maximum(groups)
    assert maximum([*groups, more]) >= alone * (1 - 1e-9)
    assert alone >= max(mean for mean, _, _ in groups) * (1 - 1e-12)


def test_no_vms_have_no_straggler() -> None:
    """A fleet of no VMs is refused."""
    with pytest.raises(UsageError, match="the largest of no variables is not defined; give at least one"):
        expected_maximum([1.0], [0.1], [0])
