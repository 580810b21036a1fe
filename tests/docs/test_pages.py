"""The pages: what they show is what happens, and nothing that is registered is missing from them."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from optplan.formulations import formulations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = ("README.md", *sorted(f"docs/{page.name}" for page in DOCS.glob("*.md")))


@pytest.fixture(scope="module")
def examples() -> Iterator[ModuleType]:
    """Return the module that runs pages; it is a script beside the hooks of the site."""
    spec = importlib.util.spec_from_file_location("run_examples", DOCS / "_hooks" / "run_examples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def data(request: pytest.FixtureRequest) -> Path | None:
    """Return the folder of public data, or None where it is missing: then the blocks that read it are passed over."""
    try:
        folder: Path = request.getfixturevalue("data_pack")
    except pytest.skip.Exception:
        return None
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_page_shows_what_its_commands_and_its_python_print(
    name: str, examples: ModuleType, tmp_path: Path, data: Path | None
) -> None:
    """Every command and Python block of a page runs, and prints what the page shows.

    After a change that is meant, ``python docs/_hooks/run_examples.py --write`` renews the pages.
    """
    printed, _ = examples.run_page(ROOT / name, tmp_path, data)
    wrong = [f"{each.command}\nprinted:\n{each.printed}" for each in printed if not each.agrees]
    assert not wrong, "\n".join(wrong)


def test_tutorial_and_formulation_pages_have_examples(examples: ModuleType) -> None:
    """The pages with commands and Python are found, so that the test above tests something."""
    found = {page.name for page in examples.pages()}
    assert {"README.md", "tutorial.md", *(f"{name}.md" for name in formulations())} <= found


@pytest.mark.parametrize(
    ("shown", "printed", "agrees"),
    [
        ("time  83 ms, verified in 155 ms\n", "time  1.2 s, verified in 9 ms   \n", True),
        ("layered-paths   0 %   certificate   2.9 ms\n", "layered-paths   0 %   certificate   1.1 s\n", True),
        ("engine optplan 0.1.0, seed 0\n", "engine optplan 0+source, seed 0\n", True),
        ("first\n...\nlast\n", "first\nsecond\nthird\nlast\n", True),
        ("first\n...\nlast\n", "first\nlast\nmore\n", False),
        ("26 min 57 s (1616.69 s)\n", "26 min 57 s (1616.70 s)\n", False),
        ("120.0 GPUs\n", "120.1 GPUs\n", False),
        ("one line\n", "one line\nanother\n", False),
    ],
)
def test_only_times_versions_and_lines_left_out_may_differ(
    shown: str, printed: str, agrees: bool, examples: ModuleType
) -> None:
    """The comparison forgives what varies between machines, and no figure of an answer."""
    assert examples.Printed("command", shown, printed).agrees is agrees


def test_every_formulation_has_a_page_in_the_navigation() -> None:
    """A formulation's page is ``docs/<name>.md``, and readers can find it."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in formulations():
        assert (DOCS / f"{name}.md").is_file()
        assert f"- {name}.md" in navigation


def test_every_solver_is_explained() -> None:
    """The page on solvers says of each registered one what it is for, beyond the generated tables."""
    text = (DOCS / "solvers.md").read_text(encoding="utf-8")
    missing = [
        entry.name for each in formulations().values() for entry in each.solvers if f"`{entry.name}`" not in text
    ]
    assert not missing


def test_the_sample_log_is_what_its_script_writes() -> None:
    """Written again from its seed it is the same: it is made up, and no real trace is behind it."""
    spec = importlib.util.spec_from_file_location("build_sample_log", ROOT / "benchmarks" / "build_sample_log.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script  # dataclasses look their module up
    spec.loader.exec_module(script)
    del sys.modules[spec.name]
    lines = [script.HEADER, *script.list_lines(random.Random(script.SEED))]
    assert (DOCS / "examples" / "sacct.txt").read_text(encoding="utf-8").splitlines() == lines


def test_every_page_is_in_the_navigation() -> None:
    """No page is left out of the navigation, and none in it is missing."""
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    sections = {name: pages for section in navigation for name, pages in section.items()}
    assert {"Tutorials", "How-to", "Reference", "Explanation"} <= set(sections)
    listed = [
        page if isinstance(page, str) else next(iter(page.values())) for pages in sections.values() for page in pages
    ]
    notebooks = [f"{notebook.stem}.md" for notebook in DOCS.glob("*.ipynb")]
    assert sorted(listed) == sorted([page.name for page in DOCS.glob("*.md")] + notebooks)
