"""Steps between widths, and what other widths would be worth."""

from __future__ import annotations

from typing import Any

import pytest

from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import Steps, Widths
from optplan.formulations.boa.study.node_rounding import allow_all, list_wider
from optplan.reporting.boa.phrases import say_answer, say_steps, say_wider
from optplan.solving import solve


def _make(
    widths: Any,  # noqa: ANN401 - right ones and wrong ones
    *,
    per_node: int | None = None,
    budget: str = "4gpu",
    table: dict[int, float] | None = None,
) -> BoaInstance:
    """Make a class of one job of a GPU-hour an hour, with speed sqrt(k) on k GPUs unless a table is given."""
    known = {"form": "table", "gpus": list(table), "speedup": list(table.values())} if table else None
    power: dict[str, Any] = {"form": "power", "exponent": 0.5}
    speedup = {"t4": known or power}
    job_class = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": speedup, "widths": widths}
    return BoaInstance.parse(
        {
            "name": "one",
            "formulation": "boa",
            "classes": {"a": job_class},
            "gpu_types": {"t4": {} if per_node is None else {"gpus_per_node": per_node}},
            "budget": budget,
            "problem": "whole",
        }
    )


@pytest.mark.parametrize(
    ("widths", "per_node", "allowed"),
    [
        ({"max": 9, "steps": "powers-of-two"}, None, [1, 2, 4, 8]),
        ({"min": 3, "max": 16, "steps": "powers-of-two"}, None, [4, 8, 16]),
        ({"max": 24, "steps": "nodes"}, 8, [1, 2, 4, 8, 16, 24]),
        ({"max": 20, "steps": "nodes"}, 6, [1, 2, 4, 6, 12, 18]),
        ({"max": 3}, None, [1, 2, 3]),
    ],
)
def test_steps_choose_among_the_widths(widths: dict[str, Any], per_node: int | None, allowed: list[int]) -> None:
    """Powers of two; or those within a node, the node, and whole nodes."""
    assert _make(widths, per_node=per_node).allowed_widths("a").tolist() == allowed


def test_a_word_is_a_rule_and_tables_keep_what_they_have() -> None:
    """The measured widths 1, 2, 3 and 4 keep 1, 2 and 4."""
    table = {1: 1.0, 2: 1.5, 3: 1.8, 4: 2.0}
    assert _make("powers-of-two", table=table).allowed_widths("a").tolist() == [1, 2, 4]


@pytest.mark.parametrize(
    ("widths", "message"),
    [
        ({"max": 8, "steps": "nodes"}, "steps are nodes, and how many GPUs a node has is not said; give gpu_ty"),
        ({"only": [1, 2], "steps": "nodes"}, "min, max, multiple_of and steps must be left out"),
        ("threes", "got 'threes'; allowed: all, powers-of-two, nodes"),
    ],
)
def test_what_steps_cannot_be(widths: Any, message: str) -> None:  # noqa: ANN401 - right ones and wrong ones
    """Nodes of no size, a list with steps, and other words."""
    with pytest.raises(DataError, match=message):
        _make(widths)


def test_hashes_of_instances_without_steps_stay() -> None:
    """The field is later than the first instances, which keep their ids."""
    assert "steps" in Widths.LATER
    assert Widths(max=4).steps is Steps.ALL


def test_what_steps_cost_is_said() -> None:
    """On 9 GPUs a job takes 20 min and 9 / 3 = 3 GPUs are in use; of powers of two 8 may be held: 21 min 13 s."""
    instance = _make({"max": 16, "steps": "powers-of-two"}, budget="3gpu")
    free = allow_all(instance)
    assert free is not None
    said = say_steps(solve(instance), solve(free))
    assert said == "With all widths between these, jobs would finish in 20 min 00 s on average: these steps cost 6.1 %."
    assert allow_all(free) is None


def test_slack_names_the_width_to_allow_next() -> None:
    """On 4 GPUs at most a job takes 30 min and holds 2 GPUs on average of 10; on 8 it takes 21 min 13 s."""
    instance = _make({"max": 4}, budget="10gpu")
    result = solve(instance)
    assert "of which 2 are used, jobs finish in 30 min 00 s" in say_answer(instance, result)
    wider = {(name, width): solve(other) for name, width, other in list_wider(instance)}
    assert list(wider) == [("a", 8)]
    assert "The next width to allow is 8 GPUs for a: jobs would finish 8 min 47 s earlier" in say_wider(result, wider)


def test_widths_that_were_not_measured_are_to_be_measured() -> None:
    """A table that ends says nothing of wider widths; where a budget binds, nothing is said to be unused."""
    instance = _make(None, budget="10gpu", table={1: 1.0, 2: 1.5})
    assert say_wider(solve(instance), {}).endswith("Wider ones have no speedup in the data: measure them.")
    binding = _make({"max": 16}, budget="3gpu")
    assert "used" not in say_answer(binding, solve(binding))
