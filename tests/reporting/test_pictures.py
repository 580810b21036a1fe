"""Which test reads each picture back from a browser: none is without."""

from __future__ import annotations

import ast
from importlib.resources import files
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
#: Modules that draw, and where a browser's picture of each is compared with its data.
READ_BACK = {
    "execution/cli/run_page.py": "execution/commands/test_run_pages.py::test_a_browser_draws_the_search",
    "lab/audits/page.py": "lab/commands/test_auditing.py::test_one_command_audits_a_log_and_another_checks_it",
    "lab/pages.py": "lab/starts/test_pages.py::test_a_browser_draws_what_waiting_saves",
    "lab/scaling_page.py": "lab/test_scaling_page.py::test_a_browser_draws_the_studies",
    "lab/sizing_page.py": "lab/test_sizing.py::test_the_page_draws_the_sizes",
    "reporting/boa/demand.py": "reporting/boa/test_demand.py::test_a_browser_draws_both_lines",
    "reporting/boa/figures.py": "reporting/boa/test_browser.py::test_pictures_show_their_data",
    "reporting/boa/ranges.py": "reporting/boa/test_browser.py::test_pictures_show_their_data",
    "reporting/boa/speedups.py": "reporting/boa/test_ranges.py::test_report_opens_with_its_panels",
    "reporting/job_use.py": "reporting/test_job_use.py::test_a_browser_shows_who_held_what",
    "reporting/pareto.py": "reporting/rubberband/test_report.py::test_the_page_opens_in_a_browser",
    "reporting/segments.py": "reporting/test_drawing.py::test_a_browser_draws_plans_as_their_files_have_them",
    "reporting/srift/continuations.py": "reporting/srift/test_report.py::test_the_rest_of_a_run_in_a_browser",
    "reporting/srift/tables.py": "reporting/srift/test_report.py::test_the_page_in_a_browser",
}


def test_each_module_that_draws_is_listed() -> None:
    """All that makes figures, but for the copy of the package without its wings, which has fewer."""
    package = Path(str(files("optplan")))
    drawing = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "new_figure(" in path.read_text(encoding="utf-8") and path.name != "style.py"
    }
    assert drawing == {name for name in READ_BACK if (package / Path(name).parts[0]).is_dir()}


@pytest.mark.parametrize("place", sorted(set(READ_BACK.values())))
def test_each_test_that_is_named_reads_back(place: str) -> None:
    """The test is there, and compares what was drawn with the data."""
    path, _, name = place.partition("::")
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    (test,) = (each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name)
    assert "read_back()" in ast.unparse(test)
