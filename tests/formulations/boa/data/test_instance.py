"""BOA's data: what is refused and in which words, what is accepted, and what budgets in money are worth."""

from __future__ import annotations

import copy
import json
import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optplan.contracts import Description
from optplan.errors import DataError, DataWarning, UsageError
from optplan.formulations.boa.data.instance import BoaInstance, Branch, Policy, Problem
from optplan.formulations.boa.data.job_classes import Widths
from optplan.formulations.boa.exact.costs import describe
from optplan.instances.files import read_instance
from optplan.units import Amount, BudgetUnit

TABLE: dict[str, Any] = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}
GOOD: dict[str, Any] = {
    "formulation": "boa",
    "classes": {
        "bert": {
            "arrival_rate_per_hour": 1.0,
            "epoch_size_gpu_hours": [1.0, 2.0],
            "speedup": {"t4": TABLE},
            "rescale_s": 60.0,
        }
    },
    "gpu_types": {"t4": {"price_usd_per_hour": 0.5}},
    "budget": "5gpu",
}


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the good data with one field changed or added."""
    data = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    inner = data
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    return data


def widths_of(data: dict[str, Any]) -> list[int]:
    """Return the allowed widths of the class."""
    widths: list[int] = BoaInstance.parse(data).allowed_widths("bert").tolist()
    return widths


CLASS = "classes.bert"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (f"{CLASS}.epoch_size_gpu_hours", [1.0, math.nan], r"entry \[1\]: got nan; finite numbers are needed"),
        (f"{CLASS}.epoch_size_gpu_hours", [1.0, math.inf], r"entry \[1\]: got inf; finite numbers are needed"),
        (f"{CLASS}.epoch_size_gpu_hours", [1.0, -2.0], r"entry \[1\]: got -2\.0; numbers above zero"),
        (f"{CLASS}.epoch_size_gpu_hours", [0.0, 1.0], r"entry \[0\]: got 0\.0; numbers above zero"),
        (f"{CLASS}.epoch_size_gpu_hours", [], "a list with one size per epoch is needed, at least one epoch"),
        (f"{CLASS}.epoch_size_gpu_hours", [[1.0, 2.0]], "a list with one size per epoch is needed"),
        (f"{CLASS}.epoch_size_gpu_hours", ["1", "2"], r"entry \[0\]: got '1'; a number is needed"),
        (f"{CLASS}.arrival_rate_per_hour", math.nan, "got nan; input should be a finite number"),
        (f"{CLASS}.arrival_rate_per_hour", math.inf, "got inf; input should be a finite number"),
        (f"{CLASS}.arrival_rate_per_hour", -1.0, r"got -1\.0; input should be greater than 0"),
        (f"{CLASS}.arrival_rate_per_hour", 0.0, r"got 0\.0; input should be greater than 0"),
        (f"{CLASS}.arrival_rate_per_hour", "1", "got '1'; a number is needed"),
        (f"{CLASS}.arrival_rate_per_hour", True, "got True; a number is needed"),
        (f"{CLASS}.arrival_rate_per_hour", None, "got None; input should be a valid number"),
        (f"{CLASS}.rescale_s", math.nan, "got nan; input should be a finite number"),
        (f"{CLASS}.rescale_s", math.inf, "got inf; input should be a finite number"),
        (f"{CLASS}.rescale_s", -60.0, r"got -60\.0; input should be greater than or equal to 0"),
        (f"{CLASS}.rescale_s", "60s", "got '60s'; a number is needed"),
        (f"{CLASS}.weight", math.nan, "got nan; input should be a finite number"),
        (f"{CLASS}.weight", math.inf, "got inf; input should be a finite number"),
        (f"{CLASS}.weight", -1.0, r"got -1\.0; input should be greater than 0"),
        (f"{CLASS}.weight", 0.0, r"got 0\.0; input should be greater than 0"),
        (f"{CLASS}.reference_width", 0, "got 0; input should be greater than or equal to 1"),
        ("gpu_types.t4.price_usd_per_hour", math.nan, "got nan; input should be a finite number"),
        ("gpu_types.t4.price_usd_per_hour", math.inf, "got inf; input should be a finite number"),
        ("gpu_types.t4.price_usd_per_hour", -0.5, r"got -0\.5; input should be greater than 0"),
        ("gpu_types.t4.price_usd_per_hour", 0.0, "got 0; a price above zero is needed. Without prices a"),
        (f"{CLASS}.speedup.t4.speedup", [1.0, math.nan, 2.0], r"entry \[1\]: got nan; finite numbers"),
        (f"{CLASS}.speedup.t4.speedup", [1.0, math.inf, 2.0], r"entry \[1\]: got inf; finite numbers"),
        (f"{CLASS}.speedup.t4.speedup", [1.0, -1.6, 2.0], r"entry \[1\]: got -1\.6; numbers above zero"),
        (f"{CLASS}.speedup.t4.speedup", [1.0, 0.0, 2.0], r"entry \[1\]: got 0\.0; numbers above zero"),
        ("problem", "rescale", "got 'rescale'; allowed: continuous, whole, rescaling; did you mean 'rescaling'"),
        (f"{CLASS}.speedup.t4.form", "tabel", "got 'tabel'; allowed: .*table.*; did you mean 'table'"),
        ("policy", "impure", "got 'impure'; allowed: pure, mixed; did you mean 'pure'"),
        ("version", 2, "got 2; allowed: 1"),
        ("name", "", "got ''; string should have at least 1 character"),
    ],
)
def test_numbers_out_of_range_are_refused(path: str, value: object, message: str) -> None:
    """Each by its path and value, with what is allowed."""
    with pytest.raises(DataError, match=rf"^file\.json: {re.escape(path)}: {message}"):
        BoaInstance.parse(changed(path, value), path="file.json")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("classes", {}, "classes: is empty; add at least one job class"),
        ("gpu_types", {}, r"gpu_types: is empty; add at least one, as in \{t4: \{\}\}"),
        (f"{CLASS}.speedup", {}, "no speedup is given; add one for each GPU type that the class can run on"),
        (f"{CLASS}.widths", {"only": []}, "'only' is empty; list at least one width"),
        (f"{CLASS}.widths", {"only": 4}, r"widths\.only: got 4; a list of numbers is needed"),
        (f"{CLASS}.widths", {"only": [2, 1]}, r"'only' is \[2, 1\]; widths of at least 1 in increasing order"),
        (f"{CLASS}.widths", {"only": [0, 1]}, r"'only' is \[0, 1\]; widths of at least 1 in increasing order"),
        (f"{CLASS}.widths", {"only": [1, 1.5]}, r"only: entry \[1\]: got 1\.5; whole numbers are needed"),
        (
            f"{CLASS}.widths",
            {"only": [1], "max": 2},
            "'only' lists the widths, so min, max, multiple_of and steps must be left",
        ),
        (
            f"{CLASS}.widths",
            {"only": [1, 3]},
            "bert.widths: width 3 has no speedup in the table for t4, which has 1, 2, 4",
        ),
        (
            f"{CLASS}.widths",
            {"min": 8},
            "bert.widths: no width of the table for t4 fits the rule; the table has 1, 2, 4",
        ),
        (f"{CLASS}.widths", {"max": 3, "multiple_of": 3}, "no width of the table for t4 fits the rule"),
        (f"{CLASS}.widths", {"min": 3, "max": 2}, "no multiple of 1 lies between 3 and 2; widen the range"),
        (f"{CLASS}.widths", {"min": 9, "max": 15, "multiple_of": 8}, "no multiple of 8 lies between 9 and 15"),
        (f"{CLASS}.widths", {"max": 0}, "widths.max: got 0; input should be greater than or equal to 1"),
        (f"{CLASS}.widths", {"max": 10**12}, "widths.max: got 1000000000000; input should be less than or equal to"),
        (f"{CLASS}.widths", {"max": 2.5}, "widths.max: got 2.5; input should be a valid integer"),
        ("widths", {"only": [1, 3]}, "bert.widths: width 3 has no speedup in the table for t4"),
        (
            f"{CLASS}.speedup",
            {"v100": TABLE},
            r"bert.speedup: 'v100' is not among gpu_types \(t4\); add it there or correct",
        ),
        (
            f"{CLASS}.speedup.t4.speedup",
            [[1.0, 1.6, 2.0]] * 3,
            "bert: the speedup on t4 has 3 epochs and epoch_size_gpu_hours has 2; give one row per epoch",
        ),
        (
            f"{CLASS}.speedup.t4",
            {"form": "power", "exponent": 0.5},
            r"bert.widths: is missing; this speedup covers any width, so say how far to go, as in \{max: 64\}",
        ),
        (
            f"{CLASS}.speedup.t4.speedup",
            [2.0, 3.2, 4.0],
            r"speedup.t4: the speedup at 1 GPU is 2\.0 in epoch 1; it must be 1",
        ),
        (
            f"{CLASS}.speedup.t4.speedup",
            [[1.0, 1.6, 2.0], [1.1, 1.6, 2.0]],
            r"speedup.t4: the speedup at 1 GPU is 1\.1 in epoch 2; .*; divide the table by it, or name",
        ),
        (f"{CLASS}.reference_width", 2, r"speedup.t4: the speedup at 2 GPUs is 1\.6 in epoch 1; it must be 1"),
    ],
)
def test_data_that_does_not_fit_together_is_refused(path: str, value: object, message: str) -> None:
    """Empty mappings, widths, tables and epochs: the message says what to do."""
    with pytest.raises(DataError, match=message):
        BoaInstance.parse(changed(path, value), path="file.json")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (f"{CLASS}.rescale", 60, r"classes\.bert\.rescale: unknown field 'rescale'; did you mean 'rescale_s'\?"),
        (
            f"{CLASS}.arrival_rate",
            1,
            r"bert\.arrival_rate: unknown field 'arrival_rate'; did you mean 'arrival_rate_per_hour'",
        ),
        (
            f"{CLASS}.widths",
            {"maximum": 4},
            r"bert\.widths\.maximum: unknown field 'maximum'; did you mean 'max'",
        ),
        (
            f"{CLASS}.speedup.t4.speedups",
            [1],
            r"bert\.speedup\.t4\.speedups: unknown field 'speedups'; did you mean 'speedup'",
        ),
        (
            "gpu_types.t4.price",
            1,
            r"gpu_types\.t4\.price: unknown field 'price'; did you mean 'price_date'|'price_source'",
        ),
        ("gpus", {}, "gpus: unknown field 'gpus'; did you mean 'most_gpus'"),
        ("clases", {}, "clases: unknown field 'clases'; did you mean 'classes'"),
    ],
)
def test_unknown_fields_are_refused(path: str, value: object, message: str) -> None:
    """Nothing is silently dropped; the nearest known name is given with the path."""
    with pytest.raises(DataError, match=message):
        BoaInstance.parse(changed(path, value))


@pytest.mark.parametrize("field", ["arrival_rate_per_hour", "epoch_size_gpu_hours", "speedup"])
def test_missing_fields_are_named(field: str) -> None:
    """Nothing that matters has a default."""
    data = copy.deepcopy(GOOD)
    del data["classes"]["bert"][field]
    with pytest.raises(DataError, match=rf"classes\.bert\.{field}: is missing; add it"):
        BoaInstance.parse(data)


def test_a_table_measured_at_another_width_names_it() -> None:
    """Sizes measured on 2 GPUs: there s must be 1, and s(1) = 0.625 = 1 / 1.6 is as it should be."""
    data = changed(f"{CLASS}.speedup.t4.speedup", [0.625, 1.0, 1.25])
    data["classes"]["bert"]["reference_width"] = 2
    assert BoaInstance.parse(data).speeds("bert").tolist() == [[0.625, 1.0, 1.25]]


def test_a_table_without_the_reference_width_is_taken_as_it_is() -> None:
    """A job too large for one GPU: sizes on one GPU are a way of counting, and s(2) may be anything."""
    data = changed(f"{CLASS}.speedup.t4", {"form": "table", "gpus": [2, 4], "speedup": [2.3, 4.1]})
    assert widths_of(data) == [2, 4]


def test_s_of_one_is_one_to_within_rounding() -> None:
    """A relative 1e-6: figures copied with seven digits pass, others do not."""
    BoaInstance.parse(changed(f"{CLASS}.speedup.t4.speedup", [1.0000005, 1.6, 2.0]))
    with pytest.raises(DataError, match="it must be 1"):
        BoaInstance.parse(changed(f"{CLASS}.speedup.t4.speedup", [1.000002, 1.6, 2.0]))


def test_the_rule_of_a_class_goes_before_the_instance_s() -> None:
    """And both before the table's own widths."""
    assert widths_of(GOOD) == [1, 2, 4]
    data = changed("widths", {"max": 3})
    assert widths_of(data) == [1, 2]
    data["classes"]["bert"]["widths"] = {"min": 2}
    assert widths_of(data) == [2, 4]


