"""What if: every kind of change does what its text says, and what cannot be is named with the change that asked it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.errors import DataError, DataWarning, UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.changes import apply_changes, parse_change

DATA: dict[str, Any] = {
    "name": "mine",
    "source": {"trace": "a pencil"},
    "formulation": "boa",
    "classes": {
        "bert": {
            "arrival_rate_per_hour": 2.0,
            "epoch_size_gpu_hours": [0.5, 1.0],
            "speedup": {"t4": {"form": "table", "gpus": [1, 2], "speedup": [[1.0, 1.5], [1.0, 2.0]]}},
            "rescale_s": 180.0,
        },
        "resnet.50": {
            "arrival_rate_per_hour": 1.0,
            "epoch_size_gpu_hours": [1.0],
            "speedup": {"t4": {"form": "amdahl", "serial_fraction": 0.25}},
            "widths": {"max": 8},
        },
    },
    "gpu_types": {"t4": {"price_usd_per_hour": 2.0, "price_source": "price list"}},
    "budget": "10gpu",
}


@pytest.fixture(scope="module")
def instance() -> BoaInstance:
    """Two classes, one of them with a dot in its name; a table and a formula."""
    return BoaInstance.parse(DATA)


def change(instance: BoaInstance, *texts: str) -> BoaInstance:
    """Apply changes as the command line does."""
    return apply_changes(instance, [parse_change(text, what="--set") for text in texts], what="--set")


def test_changes_of_the_issue(instance: BoaInstance) -> None:
    """Fields may be written without their units; 2 x 1.5 = 3 jobs an hour."""
    changed = change(instance, "classes.bert.arrival_rate*=1.5", "gpu_types.t4.price=2.1")
    assert changed.classes["bert"].arrival_rate_per_hour == 3.0
    assert changed.gpu_types["t4"].price_usd_per_hour == 2.1
    assert changed.classes["resnet.50"] == instance.classes["resnet.50"]


def test_what_was_changed_stands_in_the_source(instance: BoaInstance) -> None:
    """The name stays, other provenance too; a second round of changes adds to the first, and so does a price's own."""
    once = change(instance, "gpu_types.t4.price*=2", "budget=20gpu")
    assert (once.name, once.source["trace"]) == ("mine", "a pencil")
    assert once.source["changes"] == "gpu_types.t4.price*=2; budget=20gpu"
    assert once.gpu_types["t4"].price_source == "price list, changed: gpu_types.t4.price*=2"
    assert change(once, "policy=mixed").source["changes"] == "gpu_types.t4.price*=2; budget=20gpu; policy=mixed"


def test_no_changes_leave_the_instance_as_it_is(instance: BoaInstance) -> None:
    """Nothing asked, nothing noted."""
    assert apply_changes(instance, []) is instance


@pytest.mark.parametrize(
    ("text", "path", "sign", "value"),
    [
        ("budget=150gpu", ("budget",), "=", "150gpu"),
        ("classes.*.arrival_rate*=1.2", ("classes", None, "arrival_rate"), "*=", 1.2),
        ("source.*=null", ("source", None), "=", None),
        ("source.**=2", ("source", None), "*=", 2),
        ("widths = {max: 8, only: [1, 2]}", ("widths",), "=", {"max": 8, "only": [1, 2]}),
        ('classes."resnet.50".weight-=1e-3', ("classes", "resnet.50", "weight"), "-=", 0.001),
        ("classes.'c++'=null", ("classes", "c++"), "=", None),
        ("classes.c++.weight/=2", ("classes", "c++", "weight"), "/=", 2),
        ('classes."it\'s".weight+=2', ("classes", "it's", "weight"), "+=", 2),
        ('classes."*".weight=2', ("classes", "*", "weight"), "=", 2),
        ("description=2025-01-31", ("description",), "=", "2025-01-31"),
    ],
)
def test_reading(text: str, path: tuple[str | None, ...], sign: str, value: object) -> None:
    """Operators end the path, quotes keep names whole, and values are those of a YAML file."""
    read = parse_change(text)
    assert (read.path, read.operator, read.value) == (path, sign, value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("budget", "--set: cannot read 'budget'; write a path, an operator and a value, as in classes.bert."),
        ("=3", "cannot read '=3'"),
        ("classes..weight=3", "cannot read 'classes..weight=3'"),
        ("classes. .weight=3", "'classes. .weight=3' has an empty part in its path"),
        ("budget= ", "'budget= ' has no value; give one, .* or null to remove what is there"),
        ("widths=[1, 2", r"the value of 'widths=\[1, 2' is not YAML .*; write it as in a YAML file"),
        ("widths={max: 1, max: 2}", "names 'max' twice in one object"),
    ],
)
def test_what_is_no_change(text: str, message: str) -> None:
    """Text that cannot be read is refused before any work."""
    with pytest.raises(UsageError, match=message):
        parse_change(text, what="--set")


