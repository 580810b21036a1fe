"""Plans: what holds for those of every formulation."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan, Segment
from optplan.contracts.conditions import AllEnded, Promoted, waits_for
from optplan.contracts.plan import require_size
from optplan.errors import DataError
from optplan.instances.files import format_json, read_plan, read_record

#: Two trials of one GPU for 100 s, and the better one on both GPUs of the node for 50 s more.
PLAN: dict[str, Any] = {
    "version": 2,
    "formulation": "any",
    "instance_name": "tiny",
    "instance_hash": "0" * 64,
    "solver": "by-hand",
    "objective": 0.15,
    "objective_unit": "usd",
    "resources": {
        "t4": {"gpu_type": "t4", "gpus_per_node": 2, "price_usd_per_hour": 3.6, "price_source": "a list"},
    },
    "units": [{"id": "trials", "kind": "trials", "members": 2}],
    "segments": [
        {
            "id": "first",
            "unit": "trials",
            "last_rank": 2,
            "at_once": 2,
            "resource": "t4",
            "pool": "cluster",
            "nodes": 1,
            "workers": 1,
            "enter": {"when": "start"},
            "exit": {"when": "iterations", "iterations": 10},
            "expected": {"seconds": 100.0, "gpu_hours": 1 / 18, "busy_gpu_hours": 1 / 18, "cost_usd": 0.1},
        },
        {
            "id": "second",
            "unit": "trials",
            "resource": "t4",
            "pool": "cluster",
            "nodes": 1,
            "workers": 2,
            "enter": {"when": "promoted", "of": [{"segment": "first", "top": 1}]},
            "exit": {"when": "iterations", "iterations": 20},
            "expected": {"seconds": 50.0, "gpu_hours": 1 / 36, "busy_gpu_hours": 1 / 36, "cost_usd": 0.05},
        },
    ],
    "semantics": {"origin": "the start"},
}


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the plan with one field changed, named by its path."""
    data = copy.deepcopy(PLAN)
    *folders, name = path.split(".")
    place: Any = data
    for folder in folders:
        place = place[int(folder) if folder.isdigit() else folder]
    place[name] = value
    return data


def test_json_round_trip() -> None:
    """Defaults are written out, empty fields left out, and reading gives the same plan."""
    plan = Plan.parse(PLAN)
    data = json.loads(json.dumps(plan.to_json_data()))
    assert data["version"] == 2
    assert "bound" not in data
    assert Plan.parse(data) == plan
    assert plan.prices["t4"] == 1.8
    assert plan.resources["t4"].price_source == "a list"


def test_totals_follow_from_the_segments() -> None:
    """100 s, then 50 s; 2 GPUs for 150 s; 10 and 5 cents."""
    totals = Plan.parse(PLAN).totals()
    assert totals == pytest.approx({"time_s": 150.0, "gpu_hours": 1 / 12, "busy_gpu_hours": 1 / 12, "cost_usd": 0.15})


def test_an_unknown_price_leaves_the_cost_unknown() -> None:
    """Nothing is counted as free."""
    data = changed("segments.0.expected", PLAN["segments"][0]["expected"] | {"cost_usd": None})
    assert "cost_usd" not in Plan.parse(data).totals()


def test_the_id_is_a_hash_of_the_content() -> None:
    """It is the same for the same content and another for any change; a file that was edited is refused."""
    plan = Plan.parse(PLAN)
    assert len(plan.plan_id) == 64
    assert Plan.parse(PLAN).plan_id == plan.plan_id
    assert Plan.parse(changed("segments.1.nodes", 2)).plan_id != plan.plan_id
    assert Plan.parse(PLAN | {"supersedes": plan.plan_id}).plan_id != plan.plan_id
    edited = plan.to_json_data() | {"objective": 0.14}
    with pytest.raises(DataError, match=r"plan_id: is .*: the plan was changed by hand; change the instance instead"):
        Plan.parse(edited)
    assert plan.replace(plan_id="", objective=0.14).objective == 0.14


