"""``optplan compare``: which files it takes, what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Runner

InstanceWriter = Callable[..., Path]

#: The pure plans of the textbook instance of one table: 1.25 GPUs buy 2,250 s, 2 GPUs buy 1,800 s.
BUDGETS = ("1.25gpu", "2gpu")


@pytest.fixture
def answers(run: Runner, tmp_path: Path) -> dict[str, Path]:
    """Write results and plans of the textbook instance at two budgets."""
    paths: dict[str, Path] = {}
    for number, budget in enumerate(BUDGETS):
        result, plan = tmp_path / f"result-{number}.json", tmp_path / f"plan-{number}.json"
        assert run("solve", "boa-one-table", "--budget", budget, "-o", result, "--plan", plan).code == 0
        paths |= {f"result-{number}": result, f"plan-{number}": plan}
    return paths


def test_two_results_for_people(run: Runner, answers: dict[str, Path]) -> None:
    """What is compared, a note that the instances differ, one table, how much differs; exit code 0."""
    told = run("compare", answers["result-0"], answers["result-1"])
    assert (told.code, told.err) == (0, "")
    lines = [" ".join(line.split()) for line in told.out.splitlines()]
    assert lines[0] == f"A {answers['result-0']}, a result for 'boa-one-table' by layered-paths"
    assert any(line.startswith("note: ") and "'boa-one-table'" in line for line in lines)
    # 2,250 s less 1,800 s is 7 min 30 s, a fifth; width 2 becomes 4; GPU-hours 1.25 become 2.
    assert "mean completion time 37 min 30 s 30 min 00 s -7 min 30 s -20" in lines
    assert "GPUs on average 1.25 2 +0.75 +60" in lines
    assert "GPUs by epoch 2 4" in lines
    assert lines[-1].endswith("equal ones too.")


def test_equal_rows_are_left_out_unless_asked_for(run: Runner, answers: dict[str, Path]) -> None:
    """--all shows equal figures as such, and drops the hint."""
    told = run("compare", answers["result-0"], answers["result-1"])
    assert "solver" not in told.out
    full = run("compare", answers["result-0"], answers["result-1"], "--all")
    lines = [" ".join(line.split()) for line in full.out.splitlines()]
    assert "solver layered-paths layered-paths same" in lines
    assert lines[-1].endswith("figures differ.")


def test_nothing_differs(run: Runner, answers: dict[str, Path]) -> None:
    """A file is equal to itself, and its plan says what it says."""
    told = run("compare", answers["result-0"], answers["result-0"])
    assert told.code == 0
    assert told.out.splitlines()[-1].startswith("Nothing differs: all ")
    told = run("compare", answers["result-0"], answers["plan-0"])
    assert "note: of a result and a plan" in told.out
    assert told.out.splitlines()[-1].startswith("Nothing differs: all ")


def test_json_has_numbers_and_units(run: Runner, answers: dict[str, Path]) -> None:
    """--json prints what is compared, the notes, and the rows as numbers with their unit."""
    told = run("compare", answers["plan-0"], answers["plan-1"], "--json")
    assert (told.code, told.err) == (0, "")
    assert (told.data["a"]["kind"], told.data["b"]["instance_name"]) == ("plan", "boa-one-table")
    (row,) = (row for row in told.data["rows"] if row["path"] == "mean_jct_s")
    assert row == {
        "of": "answer",
        "what": "mean completion time",
        "path": "mean_jct_s",
        "unit": "s",
        "a": pytest.approx(2250.0),
        "b": pytest.approx(1800.0),
        "change": pytest.approx(-450.0),
        "relative_change": pytest.approx(-0.2),
    }
    every = run("compare", answers["plan-0"], answers["plan-1"], "--json", "--all").data
    assert len(every["rows"]) == len(told.data["rows"]) + told.data["num_equal"]


def test_rows_are_written(run: Runner, answers: dict[str, Path], tmp_path: Path) -> None:
    """-o writes what --json prints, or a table of the same rows; files that exist are not replaced."""
    pair = (answers["result-0"], answers["result-1"])
    data = run("compare", *pair, "--json").data
    as_json, as_csv = tmp_path / "changes.json", tmp_path / "changes.csv"
    assert run("compare", *pair, "-o", as_json).err == f"wrote {as_json}\n"
    assert run("compare", *pair, "-o", as_csv).code == 0
    assert json.loads(as_json.read_text(encoding="utf-8")) == data
    with as_csv.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == [row["path"] for row in data["rows"]]
    assert float(rows[0]["change"]) == data["rows"][0]["change"]
    assert "exists; give another path, or --force" in run("compare", *pair, "-o", as_csv).err


def test_instances_are_compared_and_solved_when_asked(run: Runner, write_instance: InstanceWriter) -> None:
    """Of two instances the data is compared; with --solve their results, too, in the same table."""
    mine = write_instance(budget="2gpu", gpu_types={"v100": {"price_usd_per_hour": 3.0}})
    plain = run("compare", "boa-one-table", mine, "--json").data
    assert {row["path"] for row in plain["rows"]} >= {"budget", "gpu_types.v100.price_usd_per_hour"}
    assert "mean_jct_s" not in {row["path"] for row in plain["rows"]}
    solved = run("compare", "boa-one-table", mine, "--solve", "--time-limit", "60s", "--json").data
    values = {row["path"]: (row["a"], row["b"]) for row in solved["rows"]}
    assert values["mean_jct_s"] == pytest.approx((2250.0, 1800.0))
    assert solved["a"]["kind"] == "solved instance"


def test_changes_apply_to_both_instances(run: Runner, write_instance: InstanceWriter) -> None:
    """--set and --budget change both, so that what they change no longer differs."""
    mine = write_instance(budget="2gpu")
    told = run("compare", "boa-one-table", mine, "--budget", "3gpu", "--json")
    assert "budget" not in {row["path"] for row in told.data["rows"]}
    told = run("compare", "boa-one-table", mine, "--set", "classes.other.weight=2")
    assert told.code == 2
    assert "boa-one-table: --set 'classes.other.weight=2': classes has no 'other'" in told.err


def test_an_instance_beside_a_result(run: Runner, answers: dict[str, Path]) -> None:
    """They have nothing in common, unless the instance is solved."""
    told = run("compare", "boa-one-table", answers["result-1"])
    assert told.code == 2
    assert "boa-one-table (instance) and" in told.err
    assert "have nothing in common to compare; give two of a kind, or solve the instance too" in told.err
    solved = run("compare", "boa-one-table", answers["result-1"], "--solve", "--json")
    assert solved.code == 0
    assert "mean_jct_s" in {row["path"] for row in solved.data["rows"]}


def test_options_that_do_nothing_are_refused(run: Runner, answers: dict[str, Path]) -> None:
    """Options for instances are refused where there is none, and a time limit where nothing is solved."""
    pair = (answers["result-0"], answers["plan-0"])
    for options in (("--solve",), ("--budget", "3gpu"), ("--set", "budget=3gpu")):
        told = run("compare", *pair, *options)
        assert told.code == 2
        assert f"{options[0]}: neither {pair[0]} nor {pair[1]} is an instance; leave it out" in told.err
    told = run("compare", "boa-one-table", "boa-one-table", "--time-limit", "5s")
    assert told.code == 2
    assert "--time-limit: nothing is solved; give --solve too, or leave it out" in told.err


def test_files_that_are_none_of_the_three(run: Runner, tmp_path: Path) -> None:
    """Names, missing files and other content are named as such."""
    other = tmp_path / "other.json"
    other.write_text('{"formulation": "boa", "version": 2, "instance_hash": "x", "segments": []}', encoding="utf-8")
    assert "no instance named 'nowhere' in the library" in run("compare", "nowhere", other).err
    assert "no such file" in run("compare", tmp_path / "missing.json", other).err
    told = run("compare", other, other)
    assert told.code == 1
    assert "other.json: instance_name: is missing" in told.err
    other.write_text("[]", encoding="utf-8")
    assert "holds a list, not an instance, a result or a plan" in run("compare", other, other).err


def test_infeasible_is_no_failure(run: Runner) -> None:
    """A budget that one of the two cannot keep gives exit code 0 and the reason."""
    told = run("compare", "boa-two-classes", "boa-one-table", "--solve", "--budget", "2gpu")
    assert told.code == 0
    assert "note: A has no plan: the least budget" in told.out
    assert "nearest budget that works, gpu" in told.out
