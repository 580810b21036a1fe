"""Comparisons: which figures two things have in common, what changes between them, and how that is written."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from optplan.contracts import LagrangianCertificate, Plan, Result, ShadowPrice, Solution
from optplan.contracts.result import BoundProof
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.planning import build_plan
from optplan.reporting.boa.differences import Held, Path, compare_paths
from optplan.reporting.comparison import Compared, Comparison, compare
from optplan.reporting.differences import (
    GPUS,
    SECONDS,
    SHARE,
    Difference,
    Fact,
    difference_table,
    pair_facts,
    write_change,
    write_values,
)

if TYPE_CHECKING:
    from tests.reporting.boa.conftest import ResultMaker

_TABLE = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}


def _changed(instance: BoaInstance, change: Callable[[dict[str, Any]], object]) -> BoaInstance:
    data = instance.to_json_data()
    change(data)
    return BoaInstance.parse(data)


def _with_widths(instance: BoaInstance, only: list[int]) -> BoaInstance:
    return _changed(instance, lambda data: data["classes"]["speech"].update(widths={"only": only}))


def _compare_data(a: BoaInstance, b: BoaInstance) -> dict[str, Difference]:
    comparison = compare(Compared("a.json", a), Compared("b.json", b))
    return {row.path: row for row in comparison.differing}


def _by_path(comparison: Comparison) -> dict[str, Difference]:
    return {row.path: row for row in comparison.differing}


def _draw(rows: list[Difference]) -> str:
    console = Console(width=100, highlight=False)
    with console.capture() as capture:
        console.print(difference_table(rows))
    return capture.get()


def test_an_instance_equals_itself(instance: BoaInstance) -> None:
    """Nothing differs between two equal instances, and the summary says so with the number of figures."""
    comparison = compare(Compared("a.json", instance), Compared("b.json", instance.replace(name="other")))
    assert comparison.rows
    assert comparison.differing == ()
    assert comparison.summarise() == f"Nothing differs: all {len(comparison.rows)} figures are equal."


def test_settings_prices_and_class_data(instance: BoaInstance) -> None:
    """Every field that differs has a row with both values, the change, and its share of A."""

    def change(data: dict[str, Any]) -> None:
        data["budget"] = "10gpu"
        data["policy"] = "mixed"
        data["gpu_types"]["v100"] |= {"price_usd_per_hour": 1.5, "quota_gpus": 6.0, "start_s": "2min"}
        data["classes"]["vision"] |= {"arrival_rate_per_hour": 3.0, "rescale_s": 90.0, "weight": 2.0}

    rows = _compare_data(instance, _changed(instance, change))
    # 8 GPUs to 10; $2.00 to $1.50; 2 jobs an hour to 3; 3 to 4 in all; load 2 x 2 + 1 x 2 = 6 to 3 x 2 + 2 = 8 GPUs.
    expected = {
        "policy": ("pure", "mixed", None, None),
        "budget": (8.0, 10.0, 2.0, 0.25),
        "total_rate_per_hour": (3.0, 4.0, 1.0, 1 / 3),
        "load_gpus": (6.0, 8.0, 2.0, 1 / 3),
        "gpu_types.v100.price_usd_per_hour": (2.0, 1.5, -0.5, -0.25),
        "gpu_types.v100.quota_gpus": (None, 6.0, None, None),
        "gpu_types.v100.start_s": (None, 120.0, None, None),
        "classes.vision.arrival_rate_per_hour": (2.0, 3.0, 1.0, 0.5),
        "classes.vision.weight": (1.0, 2.0, 1.0, 1.0),
        "classes.vision.rescale_s": (180.0, 90.0, -90.0, -0.5),
    }
    assert {path: (row.a, row.b, row.change, row.relative_change) for path, row in rows.items()} == expected
    assert write_change(rows["gpu_types.v100.quota_gpus"]) == ("only in B", "")
    assert write_values(rows["classes.vision.rescale_s"]) == ("3 min 00 s", "1 min 30 s")
    assert write_change(rows["classes.vision.rescale_s"]) == ("-1 min 30 s", "-50")


def test_budgets_in_other_units_are_not_subtracted(instance: BoaInstance) -> None:
    """A budget in money stands beside one in GPUs as the GPUs that it pays, and once more as it was given."""
    # 11,680 dollars a month / 730 hours / 2 dollars = 8 GPUs: the same budget.
    comparison = compare(
        Compared("a.json", instance), Compared("b.json", instance.replace(budget="11680usd/month"))
    ).differing
    assert [(row.what, row.a, row.b, row.unit) for row in comparison] == [
        ("budget in usd/month", None, 11680.0, "usd/month")
    ]


def test_epochs_and_speedups_show_the_largest_difference(instance: BoaInstance) -> None:
    """Of sizes and speeds by epoch there is one row each: where the relative difference is largest."""

    def change(data: dict[str, Any]) -> None:
        vision = data["classes"]["vision"]
        vision["epoch_size_gpu_hours"] = [0.55, 0.5, 2.0]  # +10 %, 0, +100 %
        vision["speedup"]["v100"]["speedup"] = [[1.0, 1.6, 2.2], [1.0, 1.6, 2.0], [1.0, 1.5, 4.0]]  # +10 %, 0, -25 %

    rows = _compare_data(instance, _changed(instance, change))
    assert set(rows) == {
        "load_gpus",
        "classes.vision.size_gpu_hours",
        "classes.vision.epoch_size_gpu_hours[3]",
        "classes.vision.speedup.v100[3][2]",
    }
    size, speed = rows["classes.vision.epoch_size_gpu_hours[3]"], rows["classes.vision.speedup.v100[3][2]"]
    assert (size.what, size.a, size.b) == ("time on one GPU, most in epoch 3", 1.0, 2.0)
    assert (speed.what, speed.a, speed.b) == ("speedup, most at 2 GPUs in epoch 3", 2.0, 1.5)


def test_sizes_that_all_grow_alike_have_one_row(instance: BoaInstance) -> None:
    """When every epoch grows by the same factor, the size of the whole job says all."""
    grown = _changed(instance, lambda data: data["classes"]["vision"].update(epoch_size_gpu_hours=[0.75, 0.75, 1.5]))
    assert set(_compare_data(instance, grown)) == {"load_gpus", "classes.vision.size_gpu_hours"}


def test_other_epochs_and_widths_are_said(instance: BoaInstance) -> None:
    """Speeds by epoch of jobs with other epochs are not compared, and the row says why; widths are listed."""

    def change(data: dict[str, Any]) -> None:
        vision = data["classes"]["vision"]
        vision["epoch_size_gpu_hours"] = [1.0, 1.0]
        vision["speedup"]["v100"]["speedup"] = [[1.0, 1.6, 2.0], [1.0, 1.6, 2.0]]
        vision["widths"] = {"only": [1, 4]}

    rows = _compare_data(instance, _changed(instance, change))
    assert (rows["classes.vision.speedup.v100"].a, rows["classes.vision.speedup.v100"].b) == (
        "by 3 epochs",
        "by 2 epochs",
    )
    assert (rows["classes.vision.widths.v100"].a, rows["classes.vision.widths.v100"].b) == ("1, 2, 4", "1, 4")
    assert rows["classes.vision.num_epochs"].change == -1


def test_without_a_common_width_speeds_are_not_compared(instance: BoaInstance) -> None:
    """Two allowed sets of widths that have nothing in common leave nothing to compare but themselves."""
    narrow, wide = _with_widths(instance, [1]), _with_widths(instance, [2, 4])
    assert set(_compare_data(narrow, wide)) == {"classes.speech.widths.v100"}


def test_widths_that_read_alike_are_listed(instance: BoaInstance) -> None:
    """Two sets of widths that one description fits are written out."""
    formula = _changed(
        instance,
        lambda data: data["classes"]["speech"].update(
            speedup={"v100": {"form": "power", "exponent": 0.5}}, widths={"max": 10}
        ),
    )
    first = _with_widths(formula, [1, 2, 3, 4, 5, 6, 7, 8, 10])
    second = _with_widths(formula, [1, 2, 3, 4, 5, 6, 7, 9, 10])
    row = _compare_data(first, second)["classes.speech.widths.v100"]
    assert (row.a, row.b) == ("1, 2, 3, 4, 5, 6, 7, 8, 10", "1, 2, 3, 4, 5, 6, 7, 9, 10")


def test_what_only_one_of_the_two_has_is_said(instance: BoaInstance) -> None:
    """Classes, GPU types and speedups in one of the two have one row each, which says in which."""

    def change(data: dict[str, Any]) -> None:
        data["classes"]["text"] = data["classes"].pop("speech")
        data["gpu_types"]["a100"] = {"price_usd_per_hour": 4.0}
        data["classes"]["vision"]["speedup"]["a100"] = {"form": "table", "gpus": [1, 2, 4], "speedup": [2, 3, 5]}

    rows = _compare_data(instance, _changed(instance, change))
    told = {path: write_change(row)[0] for path, row in rows.items()}
    assert told == {
        "gpu_types.a100": "only in B",
        "classes.vision.speedup.a100": "only in B",
        "classes.speech": "only in A",
        "classes.text": "only in B",
    }
    assert rows["classes.vision.speedup.a100"].what == "speedup on a100"


def test_interruptions_and_pauses_of_gpu_types(instance: BoaInstance) -> None:
    """Spot GPUs and pauses by GPU type are compared with what holds where they are not given."""

    def spot(data: dict[str, Any]) -> None:
        data["gpu_types"]["v100"]["spot"] = {"interruptions_per_gpu_hour": 0.01, "restart_s": 60.0}

    def change(data: dict[str, Any]) -> None:
        spot(data)
        data["gpu_types"]["v100"]["spot"] |= {"restart_s": 90.0, "restart_billed": False}
        data["gpu_types"]["a100"] = {}
        data["classes"]["vision"] |= {
            "rescale_s_on": {"a100": 300.0},
            "type_change_s": 20.0,
            "type_change_s_from": {"v100": {"a100": 120.0}},
        }

    rows = _compare_data(_changed(instance, spot), _changed(instance, change))
    values = {path: (row.a, row.b) for path, row in rows.items()}
    assert values == {
        "gpu_types.v100.spot.restart_s": (60.0, 90.0),
        "gpu_types.v100.spot.restart_billed": ("yes", "no"),
        "gpu_types.a100": (None, "yes"),
        "classes.vision.rescale_s_on.a100": (180.0, 300.0),
        "classes.vision.type_change_s": (0.0, 20.0),
        "classes.vision.type_change_s_from.v100.a100": (0.0, 120.0),
    }


def test_two_results(result: Result[Solution], rival: Result[Solution]) -> None:
    """Completion times, GPUs, cost and widths of two plans by hand, with the run of epochs in which widths differ."""
    rows = _by_path(compare(Compared("plan.json", answer=result), Compared("rival.json", answer=rival)))
    # 3,960 s and 4,860 s; 7.8 and 7.2 GPUs at 2 dollars an hour, 24 and 730 times that a day and a month.
    assert (rows["mean_jct_s"].a, rows["mean_jct_s"].b) == pytest.approx((3960.0, 4860.0))
    assert rows["gpus"].change == pytest.approx(-0.6)
    assert rows["cost_usd_per_hour"].change == pytest.approx(-1.2)
    assert rows["cost_usd_per_day"].change == pytest.approx(-1.2 * 24)
    assert rows["cost_usd_per_month"].change == pytest.approx(-1.2 * 730)
    assert (rows["solver"].a, rows["solver"].b) == ("layered-paths", "fixed-width")
    assert write_change(rows["bound"]) == ("only in A", "")
    assert write_change(rows["shadow_prices.budget.more"]) == ("only in A", "")
    assert rows["shadow_prices.budget.more"].what == "one more GPU saves"
    # Vision has 2, 2, 4 against 1, 1, 4: one run of two epochs. Speech is the same.
    widths = [row for row in rows.values() if row.is_range]
    assert [(row.of, row.what, row.a, row.b) for row in widths] == [("vision", "GPUs, epochs 1 to 2", 2.0, 1.0)]
    assert not any(path.startswith("classes.speech") for path in rows)


def test_widths_by_runs_of_epochs() -> None:
    """A row for each run in which both keep their GPUs; epochs that one has not are in the other only."""
    a = Path(1.0, tuple(Held(gpus) for gpus in (2.0, 2.0, 4.0, 4.0)))
    b = Path(1.0, tuple(Held(gpus) for gpus in (2.0, 2.0, 4.0, 8.0, 8.0)))
    rows = compare_paths("job", (a,), (b,))
    assert [(row.what, row.path, row.a, row.b) for row in rows] == [
        ("GPUs, epochs 1 to 2", "classes.job.widths[1..2]", 2.0, 2.0),
        ("GPUs, epoch 3", "classes.job.widths[3]", 4.0, 4.0),
        ("GPUs, epoch 4", "classes.job.widths[4]", 4.0, 8.0),
        ("GPUs, epoch 5", "classes.job.widths[5]", None, 8.0),
    ]


def test_gpus_of_other_types_are_not_subtracted() -> None:
    """Where the type changes, the row names both types and has no difference; of one type it has one."""
    a = Path(1.0, (Held(8.0, "t4"), Held(8.0, "t4")))
    b = Path(1.0, (Held(2.0, "a100"), Held(4.0, "t4")))
    moved, shrunk = compare_paths("job", (a,), (b,))
    assert (moved.what, moved.a, moved.b, moved.change) == ("GPUs, epoch 1", "8 t4", "2 a100", None)
    assert (shrunk.what, shrunk.change, shrunk.unit) == ("t4 GPUs, epoch 2", -4.0, GPUS)
    unnamed = compare_paths("job", (Path(1.0, (Held(1.0),)),), (Path(1.0, (Held(2.0, "a100"),)),))
    assert [(row.what, row.a, row.b) for row in unnamed] == [("GPUs", "1 GPU", "2 a100")]


def test_shares_are_compared_by_the_likest_path(
    instance: BoaInstance, result: Result[Solution], mixed_solution: BoaSolution, make_result: ResultMaker
) -> None:
    """Paths with the same widths are one path with two shares; what is left over is in one of the two only."""
    mixed = make_result(instance.replace(policy="mixed"), mixed_solution)
    comparison = compare(Compared("pure.json", answer=result), Compared("mixed.json", answer=mixed))
    rows = [row for row in comparison.differing if "path" in row.path]
    assert [(row.what, row.a, row.b, write_change(row)[0]) for row in rows] == [
        ("path 1: share of jobs", 1.0, 0.75, "-25 points"),
        ("path 2: share of jobs", None, 0.25, "only in B"),
        ("path 2: GPUs", None, 1.0, "only in B"),
    ]
    assert comparison.notes == (
        "A and B are for different instances, two versions of 'by-hand': data, limits, problem or kind of plan differ",
    )


def test_paths_are_paired_whatever_their_order() -> None:
    """The order of paths in a file plays no role: the nearest share decides among equally like ones."""
    one, two = (Held(1.0), Held(1.0)), (Held(2.0), Held(4.0))
    rows = compare_paths("job", (Path(0.3, one), Path(0.7, two)), (Path(0.6, two), Path(0.4, one)))
    assert [(row.what, row.a, row.b) for row in rows if row.differs] == [
        ("path 1: share of jobs", 0.3, 0.4),
        ("path 2: share of jobs", 0.7, 0.6),
    ]


def test_a_result_and_its_plan(instance: BoaInstance, result: Result[Solution]) -> None:
    """A plan says what its result says; status and shadow prices, which plans have not, are left out."""
    plan: Plan = build_plan(instance, result)  # type: ignore[arg-type] # a result of BOA, by its fixture
    comparison = compare(Compared("result.json", answer=result), Compared("plan.json", answer=plan))
    assert comparison.differing == ()
    assert comparison.notes == ("of a result and a plan, only what both have is compared",)
    assert not any("shadow" in row.path or row.path == "status" for row in comparison.rows)


def test_an_instance_and_a_plan(instance: BoaInstance, result: Result[Solution]) -> None:
    """An instance and a plan have prices and arrival rates in common."""
    plan: Plan = build_plan(instance, result)  # type: ignore[arg-type] # a result of BOA, by its fixture

    def change(data: dict[str, Any]) -> None:
        data["gpu_types"]["v100"]["price_usd_per_hour"] = 2.5
        data["classes"]["speech"]["arrival_rate_per_hour"] = 4.0

    comparison = compare(Compared("now.json", _changed(instance, change)), Compared("plan.json", answer=plan))
    values = {path: (row.a, row.b) for path, row in _by_path(comparison).items()}
    assert values == {
        "gpu_types.v100.price_usd_per_hour": (2.5, 2.0),
        "classes.speech.arrival_rate_per_hour": (4.0, 1.0),
    }
    assert comparison.notes == ("of an instance and a plan, only prices and arrival rates are compared",)


def test_an_instance_and_a_result_have_nothing_in_common(instance: BoaInstance, result: Result[Solution]) -> None:
    """They are refused, and the message says what would help."""
    with pytest.raises(UsageError, match=r"r\.json \(result\) and i\.json \(instance\) have nothing in common.*solve"):
        compare(Compared("r.json", answer=result), Compared("i.json", instance))


def test_an_answer_without_a_plan(result: Result[Solution], infeasible_result: Result[Solution]) -> None:
    """The note says why there is none; the classes, which it does not name, are not called missing."""
    comparison = compare(Compared("a.json", answer=result), Compared("b.json", answer=infeasible_result))
    rows = _by_path(comparison)
    assert any(note.startswith("B has no plan: the least budget for which") for note in comparison.notes)
    assert (rows["status"].a, rows["status"].b) == ("feasible", "infeasible")
    assert rows["relaxations.budget.least_feasible"].what == "least budget that works, in GPUs"
    assert write_values(rows["relaxations.budget.least_feasible"]) == ("-", "6.2")
    assert not any(path.startswith("classes.") for path in rows)


def test_solved_instances_show_data_and_answers(
    instance: BoaInstance, result: Result[Solution], solution: BoaSolution, make_result: ResultMaker
) -> None:
    """With both solved, data and answer of a class stand in one group, and problems that differ are noted."""
    whole = instance.replace(problem="whole")
    a, b = Compared("a.json", instance, result), Compared("b.json", whole, make_result(whole, solution))
    comparison = compare(a, b)
    groups = [row.of for row in comparison.rows]
    assert list(dict.fromkeys(groups)) == ["settings", "workload", "v100", "answer", "vision", "speech"]
    assert sum(1 for one, other in pairwise(groups) if one != other) == 5
    assert comparison.notes == (
        "A asks the rescaling problem and B the whole one: a plan of one may not do for the other",
    )
    assert a.describe() == "a.json, an instance 'by-hand', solved by layered-paths"


def test_one_gpu_type_beside_several_is_named(
    instance: BoaInstance, solution: BoaSolution, make_result: ResultMaker
) -> None:
    """Where only one of the two names GPU types, the other's only type is named, too, if its instance is known."""

    def change(data: dict[str, Any]) -> None:
        data["gpu_types"]["a100"] = {"price_usd_per_hour": 4.0}
        data["classes"]["speech"]["speedup"]["a100"] = _TABLE

    typed = _changed(instance, change)
    branches: dict[str, tuple[Branch, ...]] = {
        "vision": (Branch(widths=np.array([2.0, 2.0, 4.0]), gpu_types=("v100",) * 3),),
        "speech": (Branch(widths=np.array([2.0, 2.0]), gpu_types=("a100", "a100")),),
    }
    answers = make_result(instance, solution), make_result(typed, BoaSolution(branches=branches))
    found = _by_path(compare(Compared("a", instance, answers[0]), Compared("b", typed, answers[1])))
    # Speech holds 2 GPUs for 1.35 h, once an hour: 2.7 of the 7.8 GPUs are A100 now.
    assert (found["gpus.v100"].a, found["gpus.v100"].b) == pytest.approx((7.8, 5.1))
    assert [(row.of, row.a, row.b) for row in found.values() if row.is_range] == [("speech", "2 v100", "2 a100")]