def test_a_star_stands_for_every_name(instance: BoaInstance) -> None:
    """Rates 2 and 1 times 1.2, whatever the classes are called."""
    changed = change(instance, "classes.*.arrival_rate*=1.2")
    assert [c.arrival_rate_per_hour for c in changed.classes.values()] == [2.4, 1.2]
    assert change(instance, "source.*=null").source == {"changes": "source.*=null"}


def test_lists_are_changed_number_by_number(instance: BoaInstance) -> None:
    """A number applies to each entry, also of a table with one row per epoch; a list applies entry by entry."""
    changed = change(instance, "classes.bert.epoch_size*=2", "classes.bert.epoch_size+=[1, 0]")
    assert changed.classes["bert"].epoch_size_gpu_hours.tolist() == [2.0, 2.0]
    both = change(instance, "classes.bert.speedup.t4.speedup*=2", "classes.bert.reference_width*=2", "gpu_types.a10={}")
    assert np.array_equal(both.classes["bert"].speedup["t4"].at(np.array([1, 2])), [[2.0, 3.0], [2.0, 4.0]])


def test_amounts_keep_their_unit(instance: BoaInstance) -> None:
    """10 GPUs times 1.5 plus 2 less 1 are 16 GPUs; money stays money."""
    assert str(change(instance, "budget*=1.5", "budget+=2", "budget-=1gpu").budget) == "16gpu"
    assert str(change(instance, "budget=30000usd/month", "budget/=2").budget) == "15000usd/month"


def test_null_removes(instance: BoaInstance) -> None:
    """What is removed is absent, or has its default again."""
    changed = change(instance, "budget=null", "classes.bert.rescale=null", 'classes."resnet.50"=null')
    assert changed.budget is None
    assert changed.classes["bert"].rescale_s == 0.0
    assert list(changed.classes) == ["bert"]


def test_absent_records_and_new_names_can_be_given(instance: BoaInstance) -> None:
    """A part of an absent record makes the record; a new name is given as a whole."""
    with pytest.warns(DataWarning, match="widths: not those of 'resnet.50'"):
        changed = change(instance, "widths.max=2", "gpu_types.a10={price_usd_per_hour: 1}", "source.prices=a list")
    assert changed.widths is not None
    assert changed.widths.max == 2
    assert changed.gpu_types["a10"].price_usd_per_hour == 1.0
    assert changed.source["prices"] == "a list"


