"""SEER's data: what is accepted, in which units, and the message for everything that is not."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from optplan.contracts import Description, Sense
from optplan.errors import DataError
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.seer.exact.answers import describe
from optplan.instances.library import build_named

MakeInstance = Callable[..., SeerInstance]


@pytest.mark.parametrize(
    ("fields", "gpu_min"),
    [
        ({"budget": "80gpu-min"}, 80.0),
        ({"budget": "2gpu-h"}, 120.0),
        ({"budget": "6usd", "price_usd_per_gpu_hour": 3.0}, 120.0),
    ],
)
def test_budgets_count_gpu_minutes(make_instance: MakeInstance, fields: dict[str, object], gpu_min: float) -> None:
    """GPU-time as it is, money by the price of a GPU-hour."""
    instance = make_instance(**fields)
    assert instance.budget_gpu_min == pytest.approx(gpu_min)
    assert instance.limits == {"budget": pytest.approx(gpu_min), "deadline": 10.0}


def test_durations_may_have_units(make_instance: MakeInstance) -> None:
    """Text with a unit is the same as the number in the unit of the field's name."""
    written = make_instance(deadline_min="0.5h", least_round_min="90s", resize_s="1min")
    assert (written.deadline_min, written.least_round_min, written.resize_s, written.resize_min) == (
        30.0,
        1.5,
        60.0,
        1.0,
    )
    assert written == make_instance(deadline_min=30, least_round_min=1.5, resize_s=60)
    assert SeerInstance.parse(written.to_json_data()) == written


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({}, "held"),
        ({"gpus_per_node": 1}, "held"),
        ({"gpus_per_node": 4}, "nodes"),
        ({"gpus_per_node": 4, "budget_counts": "held"}, "held"),
        ({"gpus_per_node": 1, "budget_counts": "nodes"}, "nodes"),
    ],
)
def test_the_budget_counts_what_is_rented(make_instance: MakeInstance, fields: dict[str, object], counted: str) -> None:
    """Nodes of several GPUs are rented whole, and so are they counted unless the instance says otherwise."""
    instance = make_instance(**fields)
    said = make_instance(**fields | {"budget_counts": counted}) if "gpus_per_node" in fields else instance
    assert instance.counted == counted
    assert instance.nodes_paid == (fields["gpus_per_node"] if counted == "nodes" else None)
    assert instance.content_hash() == said.content_hash()
    assert instance.replace(gpus_per_node=4).counted == (fields.get("budget_counts") or "nodes")


def test_hashes_tell_what_is_counted_apart(make_instance: MakeInstance) -> None:
    """GPUs held have the hash that results of the paper's experiments carry; nodes have another."""
    held, nodes = (make_instance(gpus_per_node=4, budget_counts=each) for each in ("held", "nodes"))
    assert held.content_hash() != nodes.content_hash()
    assert build_named("seer-resnet18-30min-32gpu").content_hash().startswith("fcc645c0dbf1")


def test_resizing_takes_what_was_measured() -> None:
    """Unless it is said, zero included: 22 s, the median of 21, 22 and 25."""
    fields = {"formulation": "seer", "deadline_min": 10, "budget": "80gpu-min"}
    assert SeerInstance.parse(fields).resize_s == sorted([22.0, 21.0, 25.0])[1]
    assert SeerInstance.parse(fields | {"resize_s": 0}).resize_s == 0.0


def test_what_it_says_about_itself(make_instance: MakeInstance) -> None:
    """Units, sense, limits as given, and what solvers are matched against."""
    instance = make_instance(budget="4usd", price_usd_per_gpu_hour=3.0)
    assert (instance.objective_unit, instance.sense) == ("GPU-min", Sense.MAXIMISE)
    assert instance.limit_as_given("budget") == (4.0, "usd")
    assert instance.limit_as_given("deadline") == (10.0, "min")
    assert instance.price_unit("budget") == "GPU-min per GPU-min"
    assert instance.price_unit("deadline") == "GPU-min per min"
    # Rows of the example: 8, 9 and 10 trials of 1 GPU, 4 to 6 of 2 GPUs (4, 5, 6 with a third one later), 0 to 2 of 4.
    assert describe(instance) == Description("spend", "brackets", 9)
    assert describe(make_instance(deadline_min=0.5)).cells == 0


