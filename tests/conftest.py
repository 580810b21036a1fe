"""What every test shares: the hypothesis profile, public data, the command line, a summary of what could not run."""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from packaging.requirements import Requirement

from optplan.cli import main

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

pytest_plugins = ["makers", "pages"]


class Later(ModuleType):
    """A module by its name, loaded by the tests that use it and not by every process that collects them."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module has
        """Return what the module has by a name; of all that it finds in modules pytest asks for private ones."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"

#: Extras that add features for users; tests of these features are skipped where the extra is missing.
USER_EXTRAS = ("plot", "learn", "demo", "torch")

#: Where the suite spends most of its time, beside single tests that are marked; `make test-quick` leaves them out.
SLOW = (
    "cli/test_application.py",
    "cli/test_catalogue.py",
    "cli/test_common_options.py",
    "cli/test_frontiers.py",
    "cli/test_interruptions.py",
    "cli/test_seer.py",
    "cli/test_shown_text.py",
    "cli/test_solving.py",
    "cli/test_widths.py",
    "conformance/test_solvers.py",
    "contracts/test_frontier.py",
    "docs/test_demo.py",
    "docs/test_notebooks.py",
    "docs/test_pages.py",
    "docs/test_types.py",
    "execution/commands/test_exporting.py",
    "execution/commands/test_fleets.py",
    "execution/commands/test_live_pages.py",
    "execution/commands/test_run_pages.py",
    "execution/commands/test_running.py",
    "execution/commands/test_searches.py",
    "execution/commands/test_watching.py",
    "execution/exports",
    "execution/fleets/test_folders.py",
    "execution/online/test_any_story.py",
    "execution/serving/test_kills.py",
    "execution/streams/test_local_streams.py",
    "execution/test_cluster_agreement.py",
    "execution/test_command_executor.py",
    "execution/test_conformance.py",
    "execution/test_driver.py",
    "execution/test_endings.py",
    "execution/test_faults.py",
    "execution/test_kills.py",
    "execution/test_local.py",
    "execution/test_pauses.py",
    "execution/test_profiling.py",
    "execution/test_replanning.py",
    "execution/test_setups.py",
    "execution/test_slurm.py",
    "execution/test_supervision.py",
    "execution/test_virtual.py",
    "formulations/boa/data/test_instance.py",
    "formulations/boa/exact/peak/test_capped.py",
    "formulations/boa/judge/test_evaluation.py",
    "formulations/boa/judge/test_independence.py",
    "formulations/boa/judge/test_runs.py",
    "formulations/boa/judge/test_trees.py",
    "formulations/boa/models/test_conic.py",
    "formulations/boa/models/test_engines_elsewhere.py",
    "formulations/boa/models/test_general_engines.py",
    "formulations/boa/models/test_mixed_integer.py",
    "formulations/boa/published",
    "formulations/boa/study",
    "formulations/boa/test_continuous_types.py",
    "formulations/boa/test_extremes.py",
    "formulations/boa/test_limits.py",
    "formulations/boa/test_orders.py",
    "formulations/boa/test_remedies.py",
    "formulations/boa/test_type_optima.py",
    "formulations/boa/test_types.py",
    "formulations/rubberband/exact/test_confidence.py",
    "formulations/rubberband/exact/test_held_paths.py",
    "formulations/rubberband/exact/test_limits.py",
    "formulations/rubberband/judge/test_trees.py",
    "formulations/rubberband/laws/test_joint_probability.py",
    "formulations/rubberband/laws/test_sampling.py",
    "formulations/rubberband/models",
    "formulations/rubberband/published",
    "formulations/rubberband/study/test_largest.py",
    "formulations/rubberband/test_independence.py",
    "formulations/seer/data/test_brackets.py",
    "formulations/seer/exact/test_informed.py",
    "formulations/seer/exact/test_node_rows.py",
    "formulations/seer/exact/test_spending.py",
    "formulations/seer/judge/test_spending.py",
    "formulations/srift/exact",
    "formulations/srift/judge/test_trees.py",
    "formulations/srift/laws/test_stragglers.py",
    "formulations/srift/models",
    "formulations/srift/published",
    "formulations/srift/study",
    "formulations/srift/test_proofs.py",
    "formulations/throughputs/exact/test_choosing.py",
    "fuzz",
    "instances/job_logs/test_known_truth.py",
    "instances/test_files.py",
    "instances/test_library.py",
    "lab/audits",
    "lab/benchmarks",
    "lab/cluster/pollux/test_dividing.py",
    "lab/cluster/test_bounds.py",
    "lab/cluster/test_capacity_bounds.py",
    "lab/cluster/test_closed_forms.py",
    "lab/cluster/test_held_budgets.py",
    "lab/cluster/test_predictions.py",
    "lab/cluster/test_price_that_fits.py",
    "lab/cluster/test_profiled_jobs.py",
    "lab/commands/test_auditing.py",
    "lab/commands/test_simulating.py",
    "lab/commands/test_start_simulating.py",
    "lab/starts",
    "lab/test_sweeps.py",
    "lab/traces/test_goodput_fitting.py",
    "lab/traces/test_sia.py",
    "lab/traces/test_sia_agents.py",
    "lab/traces/test_sia_boa.py",
    "lab/traces/test_sia_learning.py",
    "profiling/commands/test_measuring.py",
    "profiling/commands/test_searches.py",
    "profiling/test_torch_profiler.py",
    "profiling/test_workloads.py",
    "reporting/boa/test_browser.py",
    "reporting/boa/test_large_maps.py",
    "reporting/boa/test_report.py",
    "reporting/boa/test_tries.py",
    "reporting/boa/test_trying.py",
    "reporting/rubberband/test_report.py",
    "reporting/seer/test_quality.py",
    "reporting/seer/test_report.py",
    "reporting/srift/test_report.py",
    "reporting/test_job_use.py",
    "reporting/test_layout.py",
    "reporting/test_trajectory.py",
    "reporting/test_trying.py",
    "solvers/paths/held/test_held.py",
    "solvers/paths/switching",
    "solvers/paths/test_choices.py",
    "solvers/paths/test_closing.py",
    "solvers/paths/test_frontier.py",
    "solvers/paths/test_linked_dual.py",
    "solvers/paths/test_pure_plans.py",
    "solvers/paths/test_single.py",
    "solvers/paths/test_single_dual.py",
    "solvers/programs/test_cpsat.py",
    "solvers/test_engine_process.py",
    "solvers/test_quiet_highs.py",
    "speedup/test_fitting.py",
    "speedup/test_hulls.py",
    "test_progress.py",
    "test_solving.py",
    "test_units.py",
    "verification",
)
#: What compares with figures that are written down: pages, the library and its plans, published figures, generators.
GOLDEN = (
    "docs/test_pages.py",
    "formulations/boa/published",
    "formulations/seer/test_library_instances.py",
    "formulations/seer/test_proofs.py",
    "formulations/srift/models/test_general_engines.py",
    "formulations/srift/published",
    "instances/test_generators.py",
    "instances/test_library.py",
    "lab/benchmarks/test_gavel.py",
    "lab/traces/test_sia_boa.py",
)

