"""The width table as it is published."""

import json
from collections import Counter

import pytest

import optplan
from optplan.errors import DataError
from optplan.execution.online.width_table import Holding, Rows, WidthTable
from optplan.formulations.boa.data.instance import BoaInstance, Policy
from optplan.formulations.boa.planning import BoaPlan

_ROW = {"share": 1.0, "gpus": [2, 4]}


def _table(**changes: object) -> dict[str, object]:
    table = {"number": 1, "made_s": 0.0, "gpu_types": ["t4"], "classes": {"a": [_ROW]}, "gpus": 3.0, "mean_jct_s": 60.0}
    return {**table, **changes}


def test_jobs_hold_what_their_epoch_says_and_the_last_width_beyond() -> None:
    """A job of two epochs holds 2, then 4, and stays there; a class that nobody knows holds one GPU."""
    table = WidthTable.parse(_table())
    held = [table.held_at("a", done) for done in (0, 1, 2, 9)]
    assert held == [Holding(2, "t4"), Holding(4, "t4"), Holding(4, "t4"), Holding(4, "t4")]
    assert table.held_at("b", 0) == Holding(1, None)


def test_what_was_written_is_read_again() -> None:
    """A table is the same after JSON, to the byte when it is written again."""
    table = WidthTable.parse(_table())
    text = json.dumps(table.to_json_data())
    again = WidthTable.parse(json.loads(text))
    assert again == table
    assert json.dumps(again.to_json_data()) == text


def test_a_plan_has_its_table() -> None:
    """The table of a mixed plan deals its rows out as the plan deals its ways, and expects what the plan expects."""
    instance = optplan.read_instance("boa-one-table", BoaInstance).replace(budget="1.1gpu", policy=Policy.MIXED)
    plan = optplan.build_plan(instance, optplan.solve(instance))
    assert isinstance(plan, BoaPlan)
    table = WidthTable.from_plan(plan)
    # 60 % of the jobs hold 1 GPU for an hour and 40 % hold 2 for 0.625 h: 1.1 GPUs and 0.85 h (docs/boa.md).
    assert table.gpus == pytest.approx(1.1)
    assert table.mean_jct_s == pytest.approx(0.85 * 3600)
    (name,) = table.classes
    rows = Rows()
    widths = Counter(table.held_at(name, 0, rows.row_of(f"job {k}", name, table)).gpus for k in range(10))
    assert widths == {1: 6, 2: 4}


def test_jobs_that_came_before_their_class_was_known_count_for_its_first_row() -> None:
    """Three hold what will be the first row: of the next five four have the other; who takes over deals alike."""
    before = WidthTable.parse(_table())
    rows = [{"share": 0.5, "gpus": [1]}, {"share": 0.5, "gpus": [2]}]
    known, dealt = WidthTable.parse(_table(classes={"late": rows})), Rows()
    came = {f"old {k}": dealt.row_of(f"old {k}", "late", before) for k in range(3)}
    taken_over = Rows()
    for name, row in came.items():
        taken_over.restore(name, "late", row)
    found = [[one.row_of(f"new {k}", "late", known) for k in range(5)] for one in (dealt, taken_over)]
    assert sum(found[0]) == 4
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"number": 0}, "number"),
        ({"classes": {"a": [{"share": 0.5, "gpus": [1]}]}}, "shares add up to 0.5"),
        ({"classes": {"a": []}}, "classes.a"),
        ({"classes": {"a": [{"share": 1.0, "gpus": [0]}]}}, "one width of at least 1 per epoch"),
        ({"classes": {"a": [_ROW]}, "gpu_types": ["t4", "v100"]}, "gpu_types: is missing"),
        ({"classes": {"a": [{**_ROW, "gpu_types": ["t4", "a100"]}]}}, "one of t4 per epoch"),
        ({"half": True}, "half"),
    ],
)
def test_a_table_that_is_not_whole_is_refused(changes: dict[str, object], complaint: str) -> None:
    """Whatever cannot be followed is refused by name when it is read, not when a job needs it."""
    with pytest.raises(DataError, match=complaint):
        WidthTable.parse(_table(**changes))
