"""What all commands share: -h, --quiet, options under headings, standard input, and checks that can be typed in."""

from __future__ import annotations

import html
import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from optplan.cli import application
from optplan.cli.console import Progress, note
from optplan.errors import UnsupportedError
from optplan.formulations import formulations
from optplan.instances.library import build_named

if TYPE_CHECKING:
    from optplan.contracts.registry import Formulation
    from tests.conftest import Runner

YAML = """
formulation: boa
name: piped
budget: 2gpu
problem: whole
gpu_types: {v100: {}}
classes:
  job:
    arrival_rate_per_hour: 1
    epoch_size_gpu_hours: [1]
    speedup:
      v100: {form: table, gpus: [1, 2], speedup: [1, 1.6]}
"""


def pipe(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let standard input hold a text."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.parametrize("command", ["solve", "list", "import", "import trace", ""])
def test_help_has_a_short_form(run: Runner, command: str) -> None:
    """-h says what --help says."""
    told = run(*command.split(), "-h")
    assert told.code == 0
    assert told.out == run(*command.split(), "--help").out
    assert "-h, --help" in told.out


def test_shared_options_stand_under_headings(run: Runner) -> None:
    """A command's own options come first, then those that change the instance, write and print, and are everywhere."""
    told = run("solve", "--help").out
    places = [told.index(f"{words}") for words in ("Options:", "Change the instance:", "Write and print:", "Common")]
    assert places == sorted(places)
    own, changes, writes, common = (told[a:b] for a, b in zip(places, [*places[1:], len(told)], strict=True))
    assert "--gap" in own
    assert "\n  INSTANCE" not in told  # which stands in the first line
    assert "\n  [JOBS]" not in run("run", "--help").out
    assert "--set" in changes
    assert "--report" in writes
    assert "--json" in writes
    assert "--quiet" in common
    assert "--help" in common
    assert "Change the instance:" not in run("list", "--help").out
    assert "Change the instance:" not in run("run", "--help").out  # its --budget is a limit of the run


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("explain", ["--deadline"]),
    ],
)
def test_options_stand_only_where_they_do_something(command: str, missing: list[str]) -> None:
    """Classes of jobs have no deadline."""
    found = application.get_command(click.Context(application), command)
    assert found is not None
    options = {option for param in found.params for option in param.opts}
    assert not options & set(missing)
    assert "--set" in options


def has_part(formulation: Formulation, part: str) -> bool:
    """Whether a formulation has a part."""
    try:
        return getattr(formulation, part) is not None
    except UnsupportedError:
        return False


@pytest.mark.parametrize("part", ["explain", "analyse_sensitivity"])
def test_help_says_which_formulations_are_explained(run: Runner, part: str) -> None:
    """As the registry has it."""
    served = [name for name, one in formulations().items() if has_part(one, part)]
    assert f"of formulation {', '.join(served)} " in " ".join(run("explain", "--help").out.split())


def test_quiet_leaves_warnings_and_errors(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No names of files, no progress; what went wrong is still told."""
    told = run("solve", "boa-one-table", "-q", "-o", tmp_path / "r.json")
    assert (told.code, told.err) == (0, "")
    assert told.out
    assert "exists; give another path" in run("solve", "boa-one-table", "--quiet", "-o", tmp_path / "r.json").err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with click.Context(application) as ctx:
        ctx.meta["optplan.quiet"] = True
        note("unheard")
        with Progress("unseen") as progress:
            assert not progress._timer.is_alive()  # whether anything will be drawn


@pytest.mark.parametrize("text", [YAML, json.dumps(build_named("boa-two-classes").to_json_data())])
@pytest.mark.parametrize(
    "command", ["solve -", "show -", "frontier -", "compare - boa-one-table", "solve - --set budget=9gpu"]
)
def test_instances_are_read_from_standard_input(
    run: Runner, monkeypatch: pytest.MonkeyPatch, command: str, text: str
) -> None:
    """YAML and JSON, wherever an INSTANCE is taken."""
    pipe(monkeypatch, text)
    told = run(*command.split())
    assert (told.code, told.err) == (0, "")


def test_results_are_verified_from_a_pipe(run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The instance from standard input, the result from its file."""
    path = tmp_path / "result.json"
    pipe(monkeypatch, YAML)
    assert run("solve", "-", "-o", path).code == 0
    pipe(monkeypatch, YAML)
    assert run("verify", "-", path).code == 0
    pipe(monkeypatch, YAML)
    assert run("explain", path, "--instance", "-").code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "standard input is empty; pipe an instance into it"), ("{", "is not JSON"), ("a: [", "is not YAML")],
)
def test_what_is_wrong_with_standard_input_is_told(
    run: Runner, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    """As for a file."""
    pipe(monkeypatch, text)
    told = run("solve", "-")
    assert told.code == 1
    assert message in told.err


@pytest.mark.parametrize(
    "command",
    [
        "solve boa-two-classes --budget 9gpu --compare fixed-width --report=page.html --plan plan.json",
        "solve boa-two-classes --report page.html -o mine.json --solver highs",
        "solve boa-one-table --set budget=2gpu --explain --report page.html --json -q",
        "solve rubberband-two-stages --report page.html",
        "solve seer-paper-example --report page.html",
        "solve srift-case3 --report page.html",
        "explain given.json --wrong speedup=10% --samples 5 --report page.html",
        "solve srift-case3 --state state.yaml --report page.html",
    ],
)
def test_reports_say_how_to_check_them(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The command of the page, typed in as it stands, writes the result where there is none, and verifies it."""
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    monkeypatch.chdir(tmp_path)
    run("solve", "boa-two-classes", "--budget", "9gpu", "-o", "given.json")
    state = "{elapsed_s: 10min, iterations_done: 100, running: {g3.8xlarge: 1}}"
    Path("state.yaml").write_text(state, encoding="utf-8")
    assert run(*command.split()).code in (0, 3)
    page = Path("page.html").read_text(encoding="utf-8")
    said = html.unescape(re.findall(r"<pre><code>(.*)</code></pre>", page)[0])
    for part in said.split(" && "):
        program, *arguments = shlex.split(part)
        assert program == "optplan"
        told = run(*arguments)
        assert told.code in (0, 3, 6), (part, told.err)  # 6: an engine's word is on trust
    assert "checks hold" in told.out


def test_the_check_of_a_report_works_in_every_folder(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files may be named as they are seen from where the page is made, and have blanks in their names."""
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    monkeypatch.chdir(tmp_path)
    Path("my job.yaml").write_text(YAML, encoding="utf-8")
    for files, text in ((("my job.yaml",), ""), (("-",), YAML)):
        pipe(monkeypatch, text)
        assert run("solve", *files, "-o", "my result.json", "--report", "page.html", "--force").code == 0
        page = Path("page.html").read_text(encoding="utf-8")
        check, _, piped = html.unescape(re.findall(r"<pre><code>(.*)</code></pre>", page)[0]).partition(" < ")
        assert piped == ("instance.json" if text else "")
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        monkeypatch.chdir("elsewhere")
        pipe(monkeypatch, text)
        assert run(*shlex.split(check)[1:]).code == 0
        monkeypatch.chdir(tmp_path)
