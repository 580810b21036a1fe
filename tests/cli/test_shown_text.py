"""Names from the user's files: shown on the terminal and in pages, never obeyed by them."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.errors import one_line, show_text
from optplan.instances.library import build_named

if TYPE_CHECKING:
    from tests.conftest import Runner

#: Clears the screen, rings, ends a C string, starts a line, turns the direction of writing, and ends a link.
EVIL = "\x1b[2J\x07\x00\r\nexample\u202e\u2066\u200b\x9b1m\u2028[red]"
SHOWN = r"\x1b[2J\x07\x00\r\nexample\u202e\u2066\u200b\x9b1m\u2028[red]"

#: One class on two types of GPU: a table, and a law.
TWO_TYPES = {
    "name": "mine",
    "source": {"trace": "made up"},
    "formulation": "boa",
    "classes": {
        "job": {
            "arrival_rate_per_hour": 1.0,
            "epoch_size_gpu_hours": [1.0, 2.0],
            "speedup": {
                "t4": {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]},
                "v100": {"form": "amdahl", "serial_fraction": 0.1},
            },
            "rescale_s": 60,
            "widths": {"max": 4},
        }
    },
    "gpu_types": {"t4": {"price_usd_per_hour": 0.5, "price_source": "a list"}, "v100": {"price_usd_per_hour": 2.0}},
    "budget": "4usd/hour",
}

#: A small instance of each formulation.
NAMED = {
    "boa": "",
    "rubberband": "rubberband-resnet101-20min",
    "seer": "seer-paper-example",
    "srift": "srift-interruption",
}
_TEXTS = {"name", "description", "network", "source", "instance_type", "region", "price_source", "gpu"}
_NAMED = {"classes", "gpu_types", "types", "devices", "source"}


def spoil(data: Any, rename: bool = False) -> Any:  # noqa: ANN401 - plain data
    """Return an instance's data with every name and free text made evil."""
    if not isinstance(data, dict):
        return data
    spoilt = {}
    for name, value in data.items():
        if isinstance(value, str) and (name in _TEXTS or rename):
            new: Any = value + EVIL
        elif name == "speedup" and isinstance(value, dict) and "form" not in value:
            new = spoil(value, rename=True)
        else:
            new = spoil(value, rename=name in _NAMED)
        spoilt[name + EVIL if rename else name] = new
    return spoilt


def obeyed(text: str) -> list[str]:
    """List the characters of a text that a terminal obeys, but for the ends of lines."""
    return [each for each in text if each != "\n" and unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp")]


@pytest.fixture(params=list(NAMED))
def evil(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Write an instance full of evil names."""
    path = tmp_path / f"{request.param}.json"
    name = NAMED[request.param]
    path.write_text(json.dumps(spoil(build_named(name).to_json_data() if name else TWO_TYPES)))
    return path


def test_only_what_is_obeyed_is_escaped() -> None:
    """Letters of any script, symbols and wide spaces stay as they are."""
    assert show_text(EVIL) == SHOWN
    assert show_text("Größe 数 \N{NARROW NO-BREAK SPACE}µs 😀 ─") == "Größe 数 \N{NARROW NO-BREAK SPACE}µs 😀 ─"
    assert show_text("\ud800") == r"\ud800"


def test_a_message_is_one_line_of_bounded_length() -> None:
    """What to do stands at its end, and stays."""
    assert one_line("a\nb") == "a b"
    message = one_line("x" * 10**6 + "; correct it")
    assert len(message) == 2000
    assert message.endswith("x; correct it")


@pytest.mark.parametrize(
    "command",
    [
        ("show",),
        ("solve",),
        ("solve", "--time-limit", "1e-9s"),
        ("solve", "--budget", "1e-9usd"),
        ("solve", "--set", "nothing=1"),
        ("verify", "result.json"),
        ("frontier",),
        ("compare", "result.json"),
        ("explain", "result.json"),
        ("explain", "result.json", "--wrong", "speedup=10%", "--samples", "3"),
    ],
    ids=" ".join,
)
def test_nothing_of_a_name_is_obeyed(command: tuple[str, ...], evil: Path, run: Runner, tmp_path: Path) -> None:
    """Whatever a command prints, answers and errors, has no character in it that a terminal obeys."""
    name, *options = command
    result = tmp_path / "result.json"
    if "result.json" in options:
        run("solve", evil, "-o", result)
    arguments = [result if option == "result.json" else option for option in options]
    told = run("explain", *arguments, "--instance", evil) if name == "explain" else run(name, evil, *arguments)
    assert told.code != 70
    assert not obeyed(told.out + told.err)
    if name == "show":
        assert SHOWN in told.out.replace("\n", "") or re.search(r"\\x1b\[2J", told.out)


def test_pages_show_names_as_the_terminal_does(evil: Path, run: Runner, tmp_path: Path) -> None:
    """Outside its JSON, the report has no such character either."""
    told = run("solve", evil, "--report", tmp_path / "r.html")
    assert told.code in (0, 3), told.err
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    text = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    assert not obeyed(text.replace("\t", ""))
    assert r"\u202e" in text


def test_errors_of_files_and_options_are_one_line(
    run: Runner, write_instance: Callable[..., Path], tmp_path: Path
) -> None:
    """A field, a value, a path, an option and a solver with evil names; with --json they are escaped by JSON."""
    typed = EVIL.replace("\0", "")  # no argument of a process has one
    (tmp_path / "x.yaml").write_text('formulation: "\\e[2J"\n"a\\nb": 1\n')
    long = write_instance(**{"x" * 100_000: 1})
    for arguments in (
        ("show", write_instance(**{EVIL: 1})),
        ("show", write_instance(problem=EVIL)),
        ("show", long),
        ("show", tmp_path / "x.yaml"),
        ("show", typed),
        ("show", "boa-one-table", typed),
        ("show", "boa-one-table", f"--{typed}"),
        ("solve", "boa-one-table", "--solver", typed),
        ("solve", "boa-one-table", "--set", typed),
        ("solve", "boa-one-table", "--budget", typed),
        ("solve", "boa-one-table", "-o", tmp_path / typed / "x.json"),
    ):
        told = run(*arguments)
        assert told.code in (1, 2)
        assert not obeyed(told.err)
        assert max(map(len, told.err.splitlines())) < 2100
        assert [line for line in told.err.splitlines() if not line.startswith("Try ")] == [told.err.splitlines()[0]]
        as_json = run(*arguments, "--json")
        assert "\x1b" not in as_json.err
        assert as_json.error["message"]
