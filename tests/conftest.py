"""What every test shares: the hypothesis profile, the folder of public data, and a summary of what could not run."""

from __future__ import annotations

import importlib.metadata
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]

#: Extras that add features for users; tests of these features are skipped where the extra is missing.
USER_EXTRAS = ("plot", "search", "bayes", "learn", "torch")

# The same examples in every run, so that a failure seen in CI is seen at the desk. No deadline and no check for slow
# generation either: both depend on how busy the machine is.
hypothesis.settings.register_profile(
    "optplan",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("optplan")


@pytest.fixture(scope="session")
def data_pack() -> Path:
    """Return the folder of public traces, profiles and prices: ``OPTPLAN_DATA``, or ``../shared/data``.

    Where it is missing, the test is skipped, or fails when ``OPTPLAN_REQUIRE_DATA=1``.
    """
    folder = ROOT / os.environ.get("OPTPLAN_DATA", "../shared/data")
    if not (folder / "MANIFEST.csv").is_file():
        message = f"no public data at {folder} (no MANIFEST.csv there): set OPTPLAN_DATA to its folder"
        if os.environ.get("OPTPLAN_REQUIRE_DATA") == "1":
            pytest.fail(f"{message}; OPTPLAN_REQUIRE_DATA=1 forbids to skip")
        pytest.skip(message)
    return folder.resolve()


def missing_requirements(extra: str) -> Iterator[str]:
    """Yield the distributions of an extra of ``pyproject.toml`` that are not installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for line in project["optional-dependencies"][extra]:
        name = Requirement(line).name
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            yield name


def pytest_report_header() -> str:
    """Say which optplan is tested: the installed one, or the sources."""
    import optplan

    return f"optplan: {Path(optplan.__file__).parent}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the extras that are not installed, whose tests were skipped."""
    missing = {extra: ", ".join(missing_requirements(extra)) for extra in USER_EXTRAS}
    if any(missing.values()):
        terminalreporter.section("extras not installed")
        for extra, names in missing.items():
            if names:
                terminalreporter.write_line(f'{extra}: no {names}; pip install "optplan[{extra}]" brings it')
