"""A trainable that does next to nothing, so that what is timed is everything else. Processes import this file alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Idle:
    """Counts its iterations."""

    def setup(self, config: Mapping[str, Any]) -> None:  # noqa: ARG002 - as a trainable has it
        """Begin at nothing."""
        self.done = 0

    def step(self) -> dict[str, float]:
        """Count."""
        self.done += 1
        return {"loss": 1.0 / self.done}

    def save_checkpoint(self, folder: str) -> None:
        """Store the count."""
        Path(folder, "done").write_text(str(self.done), encoding="utf-8")

    def load_checkpoint(self, folder: str) -> None:
        """Read it."""
        self.done = int(Path(folder, "done").read_text(encoding="utf-8"))