def test_defaults_are_there_to_calculate_with(instance: BoaInstance) -> None:
    """The file gives no weight; the instance has one of 1."""
    assert change(instance, "classes.bert.weight*=3").classes["bert"].weight == 3.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("classes.brt.weight=2", "--set 'classes.brt.weight=2': classes has no 'brt'; did you mean 'bert'?"),
        ("classes.ber.weight=2", "classes has no 'ber'; did you mean 'bert'?"),
        ("classes.brt=null", "classes has no 'brt'; did you mean 'bert'?"),
        ("classes.bert.wieght=2", "classes.bert has no field 'wieght'; did you mean 'weight'?"),
        ("classes.bert.type=2", "'type' may be type_change_s or type_change_s_from of classes.bert; write more of it"),
        ("pol.x=2", "policy has no parts; change it as a whole, as in policy=VALUE"),
        ("classes.bert.epoch_size.0=2", "classes.bert.epoch_size_gpu_hours has no parts"),
        ("*.weight=2", "* stands for every name, and the instance has fields: name, description"),
        ("classes.bert.type_change_s_from.*=2", "type_change_s_from is empty, so * stands for nothing; leave the chan"),
        ("widths.max*=2", "widths.max is absent; set it first, as in widths.max=VALUE"),
        ("widths=null", "widths is absent; there is nothing to remove"),
        ("name*=2", "name is 'mine'; calculating takes numbers or lists of numbers; use = to set something"),
        ("classes.bert.weight*=two", "the value is 'two'; calculating takes numbers"),
        ("classes.bert.weight*=yes", "the value is True; calculating takes numbers"),
        ("classes.bert.weight/=0", "classes.bert.weight cannot be calculated (float division by zero)"),
        ("classes.bert.epoch_size*=[1, 2, 3]", "has 2 entries and the value has 3; give one number, or as many"),
        ("classes.bert.speedup.t4.serial*=2", "classes.bert.speedup.t4 has no field 'serial'; known: form, gpus"),
        ("budget*=2gpu", "got '2gpu' for the amount '10gpu'; use a number, which counts in gpu"),
        ("budget+=2usd", "got '2usd' for the amount '10gpu'; use a number"),
    ],
)
def test_changes_that_lead_nowhere(instance: BoaInstance, text: str, message: str) -> None:
    """The change is quoted, and what it could have meant is said."""
    with pytest.raises(UsageError) as caught:
        change(instance, text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            ("budget*=2", "classes.bert.weight-=1"),
            "classes.bert.weight: got 0.0; input should be greater than 0; --set 'classes.bert.weight-=1' led to this",
        ),
        (("classes.*.epoch_size*=-1",), "classes.bert.epoch_size_gpu_hours: entry [0]: got -0.5"),
        (("budget*=-1",), "budget: got '-10gpu'; a finite number above zero is needed"),
        (("budget=150",), "budget: got 150; write a number with its unit, as in 120gpu or 30000usd/month"),
        (
            ("budget=30usd/month", "policy=mixed", "gpu_types.t4.price=null"),
            "a budget in money needs it (--set 'gpu_types.t4.price=null' led to this)",
        ),
        (
            ("gpu_types.t4.price=null", "budget=30usd/month"),
            "gpu_types.t4.price_usd_per_hour: is missing; a budget in money needs it (--set 'budget=30usd/month' led",
        ),
        (("source=3", "policy=mixed"), "source: got 3"),
        (("version=2",), "version: got 2"),
    ],
)
def test_the_outcome_is_validated_like_a_file(instance: BoaInstance, texts: tuple[str, ...], message: str) -> None:
    """The message names the field, and the first change after which the data is wrong."""
    with pytest.raises(DataError) as caught:
        change(instance, *texts)
    assert message in str(caught.value)


def test_changes_that_need_one_another(instance: BoaInstance) -> None:
    """Only the outcome is validated: a budget in money may come before the price that it needs."""
    changed = change(instance, "gpu_types.t4.price=null", "budget=73usd/month", "gpu_types.t4.price=0.5")
    assert (str(changed.budget), changed.gpu_types["t4"].price_usd_per_hour) == ("73usd/month", 0.5)


def test_a_field_that_records_have_themselves_is_said_not_to_be_theirs(instance: BoaInstance) -> None:
    """Widths of the instance are not those of a class with widths of its own; where all have, the change is refused."""
    with pytest.warns(DataWarning, match="widths: not those of 'resnet.50', which have widths of their own; change"):
        apply_changes(instance, [parse_change("widths={max: 1}")])
    own = apply_changes(instance, [parse_change("classes.bert.widths={max: 1}")])
    message = r"all classes have widths of their own, so this changes nothing; change theirs, as in 'classes\.\*\.wi"
    with pytest.raises(UsageError, match=message):
        apply_changes(own, [parse_change("widths={max: 1}")])


def test_warnings_are_said_once_while_the_culprit_is_sought(instance: BoaInstance) -> None:
    """Looking for the change to blame repeats no warning about the data."""
    texts = ("classes.bert.speedup.t4.speedup=[[1, 0.5], [1, 2]]", "problem=continuous", "classes.bert.weight=0")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(DataError, match=r"'classes\.bert\.weight=0' led to this"):
            change(instance, *texts)
    assert not caught


@given(st.floats(1e-3, 1e3), st.sampled_from(["arrival_rate_per_hour", "weight"]))
def test_a_change_and_its_inverse(factor: float, field: str) -> None:
    """Times and divided by the same number is where it began, to rounding."""
    instance = BoaInstance.parse(DATA)
    there_and_back = change(instance, f"classes.*.{field}*={factor!r}", f"classes.*.{field}/={factor!r}")
    for before, after in zip(instance.classes.values(), there_and_back.classes.values(), strict=True):
        assert getattr(after, field) == pytest.approx(getattr(before, field), rel=1e-12)
