from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from optplan.contracts import Description
from optplan.errors import DataError, UsageError
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.exact.reachability import describe
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.instances.changes import apply_changes, parse_change
from optplan.solving import solve

MakeInstance = Callable[..., SriftInstance]


def test_problem_and_limits(make_instance: MakeInstance) -> None:
    """Cost or time is made least; either limit may be there, or both, in the units that their fields state."""
    instance = make_instance(deadline_s="10min", budget="3usd")
    assert (instance.problem, instance.objective_unit) == ("cheapest", "usd")
    assert instance.limits == {"deadline": 600.0, "budget": 3.0}
    assert instance.limit_as_given("deadline") == (600.0, "s")
    assert instance.limit_as_given("budget") == (3.0, "usd")
    assert instance.price_unit("deadline") == "usd per s of deadline"
    fastest = instance.replace(**instance.fields_of_problem("fastest"))
    assert (fastest.problem, fastest.objective_unit) == ("fastest", "s")
    assert make_instance().limits == {}
    with pytest.raises(UsageError, match="has no deadline; give one, as in --deadline 20min or deadline_s=1200"):
        make_instance().limit_as_given("deadline")
    with pytest.raises(UsageError, match="problem: got 'fast'; did you mean 'fastest'"):
        instance.fields_of_problem("fast")
    assert instance.replace(**instance.fields_of_policy("any-batches")).policy == "any-batches"
    with pytest.raises(UsageError, match="policy: got 'pure'; known: one-batch, any-batches"):
        instance.fields_of_policy("pure")


def test_batches_are_powers_of_two_of_each_gpu(make_instance: MakeInstance) -> None:
    """Up to 64 samples fit on a GPU: a VM with 2 GPUs takes 2 to 128, of which 128 is more than the global batch."""
    instance = make_instance()
    assert instance.batches_of["big"] == (2, 4, 8, 16, 32, 64)
    assert instance.batches_of["small"] == (1, 2, 4, 8, 16, 32, 64)
    listed = make_instance(types={"small": {"batches": [3, 6, 60]}})
    assert listed.batches_of["small"] == (3, 6, 60)


def test_most_vms_of_a_type(make_instance: MakeInstance) -> None:
    """As many as are available, and no more than get a sample for each GPU."""
    instance = make_instance(types={"few": {"available": 3}, "many": {"gpus": 2}, "none": {"batches": [64]}})
    assert [instance.most_of(name) for name in instance.types] == [3, 32, 1]
    assert instance.replace(global_batch=32).most_of("none") == 0


def test_description_is_what_solvers_are_matched_against(make_instance: MakeInstance) -> None:
    """Problem, policy, (type, batch, count) choices, and what is beyond the plainest: 6 * 1 + 7 * 8 choices."""
    found = describe(make_instance())
    assert found == Description("cheapest", "one-batch", 62)
    types = {"small": {"running": 1, "spot": True, "interruptions_per_hour": 0.1}}
    lost = {"checkpoint_every_s": 60, "restart_s": "2min"}
    found = describe(make_instance(types=types, interruptions=lost, one_batch_per_type=False))
    assert (found.policy, found.features) == ("any-batches", frozenset({"interruptions", "running"}))