def test_rules_list_widths_of_formulas() -> None:
    """Multiples of 4 from 5 to 16 are 8, 12, 16."""
    data = changed(f"{CLASS}.speedup.t4", {"form": "amdahl", "serial_fraction": 0.1})
    data["classes"]["bert"]["widths"] = {"min": 5, "max": 16, "multiple_of": 4}
    assert widths_of(data) == [8, 12, 16]
    data["classes"]["bert"]["widths"] = {"only": [1, 3, 64]}
    assert widths_of(data) == [1, 3, 64]
    with pytest.raises(DataError, match="widths: has no upper limit; this speedup covers any width"):
        BoaInstance.parse(
            changed(f"{CLASS}.widths", {"min": 2})
            | {"classes": data["classes"] | {"bert": data["classes"]["bert"] | {"widths": {"min": 2}}}}
        )


def test_one_size_and_one_row_are_enough() -> None:
    """A number is one epoch; a single row holds in each epoch."""
    data = changed(f"{CLASS}.epoch_size_gpu_hours", 3.0)
    job_class = BoaInstance.parse(data).classes["bert"]
    assert (job_class.num_epochs, job_class.size_gpu_hours) == (1, 3.0)
    assert BoaInstance.parse(GOOD).speeds("bert").shape == (1, 3)