@pytest.mark.parametrize("field", ["deadline_min", "least_gpus", "most_gpus", "least_round_min", "eta", "nu"])
@pytest.mark.parametrize("value", [0, -1, math.inf, -math.inf, math.nan])
def test_numbers_must_be_positive_and_finite(make_instance: MakeInstance, field: str, value: float) -> None:
    """Zero, negative, infinite and not a number: refused by name and value."""
    with pytest.raises(DataError, match=rf"^{field}: got {str(value).replace('-', '[-]')}"):
        make_instance(**{field: value})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"least_gpus": 8, "most_gpus": 4},
            r"^least_gpus: got 8, more than most_gpus \(4\); lower it, or raise most_gpus$",
        ),
        ({"eta": 1}, r"^eta: got 1.0; a number above 1 is needed: one trial in eta goes on to the next round$"),
        ({"nu": 0.9}, r"^nu: got 0.9; a number from 1 on is needed: each bracket gives a trial nu times as many GPUs$"),
        ({"resize_s": -1}, r"^resize_s: got -1"),
        ({"resize_s": math.inf}, r"^resize_s: got inf"),
        ({"deadline_min": "soon"}, r"^deadline_min: cannot read 'soon'; write a number and a unit, as in 20min"),
        ({"deadline_min": "30"}, r"^deadline_min: '30' has no known unit of time"),
        ({"deadline_min": True}, r"^deadline_min: got True; a number, or text such as '30min', is needed$"),
        (
            {"deadline_min": 1e30},
            r"^deadline_min: got 1e\+30; numbers from 1e-20 to 1e\+20 are allowed; check the unit$",
        ),
        ({"eta": "4"}, r"^eta: got '4'; a number is needed$"),
        ({"least_gpus": 1.5}, r"^least_gpus: got 1.5; whole GPUs are needed; round it, or set whole_gpus to false$"),
        ({"most_gpus": 2.5}, r"^most_gpus: got 2.5; whole GPUs are needed; round it, or set whole_gpus to false$"),
        ({"gpus_per_node": 0}, r"^gpus_per_node: got 0; input should be greater than or equal to 1$"),
        ({"gpus_per_node": 2.0}, r"^gpus_per_node: got 2.0; input should be a valid integer$"),
        (
            {"gpus_per_node": 4, "whole_gpus": False},
            r"^gpus_per_node: got 4, although whole_gpus is false; fractions of GPUs have no place on a node",
        ),
        (
            {"budget_counts": "nodes"},
            r"^gpus_per_node: is missing, and the budget counts whole nodes; add it$",
        ),
        ({"budget": 80}, r"^budget: got 80; write a number with its unit, as in 480gpu-min, 8gpu-h or 20usd$"),
        ({"budget": "80"}, r"^budget: '80' has no known unit"),
        ({"budget": "0gpu-min"}, r"^budget: got '0gpu-min'; a finite number above zero is needed$"),
        ({"budget": "-3usd"}, r"^budget: got '-3usd'; a finite number above zero is needed$"),
        ({"budget": "1e400gpu-min"}, r"^budget: got '1e400gpu-min'; a finite number above zero is needed$"),
        (
            {"budget": "1e30gpu-h"},
            r"^budget: got '1e\+30gpu-h'; numbers from 1e-20 to 1e\+20 are allowed; check the unit$",
        ),
        ({"budget": "8gpu"}, r"^budget: got '8gpu', a rate; the total of one search is needed, as in 480gpu-min"),
        ({"budget": "9usd/hour"}, r"^budget: got '9usd/hour', a rate; the total of one search is needed"),
        ({"budget": "3usd"}, r"^price_usd_per_gpu_hour: is missing, and the budget is in money; add it, or give"),
        ({"price_usd_per_gpu_hour": 0}, r"^price_usd_per_gpu_hour: got 0; input should be greater than 0$"),
        ({"budget": "1e12gpu-h"}, r"^budget: got '1000000000000gpu-h', which pays 6e\+13 rounds of"),
        (
            {"eta": 1.0000001, "budget": "1e6gpu-h", "deadline_min": 1e6},
            r"^eta: got 1.0000001, with which deadline and",
        ),
        ({"deadline": 5}, r"^deadline: unknown field 'deadline'; did you mean 'deadline_min'\?$"),
    ],
)
def test_wrong_data_is_refused_by_name(make_instance: MakeInstance, fields: dict[str, object], message: str) -> None:
    """The message has the field's path, the value, what is allowed and what to do."""
    with pytest.raises(DataError, match=message):
        make_instance(**fields)


def test_missing_fields_are_named() -> None:
    """Deadline and budget are all that the paper asks for, and must be there."""
    with pytest.raises(DataError, match=r"^deadline_min: is missing; add it"):
        SeerInstance.parse({"formulation": "seer", "budget": "80gpu-min"})