def test_weighted_means_are_shown_where_they_matter(
    instance: BoaInstance, result: Result[Solution], solution: BoaSolution, make_result: ResultMaker
) -> None:
    """Without weights the two means are one row; with them in either, there are two."""
    plain = compare(Compared("a", answer=result), Compared("b", answer=result))
    assert "weighted_mean_jct_s" not in {row.path for row in plain.rows}
    heavy = _changed(instance, lambda data: data["classes"]["speech"].update(weight=3.0))
    rows = _by_path(compare(Compared("a", answer=result), Compared("b", answer=make_result(heavy, solution))))
    # (2 x 0.975 + 3 x 1.35) / 5 h = 4,320 s, and 3,960 s without weights.
    assert (rows["weighted_mean_jct_s"].a, rows["weighted_mean_jct_s"].b) == pytest.approx((3960.0, 4320.0))
    assert "mean_jct_s" not in rows


def test_shadow_prices_of_quotas_and_other_units(
    instance: BoaInstance, solution: BoaSolution, make_result: ResultMaker
) -> None:
    """A quota's price is named after its GPU type; prices per GPU and per dollar are two rows."""
    certificate = LagrangianCertificate(multipliers={"budget": 1.0}, bound=3000.0)
    a, b = (
        make_result(
            instance,
            solution,
            bound=3000.0,
            bound_proof=BoundProof.LAGRANGIAN,
            certificates=(certificate,),
            shadow_prices={
                "budget": ShadowPrice(more=30.0, unit=f"s of mean JCT per {unit}"),
                "quota.v100": ShadowPrice(more=more, unit="s of mean JCT per GPU"),
            },
        )
        for unit, more in (("GPU", 20.0), ("usd/hour", 25.0))
    )
    rows = compare(Compared("a", answer=a), Compared("b", answer=b)).differing
    assert [(row.what, row.a, row.b) for row in rows] == [
        ("one more dollar an hour saves", None, 30.0),
        ("one more GPU saves", 30.0, None),
        ("one more GPU of v100's quota saves", 20.0, 25.0),
    ]