DECREASING = [1.0, 1.6, 1.5]
CONVEX = [1.0, 1.2, 4.0]


@pytest.mark.parametrize("table", [DECREASING, CONVEX])
@pytest.mark.parametrize("problem", ["whole", "rescaling"])
def test_problems_of_whole_widths_take_tables_as_measured(table: list[float], problem: str) -> None:
    """Falling or convex: nothing is changed and nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        instance = BoaInstance.parse(changed(f"{CLASS}.speedup.t4.speedup", table) | {"problem": problem})
    assert instance.speeds("bert").tolist() == [table]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        # A decreasing table: at 4 GPUs the hull keeps the 1.6 of 2 GPUs.
        (
            DECREASING,
            r"bert.speedup.t4: .* raises the speedup at 4 GPUs, .* from 1\.5 to 1\.6\); at 4 GPUs the table is slower",
        ),
        # A convex one: on the line from (1, 1) to (4, 4) the speedup at 2 GPUs is 2.
        (CONVEX, r"classes.bert.speedup.t4: .* raises the speedup at 2 GPUs, at most by 66\.7 % .* from 1\.2 to 2\)$"),
    ],
)
def test_the_continuous_problem_says_what_the_hull_changes(table: list[float], message: str) -> None:
    """Accepted, with a warning that names the table, the widths and by how much."""
    with pytest.warns(DataWarning, match=message):
        BoaInstance.parse(changed(f"{CLASS}.speedup.t4.speedup", table) | {"problem": "continuous"})


def test_the_continuous_problem_warns_once_and_of_allowed_widths_only() -> None:
    """Two tables, one warning; and none when the widths that spoil a table are not allowed."""
    data = changed(f"{CLASS}.speedup.t4.speedup", DECREASING) | {"problem": "continuous"}
    data["classes"]["again"] = data["classes"]["bert"]
    with pytest.warns(DataWarning, match=r"classes\.bert\..*; 1 more tables likewise") as caught:
        BoaInstance.parse(data)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BoaInstance.parse(data | {"widths": {"max": 2}})


def test_concave_tables_raise_no_warning() -> None:
    """1, 1.6, 2.0 at 1, 2, 4 GPUs: slopes 0.6 and 0.2."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BoaInstance.parse(GOOD | {"problem": "continuous"})


