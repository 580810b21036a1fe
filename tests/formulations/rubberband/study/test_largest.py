"""The largest search: by hand, against every size of random searches, and what has no one size."""

from __future__ import annotations

import random
from typing import Any

import pytest

from optplan.contracts.result import Status
from optplan.errors import UnsupportedError, UsageError
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.study.largest import Growing, find_largest, resize
from optplan.instances.files import read_instance
from optplan.reporting.rubberband.words import say_largest
from optplan.solving import solve
from optplan.verification import verify


def _make(**changes: Any) -> RubberBandInstance:  # noqa: ANN401 - whatever fields a test needs
    """Make four trials of 10 iterations, then one of 30; instances of 2 GPUs for a tenth of a cent a second."""
    stages = [{"trials": 4, "iterations": 10}, {"trials": 1, "iterations": 30}]
    fields: dict[str, Any] = {
        "experiment": {"form": "stages", "stages": stages},
        "training": {"seconds_per_iteration": {1: 10, 2: 6, 4: 4}},
        "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6, "minimum_charge_s": 0, "most_instances": 8},
    }
    return RubberBandInstance.parse({**fields, **changes})


def test_as_many_trials_as_the_limits_have_room_for() -> None:
    """The last stage takes 180 s and 0.18 usd on one instance; each further pair of trials 100 s of another: 0.1 usd.

    Within 280 s and 0.5 usd three instances can train 6 trials at first, for 0.3 usd; 7 need a fourth.
    """
    found = find_largest(_make(deadline_s=280, budget="0.5usd"), Growing.TRIALS, solve)
    assert (found.size, found.is_proven) == (6, True)
    assert found.result is not None
    assert found.result.objective == pytest.approx(0.48)
    assert found.refusal is not None
    assert found.refusal.infeasibility is not None
    assert {one.limit: one.least_feasible for one in found.refusal.infeasibility.relaxations} == pytest.approx(
        {"budget": 0.58}
    )


def test_both_results_can_be_verified_alone() -> None:
    """The plan of the largest, and that one more is too many, are instances and results like any other."""
    found = find_largest(_make(deadline_s=280), Growing.ITERATIONS, solve)
    for instance, result in ((found.instance, found.result), (found.larger, found.refusal)):
        assert instance is not None
        assert result is not None
        assert verify(instance, result).ok


def test_iterations_grow_in_their_proportions() -> None:
    """Of 50 iterations in all, the stages of 10 and 30 have 12 and 37; of 1, one each."""
    sizes = (50, 1)
    resized = [resize(_make(), Growing.ITERATIONS, size).brackets[0] for size in sizes]
    assert [[stage.iterations for stage in stages] for stages in resized] == [[12, 37], [1, 1]]


def test_a_budget_alone_is_enough() -> None:
    """For 0.28 usd one trial trains at first, 0.1, and then 0.18; two on one instance cost no more; three do."""
    found = find_largest(_make(budget="0.28usd"), Growing.TRIALS, solve)
    assert found.size == 2
    assert found.instance is not None
    assert found.instance.limits == {"budget": 0.28}


