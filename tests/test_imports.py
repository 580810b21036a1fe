"""``import optplan`` is light: no engine, no plotting, no logging."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import optplan
from optplan import wings

#: What `import optplan` must leave unloaded, each for its weight; they load on use.
HEAVY = (
    "scipy",
    "cvxpy",
    "pyomo",
    "highspy",
    "ortools",
    "networkx",
    "pandas",
    "matplotlib",
    "plotly",
    "rich",
    "torch",
    "xgboost",
)

PROBE = """
import json, logging, sys
before = list(logging.root.handlers), logging.root.level
import optplan
after = list(logging.root.handlers), logging.root.level
print(json.dumps({
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
    "root_unchanged": before == after,
    "own_loggers_with_handlers": [
        name for name, logger in logging.root.manager.loggerDict.items()
        if name.partition(".")[0] == "optplan" and getattr(logger, "handlers", [])
    ],
}))
"""


def probe_import() -> dict[str, object]:
    """Import optplan in a fresh interpreter and return what that left behind."""
    # -P and the parent's path: the child imports the very package under test, never one that lies in its folder.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROBE], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stderr == ""
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_import_loads_no_engine_and_no_plotting() -> None:
    """A bare import leaves every heavy library unloaded and prints nothing."""
    modules = probe_import()["modules"]
    assert isinstance(modules, list)
    assert "optplan" in modules
    assert set(HEAVY) & set(modules) == set()


def test_import_touches_no_logger() -> None:
    """A bare import leaves the root logger as it was and gives no logger of its own a handler."""
    found = probe_import()
    assert found["root_unchanged"] is True
    assert found["own_loggers_with_handlers"] == []


def test_processes_that_tests_start_import_the_optplan_under_test() -> None:
    """One started in the repository has no sources before what is installed."""
    told = subprocess.run(
        [sys.executable, "-c", "import optplan; print(optplan.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    assert told.stdout.strip() == optplan.__file__


@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package in (optplan, *wings.wings()) for name in package.__all__]
)
def test_every_public_name_loads_on_use(package: ModuleType, name: str) -> None:
    """A public name leads to what it names, although nothing is loaded before it is used."""
    if name == "PlanScheduler":
        pytest.importorskip("ray")
    found = getattr(package, name)
    assert name in {found.__name__, "Configuration"}  # that is another word for a mapping


def test_public_names_are_listed() -> None:
    """Completion in an interpreter shows exactly the public names."""
    assert dir(optplan) == sorted(optplan.__all__)


def test_unknown_names_are_refused() -> None:
    """A misspelt name fails as on any module."""
    with pytest.raises(AttributeError, match=r"^module 'optplan' has no attribute 'slove'$"):
        _ = optplan.slove  # type: ignore[attr-defined]