@pytest.mark.parametrize(
    ("budget", "gpus"),
    [
        ("120gpu", 120.0),
        ("120 GPUs", 120.0),
        ("60usd/hour", 120.0),  # 60 $/h at 0.5 $/h a GPU
        ("1440usd/day", 120.0),  # 60 $/h times 24 h
        ("43800usd/month", 120.0),  # 60 $/h times 730 h, a twelfth of 365 days
        ("30000usd/month", 82.19178082191780),  # 30000 / 730 / 0.5
    ],
)
def test_budgets_in_money_are_worth_gpus(budget: str, gpus: float) -> None:
    """A rate of money over the price of one GPU."""
    assert BoaInstance.parse(GOOD | {"budget": budget}).budget_amount() == pytest.approx(gpus, rel=1e-14)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ("80gpu-min", "budget: got '80gpu-min'; BOA's budget is a rate: time-average GPUs"),
        ("80gpu-h", "budget: got '80gpu-h'; BOA's budget is a rate"),
        ("3usd", "budget: got '3usd'; BOA's budget is a rate"),
        ("120", "budget: '120' has no known unit; use one of gpu"),
        ("120tpu", "budget: '120tpu' has no known unit"),
        ("many", "budget: cannot read 'many'; write a number and a unit, as in 120gpu"),
        ("-3gpu", "budget: got '-3gpu'; a finite number above zero is needed"),
        ("0gpu", "budget: got '0gpu'; a finite number above zero is needed"),
        ("1e999gpu", "budget: got '1e999gpu'; a finite number above zero is needed"),
        ("nangpu", "budget: cannot read 'nangpu'"),
        (120, "budget: got 120; write a number with its unit, as in 120gpu or 30000usd/month"),
        ({"value": 120, "unit": "gpu"}, "budget: got .*; write a number with its unit"),
        (Amount(-1.0, BudgetUnit.GPU), "budget: got '-1gpu'; a finite number above zero is needed"),
        (Amount(math.nan, BudgetUnit.GPU), "budget: got 'nangpu'; a finite number above zero is needed"),
    ],
)
def test_other_budgets_are_refused(budget: object, message: str) -> None:
    """Amounts without a period, without a unit, or not above zero."""
    with pytest.raises(DataError, match=message):
        BoaInstance.parse(GOOD | {"budget": budget})


