"""Pages and reports: what does not hold is not reported, and a formulation without a presenter has a report too."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import optplan.reporting
from optplan.contracts import Verification
from optplan.contracts.judgement import Check
from optplan.errors import UsageError, VerificationError
from optplan.instances.files import write_text
from optplan.instances.library import build_named
from optplan.reporting import presentation, presenters
from optplan.reporting.presenters import Beside
from optplan.reporting.reports import build_report
from optplan.solving import solve

if TYPE_CHECKING:
    from tests.plugins.pages import Show

ROOT = Path(optplan.reporting.__file__).parent


def test_no_report_is_written_of_what_does_not_hold(tmp_path: Path) -> None:
    """A failed verification stops before any page is gathered."""
    instance = build_named("srift-case2")
    broken = Check(family="budget", left=2.0, right=1.0, tolerance=0.0, holds=False, message="too dear")
    beside = Beside(verification=Verification(checks=(broken,)))
    with pytest.raises(VerificationError, match="budget: too dear"):
        write_text(build_report(instance, solve(instance), beside), tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


@cache
def list_imports(path: Path) -> set[str]:
    """List the modules that a module imports from, also inside functions."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    found = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    named = {
        f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    return found | named


def test_only_gathering_solves() -> None:
    """Every other module of reporting draws what it is given."""
    solving = {path.name for path in ROOT.rglob("*.py") if "optplan.solving" in list_imports(path)}
    assert solving == {"gathering.py", "trying.py"}


def test_no_module_goes_in_circles() -> None:
    """Following imports, also those inside functions, never leads back."""
    modules = {".".join(path.relative_to(ROOT.parents[1]).with_suffix("").parts): path for path in ROOT.rglob("*.py")}
    imports = {name: list_imports(path) & set(modules) for name, path in modules.items()}
    while imports:
        free = {name for name, needed in imports.items() if not needed & set(imports)}
        assert free, f"in a circle: {sorted(imports)}"
        imports = {name: needed for name, needed in imports.items() if name not in free}


def test_the_root_knows_no_formulation() -> None:
    """Modules beside the rooms import from no formulation and no room."""
    rooms = [path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()]
    for path in ROOT.glob("*.py"):
        for module in list_imports(path):
            assert not module.startswith(tuple(f"optplan.reporting.{room}" for room in rooms)), path
            assert not re.match(r"optplan\.formulations\.[a-z]+", module) or module.endswith(".formulation_of"), path


@pytest.mark.parametrize("name", ["boa-two-classes", "rubberband-two-stages", "seer-paper-example", "srift-case2"])
def test_any_result_has_a_summary_and_a_report(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, show: Show
) -> None:
    """Without a presenter of its own a formulation shows status, measures, bound, rivals, how to check it."""
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')
    for module in (presenters, presentation):
        monkeypatch.setattr(module, "find_module", lambda *_: None)
    instance = build_named(name)
    result = solve(instance)
    presenter = presentation.presenter_of(instance)
    assert presenter is presentation.PRESENTER
    assert instance.name in show(*presenter.present_instance(instance))
    shown = show(*presenter.present_result(instance, result))
    assert "status" in shown
    assert next(iter(result.measures)).replace("_", " ") in shown
    assert show(*presenter.present_comparison(instance, [result, result])).count(result.solver) == 2
    write_text(
        build_report(instance, result, Beside(rivals=[result], verify_command="optplan verify x")),
        tmp_path / "page.html",
    )
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "optplan verify x" in page
    assert "What the plan decides" in page
    assert "Other solvers" in page
    with pytest.raises(UsageError, match=r"sensitivity: reports of formulation .* show none; leave it out"):
        build_report(instance, result, Beside(sensitivity=object()))  # type: ignore[arg-type]
