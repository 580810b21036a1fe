"""Comparisons: which figures two things have in common, what changes between them, and how that is written."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from optplan.contracts import LagrangianCertificate, Plan, Result, ShadowPrice, Solution
from optplan.contracts.result import BoundProof
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.planning import build_plan
from optplan.reporting.boa.differences import state_answer
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
    # 8 GPUs to 10; $2.00 to $1.50; 2 jobs an hour to 3.
    expected = {
        "policy": ("pure", "mixed", None, None),
        "budget": ("8gpu", "10gpu", None, None),
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


def test_lists_of_epochs_and_speedups_are_one_figure_each(instance: BoaInstance) -> None:
    """Sizes and speeds by epoch have one row each, with all their numbers; of long ones the first that differs."""

    def change(data: dict[str, Any]) -> None:
        vision = data["classes"]["vision"]
        vision["epoch_size_gpu_hours"] = [0.55, 0.5, 2.0]
        vision["speedup"]["v100"]["speedup"] = [[1.0, 1.6, 2.2], [1.0, 1.6, 2.0], [1.0, 1.5, 4.0]]

    rows = _compare_data(instance, _changed(instance, change))
    told = {path: write_values(row) for path, row in rows.items()}
    assert told == {
        "classes.vision.epoch_size_gpu_hours": ("0.5, 0.5, 1", "0.55, 0.5, 2"),
        "classes.vision.speedup.v100.speedup": (
            "1, 1.6, 2, 1, 1.6, 2, 1, 2, 4",
            "1, 1.6, 2.2, 1, 1.6, 2, 1, 1.5, 4",
        ),
    }
    assert {(row.of, row.what) for row in rows.values()} == {
        ("vision", "epoch size gpu hours"),
        ("vision", "speedup.v100.speedup"),
    }
    many = []
    for last in (1.0, 2.0):
        data = instance.to_json_data()
        data["classes"]["vision"] |= {"epoch_size_gpu_hours": [0.5] * 30 + [last], "speedup": {"v100": _TABLE}}
        many.append(BoaInstance.parse(data))
    row = _compare_data(*many)["classes.vision.epoch_size_gpu_hours"]
    assert write_values(row) == ("no. 31: 1 (31 in all)", "no. 31: 2 (31 in all)")


def test_widths_are_listed(instance: BoaInstance) -> None:
    """Two sets of allowed widths stand beside one another."""
    row = _compare_data(_with_widths(instance, [1]), _with_widths(instance, [2, 4]))["classes.speech.widths.only"]
    assert (row.a, row.b) == ("1", "2, 4")


def test_what_only_one_of_the_two_has_is_said(instance: BoaInstance) -> None:
    """Fields of classes, GPU types and speedups in one of the two have rows that say in which."""

    def change(data: dict[str, Any]) -> None:
        data["classes"]["text"] = data["classes"].pop("speech")
        data["gpu_types"]["a100"] = {"price_usd_per_hour": 4.0}
        data["classes"]["vision"]["speedup"]["a100"] = {"form": "table", "gpus": [1, 2, 4], "speedup": [2, 3, 5]}

    rows = _compare_data(instance, _changed(instance, change))
    told = {write_change(row)[0]: set[str]() for row in rows.values()}
    for path, row in rows.items():
        told[write_change(row)[0]].add(".".join(path.split(".")[:2]))
    assert told == {"only in A": {"classes.speech"}, "only in B": {"gpu_types.a100", "classes.text", "classes.vision"}}
    assert rows["classes.vision.speedup.a100.form"].what == "speedup.a100.form"


def test_interruptions_and_pauses_of_gpu_types(instance: BoaInstance) -> None:
    """Spot GPUs and pauses by GPU type are compared as they are given."""

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
        "gpu_types.a100.price_source": (None, ""),
        "gpu_types.a100.price_date": (None, ""),
        "classes.vision.rescale_s_on.a100": (None, 300.0),
        "classes.vision.type_change_s": (0.0, 20.0),
        "classes.vision.type_change_s_from.v100.a100": (None, 120.0),
    }


def test_two_results(result: Result[Solution], rival: Result[Solution]) -> None:
    """Completion times, GPUs, cost and widths of two plans by hand."""
    rows = _by_path(compare(Compared("plan.json", answer=result), Compared("rival.json", answer=rival)))
    # 3,960 s and 4,860 s; 7.8 and 7.2 GPUs at 2 dollars an hour, 730 times that a month.
    assert (rows["mean_jct_s"].a, rows["mean_jct_s"].b) == pytest.approx((3960.0, 4860.0))
    assert rows["gpus"].change == pytest.approx(-0.6)
    assert rows["cost_usd_per_hour"].change == pytest.approx(-1.2)
    assert rows["cost_usd_per_month"].change == pytest.approx(-1.2 * 730)
    assert (rows["solver"].a, rows["solver"].b) == ("layered-paths", "fixed-width")
    assert write_change(rows["bound"]) == ("only in A", "")
    assert write_change(rows["shadow_prices.budget.more"]) == ("only in A", "")
    # Vision has 2, 2, 4 against 1, 1, 4. Speech is the same.
    widths = rows["classes.vision.widths"]
    assert (widths.of, widths.what) == ("vision", "GPUs by epoch")
    assert (widths.a, widths.b) == ("2 in 1 to 2, 4 in 3", "1 in 1 to 2, 4 in 3")
    assert not any(path.startswith("classes.speech") for path in rows)


def test_shares_are_written_with_what_they_hold(
    instance: BoaInstance, result: Result[Solution], mixed_solution: BoaSolution, make_result: ResultMaker
) -> None:
    """Whatever their order in a file; a class whose jobs are alike has no shares."""
    mixed = make_result(instance.replace(policy="mixed"), mixed_solution)
    comparison = compare(Compared("pure.json", answer=result), Compared("mixed.json", answer=mixed))
    row = _by_path(comparison)["classes.vision.widths"]
    assert (row.a, row.b) == ("2 in 1 to 2, 4 in 3", "25 %: 1; 75 %: 2 in 1 to 2, 4 in 3")
    assert comparison.notes == (
        "A and B are for different instances, two versions of 'by-hand': data, limits, problem or kind of plan differ",
    )
    turned = {name: tuple(reversed(rows)) for name, rows in mixed_solution.branches.items()}
    other = make_result(instance.replace(policy="mixed"), BoaSolution(branches=turned))
    assert compare(mixed, other).differing == ()


def test_a_result_and_its_plan(instance: BoaInstance, result: Result[Solution]) -> None:
    """A plan says what its result says; status and shadow prices, which plans have not, are left out."""
    plan: Plan = build_plan(instance, result)  # type: ignore[arg-type] # a result of BOA, by its fixture
    comparison = compare(Compared("result.json", answer=result), Compared("plan.json", answer=plan))
    assert comparison.differing == ()
    assert comparison.notes == ("of a result and a plan, only what both have is compared",)
    assert not any("shadow" in row.path or row.path == "status" for row in comparison.rows)


def test_an_instance_and_a_result_have_nothing_in_common(instance: BoaInstance, result: Result[Solution]) -> None:
    """They are refused, plans too, and the message says what would help."""
    with pytest.raises(UsageError, match=r"r\.json \(result\) and i\.json \(instance\) have nothing in common.*solve"):
        compare(Compared("r.json", answer=result), Compared("i.json", instance))
    plan: Plan = build_plan(instance, result)  # type: ignore[arg-type] # a result of BOA, by its fixture
    with pytest.raises(UsageError, match=r"i\.json \(instance\) and p\.json \(plan\) have nothing in common"):
        compare(Compared("i.json", instance), Compared("p.json", answer=plan))


def test_an_answer_without_a_plan(result: Result[Solution], infeasible_result: Result[Solution]) -> None:
    """The note says why there is none."""
    comparison = compare(Compared("a.json", answer=result), Compared("b.json", answer=infeasible_result))
    rows = _by_path(comparison)
    assert any(note.startswith("B has no plan: the least budget for which") for note in comparison.notes)
    assert (rows["status"].a, rows["status"].b) == ("feasible", "infeasible")
    assert rows["relaxations.budget"].what == "nearest budget that works, gpu"
    assert write_values(rows["relaxations.budget"]) == ("-", "6.2")


def test_solved_instances_show_data_and_answers(
    instance: BoaInstance, result: Result[Solution], solution: BoaSolution, make_result: ResultMaker
) -> None:
    """With both solved, data and answer of a class stand in one group."""
    whole = instance.replace(problem="whole")
    a, b = Compared("a.json", instance, result), Compared("b.json", whole, make_result(whole, solution))
    comparison = compare(a, b)
    groups = [row.of for row in comparison.rows]
    assert list(dict.fromkeys(groups)) == ["vision", "speech", "v100", "settings", "answer"]
    assert sum(1 for one, other in pairwise(groups) if one != other) == 4
    assert (_by_path(comparison)["problem"].a, _by_path(comparison)["problem"].b) == ("rescaling", "whole")
    assert a.describe() == "a.json, an instance 'by-hand', solved by layered-paths"


def test_gpus_are_named_by_type(typed_result: Result[Solution]) -> None:
    """Vision changes from a t4 to an a100 after its first epoch; 2 t4 and 1.3 a100 are in use."""
    facts = {fact.path: fact.value for fact in state_answer(typed_result)}
    assert facts["classes.vision.widths"] == "1 t4 in 1, 1 a100 in 2"
    assert facts["classes.speech.widths"] == "2 a100"
    assert (facts["gpus.t4"], facts["gpus.a100"]) == pytest.approx((2.0, 1.3))


def test_weighted_means_are_shown_where_they_matter(
    instance: BoaInstance, result: Result[Solution], solution: BoaSolution, make_result: ResultMaker
) -> None:
    """Without weights the two means are one figure; with them there are two."""
    plain = compare(Compared("a", answer=result), Compared("b", answer=result))
    assert "weighted_mean_jct_s" not in {row.path for row in plain.rows}
    heavy = _changed(instance, lambda data: data["classes"]["speech"].update(weight=3.0))
    rows = _by_path(compare(Compared("a", answer=result), Compared("b", answer=make_result(heavy, solution))))
    # (2 x 0.975 + 3 x 1.35) / 5 h = 4,320 s, and 3,960 s without weights.
    assert rows["weighted_mean_jct_s"].a is None
    assert rows["weighted_mean_jct_s"].b == pytest.approx(4320.0)
    assert "mean_jct_s" not in rows


def test_shadow_prices_of_quotas_and_other_units(
    instance: BoaInstance, solution: BoaSolution, make_result: ResultMaker
) -> None:
    """Each limit has its price; prices per GPU and per dollar are two rows."""
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
        ("budget eased by one usd/hour saves", None, 30.0),
        ("budget eased by one GPU saves", 30.0, None),
        ("quota.v100 eased by one GPU saves", 20.0, 25.0),
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
    unit=st.sampled_from([SECONDS, GPUS, SHARE, "usd/hour", "1/h", "1", "s of mean JCT per GPU"]),
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