def test_files_say_the_same_when_read_again(make_instance: MakeInstance) -> None:
    """Writing and reading an instance changes nothing."""
    instance = make_instance(budget="3usd", deadline_s=600)
    again = SriftInstance.parse(instance.to_json_data())
    assert again == instance
    assert again.content_hash() == instance.content_hash()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"types": {}}, "types: is empty; give at least one type of VM"),
        (
            {"types": {"a": {"price_usd_per_hour": 0}}},
            "types.a.price_usd_per_hour: got 0; input should be greater than 0",
        ),
        ({"types": {"a": {"available": 1, "running": 2}}}, "types.a.running: is 2, more than the 1 available"),
        ({"types": {"a": {"available": -1}}}, "types.a.available: got -1; input should be greater than or equal to 0"),
        (
            {"types": {"a": {"interruptions_per_hour": 0.1}}},
            "types.a.interruptions_per_hour: is 0.1, but the VM is not a spot one; set spot to true, or leave it out",
        ),
        (
            {"types": {"a": {"spot": True, "interruptions_per_hour": 0.1}}},
            "interruptions: is missing, and a are interrupted; add it, or leave types.*.interruptions_per_hour out",
        ),
        ({"types": {"a": {"gpus": 2, "batches": [3]}}}, "types.a.batches: got 3; multiples of 2 (GPUs) from 2 to 128"),
        (
            {"types": {"a": {"batches": [65]}}},
            "types.a.batches: got 65; multiples of 1 (GPUs) from 1 to 64 are allowed",
        ),
        ({"types": {"a": {"batches": [4, 2]}}}, "types.a.batches: got [4, 2]; list each choice once, ascending"),
        ({"types": {"a": {"batches": []}}}, "types.a.batches: got []; list each choice once, ascending"),
        (
            {"mixed": False, "types": {"a": {"running": 1}, "b": {"running": 1}}},
            "mixed: is false, but a, b are running; set it to true, or stop some of them",
        ),
        (
            {"bandwidth": {"form": "table", "tables": {}}},
            "bandwidth.tables: has no table for 'big'",
        ),
        ({"budget": "3gpu"}, "budget: got '3gpu'; the budget is money in all, as in 25usd"),
        ({"budget": 3}, "budget: got 3; write an amount of money with its unit, as in 25usd"),
        ({"deadline_s": "3gpu"}, "deadline_s: '3gpu' has no known unit of time"),
        ({"global_batch": 0}, "global_batch: got 0; input should be greater than or equal to 1"),
        ({"iterations": 2.5}, "iterations: got 2.5; input should be a valid integer"),
        (
            {"interruptions": {"checkpoint_every_s": 0, "restart_s": 1}},
            "interruptions.checkpoint_every_s: got 0; input should be greater than 0",
        ),
    ],
)
def test_wrong_instances(make_instance: MakeInstance, fields: dict[str, Any], message: str) -> None:
    """Each mistake is named with the field, the value, what is allowed and what to do."""
    with pytest.raises(DataError, match=re.escape(message)):
        make_instance(**fields)


@pytest.mark.parametrize("ask", [lambda instance: instance.batches_of, IterationModel, solve])
def test_missing_profiles_say_what_measures_them(make_instance: MakeInstance, ask: Callable[[Any], object]) -> None:
    """Of three GPUs one is measured: both others are named with their types, commands, and how to do without them."""
    types = {"a": {"gpu": "slow"}, "g4.x": {"gpu": "t4"}, "b": {"gpu": "my t4"}, "c": {"gpu": "t4"}}
    instance = make_instance(types=types)
    with pytest.raises(DataError) as caught:
        ask(instance)
    command = "`optplan measure network MODULE:FACTORY --device cuda --gpu {} --into FILE -o FILE2`"
    assert str(caught.value) == (
        "job.devices: has profiles of fast, slow, and none of t4 (types g4.x, c), my t4 (types b); "
        f"measure each on a machine that has one, by {command.format('t4')} and {command.format(repr('my t4'))}, FILE "
        "being this instance and FILE2 the one with the new profile; or leave the types out: "
        "--set 'types.\"g4.x\"=null' --set types.c=null --set types.b=null"
    )
    rest = apply_changes(instance, [parse_change(f"types.{name}=null") for name in ('"g4.x"', "b", "c")])
    assert list(rest.batches_of) == ["a"]


def test_misspelt_gpus_are_guessed(make_instance: MakeInstance) -> None:
    """A name that is nearly that of a profile is asked about; where no type has one, leaving out is no way."""
    with pytest.raises(DataError, match=r"none of slwo \(types a\); did you mean 'slow'\? Else measure each") as caught:
        make_instance(types={"a": {"gpu": "slwo"}}).require_profiles()
    assert "leave the types out" not in str(caught.value)


def test_spot_vms_without_figures_are_warned_of(make_instance: MakeInstance) -> None:
    """Of three types, the one that is spot and says nothing: whoever solves it, and how to give the figures."""
    told: dict[str, dict[str, object]] = {
        "told": {"spot": True, "interruptions_per_hour": 0.1},
        "untold": {"spot": True},
        "bought": {},
    }
    types = {name: {"available": 2, "batches": [16, 32], **vm} for name, vm in told.items()}
    instance = make_instance(types=types, interruptions={"checkpoint_every_s": 600, "restart_s": 60})
    assert instance.untold_spot == ("untold",)
    for solver in ("auto", "enumeration", "published-eager"):
        (caution, *_) = solve(instance, solver=solver).warnings
        assert caution.startswith("untold: spot VMs without interruption figures, planned as if none were ever taken")
        assert "`optplan import spot-trace` fills the figures in" in caution
    assert make_instance().cautions == ()
