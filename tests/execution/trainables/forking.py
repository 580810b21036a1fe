"""A program that leaves helpers behind: plain ones, and one in a session of its own that knows nothing of anybody.

Its configuration: ``rate``, ``wait_s``, ``times`` it reports, and what goes wrong (``hang_at``, ``garble_at``).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

#: Runs until somebody ends it, whatever happens to whoever has started it.
FOREVER = ("sleep", "100000")


def fork_helpers(seen: Path) -> None:
    """Start a child and a daemon without an environment, and write down their numbers."""
    plain = subprocess.Popen(FOREVER)
    daemon = subprocess.run(
        ["env", "-i", "sh", "-c", "setsid sleep 100000 >/dev/null 2>&1 & echo $!"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    with seen.open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n{plain.pid}\n{daemon.stdout.strip()}\n")


def main() -> int:
    """Descend as ``quadratic.py`` does, with helpers around it."""
    config = json.loads(os.environ["OPTPLAN_CONFIG"])
    fork_helpers(Path(config["seen"]))
    done, x = int(os.environ["OPTPLAN_DONE"]), 0.0
    if os.environ["OPTPLAN_CHECKPOINT"]:
        x = json.loads((Path(os.environ["OPTPLAN_CHECKPOINT"]) / "x.json").read_text(encoding="utf-8"))
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    target = os.environ["OPTPLAN_ITERATIONS"]
    while (not target or done < int(target)) and not asked:
        x, done = x - config.get("rate", 0.1) * 2.0 * (x - 3.0), done + 1
        line = {"loss": (x - 3.0) ** 2, "training_iteration": done}
        with Path(os.environ["OPTPLAN_METRICS"]).open("a", encoding="utf-8") as file:
            file.write((json.dumps(line) + "\n") * config.get("times", 1))
            file.write("no JSON\n" if done == config.get("garble_at") else "")
        while done == config.get("hang_at"):
            time.sleep(1.0)
        if done <= config.get("waits", done):
            time.sleep(config.get("wait_s", 0.0))
    (Path(os.environ["OPTPLAN_SAVE"]) / "x.json").write_text(json.dumps(x), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