#: The line of a module all of whose tests start processes that talk to one another.
_REAL = "\npytestmark = pytest.mark.real\n"

# The same examples in every run, so that a failure seen in CI is seen at the desk; 50 where a test says no number, half
# of the usual ones, keep the suite within its minutes. No deadline and no check for slow generation either: both depend
# on how busy the machine is.
hypothesis.settings.register_profile(
    "optplan",
    max_examples=50,
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


@pytest.fixture(scope="session")
def load_script() -> Iterator[Callable[[Path], ModuleType]]:
    """Return what loads a script that is in no package; dataclasses and pickle look it up by its name."""
    loaded: list[str] = []

    def load(path: Path) -> ModuleType:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        loaded.append(path.stem)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


@pytest.fixture(scope="session")
def interpret() -> Callable[[ModuleType], ModuleType]:
    """Return what loads a compiled module as Python runs it; where the module is not compiled, the test is skipped."""

    @cache
    def load(compiled: ModuleType) -> ModuleType:
        name = compiled.__name__.rpartition(".")[2]
        path = Path(str(compiled.__file__))
        if path.suffix == ".py":
            pytest.skip(f"optplan was installed without a C compiler: {name} runs as Python")
        spec = importlib.util.spec_from_file_location(f"interpreted_{name}", path.with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def pytest_configure(config: pytest.Config) -> None:  # noqa: ARG001 - pytest's own
    """Let every process that a test starts import the optplan under test; refuse names of modules that are gone."""
    os.environ["PYTHONSAFEPATH"] = "1"  # else one started in this folder would import the sources that lie in it
    lost = [path for path in (*SLOW, *GOLDEN) if not (TESTS / path).exists()]
    if lost:
        message = f"tests/conftest.py names {lost[0]}, which does not exist; name what is there"
        raise pytest.UsageError(message)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the ten thousand tests out of the search for garbage, which is made less often: no test has much of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        gc.enable()


@cache
def _is_under(path: Path, names: tuple[str, ...]) -> bool:
    """Whether a file is one of those that are listed, or lies in a folder of theirs."""
    return any(str(each) in names for each in (path.relative_to(TESTS), *path.relative_to(TESTS).parents))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no slow module where none is wanted, and none of clusters: that takes longer than the quick tests."""
    if not collection_path.is_relative_to(TESTS):
        return None
    unwanted = "not slow" in config.option.markexpr and _is_under(collection_path, SLOW)
    clusters = "not real" in config.option.markexpr and collection_path.suffix == ".py"
    return True if unwanted or (clusters and _REAL in collection_path.read_text(encoding="utf-8")) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the modules that are listed above."""
    # What compiles for a minute goes first: at the end the other processes would have nothing left to do beside it.
    items.sort(key=lambda item: item.path.name != "test_wheel.py")
    for item in items:
        for mark, names in (("slow", SLOW), ("golden", GOLDEN)):
            if _is_under(item.path, names):  # once for each module: there are thousands of tests
                item.add_marker(mark)


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


@dataclass(frozen=True)
class Run:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:  # noqa: ANN401 - whatever the command prints
        """What stdout holds, as JSON."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """The error object on stderr."""
        found: dict[str, str] = json.loads(self.err.splitlines()[-1])["error"]
        return found


Runner = Callable[..., Run]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Run a command in this process and return its exit code and what it wrote."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*argv: str | Path) -> Run:
        capsys.readouterr()
        code = main([str(part) for part in argv])
        written = capsys.readouterr()
        return Run(code, written.out, written.err)

    return call


@pytest.fixture
def write_instance(tmp_path: Path) -> Callable[..., Path]:
    """Write the textbook instance of one table with some fields changed, and return its path."""

    def write(**changes: object) -> Path:
        path = tmp_path / "mine.json"
        path.write_text(json.dumps({**ONE_TABLE, **changes}), encoding="utf-8")
        return path

    return write


#: One job an hour of one GPU-hour on 1, 2 or 4 GPUs: GPU-hours 1, 1.25, 2; hours 1, 0.625, 0.5.
ONE_TABLE: dict[str, object] = {
    "name": "mine",
    "formulation": "boa",
    "version": 1,
    "classes": {
        "job": {
            "arrival_rate_per_hour": 1.0,
            "epoch_size_gpu_hours": [1.0],
            "speedup": {"v100": {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}},
        }
    },
    "gpu_types": {"v100": {"price_usd_per_hour": 2.0}},
    "budget": "1.25gpu",
    "problem": "whole",
}