def test_not_even_one() -> None:
    """No search is faster than one trial of 10 and 30 iterations on 4 GPUs each: 40 + 120 s."""
    found = find_largest(_make(deadline_s=159), Growing.TRIALS, solve)
    assert (found.size, found.instance, found.is_proven) == (0, None, True)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_every_smaller_size_fits_and_no_larger_one(seed: int) -> None:
    """Random shapes, prices, charges and noise: what fits ends at the largest, and nothing beyond it fits again."""
    draw = random.Random(seed)
    stages = [{"trials": draw.randint(1, 6), "iterations": draw.randint(1, 9)}]
    stages += [{"trials": draw.randint(1, stages[0]["trials"]), "iterations": draw.randint(1, 20)}]
    cloud = {
        "gpus_per_instance": draw.choice([1, 2, 4]),
        "price_usd_per_hour": 3.6,
        "billing": draw.choice(["per-instance", "per-function"]),
        "minimum_charge_s": draw.choice([0, 60, 300]),
        "provision_s": draw.choice([0, 10]),
        "most_instances": draw.randint(2, 4),
    }
    training: dict[str, Any] = {"seconds_per_iteration": {1: 10, 2: draw.choice([5, 6]), 4: 4}}
    if draw.random() < 0.5:
        training["iteration_noise"] = {"form": "normal", "sd_fraction": 0.2}
    instance = _make(experiment={"form": "stages", "stages": stages}, cloud=cloud, training=training)
    instance = instance.replace(deadline_s=draw.uniform(100, 500), budget=f"{draw.uniform(0.05, 0.6)!r}usd")
    for growing in Growing:
        found = find_largest(instance, growing, solve)
        assert found.is_proven
        sizes = sorted({*range(1, 9), *range(max(1, found.size - 4), found.size + 9)})
        fits = [solve(resize(instance, growing, size), check=False).status is Status.OPTIMAL for size in sizes]
        assert fits == [size <= found.size for size in sizes]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({}, UsageError, "has no limit; give --deadline, --budget, or both"),
        ({"mode": "fair", "deadline_s": 99}, UnsupportedError, "ask for mode any"),
        (
            {"experiment": {"form": "hyperband", "most_iterations": 9}, "deadline_s": 99},
            UnsupportedError,
            "several brackets has no one size",
        ),
    ],
)
def test_what_has_no_largest_is_refused(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    """No limit, the paper's rule, and several brackets."""
    with pytest.raises(error, match=message):
        find_largest(_make(**changes), Growing.TRIALS, solve)


def test_a_deadline_alone_that_many_instances_keep() -> None:
    """Doubling reaches 8,192 trials, on up to 4,098 instances; a budget ends it before, and the message says so."""
    instance = read_instance("rubberband-two-stages", RubberBandInstance)
    message = r"of 8,192 trials: this search may hold 4,098 numbers of instances, .*, or give --budget"
    with pytest.raises(UnsupportedError, match=message):
        find_largest(instance, Growing.TRIALS, solve)
    assert find_largest(instance.replace(budget="1usd"), Growing.TRIALS, solve).size == 11


def _vary(minimum_charge_s: float, **changes: Any) -> RubberBandInstance:  # noqa: ANN401 - whatever fields a test needs
    """Make the same with iterations that vary by a tenth, and limits that are both kept in nine of ten runs."""
    instance = _make(deadline_s=290, budget="0.55usd")
    noise = {"form": "normal", "sd_fraction": 0.1}
    data = instance.to_json_data()
    data["training"] |= {"iteration_noise": noise}
    data["cloud"] |= {"minimum_charge_s": minimum_charge_s}
    return RubberBandInstance.parse(data | {"confidence": 0.9} | changes)


def test_both_limits_are_kept_with_the_confidence() -> None:
    """6 trials on three instances cost 0.492 usd on average; 7 need a fourth, and no plan keeps 0.55 usd so often."""
    found = find_largest(_vary(0.0), Growing.TRIALS, solve)
    assert (found.size, found.is_proven) == (6, True)
    assert found.result is not None
    assert found.result.measures["kept_probability"] >= 0.9
    assert found.larger is not None
    assert found.refusal is not None
    assert verify(found.larger, found.refusal).nothing_wrong


def test_that_no_larger_search_is_likely_enough_may_not_be_known() -> None:
    """With 0.99, 5 trials keep 0.55 usd; of 6 the mean does, and the likeliest plan found does not often enough."""
    found = find_largest(_vary(0.0, confidence=0.99), Growing.TRIALS, solve)
    assert (found.size, found.is_proven) == (5, False)
    assert say_largest(found).startswith(
        "The largest search found within 4 min 50 s and $0.550 with a probability of 99 % has 5 trials. Whether one of "
        "6 keeps the limits is not known: the likeliest plan found keeps the deadline of 290 s and the budget of 0.55 "
    )


def test_expected_minimum_charges_leave_no_largest_with_a_confidence() -> None:
    """They may weigh more on a smaller search: refused, with what to change; a deadline alone has no such charges."""
    with pytest.raises(UnsupportedError, match=r"set cloud\.minimum_charge_s=0, or leave the confidence out"):
        find_largest(_vary(60.0), Growing.TRIALS, solve)
    assert find_largest(_vary(60.0, budget=None), Growing.TRIALS, solve).size > 0