def test_budgets_in_money_need_a_price() -> None:
    """The message names the field that is missing."""
    data = GOOD | {"gpu_types": {"t4": {}}, "budget": "30000usd/month"}
    with pytest.raises(DataError, match=r"gpu_types\.t4\.price_usd_per_hour: is missing; a budget in money needs it"):
        BoaInstance.parse(data)


def test_a_budget_that_is_not_there_is_asked_for() -> None:
    """The frontier needs none; whoever does says how to give one."""
    data = {name: value for name, value in GOOD.items() if name != "budget"}
    with pytest.raises(UsageError, match="instance 'unnamed' has no budget; give one, as in --budget 120gpu"):
        BoaInstance.parse(data).budget_amount()


def test_what_needs_one_gpu_type_says_which_there_are() -> None:
    """Several types are accepted, with curves on the same scale; widths are asked for by type then."""
    data = changed("gpu_types.v100", {"price_usd_per_hour": 2.0})
    data["classes"]["bert"]["speedup"]["v100"] = {"form": "table", "gpus": [1, 2], "speedup": [2.5, 4.0]}
    instance = BoaInstance.parse(data)
    with pytest.raises(UsageError, match="this needs one GPU type; the instance has t4, v100"):
        instance.allowed_widths("bert")


def test_writing_and_reading_is_the_identity() -> None:
    """Tables, formulas, rules and budgets in money."""
    data = changed("budget", "30000usd/month")
    data["classes"]["yolo"] = {
        "arrival_rate_per_hour": 0.1,
        "epoch_size_gpu_hours": 2.5,
        "speedup": {"t4": {"form": "power", "exponent": [0.7]}},
        "widths": {"only": [1, 2, 8]},
        "weight": 3.0,
    }
    instance = BoaInstance.parse(data)
    again = BoaInstance.parse(json.loads(json.dumps(instance.to_json_data())))
    assert again == instance
    assert again.content_hash() == instance.content_hash()


