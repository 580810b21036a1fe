"""The judge's figures of a search under a prior: its expected final loss, and what it gains over the published one.

A mean over samples is not the expectation itself, and nothing bounds what other searches could reach: the problem
``informed`` has no certificate of any kind.
"""

from __future__ import annotations

from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.laws.expectation import Search, estimate_mean, require_prior, sample_report


def judge_quality(instance: SeerInstance, solution: SeerSolution) -> tuple[float, dict[str, float]]:
    """Sample the expected final loss of a search that breaks no rule, and compare it with the published search.

    Return the mean and, as measures, the ends of its 95 % confidence interval, the mean final loss of the published
    search, which knows no prior, and what is gained over that, sample by sample, with its own interval.
    """
    published = instance.published
    searches = [Search.of(instance, each) for each in (solution, published) if each is not None]
    figures = sample_report(require_prior(instance), searches)
    found = estimate_mean(figures[0])
    measures = {"low_loss": found.low, "high_loss": found.high, "samples": float(figures.shape[1])}
    if published is not None:
        gain = estimate_mean(figures[1] - figures[0])
        measures |= {
            "uninformed_loss": estimate_mean(figures[1]).mean,
            "gain_loss": gain.mean,
            "gain_low_loss": gain.low,
            "gain_high_loss": gain.high,
        }
    return found.mean, measures
