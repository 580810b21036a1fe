"""What a plan uses of GPU types and limits, what that costs, and what more of it is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from optplan.contracts import Frontier, Result, ShadowPrice, Solution
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.reporting.boa.facts import list_limits, list_types, say_prices
from optplan.reporting.tables import Content, Table

if TYPE_CHECKING:
    from tests.reporting.boa.conftest import ResultMaker


def rows_of(table: Table | None) -> list[tuple[Content, ...]]:
    """Return the cells of a table, row by row."""
    assert table is not None
    return [tuple(row.cells) for row in table.set_rows]


def priced(instance: BoaInstance, **prices: tuple[float | None, float]) -> dict[str, Any]:
    """Return shadow prices by limit, from pairs of less and more; ``quota_a100`` stands for ``quota.a100``."""
    return {
        "shadow_prices": {
            limit.replace("_", "."): ShadowPrice(less=less, more=more, unit=instance.price_unit(limit))
            for limit, (less, more) in prices.items()
        }
    }


def test_types_cost_what_their_gpus_cost(typed_instance: BoaInstance, typed_result: Result[Solution]) -> None:
    """2 t4 at $1 and 1.3 a100 at $4 cost $7.20 an hour, $172.80 a day, $5,256 in a month of 730 hours."""
    assert rows_of(list_types(typed_instance, typed_result)) == [
        ("t4", "2", "61 %", "$1.00", "$2.00", "$48.00", "$1,460"),
        ("a100", "1.30", "39 %", "$4.00", "$5.20", "$125", "$3,796"),
        ("all types", "3.30", "100 %", "", "$7.20", "$173", "$5,256"),
    ]


def test_without_a_price_no_cost_is_made_up(
    typed_instance: BoaInstance, typed_solution: BoaSolution, make_result: ResultMaker
) -> None:
    """A type without a price costs nobody knows what, and so do all types together."""
    types = {**typed_instance.gpu_types, "a100": typed_instance.gpu_types["a100"].replace(price_usd_per_hour=None)}
    unpriced = typed_instance.replace(gpu_types=types, budget="4gpu")
    rows = rows_of(list_types(unpriced, make_result(unpriced, typed_solution)))
    assert [(row[0], row[3], row[4]) for row in rows] == [
        ("t4", "$1.00", "$2.00"),
        ("a100", "-", "-"),
        ("all types", "", "-"),
    ]


def test_limits_are_shown_as_they_were_given(typed_instance: BoaInstance, typed_result: Result[Solution]) -> None:
    """The budget by the month, as the user gave it; one more a100 saves what 150 / 90 x 24 = $40 a day would."""
    assert rows_of(list_limits(typed_instance, typed_result)) == [
        ("budget", "$5,256 a month", "$5,256 a month", "100 %", "1 min 30 s", "-"),
        ("quota of a100", "1.30 GPUs", "1.30 GPUs", "100 %", "2 min 30 s", "$40.00 a day"),
    ]


def test_nothing_is_listed_without_types_or_a_plan(
    instance: BoaInstance, result: Result[Solution], typed_instance: BoaInstance, make_result: ResultMaker
) -> None:
    """One type without a quota has no tables of types and limits; neither has a result without a plan."""
    assert list_types(instance, result) is None
    assert list_limits(instance, result) is None
    unknown = make_result(typed_instance, None)
    assert list_types(typed_instance, unknown) is None
    assert list_limits(typed_instance, unknown) is None
    assert say_prices(typed_instance, unknown) == []


def test_prices_in_words(typed_instance: BoaInstance, typed_result: Result[Solution]) -> None:
    """A sentence for the budget and one for the quota, with its worth in money."""
    assert say_prices(typed_instance, typed_result) == [
        "One more dollar an hour saves 1 min 30 s, one less costs 2 min 00 s.",
        "One more a100 in the quota saves 2 min 30 s of mean completion time, worth $40.00 a day at the budget's own "
        "price; one fewer costs 3 min 20 s.",
    ]


@pytest.mark.parametrize(
    ("quota", "budget", "text"),
    [
        ((0.0, 0.0), (90.0, 90.0), "The quota of a100 costs no time: one more would save nothing."),
        ((None, 150.0), (0.0, 0.0), "One more a100 in the quota saves 2 min 30 s of mean completion time; with a "),
        ((150.0, 150.0), (120.0, 120.0), "completion time, worth $30.00 a day at the budget's own price."),
    ],
)
def test_prices_at_the_ends(
    typed_instance: BoaInstance,
    typed_solution: BoaSolution,
    make_result: ResultMaker,
    quota: tuple[float | None, float],
    budget: tuple[float | None, float],
    text: str,
) -> None:
    """A quota that does not bind, one that cannot shrink, a budget that saves nothing: no worth is made up."""
    found = make_result(typed_instance, typed_solution, **priced(typed_instance, budget=budget, quota_a100=quota))
    assert text in say_prices(typed_instance, found)[1]


def test_one_type_with_a_quota(instance: BoaInstance, solution: BoaSolution, make_result: ResultMaker) -> None:
    """Where the budget counts GPUs, their price makes money of it: 30 / 60 GPUs x $2 x 24 h = $24 a day."""
    limited = instance.replace(gpu_types={"v100": instance.gpu_types["v100"].replace(quota_gpus=7.9)})
    found = make_result(limited, solution, **priced(limited, budget=(60.0, 60.0), **{"quota_v100": (30.0, 30.0)}))
    assert list_types(limited, found) is None
    assert [row[1] for row in rows_of(list_limits(limited, found))] == ["7.80 GPUs", "7.80 GPUs"]
    assert "worth $24.00 a day" in say_prices(limited, found)[1]


def test_the_frontier_helps_out(
    typed_instance: BoaInstance, typed_rival: Result[Solution], typed_frontier: Frontier
) -> None:
    """A solver without shadow prices has the frontier's price of the budget: 150 s / $4.80 beyond $7.20."""
    (sentence,) = say_prices(typed_instance, typed_rival, typed_frontier)
    assert "saves 31 s" in sentence
    assert [row[4] for row in rows_of(list_limits(typed_instance, typed_rival, typed_frontier))] == ["31 s", "-"]