def test_a_plan_keeps_its_id_when_plans_learn_new_fields() -> None:
    """The id that this plan had when version 2 began: files that were written then are still read."""
    assert Plan.parse(PLAN).plan_id == "308cdb260c346394c06573c85e18e2d4d8b22aef9019e1938e1cc522f0ca9ab7"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", 3, "version: got 3; allowed: 2"),
        ("segments.0.workers", 0, "segments.0.workers: got 0; input should be greater than or equal to 1"),
        ("segments.0.share", 1.5, "segments.0.share: got 1.5; input should be less than or equal to 1"),
        ("segments.0.unit", "trial", "segments.0.unit: got 'trial'; did you mean 'trials'"),
        ("segments.0.resource", "t5", "segments.0.resource: got 't5'; known: t4"),
        ("segments.0.last_rank", 3, "segments.0.last_rank: got ranks 1 to 3; unit 'trials' has ranks 1 to 2"),
        ("segments.1.first_rank", 2, "segments.1.last_rank: got ranks 2 to 1"),
        ("segments.1.id", "first", "segments.1.id: got 'first' twice; give each an id of its own"),
        ("segments.1.enter.of.0.segment", "frist", "segments.1.enter: got 'frist'; did you mean 'first'"),
        ("segments.1.enter.of.0.segment", "second", "segments.1.enter: got 'second'"),
        ("segments.0.exit.when", "later", "segments.0.exit"),
        ("segments.0.exit.iteration", 3, "0.exit.iteration: unknown field 'iteration'; did you mean 'iterations'"),
        ("segments.0.expected.seconds", -1.0, "segments.0.expected.seconds: got -1.0"),
        ("resources.t4.price_usd_per_hour", 0.0, "resources.t4.price_usd_per_hour: got 0.0"),
    ],
)
def test_plans_that_cannot_be_followed_are_refused(path: str, value: object, message: str) -> None:
    """An executor never meets a segment of nobody, on nothing, or one that waits for a later one."""
    with pytest.raises(DataError, match=message):
        Plan.parse(changed(path, value))


def test_segments_are_found_by_their_id() -> None:
    """A name that is nearly right is suggested."""
    plan = Plan.parse(PLAN)
    assert plan.segment("second").end_s == 50.0
    with pytest.raises(DataError, match="none is 'secnd'; did you mean 'second'"):
        plan.segment("secnd")


def test_plans_are_frozen() -> None:
    """A plan that was written down does not change."""
    with pytest.raises(ValueError, match="frozen"):
        Segment.parse(PLAN["segments"][0]).nodes = 8


def test_conditions_say_what_they_wait_for() -> None:
    """Barriers and promotions wait for segments; others for none."""
    assert list(waits_for(AllEnded(segments=("a", "b")))) == ["a", "b"]
    assert list(waits_for(Promoted.parse({"of": [{"segment": "c", "top": 2}]}))) == ["c"]
    assert list(waits_for(Plan.parse(PLAN).segments[0].enter)) == []


def test_plans_of_other_versions_are_refused(tmp_path: Path) -> None:
    """By their version, before any of their fields."""
    data = {"formulation": "boa", "instance_name": "tiny", "instance_hash": "0" * 64, "version": 1, "segments": []}
    path = tmp_path / "plan.json"
    path.write_text(format_json(data), encoding="utf-8")
    for read in (read_plan, read_record):
        with pytest.raises(
            DataError, match=r"plan\.json: version: got 1; understood: 2; use the release of optplan that wrote it"
        ):
            read(path)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("units.0.members", 10**15, "units.trials.members: got 1,000,000,000,000,000; up to 100,000 are followed"),
        ("segments.0.nodes", 100_001, "segments.first.nodes: got 100,001; up to 100,000 are followed"),
        ("segments.0.workers", 10**9, "segments.first.workers: got 1,000,000,000 GPUs; up to 100,000 are followed"),
    ],
)
def test_plans_that_nobody_could_list_are_not_followed(path: str, value: int, message: str) -> None:
    """They can be read and written, and whoever would follow them says which number is too large."""
    require_size(Plan.parse(PLAN))
    with pytest.raises(DataError, match=f"^{message}; make a smaller plan$"):
        require_size(Plan.parse(changed(path, value)))