def test_facts_keep_their_order() -> None:
    """What is only in B follows what precedes it there."""
    a = [Fact("x", name, name, 1.0) for name in ("one", "two", "four")]
    b = [Fact("x", name, name, 1.0) for name in ("zero", "one", "two", "three", "four", "five")]
    assert [row.path for row in pair_facts(a, b)] == ["zero", "one", "two", "three", "four", "five"]


@pytest.mark.parametrize(
    ("unit", "a", "b", "texts", "change"),
    [
        (SECONDS, 3600.0, 3601.0, ("3600.00 s", "3601.00 s"), ("+1 s", "+0.028")),
        (GPUS, 119.99914, 120.0, ("119.999", "120.000"), ("+0.00086", "+0.00")),
        (GPUS, 8.0, 16.0, ("8", "16"), ("+8", "+100")),
        ("usd/hour", 2.0, 1.0, ("$2.00", "$1.00"), ("-$1.00", "-50")),
        ("usd/hour", 2.0, 2.0004, ("$2.00000", "$2.00040"), ("+$0.0004", "+0.02")),
        (SHARE, 0.25, 0.125, ("25 %", "12 %"), ("-12 points", "")),
        (SHARE, 0.251, 0.252, ("25.10 %", "25.20 %"), ("+0.1 points", "")),
        ("1/h", 0.0, 0.5, ("0", "0.5"), ("+0.5", "")),
        ("gpu-h", 2.0, 1.0, ("2 h 00 min", "1 h 00 min"), ("-1 h 00 min", "-50")),
        ("1", 1.0, 1.0, ("1", "1"), ("same", "")),
        ("", "pure", "mixed", ("pure", "mixed"), ("", "")),
    ],
)
def test_numbers_in_words(
    unit: str, a: float | str, b: float | str, texts: tuple[str, str], change: tuple[str, str]
) -> None:
    """Values have the form of their unit, and digits enough to tell them apart; changes have a sign."""
    row = Difference("x", "y", "z", unit, a, b)
    assert (write_values(row), write_change(row)) == (texts, change)


