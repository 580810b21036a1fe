"""Pollux as a policy: how jobs grow, what restarts cost, and what it needs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from optplan.errors import UsageError
from optplan.lab.cluster.jobs import Job, Spread, TabledApplication
from optplan.lab.cluster.policies.naming import make_policy
from optplan.lab.cluster.policies.pollux import Pollux
from optplan.lab.cluster.replaying import replay
from optplan.lab.fields import Knowledge
from optplan.schema import FloatArray

#: Twice as quick on two GPUs, four times on four; a pause of 10 s.
LINEAR = TabledApplication({k: np.array([600.0 / k]) for k in (1, 2, 3, 4)}, num_epochs=1, rescale_s=10.0)


def test_a_job_alone_doubles_its_gpus() -> None:
    """One GPU at 60 s, two at 120, four at 180, with 10 s without progress for each start."""
    outcome = replay([Job("a", "linear", 60.0, LINEAR)], Pollux(), gpus_per_node=4, nodes=1)
    assert outcome.gpus_used.tolist() == [0, 1, 2, 4, 0]
    assert outcome.times_s.tolist() == [0.0, 60.0, 120.0, 180.0, 190.0 + (600 - 50 - 2 * 50) / 4]


def test_jobs_share_alike() -> None:
    """Two equal jobs end with two GPUs each, and nobody is stopped for the other."""
    jobs = [Job(name, "linear", 1.0, LINEAR) for name in "ab"]
    outcome = replay(jobs, make_policy("pollux"), gpus_per_node=4, nodes=1)
    # From 60 s on one GPU, from 120 on two; 50 s of work done by then, and four GPUs are of use to neither.
    assert outcome.jct_s.tolist() == [pytest.approx(120 + 10 + 550 / 2 - 1)] * 2
    assert outcome.most_gpus == 4


def test_a_job_that_needs_two_gpus() -> None:
    """It starts on the least that it runs on; one that runs on nothing is reported."""
    pair = TabledApplication({2: np.array([100.0])}, num_epochs=1)
    nothing = TabledApplication({}, num_epochs=1)
    jobs = [Job("a", "pair", 1.0, pair), Job("b", "nothing", 1.0, nothing)]
    outcome = replay(jobs, Pollux(), gpus_per_node=4, nodes=1)
    assert outcome.jct_s[0] == 159.0
    assert set(outcome.problems) == {"b"}


def test_it_needs_a_size() -> None:
    """What is divided has to have an end."""
    with pytest.raises(UsageError, match=r"pollux.*--nodes"):
        replay([Job("a", "linear", 0.0, LINEAR)], Pollux(), gpus_per_node=4)


def test_what_a_job_learns() -> None:
    """Before it has run, speedups are linear; then they are what the model says of the spreads that it has run on."""

    class Taught(TabledApplication):
        def fit_speeds(self, spreads: Collection[Spread], most_gpus: int) -> FloatArray:
            assert most_gpus == 64
            known.append(set(spreads))
            gpus = np.arange(5.0)
            return np.array([[gpus], [(0.0 if spreads else 1.0) * gpus]])

    known: list[set[Spread]] = []
    taught = Taught({k: np.array([600.0 / k]) for k in (1, 2)}, num_epochs=1)
    outcome = replay([Job("a", "taught", 1.0, taught)], Pollux(Knowledge.LEARNED), gpus_per_node=4, nodes=2)
    # Four GPUs would be believed to be quicker, but it is known not to run on more than two.
    assert outcome.gpus_used.tolist() == [0, 1, 2, 0]
    assert known[:3] == [set(), {(1,)}, {(1,), (2,)}]


def test_knowledge_of_those_who_know_nothing() -> None:
    """Policies without beliefs refuse it, and nothing is learned about applications without a model."""
    with pytest.raises(UsageError, match="believes nothing"):
        make_policy("equal-share", knowledge="learned")
    with pytest.raises(UsageError, match="nothing can be learned about linear"):
        replay([Job("a", "linear", 1.0, LINEAR)], make_policy("pollux", knowledge="learned"), gpus_per_node=4, nodes=1)
