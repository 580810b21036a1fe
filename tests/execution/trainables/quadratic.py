"""Trainables that need nothing: a class, a generator and a program, all of which walk down the same parabola."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def descend(x: float, rate: float) -> float:
    """Do one step of gradient descent on (x - 3)^2."""
    return x - rate * 2.0 * (x - 3.0)


class Quadratic:
    """Starts at 0; its loss is (x - 3)^2. Crashes, shows nothing or waits where it is told to.

    ``wait_s`` is of each iteration, or of the first ``waits`` of them: what is to happen to a run happens then.
    """

    def setup(self, config: Mapping[str, Any]) -> None:
        """Take the rate, and what is to go wrong."""
        self.config = config
        self.x = 0.0
        self.done = 0

    def step(self) -> dict[str, Any]:
        """Descend once."""
        self.x = descend(self.x, self.config.get("rate", 0.1))
        self.done += 1
        if self.done <= self.config.get("waits", self.done):
            time.sleep(self.config.get("wait_s", 0.0))
        if self.done == self.config.get("crash_at"):
            sys.stdout.write("about to crash\n")
            raise RuntimeError("the loss exploded")
        if self.config.get("nan"):
            return {"loss": float("nan")}
        return {self.config.get("shows", "loss"): (self.x - 3.0) ** 2, "done": self.done}

    def save_checkpoint(self, folder: str) -> None:
        """Store x and the number of steps."""
        (Path(folder) / "state.json").write_text(json.dumps([self.x, self.done]), encoding="utf-8")
        (Path(folder) / "weights").write_bytes(bytes(self.config.get("bytes", 0)))

    def load_checkpoint(self, folder: str) -> None:
        """Read them."""
        self.x, self.done = json.loads((Path(folder) / "state.json").read_text(encoding="utf-8"))


def generate(config: Mapping[str, Any], session: Any) -> Iterator[dict[str, Any]]:
    """Descend, stored by a function that the session is given."""
    x = 0.0
    if session.checkpoint is not None:
        x = json.loads((session.checkpoint / "x.json").read_text(encoding="utf-8"))

    def save(folder: Path) -> None:
        (folder / "x.json").write_text(json.dumps(x), encoding="utf-8")

    session.save = save
    while True:
        x = descend(x, config.get("rate", 0.1))
        yield {"loss": (x - 3.0) ** 2}


def repeat(config: Mapping[str, Any], session: Any) -> Iterator[dict[str, Any]]:
    """Descend, stored by nobody: going on means doing everything again."""
    x = 0.0
    while True:
        x = descend(x, config.get("rate", 0.1))
        yield {"loss": (x - 3.0) ** 2, "had": session.iterations}


def main() -> int:
    """Descend as a program that is told everything by its environment."""
    config = json.loads(os.environ["OPTPLAN_CONFIG"])
    done, x = int(os.environ["OPTPLAN_DONE"]), 0.0
    if os.environ["OPTPLAN_CHECKPOINT"]:
        x = json.loads((Path(os.environ["OPTPLAN_CHECKPOINT"]) / "x.json").read_text(encoding="utf-8"))
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    target = os.environ["OPTPLAN_ITERATIONS"]
    while (not target or done < int(target)) and not asked:
        x, done = descend(x, config.get("rate", 0.1)), done + 1
        with Path(os.environ["OPTPLAN_METRICS"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"loss": (x - 3.0) ** 2}) + "\n")
        time.sleep(config.get("wait_s", 0.0))
    (Path(os.environ["OPTPLAN_SAVE"]) / "x.json").write_text(json.dumps(x), encoding="utf-8")
    return int(config.get("exit", 0))


if __name__ == "__main__":
    sys.exit(main())
