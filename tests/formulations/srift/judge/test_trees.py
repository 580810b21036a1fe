"""Trees attacked: no false claim passes, however it is forged, and every true one does."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from optplan.contracts.judgement import RefutedError
from optplan.contracts.result import TreeCertificate
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.exact.goals import LeastGoal
from optplan.formulations.srift.exact.search import FleetSpace
from optplan.formulations.srift.exact.trees import write_tree
from optplan.formulations.srift.judge.trees import check_tree
from optplan.progress import OutOfTime, Stopwatch

DrawInstance = Callable[[int], SriftInstance]
Golden = Callable[[str], SriftInstance]
JudgeAll = Callable[[SriftInstance], list[tuple[float, float, tuple[VmGroup, ...]]]]
#: Relative heights of claims that are too high.
TOO_HIGH = (1e-8, 1e-6, 1e-3, 0.1, 1e3)


def is_proven(instance: SriftInstance, certificate: TreeCertificate) -> bool:
    """Return whether the judge accepts a certificate; all else than refusing it is an error."""
    try:
        check_tree(instance, certificate, Stopwatch())
    except RefutedError:
        return False
    return True


def certify(instance: SriftInstance, limit: str = "") -> TreeCertificate:
    """Return the certificate of the best fleet, or of there being none."""
    goal, space = LeastGoal(instance), FleetSpace(instance)
    space.search(goal, Stopwatch())
    certificate = write_tree(space, goal.objective, Stopwatch(), limit=limit)
    assert certificate is not None
    return certificate


def limit(instance: SriftInstance, judge_all: JudgeAll, seed: int) -> SriftInstance:
    """Give an instance limits that some of its fleets just keep, just miss, or none keeps."""
    stream, fleets = random.Random(seed), judge_all(instance)
    if not fleets or stream.random() < 0.3:
        return instance
    limits: dict[str, Any] = {}
    factors = (0.5, 0.999, 1.0, 1.0, 1.001, 2.0)
    if stream.random() < 0.7:
        limits["deadline_s"] = stream.choice(fleets)[0] * stream.choice(factors)
    if stream.random() < 0.5:
        limits["budget"] = f"{stream.choice(fleets)[1] * stream.choice(factors):.17g}usd"
    return instance.replace(**limits)


def best_of(instance: SriftInstance, fleets: list[tuple[float, float, tuple[VmGroup, ...]]]) -> float | None:
    """Return the least objective of fleets."""
    return min((cost if instance.objective is Objective.COST else time for time, cost, _ in fleets), default=None)


def test_true_claims_pass_and_claims_that_are_too_high_do_not(draw_instance: DrawInstance, judge_all: JudgeAll) -> None:
    """Against every fleet of 250 small instances of all kinds, by as little as a hundred-millionth."""
    feasible = 0
    for seed in range(250):
        instance = limit(draw_instance(seed), judge_all, seed)
        certificate, best = certify(instance), best_of(instance, judge_all(instance))
        assert certificate.bound == (None if best is None else pytest.approx(best, rel=1e-9))
        assert is_proven(instance, certificate), seed
        if best is None:
            continue
        feasible += 1
        false = [certificate.replace(bound=best * (1 + more)) for more in TOO_HIGH]
        for forged in [*false, certificate.replace(bound=None)]:
            assert not is_proven(instance, forged), seed
    assert feasible > 60


def test_no_forged_tree_proves_what_is_false(draw_instance: DrawInstance, judge_all: JudgeAll) -> None:
    """Parts added and renumbered at random, levels added and dropped, the order shuffled: no claim that is too high."""
    looked_at = 0
    for seed in range(120):
        instance = limit(draw_instance(seed), judge_all, seed)
        best = best_of(instance, judge_all(instance))
        if best is None:
            continue
        certificate, stream = certify(instance), random.Random(seed)
        for _ in range(20):
            content: Any = copy.deepcopy(certificate.content)
            stream.shuffle(content["order"])
            for tree in content["trees"]:
                for level in tree[3]:
                    for _ in range(stream.randint(0, 3)):
                        level.insert(stream.randint(0, len(level)), stream.randint(1, 5))
                if stream.random() < 0.3:
                    tree[3].append([stream.randint(1, 5)])
                if stream.random() < 0.2:
                    tree[3] = tree[3][:-1]
            bound = stream.choice([best * (1 + 1e-6), best * 1.1, None])
            assert not is_proven(instance, certificate.replace(content=content, bound=bound)), seed
            looked_at += 1
    assert looked_at > 500


@pytest.mark.parametrize("name", ["case3", "interruption", "resnet50-aws", "spot-or-on-demand"])
def test_a_part_that_is_missing_is_noticed(golden: Golden, name: str) -> None:
    """Without any one of its numbers the certificate proves nothing, nor without any one of its trees."""
    instance, certificate = golden(name), certify(golden(name))
    trees: Any = certificate.content["trees"]
    assert is_proven(instance, certificate)
    for tree, (_, _, _, levels) in enumerate(trees):
        less = {**certificate.content, "trees": trees[:tree] + trees[tree + 1 :]}
        assert not is_proven(instance, certificate.replace(content=less))
        for level, place in ((level, place) for level, steps in enumerate(levels) for place in range(len(steps))):
            content: Any = copy.deepcopy(certificate.content)
            steps = content["trees"][tree][3][level]
            gap = steps.pop(place)
            if place < len(steps):
                steps[place] += gap
            assert not is_proven(instance, certificate.replace(content=content))


def test_the_nearest_limits_are_proven_with_the_limit_dropped(golden: Golden) -> None:
    """5.4 within 75 s and .4 usd: 82.43 s and .5892 usd are the nearest, and not a millionth more."""
    instance = golden("interruption").replace(deadline_s=75.0, budget="0.4usd")
    for name, changes in (
        (DEADLINE, {"deadline_s": None, "objective": "time"}),
        (BUDGET, {"budget": None, "objective": "cost"}),
    ):
        certificate = certify(instance.replace(**changes), limit=name)
        assert certificate.bound == pytest.approx({DEADLINE: 82.43, BUDGET: 0.5892}[name], rel=1e-3)
        assert is_proven(instance, certificate)
        assert not is_proven(instance, certificate.replace(bound=certificate.bound * (1 + 1e-6)))  # type: ignore[operator]
        assert not is_proven(instance, certificate.replace(bound=None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": "srift"}, "are read by the rule srift-fleets, not 'srift'"),
        ({"limit": "deadline"}, "has no limit 'deadline' to drop"),
        ({"content": {}}, "must have order and trees, and nothing else"),
        ({"content": {"order": [], "trees": [], "more": 1}}, "must have order and trees, and nothing else"),
        ({"content": {"order": [], "trees": []}}, "order must name every type once"),
        ({"content": {"order": [["g4dn.8xlarge"]], "trees": []}}, "order must name every type once"),
        ({"content": {"order": 3, "trees": []}}, "order must name every type once"),
        ({"trees": {}}, "trees must be a list"),
        ({"trees": [["g4dn.8xlarge", 64, 0]]}, "a list of type, batch, network and levels"),
        ({"trees": [["g4dn.8xlarge", True, 0, []]]}, "must have a type, a batch, the number of a network, and levels"),
        ({"trees": [[{}, 64, 0, []]]}, "must have a type, a batch, the number of a network, and levels"),
        ({"trees": [["g4dn.8xlarge", 64, 0, [["1"]]]]}, "a level must list whole numbers from 1"),
        ({"trees": [["g4dn.8xlarge", 64, 0, [[0]]]]}, "a level must list whole numbers from 1"),
        ({"trees": [["g4dn.8xlarge", 64, 0, [[1.0]]]]}, "a level must list whole numbers from 1"),
        ({"trees": [["g4dn.8xlarge", 64, 0, [[10**400]]]]}, "a level must list whole numbers from 1"),
        ({"trees": [["g4dn.8xlarge", 64, 0, [{"a": 1}]]]}, "a level must list whole numbers from 1"),
        ({"trees": [["g4dn.8xlarge", 64, 0, [[1] * 2**20]]]}, "may list 1,048,576 numbers at most"),
        ({"trees": [["g4dn.8xlarge", 64, 0, []]] * 2}, "two trees of the kind"),
        ({"trees": [["other", 64, 0, []]]}, "no fleets of the kind"),
        ({"trees": [["g4dn.8xlarge", 64, 10**400, []]]}, "no fleets of the kind"),
        ({"trees": [["g4dn.8xlarge", 64, 0, [[1]]]]}, "are complete after 1 levels; no more can be divided"),
    ],
)
def test_whatever_the_content_is_it_is_refused_and_never_an_error(
    golden: Golden, changes: dict[str, Any], message: str
) -> None:
    """Wrong types, missing keys, huge numbers; case 1 has one type, and its fleets one level."""
    certificate = certify(golden("case1"))
    if "trees" in changes:
        changes = {"content": {"order": ["g4dn.8xlarge"], "trees": changes["trees"]}}
    with pytest.raises(RefutedError, match=message):
        check_tree(golden("case1"), certificate.replace(**changes), Stopwatch())


def test_no_content_is_an_error(golden: Golden) -> None:
    """Any value in any place of a certificate's content is refused or makes no difference."""
    instance, certificate = golden("case3"), certify(golden("case3"))
    junk: list[Any] = [None, True, -1, 0, 3, 2**70, -(2**70), 1.5, 1e308, "", "x", [], [[]], {}, {"a": []}]
    places = [("order",), ("order", 0), ("trees",), ("trees", 0), *(("trees", 0, number) for number in range(4))]
    places += [("trees", 0, 3, 0), ("trees", 0, 3, 0, 0), ("trees", 0, 3, 1, 0)]
    refused = 0
    for place, value in itertools.product(places, junk):
        content: Any = copy.deepcopy(certificate.content)
        inner = content
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        refused += not is_proven(instance, certificate.replace(content=content))
    assert refused > 0.9 * len(places) * len(junk)


def test_parts_that_do_not_exist_are_refused(golden: Golden) -> None:
    """A number beyond the last option of the last part, and one of an option that cannot be: none of the p3."""
    instance, certificate = golden("case3"), certify(golden("case3"))
    for levels, message in (
        ([[10**6]], "are divided that do not exist"),
        ([[8], [1, 4]], "are divided that do not exist"),
    ):
        content: Any = copy.deepcopy(certificate.content)
        content["trees"][0][3] = levels
        with pytest.raises(RefutedError, match=message):
            check_tree(instance, certificate.replace(content=content), Stopwatch())


def test_a_fleet_that_refutes_a_claim_is_named(golden: Golden) -> None:
    """Where a part is a single fleet, the message says which."""
    certificate = certify(golden("case1"))
    with pytest.raises(RefutedError, match=r"the fleet 16 g4dn\.8xlarge@64 refutes it: it takes 915\.6"):
        check_tree(golden("case1"), certificate.replace(bound=1000.0), Stopwatch())


def test_it_ends_in_time(golden: Golden) -> None:
    """Once the judge's time is over, nothing more is looked at."""
    certificate = certify(golden("case3"))
    with pytest.raises(OutOfTime):
        check_tree(golden("case3"), certificate, Stopwatch(0.0))