@given(
    a=st.floats(1e-6, 1e6),
    relative=st.floats(-0.5, 0.5),
    unit=st.sampled_from([SECONDS, GPUS, SHARE, "usd/hour", "gpu-h", "1/h", "1", "s of mean JCT per GPU"]),
)
def test_values_that_differ_never_read_alike(a: float, relative: float, unit: str) -> None:
    """However small a difference that is more than rounding, the two texts differ."""
    row = Difference("x", "y", "z", unit, a, a * (1 + relative))
    texts = write_values(row)
    assert texts[0] != texts[1] or not row.differs


def test_rounding_is_no_difference() -> None:
    """Numbers within a relative 1e-9 are equal, and gaps within 1e-9."""
    assert not Difference("x", "y", "z", SECONDS, 3960.0, 3960.0 * (1 + 1e-12)).differs
    assert Difference("x", "y", "z", SECONDS, 3960.0, 3960.0 * (1 + 1e-8)).differs
    assert not Difference("x", "gap", "gap", SHARE, 0.0, 2e-16).differs


def test_the_table_folds_texts_and_never_numbers() -> None:
    """A long source wraps; the numbers beside it stay on one line; names with brackets are no markup."""
    source = "a price list that goes on and on about where it comes from"
    drawn = _draw(
        [
            Difference("[red]t4[/red]", "source of the price", "p", "", source, "other"),
            Difference("[red]t4[/red]", "cost a month", "q", "usd/month", 12345.0, 23456.0),
        ]
    )
    lines = [line.split() for line in drawn.splitlines()]
    assert ["cost", "a", "month", "$12,345", "$23,456", "+$11,111", "+90"] in lines
    assert lines.count(["[red]t4[/red]"]) == 1
    assert source not in drawn


def test_the_table_cuts_long_lists_of_widths() -> None:
    """Of more than 24 ranges a group shows 23 and says how many more there are; other rows stay."""
    ranges = [Difference("job", f"GPUs, epoch {n}", f"w[{n}]", GPUS, 1.0, 2.0, is_range=True) for n in range(1, 41)]
    drawn = _draw([Difference("job", "epochs", "e", "1", 39.0, 40.0), *ranges])
    assert "GPUs, epoch 23 " in drawn
    assert "GPUs, epoch 24 " not in drawn
    assert "17 more rows of widths are in the JSON (--json, -o)" in " ".join(drawn.split())
