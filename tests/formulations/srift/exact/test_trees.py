"""Certificates of the search: written for whatever it proves, small, and given up where time or size do not do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optplan.contracts.result import BoundProof, SolveRequest, Status
from optplan.contracts.time_and_money import Objective
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.exact import trees
from optplan.formulations.srift.exact.best_first import solve_best_first
from optplan.formulations.srift.exact.goals import LeastGoal
from optplan.formulations.srift.exact.search import FleetSpace
from optplan.formulations.srift.exact.trees import write_tree
from optplan.instances.generators import random_srift
from optplan.progress import Stopwatch

Golden = Callable[[str], SriftInstance]
MakeInstance = Callable[..., SriftInstance]


def search(instance: SriftInstance) -> tuple[FleetSpace, float]:
    """Return the fleets of an instance after a search, and the optimum."""
    goal, space = LeastGoal(instance), FleetSpace(instance)
    space.search(goal, Stopwatch())
    assert goal.objective is not None
    return space, goal.objective


def test_no_number_by_hand(make_instance: MakeInstance) -> None:
    """64 samples in 16 ms on 1 big@32 + 8 small@4: quicker VMs hold 1 * 16 + 8 * 2 at most, slower ones take longer."""
    space, optimum = search(make_instance(objective="time"))
    certificate = write_tree(space, optimum, Stopwatch())
    assert certificate is not None
    assert certificate.bound == optimum == pytest.approx(1.6)
    assert certificate.content == {"order": ["big", "small"], "trees": []}


def test_numbers_by_hand(golden: Golden) -> None:
    """Case 3 has one fleet within its limits, 4 p3@1024 + 8 g3@128 + 8 g4dn@128, whose slowest VM is g3@128.

    Of its 8 counts the last, number 7, is divided: 8 from -1. Next come the p3, whose options are none, then 1 to 4
    with the largest batch: 4@1024 is option 4, 5 from -1. Left are the VMs of the last type: single fleets.
    """
    space, optimum = search(golden("case3"))
    certificate = write_tree(space, optimum, Stopwatch())
    assert certificate is not None
    assert certificate.content == {
        "order": ["p3.8xlarge", "g4dn.8xlarge", "g3.8xlarge"],
        "trees": [["g3.8xlarge", 128, 0, [[8], [5]]]],
    }


@pytest.mark.parametrize("name", ["case1", "case2", "case3", "interruption", "resnet50-aws", "spot-or-on-demand"])
def test_the_librarys_optima_have_certificates(golden: Golden, name: str) -> None:
    """Of less than a kilobyte."""
    answer = solve_best_first(golden(name), SolveRequest())
    assert answer.bound_proof is BoundProof.TREE
    (certificate,) = answer.certificates
    assert len(certificate.model_dump_json()) < 1000


def test_a_search_of_millions_has_a_small_certificate() -> None:
    """12 types with 64 VMs each and 6 batches have 5e24 fleets."""
    instance = random_srift(types=12, most=64, global_batch=8192, batches=6, seed=3, objective=Objective.TIME)
    answer = solve_best_first(instance, SolveRequest())
    assert answer.bound_proof is BoundProof.TREE
    assert len(answer.certificates[0].model_dump_json()) < 20_000


def test_no_certificate_where_none_is_wanted(golden: Golden) -> None:
    """Then the proof rests on the search; nothing is warned of."""
    for changes in ({}, {"deadline_s": 300.0}):
        answer = solve_best_first(golden("case3").replace(**changes), SolveRequest(certify=False))
        assert answer.certificates == answer.warnings == ()
        assert answer.bound_proof is (BoundProof.NONE if changes else BoundProof.SEARCHED)
        assert answer.infeasibility is None or answer.infeasibility.certificate is None


def test_a_certificate_that_is_too_large_is_not_written(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is the same, and says that its proof rests on the search."""
    monkeypatch.setattr(trees, "_MOST_CHARACTERS", 1)
    answer = solve_best_first(golden("case3"), SolveRequest())
    assert answer.status is Status.OPTIMAL
    assert answer.bound_proof is BoundProof.SEARCHED
    assert "it would be larger than certificates may be: the proof rests on the search alone" in answer.warnings[0]


def test_no_certificate_is_written_without_time(golden: Golden) -> None:
    """Where something has to be divided."""
    space, optimum = search(golden("case3"))
    assert write_tree(space, optimum, Stopwatch(0.0)) is None


def test_what_is_not_so_is_not_written(golden: Golden) -> None:
    """No tree is found for a bound above the optimum, not even by a billionth."""
    space, optimum = search(golden("case3"))
    assert write_tree(space, optimum, Stopwatch()) is not None
    assert write_tree(space, optimum * (1 + 1e-9), Stopwatch()) is None
    assert write_tree(space, None, Stopwatch()) is None
