"""A job that trains by waiting: an epoch takes less on more slots, as its configuration says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from optplan.execution.trainables import Session


def train(configuration: Mapping[str, Any], session: Session) -> Iterator[dict[str, float]]:
    """Wait for an epoch, again and again; the state is the number of epochs."""
    done = 0 if session.checkpoint is None else int((session.checkpoint / "done").read_text(encoding="utf-8"))

    def save(folder: Path) -> None:
        (folder / "done").write_text(str(done), encoding="utf-8")

    session.save = save
    while "wait_for" in configuration and not Path(configuration["wait_for"]).exists():
        time.sleep(0.01)
    while True:
        time.sleep(configuration["epoch_s"] / session.gpus ** configuration.get("power", 0.9))
        done += 1
        yield {"loss": 1.0 / done, "gpus": float(session.gpus)}
