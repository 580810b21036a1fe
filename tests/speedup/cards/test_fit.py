"""``benchmarks/fit_cards.py`` and ``docs/model-card-errors.md``: where the constants of cards come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from optplan.speedup.cards.records import CONSTANTS, load_constants

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "benchmarks" / "fit_cards.py"
PAGE = ROOT / "docs" / "model-card-errors.md"


@pytest.fixture(scope="module")
def fitting(load_script: Callable[[Path], ModuleType]) -> ModuleType:
    """Return the script as a module."""
    return load_script(SCRIPT)


@pytest.fixture(scope="module")
def measured(fitting: ModuleType, data_pack: Path) -> list[object]:
    """Return the measured steps of the public data."""
    folder = data_pack / "llm"
    if not folder.is_dir():
        pytest.skip(f"no measured steps of language models at {folder}")
    return list(fitting.read_rows(folder))


def test_stored_constants_are_those_that_fit(fitting: ModuleType, measured: list[object]) -> None:
    """What the package computes with is what the script finds in the data."""
    fitted = fitting.fit(measured)
    for name in fitting.PRIORS:
        assert getattr(fitted, name) == pytest.approx(getattr(load_constants(), name), rel=1e-2), name


@pytest.mark.slow
@pytest.mark.slow
def test_models_left_out_are_estimated_within_the_gates(fitting: ModuleType, measured: list[object]) -> None:
    """Fitted on all others, speedups up to 256 GPUs err by 6 and 4 % in the median, nine in ten by 20 and 15 %."""
    pairs = fitting.within(fitting.try_pairs(measured))
    for source, median, most in ((fitting.PLAYBOOK, 0.06, 0.20), (fitting.MPT, 0.04, 0.15)):
        own = [pair for pair in pairs if pair.row.source == source]
        errors = [pair.error for pair in own]
        assert np.median(errors) <= median
        assert np.quantile(errors, 0.9) <= most
        assert np.mean([pair.error <= fitting.find_band(pair) for pair in own]) >= 0.9
    assert fitting.calibrate(pairs) == pytest.approx(load_constants().pair_error, abs=0.011)


def test_most_layouts_that_ran_fit_the_memory(fitting: ModuleType, data_pack: Path, measured: list[object]) -> None:
    """19 in 20 layouts of the playbook that ran fit by the law, and 1 in 20 of those that failed at most."""
    ran = [row for row in measured if row.source == fitting.PLAYBOOK]  # type: ignore[attr-defined]
    failed = fitting.read_playbook(data_pack / "llm", "failed")
    room = load_constants().usable_memory * 80.0
    assert np.mean(fitting.find_memory_gb(ran, load_constants()) <= room) >= 0.95
    assert np.mean(fitting.find_memory_gb(failed, load_constants()) <= room) <= 0.05


def test_the_page_has_the_constants_that_are_used() -> None:
    """Each constant stands in the page with its value, and each gate says whether it holds."""
    page = PAGE.read_text(encoding="utf-8")
    for name, row in json.loads(CONSTANTS.read_text(encoding="utf-8"))["constants"].items():
        assert f"| `{name}` | {row['value']:.4g} {row['unit']}".rstrip() in page
        assert row["meaning"] in page
    gates = page[page.index("## Gates") : page.index("## Errors of speedups")]
    assert gates.count("| holds |") + gates.count("| missed |") == 12
