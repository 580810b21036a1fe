"""The pages: what they show is what happens, and nothing that is registered is missing from them."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from optplan.contracts import BoundProof
from optplan.formulations import formulations
from optplan.instances.files import read_instance
from optplan.solving import solve

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = ("README.md", *sorted(f"docs/{page.name}" for page in DOCS.glob("*.md")))


@pytest.fixture(scope="module")
def examples(load_script: Callable[[Path], ModuleType]) -> ModuleType:
    """Return the module that runs pages; it is a script beside the steps that make the site."""
    return load_script(DOCS / "_steps" / "run_examples.py")


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

    After a change that is meant, ``python docs/_steps/run_examples.py --write`` renews the pages.
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


def test_every_file_that_a_page_shows_is_there_and_named_as_the_site_reads_it() -> None:
    """A line that is meant to be replaced by a file has the one form that is, and the file exists."""
    meant = re.compile(r"^\s*-+\s*8\s*<.*$", re.MULTILINE)
    form = re.compile(r'\s*--8<-- "(?P<path>[^":]+)(?::[^"]*)?"')
    found = [(name, line) for name in PAGES for line in meant.findall((ROOT / name).read_text(encoding="utf-8"))]
    assert found
    wrong = [(name, line) for name, line in found if form.fullmatch(line) is None]
    assert not wrong
    paths = [form.fullmatch(line) for _, line in found]
    assert not [match["path"] for match in paths if match is not None and not (ROOT / match["path"]).is_file()]


def test_nothing_proposes_a_speedup_out_of_the_air() -> None:
    """No page, help or message names a serial fraction or an exponent to assume: whoever has one knows it."""
    proposed = re.compile(r"(?:amdahl|power):\s?\d")
    sources = [*(ROOT / name for name in PAGES), *(ROOT / "optplan").rglob("*.py"), *DOCS.glob("*.ipynb")]
    assert not [path.name for path in sources if proposed.search(path.read_text(encoding="utf-8"))]


def test_every_formulation_has_a_page_in_the_navigation() -> None:
    """A formulation's page is ``docs/<name>.md``, and readers can find it."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in formulations():
        assert (DOCS / f"{name}.md").is_file()
        assert f"- {name}.md" in navigation


def test_every_tutorial_can_be_read_at_one_sitting() -> None:
    """None of the pages that the navigation calls tutorials has more than 2,500 words, outputs included."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    section = navigation[navigation.index("- Tutorials:") : navigation.index("- For platform engineers:")]
    names = re.findall(r": (\S+\.md)", section)
    pages = [DOCS / name for name in names if not (DOCS / name).with_suffix(".ipynb").exists()]
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages}
    assert len(words) == 5
    assert max(words.values()) <= 2500


def test_every_solver_is_explained() -> None:
    """The page on solvers says of each registered one what it is for, beyond the generated tables."""
    text = (DOCS / "solvers.md").read_text(encoding="utf-8")
    missing = [
        entry.name for each in formulations().values() for entry in each.solvers if f"`{entry.name}`" not in text
    ]
    assert not missing


def test_what_bounds_are_said_to_rest_on_is_what_solvers_declare() -> None:
    """On the page on solvers: each kind of proof that it names beside a solver is one that the solver gives."""
    text = (DOCS / "solvers.md").read_text(encoding="utf-8")
    section = text[text.index("## What their bounds rest on") : text.index("## Why a solve stops")]
    openings = {"Of searches on a cluster": "rubberband", "Of searches by deadline": "seer", "Of fleets": "srift"}
    openings["Of one job of which speeds"] = "throughputs"
    claims = [
        ("boa", names, " ".join(cells))
        for names, *cells in (line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `"))
    ]
    said = re.compile(r"(?:that|bound) of ((?:`[\w-]+`(?:, | and )?)+) (?:has an? |rests on |on )(?:an? )?(`\w+`)")
    for opening, formulation in openings.items():
        (paragraph,) = (part for part in section.split("\n\n") if part.startswith(opening))
        claims += [(formulation, names, kinds) for names, kinds in said.findall(paragraph.replace("\n", " "))]
    proofs = {kind.value for kind in BoundProof} - {BoundProof.NONE.value}
    checked = 0
    for formulation, names, cells in claims:
        for name in re.findall(r"`([\w-]+)`", names):
            given = {kind.value for kind in formulations()[formulation].solver(name).proofs}
            stated = proofs & set(re.findall(r"`(\w+)`", cells))
            assert stated <= given, (formulation, name, stated, given)
            assert bool(stated) == bool(given), (formulation, name)
            checked += 1
    assert checked >= 18


def test_the_page_of_srifts_measurements_names_the_proofs_that_there_are() -> None:
    """Each solver of its table with a proof gives that kind of it, for the library's case that it names."""
    table = (DOCS / "assets" / "srift-benchmark.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| `(best-first)` \| [\d.]+ \|[^|]*\| (\w+) \|", table, re.MULTILINE)
    assert len(rows) == 4
    for name, solver, proof in rows:
        assert solve(read_instance(name), solver=solver).bound_proof.value == proof


def test_the_sample_log_is_what_its_script_writes(load_script: Callable[[Path], ModuleType]) -> None:
    """Written again from its seed it is the same: it is made up, and no real trace is behind it."""
    script = load_script(ROOT / "benchmarks" / "build_sample_log.py")
    lines = [script.HEADER, *script.list_lines(random.Random(script.SEED))]
    assert (DOCS / "examples" / "sacct.txt").read_text(encoding="utf-8").splitlines() == lines


def test_every_page_is_in_the_navigation() -> None:
    """No page is left out of the navigation, and none in it is missing."""
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    sections = {name: pages for section in navigation for name, pages in section.items()}
    users = {f"For {users}" for users in ("platform engineers", "researchers", "operators", "developers")}
    assert {"Tutorials", *users, "Reference", "Explanation"} <= set(sections)
    listed = [
        page if isinstance(page, str) else next(iter(page.values())) for pages in sections.values() for page in pages
    ]
    notebooks = [f"{notebook.stem}.md" for notebook in DOCS.glob("*.ipynb")]
    assert sorted(listed) == sorted([page.name for page in DOCS.glob("*.md")] + notebooks)


def test_pages_import_from_the_root_and_one_level_below() -> None:
    """What users need is `optplan.NAME` or `optplan.WING.NAME`, and stays there when rooms change."""
    deep = re.compile(r"^\s*(?:from|import) (optplan\.\w+\.[\w.]+)", re.MULTILINE)
    pages = [ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("*.ipynb"), *DOCS.glob("examples/*.py")]
    found = {page.name: deep.findall(page.read_text("utf-8")) for page in pages}
    assert {page: modules for page, modules in found.items() if modules} == {}
