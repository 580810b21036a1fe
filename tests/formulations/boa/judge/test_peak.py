"""What the judge takes for a proof about GPUs in use at once: averages over the day, and bent certificates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import JsonValue

from optplan.contracts.judgement import RefutedError
from optplan.contracts.result import TreeCertificate
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.formulations.boa.judge.peak import find_largest_share, find_least_over
from optplan.formulations.boa.judge.trees import check_tree
from optplan.progress import OutOfTime, Stopwatch, interruptible
from optplan.speedup import TableSpeedup


def one_class(**fields: object) -> BoaInstance:
    """Return ten jobs an hour of a GPU-hour, on 1 GPU or, in 0.3 hours, on 4; at most 20 at once."""
    table = TableSpeedup(gpus=np.array([1, 4]), speedup=np.array([1.0, 10.0 / 3.0]))
    job = JobClass(arrival_rate_per_hour=10.0, epoch_size_gpu_hours=[1.0], speedup={"t4": table})
    limit = {"gpus": 20, "probability": 0.95}
    given = {"gpu_types": {"t4": GpuType()}, "budget": "12gpu", "problem": "whole", "most_gpus": limit, **fields}
    return BoaInstance.parse({"classes": {"job": job}, **given})


def certify(
    bound: float | None = 1404.9, *, width: float = 4.0, most: float = 2.6131, **content: JsonValue
) -> TreeCertificate:
    """Return the proof that at most 2.613 groups of 4 run at once on average: a job on 1 GPU takes 2520 s longer."""
    # A group less costs 2520 / 3 s, so that 1080 + 840 (3 - 2.613) is left of the Lagrangian bound.
    given: dict[str, JsonValue] = {
        "conditions": [{"width": width, "most": most}],
        "tree": [{"weights": [1.0, 0.0, 840.0]}],
    }
    return TreeCertificate(rule="boa-peak", bound=bound, content=given | content)


@pytest.mark.parametrize("policy", ["pure", "mixed"])
def test_a_bound(policy: str) -> None:
    """P(N > 5) is 5 % at a mean of 2.613: nothing below 3600 - 840 * 2.6131 keeps the limit, and no more is proven."""
    check_tree(one_class(policy=policy), certify(), Stopwatch())
    with pytest.raises(RefutedError, match="leaves room"):
        check_tree(one_class(policy=policy), certify(1405.1), Stopwatch())


@pytest.mark.parametrize(
    ("bent", "said"),
    [
        ({"most": 2.6}, "may keep the limit"),
        ({"width": 3.0}, "may keep the limit"),
        ({"conditions": [{"slope": 0.1, "most": 1.0}]}, "may keep the limit"),
        ({"conditions": [{"slope": 0.1, "width": 1.0, "most": 1.0}]}, "either a width or a slope"),
        (
            {"conditions": [{"width": 4.0, "most": -1.0}]},
            r"conditions.0.most: got -1.0; a number above 0 and below 1e\+06 is needed",
        ),
        ({"width": 1e-5}, "conditions.0.width: got 1e-05; jobs hold 1 GPU at least, so a width is 1 or more"),
        ({"width": 1e-300}, "conditions.0.width: got 1e-300; jobs hold"),
        ({"width": math.nextafter(1.0, 0.0)}, "conditions.0.width: got 0.9999999999999999; jobs hold"),
        ({"conditions": []}, "list 'conditions' of 1 to"),
        ({"least_jobs": True}, "nothing of a bound"),
    ],
)
def test_what_proves_nothing(bent: dict[str, Any], said: str) -> None:
    """Amounts that a plan may exceed and still keep the limit, and conditions that are none."""
    with pytest.raises(RefutedError, match=said):
        check_tree(one_class(), certify(**bent), Stopwatch())


def test_whom_it_is_not_about() -> None:
    """Instances without the limit, jobs that keep it, and mixed plans where parts are listed."""
    with pytest.raises(RefutedError, match="no limit on the GPUs"):
        check_tree(one_class(most_gpus=None), certify(), Stopwatch())
    with pytest.raises(RefutedError, match="which is allowed"):
        check_tree(one_class(), certify(None, least_jobs=True), Stopwatch())
    listed: list[JsonValue] = [{"weights": [1.0, 0.0, 840.0], "listed": True}]
    with pytest.raises(RefutedError, match="mixed plans"):
        check_tree(one_class(policy="mixed"), certify(tree=listed), Stopwatch())


def test_the_day_at_its_worst() -> None:
    """No two values of a mean, within the range, have less over or more below than is said; steady ones as much."""
    draws = np.random.default_rng(0)
    for _ in range(200):
        low, high, mean = draws.uniform(0.0, 1.0), draws.uniform(1.0, 3.0), draws.uniform(0.5, 6.0)
        first, second = low + (1.0 - low) * draws.random(), 1.0 + (high - 1.0) * draws.random()
        share = (second - 1.0) / (second - first) if second > first else 1.0
        values = np.array([first, second]) * mean
        over = np.array([1.0 - sum(math.exp(-v) * v**n / math.factorial(n) for n in range(4)) for v in values])
        kept = np.exp(np.minimum(2.0 - values, 0.0))
        weights = np.array([share, 1.0 - share])
        assert find_least_over(3, mean, 0.0, low, high) <= weights @ over + 1e-12
        assert find_largest_share(2.0, mean, low, high) >= weights @ kept - 1e-12
    assert find_least_over(3, 2.0, 0.0, 1.0, 1.0) == pytest.approx(0.142877, abs=1e-6)
    assert find_largest_share(2.0, 3.0, 1.0, 1.0) == pytest.approx(math.exp(-1.0))


def test_without_a_stopwatch_nobody_is_interrupted() -> None:
    """Plans are still evaluated when whoever solves has asked for an end; a certificate is left where it is."""
    with interruptible() as interruption:
        interruption.interrupt()
        assert find_least_over(3, 2.0, 0.0, 1.0, 1.0) == pytest.approx(0.142877, abs=1e-6)
        with pytest.raises(OutOfTime):
            check_tree(one_class(), certify(), Stopwatch())
