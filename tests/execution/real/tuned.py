"""A trainable as users of Ray Tune write it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ray import tune


class Tuned(tune.Trainable):
    """Walks down (x - 3)^2 from 0."""

    def setup(self, config: dict[str, Any]) -> None:
        """Take the rate."""
        self.x, self.rate, self.wait_s = 0.0, config["rate"], config["wait_s"]

    def step(self) -> dict[str, Any]:
        """Descend once."""
        time.sleep(self.wait_s)
        self.x -= self.rate * 2.0 * (self.x - 3.0)
        return {"loss": (self.x - 3.0) ** 2}

    def save_checkpoint(self, folder: str) -> None:
        """Store x."""
        Path(folder, "x").write_text(str(self.x), encoding="utf-8")

    def load_checkpoint(self, folder: str) -> None:
        """Read it."""
        self.x = float(Path(folder, "x").read_text(encoding="utf-8"))
