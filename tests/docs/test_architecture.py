"""The page on the house: what it draws and names is there, in the order in which it is drawn."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from optplan.formulations import formulations

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "assets" / "house.svg"
ROOMS = {"data", "laws", "judge", "models", "exact", "published", "study"}


def list_drawn() -> list[str]:
    """List the names in the picture, from the top down: those of the code are set in one width."""
    texts = ElementTree.parse(PICTURE).iter("{http://www.w3.org/2000/svg}text")
    return [str(text.text) for text in texts if text.get("font-family") == "monospace"]


def test_everything_that_the_page_names_is_there() -> None:
    """Every path into the package is a file or a folder, and there are enough of them to be a walk."""
    named = set(re.findall(r"`(optplan/[a-z_/.]+)`", PAGE.read_text(encoding="utf-8")))
    missing = [path for path in named if not (ROOT / path).exists()]
    assert not missing
    assert len(named) > 20


#: Prints the files of which a command calls a function.
TRACED = """
import inspect
import sys
called = set()
def look(frame, event, _):  # a call: nothing of what is within is traced
    code = frame.f_code  # of a function, and not of a module or a class; registrations have none
    if code.co_flags & inspect.CO_OPTIMIZED or code.co_filename.endswith("__init__.py"):
        called.add(code.co_filename)
sys.settrace(look)
from optplan.cli import main
code = main(sys.argv[1:])
sys.settrace(None)
print("", *called, sep="\\n")
sys.exit(code)
"""


@pytest.mark.slow
def test_one_budget_takes_eight_steps_through_what_the_page_names(tmp_path: Path) -> None:
    """The walk of a newcomer has eight steps, and its command uses every module that they name."""
    page = PAGE.read_text(encoding="utf-8")
    steps = re.findall(r"^\| (\d+) \|.*\| (`.*`) \|$", page, re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, 9))
    command = re.findall(r"^\$ optplan (.*)$", page, re.MULTILINE)[0].split()
    call = [sys.executable, "-P", "-c", TRACED, *command]
    told = subprocess.run(call, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.splitlines()
    named = re.findall(r"`(optplan/[a-z0-9_/]+\.py)`", " ".join(paths for _, paths in steps))
    assert not [path for path in named if not any(Path(line).as_posix().endswith(path) for line in told)]


#: Rooms that a formulation does without.
WITHOUT = {"throughputs": {"laws", "published"}}


def test_the_picture_has_the_storeys_that_are_kept_in_their_order() -> None:
    """Top to bottom as import-linter keeps them: the same names, each storey above those that it may import."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [
        re.findall(r"\w+", layer) for contract in contracts if "exhaustive" in contract for layer in contract["layers"]
    ]
    level = {name: number for number, layer in enumerate(layers) for name in layer}
    drawn = [name for name in list_drawn() if name not in ROOMS and name not in formulations()]
    assert sorted(drawn) == sorted(level)
    neighbours = {
        level["schema"]: level["quantities"],
        level["complaints"]: level["quantities"],
    }  # one row in the picture
    rows = [neighbours.get(level[name], level[name]) for name in drawn]
    assert rows == sorted(rows)


def test_the_picture_has_every_formulation_and_its_rooms() -> None:
    """Every formulation has rooms that are drawn, folders or single files, and beside them its registration and plans.

    Without a paper nothing is published, and where nothing is shared or stated for an engine, there is no room for it.
    """
    drawn = set(list_drawn())
    assert {*formulations(), *ROOMS} <= drawn
    for name in formulations():
        folder = ROOT / "optplan" / "formulations" / name
        found = {path.stem for path in folder.iterdir() if path.name != "__pycache__"}
        assert found == ROOMS - WITHOUT.get(name, set()) | {"__init__", "planning"}
