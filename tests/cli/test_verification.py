"""``optplan verify``: what holds, what does not, what nobody can check."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.instances.files import read_instance

if TYPE_CHECKING:
    from tests.cli.conftest import Runner


@pytest.fixture
def solved(run: Runner, tmp_path: Path) -> Callable[..., Path]:
    """Solve boa-one-table and return the path of the result, with some fields changed afterwards."""

    def make(*options: str, **changes: Any) -> Path:  # noqa: ANN401 - fields of any type
        path = tmp_path / "result.json"
        assert run("solve", "boa-one-table", "-o", path, "--force", *options).code == 0
        data = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**data, **changes}), encoding="utf-8")
        return path

    return make


def test_a_result_that_holds(run: Runner, solved: Callable[..., Path]) -> None:
    """Every check is listed, and the verdict ends the answer."""
    told = run("verify", "boa-one-table", solved())
    assert (told.code, told.err) == (0, "")
    assert "budget" in told.out
    assert "hold" in told.out.splitlines()[-1]


def test_json_has_the_verdict_and_every_check(run: Runner, solved: Callable[..., Path]) -> None:
    """--json has a flag for the whole and every check for itself."""
    told = run("verify", "boa-one-table", solved(), "--json")
    assert told.code == 0
    assert told.data["ok"] is True
    assert {"budget", "objective", "allowed-width"} <= {check["family"] for check in told.data["checks"]}


def test_a_changed_figure_exits_with_5(run: Runner, solved: Callable[..., Path]) -> None:
    """An objective that the decisions do not have is found, with text and with JSON."""
    path = solved(objective=2249.0)
    told = run("verify", "boa-one-table", path)
    assert told.code == 5
    assert "fail" in told.out.splitlines()[-1]
    as_json = run("verify", "boa-one-table", path, "--json")
    assert as_json.code == 5
    assert as_json.data["ok"] is False
    assert as_json.data["checks"][0]["holds"] is False


def test_what_is_taken_on_trust_is_said(run: Runner, solved: Callable[..., Path]) -> None:
    """An engine's bound cannot be derived again: the answer and the exit code say so, unless it is trusted."""
    path = solved("--solver", "highs")
    told = run("verify", "boa-one-table", path)
    assert told.code == 6
    assert "taken on trust: bound: rests on a general engine's word, which has no certificate" in told.out
    assert re.search(r"all \d+ checks hold, but not all that is claimed could be checked", told.out)
    assert run("verify", "boa-one-table", path, "--trust").code == 0
    as_json = run("verify", "boa-one-table", path, "--json")
    assert as_json.code == 6
    assert (as_json.data["ok"], as_json.data["nothing_wrong"]) == (False, True)
    assert any("engine" in claim for claim in as_json.data["on_trust"])


def test_a_certificate_that_takes_too_long_is_taken_on_trust(run: Runner, solved: Callable[..., Path]) -> None:
    """Within no time nothing is enumerated; what else there is holds."""
    told = run("verify", "boa-one-table", solved(), "--time-limit", "1e-9s")
    assert told.code in (0, 6)


def test_the_instance_must_be_the_one_solved(run: Runner, solved: Callable[..., Path]) -> None:
    """Another budget is another instance; the result says how it was changed, and the same option changes it, too."""
    path = solved("--budget", "1.5gpu", changes=[])
    told = run("verify", "boa-one-table", path)
    assert (told.code, told.out) == (2, "")
    assert "give the instance it was made for" in told.err
    assert run("verify", "boa-one-table", path, "--budget", "1.5gpu").code == 0
    for other in (["budget=1.6gpu"], ["budget=1.5gpu", "nothing=1"], ["budget"], ["budget=-1gpu"], ["\x1b=1"]):
        told = run("verify", "boa-one-table", solved("--budget", "1.5gpu", changes=other))
        assert (told.code, told.out) == (2, "")
        assert "give the instance it was made for" in told.err


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        (("--budget", "1.5gpu"), ["budget=1.5gpu"]),
        (("--set", "budget*=1.25"), ["budget*=1.25"]),
        (("--policy", "mixed", "--problem", "whole"), ["policy=mixed"]),
        (("--set", "classes.*.weight=2", "--budget", "1.25gpu"), ["classes.*.weight=2"]),
        (("--problem", "rescaling", "--set", "classes.*.weight=2"), ["classes.*.weight=2", "problem=rescaling"]),
    ],
)
def test_a_result_carries_what_was_changed(
    run: Runner, solved: Callable[..., Path], options: tuple[str, ...], changes: list[str]
) -> None:
    """Each as --set takes it, what changed nothing left out: verify makes the changes again, and says so."""
    path = solved(*options)
    assert json.loads(path.read_text())["changes"] == changes
    told = run("verify", "boa-one-table", path)
    assert told.code == 0
    assert told.err == f"changed boa-one-table as for the result: {', '.join(changes)}\n"
    again = run("verify", "boa-one-table", path, *options)
    assert (again.code, again.err) == (0, "")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rubberband-two-stages", ("--problem", "fastest", "--budget", "1usd")),
        ("rubberband-two-stages", ("--policy", "fair", "--deadline", "5min")),
        ("seer-paper-example", ("--budget", "60gpu-min", "--deadline", "0.25h")),
        ("srift-case1", ("--problem", "fastest", "--budget", "30usd")),
        ("boa-two-classes", ("--set", 'name="a: b"', "--set", "description=x; y", "--budget", "1e1gpu")),
    ],
)
def test_options_and_set_give_the_same_hash(run: Runner, tmp_path: Path, name: str, options: tuple[str, ...]) -> None:
    """The options, the changes that the result carries, and a file that says the same have one hash."""
    path = tmp_path / "result.json"
    assert run("solve", name, *options, "-o", path).code in (0, 3)
    result = json.loads(path.read_text())
    by_set = [part for change in result["changes"] for part in ("--set", change)]
    for arguments in (options, by_set):
        told = run("show", name, *arguments, "--json")
        (tmp_path / "mine.json").write_text(told.out)
        assert read_instance(tmp_path / "mine.json").content_hash() == result["instance_hash"]
    assert run("verify", name, path).code in (0, 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "result.json:1: is not JSON"),
        ("{}", "result.json: formulation: is missing; a result names one of: boa"),
        ('{"formulation": "boa"}', "is missing; add it"),
    ],
)
def test_files_that_are_no_results(run: Runner, tmp_path: Path, text: str, message: str) -> None:
    """A broken result is the data's fault."""
    path = tmp_path / "result.json"
    path.write_text(text, encoding="utf-8")
    told = run("verify", "boa-one-table", path)
    assert (told.code, told.out) == (1, "")
    assert message in told.err


def test_missing_files(run: Runner, tmp_path: Path) -> None:
    """Neither a result nor an instance is made up."""
    told = run("verify", "boa-one-table", tmp_path / "nothing.json")
    assert told.code == 1
    assert "nothing.json: no such file" in told.err
    told = run("verify", "boa-on-table", tmp_path / "nothing.json")
    assert told.code == 1
    assert "did you mean 'boa-one-table'?" in told.err
