"""``make demo-run``: the script's own steps on the virtual clock, and the network that it trains."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import optplan
from optplan.execution.running import RunOutcome, run
from optplan.profiling.search_profile import Profile, ProfileSettings
from optplan.profiling.trial_timings import TrialTiming

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def _load(name: str) -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickle looks it up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.fixture
def demo() -> Iterator[ModuleType]:
    """Return the script."""
    yield from _load("demo_run")


@pytest.fixture
def digits() -> Iterator[ModuleType]:
    """Return what it trains."""
    pytest.importorskip("sklearn", reason='scikit-learn is not installed; pip install "optplan[demo]" brings it')
    yield from _load("digits_search")


def test_an_elastic_cluster_is_cheaper_and_as_quick(
    demo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Profiled, planned, followed (on the virtual clock) and shown: $0.0384 against $0.0832, in the same time."""
    pytest.importorskip("plotly", reason="plotly is not installed")

    def profile_here(settings: ProfileSettings, **how: Any) -> Profile:  # noqa: ANN401 - as the real one
        assert (how["train"], how["step_wait_s"]) == (demo.TRAINABLE, demo.STEP_S)
        steps = (demo.STEP_S,) * settings.iterations
        timings = [TrialTiming(n, gpus, True, steps, steps, 2.0) for n in (1, 2) for gpus in settings.gpus]
        return Profile(tuple(timings), 0.0, 0.0)

    def run_at_once(plan: optplan.Plan, _: str, *, space: object, **options: Any) -> RunOutcome:  # noqa: ANN401
        assert options["executor"] == "local"
        return run(plan, space=space, out=options["out"])

    monkeypatch.setattr(demo, "profile_here", profile_here)
    monkeypatch.setattr(demo, "run", run_at_once)
    assert demo.main(tmp_path) == 0
    told = capsys.readouterr().out
    # 8, 4, 2 and 1 trials for 6, 6, 8 and 12 iterations of 0.4 s after starts of 2 s: on 4, 2, 1 and 1 nodes of 0.1
    # cents a second they cost 4 * 4.4 + 2 * 4.4 + 5.2 + 6.8 = 38.4 node-seconds, and on 4 all the time 83.2.
    assert "elastic: planned 21 s and $0.0384" in told
    assert "static: planned 21 s and $0.0832" in told
    assert "elastic cost $0.0384, static $0.0832" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_the_network_goes_on_from_its_checkpoint(digits: ModuleType, tmp_path: Path) -> None:
    """Two passes at once, and one after the other with a checkpoint between, show the same."""
    config = {"hidden": 8, "rate": 0.01, "decay": 1e-4}
    whole, first, second = digits.Digits(), digits.Digits(), digits.Digits()
    for each in (whole, first, second):
        each.setup(config)
    shown = [whole.step(), whole.step()]
    assert shown[0] == first.step()
    first.save_checkpoint(str(tmp_path))
    second.load_checkpoint(str(tmp_path))
    assert shown[1] == second.step()
    assert shown[1]["loss"] < shown[0]["loss"]