def test_describe_counts_choices() -> None:
    """Two epochs of three widths, and nothing special; the continuous problem always is a mixture."""
    instance = BoaInstance.parse(GOOD)
    assert describe(instance) == Description("rescaling", "pure", 6)
    continuous = instance.replace(problem=Problem.CONTINUOUS, policy=Policy.PURE)
    assert describe(continuous) == Description("continuous", "mixed", 6)


def test_rates_add_up() -> None:
    """The rate is 1 + 3 = 4; with weights it is 1 * 1 + 2 * 3 = 7."""
    data = copy.deepcopy(GOOD)
    data["classes"]["yolo"] = data["classes"]["bert"] | {"arrival_rate_per_hour": 3.0, "weight": 2.0}
    instance = BoaInstance.parse(data)
    assert (instance.total_rate_per_hour, instance.total_weighted_rate_per_hour) == (4.0, 7.0)


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.5, math.nan])
def test_fractions_lie_between_zero_and_one(fraction: float) -> None:
    """A branch that nobody takes is left out."""
    with pytest.raises(DataError, match=r"fraction: got (0\.0|-0\.5|1\.5|nan); input should be"):
        Branch(fraction=fraction, widths=np.ones(1))


def test_widths_need_an_upper_limit_to_be_listed() -> None:
    """The error of a caller, not of the data: validation has excluded it."""
    with pytest.raises(ValueError, match="an upper limit is needed"):
        Widths(min=2).rule()


@pytest.fixture(scope="module")
def large_data() -> dict[str, Any]:
    """Return one class of 100,000 epochs and 8 widths: about a million numbers."""
    epochs = 100_000
    row = [1.0, 1.7, 2.3, 2.8, 3.2, 3.5, 3.7, 3.8]
    return {
        "formulation": "boa",
        "classes": {
            "long": {
                "arrival_rate_per_hour": 0.001,
                "epoch_size_gpu_hours": [0.01] * epochs,
                "speedup": {"t4": {"form": "table", "gpus": [1, 2, 3, 4, 5, 6, 7, 8], "speedup": [row] * epochs}},
            }
        },
        "gpu_types": {"t4": {}},
        "budget": "5gpu",
    }


def test_large_files_are_read(large_data: dict[str, Any], tmp_path: Path) -> None:
    """A million lines, one number on each."""
    path = tmp_path / "large.json"
    path.write_text(json.dumps(large_data, indent=0), encoding="utf-8")
    instance = read_instance(path)
    assert isinstance(instance, BoaInstance)
    assert instance.speeds("long").shape == (100_000, 8)


def test_errors_in_large_files_point_at_the_place(large_data: dict[str, Any], tmp_path: Path) -> None:
    """One bad number among 160,000, and one missing one."""
    table, sizes = large_data["classes"]["long"]["speedup"]["t4"], [0.01] * 20_000
    for row, message in [
        ([1.0, 1.7, 2.3, -2.8, 3.2, 3.5, 3.7, 3.8], r"long\.speedup\.t4\.speedup: entry \[7000\]\[3\]: got -2\.8"),
        ([1.0, 1.7, None, 2.8, 3.2, 3.5, 3.7, 3.8], r"long\.speedup\.t4\.speedup: entry \[7000\]\[2\]: got None"),
        ([1.0, 1.7], r"long\.speedup\.t4\.speedup: rows of unequal length"),
        (
            [1.1, 1.7, 2.3, 2.8, 3.2, 3.5, 3.7, 3.8],
            r"speedup\.t4: the speedup at 1 GPU is 1\.1 in epoch 7001; it must be 1",
        ),
    ]:
        rows = [*table["speedup"][:7_000], row, *table["speedup"][7_001:20_000]]
        changes = {"epoch_size_gpu_hours": sizes, "speedup": {"t4": table | {"speedup": rows}}}
        bad = large_data | {"classes": {"long": large_data["classes"]["long"] | changes}}
        path = tmp_path / "bad.json"
        path.write_text(json.dumps(bad), encoding="utf-8")
        with pytest.raises(DataError, match=message):
            read_instance(path)
