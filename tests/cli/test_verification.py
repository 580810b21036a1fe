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
    from tests.conftest import Runner


CASES = Path(__file__).parents[1] / "cases"


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
    """The verdict is the first line, every check is listed, and how many hold is the last."""
    told = run("verify", "boa-one-table", solved())
    assert (told.code, told.err) == (0, "")
    assert told.out.splitlines()[0] == "boa-one-table: proven optimal, gap 0 %"
    assert "budget" in told.out
    assert "hold" in told.out.splitlines()[-1]


def test_json_has_the_verdict_and_every_check(run: Runner, solved: Callable[..., Path]) -> None:
    """--json begins with what the result is, has a flag for the whole, and every check for itself."""
    told = run("verify", "boa-one-table", solved(), "--json")
    assert told.code == 0
    assert list(told.data)[:5] == ["status", "gap", "proven", "changes", "on_trust"]
    assert [told.data[key] for key in ("status", "gap", "proven", "changes", "on_trust")] == [
        "optimal",
        0.0,
        True,
        [],
        [],
    ]
    assert told.data["ok"] is True
    assert {"budget", "objective", "allowed-width"} <= {check["family"] for check in told.data["checks"]}


def test_a_changed_figure_exits_with_5(run: Runner, solved: Callable[..., Path]) -> None:
    """An objective that the decisions do not have is found, with text and with JSON."""
    path = solved(objective=2249.0)
    told = run("verify", "boa-one-table", path)
    assert told.code == 5
    assert told.out.splitlines()[0] == "boa-one-table: refused, objective does not hold"
    assert "fail" in told.out.splitlines()[-1]
    as_json = run("verify", "boa-one-table", path, "--json")
    assert as_json.code == 5
    assert [as_json.data[key] for key in ("status", "proven", "ok")] == [None, False, False]
    assert as_json.data["checks"][0]["holds"] is False


def test_what_is_taken_on_trust_is_said(run: Runner, solved: Callable[..., Path]) -> None:
    """An engine's bound cannot be derived again: the answer and the exit code say so, unless it is trusted."""
    path = solved("--solver", "highs")
    told = run("verify", "boa-one-table", path)
    assert told.code == 6
    trusted = "taken on trust: bound: rests on a general engine's word, which has no certificate"
    assert told.out.splitlines()[0] == f"boa-one-table: said to be optimal, gap 0 %; {trusted}"
    assert trusted in told.out.splitlines()[1:]
    assert re.search(r"all \d+ checks hold, but", told.out)
    assert run("verify", "boa-one-table", path, "--trust").code == 0
    as_json = run("verify", "boa-one-table", path, "--json")
    assert as_json.code == 6
    assert [as_json.data[key] for key in ("ok", "nothing_wrong", "proven")] == [False, True, False]
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
    """Each as --set takes it, what changed nothing left out: verify makes the changes again, and says so first."""
    path = solved(*options)
    assert json.loads(path.read_text())["changes"] == changes
    told = run("verify", "boa-one-table", path)
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith(f"boa-one-table, changed as the result says ({', '.join(changes)}): ")
    assert run("verify", "boa-one-table", path, "--json").data["changes"] == changes
    refused = run("verify", "boa-one-table", path, "--as-given")
    assert (refused.code, refused.out) == (2, "")
    assert f"with changes ({'; '.join(changes)}), and not for the instance as given" in refused.err
    again = run("verify", "boa-one-table", path, *options, "--as-given")
    assert (again.code, again.err) == (0, "")
    assert again.out.startswith("boa-one-table: ")


