"""A training run of shell, and the program of the pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def train_command() -> str:
    """Return the command of a training run of shell."""
    return f"bash {Path(__file__).parent / 'train.sh'} {{gpus}}"


@pytest.fixture
def write_training() -> Callable[[Path], None]:
    """Return what writes the training program of the pages, `train.py`, into a folder."""
    page = (Path(__file__).parents[3] / "docs" / "exports.md").read_text(encoding="utf-8")
    (program,) = re.findall(r'^```python title="train.py"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)

    def write(folder: Path) -> None:
        (folder / "train.py").write_text(program)

    return write
