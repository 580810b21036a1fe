"""What explanations say in words: costs that are proven, and ranges where they are not."""

from __future__ import annotations

import pytest

from optplan.contracts import Alternative, Direction, Explanation
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting.boa.explanation_tables import list_explanations, say_rates, write_forced


def forced(objective: float | None, bound: float | None, cost: float | None) -> Alternative:
    """Return an alternative that was forced."""
    return Alternative(
        direction=Direction.WIDER, label="2 t4", forced_objective=objective, forced_bound=bound, forced_cost=cost
    )


@pytest.mark.parametrize(
    ("alternative", "words"),
    [
        (forced(1012.0, 1012.0, 12.0), "+12"),
        (forced(1012.0, 1011.995, 12.0), "+12"),  # within a relative 1e-5
        (forced(1012.0, 1004.5, 12.0), "+4.5 to +12"),
        (forced(1012.0, 1000.0, 12.0), "+0 to +12"),
        (forced(1000.0, 990.0, 0.0), "+0"),
        (forced(None, 1004.5, None), "at least +4.5"),
        (forced(None, 1000.0, None), "not known"),
        (forced(None, 990.0, None), "not known"),
        (forced(None, None, None), "no plan fits"),
    ],
)
def test_forced_costs_are_ranges_unless_proven(explanation: Explanation, alternative: Alternative, words: str) -> None:
    """Against a best plan of 1000 s: what is proven is one figure, the rest says from what to what, or from what on."""
    best = explanation.replace(best_objective=1000.0, best_bound=1000.0)
    assert write_forced(best, alternative) == words


def test_what_is_not_proven_is_counted(typed_instance: BoaInstance, explanation: Explanation) -> None:
    """The sentence above the table says how many costs are ranges; nothing is said where all are proven."""
    assert "Not proven" not in say_rates(typed_instance, explanation)
    best = explanation.replace(best_objective=1000.0, best_bound=1000.0)
    loose, lost = forced(1012.0, 1004.5, 12.0), forced(None, 1004.5, None)

    def say(*alternatives: Alternative) -> str:
        first = best.choices[0].replace(alternatives=alternatives)
        return say_rates(typed_instance, best.replace(choices=(first, *best.choices[1:])))

    # The other classes have two alternatives between them.
    one = "Not proven: 1 of the 3 forced costs. Where a re-solve stopped at its limit, or at the gap asked for, "
    assert say(loose).endswith(one + "a range is given.")
    two = say(loose, lost)
    assert "Not proven: 2 of the 4 forced costs." in two
    assert two.endswith("a range is given, or only from what on, as no plan was found by then.")


def test_quotas_are_named_where_they_bind(typed_instance: BoaInstance, explanation: Explanation) -> None:
    """A wider choice can pay by its dollars and yet not by its GPUs, whose quota is used up: the text says so."""
    assert (
        "GPUs whose quota is used up are worth more than their price: one a100 150 s. The exchange for budget leaves "
        "that out, the forced costs do not." in say_rates(typed_instance, explanation)
    )
    slack = explanation.replace(multipliers={"budget": 90.0, "quota.a100": 0.0})
    assert "quota" not in say_rates(typed_instance, slack)


def test_a_best_plan_without_proof_says_so(typed_instance: BoaInstance, explanation: Explanation) -> None:
    """Costs are compared with the best plan known; how far that may be from the best possible is said."""
    best = explanation.replace(objective=1100.0, best_objective=1000.0, best_bound=950.0)
    said = say_rates(typed_instance, best)
    assert "mean completion time 1,100.0 s. The best plan takes 1,000.0 s; what is forced is compared with that" in said
    assert "That is the best plan known; what is possible is at least 950.0 s." in said
    assert "what is possible is unknown" in say_rates(typed_instance, best.replace(best_bound=None))


def test_rows_repeat_no_heads(explanation: Explanation) -> None:
    """Class, epochs and choice stand in the first row of a choice; a choice without alternatives has one row."""
    rows = [tuple(row.cells) for row in list_explanations(explanation).set_rows]
    assert [row[:4] for row in rows] == [
        ("vision", "1", "1 t4", "2 t4"),
        ("", "", "", "any a100"),
        ("vision", "2", "1 a100", "any t4"),
        ("speech", "1", "2 a100", "any t4"),
        ("text", "1", "2 t4", "nothing else is allowed"),
    ]
    # 50 s saved for half a dollar an hour.
    assert rows[0][4:] == ("-50", "+0.5", "100", "+12")