def test_who_verifies_decides_what_is_optimal(run: Runner) -> None:
    """A plan of 7,380 s, where 2,816.5 s is the optimum, is 62 % from its bound, whatever gap its result asks for."""
    path = CASES / "gap-target-of-99-percent.json"
    told = run("verify", "boa-two-classes", path)
    assert (told.code, told.out.splitlines()[0]) == (0, "boa-two-classes: a plan within 62 % of the bound, not optimal")
    as_json = run("verify", "boa-two-classes", path, "--json").data
    assert (as_json["status"], as_json["gap"]) == ("feasible", pytest.approx(1.0 - 2816.5384615 / 7380.0))
    told = run("verify", "boa-two-classes", path, "--gap", "0.7")
    assert told.out.startswith("boa-two-classes: a plan within 62 % of the bound, proven optimal within 0.7 as asked\n")
    assert run("verify", "boa-two-classes", path, "--gap", "70%", "--json").data["status"] == "optimal"
    told = run("verify", "boa-two-classes", path, "--gap", "1")
    assert (told.code, told.out) == (2, "")
    assert "--gap: got '1'" in told.err


def test_a_result_of_a_changed_instance_says_so_first(run: Runner) -> None:
    """Rates of a twentieth and another budget: optimal for that, and not for the instance as given."""
    path = CASES / "changed-rates-and-budget.json"
    changes = ["classes.*.arrival_rate_per_hour*=0.05", "budget=300gpu"]
    told = run("verify", "boa-two-classes", path)
    first = f"boa-two-classes, changed as the result says ({', '.join(changes)}): proven optimal, gap 0 %"
    assert (told.code, told.out.splitlines()[0]) == (0, first)
    assert run("verify", "boa-two-classes", path, "--json").data["changes"] == changes
    assert run("verify", "boa-two-classes", path, "--as-given").code == 2


def test_a_coarse_gap_is_not_called_optimal(run: Runner, tmp_path: Path) -> None:
    """What --gap 0.5 leaves is within so much of the bound: on the terminal, in JSON and in the report."""
    path, page = tmp_path / "result.json", tmp_path / "report.html"
    asked = ("solve", "boa-two-classes", "--solver", "layered-paths", "--budget", "8.2gpu", "--gap", "0.5")
    told = run(*asked, "-o", path, "--report", page)
    found = json.loads(path.read_text())
    assert (told.code, found["status"], found["termination"]) == (0, "feasible", "completed")
    assert 1e-4 < 1.0 - found["bound"] / found["objective"] < 0.5
    within = re.search(r"within [\d.]+ % of the bound", told.out)
    assert within
    assert within[0] in page.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "optimal" not in told.out
    assert run("verify", "boa-two-classes", path).out.splitlines()[0].endswith(f"a plan {within[0]}, not optimal")


def test_help_explains_exit_code_6(run: Runner) -> None:
    """Both in the list of all exit codes and where it comes from."""
    assert "6 (verify)" in " ".join(run("--help").out.split())
    assert "with 6 when" in " ".join(run("verify", "--help").out.split())


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


def test_a_large_certificate_ends_in_a_verdict(run: Runner, solved: Callable[..., Path]) -> None:
    """6,000 divisions are judged in a process of their own, which ends at the limit, and not in 70."""
    content = {"weights": [[1.0, 1.0]], "tree": [2, 0, 0, 0, 3] * 6_000 + [0, 0] * 6_001}
    path = solved(certificates=[{"form": "tree", "rule": "boa-runs", "bound": 1e-3, "content": content}])
    assert path.stat().st_size > 50_000
    told = run("verify", "boa-one-table", path, "--time-limit", "10ms")
    assert told.code == 5  # the bound rests on another kind of certificate, which is not there
    assert "taken on trust: certificate tree[1]: not checked within 0.01 s of processor time" in told.out


def test_what_fails_over_and_over_is_counted(run: Runner, solved: Callable[..., Path]) -> None:
    """5,000 figures that nobody knows: the first hundred are shown, a thousand are in --json, the rest are a number."""
    measures = {f"m{number}": 1.0 for number in range(5_000)}
    path = solved(measures=measures)
    told = run("verify", "boa-one-table", path)
    assert told.code == 5
    assert len(told.out.splitlines()) < 200
    assert re.search(r"FAILS +\d{3} more +--json lists up to a thousand", told.out)
    failed = [check for check in run("verify", "boa-one-table", path, "--json").data["checks"] if not check["holds"]]
    assert len(failed) == 1_001
    assert any(re.fullmatch(r"4,\d{3} further claims do not hold", check["message"]) for check in failed)
